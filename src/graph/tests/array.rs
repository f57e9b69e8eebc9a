//! Types of operations that move elements or find them by indices, and the structure of their
//! gradients.

use super::shapes::assert_table;
use super::{assert_says, floats, snapshot, written};
use crate::graph::{Graph, Mirror, Op, Subscript, concat, gradients, stack};
use crate::operations::{Array, Indexed};
use crate::tensor::{DType, PartialShape};

#[track_caller]
fn assert_arrays(op: Array, rows: &[(&str, &str)]) {
    assert_table(&Op::from(op), rows);
}

#[track_caller]
fn assert_indexed(op: Indexed, rows: &[(&str, &str)]) {
    assert_table(&op.into(), rows);
}

#[test]
fn other_shapes_of_the_same_elements_keep_what_is_unknown() {
    assert_arrays(
        Array::ExpandDims(1),
        &[("f32[?,3]", "f32[?,1,3]"), ("f32[]", "-"), ("f32[1,2,3,4,5,6]", "-")],
    );
    assert_arrays(
        Array::Squeeze(vec![1]),
        &[("f32[?,1,3]", "f32[?,3]"), ("f32[2,?]", "f32[2]"), ("f32[2,2]", "-")],
    );
    assert_arrays(
        Array::Transpose(vec![2, 0, 1]),
        &[("bool[?,4,5]", "bool[5,?,4]"), ("f32[2,3]", "-")],
    );
    assert_arrays(Array::Transpose(vec![0, 0]), &[("f32[2,3]", "-")]);
    assert_arrays(Array::Reverse(vec![1]), &[("i64[?,4]", "i64[?,4]"), ("i64[4]", "-")]);
}

#[test]
fn joined_and_cut_axes_add_up() {
    let concat = || Array::Concat { axis: 1 };
    assert_arrays(
        concat(),
        &[("f32[?,3] f32[2,4]", "f32[2,7]"), ("f32[2,3] f32[2,?]", "f32[2,?]")],
    );
    assert_arrays(
        concat(),
        &[("f32[2,3] f32[3,3]", "-"), ("f32[2,3] i32[2,3]", "-"), ("f32[3]", "-"), ("", "-")],
    );
    let split = || Array::Split { axis: 0, sizes: vec![1, 2] };
    assert_arrays(
        split(),
        &[("i32[3,?]", "i32[1,?] i32[2,?]"), ("i32[?]", "i32[1] i32[2]"), ("i32[4]", "-")],
    );
    let like = || Array::SplitLike { axis: 0 };
    assert_arrays(
        like(),
        &[("f32[?,2] f32[?,2] f32[3,2]", "f32[?,2] f32[3,2]"), ("f32[4] f32[1] f32[2]", "-")],
    );
    let stack = || Array::Stack { axis: 1 };
    assert_arrays(
        stack(),
        &[("f32[?,3] f32[2,?]", "f32[2,2,3]"), ("f32[] f32[]", "-"), ("f32[2] f32[3]", "-")],
    );
    assert_arrays(
        Array::Unstack { axis: 1 },
        &[("f32[?,2]", "f32[?] f32[?]"), ("f32[2,?]", "-"), ("f32[2]", "-")],
    );
}

#[test]
fn parts_end_inside_the_whole() {
    let slice = || Array::Slice { begin: vec![1, 0], size: vec![None, Some(2)] };
    assert_arrays(
        slice(),
        &[("f32[4,3]", "f32[3,2]"), ("f32[?,?]", "f32[?,2]"), ("f32[4,1]", "-"), ("f32[0,2]", "-")],
    );
    let strided =
        || Array::StridedSlice(vec![Subscript::between(1, -1), Subscript::NewAxis, 2.into()]);
    assert_arrays(
        strided(),
        &[
            ("f32[5,3,?]", "f32[3,1,?]"),
            ("f32[?,3]", "f32[?,1]"),
            ("f32[5,2]", "-"),
            ("f32[5]", "-"),
        ],
    );
    let still = Subscript::Every { begin: None, end: None, stride: 0 };
    assert_arrays(Array::StridedSlice(vec![still]), &[("f32[5]", "-"), ("f32[?]", "-")]);
    assert_arrays(
        Array::StridedSliceGrad(vec![Subscript::between(1, 3)]),
        &[("f32[2] f32[?]", "f32[?]"), ("f32[3] f32[5]", "-")],
    );
}

#[test]
fn what_surrounds_a_value_adds_to_its_size() {
    let pad = || Array::Pad { paddings: vec![(1, 0), (0, 2)], value: 0f32.into() };
    assert_arrays(pad(), &[("f32[?,3]", "f32[?,5]"), ("i32[2,3]", "-"), ("f32[3]", "-")]);
    let reflect = || Array::MirrorPad { paddings: vec![(2, 0)], mirror: Mirror::Reflect };
    assert_arrays(reflect(), &[("f32[3]", "f32[5]"), ("f32[2]", "-"), ("f32[?]", "f32[?]")]);
    let symmetric = Array::MirrorPad { paddings: vec![(2, 0)], mirror: Mirror::Symmetric };
    assert_arrays(symmetric, &[("f32[2]", "f32[4]"), ("f32[1]", "-")]);
    assert_arrays(Array::Tile(vec![2, 0]), &[("f32[?,3]", "f32[?,0]"), ("f32[3]", "-")]);
    assert_arrays(Array::TileGrad(vec![2]), &[("f32[6]", "f32[3]"), ("f32[5]", "-")]);
    let to = |dims: &[Option<usize>]| Array::BroadcastTo(PartialShape::new(dims));
    assert_arrays(
        to(&[Some(2), None, Some(4)]),
        &[("f32[?,4]", "f32[2,?,4]"), ("f32[3,1]", "f32[2,3,4]")],
    );
    assert_arrays(to(&[Some(3)]), &[("f32[2]", "-"), ("f32[1,3]", "-"), ("f32[]", "f32[3]")]);
}

#[test]
fn indices_give_their_shape_to_what_they_find() {
    let gather = || Indexed::Gather { axis: 1, batch: 0 };
    assert_indexed(
        gather(),
        &[
            ("f32[?,5,2] i32[3,?]", "f32[?,3,?,2]"),
            ("f32[5] i32[3]", "-"),
            ("f32[2,5] f32[3]", "-"),
        ],
    );
    assert_indexed(
        Indexed::GatherNd,
        &[("bool[4,5,?] i64[?,2]", "bool[?,?]"), ("f32[4] i64[3,2]", "-")],
    );
    assert_indexed(Indexed::GatherNd, &[("f32[4] i64[3,?]", "-"), ("f32[4,5] i32[0]", "f32[4,5]")]);
    assert_indexed(
        Indexed::ScatterNd([4, 5].into()),
        &[("i32[?,1] f32[3,5]", "f32[4,5]"), ("i32[2,1] f32[3,5]", "-")],
    );
    assert_indexed(
        Indexed::TensorScatterAdd,
        &[("f32[4] i32[2,1] f32[2]", "f32[4]"), ("f32[4] i32[2,1] i32[2]", "-")],
    );
    assert_indexed(Indexed::TensorScatterAdd, &[("bool[4] i32[2,1] bool[2]", "-")]);
    assert_indexed(Indexed::TensorScatterUpdate, &[("bool[4] i32[2,1] bool[2]", "bool[4]")]);
    let hot = || Indexed::OneHot { depth: 4, axis: 1, on: 1f32.into(), off: 0f32.into() };
    assert_indexed(
        hot(),
        &[("i32[?,3]", "f32[?,4,3]"), ("i64[2]", "f32[2,4]"), ("i64[]", "-"), ("f32[2]", "-")],
    );
}

#[test]
fn a_negative_axis_counts_from_the_innermost_and_one_that_is_not_there_is_refused() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2), Some(3)]);
    let shape = |x: crate::graph::Output| x.tensor_type().to_string();
    assert_eq!(shape(x.expand_dims(-1).unwrap()), "f32[2,3,1]");
    assert_eq!(shape(stack(&[&x, &x], -2).unwrap()), "f32[2,2,3]");
    assert_eq!(shape(concat(&[&x, &x], -1).unwrap()), "f32[2,6]");
    assert_eq!(shape(x.expand_dims(0).unwrap().squeeze(&[]).unwrap()), "f32[2,3]");
    assert_eq!(shape(g.range(0i64, 10, 3).unwrap()), "i64[4]");
    assert_says(&x.reverse(&[2]).unwrap_err(), "array.rs", &["an axis 2", "f32[2,3]"]);
    assert_says(&x.transpose(&[0, -3]).unwrap_err(), "array.rs", &["an axis -3"]);
    assert_says(&concat(&[], 0).unwrap_err(), "array.rs", &["at least one"]);
    assert_says(&g.range(0f32, 1.0, 0.0).unwrap_err(), "array.rs", &["a step that is not 0"]);
}

#[test]
fn the_gradient_of_a_join_of_unknown_sizes_takes_them_from_what_was_joined() {
    let added = |size: Option<usize>| {
        let g = Graph::new();
        let (a, b) = (floats(&g, "a", [size]), floats(&g, "b", [Some(3)]));
        let loss = concat(&[&a, &b], 0).unwrap().square().sum();
        let before = snapshot(&g).operations.len();
        gradients(&loss, &[a, b]).unwrap();
        written(&snapshot(&g), before).pop().unwrap()
    };
    assert!(
        added(None).starts_with("gradients/SplitLike(") && added(None).ends_with(", a, b)"),
        "{}",
        added(None)
    );
    assert!(added(Some(2)).starts_with("gradients/SplitV("), "{}", added(Some(2)));
}

#[test]
fn gradients_of_gradients_of_moves_move_forward_again() {
    let forward = |op: Op, shape: PartialShape| {
        let g = Graph::new();
        let (x, like) =
            (g.placeholder("x", DType::F32, shape).unwrap(), floats(&g, "like", [Some(6)]));
        let y = x.with(&[&like], op).unwrap();
        let dx = gradients(&y.square().sum(), &[x]).unwrap().remove(0).unwrap();
        (dx.name(), dx.tensor_type().to_string())
    };
    let slice = Op::from(Array::StridedSliceGrad(vec![Subscript::between(1, 3)]));
    assert_eq!(
        forward(slice, [2].into()),
        ("gradients/StridedSlice".to_owned(), "f32[2]".to_owned())
    );
    let shape = Op::from(Array::ReshapeLike);
    assert_eq!(
        forward(shape, [2, 3].into()),
        ("gradients/ReshapeLike".to_owned(), "f32[2,3]".to_owned())
    );
}
