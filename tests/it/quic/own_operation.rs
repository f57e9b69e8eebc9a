//! A program's own operation and update rule, in both worlds: the example in `sims/`.

#[path = "../../../sims/own_operation.rs"]
mod program;

use std::rc::Rc;

use trainyard::cluster::{ClusterSpec, RunConfig};
use trainyard::deployment::{self, Member, Seat, StopRequest};
use trainyard::experiment::Experiment;
use trainyard::graph::{
    Attributes, ComputeError, Cost, Defined, GraphProblem, Known, OpDef, OutputTypes, Outputs,
    Parameters, Rule, RuleState, TensorType, UpdateRule,
};
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::transport::RunId;

use super::over_quic::{quic_cluster, stop, train};
use crate::support::fixture::{assert_error, cluster, on_actix};
use crate::support::simulated::Simulated;
use program::Lion;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/own_operation.toml");

fn own(x: &Output, y: &Output) -> Result<(Output, Optimizer), GraphError> {
    let (loss, _) = program::model(x, y)?;
    Ok((loss, Optimizer::new(Lion { beta1: 0.8, beta2: 0.99 }, 0.01)))
}

#[test]
fn a_program_learns_the_digits_with_an_operation_and_a_rule_of_its_own_in_simulation() {
    program::register();
    let report = Experiment::load(SCENARIO).unwrap().simulate(program::trainer).unwrap();
    for name in ["sync", "async"] {
        let accuracy = report.run(name).unwrap().test_accuracy.unwrap();
        assert!(accuracy >= 0.95, "{name}: {accuracy}");
    }
}

#[test]
fn over_quic_they_give_the_same_bits_as_in_one_process() {
    program::register();
    on_actix(async {
        let in_one_process = train(&cluster(1, 2), own).await?;
        let (servers, ends) = quic_cluster(1, 2).await;
        assert_eq!(train(&servers, own).await?, in_one_process);
        stop(servers, ends).await
    });
}

#[test]
fn a_scenario_gives_the_parameters_of_a_rule_of_ones_own_which_are_checked() {
    program::register();
    let trials = Experiment::load(SCENARIO).unwrap().trials().unwrap();
    let lion = UpdateRule::from(Lion { beta1: 0.8, beta2: 0.99 });
    assert_eq!(trials[0].settings.optimizer.rule, lion);
    let wrong = |optimizer: &str| {
        let text = format!("[program]\noptimizer = {{ rule = \"lion\", {optimizer} }}");
        match Experiment::parse(text).and_then(|experiment| experiment.trials().map(|_| ())) {
            Ok(()) => panic!("{optimizer} is accepted"),
            Err(error) => error.to_string(),
        }
    };
    let text = wrong("beta1 = 1.5");
    assert!(text.contains("beta1: must be at least 0 and below 1"), "{text}");
    let text = wrong("beta3 = 0.5");
    assert!(text.contains("beta3: the optimizer's `rule` has no such parameter"), "{text}");
}

/// Gradient descent by so many times the rate, which it does not ask for.
#[derive(Debug)]
struct Forgetful {
    times: f32,
}

impl Rule for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn parameters(&self, _: &mut Parameters) -> UpdateRule {
        Self { times: self.times }.into()
    }

    fn flops(&self) -> usize {
        2
    }

    fn apply(&self, learning_rate: f32, state: &mut RuleState<'_>) {
        let rate = self.times * learning_rate;
        state.each_element(move |[v]: [f32; 1], g: f32| [v - rate * g]);
    }
}

#[test]
fn a_rule_with_a_field_that_other_tasks_would_not_get_is_refused_by_the_fields_name() {
    trainyard::optimizer::register_rule(Forgetful { times: 1.0 });
    let g = Graph::new();
    let loss = g.variable("v", &g.ones([2])).unwrap().read().sum();
    let step = g.global_step().unwrap();
    let minimized = |times| Optimizer::new(Forgetful { times }, 0.1).minimize(&loss, &step);
    let error = minimized(10.0).unwrap_err();
    assert!(error.built_at.file().ends_with("own_operation.rs"), "{error}");
    let text = error.to_string();
    for part in ["`forgetful` has `times: 10.0`", "with `times: 1.0`", "in `Rule::parameters`"] {
        assert!(text.contains(part), "`{text}` does not say `{part}`");
    }
    assert!(minimized(1.0).is_ok(), "the field is as it is registered");
}

/// An operation that says of its outputs what its kernel does not keep.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// It computes another shape.
    Liar,
    /// It panics.
    Confused,
}

impl OpDef for Wrong {
    fn kind(&self) -> &'static str {
        match self {
            Self::Liar => "Liar",
            Self::Confused => "Confused",
        }
    }

    fn attributes(&self, _: &mut Attributes) -> Defined {
        (*self).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        Ok(inputs.iter().copied().collect())
    }

    fn cost(&self, _: &[Known], _: &[Known]) -> Cost {
        Cost::default()
    }

    fn compute(&self, _: &[&Tensor]) -> Result<Outputs, ComputeError> {
        match self {
            Self::Liar => Ok([Tensor::zeros(DType::F32, [7])].into_iter().collect()),
            Self::Confused => panic!("the kernel is confused"),
        }
    }
}

/// Runs a step that makes an actor of its own task panic, and then waits for ever.
async fn panicking(server: Rc<Server>) -> Result<()> {
    let g = Graph::new();
    let confused = g.zeros([3]).apply(Wrong::Confused, &[])?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().fetch(&confused).await?;
    std::future::pending().await
}

#[test]
fn an_actor_that_panics_ends_its_task_with_the_text_in_both_worlds() {
    trainyard::operations::register_operation(Wrong::Confused);
    let config = RunConfig::from_tf_config(Some(r#"{"task": {"type": "worker", "index": 0}}"#));
    let spec = ClusterSpec::simulated([("worker", 1)]).unwrap();
    let seat = Seat::new(&config.unwrap(), spec, None, RunId::new("panics")).unwrap();
    let deployed = deployment::run(Member::new(seat), StopRequest::never(), panicking).unwrap();
    let simulated = Simulated::new(0, 1, Mode::Async).run_on_servers(|server, _| panicking(server));
    let says = ["a kernel panicked: the kernel is confused", "worker:0"];
    for result in [deployed.result.map(drop), simulated.outcome.result.map(drop)] {
        assert_error(result, Code::Internal, &says);
    }
}

#[test]
fn an_operation_is_refused_before_it_is_registered_and_told_where_it_contradicts_itself() {
    let g = Graph::new();
    let x = g.zeros([3]);
    let error = x.apply(Wrong::Liar, &[]).unwrap_err();
    assert_eq!(error.problem, GraphProblem::UnknownOperation("Liar"));
    trainyard::operations::register_operation(Wrong::Liar);
    let lie = x.apply(Wrong::Liar, &[]).unwrap();
    let error = gradients(&lie.sum(), std::slice::from_ref(&x)).unwrap_err();
    assert!(matches!(error.problem, GraphProblem::NoGradient { .. }), "{error}");
    on_actix(async {
        let servers = cluster(0, 1);
        let session = Session::new(&servers[0].target(), &g).await?;
        let outcome = session.run().fetch(&lie).await;
        assert_error(outcome, Code::InvalidArgument, &["`Liar` computed f32[7]", "f32[3]"]);
        Ok(())
    });
}
