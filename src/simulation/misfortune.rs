//! What comes of a fault in the simulated world: who dies, stands still, or is cut off, and who
//! hears of it.
//!
//! Which envelopes are still taken is for [`super::links`] to say. The program of a task that dies,
//! and its actors, are ended by the run, which is given [`Order`]s; from the moment of the fault
//! nothing of them gets out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cluster::TaskName;
use crate::runtime::PeerMessage;
use crate::transport::{Loss, Messages, PeerId};

use super::events::Happening;
use super::faults::{Fault, Faults, Misfortune, Moment};
use super::links::Stamp;
use super::network::Delivery;
use super::world::{SimulatedWorld, Tick};

/// Messages on their way, and the connection that they travel on.
pub(super) type Sent = (Stamp, Messages<PeerMessage>);

/// What is to be done with a task's program and its actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End them, for good unless they are to live again.
    Kill { task: usize, for_good: bool },
    /// Start them anew.
    Start { task: usize },
}

/// A part of a fault that happens later than its beginning.
#[derive(Debug)]
pub(super) enum Consequence {
    Begin(Misfortune),
    Restart {
        task: usize,
    },
    /// `observer` has not heard of `peer` for too long, if `peer` is still gone for that reason.
    Silence {
        observer: usize,
        peer: usize,
        because: Gone,
    },
    Thaw {
        task: usize,
        life: u32,
    },
    Heal {
        tasks: Vec<usize>,
    },
    FullSpeed {
        task: usize,
        factor: f64,
    },
    FullSpeedBetween {
        tasks: Vec<usize>,
    },
    /// `peer` has closed its end.
    Stopped {
        observer: usize,
        peer: usize,
    },
    /// What was held back for somebody who now takes it.
    Release,
    /// An envelope that a slow link held up.
    Late(Box<Delivery<Sent>>),
}

/// Why a peer is not heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    Dead,
    /// Since this freeze of it, counted.
    Frozen(u64),
    Cut,
}

/// What has gone wrong and what is held back because of it.
#[derive(Default)]
pub(super) struct Trouble {
    /// Whether anything is to go wrong at all.
    pub(super) is_expected: bool,
    silence: Duration,
    /// The faults that begin with a delivery.
    by_delivery: Vec<(u64, Misfortune)>,
    /// Those that begin before an event and have not yet begun.
    by_event: Vec<(u64, Misfortune)>,
    /// Envelopes that have arrived and can't be taken yet.
    pub(super) held: Vec<Delivery<Sent>>,
    /// By task: what was to happen to it while it stood still.
    pub(super) missed: Vec<Vec<Happening>>,
    /// How many freezes there have been, and by task which of them it is in.
    freezes: u64,
    frozen_by: Vec<u64>,
    /// By task: how many times as long its devices take.
    slowness: Vec<f64>,
    pub(super) slow_links: Vec<(Vec<usize>, f64)>,
    /// By task: whether its program has returned.
    has_returned: Vec<bool>,
    pub(super) orders: VecDeque<Order>,
}

impl Trouble {
    pub(super) fn new(tasks: usize, faults: &Faults) -> Self {
        let by_delivery = faults.list.iter().filter_map(|fault| match fault.at {
            Moment::Delivery(number) => Some((number, fault.what.clone())),
            Moment::Time(_) | Moment::Event(_) => None,
        });
        let by_event = faults.list.iter().filter_map(|fault| match fault.at {
            Moment::Event(number) => Some((number, fault.what.clone())),
            Moment::Time(_) | Moment::Delivery(_) => None,
        });
        Self {
            is_expected: !faults.list.is_empty(),
            silence: faults.silence,
            by_delivery: by_delivery.collect(),
            by_event: by_event.collect(),
            missed: (0..tasks).map(|_| Vec::new()).collect(),
            frozen_by: vec![0; tasks],
            slowness: vec![1.0; tasks],
            has_returned: vec![false; tasks],
            ..Self::default()
        }
    }
}

impl SimulatedWorld {
    /// Puts the faults that begin at a time on the timeline.
    pub(super) fn foresee(&self, faults: &[Fault]) {
        for fault in faults {
            if let Moment::Time(time) = fault.at {
                self.queue
                    .borrow_mut()
                    .push(time, Happening::Fault(Consequence::Begin(fault.what.clone())));
            }
        }
    }

    pub(super) fn later(&self, after: Duration, what: Consequence) {
        self.queue.borrow_mut().push(self.now.get().after(after), Happening::Fault(what));
    }

    fn index(&self, task: &TaskName) -> usize {
        self.tasks
            .iter()
            .position(|own| own == task)
            .expect("a fault is checked against the cluster")
    }

    fn indices(&self, tasks: &[TaskName]) -> Vec<usize> {
        tasks.iter().map(|task| self.index(task)).collect()
    }

    /// Faults that begin with delivery `number`.
    pub(super) fn begin_with_delivery(&self, number: u64) {
        let due: Vec<Misfortune> = {
            let trouble = self.trouble.borrow();
            trouble
                .by_delivery
                .iter()
                .filter(|(at, _)| *at == number)
                .map(|(_, what)| what.clone())
                .collect()
        };
        due.iter().for_each(|misfortune| self.begin(misfortune));
    }

    /// Faults that begin after `events` events; says whether there was one.
    pub(super) fn begin_after(&self, events: u64) -> bool {
        if self.trouble.borrow().by_event.is_empty() {
            return false;
        }
        let due: Vec<(u64, Misfortune)> =
            self.trouble.borrow_mut().by_event.extract_if(.., |(at, _)| *at <= events).collect();
        due.iter().for_each(|(_, misfortune)| self.begin(misfortune));
        !due.is_empty()
    }

    pub(super) fn come_true(&self, what: Consequence) -> Tick {
        match what {
            Consequence::Begin(misfortune) => self.begin(&misfortune),
            Consequence::Restart { task } => self.order(Order::Start { task }),
            Consequence::Silence { observer, peer, because } => {
                self.silence(observer, peer, because)
            }
            Consequence::Thaw { task, life } => self.thaw(task, life),
            Consequence::Heal { tasks } => {
                for_pairs(&tasks, |one, other| self.links.borrow_mut().heal(one, other));
                self.release();
            }
            Consequence::FullSpeed { task, factor } => {
                self.trouble.borrow_mut().slowness[task] /= factor
            }
            Consequence::FullSpeedBetween { tasks } => {
                let slow = &mut self.trouble.borrow_mut().slow_links;
                if let Some(own) = slow.iter().position(|(slow, _)| *slow == tasks) {
                    slow.remove(own);
                }
            }
            Consequence::Stopped { observer, peer } => {
                self.tell_lost(observer, peer, Loss::Stopped)
            }
            Consequence::Release => self.release(),
            Consequence::Late(delivery) => self.hand_over(*delivery),
        }
        if self.trouble.borrow().orders.is_empty() { Tick::WokeNobody } else { self.wake_run() }
    }

    fn begin(&self, misfortune: &Misfortune) {
        tracing::info!(at = %self.now.get(), ?misfortune, "a fault");
        match misfortune {
            Misfortune::Crash { task, restart_after } => {
                self.crash(self.index(task), *restart_after)
            }
            Misfortune::Freeze { task, lasts } => self.freeze(self.index(task), *lasts),
            Misfortune::Partition { tasks, lasts } => self.partition(self.indices(tasks), *lasts),
            Misfortune::SlowLink { tasks, factor, lasts } => {
                let tasks = self.indices(tasks);
                self.trouble.borrow_mut().slow_links.push((tasks.clone(), *factor));
                self.later(*lasts, Consequence::FullSpeedBetween { tasks });
            }
            Misfortune::SlowTask { task, factor, lasts } => {
                let task = self.index(task);
                self.trouble.borrow_mut().slowness[task] *= factor;
                self.later(*lasts, Consequence::FullSpeed { task, factor: *factor });
            }
        }
    }

    fn crash(&self, task: usize, restart_after: Option<Duration>) {
        if self.trouble.borrow().has_returned[task] || !self.links.borrow().is_up(task) {
            return tracing::info!(task = %self.tasks[task], "it is gone already; spared");
        }
        let observers = self.links.borrow_mut().crash(task);
        self.inboxes.borrow_mut()[task] = None;
        drop(std::mem::take(&mut self.trouble.borrow_mut().missed[task]));
        let silence = self.trouble.borrow().silence;
        for observer in observers {
            self.later(silence, Consequence::Silence { observer, peer: task, because: Gone::Dead });
        }
        if let Some(after) = restart_after {
            self.later(after, Consequence::Restart { task });
        }
        self.order(Order::Kill { task, for_good: restart_after.is_none() });
    }

    fn freeze(&self, task: usize, lasts: Duration) {
        let is_able = self.links.borrow().is_up(task) && !self.links.borrow().is_frozen(task);
        if !is_able {
            return tracing::info!(task = %self.tasks[task], "it runs not; spared");
        }
        self.links.borrow_mut().freeze(task);
        let (number, silence) = {
            let mut trouble = self.trouble.borrow_mut();
            trouble.freezes += 1;
            trouble.frozen_by[task] = trouble.freezes;
            (trouble.freezes, trouble.silence)
        };
        if lasts > silence {
            for observer in self.links.borrow().watchers(task) {
                self.later(
                    silence,
                    Consequence::Silence { observer, peer: task, because: Gone::Frozen(number) },
                );
            }
        }
        let life = self.links.borrow().life(task);
        self.later(lasts, Consequence::Thaw { task, life });
    }

    /// A frozen task runs on: first it learns who has given it up, then what it missed happens.
    fn thaw(&self, task: usize, life: u32) {
        if !self.links.borrow().lives(task, life) || !self.links.borrow().is_frozen(task) {
            return;
        }
        let gone = self.links.borrow_mut().thaw(task);
        for peer in gone {
            self.tell_lost(task, peer, Loss::Silent);
        }
        let missed = std::mem::take(&mut self.trouble.borrow_mut().missed[task]);
        for happening in missed {
            self.queue.borrow_mut().push(self.now.get(), happening);
        }
        self.release();
    }

    fn partition(&self, tasks: Vec<usize>, lasts: Duration) {
        let silence = self.trouble.borrow().silence;
        for_pairs(&tasks, |one, other| {
            self.links.borrow_mut().cut(one, other);
            if lasts > silence {
                self.later(
                    silence,
                    Consequence::Silence { observer: one, peer: other, because: Gone::Cut },
                );
                self.later(
                    silence,
                    Consequence::Silence { observer: other, peer: one, because: Gone::Cut },
                );
            }
        });
        self.later(lasts, Consequence::Heal { tasks });
    }

    fn silence(&self, observer: usize, peer: usize, because: Gone) {
        if self.links.borrow().is_frozen(observer) {
            let missed = Happening::Fault(Consequence::Silence { observer, peer, because });
            return self.trouble.borrow_mut().missed[observer].push(missed);
        }
        let notices = match because {
            Gone::Dead => self.links.borrow().can_notice_death(observer, peer),
            Gone::Frozen(number) => {
                let links = self.links.borrow();
                links.is_up(observer)
                    && links.is_frozen(peer)
                    && self.trouble.borrow().frozen_by[peer] == number
            }
            Gone::Cut => self.links.borrow().can_notice_cut(observer, peer),
        };
        if notices {
            self.links.borrow_mut().give_up(observer, peer);
            self.tell_lost(observer, peer, Loss::Silent);
        }
    }

    pub(super) fn tell_lost(&self, observer: usize, peer: usize, loss: Loss) {
        self.audit.borrow_mut().record([
            self.now.get().0,
            4,
            (observer as u64) << 32 | peer as u64,
            loss as u64,
        ]);
        let inbox = self.inboxes.borrow()[observer].clone();
        if let Some(inbox) = inbox {
            inbox.lost(PeerId(peer as u32), loss);
        }
    }

    /// How many times as long the devices of a task take now.
    pub(super) fn slowness(&self, task: usize) -> f64 {
        self.trouble.borrow().slowness[task]
    }

    /// The program of a task has returned: it is spared from now on.
    pub(super) fn has_returned(&self, task: usize) {
        self.trouble.borrow_mut().has_returned[task] = true;
    }

    /// A task is about to live again; which life that is.
    pub(super) fn revive(&self, task: usize) -> u32 {
        self.links.borrow_mut().revive(task)
    }

    fn order(&self, order: Order) {
        self.trouble.borrow_mut().orders.push_back(order);
    }

    /// What the run is to do next, to a program and its actors.
    pub(super) fn next_order(&self) -> Option<Order> {
        self.trouble.borrow_mut().orders.pop_front()
    }
}

fn for_pairs(tasks: &[usize], mut each: impl FnMut(usize, usize)) {
    for (position, one) in tasks.iter().enumerate() {
        tasks[position + 1..].iter().for_each(|other| each(*one, *other));
    }
}
