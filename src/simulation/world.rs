//! The world of a simulation: one virtual clock, one network, a device a task, and what happens
//! next.
//!
//! All actors of a simulation live on one thread. When none of them can run, tokio parks the
//! thread, and the hook set here lets the next thing happen: it moves the clock and wakes whom it
//! concerns. When nothing can happen and the program has not finished, the simulation has stalled.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::{Clock, Sleep};
use crate::cluster::{DeviceName, TaskName};
use crate::kernels::{Cost, Numerics};
use crate::random;
use crate::runtime::{ComputeModel, PeerMessage, Work, told};
use crate::transport::{Inbox, Messages, PeerId, Transport, envelope_size};
use crate::units::Time;

use super::audit::{Audit, Digest};
use super::device::Device;
use super::events::{Alarm, EventQueue, Happening};
use super::faults::Faults;
use super::links::Links;
use super::misfortune::{Sent, Trouble};
use super::network::{Network, NetworkSpec};
use super::pool::Job;
use super::run::Cluster;

/// The whole of a simulated cluster but the actors in it.
pub(super) struct SimulatedWorld {
    pub(super) now: Cell<Time>,
    pub(super) tasks: Vec<TaskName>,
    pub(super) queue: RefCell<EventQueue>,
    network: RefCell<Network<Sent>>,
    /// Of each way from one task to another.
    pub(super) latency: Duration,
    pub(super) links: RefCell<Links>,
    pub(super) trouble: RefCell<Trouble>,
    pub(super) inboxes: RefCell<Vec<Option<Rc<dyn Inbox<PeerMessage>>>>>,
    bytes_sent: RefCell<Vec<u64>>,
    /// Envelopes that have arrived.
    deliveries: Cell<u64>,
    pub(super) audit: RefCell<Audit>,
    /// The run itself. A stall wakes it, so that the thread does not park for good.
    run: RefCell<Option<Waker>>,
    /// Called when nothing can happen any more.
    on_stall: RefCell<Option<Box<dyn FnOnce()>>>,
}

/// What a world has seen by its end.
pub(super) struct Observed {
    pub(super) now: Time,
    pub(super) events: u64,
    pub(super) deliveries: u64,
    pub(super) digest: Digest,
    /// By task.
    pub(super) bytes_sent: Vec<u64>,
}

thread_local! {
    /// The world whose clock the park hook of this thread moves.
    static CURRENT: RefCell<Option<Rc<SimulatedWorld>>> = const { RefCell::new(None) };
}

/// tokio's hook: the thread has nothing to run. Lets things happen until there is something.
pub(super) fn on_park() {
    let world = CURRENT.with_borrow(Clone::clone);
    if let Some(world) = world {
        let before = told();
        while told() == before && world.tick() == Tick::WokeNobody {}
    }
}

/// What came of letting one thing happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tick {
    /// A waker was called: a sleep is over, or nothing can happen any more.
    Woke,
    /// No waker was called; whether an actor was told something, [`told`] says.
    WokeNobody,
}

impl SimulatedWorld {
    /// A world of `tasks`, at the beginning of its clock; it becomes this thread's.
    pub(super) fn enter(tasks: Vec<TaskName>, network: &NetworkSpec, faults: &Faults) -> Rc<Self> {
        let world = Rc::new(Self {
            latency: network.latency,
            links: RefCell::new(Links::new(tasks.len())),
            trouble: RefCell::new(Trouble::new(tasks.len(), faults)),
            deliveries: Cell::new(0),
            now: Cell::default(),
            queue: RefCell::default(),
            network: RefCell::new(Network::new(network, tasks.len())),
            inboxes: RefCell::new(tasks.iter().map(|_| None).collect()),
            bytes_sent: RefCell::new(vec![0; tasks.len()]),
            audit: RefCell::default(),
            run: RefCell::default(),
            on_stall: RefCell::default(),
            tasks,
        });
        world.foresee(&faults.list);
        CURRENT.set(Some(Rc::clone(&world)));
        world
    }

    /// Ends the world: nothing happens in it any more, and it lets go of what holds on to it.
    pub(super) fn leave(&self) -> Observed {
        CURRENT.set(None);
        drop((self.run.take(), self.on_stall.take()));
        drop(self.queue.take());
        self.inboxes.borrow_mut().fill_with(|| None);
        let network = self.network.borrow();
        let (sent, arrived) = (network.bytes_accepted().0, network.bytes_delivered().0);
        assert!(
            arrived == sent || network.in_flight() > 0,
            "{arrived} of {sent} bytes arrived, and none are under way"
        );
        let audit = self.audit.borrow();
        Observed {
            now: self.now.get(),
            events: audit.events(),
            deliveries: self.deliveries.get(),
            digest: audit.digest(),
            bytes_sent: self.bytes_sent.borrow().clone(),
        }
    }

    /// The future that awaits this is the run itself.
    pub(super) async fn attend(&self) {
        let remember = |context: &mut Context<'_>| {
            *self.run.borrow_mut() = Some(context.waker().clone());
            Poll::Ready(())
        };
        poll_fn(remember).await;
    }

    /// Calls `act` once nothing can happen any more.
    pub(super) fn when_stalled(&self, act: impl FnOnce() + 'static) {
        *self.on_stall.borrow_mut() = Some(Box::new(act));
    }

    /// Lets the next thing happen: of an instant, first what the queue has, then what the network
    /// has.
    fn tick(&self) -> Tick {
        if self.begin_after(self.audit.borrow().events()) {
            return self.wake_run();
        }
        let queued = self.queue.borrow_mut().next_time();
        let arriving = self.network.borrow().next_event();
        match (queued, arriving) {
            (None, None) => self.stall(),
            (Some(queued), arriving) if arriving.is_none_or(|arriving| queued <= arriving) => {
                self.now.set(queued);
                self.happen()
            }
            (_, Some(arriving)) => {
                self.now.set(arriving);
                self.arrive();
                if self.trouble.borrow().orders.is_empty() {
                    Tick::WokeNobody
                } else {
                    self.wake_run()
                }
            }
            (Some(_), None) => {
                unreachable!("a queued event without a network event was taken above")
            }
        }
    }

    fn happen(&self) -> Tick {
        let (seq, happening) = self.queue.borrow_mut().pop().expect("its time was just asked for");
        let happening = match happening.task() {
            Some(task) => self.misses(task, happening),
            None => Some(happening),
        };
        let Some(happening) = happening else { return Tick::WokeNobody };
        match happening {
            Happening::Fault(what) => {
                self.audit.borrow_mut().record([self.now.get().0, 5, seq, 0]);
                self.come_true(what)
            }
            Happening::Wake(_, alarm) => {
                self.audit.borrow_mut().record([self.now.get().0, 1, seq, 0]);
                alarm.has_rung.set(true);
                let Some(waker) = alarm.waker.take() else { return Tick::WokeNobody };
                waker.wake();
                Tick::Woke
            }
            Happening::WorkDone { job, asker, .. } => {
                self.audit.borrow_mut().record([self.now.get().0, 2, seq, 0]);
                job.finish().done(&asker);
                Tick::WokeNobody
            }
        }
    }

    /// Advances the network by one event; if that is a message's arrival, hands it over.
    fn arrive(&self) {
        let Some(delivery) = self.network.borrow_mut().advance(self.now.get()) else { return };
        let route = (delivery.from as u64) << 32 | delivery.to as u64;
        self.audit.borrow_mut().record([self.now.get().0, 3, route, delivery.size.0]);
        self.begin_with_delivery(self.deliveries.replace(self.deliveries.get() + 1));
        self.receive(delivery);
    }

    /// Nothing can happen any more: acts on it, and wakes the run, which may have been told its
    /// end.
    fn stall(&self) -> Tick {
        let act = self.on_stall.borrow_mut().take();
        if let Some(act) = act {
            act();
        }
        self.wake_run()
    }

    pub(super) fn wake_run(&self) -> Tick {
        if let Some(run) = &*self.run.borrow() {
            run.wake_by_ref();
        }
        Tick::Woke
    }
}

/// A task's view of the virtual clock.
pub(super) struct SimulatedClock {
    pub(super) world: Rc<SimulatedWorld>,
    pub(super) task: usize,
}

impl Clock for SimulatedClock {
    fn now(&self) -> Time {
        self.world.now.get()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    /// Where nothing goes wrong a wait that is in vain ends in a stall. Else a task can wait for
    /// one that is gone while others go on.
    fn sees_stalls(&self) -> bool {
        !self.world.trouble.borrow().is_expected
    }

    fn sleep_until(&self, time: Time) -> Sleep {
        let alarm = Rc::new(Alarm::default());
        let time = time.max(self.world.now.get());
        self.world.queue.borrow_mut().push(time, Happening::Wake(self.task, Rc::clone(&alarm)));
        Box::pin(SimulatedSleep(alarm))
    }
}

struct SimulatedSleep(Rc<Alarm>);

impl Future for SimulatedSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.has_rung.get() {
            return Poll::Ready(());
        }
        self.0.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for SimulatedSleep {
    fn drop(&mut self) {
        self.0.is_cancelled.set(true);
    }
}

/// One task's end of the simulated network.
pub(super) struct SimulatedTransport {
    pub(super) world: Rc<SimulatedWorld>,
    pub(super) local: PeerId,
    /// Which of the task's lives it is the end of.
    pub(super) life: u32,
}

impl SimulatedTransport {
    /// Whether the task still lives the life that this is an end of.
    fn lives(&self) -> bool {
        self.world.links.borrow().lives(self.local.0 as usize, self.life)
    }

    fn set_inbox(&self, inbox: Option<Rc<dyn Inbox<PeerMessage>>>) {
        self.world.inboxes.borrow_mut()[self.local.0 as usize] = inbox;
    }
}

impl Transport<PeerMessage> for SimulatedTransport {
    fn local(&self) -> PeerId {
        self.local
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.world.tasks.iter().position(|task| task == name).map(|i| PeerId(i as u32))
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.world.tasks[peer.0 as usize].clone()
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        let size = envelope_size(&messages);
        let (from, to) = (self.local.0 as usize, to.0 as usize);
        if !self.lives() {
            return;
        }
        let stamp = self.world.links.borrow().stamp(from, to);
        self.world.bytes_sent.borrow_mut()[from] += size.0;
        self.world.network.borrow_mut().send(
            self.world.now.get(),
            from,
            to,
            size,
            (stamp, messages),
        );
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.set_inbox(Some(inbox));
        self.world.is_up_again(self.local.0 as usize);
    }

    fn close(&self) {
        if self.lives() {
            self.set_inbox(None);
            self.world.has_closed(self.local.0 as usize);
        }
    }
}

/// One device of a task: arithmetic, real or not, that takes modelled time.
pub(super) struct SimulatedDevice {
    world: Rc<SimulatedWorld>,
    task: usize,
    model: RefCell<Device>,
    /// Whether straggling, and a drawn step time, concern this task: they are of workers.
    is_worker: bool,
    numerics: Numerics,
}

impl SimulatedDevice {
    /// Device `index` of `task`. Each of a task's devices straggles by itself.
    pub(super) fn new(
        world: &Rc<SimulatedWorld>,
        task: &TaskName,
        index: u32,
        cluster: &Cluster,
    ) -> Self {
        let name = if index == 0 {
            task.to_string()
        } else {
            DeviceName::cpu(task.clone(), index).to_string()
        };
        let draws = random::stream(cluster.seed, &[&name, "straggler"]);
        let slow = cluster.slow.get(task).copied().unwrap_or(1.0);
        let model = RefCell::new(Device::new(&cluster.compute, slow, draws));
        let position = world
            .tasks
            .iter()
            .position(|own| own == task)
            .expect("a device is of a task of the world");
        Self {
            world: Rc::clone(world),
            task: position,
            model,
            is_worker: task.job() != "ps",
            numerics: cluster.numerics,
        }
    }
}

impl ComputeModel for SimulatedDevice {
    fn launch(&self, work: Work) {
        let step = work.step.filter(|_| self.is_worker).map(|step| step.number);
        let now = self.world.now.get();
        self.model.borrow_mut().slow_down(self.world.slowness(self.task));
        let (_, end) = self.model.borrow_mut().occupy(now, step, work.cost.flops, work.cost.bytes);
        let effort = match self.numerics {
            Numerics::Real => work.cost,
            Numerics::Shapes => Cost::default(),
        };
        let job = Job::start(work.calculation, effort);
        if end == now {
            return job.finish().done(&work.asker);
        }
        self.world
            .queue
            .borrow_mut()
            .push(end, Happening::WorkDone { job, asker: work.asker, task: self.task });
    }

    fn numerics(&self) -> Numerics {
        self.numerics
    }
}
