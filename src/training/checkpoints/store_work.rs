//! The work on the store of checkpoints, on a thread of its own. A store is a disk or a network,
//! which may not answer: then the log says so, and the wait for it ends.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::noted_store::{Asked, NotedStore};
use crate::checkpoint::Store;
use crate::runtime::{Code, Error, NOTICE, Result, panic_text};
use crate::training::task::Task;
use crate::units::Time;

/// The time after which it is looked again whether the store has answered.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The rate of the slowest store that still answers \[bytes/s\]: a large file takes its time.
const SLOWEST: u64 = 50_000_000;

/// What the store is worked on for.
pub(super) struct Purpose {
    what: String,
    /// The class of the error if it does not answer.
    code: Code,
}

impl Purpose {
    /// To read `what`. If the store does not answer, a later try may succeed.
    pub(super) fn read(what: impl Into<String>) -> Self {
        Self { what: what.into(), code: Code::DeadlineExceeded }
    }

    /// To write `what`. If the store does not answer, that is as if it were full.
    pub(super) fn write(what: impl Into<String>) -> Self {
        Self { what: what.into(), code: Code::Unwritable }
    }
}

/// The work on a store, of which there is one at a time. Clones share it.
#[derive(Clone)]
pub(super) struct StoreWork {
    store: Arc<NotedStore>,
    under_way: Rc<RefCell<Option<UnderWay>>>,
}

/// Work that has begun. Whoever has waited for it may have given it up.
struct UnderWay {
    what: String,
    /// Closed at its end.
    end: watch::Receiver<()>,
    /// When the store was last seen to be asked something or to answer, and which event that was.
    heard: Time,
    events: u64,
}

/// The result of a piece of work, or its panic.
type Done<T> = Result<T, Box<dyn Any + Send>>;

impl StoreWork {
    /// Work on `store`, of which none has begun.
    pub(super) fn new(store: &Arc<NotedStore>) -> Self {
        Self { store: Arc::clone(store), under_way: Rc::default() }
    }

    /// Does `work` beside the actors; in a simulation at once, where it takes no time. Work that
    /// was given up before is waited for first.
    ///
    /// # Errors
    /// If the store has not answered for as long as a lost task has to come back, with the code of
    /// `purpose`: the work goes on, and nobody waits for it. If the work panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        task: &Task,
        purpose: &Purpose,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if task.computes_in_no_time() {
            return Ok(work());
        }
        self.wait(task, purpose.code).await?;
        let mut done = self.begin(task, purpose, work)?;
        self.wait(task, purpose.code).await?;
        let failed = |why: &str| {
            Error::new(
                Code::Internal,
                format!("work on checkpoints failed, {}: {why}", purpose.what),
            )
        };
        match done.try_recv() {
            Ok(done) => done.map_err(|panic| failed(panic_text(&*panic))),
            Err(_) => Err(failed("it has no result")),
        }
    }

    /// The error of work that was given up and still goes on, as that of a save; none if there is
    /// none.
    pub(super) fn hang(&self, task: &Task) -> Option<Error> {
        let silence = self.silence(task.now())?;
        Some(Error::new(Code::Unwritable, self.told_of(silence)))
    }

    /// Begins `work`. Why on no thread of the runtime's own: as that ends, it would wait for a
    /// store that never answers.
    fn begin<T: Send + 'static>(
        &self,
        task: &Task,
        purpose: &Purpose,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<Done<T>>> {
        let (sender, done) = oneshot::channel();
        let (ends, end) = watch::channel(());
        let (place, what) = (self.store.locate(""), purpose.what.clone());
        let working = move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            if sender.send(done).is_err() {
                tracing::warn!("{place} answers again: the work that was given up is done, {what}");
            }
            drop(ends);
        };
        let begun = thread::Builder::new().name("checkpoints".to_owned()).spawn(working);
        begun.map_err(|error| {
            let message = format!("there is no thread {}: {error}", purpose.what);
            Error::new(purpose.code, message)
        })?;
        let (what, heard, events) = (purpose.what.clone(), task.now(), self.store.asked().events);
        self.under_way.replace(Some(UnderWay { what, end, heard, events }));
        Ok(done)
    }

    /// Waits until the work that is under way, if there is any, has ended. Says every now and then
    /// that it has not, and shows it as something that the task waits for.
    ///
    /// # Errors
    /// One of class `code`, if the store is silent for too long.
    async fn wait(&self, task: &Task, code: Code) -> Result<()> {
        let (began, limit) = (task.now(), task.patience().recovery);
        let (mut shown, mut told) = (None, 0);
        while let Some(mut end) = self.end() {
            if task.within(Some(LOOK_AGAIN.min(limit)), end.changed()).await.is_some() {
                self.under_way.take();
                break;
            }
            let now = task.now();
            let Some(silence) = self.silence(now) else { break };
            // Work that was given up before is given the same time again.
            let (silence, waited) = (silence.min(now.since(began)), now.since(began));
            let left = (limit + at_the_slowest(&self.store.asked())).saturating_sub(silence);
            if left.is_zero() {
                return Err(Error::new(code, self.told_of(silence)));
            }
            shown.get_or_insert_with(|| task.server().note_wait(self.waited_for()));
            let notices = waited.as_secs() / NOTICE.as_secs();
            if notices > told {
                told = notices;
                let (name, what) = (task.name(), self.waited_for());
                tracing::warn!(
                    "{name} has waited {waited:.0?} for {what}; without an answer it gives that up \
                     in {left:.0?}"
                );
            }
        }
        Ok(())
    }

    /// The end of the work that is under way, as something to wait for.
    fn end(&self) -> Option<watch::Receiver<()>> {
        self.under_way.borrow().as_ref().map(|work| work.end.clone())
    }

    /// For how long the store has neither been asked nor answered; none if no work is under way.
    fn silence(&self, now: Time) -> Option<Duration> {
        let mut under_way = self.under_way.borrow_mut();
        let work = under_way.as_mut()?;
        if work.end.has_changed().is_err() {
            *under_way = None;
            return None;
        }
        let events = self.store.asked().events;
        if events != work.events {
            (work.events, work.heard) = (events, now);
        }
        Some(now.since(work.heard))
    }

    /// Describes the work that is under way, for people.
    fn waited_for(&self) -> String {
        let Asked { what, file, .. } = self.store.asked();
        let under_way = self.under_way.borrow();
        let purpose = under_way.as_ref().map(|work| work.what.as_str()).unwrap_or_default();
        format!("{}, which is to {what} {file}, {purpose}", self.store.locate(""))
    }

    /// The message that the store has been silent for so long, for people.
    fn told_of(&self, silence: Duration) -> String {
        format!(
            "no answer for {silence:.0?} from {}; look whether its disk, or the network to it, \
             stands still",
            self.waited_for()
        )
    }
}

/// The time that what a store was `asked` takes one that is slow.
fn at_the_slowest(asked: &Asked) -> Duration {
    Duration::from_secs(asked.bytes / SLOWEST)
}
