//! A model of a synchronous training whose messages arrive in any order while workers fail.

use proptest::prelude::*;

use crate::sync::{Accumulator, Coordinator, Effect, Mode, Offer, Round};

/// The rounds after which a modelled training is over.
const ROUNDS: u64 = 8;
/// More deliveries than any such training needs; one that takes them all is stuck.
const DELIVERIES: usize = 20_000;

/// Something on its way, to be delivered at any time.
#[derive(Clone, Debug)]
enum Message {
    Gradient { worker: u32, version: u64, variable: usize },
    Vote { worker: u32, version: u64 },
    Close { variable: usize, round: u64, contributors: Vec<u32> },
    Answer { worker: u32 },
    LeaveVariable { worker: u32, variable: usize },
    LeaveTraining { worker: u32 },
}

/// What a modelled worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    /// Reads the variables as soon as each has this version.
    Reading(u64),
    /// Has voted for its step of this version and waits for the answer.
    Waiting(u64),
    Dead,
}

/// Workers, the variables' accumulators and the coordinator of one training.
struct Training {
    backups: bool,
    coordinator: Coordinator,
    accumulators: Vec<Accumulator<u64>>,
    /// Rounds taken of each variable.
    versions: Vec<u64>,
    workers: Vec<Worker>,
    in_flight: Vec<Message>,
}

impl Training {
    fn new(workers: u32, backups: u32, variables: usize) -> Self {
        let accumulator = || if backups > 0 { Accumulator::with_backups(workers) } else { Accumulator::new(workers) };
        Self {
            backups: backups > 0,
            coordinator: Coordinator::new(Mode::Sync { backups }, workers),
            accumulators: (0..variables).map(|_| accumulator()).collect(),
            versions: vec![0; variables],
            workers: vec![Worker::Reading(0); workers as usize],
            in_flight: Vec::new(),
        }
    }

    /// Starts the step of every worker that can read what it waits for.
    fn start_steps(&mut self) {
        let version = *self.versions.iter().min().expect("a training has variables");
        for (worker, state) in (0u32..).zip(&mut self.workers) {
            if !matches!(*state, Worker::Reading(wanted) if wanted <= version) {
                continue;
            }
            let gradients = 0..self.versions.len();
            self.in_flight.extend(gradients.map(|variable| Message::Gradient { worker, version, variable }));
            *state = if self.backups { Worker::Waiting(version) } else { Worker::Reading(version + 1) };
            if self.backups {
                self.in_flight.push(Message::Vote { worker, version });
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Gradient { worker, version, variable } => {
                let offer = self.accumulators[variable].offer(worker, version, version);
                assert!(!matches!(offer, Offer::Replaced(_)), "a worker offers one gradient of a version");
            }
            Message::Vote { worker, version } => {
                let effects = self.coordinator.vote(worker, version);
                self.carry_out(effects);
            }
            Message::Close { variable, round, contributors } => {
                self.accumulators[variable].close_on(round, &contributors);
            }
            Message::Answer { worker } => self.answer(worker),
            Message::LeaveVariable { worker, variable } => self.accumulators[variable].leave(worker),
            Message::LeaveTraining { worker } => {
                let effects = self.coordinator.leave(worker);
                self.carry_out(effects);
            }
        }
        self.apply_rounds();
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Close { round, contributors } => {
                    assert!(contributors.is_sorted_by(|a, b| a < b), "one place a worker, in order");
                    for variable in 0..self.versions.len() {
                        let contributors = contributors.clone();
                        self.in_flight.push(Message::Close { variable, round, contributors });
                    }
                    let answers = contributors.into_iter().map(|worker| Message::Answer { worker });
                    self.in_flight.extend(answers);
                }
                Effect::Drop { worker } => self.in_flight.push(Message::Answer { worker }),
                Effect::Release { worker } => panic!("{worker} committed nothing"),
                Effect::Fenced { worker } => panic!("{worker} has no fence"),
            }
        }
    }

    /// A worker whose step counted or was dropped waits for what comes after the version it had.
    fn answer(&mut self, worker: u32) {
        let state = &mut self.workers[worker as usize];
        *state = match *state {
            Worker::Waiting(version) => Worker::Reading(version + 1),
            Worker::Dead => Worker::Dead,
            Worker::Reading(_) => panic!("{worker} was answered twice"),
        };
    }

    fn apply_rounds(&mut self) {
        for (accumulator, version) in self.accumulators.iter_mut().zip(&mut self.versions) {
            while let Some(Round { number, gradients, .. }) = accumulator.take_ready() {
                assert_eq!(number, *version, "rounds are consecutive");
                assert!(gradients.is_sorted_by(|a, b| a.0 < b.0), "one gradient a worker, in order: {gradients:?}");
                assert!(gradients.iter().all(|(_, of)| of == version), "none is stale: {gradients:?}");
                *version += 1;
            }
        }
    }

    fn crash(&mut self, worker: u32) {
        self.workers[worker as usize] = Worker::Dead;
        let variables = 0..self.versions.len();
        self.in_flight.extend(variables.map(|variable| Message::LeaveVariable { worker, variable }));
        self.in_flight.push(Message::LeaveTraining { worker });
    }

    fn is_over(&self) -> bool {
        self.versions.iter().all(|version| *version >= ROUNDS) || self.workers.iter().all(|w| *w == Worker::Dead)
    }

    /// Trains to the end, delivering next what `picks` says, and once they are used up the oldest.
    fn run(&mut self, picks: &[u16], mut crashes: Vec<(usize, u32)>) {
        let mut picks = picks.iter();
        for delivery in 0..DELIVERIES {
            while let Some(i) = crashes.iter().position(|(at, _)| *at <= delivery) {
                self.crash(crashes.swap_remove(i).1 % self.workers.len() as u32);
            }
            if self.is_over() {
                return;
            }
            self.start_steps();
            assert!(!self.in_flight.is_empty(), "stuck: {:?}, versions {:?}", self.workers, self.versions);
            let next = picks.next().map_or(0, |pick| usize::from(*pick) % self.in_flight.len());
            let message = self.in_flight.remove(next);
            self.deliver(message);
        }
        panic!("no end: {:?}, versions {:?}", self.workers, self.versions);
    }

    /// Ends the training, delivers what is left, and returns who still waits for an answer.
    fn finish(&mut self) -> Vec<Worker> {
        let effects = self.coordinator.finish();
        self.carry_out(effects);
        while let Some(message) = self.in_flight.pop() {
            self.deliver(message);
        }
        self.workers.iter().copied().filter(|worker| matches!(worker, Worker::Waiting(_))).collect()
    }
}

proptest! {
    #[test]
    fn a_synchronous_training_ends_in_any_order_of_messages_and_whoever_fails(
        workers in 1u32..6,
        backups in 0u32..4,
        variables in 1usize..4,
        picks in prop::collection::vec(any::<u16>(), 0..400),
        crashes in prop::collection::vec((0usize..150, 0u32..6), 0..4),
    ) {
        let mut training = Training::new(workers, backups, variables);
        training.run(&picks, crashes);
        prop_assert_eq!(training.finish(), vec![], "every vote is answered");
    }
}
