//! Who is told of a training's checkpoints, what a task has heard of them, and the count of all
//! news that a program waits for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::transport::PeerId;

use super::signal::Signal;

/// The state of a task's watch over the chief's checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The chief has not answered yet.
    #[default]
    Asked,
    /// The chief tells of each checkpoint.
    Answered,
    /// The chief is lost since; it has to be asked again.
    Lost,
}

/// What a program of this task waits for: news of checkpoints, and of the end of the training.
#[derive(Default)]
pub(crate) struct News {
    count: Cell<u64>,
    came: Signal,
}

impl News {
    /// There is news.
    pub(super) fn come(&self) {
        self.count.set(self.count.get() + 1);
        self.came.raise();
    }

    /// The number of times that there was news of checkpoints, or of the end of the training.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Waits until there is more news than `seen`.
    pub(crate) async fn after(&self, seen: u64) {
        self.came.until(|| (self.count.get() != seen).then_some(())).await;
    }
}

/// The news of checkpoints that a task tells and hears.
pub(super) struct CheckpointNews {
    /// The tasks that are told of this task's checkpoints, also after a loss: they may be back.
    watchers: RefCell<BTreeSet<PeerId>>,
    /// The chief, once this task has asked it.
    chief: Cell<Option<PeerId>>,
    watched: Cell<Watched>,
    /// Counts what is heard.
    news: Rc<News>,
}

impl CheckpointNews {
    /// Nobody has asked yet; what is heard counts as `news`.
    pub(super) fn new(news: Rc<News>) -> Self {
        Self {
            watchers: RefCell::default(),
            chief: Cell::default(),
            watched: Cell::default(),
            news,
        }
    }

    /// `watcher` has asked this task.
    pub(super) fn watched_by(&self, watcher: PeerId) {
        self.watchers.borrow_mut().insert(watcher);
    }

    /// The tasks to be told.
    pub(super) fn watchers(&self) -> BTreeSet<PeerId> {
        self.watchers.borrow().clone()
    }

    /// `chief` is asked.
    pub(super) fn watch(&self, chief: PeerId) {
        self.chief.set(Some(chief));
        self.watched.set(Watched::Asked);
    }

    /// Notes an answer of `from`, if it was asked. Set on arrival, like a loss, so that the two
    /// keep their order; `hear` counts the news when the message's turn comes.
    pub(super) fn is_answered(&self, from: PeerId) {
        if self.chief.get() == Some(from) {
            self.watched.set(Watched::Answered);
        }
    }

    /// The turn of that message has come: it is news, if `from` was asked.
    pub(super) fn hear(&self, from: PeerId) {
        if self.chief.get() == Some(from) {
            self.news.come();
        }
    }

    /// `peer` is lost.
    pub(super) fn lose(&self, peer: PeerId) {
        if self.chief.get() == Some(peer) {
            self.watched.set(Watched::Lost);
            self.news.come();
        }
    }

    /// The state of this task's watch over the chief's checkpoints.
    pub(super) fn watched(&self) -> Watched {
        self.watched.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_chief_that_was_asked_is_heard_and_its_loss_has_it_asked_again() {
        let (all, chief, other) = (Rc::new(News::default()), PeerId(1), PeerId(2));
        let news = CheckpointNews::new(Rc::clone(&all));
        let says = |peer| {
            news.is_answered(peer);
            news.hear(peer);
        };
        says(chief);
        assert_eq!((all.count(), news.watched()), (0, Watched::Asked), "nobody was asked");
        news.watch(chief);
        says(other);
        assert_eq!((all.count(), news.watched()), (0, Watched::Asked));
        says(chief);
        assert_eq!((all.count(), news.watched()), (1, Watched::Answered));
        news.lose(other);
        assert_eq!((all.count(), news.watched()), (1, Watched::Answered));
        news.lose(chief);
        assert_eq!((all.count(), news.watched()), (2, Watched::Lost));
    }
}
