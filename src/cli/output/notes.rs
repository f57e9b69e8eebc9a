//! What stands below a result's table of each run: digests, what it went on from, what it lacked.

use super::digests;
use crate::cluster::TaskName;
use crate::report::{Report, Run, SkippedFaultText};

/// By run: its digests, the step that it went on from, and checkpoints that could not be written.
pub(super) fn notes(report: &Report) -> Vec<String> {
    // Of many seeds they would be many lines; the JSON has them all.
    let is_one_seed = report.runs.iter().all(|run| run.seed == report.seed);
    let mut notes = Vec::new();
    for run in &report.runs {
        let name = &run.name;
        if is_one_seed {
            notes.push(format!("{name}: {}", digests(run)));
        }
        notes.extend(run.resumed_from.map(|step| match run.had_nothing_to_do() {
            true => {
                let place = run.checkpoint_place.as_deref();
                let place = place.map_or_else(String::new, |place| format!(" in {place}"));
                let state = match run.is_end_saved() {
                    true => format!("is saved{place}"),
                    false => "was reached by an earlier process".to_owned(),
                };
                format!("{name}: nothing was left to do: step {step}, its last, {state}")
            }
            false => format!(
                "{name}: went on from step {step}, to which an earlier process had led it: seconds \
                 and rates are those since then"
            ),
        }));
        if is_one_seed {
            notes.extend(absences(run).chain(repeated_faults(run)));
        }
        notes.extend(failed_checkpoints(name, &run.failed_checkpoints));
    }
    let skipped = report.runs.iter().map(|run| (&*run.name, &*run.skipped_faults));
    notes.extend(skipped_faults(&skipped.collect::<Vec<_>>()));
    notes
}

/// A line for each task that `run` took steps without.
fn absences(run: &Run) -> impl Iterator<Item = String> {
    let has_servers = run.bytes_sent.keys().any(TaskName::is_parameter_server);
    let what = match has_servers {
        true => "their rounds lack its gradients",
        false => "the others shared its part of the batch",
    };
    let line = move |(task, steps)| format!("{}: {steps} steps without {task}: {what}", run.name);
    run.steps_without.iter().map(line)
}

/// A line for the faults that `run` met, where one of a kind came again.
fn repeated_faults(run: &Run) -> Option<String> {
    run.faults.values().find(|count| **count > 1)?;
    let kinds = run.faults.iter().map(|(kind, count)| format!("{count} `{kind}`"));
    Some(format!("{}: met these faults: {}", run.name, kinds.collect::<Vec<_>>().join(", ")))
}

/// How many of many lines of one sort are shown; a full disk fails many checkpoints, and a law
/// draws many faults.
const SHOWN: usize = 3;

/// The number of `lines` that are shown: all, or the first, if several are left out.
fn shown(lines: usize) -> usize {
    if lines > SHOWN + 1 { SHOWN } else { lines }
}

/// A line for each of the first of the checkpoints of the run `name` that could not be written, and
/// one for the others.
fn failed_checkpoints(name: &str, failed: &[(u64, String)]) -> Vec<String> {
    let line = |(step, why): &(u64, String)| {
        format!("{name}: the checkpoint of step {step} could not be written: {why}")
    };
    let (shown, others) = failed.split_at(shown(failed.len()));
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    if let Some((step, why)) = others.last() {
        let others = others.len();
        lines.push(format!(
            "{name}: {others} more could not be written, the last that of step {step}: {why}"
        ));
    }
    lines
}

/// A line for each of the first faults that did not happen in one of `runs`, which have a name and
/// such faults, and one for the others.
fn skipped_faults(runs: &[(&str, &[SkippedFaultText])]) -> Vec<String> {
    let mut skipped: Vec<(&SkippedFaultText, Vec<&str>)> = Vec::new();
    for (name, faults) in runs {
        for fault in *faults {
            match skipped.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, names)) if names.last() == Some(name) => {}
                Some((_, names)) => names.push(name),
                None => skipped.push((fault, vec![name])),
            }
        }
    }
    let line = |(SkippedFaultText { fault, why }, names): (&SkippedFaultText, Vec<&str>)| {
        let of = match names.len() {
            1 => names.concat(),
            2..=3 => format!("`{}`", names.join("`, `")),
            several => format!("{several} of {} runs", runs.len()),
        };
        format!("{of}: this fault did not happen: {fault}: {why}")
    };
    let others = skipped.split_off(shown(skipped.len()));
    let others = (!others.is_empty())
        .then(|| format!("{} more faults did not happen: result.json has them", others.len()));
    skipped.into_iter().map(line).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_did_not_happen_has_one_line_for_all_runs_that_it_was_skipped_in() {
        let skipped = |fault: &str| vec![SkippedFaultText::new(fault, "the run had ended before")];
        let (late, later) = (skipped("{ at = \"8s\" }"), skipped("{ at = \"9s\" }"));
        let both = [late.clone(), later].concat();
        let lines = skipped_faults(&[("sync", &both), ("async", &late), ("ssp", &[])]);
        let expected = [
            "`sync`, `async`: this fault did not happen: { at = \"8s\" }: the run had ended before",
            "sync: this fault did not happen: { at = \"9s\" }: the run had ended before",
        ];
        assert_eq!(lines, expected);
        let of_seeds = [("a", &*late), ("b", &late), ("c", &late), ("d", &late), ("e", &[])];
        let lines = skipped_faults(&of_seeds);
        assert!(lines[0].starts_with("4 of 5 runs: this fault did not happen"), "{lines:?}");
        let many: Vec<_> =
            (0..5).flat_map(|at| skipped(&format!("{{ at = \"{at}s\" }}"))).collect();
        let lines = skipped_faults(&[("a", &many)]);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "2 more faults did not happen: result.json has them");
    }

    #[test]
    fn of_many_checkpoints_that_could_not_be_written_the_first_ones_have_a_line_each() {
        let failed: Vec<(u64, String)> = (1..=9).map(|step| (step, "full".to_owned())).collect();
        let lines = failed_checkpoints("a", &failed);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2], "a: the checkpoint of step 3 could not be written: full");
        assert_eq!(lines[3], "a: 6 more could not be written, the last that of step 9: full");
        assert_eq!(failed_checkpoints("a", &failed[..4]).len(), 4, "one more is told itself");
        assert!(failed_checkpoints("a", &[]).is_empty());
    }
}
