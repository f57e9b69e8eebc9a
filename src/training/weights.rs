//! The weights at the end of a training, and their digest: two trainings with equal digests have
//! learnt the same.

use xxhash_rust::xxh3::Xxh3;

use crate::checkpoint::SavedVariable;
use crate::graph::{Graph, GraphError, Output, Replica, Target, Variable};
use crate::runtime::Result;
use crate::tensor::Tensor;

use super::checkpoints::part_as_slice;
use super::session::Session;

/// How the trainable variables are read at the end of a training.
pub(super) struct LastReads {
    /// By name; the parts of one are in their order.
    weights: Vec<(Variable, Output)>,
    /// What comes before, in turn.
    before: Vec<Vec<Target>>,
}

impl LastReads {
    /// Those of `graph`. Where each gradient counts by itself, workers may be amid a step when the
    /// chief ends, and its update is counted. The reads come after these steps: the chief puts up a
    /// fence, which is up once they have ended, and lifts it at once.
    pub(super) fn of(graph: &Graph) -> std::result::Result<Self, GraphError> {
        let mut variables = graph.trainable_variables();
        variables.sort_by_cached_key(place);
        let read = |variable: Variable| (variable.clone(), variable.read());
        let weights = variables.into_iter().map(read).collect();
        let has_late_updates = |replica: &Replica| {
            replica.workers > 1
                && !replica.mode.needs().has_rounds()
                && !graph.has_updates_without_chief()
        };
        let Some(replica) = graph.shared_replica().filter(has_late_updates) else {
            return Ok(Self { weights, before: Vec::new() });
        };
        let (fence, lift) = (graph.fence(replica)?, graph.lift_fence(replica)?);
        let all = graph.with_control_dependencies(&[&fence], |graph| {
            let all = graph.initializers().into_iter();
            Ok(all.map(|(variable, _)| variable.read_again().target()).collect())
        })?;
        Ok(Self { weights, before: vec![all, vec![lift]] })
    }

    /// Reads them in `session`. None if only shapes are computed.
    pub(super) async fn read(&self, session: &Session) -> Result<Option<Weights>> {
        // A worker can't end a step whose variables are lost with their task: a step that needs all
        // of them fails then, too.
        for targets in &self.before {
            targets.iter().fold(session.run(), |run, target| run.target(target)).await?;
        }
        let reads = self.weights.iter().map(|(_, read)| read);
        let fetched = reads.fold(session.run(), |run, read| run.fetch(read)).await?;
        let variables = self.weights.iter().map(|(variable, _)| variable.clone());
        let values = (0..self.weights.len()).map(|index| fetched[index].clone());
        let read: Vec<(Variable, Tensor)> = variables.zip(values).collect();
        Ok((!read.iter().any(|(_, value)| value.is_hollow())).then_some(Weights(read)))
    }
}

/// The trainable variables with their values, by name; the parts of one are in their order.
pub(super) struct Weights(Vec<(Variable, Tensor)>);

impl Weights {
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
