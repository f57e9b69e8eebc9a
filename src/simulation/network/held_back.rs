//! What held a message back on its way, and for how long.
//!
//! A link that is made twice as fast helps a flow only as far as the next link of its route allows.
//! So the time of a flow is shared out between its bottleneck alone and its bottleneck together
//! with that next link, in such a way that what is made twice as fast, one kind of link or both,
//! saves half of the time that it has here.

use super::route::LinkKind;

/// What holds a message back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// The card of the sender's host.
    SendingCard,
    /// The card of the receiver's host.
    ReceivingCard,
    /// A link that is no card's.
    Between,
    /// Both cards: a faster one alone would wait for the other.
    BothCards,
    /// A card and a link that is none's, likewise.
    CardAndLink,
}

/// The time for which each limit held a message back \[ns\].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HeldBack([u64; 5]);

/// The link of a route that would hold a flow back next.
#[derive(Clone, Copy)]
pub(super) struct NextLink {
    pub(super) kind: LinkKind,
    /// How full it would be if all of its flows were as fast as this one.
    pub(super) fullness: f64,
}

impl HeldBack {
    const LIMITS: [Limit; 5] = [
        Limit::SendingCard,
        Limit::ReceivingCard,
        Limit::Between,
        Limit::BothCards,
        Limit::CardAndLink,
    ];

    /// Held back for `span` \[ns\] by `limit`.
    pub(crate) fn by(limit: Limit, span: u64) -> Self {
        let mut held = Self::default();
        held.0[limit as usize] = span;
        held
    }

    /// Adds `span` \[ns\], for which a link of the kind `bottleneck` held the message back. With
    /// that kind twice as fast, `next` would let it be up to 1 / `fullness` times as fast.
    pub(super) fn add(&mut self, bottleneck: LinkKind, next: Option<NextLink>, span: u64) {
        let fullness = next.map_or(0.0, |next| next.fullness);
        let alone = (span as f64 * (2.0 - 2.0 * fullness).clamp(0.0, 1.0)).round() as u64;
        let alone = alone.min(span);
        self.0[Limit::of(bottleneck) as usize] += alone;
        if let Some(next) = next {
            self.0[Limit::of_both(bottleneck, next.kind) as usize] += span - alone;
        }
    }

    /// Together with what held it back besides.
    pub(super) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|limit| self.0[limit] + other.0[limit]))
    }

    /// Without what had held its flow back `before`.
    pub(super) fn without(self, before: Self) -> Self {
        Self(std::array::from_fn(|limit| self.0[limit].saturating_sub(before.0[limit])))
    }

    /// All of the time \[ns\].
    pub(super) fn span(self) -> u64 {
        self.0.iter().sum()
    }

    /// What held the message back, each with its time \[ns\].
    pub(crate) fn spans(self) -> impl Iterator<Item = (Limit, u64)> {
        Self::LIMITS.into_iter().zip(self.0).filter(|(_, span)| *span > 0)
    }
}

impl Limit {
    pub(super) fn of(kind: LinkKind) -> Self {
        match kind {
            LinkKind::SendingCard => Self::SendingCard,
            LinkKind::ReceivingCard => Self::ReceivingCard,
            LinkKind::Between => Self::Between,
        }
    }

    fn of_both(one: LinkKind, other: LinkKind) -> Self {
        match (one, other) {
            (LinkKind::Between, _) | (_, LinkKind::Between) => Self::CardAndLink,
            _ => Self::BothCards,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_each_share_is_what_twice_the_speed_of_that_saves() {
        for fullness in [0.0, 0.3, 0.5, 0.625, 0.8, 1.0, 1.5] {
            let next = NextLink { kind: LinkKind::ReceivingCard, fullness };
            let mut held = HeldBack::default();
            held.add(LinkKind::SendingCard, Some(next), 1_000);
            let times_as_fast = (1.0 / fullness).clamp(1.0, 2.0);
            let saved = 1_000.0 - 1_000.0 / times_as_fast;
            let expected = [(2.0 * saved).round() as u64, 0, 0, 1_000 - (2.0 * saved) as u64, 0];
            assert_eq!(held, HeldBack(expected), "{fullness}");
        }
    }
}
