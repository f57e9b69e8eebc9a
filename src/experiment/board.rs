//! Boards of simulations: who sends to whom, and who waits for whom, while they go on.

use std::sync::Arc;

use super::{Trial, critical_path};
use crate::live::{Board, Seen};
use crate::report::World;
use crate::simulation::{Gauges, Reading};

impl Trial {
    /// The board on which its simulation is shown from now on.
    pub(crate) fn open_board(&mut self) -> Arc<Board> {
        let gauges = Arc::new(Gauges::default());
        self.cluster.gauges = Some(Arc::clone(&gauges));
        let observe = move || {
            let Reading { now, sent, path } = gauges.read();
            let waited = critical_path::waited(&path);
            Seen { now: now.as_secs_f64(), sent, waited }
        };
        Board::of_simulation(self.about(World::Simulation), &self.cluster.spec, observe)
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::Experiment;
    use crate::runtime::Error;
    use crate::training::train;

    #[test]
    fn a_simulation_on_a_board_is_the_same_and_its_gauges_are_its_outcome() -> Result<(), Error> {
        let scenario = "seed = 3\n[cluster]\nps = 2\nworker = 3\n[program]\nmodel = 'null'\n\
                        [stop]\nsteps = 20\n[[run]]\nmode = 'sync'\n";
        let mut trial = Experiment::parse(scenario)?.trials()?.remove(0);
        let alone = trial.simulate(&train).outcome;
        let board = trial.open_board();
        let observed = trial.simulate(&train).outcome;
        assert_eq!((observed.digest, observed.events), (alone.digest, alone.events));
        let reading = trial.cluster.gauges.as_ref().expect("it has a board").read();
        for (task, sent) in &observed.sent {
            let of_task = reading.sent.iter().filter(|((from, _), _)| from == task);
            assert_eq!(of_task.map(|(_, bytes)| bytes).sum::<u64>(), sent.total, "{task}");
        }
        assert_eq!(reading.path, observed.path);
        let names = |part: &str| board.metrics().contains(part);
        assert!(names("task=\"ps:0\"") && names("task=\"worker:2\""), "it has all tasks");
        Ok(())
    }
}
