//! A task's ends of the simulated world: its clock, its transport and its devices.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::{Clock, Sleep};
use crate::cluster::{LocalDevice, TaskName};
use crate::kernels::{Cost, Numerics};
use crate::runtime::{Asker, Calculation, ComputeModel, PeerMessage, Work, WorkerStep};
use crate::transport::{Inbox, Messages, Obstacle, PeerId, Peers, Refused, Transport};
use crate::units::{Bytes, Time};

use super::background::Pending;
use super::chore::Kernels;
use super::device::DeviceOf;
use super::driver::Driver;
use super::events::Alarm;

/// The virtual clock as a task has it.
pub(super) struct SimulatedClock {
    pub(super) driver: Rc<Driver>,
    pub(super) task: usize,
    /// How far its date is ahead.
    pub(super) ahead: Duration,
}

impl Clock for SimulatedClock {
    fn now(&self) -> Time {
        self.driver.world.borrow().now()
    }

    fn date(&self) -> Duration {
        self.now().since(Time::ZERO) + self.ahead
    }

    fn birth(&self) -> u64 {
        0
    }

    fn stands_still(&self) -> bool {
        true
    }

    fn ends_when_idle(&self) -> bool {
        true
    }

    /// Without faults, a wait in vain ends in a stall. With faults, a task can wait for a dead one
    /// while others go on.
    fn sees_stalls(&self) -> bool {
        !self.driver.world.borrow().expects_faults()
    }

    fn sleep_until(&self, time: Time) -> Sleep {
        let alarm = self.driver.world.borrow_mut().sleep_until(self.task, time);
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

/// An incarnation of a task on the simulated network.
pub(super) struct SimulatedTransport {
    pub(super) driver: Rc<Driver>,
    pub(super) task: usize,
    pub(super) incarnation: u32,
}

impl Transport<PeerMessage> for SimulatedTransport {
    fn peers(&self) -> &dyn Peers {
        self
    }

    fn send(&self, to: PeerId, messages: Messages<PeerMessage>) {
        let mut world = self.driver.world.borrow_mut();
        world.send(self.task, self.incarnation, to.0 as usize, messages);
    }

    fn listen(&self, inbox: Rc<dyn Inbox<PeerMessage>>) {
        self.driver.set_inbox(self.task, Some(inbox));
        self.driver.world.borrow_mut().listens(self.task);
    }

    fn close(&self) {
        if self.driver.world.borrow().is_alive(self.task, self.incarnation) {
            self.driver.set_inbox(self.task, None);
        }
    }
}

impl Peers for SimulatedTransport {
    fn local(&self) -> PeerId {
        PeerId(self.task as u32)
    }

    fn resolve(&self, name: &TaskName) -> Option<PeerId> {
        self.driver.world.borrow().number_of(name).map(|number| PeerId(number as u32))
    }

    fn name(&self, peer: PeerId) -> TaskName {
        self.driver.world.borrow().tasks()[peer.0 as usize].clone()
    }

    fn incarnation(&self, peer: PeerId) -> Option<u64> {
        self.driver.world.borrow().met(self.task, peer.0 as usize)
    }

    fn has_restarted(&self, peer: PeerId, incarnation: u64) {
        self.driver.world.borrow_mut().outlive(self.task, peer.0 as usize, incarnation);
    }

    fn silence(&self) -> Duration {
        self.driver.world.borrow().faults.silence()
    }

    fn obstacle(&self, peer: PeerId) -> Option<Obstacle> {
        self.driver.world.borrow().obstacle(self.task, peer.0 as usize)
    }

    fn refusal(&self, _: PeerId) -> Option<(Refused, String)> {
        None // all tasks have one scenario, and no certificates
    }
}

/// One device of a task: arithmetic, real or not, that takes modelled time.
pub(super) struct SimulatedDevice {
    pub(super) driver: Rc<Driver>,
    pub(super) at: DeviceOf,
    pub(super) numerics: Numerics,
}

impl ComputeModel for SimulatedDevice {
    fn launch(&self, work: Work) {
        let Work { step, cost, calculation, asker } = work;
        let effort = match self.numerics {
            Numerics::Real => cost.total(),
            Numerics::Shapes => Cost::default(),
        };
        let kernels = Box::new(Kernels {
            step,
            straggling: Duration::ZERO,
            pending: self.driver.background.start(calculation, effort),
            asker,
        });
        let mut world = self.driver.world.borrow_mut();
        let at_once = world.compute(self.at, step, &cost, kernels);
        drop(world);
        if let Some(kernels) = at_once {
            kernels.finish();
        }
    }

    fn copy(
        &self,
        between: (LocalDevice, LocalDevice),
        size: Bytes,
        then: Box<dyn Calculation>,
        asker: Asker,
    ) {
        let (step, straggling) = (None, Duration::ZERO);
        let pending = Pending::Small(then);
        let kernels = Box::new(Kernels { step, straggling, pending, asker });
        self.driver.world.borrow_mut().copy(self.at.task, between, size, kernels);
    }

    fn memory(&self) -> Option<Bytes> {
        self.driver.world.borrow().memory(self.at)
    }

    fn use_cores(&self, cores: Option<NonZeroU32>) {
        self.driver.world.borrow_mut().use_cores(self.at.task, cores);
    }

    fn stop(&self, step: WorkerStep) {
        self.driver.world.borrow_mut().stop_step(self.at, step);
    }

    fn operate(&self, count: usize) {
        self.driver.world.borrow_mut().operate(self.at.task, count);
    }

    fn takes_steps_whole(&self) -> bool {
        self.driver.world.borrow().takes_steps_whole(self.at)
    }

    fn numerics(&self) -> Numerics {
        self.numerics
    }
}
