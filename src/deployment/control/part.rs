//! One task's recording, on its way from its process to the one that writes the report.

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::runtime::Traffic;
use crate::training::{
    Beginning, BegunAnew, Ending, Evaluation, FailedCheckpoint, Recording, StepStats,
};
use crate::units::Time;

/// One task's share of a run's recording. Times are in ns. Floats are sent as bits, because JSON
/// has no NaN.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The number of parameters, and the graph.
    beginning: Option<(u64, Vec<u8>)>,
    steps: Vec<Step>,
    restored: Vec<u64>,
    /// After how many counted steps the task's own values began anew, and whether the training had
    /// gone back to a checkpoint.
    begun_anew: Vec<(u64, bool)>,
    evaluations: Vec<Look>,
    /// The steps of those that could not be written, why, and whether one was the last.
    failed_checkpoints: Vec<(u64, String, bool)>,
    ended: bool,
    weights_digest: Option<u64>,
    /// The data sent to other tasks.
    pub(crate) sent: Traffic,
    /// The end of the task \[ns\].
    pub(crate) now: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Step {
    local_step: u64,
    global_step: u64,
    started: u64,
    ended: u64,
    computed: Option<(u64, u64)>,
    loss: Option<u32>,
    staleness: u64,
    applied: bool,
    is_local: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Look {
    global_step: u64,
    at: u64,
    loss: u32,
    accuracy: u64,
}

impl Part {
    /// Whether its training ended and is recorded here.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The part of `recording`, of a task that has `sent` so much and ended at `now`.
    pub(crate) fn new(recording: &Recording, sent: Traffic, now: Time) -> Self {
        let step = |step: &StepStats| Step {
            local_step: step.local_step,
            global_step: step.global_step,
            started: step.started.0,
            ended: step.ended.0,
            computed: step.computed.map(|(from, until)| (from.0, until.0)),
            loss: step.loss.map(f32::to_bits),
            staleness: step.staleness,
            applied: step.applied,
            is_local: step.is_local,
        };
        let look = |look: &Evaluation| Look {
            global_step: look.global_step,
            at: look.at.0,
            loss: look.loss.to_bits(),
            accuracy: look.accuracy.to_bits(),
        };
        Self {
            beginning: recording.beginning.clone().map(|it| (it.parameters, it.graph)),
            steps: recording.steps.iter().map(step).collect(),
            restored: recording.restored.clone(),
            begun_anew: recording
                .begun_anew
                .iter()
                .map(|begun| (begun.count, begun.went_back))
                .collect(),
            evaluations: recording.evaluations.iter().map(look).collect(),
            failed_checkpoints: recording
                .failed_checkpoints
                .iter()
                .map(|failed| (failed.global_step, failed.why.clone(), failed.is_last))
                .collect(),
            ended: recording.ending.is_some(),
            weights_digest: recording.ending.and_then(|ending| ending.weights_digest),
            sent,
            now: now.0,
        }
    }

    /// Adds `task`'s part to `recording`. `ahead` \[ns\] is added to the task's times: it is how
    /// far the recording's clock is ahead of the task's.
    pub(crate) fn add_to(&self, recording: &mut Recording, task: &TaskName, ahead: i64) {
        let time = |time: u64| Time(time.saturating_add_signed(ahead));
        recording.steps.extend(self.steps.iter().map(|step| StepStats {
            worker: task.clone(),
            local_step: step.local_step,
            global_step: step.global_step,
            started: time(step.started),
            ended: time(step.ended),
            computed: step.computed.map(|(from, until)| (time(from), time(until))),
            loss: step.loss.map(f32::from_bits),
            staleness: step.staleness,
            applied: step.applied,
            is_local: step.is_local,
        }));
        recording.restored.extend(&self.restored);
        recording.begun_anew.extend(self.begun_anew.iter().map(|&(count, went_back)| BegunAnew {
            worker: task.clone(),
            count,
            went_back,
        }));
        recording.evaluations.extend(self.evaluations.iter().map(|look| Evaluation {
            global_step: look.global_step,
            at: time(look.at),
            loss: f32::from_bits(look.loss),
            accuracy: f64::from_bits(look.accuracy),
        }));
        let failed = self.failed_checkpoints.iter().cloned();
        recording.failed_checkpoints.extend(
            failed.map(|(global_step, why, is_last)| FailedCheckpoint {
                global_step,
                why,
                is_last,
            }),
        );
        if let Some((parameters, graph)) = self.beginning.clone() {
            recording.beginning = Some(Beginning { parameters, graph });
        }
        if self.ended {
            recording.ending = Some(Ending { weights_digest: self.weights_digest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Traffic = Traffic { total: 7, steps: 5 };

    #[test]
    fn a_part_arrives_as_it_was_but_for_the_clock() {
        let worker = TaskName::new("worker", 1);
        let at = Time;
        let step = StepStats {
            worker: worker.clone(),
            local_step: 1,
            global_step: 2,
            started: at(10),
            ended: at(20),
            computed: Some((at(12), at(15))),
            loss: Some(f32::INFINITY),
            staleness: 3,
            applied: true,
            is_local: true,
        };
        let look = Evaluation { global_step: 2, at: at(30), loss: 0.5, accuracy: 0.1 };
        let mut told = Recording::default();
        told.beginning = Some(Beginning { parameters: 650, graph: vec![1, 2] });
        told.steps.push(step.clone());
        told.evaluations.push(look);
        let failed =
            FailedCheckpoint { global_step: 7, why: "the disk is full".to_owned(), is_last: true };
        told.failed_checkpoints.push(failed);
        told.restored.push(1);
        told.begun_anew.push(BegunAnew { worker: worker.clone(), count: 1, went_back: true });
        told.ending = Some(Ending { weights_digest: Some(u64::MAX) });
        let text = serde_json::to_string(&Part::new(&told, SENT, at(40))).unwrap();
        let part: Part = serde_json::from_str(&text).unwrap();
        let mut heard = Recording::default();
        part.add_to(&mut heard, &worker, 5);
        let later =
            StepStats { started: at(15), ended: at(25), computed: Some((at(17), at(20))), ..step };
        assert_eq!((heard.steps, part.sent, part.now), (vec![later], SENT, 40));
        assert_eq!(heard.evaluations, [Evaluation { at: at(35), ..look }]);
        assert_eq!((heard.beginning, heard.ending), (told.beginning, told.ending));
        assert_eq!(heard.failed_checkpoints, told.failed_checkpoints);
        assert_eq!((heard.restored, heard.begun_anew), (told.restored, told.begun_anew));
    }
}
