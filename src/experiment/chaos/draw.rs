//! Draws a timeline of faults from a seed.

use std::time::Duration;

use rand::{Rng, RngExt};

use super::super::Trial;
use super::judge::Judge;
use crate::cluster::TaskName;
use crate::random;
use crate::simulation::{Damage, Fault, FaultKind, Trigger};
use crate::units::Time;

/// The most faults of a timeline.
const MOST: usize = 4;
/// The longest that a fault lasts: a training waits longer than that for a lost task, unless
/// `network.recovery` is shorter.
const LONGEST: f64 = 5.0;
/// The chances that a message is late.
const RATES: std::ops::Range<f64> = 0.05..0.95;
/// The factors by which a link or a task is slow.
const FACTORS: std::ops::Range<f64> = 2.0..50.0;

/// One in so many timelines of a run with checkpoints has messages that come after a restore.
const RESTORES: u32 = 4;

/// The faults of `seed`: one to four of them, perhaps one of the disk, and perhaps a restore while
/// messages are held or a request to stop, within the time of the undisturbed run.
pub(super) fn faults(judge: &Judge<'_>, seed: u64) -> Vec<Fault> {
    let tasks: Vec<TaskName> = judge.trial().cluster.spec.tasks().collect();
    let length = judge.length().as_secs_f64();
    let mut draws = random::stream(seed, &["chaos"]);
    let has = |fault: &Fault| judge.arena().has(judge.trial(), &fault.kind);
    let draw = |draws: &mut _| loop {
        let fault = fault(draws, &tasks, length);
        if has(&fault) {
            break fault;
        }
    };
    let count = draws.random_range(1..=MOST);
    let mut faults: Vec<Fault> = (0..count).map(|_| draw(&mut draws)).collect();
    let mut is_restored = false;
    if judge.trial().has_checkpoints() {
        let drawn = disk_fault(&mut random::stream(seed, &["chaos", "disk"]), length);
        faults.extend(drawn.filter(has));
        let mut draws = random::stream(seed, &["chaos", "restore"]);
        is_restored = draws.random_range(0..RESTORES) == 0;
        if is_restored {
            let silence = judge.trial().cluster.faults.silence;
            let drawn = held_over_a_restore(&mut draws, &tasks, length, silence);
            if drawn.iter().all(has) {
                faults.extend(drawn);
            }
        }
    }
    // A stop excuses much of what a restore may break.
    if !is_restored {
        let drawn = stop(&mut random::stream(seed, &["chaos", "stop"]), &tasks, length);
        let is_drawn = |fault: &Fault| has(fault) && keeps_what_is_learnt(judge.trial(), fault);
        faults.extend(drawn.filter(is_drawn));
    }
    faults.sort_by_key(|fault| match fault.at {
        Trigger::Time(time) | Trigger::Drawn(time) => time.0,
        Trigger::Delivery(number) | Trigger::Event(number) => number,
    });
    faults
}

/// One fault of a run that takes `length` \[s\].
fn fault(draws: &mut impl Rng, tasks: &[TaskName], length: f64) -> Fault {
    let at = Time::ZERO.after(whole_micros(draws.random_range(0.0..length)));
    let lasts = lasting(draws, length);
    let task = tasks[draws.random_range(0..tasks.len())].clone();
    let factor = draws.random_range(FACTORS).round();
    let kind = match draws.random_range(0..24) {
        0..7 => FaultKind::Crash { task, restart_after: Some(lasts) },
        7 => FaultKind::Crash { task, restart_after: None },
        8..13 => FaultKind::Freeze { task, lasts },
        // Nothing is between a task and itself.
        13..18 | 20..24 if tasks.len() == 1 => FaultKind::SlowTask { task, factor, lasts },
        13..16 => FaultKind::Partition { tasks: two_of(draws, tasks), lasts },
        16..18 => FaultKind::SlowLink { tasks: two_of(draws, tasks), factor, lasts },
        20..22 => {
            let from = tasks.iter().position(|one| *one == task).expect("it is one of them");
            let to = (from + draws.random_range(1..tasks.len())) % tasks.len();
            FaultKind::OneWay { from: task, to: tasks[to].clone(), lasts }
        }
        22..24 => {
            let rate = (draws.random_range(RATES) * 100.0).round() / 100.0;
            FaultKind::Loss { tasks: two_of(draws, tasks), rate, lasts }
        }
        _ => FaultKind::SlowTask { task, factor, lasts },
    };
    Fault { at: Trigger::Time(at), kind }
}

/// In one of four timelines, a task that is asked to stop, of a run that takes `length` \[s\].
fn stop(draws: &mut impl Rng, tasks: &[TaskName], length: f64) -> Option<Fault> {
    let at = Time::ZERO.after(whole_micros(draws.random_range(0.0..length)));
    let lasts = lasting(draws, length);
    let task = tasks[draws.random_range(0..tasks.len())].clone();
    let restart_after = match draws.random_range(0..16) {
        0..3 => Some(lasts),
        3 => None,
        _ => return None,
    };
    Some(Fault { at: Trigger::Time(at), kind: FaultKind::Stop { task, restart_after } })
}

/// Whether the training that `fault` stops does not begin anew: a parameter server that is asked to
/// stop ends all tasks, and only checkpoints have what they have learnt.
fn keeps_what_is_learnt(trial: &Trial, fault: &Fault) -> bool {
    let has_server = fault.kind.tasks().iter().any(TaskName::is_parameter_server);
    trial.has_checkpoints() || !has_server
}

/// In one of four timelines, a fault of the disk with the checkpoints, of a run that takes `length`
/// \[s\].
fn disk_fault(draws: &mut impl Rng, length: f64) -> Option<Fault> {
    let at = Time::ZERO.after(whole_micros(draws.random_range(0.0..length)));
    let lasts = lasting(draws, length);
    let kind = match draws.random_range(0..16) {
        0..2 => FaultKind::FullDisk { lasts },
        2 => FaultKind::TornCheckpoint { damage: Damage::Cut },
        3 => FaultKind::TornCheckpoint { damage: Damage::Changed },
        _ => return None,
    };
    Some(Fault { at: Trigger::Time(at), kind })
}

/// A worker's messages to a parameter server are held while another server dies and is restored:
/// they come to a training that has gone back, over a connection that nobody has given up after a
/// limit of `silence`. Of a run that takes `length` \[s\]; nothing for a cluster of fewer than two
/// parameter servers.
fn held_over_a_restore(
    draws: &mut impl Rng,
    tasks: &[TaskName],
    length: f64,
    silence: Duration,
) -> Vec<Fault> {
    let (servers, others): (Vec<&TaskName>, Vec<&TaskName>) =
        tasks.iter().partition(|task| task.is_parameter_server());
    if servers.len() < 2 {
        return Vec::new();
    }
    let held = draws.random_range(0..servers.len());
    let dies = (held + draws.random_range(1..servers.len())) % servers.len();
    let worker = others[draws.random_range(0..others.len())].clone();
    let begins = draws.random_range(0.0..length);
    let later = draws.random_range(0.0..length / 10.0);
    let down = whole_micros(draws.random_range(length / 200.0..length / 10.0));
    let lasts = whole_micros(silence.as_secs_f64() * draws.random_range(0.4..0.95));
    let partition = FaultKind::Partition { tasks: vec![servers[held].clone(), worker], lasts };
    let crash = FaultKind::Crash { task: servers[dies].clone(), restart_after: Some(down) };
    let fault =
        |after: f64, kind| Fault { at: Trigger::Time(Time::ZERO.after(whole_micros(after))), kind };
    vec![fault(begins, partition), fault(begins + later, crash)]
}

/// How long a fault lasts: short and long ones are equally likely.
fn lasting(draws: &mut impl Rng, length: f64) -> Duration {
    let (shortest, longest) = (length.min(LONGEST) / 200.0, LONGEST);
    whole_micros(shortest * (longest / shortest).powf(draws.random::<f64>()))
}

/// A time that a scenario can write exactly.
fn whole_micros(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).ceil().max(1.0) as u64)
}

/// Two tasks of several, in the cluster's order.
fn two_of(draws: &mut impl Rng, tasks: &[TaskName]) -> Vec<TaskName> {
    let one = draws.random_range(0..tasks.len());
    let other = (one + draws.random_range(1..tasks.len())) % tasks.len();
    vec![tasks[one.min(other)].clone(), tasks[one.max(other)].clone()]
}
