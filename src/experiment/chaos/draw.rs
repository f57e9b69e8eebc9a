//! Draws a timeline of faults from a seed.

use std::time::Duration;

use rand::{Rng, RngExt};

use super::judge::Judge;
use crate::cluster::TaskName;
use crate::random;
use crate::simulation::{Damage, Fault, FaultKind, Trigger};
use crate::units::Time;

/// The most faults of a timeline.
const MOST: usize = 4;
/// The longest that a fault lasts: a training waits longer than that for a lost task.
const LONGEST: f64 = 5.0;
/// The chances that a message is late.
const RATES: std::ops::Range<f64> = 0.05..0.5;
/// The factors by which a link or a task is slow.
const FACTORS: std::ops::Range<f64> = 2.0..50.0;

/// The faults of `seed`: one to four of them, and perhaps one of the disk, within the time of the
/// undisturbed run.
pub(super) fn faults(judge: &Judge<'_>, seed: u64) -> Vec<Fault> {
    let tasks: Vec<TaskName> = judge.trial().cluster.spec.tasks().collect();
    let length = judge.length().as_secs_f64();
    let mut draws = random::stream(seed, &["chaos"]);
    let count = draws.random_range(1..=MOST);
    let mut faults: Vec<Fault> = (0..count).map(|_| fault(&mut draws, &tasks, length)).collect();
    if judge.trial().has_checkpoints() {
        faults.extend(disk_fault(&mut random::stream(seed, &["chaos", "disk"]), length));
    }
    faults.sort_by_key(|fault| match fault.at {
        Trigger::Time(time) => time.0,
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

/// How long a fault lasts: short and long ones are equally likely.
fn lasting(draws: &mut impl Rng, length: f64) -> Duration {
    let (shortest, longest) = (length.min(LONGEST) / 200.0, LONGEST);
    whole_micros(shortest * (longest / shortest).powf(draws.random::<f64>()))
}

/// A time that a scenario can write exactly.
fn whole_micros(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).ceil().max(1.0) as u64)
}

/// Two tasks, in the cluster's order. A cluster has two at least: a server and a worker.
fn two_of(draws: &mut impl Rng, tasks: &[TaskName]) -> Vec<TaskName> {
    let one = draws.random_range(0..tasks.len());
    let other = (one + draws.random_range(1..tasks.len())) % tasks.len();
    vec![tasks[one.min(other)].clone(), tasks[one.max(other)].clone()]
}
