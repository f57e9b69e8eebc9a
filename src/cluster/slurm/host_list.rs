//! SLURM's short forms: `n[01-04,7],gpu1` of host names, `2(x3),1` of numbers.

use super::super::job_name::parse_index;
use super::super::{ConfigProblem, MAX_TASKS};

/// The longest name that a host has \[bytes\] (RFC 1035).
const LONGEST: usize = 253;
/// The most digits of a number in a name.
const MOST_DIGITS: usize = 10;

/// Expands a list of hosts, in its order.
pub(super) fn expand_hosts(text: &str) -> Result<Vec<String>, ConfigProblem> {
    let wrong = || ConfigProblem::HostList(text.to_owned());
    let mut hosts = Vec::new();
    for pattern in split_outside_brackets(text.trim()).ok_or_else(wrong)? {
        let expanded = expand_pattern(pattern).ok_or_else(wrong)?;
        hosts.extend(expanded);
        if hosts.len() > MAX_TASKS as usize {
            return Err(wrong());
        }
    }
    Ok(hosts)
}

/// Expands a list of numbers.
pub(super) fn expand_tasks(text: &str) -> Result<Vec<u32>, ConfigProblem> {
    let wrong = || ConfigProblem::Repeats(text.to_owned());
    let mut counts = Vec::new();
    for part in text.trim().split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or_else(wrong)?),
            None => (part, "1"),
        };
        let count = parse_index(count).filter(|count| *count <= MAX_TASKS).ok_or_else(wrong)?;
        let times =
            parse_index(times).filter(|times| (1..=MAX_TASKS).contains(times)).ok_or_else(wrong)?;
        counts.resize(counts.len() + times as usize, count);
        if counts.len() > MAX_TASKS as usize {
            return Err(wrong());
        }
    }
    Ok(counts)
}

/// The parts between the commas outside of brackets; none if the brackets don't match.
fn split_outside_brackets(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match (c, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) | (']', false) => return None,
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!is_inside && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

/// Expands `r[1-2]n[1-3]`; the last brackets change fastest.
fn expand_pattern(pattern: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, next) = after.split_once(']')?;
        let numbers = expand_ranges(ranges)?;
        let count = names.len().checked_mul(numbers.len())?;
        if count > MAX_TASKS as usize || names[0].len() + before.len() > LONGEST {
            return None;
        }
        let mut longer = Vec::with_capacity(count);
        for name in &names {
            longer.extend(numbers.iter().map(|number| format!("{name}{before}{number}")));
        }
        names = longer;
        rest = next;
    }
    if names[0].len() + rest.len() > LONGEST {
        return None;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Some(names)
}

/// Expands `01-04,7` to numbers as wide as they are written.
fn expand_ranges(text: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = first.len();
        if width > MOST_DIGITS {
            return None;
        }
        let (first, last) = (number(first)?, number(last)?);
        if first > last || u64::from(last - first) + numbers.len() as u64 >= u64::from(MAX_TASKS) {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

fn number(text: &str) -> Option<u32> {
    if text.is_empty() { None } else { parse_index(text) }
}
