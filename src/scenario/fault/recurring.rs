//! Faults that come again and again: the times that their law draws.

use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::{One, name_of};
use crate::random;
use crate::simulation::{Fault, FaultKind, Law, Trigger};
use crate::units::{Span, Time};

use super::super::law::{LawFile, Seconds};

/// The most faults that one `[[fault]]` may be.
const MOST: usize = 100_000;

/// The value of `every` as it is typed: a time, or a law that draws the time.
pub(super) enum Every {
    Always(Span),
    Drawn(LawFile<Seconds>),
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EveryVisitor)
    }
}

struct EveryVisitor;

impl<'de> Visitor<'de> for EveryVisitor {
    type Value = Every;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "a time such as \"10min\", or a law such as \
             { law = \"exponential\", mean = \"10min\" }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Every, E> {
        Span::deserialize(de::value::StrDeserializer::new(text)).map(Every::Always)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Every, A::Error> {
        LawFile::deserialize(MapAccessDeserializer::new(map)).map(Every::Drawn)
    }
}

/// A fault that comes again and again, to each of some tasks.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Recurring {
    /// The path of its `every` in the scenario, such as `fault[0].every`. It names the stream of
    /// its draws.
    path: String,
    /// What happens, to each of the tasks.
    kinds: Vec<FaultKind>,
    /// The time \[s\] to the first, from the run's beginning, and to each other from the end of the
    /// one before.
    law: Law,
    /// When the training ends at the latest.
    until: Time,
}

impl Recurring {
    /// The faults of a run with `seed`, at most [`MOST`].
    pub(super) fn draw(&self, seed: u64) -> Vec<Fault> {
        let all = self.kinds.iter().flat_map(|kind| {
            let fault = |at| Fault { at: Trigger::Drawn(at), kind: kind.clone() };
            self.times(kind, seed).map(fault)
        });
        all.take(MOST).collect()
    }

    /// The times of one of its kinds. Each task has draws of its own.
    fn times(&self, kind: &FaultKind, seed: u64) -> impl Iterator<Item = Time> {
        let task = kind.tasks().first().map(ToString::to_string).unwrap_or_default();
        let mut draws = random::stream(seed, &[&self.path, name_of(kind), &task]);
        let (mut from, span) = (Some(Time::ZERO), kind.span());
        std::iter::from_fn(move || {
            let after = Duration::try_from_secs_f64(self.law.sample(&mut draws)).ok()?;
            let at = from?.after(after);
            from = span.map(|span| at.after(span));
            Some(at).filter(|at| *at < self.until)
        })
    }
}

impl One<'_> {
    /// Reads how often these `kinds` come. Notes mistakes.
    pub(super) fn recurring(mut self, every: Every, kinds: Vec<FaultKind>) -> Option<Recurring> {
        let path = self.key("every");
        let law = match every {
            Every::Always(Span(time)) => Law::Constant { value: time.as_secs_f64() },
            Every::Drawn(law) => law.into_law(&path, None, self.found),
        };
        let why = "what comes again and again is drawn until then";
        let until = Time::ZERO.after(self.needed(self.setting.time_limit, "stop.time", why)?);
        let recurring = Recurring { path: path.clone(), kinds, law, until };
        if recurring.law.validate().is_ok() {
            let are_few = recurring.draw(self.setting.seed).len() < MOST;
            self.found.unless(are_few, path, || {
                format!("it comes {MOST} times and more until `stop.time`; give a longer time")
            });
        }
        Some(recurring)
    }
}
