//! A program with an operation and an update rule of its own, in either world.
//!
//! ```text
//! cargo run --release --example own_operation -- sim sims/own_operation.toml
//! cargo run --release --example own_operation -- launch sims/own_operation.toml
//! ```

use trainyard::graph::{
    Attributes, Backprop, ComputeError, Cost, Defined, GraphProblem, Known, OpDef, OutputTypes,
    Outputs, Parameters, Range, Rule, RuleState, Slot, TensorType, UpdateRule,
};
use trainyard::prelude::*;

#[allow(dead_code, reason = "a test runs the trainer without the command line")]
fn main() -> std::process::ExitCode {
    register();
    trainyard::main(trainer)
}

/// Registers the operation and the update rule for this task. All tasks run this program, so all
/// know them.
pub(crate) fn register() {
    trainyard::operations::register_operation(Swish { beta: 1.0 });
    trainyard::optimizer::register_rule(Lion { beta1: 0.9, beta2: 0.99 });
}

/// `x / (1 + e^(−βx))` (Ramachandran et al. 2017).
#[derive(Debug)]
pub(crate) struct Swish {
    pub(crate) beta: f32,
}

impl OpDef for Swish {
    fn kind(&self) -> &'static str {
        "Swish"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self { beta: given.number("beta", f64::from(self.beta)) as f32 }.into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        match inputs {
            [x] if x.dtype == DType::F32 => Ok([*x].into_iter().collect()),
            _ => Err(GraphProblem::needs("one f32", inputs)),
        }
    }

    /// `dy · σ(βx) · (1 + βx · (1 − σ(βx)))`, built of the library's operations.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let (x, dy) = (of.input(0), of.only_arrived()?);
        let (beta, one) = (x.graph().constant(self.beta), x.graph().constant(1f32));
        let scaled = x.mul(&beta)?;
        let sigmoid = scaled.sigmoid();
        let slope = one.add(&scaled.mul(&one.sub(&sigmoid)?)?)?;
        Ok(vec![Some(dy.mul(&sigmoid.mul(&slope)?)?)])
    }

    /// The cost: an exponential and three operations for each element, which is read and written.
    fn cost(&self, inputs: &[Known], _: &[Known]) -> Cost {
        let (_, shape) = inputs[0];
        Cost::work(23 * shape.elements(), 8 * shape.elements())
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        let swish = |x: &f32| x / (1.0 + (-self.beta * x).exp());
        let values: Vec<f32> = inputs[0].values()?.iter().map(swish).collect();
        Ok([Tensor::new(inputs[0].shape(), &values)?].into_iter().collect())
    }
}

/// Lion (Chen et al. 2023): `v -= lr·sgn(β1·m + (1−β1)·g); m = β2·m + (1−β2)·g`
#[derive(Debug)]
pub(crate) struct Lion {
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
}

impl Rule for Lion {
    fn name(&self) -> &'static str {
        "lion"
    }

    fn parameters(&self, given: &mut Parameters) -> UpdateRule {
        Self {
            beta1: given.number("beta1", self.beta1, Range::Fraction),
            beta2: given.number("beta2", self.beta2, Range::Fraction),
        }
        .into()
    }

    fn slots(&self) -> Vec<Slot> {
        vec![Slot::like_variable("Lion", 0.0)]
    }

    fn flops(&self) -> usize {
        9
    }

    fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>) {
        let (beta1, beta2) = (self.beta1, self.beta2);
        state.each_element(move |[v, m]: [f32; 2], g: f32| {
            let direction = beta1 * m + (1.0 - beta1) * g;
            let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
            [v - learning_rate * sign, beta2 * m + (1.0 - beta2) * g]
        });
    }
}

/// The loss and the accuracy of a perceptron with the operation of its own.
pub(crate) fn model(x: &Output, y: &Output) -> Result<(Output, Output), GraphError> {
    let hidden = dense(x, 32)?.apply(Swish { beta: 1.5 }, &[])?;
    let logits = dense(&hidden, 10)?;
    Ok((sparse_softmax_cross_entropy(&logits, y)?.mean(), accuracy(&logits, y)?))
}

/// The program of every task of the cluster. The scenario gives the rule: `rule = "lion"`.
pub(crate) async fn trainer(task: Task) -> Result<()> {
    if task.job() == "ps" {
        return task.join().await;
    }
    let g = Graph::new();
    g.set_random_seed(task.seed());
    let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
    let (x, y, loss, accuracy, train_op) = g.with_device_fn(setter, |g| {
        let x = g.placeholder("x", DType::F32, [None, Some(64)])?;
        let y = g.placeholder("y", DType::I32, [None])?;
        let (loss, accuracy) = model(&x, &y)?;
        let train_op = task.minimize(task.settings().optimizer.clone(), &loss)?;
        Ok((x, y, loss, accuracy, train_op))
    })?;
    let test = task.dataset()?.test.whole();
    let evaluator = InMemoryEvaluator::new(&loss, &accuracy)
        .feed(&x, test.features)
        .feed(&y, test.labels)
        .every_steps(50)
        .stop_at_accuracy(0.95);
    let mut session = MonitoredSession::builder(&task, g)
        .hook(evaluator)
        .hook(StopAtStep::last_step(task.settings().stop.steps.unwrap_or(600)))
        .open()
        .await?;
    let mut trained = Ok(());
    while trained.is_ok() && !session.should_stop() {
        let batch = task.next_batch()?;
        let step = session.run().feed(&x, batch.features).feed(&y, batch.labels);
        trained = step.target(&train_op).fetch(&loss).await.map(drop);
    }
    session.close_after(trained).await
}
