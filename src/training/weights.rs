//! A digest of a training's weights: two trainings with equal digests have learnt the same.

use xxhash_rust::xxh3::Xxh3;

use crate::graph::Variable;
use crate::runtime::Result;

use super::session::Session;

/// A hash of all trainable variables, by name. It is the same whether a variable is whole or in
/// shards. None if only shapes are computed.
pub(super) async fn weights_digest(session: &Session) -> Result<Option<u64>> {
    let place = |variable: Variable| match variable.part() {
        Some(part) => (part.whole, part.begin, variable),
        None => (variable.name(), 0, variable),
    };
    let mut variables: Vec<_> =
        session.graph().trainable_variables().into_iter().map(place).collect();
    variables.sort_by(|(a, begin_a, _), (b, begin_b, _)| (a, begin_a).cmp(&(b, begin_b)));
    let mut run = session.run();
    for (_, _, variable) in &variables {
        run = run.fetch(&variable.read());
    }
    let values = run.await?;
    let mut hash = Xxh3::new();
    for (index, (whole, begin, _)) in variables.iter().enumerate() {
        if *begin == 0 {
            hash.update(whole.as_bytes());
        }
        if values[index].is_hollow() {
            return Ok(None);
        }
        hash.update(values[index].bytes());
    }
    Ok(Some(hash.digest()))
}
