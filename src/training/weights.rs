//! A digest of a training's weights: two trainings with equal digests have learnt the same.

use xxhash_rust::xxh3::Xxh3;

use crate::runtime::Result;

use super::session::Session;

/// A hash of all trainable variables, by name. None if only shapes are computed.
pub(super) async fn weights_digest(session: &Session) -> Result<Option<u64>> {
    let mut variables = session.graph().trainable_variables();
    variables.sort_by_key(|variable| variable.name());
    let mut run = session.run();
    for variable in &variables {
        run = run.fetch(&variable.read());
    }
    let values = run.await?;
    let mut hash = Xxh3::new();
    for (index, variable) in variables.iter().enumerate() {
        hash.update(variable.name().as_bytes());
        if values[index].is_hollow() {
            return Ok(None);
        }
        hash.update(values[index].bytes());
    }
    Ok(Some(hash.digest()))
}
