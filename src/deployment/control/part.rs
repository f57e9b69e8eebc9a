//! What a task has recorded, on its way from its process to the one that writes the report.

use serde::{Deserialize, Serialize};

use crate::cluster::TaskName;
use crate::training::{
    Beginning, BegunAnew, Ending, Evaluation, FailedCheckpoint, Formed, Recording, Restore,
    StepStats,
};
use crate::units::Time;

/// A part of what one task records. Times are in ns. Floats are sent as bits, because JSON has no
/// NaN.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The number of parameters, and the graph.
    beginning: Option<(u64, Vec<u8>)>,
    steps: Vec<Step>,
    /// The steps of the checkpoints, and the times.
    restored: Vec<(u64, u64)>,
    /// After how many counted steps the task's own values began anew, and whether the training had
    /// gone back to a checkpoint.
    begun_anew: Vec<(u64, bool)>,
    /// When an all-reduce formed, without which tasks, and the samples of its steps.
    formed: Vec<(u64, Vec<TaskName>, u64)>,
    evaluations: Vec<Look>,
    /// The steps of those that could not be written, why, and whether one was the last.
    failed_checkpoints: Vec<(u64, String, bool)>,
    /// The digest of the weights at the end, if there are any.
    ending: Option<Option<u64>>,
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
    is_stopped: bool,
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
    /// All of `recording` that is news: what can't be written stays in it when it was told.
    pub(crate) fn new(recording: &Recording) -> Self {
        let step = |step: StepStats| Step {
            local_step: step.local_step,
            global_step: step.global_step,
            started: step.started.0,
            ended: step.ended.0,
            computed: step.computed.map(|(from, until)| (from.0, until.0)),
            loss: step.loss.map(f32::to_bits),
            staleness: step.staleness,
            applied: step.applied,
            is_stopped: step.is_stopped,
            is_local: step.is_local,
        };
        let look = |look: &Evaluation| Look {
            global_step: look.global_step,
            at: look.at.0,
            loss: look.loss.to_bits(),
            accuracy: look.accuracy.to_bits(),
        };
        let (restored, begun_anew) = (recording.restored.iter(), recording.begun_anew.iter());
        let formed = recording.formed.iter().cloned();
        let failed = recording.new_failed_checkpoints().iter().cloned();
        let beginning = recording.beginning.clone();
        Self {
            beginning: beginning.map(|it| (it.parameters, it.graph)),
            steps: recording.log.iter().map(step).collect(),
            restored: restored.map(|restore| (restore.global_step, restore.at.0)).collect(),
            begun_anew: begun_anew.map(|begun| (begun.count, begun.went_back)).collect(),
            formed: formed.map(|it| (it.at.0, it.without, it.samples)).collect(),
            evaluations: recording.evaluations.iter().map(look).collect(),
            failed_checkpoints: failed.map(|it| (it.global_step, it.why, it.is_last)).collect(),
            ending: recording.ending.map(|ending| ending.weights_digest),
        }
    }

    /// The global step, the loss and the end \[ns\] of the last step, if there is one.
    pub(crate) fn progress(&self) -> Option<(u64, Option<f32>, u64)> {
        let step = self.steps.last()?;
        Some((step.global_step, step.loss.map(f32::from_bits), step.ended))
    }

    /// The global step of the last checkpoint that the training has gone back to, if it has.
    pub(crate) fn restored(&self) -> Option<u64> {
        self.restored.last().map(|(global_step, _)| *global_step)
    }

    /// Adds what `task` has recorded to `recording`.
    pub(crate) fn add_to(self, recording: &mut Recording, task: &TaskName) {
        for step in self.steps {
            recording.log.push(&StepStats {
                worker: task.clone(),
                local_step: step.local_step,
                global_step: step.global_step,
                started: Time(step.started),
                ended: Time(step.ended),
                computed: step.computed.map(|(from, until)| (Time(from), Time(until))),
                loss: step.loss.map(f32::from_bits),
                staleness: step.staleness,
                applied: step.applied,
                is_stopped: step.is_stopped,
                is_local: step.is_local,
            });
        }
        let restore = |(global_step, at)| Restore { global_step, at: Time(at) };
        recording.restored.extend(self.restored.into_iter().map(restore));
        recording.begun_anew.extend(
            self.begun_anew.into_iter().map(|(count, went_back)| BegunAnew {
                worker: task.clone(),
                count,
                went_back,
            }),
        );
        let formed = |(at, without, samples)| Formed { at: Time(at), without, samples };
        recording.formed.extend(self.formed.into_iter().map(formed));
        recording.evaluations.extend(self.evaluations.into_iter().map(|look| Evaluation {
            global_step: look.global_step,
            at: Time(look.at),
            loss: f32::from_bits(look.loss),
            accuracy: f64::from_bits(look.accuracy),
        }));
        recording.failed_checkpoints.extend(
            self.failed_checkpoints
                .into_iter()
                .map(|(global_step, why, is_last)| FailedCheckpoint { global_step, why, is_last }),
        );
        if let Some((parameters, graph)) = self.beginning {
            recording.beginning = Some(Beginning { parameters, graph });
        }
        if let Some(weights_digest) = self.ending {
            recording.ending = Some(Ending { weights_digest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_arrives_as_it_was() {
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
            is_stopped: true,
            is_local: true,
        };
        let look = Evaluation { global_step: 2, at: at(30), loss: 0.5, accuracy: 0.1 };
        let mut told = Recording::default();
        told.beginning = Some(Beginning { parameters: 650, graph: vec![1, 2] });
        told.log.push(&step);
        told.evaluations.push(look);
        let failed =
            FailedCheckpoint { global_step: 7, why: "the disk is full".to_owned(), is_last: true };
        told.failed_checkpoints.push(failed);
        told.restored.push(Restore { global_step: 1, at: at(25) });
        told.begun_anew.push(BegunAnew { worker: worker.clone(), count: 1, went_back: true });
        told.formed.push(Formed { at: at(26), without: vec![worker.clone()], samples: 30 });
        told.ending = Some(Ending { weights_digest: Some(u64::MAX) });
        let text = serde_json::to_string(&Part::new(&told)).unwrap();
        let part: Part = serde_json::from_str(&text).unwrap();
        assert_eq!(part.progress(), Some((2, Some(f32::INFINITY), 20)));
        let mut heard = Recording::default();
        part.add_to(&mut heard, &worker);
        assert_eq!(heard.log.iter().collect::<Vec<_>>(), [step]);
        assert_eq!(heard.evaluations, [look]);
        assert_eq!((heard.beginning, heard.ending), (told.beginning, told.ending));
        assert_eq!(heard.failed_checkpoints, told.failed_checkpoints);
        assert_eq!(heard.formed, told.formed);
        assert_eq!(heard.restored, [Restore { global_step: 1, at: at(25) }]);
        assert_eq!(heard.begun_anew, [BegunAnew { worker, count: 1, went_back: true }]);
    }
}
