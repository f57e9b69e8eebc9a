//! Operations in messages.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::*;
use crate::graph::{
    Attribute, Axes, Mirror, Op, OpDef, Padding, RandomLaw, Reduction, ShardStrategy, Sharding,
    Sliding, Subscript, TensorType,
};
use crate::kernels::KernelKind;
use crate::tensor::{DType, PartialShape, Shape, Tensor};
use crate::transport::wire::{decode, encode};

fn encoded(op: &Defined) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(op, &mut bytes).unwrap();
    bytes
}

/// Tensors travel beside the messages that hold them.
fn has_a_tensor(op: &Defined) -> bool {
    op.listed().iter().any(|(_, value)| matches!(value, Attribute::Tensor(_)))
}

/// Operations with other attributes than those of the table.
fn with_attributes() -> [Defined; 14] {
    let padding = Padding::Explicit([[1, 0], [2, 300]]);
    let sliding = Sliding { strides: [2, 1], dilations: [1, 3], padding };
    let convolution = Convolution { sliding, channels: Channels::Each };
    let axes: Axes = [0, 2].into_iter().collect();
    let table = Arc::from("table");
    [
        Unary::LeakyRelu(0.3).into(),
        UnaryGrad(Unary::Gelu { approximate: true }).into(),
        Cast(DType::BF16).into(),
        ReduceGrad(Reduce { reduction: Reduction::Max, axes, keep_dims: true }).into(),
        Norm::BatchInference { epsilon: 0.001 }.into(),
        Norm::Dropout { rate: 0.5, seeds: (u64::MAX, 7) }.into(),
        Random {
            law: RandomLaw::Normal { mean: -1.0, deviation: 2.0 },
            shape: [3, 4].into(),
            seeds: (7, 1 << 63),
            offset: 12,
        }
        .into(),
        Random {
            law: RandomLaw::Uniform { low: 0.0, high: 1.0 },
            shape: [None, Some(4)].into(),
            seeds: (7, 8),
            offset: 0,
        }
        .into(),
        Window::InputGradient(convolution, Some([28, 28])).into(),
        Window::AvgPool(Pool { size: [3, 2], sliding: Padding::Same.into() }).into(),
        Array::Reshape(PartialShape::new(&[None, Some(3)])).into(),
        Array::Slice { begin: vec![1, 0], size: vec![None, Some(2)] }.into(),
        Array::StridedSlice(vec![
            Subscript::At(-1),
            Subscript::NewAxis,
            Subscript::Every { begin: None, end: Some(-2), stride: -3 },
        ])
        .into(),
        Sparse::ShardIds(Sharding { table, rows: 9, shards: 2, strategy: ShardStrategy::Mod })
            .into(),
    ]
}

#[test]
fn an_operation_of_the_library_comes_back_from_a_message_as_it_was() {
    for op in built_in().iter().filter(|op| !has_a_tensor(op)).chain(&with_attributes()) {
        let back: Defined = decode(&encoded(op)).unwrap();
        assert_eq!(back, *op);
        assert_eq!(format!("{back:?}"), format!("{op:?}"));
    }
}

/// Another value of the same type; shapes, tensors and functions stay.
fn another(value: Attribute) -> Attribute {
    match value {
        Attribute::Int(int) => Attribute::Int(int.wrapping_add(1)),
        Attribute::Number(number) => Attribute::Number(number + 0.25),
        Attribute::Float(number) => Attribute::Float(number + 0.25),
        Attribute::Flag(flag) => Attribute::Flag(!flag),
        Attribute::Text(text) => Attribute::Text(text + "_"),
        Attribute::Ints(ints) => {
            Attribute::Ints(ints.iter().map(|int| int.wrapping_add(1)).collect())
        }
        Attribute::Type(_) => Attribute::Type(DType::F64),
        other => other,
    }
}

#[test]
fn every_operation_of_the_library_lists_the_attributes_in_which_it_can_differ() {
    let mut changed = Vec::new();
    for op in built_in() {
        let listed = op.listed().into_iter().map(|(_, value)| another(value));
        changed.extend(op.with(listed.collect()).filter(|changed| *changed != op));
    }
    assert!(changed.len() > 20, "{}", changed.len());
    for op in built_in().iter().chain(&with_attributes()).chain(&changed) {
        let registered = registry::of_kind(op.definition().kind()).unwrap().op;
        assert_eq!(registry::unlisted(op, &registered), None);
    }
}

#[test]
fn an_operation_of_the_library_is_its_number_and_the_values_of_its_attributes() {
    assert_eq!(encoded(&Unary::Relu.into()).len(), 1);
    let product = Product::MatMul { transpose_a: true, transpose_b: false };
    assert_eq!(encoded(&product.into())[1..], [1, 0]);
}

#[test]
fn a_message_with_attributes_that_no_operation_has_is_refused() {
    let mirrored = Array::MirrorPad { paddings: vec![(1, 2)], mirror: Mirror::Reflect };
    let mut bytes = encoded(&mirrored.into());
    assert_eq!(bytes[1..], [2, 2, 4, 0], "two integers, written zigzag, and a flag");
    bytes[2] = 1;
    let error = decode::<Defined>(&bytes).unwrap_err().to_string();
    assert!(error.contains("the attributes of an operation `MirrorPad`"), "{error}");
    let none = u8::try_from(built_in().len() + 1).unwrap();
    assert!(decode::<Defined>(&[none]).unwrap_err().to_string().contains("operation number"));
}

/// Every list of up to three values out of some that fit most operations; 0 is an index, too.
fn lists_of_inputs() -> impl Iterator<Item = Vec<Tensor>> {
    let dtypes = [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool];
    let shapes: [&[usize]; 3] = [&[], &[2], &[2, 2]];
    let small = dtypes.into_iter().flat_map(move |dtype| shapes.map(|shape| (dtype, shape)));
    let all = small.chain([(DType::F32, &[1, 2, 2, 1][..])]);
    let values: Vec<Tensor> =
        all.map(|(dtype, shape)| Tensor::zeros(dtype, Shape::new(shape))).collect();
    (0..=3).flat_map(move |count| {
        let values = values.clone();
        let list = move |n: usize| {
            let place = |at| n / values.len().pow(at) % values.len();
            (0..count).map(|at| values[place(at)].clone()).collect()
        };
        (0..16usize.pow(count)).map(list)
    })
}

#[test]
fn an_operation_that_infers_its_outputs_computes_them_or_says_why_it_can_not() {
    // A print computes, too, but writes.
    let is_silent = |op: &Defined| op.definition().kind() != "Print";
    let operations: Vec<Defined> = built_in().into_iter().filter(is_silent).collect();
    let mut computed = 0;
    for inputs in lists_of_inputs() {
        let of = |x: &Tensor| TensorType::new(x.dtype(), x.shape());
        let types: Vec<TensorType> = inputs.iter().map(of).collect();
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        for op in operations.iter().map(Defined::definition) {
            if op.infer(&types).is_ok() {
                let compute = AssertUnwindSafe(|| op.compute(&inputs).is_ok());
                assert!(catch_unwind(compute).is_ok(), "`{}` of {types:?} panics", op.kind());
                computed += 1;
            }
        }
    }
    assert!(computed > 1_000, "{computed}");
}

/// All operations of the library, by the kind of their kernel.
const BY_KERNEL: [(KernelKind, &str); 5] = [
    (KernelKind::Matmul, "MatMul BatchMatMulV2"),
    (
        KernelKind::Convolution,
        "Conv2D Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNative
        DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter",
    ),
    (
        KernelKind::Elementwise,
        "Relu Relu6 LeakyRelu Elu Selu Gelu Sigmoid Tanh Softplus Softsign Silu LogSigmoid Exp
        Expm1 Log Log1p Sqrt Rsqrt Reciprocal Square Abs Sign Neg Floor Ceil Round Sin Cos Erf
        ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad GeluGrad SigmoidGrad TanhGrad
        SoftplusGrad SoftsignGrad SiluGrad LogSigmoidGrad ExpGrad Expm1Grad LogGrad Log1pGrad
        SqrtGrad RsqrtGrad ReciprocalGrad SquareGrad AbsGrad SignGrad NegGrad FloorGrad CeilGrad
        RoundGrad SinGrad CosGrad ErfGrad
        Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Erfc Lgamma Digamma Trigamma Atan2
        Add Sub Mul RealDiv FloorDiv FloorMod Pow Maximum Minimum SquaredDifference AddN
        Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot
        BiasAdd ScaleRows Dropout Cumsum Cumprod TopKV2 TopKGrad InTopKV2 Choose Roll
        ExpandDims Squeeze MirrorPad MirrorPadGrad TileGrad Range Shape Size Rank
        ListDiff Where SetDifference
        DynamicReshape DynamicBroadcastTo DynamicTile DynamicTileGrad DynamicSlice DynamicPad
        DynamicRange DynamicStridedSlice DynamicStridedSliceGrad
        StopGradient CheckNumerics Assert Print CustomGradient PlaceholderWithDefault
        If While WhileGrad
        ListSet ListSetGrad ListPush ListPop ListSum ListResize SyntheticForward SyntheticBackward",
    ),
    (
        KernelKind::Reduction,
        "Sum Mean Prod Max Min Any All SumGrad MeanGrad ProdGrad MaxGrad MinGrad
        ArgMax ArgMin AvgPool AvgPoolGrad MaxPool MaxPoolGrad BiasAddGrad SumToLike
        FusedBatchNormV3 FusedBatchNormGradV3 LayerNorm LayerNormGrad
        Softmax SoftmaxGrad LogSoftmax LogSoftmaxGrad L2Loss
        SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
        SigmoidCrossEntropyWithLogits UnsortedSegmentSum",
    ),
    (
        KernelKind::Movement,
        "BroadcastTo Cast ConcatV2 DynamicPartition DynamicStitch DynamicStitchGrad GatherV2
        GatherGrad GatherNd OneHot Pack PadV2 RandomStandardNormal RandomUniform TruncatedNormal
        Reshape ReshapeLike ReverseV2 ScatterNd SelectV2 ShardIds Slice SplitLike SplitV
        StridedSlice StridedSliceGrad TensorScatterAdd TensorScatterUpdate Tile Transpose Unique
        Unpack ZerosLike",
    ),
];

/// A new operation fails here until it says what its kernel is, and is listed above.
#[test]
fn each_operation_of_the_library_has_the_kind_of_kernel_that_it_is_listed_with() {
    let listed = BY_KERNEL.iter().map(|(kind, names)| (*kind, names.split_whitespace().collect()));
    let listed: BTreeMap<KernelKind, BTreeSet<&str>> = listed.collect();
    let mut found = BTreeMap::<KernelKind, BTreeSet<&str>>::new();
    for op in built_in().iter().map(Defined::definition) {
        found.entry(op.kernel_kind()).or_default().insert(op.kind());
    }
    assert_eq!(found, listed);
    let inference = Norm::BatchInference { epsilon: 0.001 };
    assert_eq!(inference.kernel_kind(), KernelKind::Reduction, "named as in training");
    assert_eq!(
        Op::Fill { value: 0f32.into(), shape: Shape::SCALAR }.kernel_kind(),
        KernelKind::Movement
    );
    assert_eq!(Op::Identity.kernel_kind(), KernelKind::Elementwise);
}
