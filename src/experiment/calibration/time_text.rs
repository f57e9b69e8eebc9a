//! How a calibration writes lengths of time: as scenarios read them, to the nanosecond.

use std::time::Duration;

/// The units, each with its nanoseconds and the number of decimals that make up one.
const UNITS: [(&str, u128, usize); 4] =
    [("s", 1_000_000_000, 9), ("ms", 1_000_000, 6), ("us", 1_000, 3), ("ns", 1, 0)];

/// `seconds` in the largest unit that gives at least 1, in quotes, such as `"145.291278ms"`. A
/// scenario reads whole nanoseconds, so that nothing is lost. What a fit of noisy
/// measurements puts below 0 is written as 0.
pub(super) fn time_text(seconds: f64) -> String {
    let nanos = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX).as_nanos();
    let unit = UNITS.iter().find(|(_, factor, _)| nanos >= *factor).unwrap_or(&UNITS[3]);
    let (name, factor, decimals) = *unit;
    let text = format!("{}.{:0decimals$}", nanos / factor, nanos % factor);
    format!("\"{}{name}\"", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Span;

    #[test]
    fn a_time_is_written_in_the_largest_unit_that_it_fills() {
        for (seconds, text) in [
            (0.0, "\"0ns\""),
            (500e-9, "\"500ns\""),
            (10e-6, "\"10us\""),
            (145_291.278e-6, "\"145.291278ms\""),
            (1.5, "\"1.5s\""),
            (100.0, "\"100s\""),
            (1.000_000_001, "\"1.000000001s\""),
            (-3e-6, "\"0ns\""),
        ] {
            assert_eq!(time_text(seconds), text, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_back_as_it_did_when_all_were_written_in_microseconds(
            nanos in prop_oneof![0u64..2_000_000, 0u64..100_000_000_000_000],
        ) {
            let time = Duration::from_nanos(nanos);
            let seconds = time.as_secs_f64();
            let read = |text: &str| text.trim_matches('"').parse::<Span>().map(|span| span.0);
            prop_assert_eq!(read(&time_text(seconds)), Ok(time));
            prop_assert_eq!(read(&format!("{:.4}us", seconds * 1e6)), Ok(time));
        }
    }
}
