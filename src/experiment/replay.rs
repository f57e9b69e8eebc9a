//! Tapes of a trial: recorded where it is deployed, replayed where it is simulated.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::trial::folder_of;
use super::{ExperimentError, Simulated, Trial};
use crate::clock::{Clock, WallClock};
use crate::cluster::TaskName;
use crate::deployment::Seat;
use crate::runtime::{Code, Error};
use crate::simulation::Faults;
use crate::tape::{Header, TapeWriter, Tapes};
use crate::units::Time;

impl Trial {
    /// Begins the tape of the task of `seat` in `folder`.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn tape_writer(
        &self,
        seat: &Seat,
        clock: WallClock,
        folder: &Path,
    ) -> Result<TapeWriter, ExperimentError> {
        let began = clock.date().saturating_sub(clock.now().since(Time::ZERO));
        let header = Header {
            began: began.as_nanos() as u64,
            ..self.header(seat.task(), seat.cluster().tasks())
        };
        Ok(TapeWriter::create(folder, &header, Rc::new(clock))?)
    }

    /// Has its simulation replay the tapes in `folder`, which [`Experiment::launch`] or tasks have
    /// recorded, or in its folder of this run's name. The network, the compute times and the faults
    /// are then those of the tapes.
    ///
    /// [`Experiment::launch`]: super::Experiment::launch
    ///
    /// # Errors
    /// If there are no tapes, if one is damaged, or if they were recorded in another run.
    pub fn replay(&mut self, folder: &Path) -> Result<(), ExperimentError> {
        let tapes = Tapes::load(&folder_of_tapes(folder, &self.name))?;
        tapes.check(&self.header(&tapes.header().task, self.cluster.spec.tasks()))?;
        let cluster = &mut self.cluster;
        let hardware = &mut cluster.hardware;
        (hardware.message_thread, hardware.hosts) = (None, None);
        hardware.noise.clear();
        hardware.gpus.clear();
        cluster.faults = Faults { list: Vec::new(), ..cluster.faults.clone() };
        cluster.replay = Some(Arc::new(tapes));
        self.settings.read_rate = None;
        Ok(())
    }

    /// What its tapes begin with, but for the time.
    fn header(&self, task: &TaskName, tasks: impl Iterator<Item = TaskName>) -> Header {
        let settings = &self.settings;
        let program = format!("{:?}", (&settings.model, &settings.optimizer, settings.batch));
        Header {
            scenario: self.scenario.clone(),
            run: self.run_name().to_owned(),
            how: self.how.clone(),
            seed: self.cluster.seed,
            program: xxh3_64(program.as_bytes()),
            task: task.clone(),
            tasks: tasks.collect(),
            began: 0,
        }
    }

    /// Fails a replay that has ended with other weights than its tapes.
    pub(super) fn compare_weights(&self, mut simulated: Simulated) -> Simulated {
        let tape = self.cluster.replay.as_ref().and_then(|tapes| tapes.weights());
        let own = simulated.recording.ending.and_then(|ending| ending.weights_digest);
        if let (Some(tape), Some(own), Ok(_)) = (tape, own, &simulated.outcome.result)
            && tape != own
        {
            let message = format!(
                "all was delivered as the tapes have it, but the weights differ: {tape:016x} on \
                 the tapes, {own:016x} in the replay; either the program or its data have changed, \
                 or its numbers depend on more than the order of messages"
            );
            simulated.outcome.result = Err(Error::new(Code::Departed, message));
        }
        simulated
    }
}

/// The folder of the tapes of the run `name`: its own below `folder`, if there is one.
fn folder_of_tapes(folder: &Path, name: &str) -> PathBuf {
    let own = folder.join(folder_of(name));
    if own.is_dir() { own } else { folder.to_owned() }
}
