//! While a worker is to be let in behind a barrier, the others rest between two of their steps:
//! after which steps, and the answers that they wait for.

use crate::sync::Effect;

/// Which steps the workers rest after, and the answers to those who rest.
#[derive(Default)]
pub(super) struct Resting {
    rest: Option<Rest>,
    /// The global step after the last round that a worker had ended before anybody counted it.
    ended_ahead: i64,
}

struct Rest {
    /// Workers are held once the global step has reached this.
    from: i64,
    held: Vec<Effect>,
}

impl Resting {
    /// Has the workers rest after the next round that nobody has ended at the global step `now`.
    pub(super) fn begin(&mut self, now: i64) {
        let from = now.max(self.ended_ahead).saturating_add(1);
        self.rest.get_or_insert_with(|| Rest { from, held: Vec::new() });
    }

    /// A worker goes on from the round under way at the global step `now`, which others have yet to
    /// count. These must not rest before they have ended the next round with it.
    pub(super) fn ended_ahead(&mut self, now: i64) {
        self.ended_ahead = now.saturating_add(1);
        if let Some(rest) = self.rest.as_mut().filter(|rest| rest.from == self.ended_ahead) {
            rest.from = rest.from.saturating_add(1);
        }
    }

    /// Keeps `effects`, of a step that has ended at the global step `now`, if its worker rests;
    /// returns those that are not kept.
    pub(super) fn keep(&mut self, now: i64, effects: Vec<Effect>) -> Vec<Effect> {
        match &mut self.rest {
            Some(rest) if now >= rest.from => {
                rest.held.extend(effects);
                Vec::new()
            }
            _ => effects,
        }
    }

    /// Whether a worker whose step ends at the global step `now` rests.
    pub(super) fn holds(&self, now: i64) -> bool {
        self.rest.as_ref().is_some_and(|rest| now >= rest.from)
    }

    /// Ends the rest; returns the effects that were kept.
    pub(super) fn end(&mut self) -> Vec<Effect> {
        self.rest.take().map(|rest| rest.held).unwrap_or_default()
    }
}
