//! The owner of a simulated world: ticks the world and carries out its actions on the actors.
//!
//! All actors of a simulation live on one thread. When none of them can run, [`Driver::drive`]
//! ticks the world until an actor, a program or the run has something to do. It polls them itself:
//! to let tokio park the thread at every event and wake it again takes a tenth of a simulation.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, unconstrained};

use crate::cluster::TaskName;
use crate::runtime::{Error, PeerMessage};
use crate::transport::{Inbox, PeerId};
use crate::units::Time;

use super::background::Background;
use super::cluster::{Cluster, Outcome};
use super::critical_path::StepEnd;
use super::faults::Damage;
use super::world::{Action, RunCommand, World};

/// A world, and the inboxes of the actors in it.
pub(super) struct Driver {
    /// Borrowed for one call at a time, and never while an actor is called.
    pub(super) world: RefCell<World>,
    /// By task: the inbox of its actors, while it listens.
    inboxes: RefCell<Vec<Option<Rc<dyn Inbox<PeerMessage>>>>>,
    /// Empty between ticks, kept for its storage.
    actions: RefCell<Vec<Action>>,
    /// The arithmetic that its devices have begun.
    pub(super) background: Background,
    commands: UnboundedSender<RunCommand>,
    /// Whether a command or a program's result was sent to the run since it last looked.
    pub(super) has_news: Cell<bool>,
}

thread_local! {
    /// The driver of the world that this thread simulates.
    static CURRENT: RefCell<Option<Rc<Driver>>> = const { RefCell::new(None) };
}

/// Whether something can run since the driver last looked.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Tells the simulation that this thread runs that `task` ends a training step now, which made
/// `global_step` and began at `started`.
pub(crate) fn end_step(task: &TaskName, global_step: u64, started: Time, how: StepEnd) {
    with_world(|world| world.end_step(task, global_step, started, how));
}

/// Whether the disk is full in the simulation that this thread runs.
pub(crate) fn is_disk_full() -> bool {
    with_world(|world| world.faults.is_disk_full())
}

/// Takes the damage to checkpoints since the last call, in the simulation that this thread runs. It
/// is skipped unless there `is_checkpoint` to damage.
pub(crate) fn take_damage(is_checkpoint: bool) -> Vec<Damage> {
    with_world(|world| world.faults.take_damage(is_checkpoint))
}

fn with_world<T>(ask: impl FnOnce(&mut World) -> T) -> T {
    CURRENT.with_borrow(|driver| {
        let driver = driver.as_ref().expect("a simulation runs on this thread");
        ask(&mut driver.world.borrow_mut())
    })
}

impl Driver {
    /// Makes the world of `cluster`, which this thread simulates.
    pub(super) fn enter(cluster: &Cluster) -> (Rc<Self>, UnboundedReceiver<RunCommand>) {
        let (sender, commands) = unbounded_channel();
        let world = World::new(cluster);
        let inboxes = world.tasks().iter().map(|_| None).collect();
        let driver = Rc::new(Self {
            world: RefCell::new(world),
            inboxes: RefCell::new(inboxes),
            actions: RefCell::default(),
            background: Background::new(),
            commands: sender,
            has_news: Cell::new(false),
        });
        CURRENT.set(Some(Rc::clone(&driver)));
        (driver, commands)
    }

    /// Carries `run` and the actors that it starts to its end.
    pub(super) async fn drive<T>(&self, run: impl Future<Output = T>) -> T {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let actors = LocalSet::new();
        let mut run = pin!(unconstrained(actors.run_until(run)));
        poll_fn(|_| {
            loop {
                woken.0.store(false, Ordering::Relaxed);
                let polled = run.as_mut().poll(&mut Context::from_waker(&waker));
                if polled.is_ready() {
                    return polled;
                }
                while !woken.0.load(Ordering::Relaxed) {
                    self.tick();
                }
            }
        })
        .await
    }

    /// Ends the world, whose programs have ended with `result`, and releases the actors in it.
    pub(super) fn leave<T>(&self, result: Result<BTreeMap<TaskName, T>, Error>) -> Outcome<T> {
        CURRENT.set(None);
        let unfinished = self.world.borrow_mut().take_unfinished();
        drop(unfinished);
        self.inboxes.borrow_mut().fill_with(|| None);
        self.world.borrow_mut().outcome(result)
    }

    pub(super) fn set_inbox(&self, task: usize, inbox: Option<Rc<dyn Inbox<PeerMessage>>>) {
        let before = std::mem::replace(&mut self.inboxes.borrow_mut()[task], inbox);
        drop(before);
    }

    /// Ticks the world once.
    fn tick(&self) {
        let mut actions = self.actions.borrow_mut();
        self.world.borrow_mut().tick(&mut actions);
        if !actions.is_empty() {
            actions.drain(..).for_each(|action| self.act(action));
        }
    }

    fn act(&self, action: Action) {
        match action {
            Action::Wake(waker) => waker.wake(),
            Action::Finish(kernels) => kernels.finish(),
            Action::Deliver { from, to, messages } => match self.inbox(to) {
                Some(inbox) => inbox.deliver(PeerId(from as u32), messages),
                None => {
                    let world = self.world.borrow();
                    let (from, to) = (&world.tasks()[from], &world.tasks()[to]);
                    tracing::warn!(%from, %to, "messages are lost: the task does not listen");
                }
            },
            Action::TellLost { observer, peer, loss } => {
                if let Some(inbox) = self.inbox(observer) {
                    inbox.lost(PeerId(peer as u32), loss);
                }
            }
            Action::Kill { task, restarts, missed, undone } => {
                self.set_inbox(task, None);
                drop((missed, undone));
                self.command(RunCommand::Kill { task, restarts })
            }
            Action::Command(command) => self.command(command),
        }
    }

    fn inbox(&self, task: usize) -> Option<Rc<dyn Inbox<PeerMessage>>> {
        self.inboxes.borrow()[task].clone()
    }

    /// Sends a command to the run, which wakes it.
    fn command(&self, command: RunCommand) {
        if self.commands.send(command).is_err() {
            tracing::debug!(?command, "the run has ended already");
        }
        self.has_news.set(true);
    }
}
