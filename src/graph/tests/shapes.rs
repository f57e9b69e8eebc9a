//! The types of each operation's outputs, and the errors for inputs that don't fit.

use super::{assert_says, floats, snapshot};
use crate::graph::{
    Graph, Op, Reduction, TensorType, accuracy, dense, gradients, huber_loss, infer,
    mean_squared_error, softmax_cross_entropy,
};
use crate::operations::{
    Array, Binary, Broadcast, Cast, Compare, Logical, LossFunction, Order, Product, Reduce,
    ReduceGrad, Rows, Unary, UnaryGrad,
};
use crate::tensor::{DType, PartialShape, Shape, Tensor};

const UNKNOWN: Option<usize> = None;

/// The outputs of `op` for inputs written `f32[?,3] i32[4]`, written alike; `-` if they don't fit.
fn inferred(op: &Op, inputs: &str) -> String {
    let outputs = infer(op, &inputs.split_whitespace().map(read_type).collect::<Vec<_>>(), &[]);
    let write = |types: super::super::OutputTypes| {
        types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    outputs.map_or_else(|_| "-".to_owned(), write)
}

fn read_type(text: &str) -> TensorType {
    let (dtype, dims) = text.trim_end_matches(']').split_once('[').unwrap();
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::Bool];
    let dtype = dtypes.into_iter().find(|known| known.to_string() == dtype).unwrap();
    let dims: Vec<Option<usize>> =
        dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().ok()).collect();
    TensorType::new(dtype, PartialShape::new(&dims))
}

#[track_caller]
pub(super) fn assert_table(op: &Op, rows: &[(&str, &str)]) {
    for (inputs, outputs) in rows {
        assert_eq!(inferred(op, inputs), *outputs, "{} of {inputs}", op.kind());
    }
}

#[test]
fn an_output_that_no_memory_holds_is_refused_and_its_size_never_wraps() {
    let joined = Op::from(Array::Concat { axis: 0 });
    let half = |elements: u64| format!("f32[{elements}] f32[{elements}]");
    let whole = format!("f32[{}]", 1u64 << 48);
    assert_table(
        &joined,
        &[(&half(1 << 47), &whole), (&half(1 << 48), "-"), (&half(1 << 63), "-")],
    );
    assert_table(&joined, &[("f32[?,2] f32[3,2]", "f32[?,2]"), ("f32[1] f32[?]", "f32[?]")]);
    assert_table(&Op::from(Array::Tile(vec![1 << 61])), &[("f32[1]", "-")]);
}

#[test]
fn a_product_has_the_outer_dimensions_of_its_factors_as_they_are_transposed() {
    let product = |transpose_a, transpose_b| Op::from(Product::MatMul { transpose_a, transpose_b });
    let mismatches = [
        ("f32[2,3] f32[2,3]", "-"),
        ("f32[2,3] f32[3]", "-"),
        ("f32[2,3] i32[3,4]", "-"),
        ("", "-"),
    ];
    assert_table(&product(false, false), &mismatches);
    assert_table(
        &product(false, false),
        &[("f32[?,3] f32[3,4]", "f32[?,4]"), ("f32[2,?] f32[3,4]", "f32[2,4]")],
    );
    assert_table(
        &product(true, false),
        &[("f32[3,?] f32[3,4]", "f32[?,4]"), ("f32[2,3] f32[3,4]", "-")],
    );
    assert_table(&product(false, true), &[("f32[?,3] f32[4,3]", "f32[?,4]")]);
    assert_table(&product(true, true), &[("f32[3,2] f32[4,3]", "f32[2,4]")]);
    assert_table(
        &product(false, false),
        &[("f64[2,3] f64[3,4]", "f64[2,4]"), ("f64[2,3] f32[3,4]", "-")],
    );
    let many = |adj_x, adj_y| Op::from(Product::BatchMatMul { adj_x, adj_y });
    let repeated =
        [("f32[?,2,3] f32[5,3,4]", "f32[5,2,4]"), ("f32[3,1,2,3] f32[6,3,4]", "f32[3,6,2,4]")];
    assert_table(&many(false, false), &repeated);
    assert_table(
        &many(false, false),
        &[("f32[2,3] f32[?,3,4]", "f32[?,2,4]"), ("f32[2,2,3] f32[3,3,4]", "-")],
    );
    assert_table(
        &many(true, true),
        &[("f64[5,3,2] f64[5,4,3]", "f64[5,2,4]"), ("f32[3] f32[3,4]", "-")],
    );
}

#[test]
fn a_matrix_meets_a_row_or_a_column_of_its_size() {
    assert_table(
        &Op::from(Rows::BiasAdd),
        &[("f32[?,3] f32[3]", "f32[?,3]"), ("f32[?,?] f32[3]", "f32[?,3]")],
    );
    assert_table(
        &Op::from(Rows::BiasAdd),
        &[("f32[2,3] f32[2]", "-"), ("f32[3] f32[3]", "-"), ("f32[2,3] f32[1,3]", "-")],
    );
    assert_table(
        &Op::from(Rows::BiasAdd),
        &[("f64[?,4,4,?] f64[3]", "f64[?,4,4,3]"), ("f64[2,3] f32[3]", "-")],
    );
    assert_table(&Op::from(Rows::BiasAddGrad), &[("f64[?,4,4,3]", "f64[3]")]);
    assert_table(&Op::from(Rows::BiasAddGrad), &[("f32[?,3]", "f32[3]"), ("f32[3]", "-")]);
    assert_table(
        &Op::from(Rows::ScaleRows),
        &[("f32[?,3] f32[2]", "f32[2,3]"), ("f32[2,3] f32[3]", "-")],
    );
}

#[test]
fn functions_keep_type_and_shape_and_some_take_integers() {
    assert_table(
        &Op::from(Unary::Relu),
        &[("f32[?,3]", "f32[?,3]"), ("f64[]", "f64[]"), ("i32[3]", "-")],
    );
    assert_table(
        &Op::from(Unary::Abs),
        &[("i32[?]", "i32[?]"), ("f32[]", "f32[]"), ("bool[3]", "-"), ("bf16[]", "-")],
    );
    let gradient = Op::from(UnaryGrad(Unary::Relu));
    assert_table(
        &gradient,
        &[("f32[?,3] f32[2,?]", "f32[2,3]"), ("f32[2] f32[3]", "-"), ("f32[2] f64[2]", "-")],
    );
    assert_table(
        &Op::from(Broadcast::AddN),
        &[("f32[?] f32[2] f32[?]", "f32[2]"), ("f32[2] f32[3]", "-"), ("", "-"), ("bool[]", "-")],
    );
}

#[test]
fn shapes_are_broadcast_as_numpy_does_it_with_what_is_unknown() {
    let add = Op::from(Binary::Add);
    assert_table(
        &add,
        &[
            ("f32[?,3] f32[2,?]", "f32[2,3]"),
            ("i64[] i64[2]", "i64[2]"),
            ("f64[2] f64[]", "f64[2]"),
        ],
    );
    assert_table(
        &add,
        &[
            ("f32[1,3] f32[3]", "f32[1,3]"),
            ("f32[4,1] f32[3]", "f32[4,3]"),
            ("f32[?] f32[1]", "f32[?]"),
        ],
    );
    assert_table(
        &add,
        &[
            ("f32[?] f32[?]", "f32[?]"),
            ("f32[?,1] f32[?]", "f32[?,?]"),
            ("f32[0] f32[1]", "f32[0]"),
        ],
    );
    assert_table(
        &add,
        &[
            ("f32[2] f32[3]", "-"),
            ("f32[0] f32[2]", "-"),
            ("f32[] i32[]", "-"),
            ("bool[] bool[]", "-"),
        ],
    );
    let less = Op::from(Compare::Less);
    assert_table(
        &less,
        &[("f64[?] f64[3,1]", "bool[3,?]"), ("bool[] bool[]", "-"), ("f32[] f64[]", "-")],
    );
    let both = Op::from(Logical::And);
    assert_table(&both, &[("bool[2,1] bool[3]", "bool[2,3]"), ("i32[] i32[]", "-")]);
    assert_table(&Op::from(Logical::Not), &[("bool[?]", "bool[?]"), ("f32[]", "-")]);
    assert_table(
        &Op::from(Broadcast::Select),
        &[("bool[2,1] bf16[3] bf16[]", "bf16[2,3]"), ("bool[2] f32[3] f32[]", "-")],
    );
    assert_table(
        &Op::from(Broadcast::Select),
        &[("f32[] f32[] f32[]", "-"), ("bool[] f32[] f64[]", "-")],
    );
    assert_table(
        &Op::from(Broadcast::SumToLike),
        &[("f32[?,3] f32[?,1]", "f32[?,1]"), ("f32[2] f32[1,2]", "-"), ("i32[2] i32[]", "-")],
    );
}

#[test]
fn reductions_give_scalars_and_their_gradients_the_shape_that_was_reduced() {
    let mean = Reduce::all(Reduction::Mean, 2);
    assert_table(
        &Op::from(mean),
        &[("f32[?,3]", "f32[]"), ("i64[3,?]", "i64[]"), ("bool[3,3]", "-"), ("f32[3]", "-")],
    );
    assert_table(
        &Op::from(ReduceGrad(mean)),
        &[("f32[] f32[?,3]", "f32[?,3]"), ("f32[3] f32[3,1]", "-")],
    );
    let over = |axis, keep_dims| Reduce { axes: [axis].into_iter().collect(), keep_dims, ..mean };
    assert_table(&Op::from(over(1, false)), &[("f32[?,3,4]", "f32[?,4]"), ("f64[2]", "-")]);
    assert_table(&Op::from(over(0, true)), &[("i32[?,3]", "i32[1,3]"), ("bf16[2]", "-")]);
    assert_table(
        &Op::from(ReduceGrad(over(0, true))),
        &[("f64[1,3] f64[?,3]", "f64[?,3]"), ("f32[3] f32[2,3]", "-")],
    );
    let greatest = Reduce { reduction: Reduction::Max, ..over(0, false) };
    assert_table(
        &Op::from(ReduceGrad(greatest)),
        &[("f32[3] f32[?,3] f32[3]", "f32[?,3]"), ("f32[3] f32[?,3]", "-")],
    );
    let any = Reduce { reduction: Reduction::Any, ..over(0, false) };
    assert_table(&Op::from(any), &[("bool[?,3]", "bool[3]"), ("f32[3]", "-")]);
}

#[test]
fn comparisons_along_an_axis_give_positions() {
    let greatest = |axis, dtype| Op::from(Order::ArgMax { axis, dtype });
    let last = [
        ("f32[?,3]", "i64[?]"),
        ("f32[3]", "-"),
        ("i32[2,3]", "i64[2]"),
        ("f32[2,0]", "-"),
        ("bool[2,3]", "-"),
    ];
    assert_table(&greatest(1, DType::I64), &last);
    assert_table(&greatest(0, DType::I32), &[("f64[?,3]", "i32[3]"), ("f64[]", "-")]);
    assert_table(&greatest(0, DType::F32), &[("f64[?,3]", "-")]);
    let top = Op::from(Order::TopK { k: Some(2) });
    assert_table(
        &top,
        &[
            ("f32[?,3]", "f32[?,2] i32[?,2]"),
            ("i64[?]", "i64[2] i32[2]"),
            ("f32[1]", "-"),
            ("f32[]", "-"),
        ],
    );
    let sorted = Op::from(Order::TopK { k: None });
    assert_table(&sorted, &[("f32[?,3]", "f32[?,3] i32[?,3]"), ("i64[?]", "i64[?] i32[?]")]);
    let is_in = Op::from(Order::InTopK { k: 2 });
    assert_table(
        &is_in,
        &[("f32[?,3] i64[4]", "bool[4]"), ("f32[?,3] f32[4]", "-"), ("f32[3,3] i32[4]", "-")],
    );
}

#[test]
fn a_loss_takes_one_i32_label_a_row() {
    let loss = Op::from(LossFunction::SparseSoftmaxCrossEntropyWithLogits);
    assert_table(
        &loss,
        &[("f32[?,3] i32[?]", "f32[?] f32[?,3]"), ("f32[?,3] i32[8]", "f32[8] f32[8,3]")],
    );
    assert_table(
        &loss,
        &[("f32[4,3] i32[8]", "-"), ("f32[4,3] f32[4]", "-"), ("f32[4,3] i32[4,1]", "-")],
    );
    assert_table(&loss, &[("f64[?,3] i64[4]", "f64[4] f64[4,3]"), ("i32[4,3] i32[4]", "-")]);
    assert_table(
        &Op::from(LossFunction::Softmax),
        &[("f32[?,3]", "f32[?,3]"), ("f64[3]", "f64[3]"), ("f32[]", "-")],
    );
    let dense = Op::from(LossFunction::SoftmaxCrossEntropyWithLogits);
    assert_table(
        &dense,
        &[
            ("f32[?,3] f32[4,?]", "f32[4] f32[4,3]"),
            ("f32[4,3] f32[4]", "-"),
            ("f32[3] f32[3]", "-"),
        ],
    );
    assert_table(&Op::from(LossFunction::L2Loss), &[("f64[?,3]", "f64[]"), ("i32[3]", "-")]);
}

#[test]
fn a_loss_or_an_accuracy_of_unlike_shapes_is_refused_and_not_broadcast() {
    let g = Graph::new();
    let column = floats(&g, "column", [UNKNOWN, Some(1)]);
    let flat = floats(&g, "flat", [UNKNOWN]);
    for error in [
        mean_squared_error(&column, &flat).unwrap_err(),
        huber_loss(&column, &flat, 1.0).unwrap_err(),
    ] {
        assert_says(&error, "shapes.rs", &["of one shape; reshape", "f32[?,1] and f32[?]"]);
    }
    let of = |name: &str, dtype, dims: &[Option<usize>]| {
        g.placeholder(name, dtype, PartialShape::new(dims)).unwrap()
    };
    let logits = of("logits", DType::F32, &[Some(4), Some(3)]);
    let labels = [
        of("a", DType::I32, &[Some(4), Some(1)]),
        of("b", DType::I32, &[Some(3)]),
        of("c", DType::F32, &[Some(4)]),
    ];
    for labels in labels {
        let error = accuracy(&logits, &labels).unwrap_err();
        assert_says(&error, "shapes.rs", &["accuracy", "an i32 or i64 label for each row"]);
    }
    assert!(accuracy(&flat, &of("d", DType::I64, &[None])).is_err());
    let right = accuracy(&logits, &of("e", DType::I64, &[None])).unwrap();
    assert_eq!(right.tensor_type().to_string(), "f32[]");
}

#[test]
fn losses_take_f64() {
    let g = Graph::new();
    let [a, b] = ["a", "b"].map(|name| g.placeholder(name, DType::F64, [UNKNOWN]).unwrap());
    let of_types = [mean_squared_error(&a, &b), huber_loss(&a, &b, 0.5)];
    assert_eq!(of_types.map(|loss| loss.unwrap().tensor_type().to_string()), ["f64[]"; 2]);
}

#[test]
fn a_dense_cross_entropy_of_more_dimensions_has_the_shape_of_its_rows_without_an_argmax() {
    let g = Graph::new();
    let logits = floats(&g, "logits", [UNKNOWN, Some(5), Some(3)]);
    let labels = floats(&g, "labels", [UNKNOWN, Some(5), Some(3)]);
    let loss = softmax_cross_entropy(&logits, &labels).unwrap();
    assert_eq!(loss.tensor_type().to_string(), "f32[?,5]");
    assert!(snapshot(&g).operations.iter().all(|operation| operation.op.kind() != "ArgMax"));
    // Both unknown dimensions are those of the values.
    let unknown = floats(&g, "unknown", [UNKNOWN, UNKNOWN, Some(3)]);
    let loss = softmax_cross_entropy(&unknown, &unknown).unwrap();
    assert_eq!(loss.tensor_type().to_string(), "f32[?,?]");
    let turned = floats(&g, "turned", [Some(5), Some(2), Some(3)]);
    let error = softmax_cross_entropy(&floats(&g, "l", [Some(2), Some(5), Some(3)]), &turned);
    assert_says(&error.unwrap_err(), "shapes.rs", &["softmax_cross_entropy", "of one shape"]);
}

#[test]
fn what_is_alike_is_compared_and_everything_is_cast_and_passed_on() {
    let equal = Op::from(Compare::Equal);
    assert_table(
        &equal,
        &[("i64[?] i64[3]", "bool[3]"), ("i32[3] i64[3]", "-"), ("bool[3] bool[3]", "bool[3]")],
    );
    assert_table(
        &Op::from(Cast(DType::F32)),
        &[("bool[?]", "f32[?]"), ("i64[]", "f32[]"), ("", "-")],
    );
    assert_table(&Op::Identity, &[("bool[?]", "bool[?]"), ("f32[] f32[]", "-")]);
}

#[test]
fn bf16_is_stored_and_cast_and_to_compute_with_it_is_refused_with_advice() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2)]).cast(DType::BF16);
    let stored = g.variable("stored", &x).unwrap();
    stored.assign(&x.identity()).unwrap();
    assert_eq!(stored.read().cast(DType::F64).tensor_type(), TensorType::new(DType::F64, [2]));
    for error in
        [x.add(&x).unwrap_err(), stored.assign_add(&x).unwrap_err(), x.bias_add(&x).unwrap_err()]
    {
        assert_says(&error, "shapes.rs", &["bf16[2]", "cast it to f32"]);
    }
}

#[test]
fn constants_have_the_type_of_their_value() {
    let g = Graph::new();
    let value = Tensor::new([2, 2], &[1i32, 2, 3, 4]).unwrap();
    assert_eq!(g.constant(value).tensor_type(), TensorType::new(DType::I32, [2, 2]));
    assert_eq!(g.fill([3], 0.5f32).tensor_type(), TensorType::new(DType::F32, [3]));
    assert_eq!(g.constant(1i64).tensor_type(), TensorType::new(DType::I64, Shape::SCALAR));
}

#[test]
fn a_dense_layer_takes_each_row_of_the_last_axis_whatever_is_before_it() {
    let g = Graph::new();
    let y = dense(&floats(&g, "x", [None, Some(5), Some(3)]), 4).unwrap();
    assert_eq!(y.tensor_type().to_string(), "f32[?,5,4]");
    assert_eq!(g.trainable_variables()[0].spec().shape.dims(), [3, 4]);
    gradients(&y.sum(), &[g.trainable_variables()[0].read()]).unwrap();
    let two = dense(&floats(&g, "two", [None, None, Some(3)]), 4).unwrap();
    assert_eq!(two.tensor_type().to_string(), "f32[?,?,4]");
    assert_says(&dense(&floats(&g, "row", [Some(3)]), 4).unwrap_err(), "shapes.rs", &["dense"]);
}
