//! A model of a training in rounds whose messages arrive in any order while workers fail.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::sync::accumulator::Round;
use crate::sync::gradients::{Arrived, Treatment};
use crate::sync::{
    Accumulator, Contribution, Coordinator, Decider, Effect, Epoch, Fate, Leaving, Membership,
    Mode, Offer, Participation, Progress, RoundPosition, Verdict, Version, View, Views,
};

/// The number of rounds after which a modelled training is over.
const ROUNDS: u64 = 8;
/// More deliveries than any such training needs; a training that takes them all is stuck.
const DELIVERIES: usize = 20_000;

/// The task of the global step, which lives once.
const DECIDER: Decider = Decider { task: 0, incarnation: None };

/// A message on its way, to be delivered at any time.
#[derive(Clone, Debug)]
enum Message {
    Vote { worker: u32, version: u64 },
    Answer { worker: u32, verdict: Verdict },
    Gradient { worker: u32, version: u64, variable: usize, verdict: Verdict },
    LeaveTraining { worker: u32 },
    Flush { variable: usize, number: u32, out: Vec<u32> },
    Flushed { variable: usize, number: u32, progress: Vec<(u32, Progress)> },
    Install { variable: usize, view: View },
}

/// The state of a modelled worker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Worker {
    /// Between two steps.
    Idle,
    /// Has voted for its step of this version and waits for the answer.
    Voting(u64),
    /// Waits for these variables to take its gradients.
    Sending(BTreeSet<usize>),
    Dead,
}

/// Whether a worker goes on before its gradient is applied.
fn goes_on(mode: Mode) -> bool {
    let place = Some(RoundPosition { round: 0, index: 0 });
    let verdict = Verdict { epoch: Epoch(1), place, closed: Vec::new() };
    let arrived = Arrived { worker: 0, version: 0, now: 0, verdict: Some(&verdict) };
    matches!(mode.on_gradient(&arrived), Treatment::Collect { waits: false, .. })
}

/// Workers, the variables' accumulators and the coordinator of one training.
struct Training {
    mode: Mode,
    coordinator: Coordinator,
    /// The membership at the task of the global step.
    members: Membership,
    /// The views, at the task of the global step.
    views: Views,
    /// Who takes part, as the task of each variable has been told.
    parts: Vec<Participation>,
    /// Behind a barrier: the contributors of each round so far, and those who may be missing.
    made_of: BTreeMap<u64, BTreeSet<u32>>,
    torn: BTreeSet<u32>,
    /// Each variable's accumulator; a gradient is the version that it was computed from.
    accumulators: Vec<Accumulator<u64>>,
    /// The number of rounds taken of each variable.
    versions: Vec<u64>,
    workers: Vec<Worker>,
    /// The rounds that some variable may not know to be closed, with their contributors.
    closed: BTreeMap<u64, Vec<u32>>,
    in_flight: Vec<Message>,
}

impl Training {
    fn new(mode: Mode, workers: u32, variables: usize) -> Self {
        let accumulator = || match mode.needs().has_votes() {
            true => Accumulator::of_voters(workers, Membership::default().epoch()),
            false => Accumulator::of_all(workers, 0),
        };
        Self {
            mode,
            coordinator: Coordinator::new(mode, workers, &Membership::default()),
            members: Membership::default(),
            views: Views::default(),
            parts: (0..variables).map(|_| Participation::default()).collect(),
            made_of: BTreeMap::new(),
            torn: BTreeSet::new(),
            accumulators: (0..variables).map(|_| accumulator()).collect(),
            versions: vec![0; variables],
            workers: vec![Worker::Idle; workers as usize],
            closed: BTreeMap::new(),
            in_flight: Vec::new(),
        }
    }

    /// Starts a step of every idle worker.
    fn start_steps(&mut self) {
        let version = *self.versions.iter().min().expect("a training has variables");
        let idle: Vec<u32> =
            (0..).zip(&self.workers).filter(|(_, w)| **w == Worker::Idle).map(|(i, _)| i).collect();
        for worker in idle {
            if self.mode.needs().has_votes() {
                self.workers[worker as usize] = Worker::Voting(version);
                self.in_flight.push(Message::Vote { worker, version });
            } else {
                let place = Some(RoundPosition { round: version, index: worker });
                let epoch = self.coordinator.epoch();
                self.send(worker, version, &Verdict { epoch, place, closed: Vec::new() });
            }
        }
    }

    fn send(&mut self, worker: u32, version: u64, verdict: &Verdict) {
        let variables = 0..self.versions.len();
        self.workers[worker as usize] = Worker::Sending(variables.clone().collect());
        let gradient =
            |variable| Message::Gradient { worker, version, variable, verdict: verdict.clone() };
        self.in_flight.extend(variables.map(gradient));
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Vote { worker, version } => {
                self.closed.retain(|round, _| *round >= version);
                let version = Version { updates: version, ..Version::default() };
                let one = Contribution { worker, version };
                let effects = self.coordinator.vote(&self.members, one);
                self.carry_out(effects);
            }
            Message::Answer { worker, verdict } => match self.workers[worker as usize] {
                Worker::Voting(version) => self.send(worker, version, &verdict),
                Worker::Dead => {}
                _ => panic!("{worker} was answered twice"),
            },
            Message::Gradient { worker, version, variable, verdict } => {
                self.offer(worker, version, variable, &verdict)
            }
            Message::LeaveTraining { worker } => {
                self.members.leave(worker, Leaving::Done);
                let effects = self.coordinator.leave(&self.members, worker);
                self.carry_out(effects);
                self.views.lose(worker);
                if self.views.begin(true) {
                    let (number, out) = self.views.proposed().expect("it has just begun");
                    let flush = |variable| Message::Flush { variable, number, out: out.clone() };
                    self.in_flight.extend((0..self.versions.len()).map(flush));
                }
            }
            Message::Flush { variable, number, out } => {
                let of = |worker: &u32| self.accumulators[variable].progress(*worker);
                let progress = out.iter().filter_map(|worker| Some((*worker, of(worker)?)));
                let progress = progress.collect();
                self.parts[variable].flush(DECIDER, number, out);
                self.in_flight.push(Message::Flushed { variable, number, progress });
            }
            Message::Flushed { variable, number, progress } => {
                self.views.answer(variable as u32, number, &progress);
                self.end_change();
            }
            Message::Install { variable, view } => {
                for (worker, fate) in self.parts[variable].install(DECIDER, view) {
                    if fate == Fate::Dropped {
                        self.accumulators[variable].withdraw_of(worker);
                    }
                }
            }
        }
        self.apply_rounds();
    }

    fn end_change(&mut self) {
        let mut variables = 0..self.versions.len();
        if self.views.is_changing() && !variables.any(|task| self.views.waits_for(task as u32)) {
            self.torn.extend(self.views.install(self.coordinator.round().unwrap_or_default()));
            let view = self.views.view();
            let install = |variable| Message::Install { variable, view: view.clone() };
            self.in_flight.extend((0..self.versions.len()).map(install));
        }
    }

    fn offer(&mut self, worker: u32, version: u64, variable: usize, verdict: &Verdict) {
        let accumulator = &mut self.accumulators[variable];
        verdict
            .closed
            .iter()
            .for_each(|(round, contributors)| accumulator.close_on(*round, contributors));
        let part = &self.parts[variable];
        let offer = verdict.place.map(|place| accumulator.offer(part, worker, place, version));
        match offer {
            Some(Offer::Held) if !goes_on(self.mode) => {}
            Some(Offer::Replaced(_)) if goes_on(self.mode) => self.taken(worker, variable),
            Some(Offer::Replaced(_)) => panic!("{worker} has one gradient for a place"),
            Some(Offer::Stale) => panic!("a variable was updated without {worker}, who lives"),
            None | Some(Offer::Held | Offer::Departed) => self.taken(worker, variable),
        }
    }

    /// Notes that the variable has taken the worker's gradient. The step is over once all variables
    /// have.
    fn taken(&mut self, worker: u32, variable: usize) {
        let state = &mut self.workers[worker as usize];
        if let Worker::Sending(left) = state {
            left.remove(&variable);
            if left.is_empty() {
                *state = Worker::Idle;
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let (worker, place) = match effect {
                Effect::Close { round, contributors } => {
                    self.closed.insert(round, contributors);
                    continue;
                }
                Effect::Count { worker, place } => (worker, Some(place)),
                Effect::Drop { worker } => (worker, None),
                Effect::Stop { worker }
                | Effect::Release { worker }
                | Effect::Fenced { worker } => {
                    panic!("{worker} asked for no such thing")
                }
            };
            let epoch = self.coordinator.epoch();
            let runs =
                |(round, workers): (&u64, &Vec<u32>)| (*round, workers.iter().copied().collect());
            let closed = self.closed.iter().map(runs).collect();
            let verdict = Verdict { epoch, place, closed };
            self.in_flight.push(Message::Answer { worker, verdict });
        }
    }

    fn apply_rounds(&mut self) {
        for variable in 0..self.versions.len() {
            while let Some(Round { number, gradients }) =
                self.accumulators[variable].take_ready(&self.parts[variable])
            {
                assert_eq!(number, self.versions[variable], "rounds are consecutive");
                self.check_round(number, &gradients);
                self.check_contributors(number, &gradients);
                self.versions[variable] += 1;
                if !goes_on(self.mode) {
                    gradients.iter().for_each(|(worker, _)| self.taken(*worker, variable));
                }
            }
        }
    }

    fn check_round(&self, number: u64, gradients: &[(u32, u64)]) {
        let is_sorted = gradients.is_sorted_by(|a, b| a.0 < b.0);
        assert!(is_sorted || goes_on(self.mode), "one gradient a worker, in order: {gradients:?}");
        let takes_any = matches!(self.mode, Mode::KAsync { .. } | Mode::KBatchAsync { .. });
        let is_fresh = gradients.iter().all(|(_, of)| *of == number);
        assert!(is_fresh || takes_any, "none is stale in {number}: {gradients:?}");
        assert!(
            gradients.iter().all(|(_, of)| *of <= number),
            "none is of a version to come: {gradients:?}"
        );
        if let Mode::KAsync { k } | Mode::KBatchSync { k, .. } | Mode::KBatchAsync { k } = self.mode
        {
            let all_live = self.workers.iter().all(|worker| *worker != Worker::Dead);
            assert!(
                gradients.len() == k as usize || !all_live,
                "{k} make an update: {gradients:?}"
            );
        }
    }

    /// Behind a barrier each variable makes a round of the same workers, but for those who were
    /// lost when some variable had applied their gradient and another did not have it.
    fn check_contributors(&mut self, number: u64, gradients: &[(u32, u64)]) {
        if self.mode.needs().has_votes() {
            return;
        }
        let workers: BTreeSet<u32> = gradients.iter().map(|(worker, _)| *worker).collect();
        let known = self.made_of.entry(number).or_insert_with(|| workers.clone());
        let mut differ = known.symmetric_difference(&workers);
        let all_torn = differ.all(|worker| self.torn.contains(worker));
        assert!(all_torn, "round {number} is of {known:?} and of {workers:?}");
    }

    fn crash(&mut self, worker: u32) {
        self.workers[worker as usize] = Worker::Dead;
        let is_lost = |message: &Message| match message {
            Message::Gradient { worker: sender, .. } => *sender == worker,
            _ => false,
        };
        self.in_flight.retain(|message| !is_lost(message));
        self.in_flight.push(Message::LeaveTraining { worker });
    }

    fn is_over(&self) -> bool {
        self.versions.iter().all(|version| *version >= ROUNDS)
            || self.workers.iter().all(|w| *w == Worker::Dead)
    }

    /// Trains to the end. Delivers the messages that `picks` selects, then always the oldest.
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
            assert!(
                !self.in_flight.is_empty(),
                "stuck: {:?}, versions {:?}",
                self.workers,
                self.versions
            );
            let next = picks.next().map_or(0, |pick| usize::from(*pick) % self.in_flight.len());
            let message = self.in_flight.remove(next);
            self.deliver(message);
        }
        panic!("no end: {:?}, versions {:?}", self.workers, self.versions);
    }

    /// Once nothing is on its way, every variable has had each round that was closed, also those
    /// closed just before the end.
    fn check_that_closed_rounds_are_made(&self) {
        if let Some(closed) = self.coordinator.round()
            && !self.workers.contains(&Worker::Dead)
        {
            let are_made = self.versions.iter().all(|made| *made == closed.updates);
            assert!(are_made, "rounds up to {closed:?} are closed, and {:?} made", self.versions);
        }
    }

    /// Ends the training, delivers the remaining messages, and returns the workers that still wait
    /// for an answer to their vote.
    fn finish(&mut self) -> Vec<Worker> {
        self.members.finish();
        let effects = self.coordinator.finish(&self.members);
        self.carry_out(effects);
        while let Some(message) = self.in_flight.pop() {
            self.deliver(message);
        }
        self.check_that_closed_rounds_are_made();
        self.workers.iter().filter(|worker| matches!(worker, Worker::Voting(_))).cloned().collect()
    }
}

/// The modes with rounds, for `workers` workers.
fn modes(workers: u32) -> impl Strategy<Value = Mode> {
    prop_oneof![
        (0..4u32).prop_map(|backups| Mode::Sync { backups, cancel: false }),
        (1..=workers).prop_map(|k| Mode::KAsync { k }),
        (1..6u32).prop_map(|k| Mode::KBatchSync { k, cancel: false }),
        (1..6u32).prop_map(|k| Mode::KBatchAsync { k }),
    ]
}

proptest! {
    #[test]
    fn a_training_in_rounds_ends_in_any_order_of_messages_and_whoever_fails(
        (workers, mode) in (1u32..6).prop_flat_map(|workers| (Just(workers), modes(workers))),
        variables in 1usize..4,
        picks in prop::collection::vec(any::<u16>(), 0..400),
        crashes in prop::collection::vec((0usize..150, 0u32..6), 0..4),
    ) {
        let mut training = Training::new(mode, workers, variables);
        training.run(&picks, crashes);
        prop_assert_eq!(training.finish(), vec![], "every vote is answered");
    }
}
