//! The first values of variables, which the chief gives them, and only where nothing that was learnt is lost.

use crate::graph::Variable;
use crate::runtime::{Code, Error, Result};

use super::session::Session;

/// Gives a first value to each variable that has none.
///
/// # Errors
/// If the training has begun and a part of it is lost: with first values in its place it would go on from a mixture.
pub(super) async fn initialize(session: &Session, global_step: &Variable) -> Result<()> {
    let initializers = session.graph().initializers();
    let mut asked = session.run();
    for (variable, _) in &initializers {
        asked = asked.fetch(&variable.is_initialized());
    }
    let known = asked.await?;
    let (mut run, mut missing) = (session.run(), None);
    let mut has_global_step = false;
    for (index, (variable, initializer)) in initializers.iter().enumerate() {
        if known.scalar::<bool>(index)? {
            has_global_step |= variable.name() == global_step.name();
        } else {
            run = run.target(initializer);
            missing = Some(variable.name());
        }
    }
    if let Some(missing) = missing.filter(|_| has_global_step) {
        let step = session.run().fetch(&global_step.read()).await?.scalar::<i64>(0)?;
        if step > 0 {
            let message = format!(
                "the training is at global step {step}, but `{missing}` has no value: its task has come back without \
                 its variables, and no checkpoint to restore"
            );
            return Err(Error::new(Code::Unavailable, message));
        }
    }
    run.await.map(|_| ())
}
