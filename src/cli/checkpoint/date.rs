//! A time since the epoch as a date, in UTC.

use std::time::Duration;

/// Shorter times (before the year 2001) count from the beginning of a simulation, not from the
/// epoch.
const LEAST: u64 = 1_000_000_000;
const DAY: u64 = 24 * 60 * 60;
/// The calendar repeats every 400 years.
const DAYS_OF_400_YEARS: u64 = 146_097;
/// The days from the 1st of March of the year 0 to the epoch.
const DAYS_TO_EPOCH: u64 = 719_468;

/// `2026-11-21 16:00:00Z`; for a time in a simulation, `12.500000s`.
pub(super) fn render(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < LEAST {
        return format!("{:.6}s", time.as_secs_f64());
    }
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The year, month and day that is `days` after the epoch (H. Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms": years begin in March, so that a leap day is the last day of its year).
fn date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(DAYS_TO_EPOCH);
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (1_000_000_000, "2001-09-09 01:46:40Z"),
            (1_709_164_800, "2024-02-29 00:00:00Z"),
            (1_709_251_199, "2024-02-29 23:59:59Z"),
            (1_735_689_599, "2024-12-31 23:59:59Z"),
            (1_735_689_600, "2025-01-01 00:00:00Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(render(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(render(Duration::from_millis(12_500)), "12.500000s");
        assert!(render(Duration::MAX).ends_with('Z'));
    }
}
