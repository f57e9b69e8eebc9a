//! How the chief gives the shared variables their first values: by their initializers, or by the
//! program's operation and function.

use super::super::session::{Session, SessionRun};
use super::{Finalized, Known};
use crate::runtime::Result;

impl Finalized {
    /// Gives those of `missing` that no checkpoint holds their first values.
    pub(in crate::training) async fn initialize_unsaved(
        &self,
        session: &Session,
        missing: &[&Known],
    ) -> Result<()> {
        let unsaved: Vec<&&Known> =
            missing.iter().filter(|variable| variable.restore.is_none()).collect();
        if unsaved.is_empty() {
            return Ok(());
        }
        let run = self.fed(session.run());
        unsaved.iter().fold(run, |run, variable| run.target(&variable.initializer)).await.map(drop)
    }

    /// `run` with the feeds of the first values.
    fn fed<'a>(&self, run: SessionRun<'a>) -> SessionRun<'a> {
        let feeds = self.given.init_feeds.iter();
        feeds.fold(run, |run, (place, value)| run.feed(place, value.clone()))
    }

    /// Gives `missing`, some of the shared variables, their first values.
    pub(in crate::training) async fn initialize(
        &self,
        session: &Session,
        missing: &[&Known],
    ) -> Result<()> {
        self.is_half_initialized.set(true);
        self.give_first_values(session, missing).await?;
        self.is_half_initialized.set(false);
        Ok(())
    }

    /// Gives `missing` variables their first values. The centers of copies come last: all workers
    /// begin with what the program's `init_fn` has assigned to the chief's copies, or to centers.
    async fn give_first_values(&self, session: &Session, missing: &[&Known]) -> Result<()> {
        let run = self.fed(session.run());
        match &self.given.init_op {
            Some(init_op) => run.target(init_op).await?,
            None => {
                let others = missing.iter().filter(|variable| variable.from_copy.is_none());
                others.fold(run, |run, variable| run.target(&variable.initializer)).await?
            }
        };
        if let Some(init) = &self.given.init_fn {
            init(session).await?;
        }
        self.give_centers(session, missing).await
    }

    /// Gives those of `missing` that are centers the values of the chief's copies, if the program
    /// has set these, and their first values, if it has set neither. No other worker begins before.
    async fn give_centers<'a>(&self, session: &Session, missing: &[&'a Known]) -> Result<()> {
        let from_copy = |center: &&'a Known| Some((*center, center.from_copy.as_ref()?));
        let centers: Vec<_> = missing.iter().filter_map(from_copy).collect();
        if centers.is_empty() {
            return Ok(());
        }
        let asked = centers.iter().fold(session.run(), |run, (center, copy)| {
            run.fetch(&copy.is_initialized).fetch(&center.is_initialized)
        });
        let known = asked.await?;
        let mut run = self.fed(session.run());
        for (index, (center, copy)) in centers.into_iter().enumerate() {
            if known.scalar::<bool>(2 * index)? {
                run = run.target(&copy.assign);
            } else if !known.scalar::<bool>(2 * index + 1)? && self.given.init_op.is_none() {
                run = run.target(&center.initializer);
            }
        }
        run.await.map(drop)
    }

    /// Whether an error has interrupted [`Finalized::initialize`]. Its operations and function are
    /// then called again, though the variables may have values by now.
    pub(in crate::training) fn is_half_initialized(&self) -> bool {
        self.is_half_initialized.get()
    }

    /// Whether the program has its own operation to give the variables their first values.
    pub(in crate::training) fn has_own_init_op(&self) -> bool {
        self.given.init_op.is_some()
    }
}
