//! How a step is counted at the task of the global step.

/// The end of a worker's step in a mode without votes, at the task of the global step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The worker.
    pub(crate) worker: u32,
    /// The id of the master that ordered the step. It differs between lives of the worker.
    pub(crate) master: u64,
    /// Whether an earlier attempt of the step may have been carried out, wholly or in part.
    pub(crate) is_again: bool,
    /// Whether rounds behind a barrier wait for other workers, too.
    pub(crate) has_others: bool,
    /// The global step that the worker's step has read. If its message came late, others may have
    /// raised it since the step began.
    pub(crate) read: i64,
}

/// The result of counting a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The global step after this step.
    pub(crate) global_step: i64,
    /// The number of updates that were applied between the step's reading of the variables and the
    /// application of its gradient.
    pub(crate) staleness: i64,
    /// Whether the step's gradient was applied.
    pub(crate) applied: bool,
    /// Whether others have yet to count the round of the step, as they end theirs.
    pub(crate) is_ahead: bool,
    /// Whether the gradient that was applied is of an earlier attempt at the step.
    pub(crate) is_earlier: bool,
}

impl Counted {
    /// The result of a step that began at the global step `read` and does not count.
    pub(crate) fn dropped(now: i64, read: i64) -> Self {
        Self {
            global_step: now,
            staleness: now.saturating_sub(read),
            applied: false,
            is_ahead: false,
            is_earlier: false,
        }
    }
}

/// Counts each step by itself.
pub(super) fn count_each(now: &mut i64, step: &Ended) -> Counted {
    let before = *now;
    *now = now.saturating_add(1);
    let staleness = before.saturating_sub(step.read);
    Counted { global_step: *now, staleness, applied: true, is_ahead: false, is_earlier: false }
}
