//! Bugs that a test puts in on purpose, to show that chaos finds them. No other program has them.

/// A bug that a test can put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A shard applies the gradient of a step that is taken again, though it has it already.
    AppliesTwice,
    /// A parameter server that is cleared for a restore lets what was under way go on.
    KeepsOldSteps,
    /// The task of the global step forgets the vote of a step that is taken again.
    LosesVotes,
    /// The task of the global step decides the vote of a step that is taken again anew.
    CountsAgain,
    /// The chief's task forgets what a restored checkpoint has of a worker's own values.
    ForgetsOwnValues,
}

#[cfg(test)]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether `bug` is in.
#[inline]
pub(crate) fn is_in(bug: Bug) -> bool {
    #[cfg(test)]
    return PLANTED.get() == Some(bug);
    #[cfg(not(test))]
    {
        let _none_is = bug;
        false
    }
}

/// The bug that is planted in this thread; a thread that it starts plants it, too.
#[cfg(test)]
pub(crate) fn planted() -> Option<Bug> {
    PLANTED.get()
}

/// Plants a bug in this thread, or none.
#[cfg(test)]
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
