//! The programs of a simulation's tasks, and the servers under them: started, ended by a fault,
//! started anew.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::cluster::TaskName;
use crate::runtime::{ComputeModel, Error, Server, ServerDef, World};
use crate::transport::PeerId;

use super::ending::{Ending, panic_as_error};
use super::misfortune::Order;
use super::run::{Cluster, Host};
use super::world::{SimulatedClock, SimulatedDevice, SimulatedTransport, SimulatedWorld};

/// By task: its server, while it lives.
pub(super) type Servers = Rc<RefCell<Vec<Option<Rc<Server>>>>>;

/// All programs of a run.
pub(super) struct Programs<'a, P, T> {
    cluster: &'a Cluster,
    world: Rc<SimulatedWorld>,
    program: &'a P,
    ending: Rc<Ending<T>>,
    servers: Servers,
    /// By task: ends its program.
    running: Vec<Option<AbortHandle>>,
}

impl<'a, P, F, T> Programs<'a, P, T>
where
    P: Fn(Host) -> F,
    F: Future<Output = Result<T, Error>> + 'static,
    T: 'static,
{
    /// Starts all servers, then all programs.
    pub(super) fn start(
        cluster: &'a Cluster,
        world: &Rc<SimulatedWorld>,
        program: &'a P,
        ending: &Rc<Ending<T>>,
    ) -> Self {
        let tasks = world.tasks.len();
        let (servers, running) = (Rc::new(RefCell::new(vec![None; tasks])), vec![None; tasks]);
        let (world, ending) = (Rc::clone(world), Rc::clone(ending));
        let mut programs = Self { cluster, world, program, ending, servers, running };
        let hosts: Vec<Host> = (0..tasks).map(|task| programs.host(task, 0)).collect();
        hosts.into_iter().enumerate().for_each(|(task, host)| programs.begin(task, host));
        programs
    }

    pub(super) fn servers(&self) -> Servers {
        Rc::clone(&self.servers)
    }

    /// Does what a fault asks for.
    pub(super) fn carry_out(&mut self, order: Order) {
        match order {
            Order::Kill { task, for_good } => {
                if let Some(running) = self.running[task].take() {
                    running.abort();
                }
                let server = self.servers.borrow_mut()[task].take();
                if let Some(server) = server {
                    server.stop();
                }
                if for_good {
                    self.ending.gone();
                }
            }
            Order::Start { task } => {
                let life = self.world.revive(task);
                let host = self.host(task, life);
                self.begin(task, host);
            }
        }
    }

    /// A started server for a life of a task.
    fn host(&self, task: usize, life: u32) -> Host {
        let world = &self.world;
        let clock: Rc<dyn Clock> = Rc::new(SimulatedClock { world: Rc::clone(world), task });
        let name: &TaskName = &world.tasks[task];
        let device = |index| {
            Rc::new(SimulatedDevice::new(world, name, index, self.cluster)) as Rc<dyn ComputeModel>
        };
        let transport =
            SimulatedTransport { world: Rc::clone(world), local: PeerId(task as u32), life };
        let own = World {
            transport: self.cluster.encoding.over(Rc::new(transport)),
            clock: Rc::clone(&clock),
            devices: (0..self.cluster.devices.get()).map(device).collect(),
        };
        let def = ServerDef { cluster: self.cluster.spec.clone(), task: name.clone() };
        let server = Rc::new(Server::new(def, own));
        server.start().expect("a new server can be started");
        self.servers.borrow_mut()[task] = Some(Rc::clone(&server));
        Host { server, clock }
    }

    /// Begins a task's program.
    fn begin(&mut self, task: usize, host: Host) {
        let running = actix_rt::spawn((self.program)(host));
        self.running[task] = Some(running.abort_handle());
        let (world, ending) = (Rc::clone(&self.world), Rc::clone(&self.ending));
        actix_rt::spawn(async move {
            if let Some(result) = panic_as_error(running.await) {
                world.has_returned(task);
                ending.returned(world.tasks[task].clone(), result);
            }
        });
    }
}
