//! The weights at the end of a training, and their digest: two trainings with equal digests have
//! learnt the same.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

use crate::checkpoint::SavedVariable;
use crate::graph::{Graph, GraphError, Replica, Target, Variable};
use crate::optimizer::LocalSgd;
use crate::runtime::Result;
use crate::tensor::Tensor;

use super::checkpoints::part_as_slice;
use super::session::Session;

/// The targets of a run that waits until no other worker can change the variables of `graph` any
/// more; none where the chief's last step is the last change, or updates need no worker.
///
/// In modes without rounds other workers may still be in a step when the chief takes its last.
pub(super) fn last_updates(graph: &Graph) -> std::result::Result<Vec<Target>, GraphError> {
    let has_others = |replica: &Replica| {
        replica.workers > 1
            && !replica.mode.needs().has_rounds()
            && !graph.has_updates_without_chief()
    };
    let Some(replica) = graph.shared_replica().filter(has_others) else { return Ok(Vec::new()) };
    let departures = graph.await_departures(replica)?;
    // A worker can't end a step whose variables are lost with their task: this run, which reads
    // from all tasks that hold any, fails then, too.
    graph.with_control_dependencies(&[&departures], |graph| {
        let all = graph.initializers().into_iter();
        Ok(all.map(|(variable, _)| variable.read_again().target()).collect())
    })
}

/// The trainable variables with their values, by name; the parts of one are in their order.
pub(super) struct Weights(Vec<(Variable, Tensor)>);

impl Weights {
    /// Reads those of `session`: the centers of copies, since a copy has gone through compression.
    /// None if only shapes are computed.
    pub(super) async fn read(session: &Session) -> Result<Option<Self>> {
        let graph = session.graph();
        let mut variables = graph.trainable_variables();
        variables.sort_by_cached_key(place);
        let centers: BTreeMap<String, Variable> =
            graph.variables().into_iter().map(|variable| (variable.name(), variable)).collect();
        let mut run = session.run();
        for variable in &variables {
            let center = centers.get(&LocalSgd::center_of(&variable.name()));
            run = run.fetch(&center.unwrap_or(variable).read());
        }
        let fetched = run.await?;
        let values = (0..variables.len()).map(|index| fetched[index].clone());
        let read: Vec<(Variable, Tensor)> = variables.into_iter().zip(values).collect();
        Ok((!read.iter().any(|(_, value)| value.is_hollow())).then_some(Self(read)))
    }

    /// A hash of all, by name. It is the same whether a variable is whole or in shards.
    pub(super) fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (variable, value) in &self.0 {
            let (whole, begin) = place(variable);
            if begin == 0 {
                hash.update(whole.as_bytes());
            }
            hash.update(value.bytes());
        }
        hash.digest()
    }

    /// The variables as a checkpoint has them.
    pub(super) fn into_saved(self) -> Vec<SavedVariable> {
        let saved = |(variable, value): (Variable, Tensor)| SavedVariable {
            slice: variable.part().as_ref().and_then(part_as_slice),
            is_of_model: true,
            ..SavedVariable::new(variable.name(), value)
        };
        self.0.into_iter().map(saved).collect()
    }
}

/// The name of the whole that `variable` is, or is a part of, and its first row there.
fn place(variable: &Variable) -> (String, usize) {
    let part = variable.part();
    part.map_or_else(|| (variable.name(), 0), |part| (part.whole, part.begin))
}
