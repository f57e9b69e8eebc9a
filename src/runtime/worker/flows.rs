//! Conditions and loops over tasks: each of their functions runs as a step of the task's own
//! master, which places and cuts it like any other. So what holds for steps holds for an iteration:
//! who is lost, what failed first, what is told to stop.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::cluster::{DeviceName, DeviceSpec};
use crate::graph::{
    Call, ComputeError, Function, Graph, GraphDef, GraphError, NewOperation, Op, Output, TensorType,
};
use crate::operations::{Flow, Next};
use crate::partition::{Node, Request};
use crate::tensor::{Tensor, within_memory};

use crate::runtime::actors::Actors;
use crate::runtime::error::{CLOSED, Code, Error, Result, stopped};
use crate::runtime::mail::{MasterMail, RunStep, WorkerMail};
use crate::runtime::mailbox::{Address, tell};
use crate::runtime::messages::{Placing, SessionId, Values};
use crate::runtime::reply::Answer;
use crate::runtime::session_options::SessionOptions;
use crate::runtime::state::{Served, Ticket};
use crate::runtime::worker::plan::Plan;

/// Sessions that are not in use, each with its node.
type Idle = Rc<RefCell<Vec<(u32, FlowSession)>>>;

/// The sessions for the conditions and loops of one partition.
pub(super) struct FlowSessions {
    idle: Idle,
    options: SessionOptions,
}

/// A session of the task's own master for the functions of one node. It ends when this is dropped,
/// and its step with it.
struct FlowSession {
    master: Address<MasterMail>,
    id: SessionId,
    /// By function: its inputs are fed, and its outputs fetched.
    requests: Vec<Arc<Request>>,
}

/// A condition or a loop that runs; it is given up when this is dropped.
pub(super) struct RunningFlow(JoinHandle<()>);

impl Drop for RunningFlow {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FlowSessions {
    /// Sessions whose operations are on the devices that the session of the partition sees.
    ///
    /// # Errors
    /// If `placing` names no devices.
    pub(super) fn new(placing: Option<&Placing>) -> Result<Self> {
        let options = placing.map(SessionOptions::of_placing).transpose()?.unwrap_or_default();
        Ok(Self { idle: Idle::default(), options })
    }

    /// Begins to run a condition or a loop of `plan`. The worker is told when it has run. Its panic
    /// ends the task, as a kernel's does.
    pub(super) fn run(
        &self,
        plan: Arc<Plan>,
        ticket: Ticket,
        inputs: Vec<Tensor>,
        actors: &Rc<Actors>,
    ) -> RunningFlow {
        let mut idle = self.idle.borrow_mut();
        let known = idle.iter().position(|(node, _)| *node == ticket.node);
        let mut session = known.map(|known| idle.swap_remove(known).1);
        let (idle, actors) = (Rc::clone(&self.idle), Rc::clone(actors));
        let options = self.options.clone();
        RunningFlow(tokio::task::spawn_local(async move {
            let ran = run(&mut session, &actors.master, options, &plan, ticket.node, inputs);
            let outcome = match AssertUnwindSafe(ran).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => {
                    let (name, step) = (&plan.node(ticket.node).name, ticket.step.number);
                    return actors.panics.note(&format!("`{name}` of step {step}"), &*panic);
                }
            };
            if let (Ok(_), Some(session)) = (&outcome, session) {
                idle.borrow_mut().push((ticket.node, session));
            }
            let outcome = outcome.map(|outputs| outputs.into_iter().collect());
            // A list of its own would be one more to keep, each time.
            let mut served = actors.served.take();
            served.push(Served { ticket, outcome });
            tell(&actors.worker, WorkerMail::Served(served));
        }))
    }
}

/// Runs the condition or loop `node` of `plan` in `session`, or in a new one.
async fn run(
    session: &mut Option<FlowSession>,
    master: &Address<MasterMail>,
    options: SessionOptions,
    plan: &Plan,
    node: u32,
    inputs: Vec<Tensor>,
) -> Result<Values> {
    let node = plan.node(node);
    let flow = Flow::of(&node.op).expect("only conditions and loops run as steps");
    let session = match session {
        Some(session) => session,
        None => {
            let (graph, requests) = functions(flow, node, &plan.partition.device_name())?;
            session.insert(FlowSession::open(master, options, graph, requests).await?)
        }
    };
    let mut running = within_memory(|| flow.begin(inputs))?;
    let mut given = Values::new();
    let refused = |error: ComputeError| Error::new(Code::InvalidArgument, error.to_string());
    loop {
        match within_memory(|| running.next(given))?.map_err(refused)? {
            Next::Run(function, inputs) => given = session.run(function, inputs.into()).await?,
            Next::Done(outputs) => return Ok(outputs),
        }
    }
}

impl FlowSession {
    async fn open(
        master: &Address<MasterMail>,
        options: SessionOptions,
        graph: Arc<GraphDef>,
        requests: Vec<Request>,
    ) -> Result<Self> {
        let answer = Answer::new();
        let reply = answer.reply();
        tell(master, MasterMail::CreateSession { options, reply });
        let id = answer.await.ok_or_else(stopped)??;
        tell(master, MasterMail::ExtendSession { session: id, graph });
        let requests = requests.into_iter().map(Arc::new).collect();
        Ok(Self { master: master.clone(), id, requests })
    }

    /// The outputs of a function for these inputs.
    async fn run(&self, function: usize, feeds: Values) -> Result<Values> {
        let answer = Answer::new();
        let step = RunStep {
            session: self.id,
            request: Arc::clone(&self.requests[function]),
            feeds,
            deadline: None,
            origin: None,
            is_traced: false,
            reads_ahead: false,
            reply: answer.reply(),
        };
        tell(&self.master, MasterMail::RunStep(step));
        Ok(answer.await.ok_or_else(stopped)??.fetches)
    }
}

impl Drop for FlowSession {
    fn drop(&mut self) {
        let error = Error::new(Code::Cancelled, CLOSED);
        tell(&self.master, MasterMail::CloseSession { session: self.id, error });
    }
}

/// The functions of `flow`, the operation of `node` on `device`, as one graph, and the request that
/// runs each.
fn functions(
    flow: Flow<'_>,
    node: &Node,
    device: &DeviceName,
) -> Result<(Arc<GraphDef>, Vec<Request>), GraphError> {
    let graph = Graph::new();
    let requests = graph.with_name_scope(&node.name, |graph| {
        let request = |function: &Function| {
            let placeholder = |kind: &TensorType| {
                let op = Op::Placeholder { dtype: kind.dtype, shape: kind.shape };
                Ok(graph.output(graph.add(NewOperation::of(op))?))
            };
            let inputs: Vec<Output> =
                function.inputs().iter().map(placeholder).collect::<Result<_, GraphError>>()?;
            let outputs = function.add_to(graph, &inputs, |call| device_of(call, device))?;
            let edges = |of: &[Output]| of.iter().map(Output::edge).collect();
            Ok(Request { feeds: edges(&inputs), fetches: edges(&outputs), targets: Vec::new() })
        };
        flow.functions().into_iter().map(request).collect()
    })?;
    Ok((graph.snapshot()?, requests))
}

/// The device that an operation of a function asks for: what it leaves open is as in `own`, the
/// device of the condition or loop. One without inputs that asks for nothing goes to its users.
fn device_of(call: &Call, own: &DeviceName) -> DeviceSpec {
    let asked = &call.device;
    if asked.is_empty() && call.inputs.is_empty() {
        return asked.clone();
    }
    match asked.job().is_some() || asked.task().is_some() {
        true => DeviceSpec::of_job(own.task().job()).merged(asked),
        false => DeviceSpec::from(own).merged(asked),
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::cluster::{LocalDevice, TaskName};
    use crate::partition::{Partition, ValueSlot};
    use crate::runtime::messages::StepId;
    use crate::runtime::state::Bound;
    use crate::sync::Epoch;

    /// A plan of one constant, which is no condition and no loop.
    fn plan() -> Arc<Plan> {
        let node = Node {
            name: "loop".into(),
            op: Op::Const(Tensor::scalar(1f32)),
            inputs: smallvec![],
            first_output: ValueSlot(0),
            outputs: 1,
            after: smallvec![],
            variables: smallvec![],
        };
        let partition = Partition::empty(TaskName::new("worker", 0), LocalDevice::cpu(0));
        let partition = Partition { nodes: Arc::new(vec![node]), slots: 1, ..partition };
        let bound = Bound { variables: Vec::new(), epoch: Epoch(0) };
        Arc::new(Plan::new(Arc::new(partition), bound, None))
    }

    #[test]
    fn a_panic_in_a_condition_or_loop_is_noted_with_its_operation_and_step() {
        let actors = Rc::new(Actors::nobody());
        let step = StepId { master: 1, number: 7, trains: false };
        let ticket = Ticket { step, device: LocalDevice::cpu(0), node: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let noted = tokio::task::LocalSet::new().block_on(&runtime, async {
            let sessions = FlowSessions::new(None).unwrap();
            let _running = sessions.run(plan(), ticket, Vec::new(), &actors);
            actors.panics.noted().await
        });
        assert!(noted.starts_with("`loop` of step 7 panicked: only conditions"), "{noted}");
    }
}
