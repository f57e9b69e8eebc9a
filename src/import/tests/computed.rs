//! What imported operations compute where no graph of TensorFlow's tells it.

use super::*;
use crate::operations::KernelError;

fn scalar(name: &str, value: i32) -> NodeDef {
    let tensor = TensorProto {
        dtype: I32,
        tensor_shape: Some(shape(&[])),
        int_val: vec![value],
        ..TensorProto::default()
    };
    ints(name, &[value]).with("value", Value::Tensor(tensor))
}

/// The value of `output`, where each placeholder has the value of its name.
fn computed(output: &Output, fed: &[(&str, Tensor)]) -> Tensor {
    try_computed(output, fed).unwrap()
}

/// The same, or the first error of an operation.
fn try_computed(output: &Output, fed: &[(&str, Tensor)]) -> Result<Tensor, KernelError> {
    let def = output.graph().snapshot().unwrap();
    let mut values: Vec<Vec<Tensor>> = Vec::new();
    for operation in &def.operations {
        let value = |edge: &Edge| &values[edge.op.0 as usize][edge.output as usize];
        let inputs: Vec<&Tensor> = operation.inputs.iter().map(value).collect();
        let given = fed.iter().find(|(name, _)| *name == &*operation.name);
        values.push(match (given, &operation.op) {
            (Some((_, given)), _) => vec![given.clone()],
            (None, Op::Const(value)) => vec![value.clone()],
            (None, _) => call(&operation.op, &inputs)?.to_vec(),
        });
    }
    Ok(values[output.edge().op.0 as usize][output.edge().output as usize].clone())
}

#[test]
fn zero_times_a_pole_is_zero_and_so_is_its_gradient() {
    for (kind, pole) in [("Xlogy", 0.0f32), ("Xlog1py", -1.0), ("Xdivy", 0.0)] {
        let nodes =
            vec![placeholder("a", &[2]), placeholder("b", &[2]), node(kind, "y", &["a", "b"])];
        let imported = import(nodes).unwrap();
        let [y, a, b] = ["y", "a", "b"].map(|name| imported.output(name).unwrap());
        let slopes = gradients(&y.sum(), &[a, b]).unwrap();
        let fed = [("a", [0.0, 2.0]), ("b", [pole, 3.0])]
            .map(|(name, values)| (name, Tensor::new([2], &values).unwrap()));
        for output in slopes.into_iter().flatten().chain([y]) {
            let values = computed(&output, &fed);
            let [at_pole, other] = values.values::<f32>().unwrap()[..] else { panic!("two") };
            assert_eq!(at_pole, 0.0, "{kind}");
            assert!(other.is_finite() && other != 0.0, "{kind}: {other}");
        }
    }
}

#[test]
fn integers_of_shape_arithmetic_wrap_as_those_of_a_step_do() {
    let of = |nodes: Vec<NodeDef>| {
        let constants = [scalar("one", 1), scalar("two", 2), scalar("most", i32::MAX)];
        let all = constants.into_iter().chain([ints("many", &[65536, 65536, 3])]).chain(nodes);
        computed(&import(all.collect()).unwrap().output("y").unwrap(), &[])
    };
    let sum = node("AddV2", "sum", &["most", "one"]);
    let half = of(vec![sum, node("FloorDiv", "y", &["sum", "two"])]);
    assert_eq!(half, Tensor::scalar(-1_073_741_824i32));
    let pair = ints("two/values", &[2]);
    let rows = node("ExpandDims", "rows", &["two/values", "one"]);
    let product = of(vec![pair, rows, node("Mul", "y", &["rows", "many"])]);
    assert_eq!(product, Tensor::new([1, 3], &[131_072i32, 131_072, 6]).unwrap());
    let product = node("Prod", "product", &["many", "zero"]);
    let zero = node("Sub", "zero", &["one", "one"]);
    let seventh = of(vec![zero, product, node("FloorDiv", "y", &["product", "two"])]);
    assert_eq!(seventh, Tensor::scalar(0i32));
}

#[test]
fn the_gradient_of_a_reciprocal_takes_its_inputs_as_tensorflow_does() {
    let nodes =
        vec![placeholder("y", &[1]), placeholder("dy", &[1]), node("InvGrad", "x", &["y", "dy"])];
    let fed = [("y", 2.0f32), ("dy", 3.0)].map(|(name, value)| (name, Tensor::full([1], value)));
    let slope = computed(&import(nodes).unwrap().output("x").unwrap(), &fed);
    assert_eq!(slope, Tensor::full([1], -12f32));
}

#[test]
fn a_slice_in_strides_beside_a_begin_of_the_step_has_its_size() {
    let at = |name: &str| node("Placeholder", name, &[]).with("dtype", Value::Type(I32));
    let begin = at("begin").with("shape", Value::Shape(shape(&[2])));
    let nodes = vec![
        placeholder("x", &[4, 5]),
        begin,
        ints("end", &[0, 0]),
        ints("strides", &[2, 1]),
        node("StridedSlice", "y", &["x", "begin", "end", "strides"])
            .with("begin_mask", Value::I(1))
            .with("end_mask", Value::I(3)),
    ];
    let imported = import(nodes).unwrap();
    assert_eq!(type_of(&imported, "y"), "f32[2,?]");
    let x: Vec<f32> = (0..20u8).map(f32::from).collect();
    let fed =
        [("x", Tensor::new([4, 5], &x).unwrap()), ("begin", Tensor::new([2], &[0i32, 3]).unwrap())];
    let sliced = computed(&imported.output("y").unwrap(), &fed);
    assert_eq!(sliced, Tensor::new([2, 2], &[3f32, 4.0, 13.0, 14.0]).unwrap());
}

#[test]
fn rows_of_another_number_than_that_of_their_indices_are_not_stitched() {
    let stitch = |rows: i64| {
        import(vec![
            placeholder("many", &[rows, 2]),
            placeholder("one", &[1, 2]),
            ints("first", &[0, 1, 2]),
            ints("last", &[3]),
            node("DynamicStitch", "y", &["first", "last", "many", "one"]).with("N", Value::I(2)),
        ])
    };
    let fed = [("many", Tensor::full([3, 2], 1f32)), ("one", Tensor::full([1, 2], 2f32))];
    for rows in [3, -1] {
        let stitched = computed(&stitch(rows).unwrap().output("y").unwrap(), &fed);
        assert_eq!(stitched.slice::<f32>()[4..], [1.0, 1.0, 2.0, 2.0]);
    }
    assert!(stitch(4).is_err());
}

#[test]
fn blocks_of_images_of_unknown_size_are_refused() {
    let x = || placeholder("x", &[-1, -1, -1, 1]);
    let depth = node("SpaceToDepth", "y", &["x"]).with("block_size", Value::I(2));
    assert_refused(vec![x(), depth], &["must be known"]);
    let batch = node("SpaceToBatchND", "y", &["x", "block", "none"]);
    assert_refused(
        vec![x(), ints("block", &[2, 2]), ints("none", &[0, 0, 0, 0]), batch],
        &["must be known"],
    );
}

#[test]
fn segments_in_no_order_and_bands_beyond_a_matrix_are_refused() {
    for ids in [[1, 0], [-1, 0]] {
        let sum = node("SegmentSum", "y", &["x", "ids"]);
        assert_refused(vec![placeholder("x", &[2, 3]), ints("ids", &ids), sum], &["sorted"]);
    }
    let band = node("MatrixBandPart", "y", &["x", "lower", "upper"]);
    let of = |lower| {
        vec![placeholder("x", &[2, 3]), scalar("lower", lower), scalar("upper", 3), band.clone()]
    };
    assert_refused(of(3), &["3 diagonals"]);
    assert_eq!(type_of(&import(of(2)).unwrap(), "y"), "f32[2,3]");
}

#[test]
fn one_size_without_its_axis_is_known() {
    let nodes = vec![
        placeholder("x", &[-1, 3]),
        node("Shape", "shape", &["x"]),
        ints("zero", &[0]),
        ints("one", &[1]),
        node("StridedSlice", "rows", &["shape", "zero", "one", "one"]),
        node("Squeeze", "batch", &["rows"])
            .with("squeeze_dims", Value::List(ListValue { i: vec![0], ..ListValue::default() })),
        node("Squeeze", "three", &["three/values"]),
        ints("three/values", &[3]),
        node("Pack", "sizes", &["batch", "three"]),
        node("Reshape", "y", &["x", "sizes"]),
    ];
    assert_eq!(type_of(&import(nodes).unwrap(), "y"), "f32[?,3]");
}

#[test]
fn a_gradient_that_the_graph_does_not_have_is_refused_and_its_value_is_not() {
    let of = |gradient: &str| {
        let mut hidden = node("Identity", "y", &["x"]);
        if !gradient.is_empty() {
            hidden = hidden.with("_gradient_op_type", Value::S(gradient.into()));
        }
        let imported = import(vec![placeholder("x", &[2]), hidden]).unwrap();
        ["y", "x"].map(|name| imported.output(name).unwrap())
    };
    let [y, x] = of("Flip");
    let three = Tensor::full([2], 3f32);
    assert_eq!(computed(&y, &[("x", three.clone())]), three);
    let refused = gradients(&y.sum(), &[x]).expect_err("nobody knows it").to_string();
    assert!(refused.contains("custom_gradient"), "{refused}");
    let [y, _] = of("Flip");
    let written = to_graph_def(y.graph(), &[]).unwrap();
    let again = graph_def(&Graph::new(), &written).unwrap();
    let [y, x] = ["y/custom_gradient", "x"].map(|name| again.output(name).unwrap());
    assert!(gradients(&y.sum(), &[x]).is_err(), "written and read again, too");
    let [y, x] = of("");
    assert!(gradients(&y.sum(), &[x]).is_ok());
}

#[test]
fn of_custom_gradients_that_of_silu_alone_is_known() {
    let of = |handed_on: &[&str]| {
        let nodes = vec![
            placeholder("x", &[2]),
            placeholder("beta", &[]),
            node("Mul", "scaled", &["beta", "x"]),
            node("Sigmoid", "sigmoid", &["scaled"]),
            node("Mul", "product", &["x", "sigmoid"]),
            node("IdentityN", "y", handed_on).with("_gradient_op_type", Value::S("G".into())),
        ];
        let imported = import(nodes).unwrap();
        let [y, x] = ["y", "x"].map(|name| imported.output(name).unwrap());
        gradients(&y.sum(), &[x]).map(drop)
    };
    assert!(of(&["product", "x", "beta"]).is_ok());
    for others in [&["product", "x", "x"][..], &["product", "x"], &["sigmoid", "x", "beta"]] {
        assert!(of(others).is_err(), "{others:?}");
    }
}

#[test]
fn an_axis_that_is_named_twice_and_a_range_away_from_its_limit_are_refused() {
    for kind in ["Sum", "Max", "ReverseV2", "EuclideanNorm"] {
        let nodes = vec![placeholder("x", &[2, 3]), ints("axes", &[0, -2])];
        let nodes = nodes.into_iter().chain([node(kind, "y", &["x", "axes"])]).collect();
        assert_refused(nodes, &["node `y`", "[0, -2]", "twice"]);
    }
    let of = |limit: i32, step: i32| {
        let numbers = vec![scalar("start", 2), scalar("limit", limit), scalar("step", step)];
        let range = node("Range", "y", &["start", "limit", "step"]);
        numbers.into_iter().chain([range]).collect::<Vec<_>>()
    };
    assert_refused(of(5, -1), &["node `y`", "from its start to its limit"]);
    assert_refused(of(0, 1), &["node `y`", "from its start to its limit"]);
    assert!(import(of(2, -1)).is_ok() && import(of(0, -1)).is_ok());
}

#[test]
fn a_row_of_no_segment_is_left_out_if_its_id_is_negative_and_refused_if_it_is_too_great() {
    for (kind, expected) in [
        ("UnsortedSegmentSum", [0.0, 5.0]),
        ("UnsortedSegmentMax", [f32::MIN, 3.0]),
        ("UnsortedSegmentMin", [f32::MAX, 2.0]),
        ("UnsortedSegmentProd", [1.0, 6.0]),
    ] {
        let of = |ids: [i32; 3]| {
            let nodes = vec![
                placeholder("x", &[3]),
                ints("ids", &ids),
                scalar("segments", 2),
                node(kind, "y", &["x", "ids", "segments"]),
            ];
            let y = import(nodes).unwrap().output("y").unwrap();
            try_computed(&y, &[("x", Tensor::new([3], &[2f32, 3.0, 5.0]).unwrap())])
        };
        assert_eq!(of([1, 1, -1]).unwrap(), Tensor::new([2], &expected).unwrap(), "{kind}");
        let refused = of([1, 2, -1]).map(drop).unwrap_err().to_string();
        let why = if kind == "UnsortedSegmentSum" { "the index 2" } else { "out of range [0, 2)" };
        assert!(refused.contains(why), "{kind}: {refused}");
    }
}

#[test]
fn blocks_of_images_of_one_unknown_side_are_moved_and_of_two_refused() {
    let of = |dims: &[i64]| {
        let x = placeholder("x", dims);
        vec![x, node("DepthToSpace", "y", &["x"]).with("block_size", Value::I(2))]
    };
    assert_eq!(type_of(&import(of(&[1, -1, 3, 4])).unwrap(), "y"), "f32[1,?,6,1]");
    assert_refused(of(&[1, -1, -1, 4]), &["node `y`", "height, width and depth must be known"]);
    assert_refused(of(&[-1, -1, 3, 4]), &["node `y`", "height, width and depth must be known"]);
    let back = |crops: &[i32]| {
        let crops = ints("crops", crops).with(
            "value",
            Value::Tensor(TensorProto {
                dtype: I32,
                tensor_shape: Some(shape(&[2, 2])),
                int_val: crops.to_vec(),
                ..TensorProto::default()
            }),
        );
        let batch = node("BatchToSpaceND", "y", &["x", "block", "crops"]);
        vec![placeholder("x", &[4, -1, 3, 5]), ints("block", &[2, 2]), crops, batch]
    };
    assert_eq!(type_of(&import(back(&[1, 0, 0, 0])).unwrap(), "y"), "f32[1,?,6,5]");
    assert_refused(back(&[0, 1, 0, 0]), &["node `y`", "must have a known size"]);
}

#[test]
fn a_squeeze_of_no_axes_is_written_as_what_it_is() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [Some(1), None]).unwrap();
    let y = x.with(&[], Array::Squeeze(vec![])).unwrap();
    let written = to_graph_def(&g, &[&y]).unwrap();
    let again = graph_def(&Graph::new(), &written).unwrap();
    assert_eq!(again.kinds().get("Identity"), Some(&1), "{:?}", again.kinds());
    assert_eq!(type_of(&again, &y.name()), "f32[1,?]");
}

#[test]
fn a_tensor_array_has_as_many_places_as_the_step_computes() {
    let of_type = |node: NodeDef, dtype| node.with("dtype", Value::Type(dtype));
    let nodes = vec![
        placeholder("x", &[]),
        of_type(placeholder("size", &[]), I32),
        scalar("at", 1),
        of_type(node("TensorArrayV3", "list", &["size"]), F32),
        node("TensorArrayWriteV3", "written", &["list", "at", "x", "list:1"]),
        of_type(node("TensorArrayReadV3", "read", &["list", "at", "written"]), F32),
    ];
    let read = import(nodes).unwrap().output("read").unwrap();
    let value_at = |size: i32| {
        let fed = [("x", Tensor::scalar(2.5f32)), ("size", Tensor::scalar(size))];
        try_computed(&read, &fed).map(|value| value.item::<f32>().unwrap())
    };
    assert_eq!(value_at(2).unwrap(), 2.5);
    let outside = value_at(1).unwrap_err().to_string();
    assert!(outside.contains("the index 1"), "{outside}");
}
