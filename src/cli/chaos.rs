//! `--chaos N` of `sim` and `launch`: tries a scenario under drawn faults, and prints which broke a
//! promise.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use super::args::{Format, LaunchArgs, ScenarioArgs, SimArgs};
use super::failure::Failure;
use super::progress::Progress;
use super::stdout::{raw_stdout, stdout};
use crate::deployment::{ExitCode, StopRequest, cores};
use crate::experiment::chaos::{Broken, ChaosReport, ChaosRun, Launches};
use crate::experiment::{Experiment, Launcher, Trainer, Trial};
use crate::report::{Layout, TextTable, World, shell};
use crate::say::say;
use crate::simulation::FaultKind;

/// The number of timelines on processes that a core tries at a time, where the user does not say.
const A_CORE: usize = 3;

/// Simulates `seeds` timelines on each run. A promise that was broken is a bug of this program. If
/// it is asked to stop, it prints what came of those that were over.
pub(super) fn run(
    args: &SimArgs,
    experiment: &Experiment,
    seeds: u64,
    quiet: bool,
    trainer: &impl Trainer,
) -> Result<ExitCode, Failure> {
    let counter = Progress::counter("timelines", quiet);
    let (stop, stopped) = listen()?;
    let show = |run: &ChaosRun, total| counter.show(&run.run, run.tried, total);
    let report = experiment.chaos_until(&stop, trainer, seeds, show)?;
    counter.finish();
    end(&stopped, "sim", (&args.scenario, args.format.format()), &report)
}

/// Launches `timelines` on each run. If it is asked to stop, it prints what came of those that were
/// over.
pub(super) fn launch(
    args: &LaunchArgs,
    experiment: &Experiment,
    mut launcher: Launcher,
    timelines: u64,
    quiet: bool,
) -> Result<ExitCode, Failure> {
    launcher.tell = |_| {}; // several launches at a time
    let jobs = args.jobs.map_or(A_CORE * cores().get(), |jobs| jobs.get() as usize);
    let (stop, stopped) = listen()?;
    let launches = Launches { experiment, launcher, jobs, stop };
    let trials = experiment.trials_in(World::Deployment)?;
    if !quiet && has_full_disk(&trials, timelines) {
        say!("left out, since `launch` can't inflict it: a full disk");
    }
    let counter = Progress::counter("timelines", quiet);
    let report = launches.chaos(trials, timelines, |run, total| {
        counter.show(&run.run, run.tried, total);
    })?;
    counter.finish();
    end(&stopped, "launch", (&args.scenario, args.format.format()), &report)
}

/// Prints `report`. The exit code is that of the request to stop, if one has `stopped` it.
fn end(
    stopped: &mpsc::Receiver<ExitCode>,
    command: &str,
    (scenario, format): (&ScenarioArgs, Format),
    report: &ChaosReport,
) -> Result<ExitCode, Failure> {
    let stopped = stopped.try_recv();
    if stopped.is_err() {
        check_tried(report)?;
    }
    print(command, scenario, format, report)?;
    Ok(stopped.unwrap_or(exit_code(report)))
}

/// Whether a full disk may be among the faults: of `trials`, or of `timelines` that are drawn.
fn has_full_disk(trials: &[Trial], timelines: u64) -> bool {
    let mut own = trials.iter().flat_map(|trial| &trial.cluster.faults.list);
    timelines > 0 || own.any(|fault| matches!(fault.kind, FaultKind::FullDisk { .. }))
}

/// Whether the user has asked to stop, and then with which exit code.
fn listen() -> Result<(Arc<AtomicBool>, mpsc::Receiver<ExitCode>), Failure> {
    let (stop, (sender, stopped)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let flag = Arc::clone(&stop);
    StopRequest::on_signals()?.then(move |code| {
        if sender.send(code).is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
    })?;
    Ok((stop, stopped))
}

/// Checks that anything was tried: a report of nothing would look like a success.
fn check_tried(report: &ChaosReport) -> Result<(), Failure> {
    if report.runs.iter().any(|run| run.tried > 0) {
        return Ok(());
    }
    let problem = "nothing was tried: `--chaos 0` tries the scenario's own faults, and it has no \
                   `[[fault]]`; give it one, or draw faults with `--chaos 20`";
    Err(Failure::NotSupported(problem.to_owned()))
}

fn exit_code(report: &ChaosReport) -> ExitCode {
    if report.is_clean() { ExitCode::Done } else { ExitCode::Internal }
}

fn print(
    command: &str,
    scenario: &ScenarioArgs,
    format: Format,
    report: &ChaosReport,
) -> Result<(), Failure> {
    let written = match format {
        Format::Json => serde_json::to_writer_pretty(raw_stdout(), report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(raw_stdout())),
        Format::Text(layout) => print_table(&mut stdout(), command, scenario, report, layout),
    };
    written.map_err(Failure::writing("the result"))
}

fn print_table(
    out: &mut impl Write,
    command: &str,
    scenario: &ScenarioArgs,
    report: &ChaosReport,
    layout: Layout,
) -> io::Result<()> {
    let mut rows =
        vec![["run", "tried", "to the end", "with an error", "broken"].map(str::to_owned).to_vec()];
    for run in &report.runs {
        let failed: u64 = run.failed.values().sum();
        let counts = [run.tried, run.reached_the_end, failed, run.broken.len() as u64];
        rows.push([vec![run.run.clone()], counts.map(|count| count.to_string()).into()].concat());
    }
    write!(out, "{}", TextTable::new(rows).render(layout))?;
    report.runs.iter().filter_map(errors).try_for_each(|line| writeln!(out, "{line}"))?;
    for run in &report.runs {
        for broken in &run.broken {
            print_broken(out, &run.run, broken)?;
            let replay = replay(command, scenario, &run.run, &broken.faults);
            writeln!(out, "  to replay it:\n    {replay}")?;
        }
    }
    Ok(())
}

/// The command line that tries `run` of the same scenario under `faults`.
fn replay(command: &str, scenario: &ScenarioArgs, run: &str, faults: &str) -> String {
    let flag = |name: &str, value: &dyn ToString| [format!("--{name}"), value.to_string()];
    let mut words = vec!["trainyard".to_owned(), command.to_owned()];
    words.extend(scenario.scenario.iter().map(|path| path.display().to_string()));
    words.extend(scenario.seed.iter().flat_map(|seed| flag("seed", seed)));
    words.extend(scenario.unset.iter().flat_map(|change| flag("unset", change)));
    words.extend(scenario.sets.iter().flat_map(|change| flag("set", change)));
    words.extend(flag("run", &run));
    words.extend(flag("set", &format!("fault={faults}")));
    words.extend(flag("chaos", &0));
    if !scenario.program.is_empty() {
        words.push("--".to_owned());
        words.extend(scenario.program.iter().cloned());
    }
    shell::typed(&words)
}

/// What a timeline breaks.
fn print_broken(out: &mut impl Write, run: &str, broken: &Broken) -> io::Result<()> {
    match broken.seed {
        Some(seed) => write!(out, "\n{run}, seed {seed}, {} faults", broken.drawn)?,
        None => write!(out, "\n{run}, the scenario's own faults")?,
    }
    match broken.repeats {
        Some(repeats) => {
            writeln!(out, " broke, and then {} of {} times:", repeats.again, repeats.tries)?;
        }
        None => writeln!(out, " broke:")?,
    }
    for breach in &broken.breaches {
        writeln!(out, "  {breach}")?;
    }
    for (task, words) in &broken.last_words {
        writeln!(out, "  {task}: {}", words.replace('\n', "\n    "))?;
    }
    if broken.is_cut_short {
        writeln!(
            out,
            "  you asked to stop before all shorter timelines were tried: fewer of these faults \
             may break it, too"
        )?;
    }
    broken.logs.iter().try_for_each(|logs| writeln!(out, "  its logs: {}", logs.display()))
}

/// The errors with which trainings of `run` ended early; none if none did.
fn errors(run: &ChaosRun) -> Option<String> {
    let errors: Vec<String> =
        run.failed.iter().map(|(code, number)| format!("{number} {code}")).collect();
    let told = || format!("{}: with a promised error: {}", run.run, errors.join(", "));
    (!errors.is_empty()).then(told)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::chaos::Repeats;

    #[test]
    fn a_replay_has_all_that_was_changed_in_the_scenario() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            scenario: ScenarioArgs,
        }
        let given = ["sim", "a.toml", "--seed", "7", "--set", "name='it'", "--unset", "fault"];
        let line = <Line as clap::Parser>::parse_from(given);
        let expected = "trainyard sim a.toml --seed 7 --unset fault --set 'name='\\''it'\\''' \
                        --run 'sync, 1 backup' --set 'fault=[]' --chaos 0";
        assert_eq!(replay("sim", &line.scenario, "sync, 1 backup", "[]"), expected);
    }

    #[test]
    fn a_full_disk_is_left_out_where_faults_are_drawn_or_the_scenario_has_one() {
        let left_out = |kind: &str, timelines| {
            let text = format!(
                "fault = [{{ at = \"1s\", {kind}, for = \"1s\" }}]\n[cluster]\nps = 1\n\
                 worker = 1\n[program]\nmodel = \"count\"\n[checkpoint]\nevery_steps = 5\n\
                 [stop]\nsteps = 9\n[[run]]\nmode = \"sync\"\n"
            );
            has_full_disk(&Experiment::parse(text).unwrap().trials().unwrap(), timelines)
        };
        let (other, full) = ("freeze = \"ps:0\"", "full_disk = true");
        assert!(!left_out(other, 0) && left_out(other, 1) && left_out(full, 0));
    }

    #[test]
    fn a_timeline_that_was_cut_short_says_so() {
        let printed = |is_cut_short| {
            let repeats = Some(Repeats { again: 1, tries: 2 });
            let broken = Broken {
                seed: Some(7),
                drawn: 3,
                faults: String::new(),
                breaches: Vec::new(),
                repeats,
                is_cut_short,
                last_words: BTreeMap::new(),
                logs: None,
            };
            let mut out = Vec::new();
            print_broken(&mut out, "sync", &broken).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = "\nsync, seed 7, 3 faults broke, and then 1 of 2 times:\n";
        assert_eq!(printed(false), whole);
        let cut = "  you asked to stop before all shorter timelines were tried: fewer of these \
                   faults may break it, too\n";
        assert_eq!(printed(true), format!("{whole}{cut}"));
    }

    #[test]
    fn the_errors_of_trainings_that_ended_early_are_told_by_their_codes() {
        let run = ChaosRun { run: "sync".to_owned(), tried: 3, ..ChaosRun::default() };
        assert_eq!(errors(&run), None);
        let failed = [("Unavailable".to_owned(), 2), ("VariablesLost".to_owned(), 1)].into();
        let expected = "sync: with a promised error: 2 Unavailable, 1 VariablesLost";
        assert_eq!(errors(&ChaosRun { failed, ..run }).as_deref(), Some(expected));
    }
}
