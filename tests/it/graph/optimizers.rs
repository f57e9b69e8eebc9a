//! Optimizers through graphs and a session: TensorFlow's numbers, and where the slots are.

mod clipping;
mod digits;
mod moving_averages;
mod schedules;

use trainyard::graph::{GraphError, GraphProblem};
use trainyard::optimizer::TrainOp;
use trainyard::prelude::*;

use crate::support::fixture::on_actix;

fn vector(values: &[f32]) -> Tensor {
    Tensor::new([values.len()], values).unwrap()
}

/// Variables with constant gradients, and a session on a local server.
struct Trained {
    _server: Server,
    graph: Graph,
    session: Session,
    variables: Vec<Variable>,
}

impl Trained {
    /// Each pair is a variable's first value and its gradient; `build` adds the train ops.
    async fn new<const N: usize>(
        pairs: [([f32; 2], [f32; 2]); N],
        build: impl Fn(&[(Variable, Output)], &Variable) -> Result<Vec<TrainOp>, GraphError>,
    ) -> Result<(Self, Vec<TrainOp>)> {
        let graph = Graph::new();
        let mut built = Vec::new();
        for (i, (value, gradient)) in pairs.iter().enumerate() {
            let variable = graph.variable(&format!("var{i}"), &graph.constant(vector(value)))?;
            built.push((variable, graph.constant(vector(gradient))));
        }
        let train_ops = build(&built, &graph.global_step()?)?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &graph).await?;
        session.run().target(graph.initializer()).await?;
        let variables = built.into_iter().map(|(variable, _)| variable).collect();
        Ok((Self { _server: server, graph, session, variables }, train_ops))
    }

    async fn value(&self, of: &Output) -> Result<Vec<f32>> {
        Ok(self.session.run().fetch(of).await?[0].values::<f32>()?.to_vec())
    }

    async fn assert_values(&self, expected: &[[f32; 2]]) -> Result<()> {
        for (variable, expected) in self.variables.iter().zip(expected) {
            let values = self.value(&variable.read()).await?;
            for (value, expected) in values.iter().zip(expected) {
                let error = (value - expected).abs();
                assert!(
                    error <= 2e-6 * expected.abs().max(1.0),
                    "{variable:?} is {values:?}, not {expected}"
                );
            }
        }
        Ok(())
    }
}

/// The values after three steps from `[1, 2]` with the gradient `[0.1, 0.1]`.
fn assert_three_steps(optimizer: impl IntoOptimizer, expected: [f32; 2]) {
    on_actix(async {
        let apply = |pairs: &[_], step: &_| Ok(vec![optimizer.apply_gradients(pairs, step)?]);
        let (trained, ops) = Trained::new([([1.0, 2.0], [0.1, 0.1])], apply).await?;
        for step in 1..=3 {
            let told = trained.session.run().target(&ops[0]).fetch(&ops[0].global_step()).await?;
            assert_eq!(told.scalar::<i64>(0)?, step);
        }
        trained.assert_values(&[expected]).await
    });
}

#[test]
fn three_steps_give_tensorflows_values() {
    assert_three_steps(GradientDescent::new(0.5), [0.85, 1.85]);
    assert_three_steps(Momentum::new(0.5, 0.9), [0.7195, 1.7195]);
    assert_three_steps(Momentum::new(0.5, 0.9).use_nesterov(), [0.59755, 1.59755]);
    assert_three_steps(Adagrad::new(0.5), [0.5662317, 1.566232]);
    assert_three_steps(Adadelta::new(0.5), [0.9993216, 1.999321]);
    assert_three_steps(RmsProp::new(0.5), [0.833382, 1.833382]);
    assert_three_steps(RmsProp::new(0.5).momentum(0.9), [0.6933656, 1.693366]);
    assert_three_steps(Adam::new(0.5), [-0.4999914, 0.5000086]);
    assert_three_steps(Adam::new(0.5).lazy(), [-0.4999914, 0.5000086]);
    assert_three_steps(Ftrl::new(0.5), [-0.3872309, -0.3406935]);
    assert_three_steps(AdamW::new(0.5, 0.0), [-0.4999914, 0.5000086]);
}

/// By the closed forms: the sums of three gradients are 0.3 and 0.1 + 0.03; a proximal step of no
/// norm is a step.
#[test]
fn three_steps_of_dual_averaging_and_of_proximal_rules_give_their_closed_forms() {
    let averaged = |l1: f32, l2: f32| -0.5 * (0.3 - 3.0 * l1) / (3.0 * l2 * 0.5 + 0.13f32.sqrt());
    assert_three_steps(AdagradDa::new(0.5), [averaged(0.0, 0.0); 2]);
    assert_three_steps(AdagradDa::new(0.5).regularization(0.05, 2.0), [averaged(0.05, 2.0); 2]);
    assert_three_steps(ProximalGradientDescent::new(0.5), [0.85, 1.85]);
    let shrunk = |v: f32| (0..3).fold(v, |v, _| (v - 0.05 - 0.5 * 0.1) / (1.0 + 0.5 * 2.0));
    assert_three_steps(
        ProximalGradientDescent::new(0.5).regularization(0.1, 2.0),
        [shrunk(1.0), shrunk(2.0)],
    );
    assert_three_steps(ProximalAdagrad::new(0.5), [0.5662317, 1.566232]);
}

/// TensorFlow's `adagrad_test.py`.
#[test]
fn adagrad_with_a_learning_rate_of_3_gives_tensorflows_values_for_both_variables() {
    on_actix(async {
        let apply =
            |pairs: &[_], step: &_| Ok(vec![Adagrad::new(3.0).apply_gradients(pairs, step)?]);
        let pairs = [([1.0, 2.0], [0.1, 0.1]), ([3.0, 4.0], [0.01, 0.01])];
        let (trained, ops) = Trained::new(pairs, apply).await?;
        for _ in 0..3 {
            trained.session.run().target(&ops[0]).await?;
        }
        trained.assert_values(&[[-1.6026099, -0.6026099], [2.7156792, 3.7156792]]).await
    });
}

/// TensorFlow's `testSharing`: two applies, two steps of one and one of the other.
#[test]
fn two_applies_of_one_kind_share_their_slots() {
    on_actix(async {
        let apply = |pairs: &[_], step: &_| {
            let optimizer = Adagrad::new(3.0);
            Ok(vec![
                optimizer.apply_gradients(pairs, step)?,
                optimizer.apply_gradients(pairs, step)?,
            ])
        };
        let pairs = [([1.0, 2.0], [0.1, 0.1]), ([3.0, 4.0], [0.01, 0.01])];
        let (trained, ops) = Trained::new(pairs, apply).await?;
        for op in [&ops[0], &ops[1], &ops[0]] {
            trained.session.run().target(op).await?;
        }
        trained.assert_values(&[[-1.6026099, -0.6026099], [2.7156792, 3.7156792]]).await?;
        let names: Vec<String> = trained.graph.variables().iter().map(Variable::name).collect();
        assert_eq!(names, ["var0", "var1", "global_step", "var0/Adagrad", "var1/Adagrad"]);
        assert_eq!([ops[0].target().name(), ops[1].target().name()], ["train", "train_1"]);
        Ok(())
    });
}

/// The slots of `rule` beside `var0`, with the values that they begin with.
fn slots(optimizer: impl IntoOptimizer) -> Vec<(String, Vec<f32>)> {
    let slots = std::cell::RefCell::new(Vec::new());
    on_actix(async {
        let apply = |pairs: &[(Variable, Output)], step: &_| {
            pairs[0]
                .0
                .graph()
                .with_name_scope("tower", |_| Ok(vec![optimizer.apply_gradients(pairs, step)?]))
        };
        let (trained, _) = Trained::new([([1.0, 2.0], [0.1, 0.1])], apply).await?;
        for slot in
            trained.graph.variables().iter().filter(|variable| variable.name().contains('/'))
        {
            assert!(!slot.spec().trainable);
            let value = trained.value(&slot.read()).await?;
            slots.borrow_mut().push((slot.name(), value));
        }
        Ok(())
    });
    slots.into_inner()
}

#[test]
fn slots_are_named_after_their_variable_and_the_rule_whatever_the_scopes() {
    assert_eq!(slots(GradientDescent::new(0.1)), []);
    assert_eq!(slots(Momentum::new(0.1, 0.9)), [("var0/Momentum".into(), vec![0.0, 0.0])]);
    let adagrad = Adagrad::new(0.1).initial_accumulator_value(0.25);
    assert_eq!(slots(adagrad), [("var0/Adagrad".into(), vec![0.25, 0.25])]);
    let zeros = |name: &str| (format!("var0/{name}"), vec![0.0, 0.0]);
    let filled = |name: &str, value: f32| (format!("var0/{name}"), vec![value, value]);
    assert_eq!(slots(Adadelta::new(0.1)), [zeros("Adadelta"), zeros("Adadelta_1")]);
    assert_eq!(slots(RmsProp::new(0.1)), [filled("RMSProp", 1.0), zeros("RMSProp_1")]);
    let centered = [filled("RMSProp", 1.0), zeros("RMSProp_1"), zeros("RMSProp_2")];
    assert_eq!(slots(RmsProp::new(0.1).centered()), centered);
    assert_eq!(
        slots(Ftrl::new(0.1).initial_accumulator_value(0.5)),
        [filled("Ftrl", 0.5), zeros("Ftrl_1")]
    );
    assert_eq!(slots(ProximalGradientDescent::new(0.1)), []);
    assert_eq!(slots(ProximalAdagrad::new(0.1)), [filled("ProximalAdagrad", 0.1)]);
    let powers = [("var0/beta1_power".into(), vec![0.9]), ("var0/beta2_power".into(), vec![0.999])];
    let of_adam = |name: &str| [&[zeros(name), zeros(&format!("{name}_1"))][..], &powers].concat();
    assert_eq!(slots(Adam::new(0.1).lazy()), of_adam("Adam"));
    assert_eq!(slots(AdamW::new(0.1, 0.01)), of_adam("AdamW"));
    assert_eq!(slots(Lamb::new(0.1)), of_adam("LAMB"));
    let adam = [
        ("var0/Adam".into(), vec![0.0, 0.0]),
        ("var0/Adam_1".into(), vec![0.0, 0.0]),
        ("var0/beta1_power".into(), vec![0.9]),
        ("var0/beta2_power".into(), vec![0.999]),
    ];
    assert_eq!(slots(Adam::default()), adam);
}

#[test]
fn updates_and_slots_are_where_their_variable_is_and_the_step_is_counted_where_its_counter_is() {
    let g = Graph::new();
    let build = |g: &Graph| {
        let (w, v) = (g.variable("w", &g.zeros([2]))?, g.variable("v", &g.zeros([2]))?);
        let loss = w.read().mul(&v.read())?.sum();
        Adam::new(0.1).minimize(&loss, &g.global_step()?)
    };
    let cluster = trainyard::cluster::ClusterSpec::simulated([("ps", 2), ("worker", 1)]).unwrap();
    let train = g.with_device_fn(ReplicaDeviceSetter::new(&cluster), build).unwrap();
    let def = g.snapshot().unwrap();
    let device =
        |name: &str| def.operation(g.operation(name).expect(name).op_id()).device.to_string();
    for (variable, task) in [("w", "/job:ps/task:0"), ("v", "/job:ps/task:1")] {
        let beside = ["", "/Assign", "/read", "/Adam", "/Adam_1", "/beta1_power", "/Adam/initial"];
        for name in beside.map(|suffix| format!("{variable}{suffix}")) {
            assert_eq!(device(&name), task, "{name}");
        }
        assert_eq!(device(&format!("update_{variable}")), task);
    }
    assert_eq!(device(&train.target().name()), "/job:ps/task:0", "the counter is built third");
    assert_eq!(device("gradients/SumGrad"), "/job:worker");
    let updates = ["update_w", "update_v"].map(|name| g.operation(name).unwrap().op_id());
    assert_eq!(def.operation(train.target().op_id()).control_inputs.as_slice(), updates);
}

#[test]
fn without_a_gradient_there_is_nothing_to_apply() {
    let g = Graph::new();
    let (x, step) = (g.placeholder("x", DType::F32, [2]).unwrap(), g.global_step().unwrap());
    let unused = g.variable("unused", &g.zeros([2])).unwrap();
    for refused in [
        GradientDescent::new(0.1).minimize(&x.sum(), &step),
        GradientDescent::new(0.1).apply_gradients::<Output>(&[], &step),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.problem, GraphProblem::NoGradients);
        assert!(error.to_string().contains("tests/it/graph/optimizers.rs"), "{error}");
    }
    let by = gradients(&x.sum(), &[unused.read()]).unwrap();
    assert!(by[0].is_none());
}

#[test]
fn a_variable_that_the_loss_does_not_use_gets_no_slot() {
    let g = Graph::new();
    let (used, _unused) =
        (g.variable("used", &g.zeros([2])).unwrap(), g.variable("unused", &g.zeros([2])).unwrap());
    Adagrad::new(0.1).minimize(&used.read().square().sum(), &g.global_step().unwrap()).unwrap();
    assert!(g.operation("used/Adagrad").is_some() && g.operation("unused/Adagrad").is_none());
}

#[test]
fn a_gradient_that_does_not_fit_its_variable_or_its_graph_is_refused() {
    let (g, other) = (Graph::new(), Graph::new());
    let (w, step) = (g.variable("w", &g.zeros([2])).unwrap(), g.global_step().unwrap());
    let apply = |variable: &Variable, gradient: &Output| {
        Momentum::new(0.1, 0.9)
            .apply_gradients(&[(variable.clone(), gradient.clone())], &step)
            .unwrap_err()
    };
    let error = apply(&w, &g.zeros([3])).to_string();
    assert!(error.contains("update_w (ApplyMomentum)") && error.contains("f32[3]"), "{error}");
    let counts = g.variable("counts", &g.constant(0i64)).unwrap();
    let error = apply(&counts, &g.constant(0i64)).to_string();
    assert!(error.contains("f32 gradient"), "{error}");
    assert_eq!(apply(&w, &other.zeros([2])).problem, GraphProblem::OtherGraph("Fill".to_owned()));
}

#[test]
fn a_variable_of_the_name_of_a_slot_is_not_taken_for_one_of_another_shape() {
    let g = Graph::new();
    let (w, step) = (g.variable("w", &g.zeros([2])).unwrap(), g.global_step().unwrap());
    g.variable("w/Adagrad", &g.zeros([3])).unwrap();
    let error = Adagrad::new(0.1).apply_gradients(&[(w, g.zeros([2]))], &step).unwrap_err();
    assert!(matches!(error.problem, GraphProblem::NameTaken(_)), "{error}");
}

#[test]
fn dual_averaging_counts_the_updates_of_each_variable_beside_it() {
    on_actix(async {
        let apply = |pairs: &[(Variable, Output)], step: &_| {
            let optimizer = AdagradDa::new(0.1);
            Ok(vec![
                optimizer.apply_gradients(pairs, step)?,
                optimizer.apply_gradients(&pairs[..1], step)?,
            ])
        };
        let pairs = [([1.0, 2.0], [0.1, 0.1]), ([3.0, 4.0], [0.01, 0.01])];
        let (trained, ops) = Trained::new(pairs, apply).await?;
        for op in [&ops[0], &ops[1], &ops[1]] {
            trained.session.run().target(op).await?;
        }
        let counts = trained
            .graph
            .variables()
            .into_iter()
            .filter(|variable| variable.name().ends_with("/updates"));
        let mut found = Vec::new();
        for count in counts {
            found.push((
                count.name(),
                trained.session.run().fetch(&count.read()).await?.scalar::<i64>(0)?,
            ));
        }
        assert_eq!(found, [("var0/updates".to_owned(), 3), ("var1/updates".to_owned(), 1)]);
        Ok(())
    });
}

#[test]
fn parameters_that_make_no_sense_are_refused_where_they_are_given() {
    let refused: [(fn(), &str); 5] = [
        (
            || drop(Adagrad::new(0.1).initial_accumulator_value(0.0)),
            "`initial_accumulator_value` of the update rule `adagrad` must be finite and above 0",
        ),
        (
            || drop(AdagradDa::new(0.1).initial_gradient_squared_accumulator_value(-1.0)),
            "must be finite and above 0",
        ),
        (
            || drop(Ftrl::new(0.1).learning_rate_power(0.5)),
            "`learning_rate_power` of the update rule `ftrl` must be finite and at most 0",
        ),
        (|| drop(Ftrl::new(0.1).regularization(-0.1, 0.0)), "`l1` of the update rule `ftrl` must"),
        (
            || drop(Lamb::new(0.1).weight_decay(f32::NAN)),
            "`weight_decay` of the update rule `lamb` must be finite and at least 0",
        ),
    ];
    for (build, said) in refused {
        let panic = std::panic::catch_unwind(build).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains(said), "{text}");
    }
}
