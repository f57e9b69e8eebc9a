//! Quantities with their units: bytes, rates, work, durations and times, and how each is written.
//!
//! Each quantity has its own type, so that no two are mixed up. Each parses the text of a scenario
//! file (`"50us"`, `"10Gbps"`, `"50GFLOP/s"`) and prints it in the same form.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of so many seconds; the longest there is, if it would be longer.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A point on a clock, in integer nanoseconds since that clock began.
///
/// Virtual time in a simulation; in a deployment, the time since the process began.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// The beginning of the clock.
    pub const ZERO: Self = Self(0);

    /// Seconds since the clock began \[s\].
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This time and `span` later, saturating at the end of the clock (584 years).
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

/// An amount of data \[bytes\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate of data \[bytes/s\].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BytesPerSecond(pub f64);

/// The time that each byte takes \[s/byte\]; written as a length of time, such as `"0.7ns"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct SecondsPerByte(pub f64);

/// A rate of arithmetic \[floating point operations/s\].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FlopsPerSecond(pub f64);

/// A length of time as a scenario writes it: `"50us"`, `"1.5s"`, `"2min"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// For serde's `deserialize_with`: a [`Duration`] written as a span.
    pub(crate) fn duration<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Ok(Self::deserialize(deserializer)?.0)
    }

    /// The same for a duration that may be left out.
    pub(crate) fn some_duration<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Self::duration(deserializer).map(Some)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

/// The error of a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}; write a number and one of {units}, such as `{example}`")]
pub struct ParseQuantityError {
    text: String,
    what: &'static str,
    units: String,
    example: &'static str,
}

/// The units that a quantity may be written in, each with its factor.
struct Scale {
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
}

/// The longest time that can be written: a clock of nanoseconds in 64 bits ends after 584 years.
pub(crate) const LONGEST_SPAN: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

const SPAN: Scale = Scale {
    what: "length of time",
    example: "50us",
    units: &[
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("min", 60.0),
        ("h", 3600.0),
    ],
};
/// The units that a length of time is written in.
const SPAN_STEPS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const BYTES: Scale = Scale {
    what: "size",
    example: "4MiB",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
    ],
};
const DATA_RATE: Scale = Scale {
    what: "data rate",
    example: "10Gbps",
    units: &[
        ("bps", 0.125),
        ("kbps", 125.0),
        ("Mbps", 125e3),
        ("Gbps", 125e6),
        ("Tbps", 125e9),
        ("bit/s", 0.125),
        ("kbit/s", 125.0),
        ("Mbit/s", 125e3),
        ("Gbit/s", 125e6),
        ("Tbit/s", 125e9),
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("MiB/s", 1048576.0),
        ("GiB/s", 1073741824.0),
    ],
};
const FLOP_RATE: Scale = Scale {
    what: "rate of arithmetic",
    example: "50GFLOP/s",
    units: &[
        ("FLOP/s", 1.0),
        ("kFLOP/s", 1e3),
        ("MFLOP/s", 1e6),
        ("GFLOP/s", 1e9),
        ("TFLOP/s", 1e12),
    ],
};

impl Scale {
    fn parse(&self, text: &str) -> Result<f64, ParseQuantityError> {
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | '-' | '+' | '_')))
            .unwrap_or(trimmed.len());
        let number = trimmed[..split].replace('_', "").parse::<f64>().ok();
        let unit = trimmed[split..].trim_start();
        let factor = self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
        match (number, factor) {
            (Some(number), Some(factor)) if number.is_finite() && number >= 0.0 => {
                Ok(number * factor)
            }
            _ => Err(self.refuse(text, self.what)),
        }
    }

    /// The error that `text` is not `what` is needed, in one of the units.
    fn refuse(&self, text: &str, what: &'static str) -> ParseQuantityError {
        let units = self.units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        ParseQuantityError { text: text.to_owned(), what, units, example: self.example }
    }
}

/// The smallest and the largest rate that can be written, in the unit that it is kept in \[1/s\]:
/// with others, times would be beyond every clock, or all 0.
const RATES: [f64; 2] = [1e-3, 1e30];

/// The rate `text` in units of `scale`: 0, which others refuse with their key, or one of [`RATES`].
fn parse_rate(text: &str, scale: &Scale) -> Result<f64, ParseQuantityError> {
    let rate = scale.parse(text)?;
    if rate == 0.0 || (RATES[0]..=RATES[1]).contains(&rate) {
        return Ok(rate);
    }
    Err(scale.refuse(text, "rate from 0.001 to 1e30 a second"))
}

impl FromStr for Span {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = SPAN.parse(text)?;
        let span = Duration::try_from_secs_f64(seconds).ok();
        let in_range = span.filter(|span| *span <= LONGEST_SPAN);
        in_range.map(Self).ok_or_else(|| SPAN.refuse(text, "length of time up to 100 years"))
    }
}

impl FromStr for SecondsPerByte {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(SPAN.parse(text)?))
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(BYTES.parse(text)?.round() as u64))
    }
}

impl FromStr for BytesPerSecond {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(parse_rate(text, &DATA_RATE)?))
    }
}

impl FromStr for FlopsPerSecond {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(parse_rate(text, &FLOP_RATE)?))
    }
}

/// Writes `value` in the largest of the units `steps` of which it is at least one.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: f64, steps: &[(&str, f64)]) -> fmt::Result {
    let (name, factor) =
        steps.iter().rev().find(|(_, factor)| value >= *factor).unwrap_or(&steps[0]);
    let scaled = format!("{:.3}", value / factor);
    write!(f, "{}{name}", scaled.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0.as_secs_f64(), &SPAN_STEPS)
    }
}

impl fmt::Display for SecondsPerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &SPAN_STEPS)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0 as f64, &BYTES.units[..5])
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &DATA_RATE.units[..5])
    }
}

impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, FLOP_RATE.units)
    }
}

macro_rules! serde_as_text {
    ($($quantity:ty: $scale:expr),*) => {$(
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $quantity;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a {} in quotes, such as \"{}\"", $scale.what, $scale.example)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$quantity, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
        impl Serialize for $quantity {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
serde_as_text!(
    Span: SPAN,
    SecondsPerByte: SPAN,
    Bytes: BYTES,
    BytesPerSecond: DATA_RATE,
    FlopsPerSecond: FLOP_RATE
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_in_every_unit_a_scenario_uses() {
        assert_eq!("50us".parse::<Span>().unwrap().0, Duration::from_micros(50));
        assert_eq!("1.5 s".parse::<Span>().unwrap().0, Duration::from_millis(1500));
        assert_eq!("10Gbps".parse::<BytesPerSecond>().unwrap().0, 1.25e9);
        assert_eq!("100Mbit/s".parse::<BytesPerSecond>().unwrap().0, 12.5e6);
        assert_eq!("10GB/s".parse::<BytesPerSecond>().unwrap().0, 10e9);
        assert_eq!("50GFLOP/s".parse::<FlopsPerSecond>().unwrap().0, 50e9);
        assert_eq!("4MiB".parse::<Bytes>().unwrap(), Bytes(4 << 20));
    }

    #[test]
    fn a_quantity_without_a_unit_or_below_zero_is_refused_with_the_units_to_choose_from() {
        for text in ["50", "us", "-1s", "1 fortnight", "", "nan s"] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains("min") && error.contains("50us"), "{error}");
        }
    }

    #[test]
    fn a_time_beyond_every_clock_is_refused_and_not_cut_down() {
        for text in ["1e30s", "1e300h", "101e9s"] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains("up to 100 years"), "{error}");
        }
        assert!("876000h".parse::<Span>().is_ok());
    }

    #[test]
    fn a_rate_by_which_work_would_take_for_ever_or_no_time_is_refused() {
        for text in ["1e-300FLOP/s", "1e-9GFLOP/s", "1e300FLOP/s"] {
            let parsed = text.parse::<FlopsPerSecond>();
            assert_eq!(parsed.is_err(), text != "1e-9GFLOP/s", "{text}");
        }
        let error = "1e-300bps".parse::<BytesPerSecond>().unwrap_err().to_string();
        assert!(error.contains("rate from 0.001") && error.contains("10Gbps"), "{error}");
    }

    #[test]
    fn what_is_printed_parses_back_to_the_same_quantity() {
        for text in ["50us", "1.5s", "250ns", "90ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("10Gbps".parse::<BytesPerSecond>().unwrap().to_string(), "10Gbps");
        assert_eq!("50GFLOP/s".parse::<FlopsPerSecond>().unwrap().to_string(), "50GFLOP/s");
    }
}
