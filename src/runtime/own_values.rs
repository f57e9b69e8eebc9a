//! The values of variables that a worker alone has, on their way to checkpoints and back: what a
//! task keeps of its own, and what it has asked others for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::planted::{self, Bug};
use crate::tensor::Tensor;
use crate::transport::PeerId;

use super::signal::Signal;

/// The number of steps of which a task keeps the values. While a fence is up a worker may have
/// ended the last step that counts, or wait for the answer to it.
const KEPT: usize = 2;

/// A worker's own variables after one of its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnValues {
    /// The number of its steps that had been counted then.
    pub count: u64,
    /// The variables by name.
    pub values: Vec<(String, Tensor)>,
}

/// The answer to a question for own values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OwnValuesAnswer {
    /// Those after the step that was asked for or, if that is too long ago, after the last one.
    Values(OwnValues),
    /// The step has not ended yet; they come later.
    Later,
    /// There are none.
    Nothing,
    /// A worker that takes no more steps, to the chief, which has not asked: the last ones.
    Last(OwnValues),
}

/// What a task knows of own values.
#[derive(Default)]
pub(crate) struct KnownOwnValues {
    /// Those of this task's program, after its last steps.
    kept: RefCell<VecDeque<OwnValues>>,
    /// The task that waits for those after a step which has not ended, and the step's count.
    awaited: Cell<Option<(PeerId, u64)>>,
    /// At the chief's task: those in the checkpoint that was restored, by their task.
    restored: RefCell<BTreeMap<PeerId, OwnValues>>,
    /// By task: its last answer; none if it has been asked, and has not answered.
    answers: RefCell<BTreeMap<PeerId, Option<OwnValuesAnswer>>>,
    /// The tasks that train again since they told their last values. A checkpoint that is being
    /// gathered still takes those; the next one asks anew.
    are_back: RefCell<BTreeSet<PeerId>>,
    came: Signal,
}

impl KnownOwnValues {
    /// Keeps `own`, the values after a step of this task's program. Returns the task that has
    /// waited for them.
    pub(super) fn keep(&self, own: OwnValues) -> Option<PeerId> {
        let count = own.count;
        let mut kept = self.kept.borrow_mut();
        kept.retain(|known| known.count < count);
        kept.push_back(own);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        let (waits, from) = self.awaited.get()?;
        (from <= count).then(|| self.awaited.set(None)).map(|()| waits)
    }

    /// Forgets this task's: the training has gone back to an earlier step.
    pub(super) fn forget(&self) {
        self.kept.borrow_mut().clear();
        self.awaited.set(None);
    }

    /// The last values of this task's program.
    pub(super) fn last(&self) -> Option<OwnValues> {
        self.kept.borrow().back().cloned()
    }

    /// The answer to `from`, which asks for this task's values after its step `count`.
    pub(super) fn answer(&self, from: PeerId, count: u64) -> OwnValuesAnswer {
        let kept = self.kept.borrow();
        let exact = kept.iter().find(|own| own.count == count);
        let passed = || kept.back().filter(|own| own.count > count);
        match exact.or_else(passed) {
            Some(own) => OwnValuesAnswer::Values(own.clone()),
            None => {
                self.awaited.set(Some((from, count)));
                OwnValuesAnswer::Later
            }
        }
    }

    /// Notes those in the checkpoint that has been restored.
    pub(super) fn publish(&self, restored: BTreeMap<PeerId, OwnValues>) {
        *self.restored.borrow_mut() = restored;
    }

    /// The answer to `from`, which asks for its values in the checkpoint that was restored. It has
    /// come back to train: its last values are out of date for the next checkpoint.
    pub(super) fn restored_for(&self, from: PeerId) -> OwnValuesAnswer {
        if let Some(Some(OwnValuesAnswer::Last(_))) = self.answers.borrow().get(&from) {
            self.are_back.borrow_mut().insert(from);
        }
        let restored = self.restored.borrow();
        let own = restored.get(&from).filter(|_| !planted::is_in(Bug::ForgetsOwnValues)).cloned();
        own.map_or(OwnValuesAnswer::Nothing, OwnValuesAnswer::Values)
    }

    /// `task` is asked for its values after its step `count`. Returns whether it has to be: it may
    /// have told its last values before, and has taken no step since.
    pub(super) fn ask(&self, task: PeerId, count: u64) -> bool {
        let mut answers = self.answers.borrow_mut();
        let told = answers.get(&task).and_then(Option::as_ref);
        let is_back = self.are_back.borrow_mut().remove(&task);
        let is_last = matches!(told, Some(OwnValuesAnswer::Last(own)) if own.count >= count);
        let has_told = is_last && !is_back;
        if !has_told {
            answers.insert(task, None);
        }
        !has_told
    }

    /// `from` answers, which counts if it was asked or, at the chief's task, if it is the last.
    pub(super) fn hear(&self, from: PeerId, answer: OwnValuesAnswer, is_chief: bool) {
        let mut answers = self.answers.borrow_mut();
        let is_last = is_chief && matches!(answer, OwnValuesAnswer::Last(_));
        if !is_last && !answers.contains_key(&from) {
            return tracing::debug!(?from, "own values that nobody asked for; dropped");
        }
        if is_last {
            self.are_back.borrow_mut().remove(&from);
        }
        answers.insert(from, Some(answer));
        self.came.raise();
    }

    /// `task` is lost: it answers nothing more.
    pub(super) fn lose(&self, task: PeerId) {
        let mut answers = self.answers.borrow_mut();
        if let Some(answer @ (None | Some(OwnValuesAnswer::Later))) = answers.get_mut(&task) {
            *answer = Some(OwnValuesAnswer::Nothing);
            self.came.raise();
        }
    }

    /// Waits until `task` has answered at all.
    pub(super) async fn answered(&self, task: PeerId) {
        self.came.until(|| (!self.is_silent(task)).then_some(())).await;
    }

    /// Waits for the values of `task`; none if it has none, or is lost. Last ones are kept: they
    /// may be asked for again.
    pub(super) async fn told(&self, task: PeerId) -> Option<OwnValues> {
        let look = || match self.answers.borrow().get(&task).cloned() {
            Some(None | Some(OwnValuesAnswer::Later)) => None,
            answer => Some(answer.flatten()),
        };
        match self.came.until(look).await? {
            OwnValuesAnswer::Last(own) => Some(own),
            answer => {
                self.answers.borrow_mut().remove(&task);
                let OwnValuesAnswer::Values(own) = answer else { return None };
                Some(own)
            }
        }
    }

    /// Whether `task` has been asked and has never answered.
    pub(super) fn is_silent(&self, task: PeerId) -> bool {
        matches!(self.answers.borrow().get(&task), Some(None))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn own(count: u64) -> OwnValues {
        OwnValues { count, values: vec![("w".to_owned(), Tensor::scalar(count as f32))] }
    }

    #[test]
    fn values_after_a_step_that_has_not_ended_come_later_and_those_long_past_are_the_last_ones() {
        let (known, chief) = (KnownOwnValues::default(), PeerId(0));
        assert_eq!(known.answer(chief, 1), OwnValuesAnswer::Later);
        assert_eq!(known.keep(own(1)), Some(chief));
        assert_eq!(known.keep(own(2)), None, "it has been told");
        assert_eq!(known.answer(chief, 1), OwnValuesAnswer::Values(own(1)));
        known.keep(own(3));
        assert_eq!(known.answer(chief, 1), OwnValuesAnswer::Values(own(3)));
        known.keep(own(2));
        assert_eq!(known.last(), Some(own(2)), "the training has gone back");
    }

    #[test]
    fn last_values_are_taken_by_the_chief_unasked_and_all_others_only_if_asked_for() {
        let (known, worker) = (KnownOwnValues::default(), PeerId(1));
        known.hear(worker, OwnValuesAnswer::Values(own(1)), true);
        known.hear(worker, OwnValuesAnswer::Last(own(1)), false);
        assert!(known.ask(worker, 1), "nothing has been taken");
        assert!(known.is_silent(worker));
        known.hear(worker, OwnValuesAnswer::Last(own(2)), true);
        assert!(!known.ask(worker, 2), "it has told its last ones");
        known.lose(worker);
        assert!(!known.ask(worker, 2), "and they are kept");
    }

    #[test]
    fn a_worker_that_has_told_its_last_values_and_comes_back_is_asked_again() {
        let (known, worker) = (KnownOwnValues::default(), PeerId(1));
        let last = || OwnValuesAnswer::Last(own(2));
        known.hear(worker, last(), true);
        assert!(known.ask(worker, 3), "it has taken a step since");
        assert!(known.is_silent(worker), "the old values are forgotten");
        // The training may have gone back meanwhile, and the worker has yet to come as far.
        known.hear(worker, last(), true);
        known.restored_for(worker);
        assert!(known.ask(worker, 1), "it trains again");
    }

    #[test]
    fn last_values_that_are_being_gathered_are_taken_though_their_worker_comes_back_meanwhile() {
        let (known, worker) = (KnownOwnValues::default(), PeerId(1));
        known.hear(worker, OwnValuesAnswer::Last(own(2)), true);
        assert!(!known.ask(worker, 2));
        known.restored_for(worker);
        assert_eq!(known.told(worker).now_or_never(), Some(Some(own(2))));
        assert!(known.ask(worker, 2), "the next checkpoint asks it anew");
        assert_eq!(known.told(worker).now_or_never(), None);
        known.hear(worker, OwnValuesAnswer::Last(own(3)), true);
        known.restored_for(worker);
        known.hear(worker, OwnValuesAnswer::Last(own(4)), true);
        assert!(!known.ask(worker, 4), "it has ended again");
    }
}
