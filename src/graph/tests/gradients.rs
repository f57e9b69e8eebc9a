//! The structure of gradients; `tests/it/gradients.rs` compares their values with finite
//! differences.

use super::{assert_says, floats, operation, snapshot, written};
use crate::graph::{
    Attributes, Backprop, ComputeError, Defined, Graph, GraphError, GraphProblem, OpDef, Output,
    OutputTypes, Outputs, TensorType, accuracy, gradients, sparse_softmax_cross_entropy,
};
use crate::operations::register_operation;
use crate::tensor::{DType, PartialShape, Tensor};

/// The operations that `gradients` adds to `g` for `loss` by `by`, and the names of the results.
#[track_caller]
fn added(g: &Graph, loss: &Output, by: &[&Output]) -> (Vec<String>, Vec<String>) {
    let before = snapshot(g).operations.len();
    let by: Vec<Output> = by.iter().map(|x| (*x).clone()).collect();
    let results = gradients(loss, &by).unwrap();
    let name = |result: &Option<Output>| result.as_ref().map_or("none".to_owned(), Output::name);
    (written(&snapshot(g), before), results.iter().map(name).collect())
}

#[test]
fn the_gradient_of_a_layer_has_one_operation_for_each_that_is_asked_for() {
    let g = Graph::new();
    let (x, w, b) = (
        floats(&g, "x", [None, Some(3)]),
        floats(&g, "w", [Some(3), Some(2)]),
        floats(&g, "b", [Some(2)]),
    );
    let loss = x.matmul(&w).unwrap().bias_add(&b).unwrap().tanh().mean();
    let (operations, results) = added(&g, &loss, &[&w, &b]);
    let expected = [
        "gradients/Fill()",
        "gradients/MeanGrad(gradients/Fill, Tanh)",
        "gradients/TanhGrad(gradients/MeanGrad, Tanh)",
        "gradients/BiasAddGrad(gradients/TanhGrad)",
        "gradients/MatMul(x, gradients/TanhGrad)",
    ];
    assert_eq!(operations, expected, "none by x, which nobody asked about");
    assert_eq!(results, ["gradients/MatMul", "gradients/BiasAddGrad"]);
}

#[test]
fn the_loss_by_itself_is_one_and_by_what_it_does_not_use_nothing() {
    let g = Graph::new();
    let (x, other) = (floats(&g, "x", [Some(2)]), floats(&g, "other", [Some(2)]));
    let loss = x.sum();
    let (_, results) = added(&g, &loss, &[&loss, &other, &x]);
    assert_eq!(results, ["gradients/Fill", "none", "gradients/SumGrad"]);
}

#[test]
fn gradients_that_meet_are_added_in_the_order_in_which_they_arrive() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let loss = x.square().mul(&x.exp()).unwrap().sum();
    let (operations, results) = added(&g, &loss, &[&x]);
    assert_eq!(
        operations.last().unwrap(),
        "gradients/AddN(gradients/ExpGrad, gradients/SquareGrad)"
    );
    assert_eq!(results, ["gradients/AddN"]);
}

#[test]
fn a_scalar_that_met_a_matrix_gets_the_sum_and_two_scalars_none() {
    let g = Graph::new();
    let (x, s) = (floats(&g, "x", [None, Some(2)]), floats(&g, "s", []));
    let (operations, _) = added(&g, &x.mul(&s).unwrap().sum(), &[&s]);
    assert_eq!(
        operations[2..],
        ["gradients/Mul(gradients/SumGrad, x)", "gradients/SumToLike(gradients/Mul, s)"]
    );
    let (operations, _) = added(&g, &s.mul(&s).unwrap(), &[&s]);
    assert!(operations.iter().all(|operation| !operation.contains("Sum")), "{operations:?}");
}

#[test]
fn a_gradient_is_summed_only_where_an_operand_may_have_been_broadcast() {
    let sums = |a: &[Option<usize>], b: &[Option<usize>]| {
        let g = Graph::new();
        let [a, b] = [("a", a), ("b", b)].map(|(name, shape)| {
            g.placeholder(name, DType::F32, PartialShape::new(shape)).unwrap()
        });
        let (operations, _) = added(&g, &a.add(&b).unwrap().sum(), &[&a, &b]);
        let summed = |name: &str| {
            operations
                .iter()
                .any(|op| op.contains("SumToLike") && op.ends_with(&format!(" {name})")))
        };
        (summed("a"), summed("b"))
    };
    let (one, two) = (Some(1), Some(2));
    assert_eq!(sums(&[two, two], &[two, two]), (false, false));
    assert_eq!(sums(&[None, two], &[two]), (false, true));
    assert_eq!(sums(&[None, two], &[one, two]), (false, true));
    assert_eq!(sums(&[None], &[None]), (true, true), "either batch may be 1");
    assert_eq!(sums(&[one, two], &[two, one]), (true, true));
    assert_eq!(sums(&[one], &[one]), (false, false));
}

#[test]
fn the_gradient_of_an_opposite_needs_no_value_of_the_forward_pass() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let (operations, _) = added(&g, &x.negate().sum(), &[&x]);
    assert_eq!(operations[2..], ["gradients/Neg(gradients/SumGrad)"]);
}

#[test]
fn nothing_passes_back_through_a_step_or_a_condition() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    let (_, results) = added(&g, &x.floor().add(&x.round()).unwrap().sum(), &[&x]);
    assert_eq!(results, ["none"]);
    let positive = x.greater(&g.constant(0f32)).unwrap();
    let chosen = positive.select(&g.constant(1f32), &g.constant(2f32)).unwrap();
    let (_, results) = added(&g, &chosen.sum(), &[&x]);
    assert_eq!(results, ["none"]);
}

#[test]
fn a_gradient_runs_where_the_operation_does_that_it_is_of() -> Result<(), GraphError> {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2), Some(2)]);
    let w = g.with_device("/job:ps/task:0", |g| g.variable("w", &g.zeros([2, 2])))?;
    let product = g.with_device("/job:worker/task:1", |_| x.matmul(&w.read()))?;
    let loss = g.with_device("/job:worker/task:2", |_| Ok(product.sum()))?;
    g.with_device("/job:elsewhere", |_| gradients(&loss, &[w.read()]))?;
    let def = snapshot(&g);
    assert_eq!(operation(&def, "gradients/SumGrad").device.to_string(), "/job:worker/task:2");
    assert_eq!(operation(&def, "gradients/MatMul").device.to_string(), "/job:worker/task:1");
    Ok(())
}

#[test]
fn gradients_are_added_where_they_all_are_and_otherwise_where_their_variable_is()
-> Result<(), GraphError> {
    let sum_device = |first: &str, second: &str| {
        let g = Graph::new();
        let w = g.with_device("/job:ps", |g| g.variable("w", &g.zeros([2])))?;
        let used_at = |device: &str| g.with_device(device, |_| Ok(w.read().square()));
        let loss = used_at(first)?.add(&used_at(second)?)?.sum();
        gradients(&loss, &[w.read()])?;
        Ok::<_, GraphError>(operation(&snapshot(&g), "gradients/AddN").device.to_string())
    };
    assert_eq!(sum_device("/job:worker/task:1", "/job:worker/task:1")?, "/job:worker/task:1");
    assert_eq!(sum_device("/job:worker/task:1", "/job:worker/task:2")?, "/job:ps");
    Ok(())
}

#[test]
fn the_gradient_of_the_cross_entropy_is_what_the_forward_pass_left() {
    let g = Graph::new();
    let (logits, labels) =
        (floats(&g, "z", [None, Some(3)]), g.placeholder("y", DType::I32, [None]).unwrap());
    let loss = sparse_softmax_cross_entropy(&logits, &labels).unwrap();
    let (operations, _) = added(&g, &loss.mean(), &[&logits]);
    let name = loss.name();
    assert_eq!(operations[2..], [format!("gradients/ScaleRows({name}:1, gradients/MeanGrad)")]);
}

#[test]
fn a_loss_through_an_operation_without_gradient_is_refused_by_its_name_and_line() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(3)]);
    let (slope, line) =
        (gradients(&x.gelu(true).sum(), std::slice::from_ref(&x)).unwrap().remove(0), line!());
    let error = gradients(&slope.unwrap().sum(), &[x]).unwrap_err();
    assert!(matches!(error.problem, GraphProblem::NoGradient { .. }), "{error}");
    let told = [
        "no gradient is defined for gradients/GeluGrad (GeluGrad)",
        &format!("tests/gradients.rs:{line}:"),
    ];
    assert_says(&error, "gradients.rs", &told);
}

/// An operation of a program with two inputs, and the mistake that its gradient makes.
#[derive(Clone, Copy, Debug)]
enum Mistaken {
    None,
    OneTooFew,
    OneTooMany,
    ShapeOfTheLoss,
    OtherDType,
    OtherGraph,
}

impl Mistaken {
    /// In the order of their numbers.
    const ALL: [Self; 6] = [
        Self::None,
        Self::OneTooFew,
        Self::OneTooMany,
        Self::ShapeOfTheLoss,
        Self::OtherDType,
        Self::OtherGraph,
    ];
}

impl OpDef for Mistaken {
    fn kind(&self) -> &'static str {
        "Mistaken"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self::ALL[given.size("mistake", *self as usize)].into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        Ok(inputs[..1].iter().copied().collect())
    }

    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        Ok(match self {
            Self::None => vec![Some(dy), None],
            Self::OneTooFew => vec![Some(dy)],
            Self::OneTooMany => vec![Some(dy.clone()), None, Some(dy)],
            Self::ShapeOfTheLoss => vec![Some(dy.sum()), None],
            Self::OtherDType => vec![None, Some(dy.cast(DType::F64))],
            Self::OtherGraph => vec![Some(floats(&Graph::new(), "elsewhere", [Some(2)])), None],
        })
    }

    fn compute(&self, _: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Err(ComputeError::new("only its gradient matters"))
    }
}

#[test]
fn a_gradient_of_a_program_that_does_not_fit_its_inputs_is_refused() {
    register_operation(Mistaken::None);
    let differentiated = |mistake: Mistaken| {
        let g = Graph::new();
        let (a, b) = (floats(&g, "a", [Some(2)]), floats(&g, "b", [Some(2)]));
        let loss = a.apply(mistake, &[&b]).unwrap().sum();
        gradients(&loss, &[a, b])
    };
    assert!(differentiated(Mistaken::None).is_ok());
    for (mistake, told) in [
        (Mistaken::OneTooFew, "gives a list of 1, not one for each of its 2 inputs"),
        (Mistaken::OneTooMany, "gives a list of 3, not one for each of its 2 inputs"),
        (Mistaken::ShapeOfTheLoss, "gives f32[] for input 0, which is f32[2]"),
        (Mistaken::OtherDType, "gives f64[2] for input 1, which is f32[2]"),
        (Mistaken::OtherGraph, "gives `elsewhere` for input 0, which belongs to another graph"),
    ] {
        let error = differentiated(mistake).unwrap_err();
        assert!(matches!(error.problem, GraphProblem::WrongGradient { .. }), "{error}");
        assert_says(&error, "gradients.rs", &["Mistaken (Mistaken)", told]);
    }
}

#[test]
fn nothing_passes_back_through_a_cast_from_integers_and_all_through_one_between_floats() {
    let g = Graph::new();
    let (logits, labels) =
        (floats(&g, "z", [None, Some(3)]), g.placeholder("y", DType::I32, [None]).unwrap());
    let (_, results) = added(&g, &accuracy(&logits, &labels).unwrap(), &[&logits]);
    assert_eq!(results, ["none"]);
    let rounded = logits.cast(DType::BF16).cast(DType::F32);
    let (operations, _) = added(&g, &rounded.sum(), &[&logits]);
    assert_eq!(
        operations[2..],
        ["gradients_1/Cast(gradients_1/SumGrad)", "gradients_1/Cast_1(gradients_1/Cast)"]
    );
}

#[test]
fn only_a_scalar_of_real_numbers_can_be_a_loss() {
    let g = Graph::new();
    let x = floats(&g, "x", [None, Some(2)]);
    let error = gradients(&x.square(), &[x]).unwrap_err();
    assert_says(&error, "gradients.rs", &["an f32 or f64 scalar as loss", "f32[?,2]"]);
}

#[test]
fn a_mistake_made_before_is_told_when_gradients_are_asked_for() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]);
    g.constant(1i32).relu();
    assert_says(&gradients(&x.sum(), &[x]).unwrap_err(), "gradients.rs", &["Relu (Relu)"]);
}
