//! Graphs that don't fit together, drawn by the thousand: an import is right or refused.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const I8: i32 = 6;
const BOOL: i32 = 10;

#[test]
fn a_node_of_more_parts_than_memory_holds_is_refused() {
    for parts in [i64::MAX, 1 << 40] {
        let split = node("Split", "y", &["axis", "x"]).with("T", Value::Type(F32));
        let axis = ints("axis", &[0]);
        let nodes = vec![axis, placeholder("x", &[0]), split.with("num_split", Value::I(parts))];
        assert_refused(nodes, &["y", "equal parts of axis 0 of [0]"]);
    }
    let unpack = node("Unpack", "y", &["x"]).with("T", Value::Type(F32));
    assert_refused(vec![placeholder("x", &[1 << 40]), unpack], &["y", "65536 at most"]);
    let reshape = node("Reshape", "y", &["x", "sizes"]).with("T", Value::Type(F32));
    let sizes = placeholder("sizes", &[1 << 40]);
    assert_refused(
        vec![placeholder("x", &[2]), sizes, reshape],
        &["y", "its input 1 must be known before a step runs"],
    );
}

#[test]
fn integers_of_more_dimensions_than_a_shape_has_are_refused() {
    let seven = ints("seven", &[1; 7]);
    let fill = node("Fill", "y", &["seven", "int"]);
    assert_refused(vec![seven.clone(), int("int", 3), fill], &["y", "more than 6 dimensions"]);
    let reshape = node("Reshape", "y", &["one", "seven"]);
    assert_refused(vec![seven, ints("one", &[3]), reshape], &["y", "more than 6 dimensions"]);
    let pack = |i: usize| node("Pack", &format!("p{}", i + 1), &[&format!("p{i}")]);
    let packs = std::iter::once(int("p0", 3)).chain((0..7).map(pack));
    assert_refused(packs.collect(), &["p7"]);
}

#[test]
fn many_integers_that_are_joined_are_left_to_the_step() {
    let join = |i: usize| {
        let from = format!("j{i}");
        node("ConcatV2", &format!("j{}", i + 1), &[&from, &from, "axis"])
    };
    let nodes = [ints("j0", &[1, 2]), int("axis", 0)].into_iter().chain((0..12).map(join));
    let imported = import(nodes.collect()).unwrap();
    assert_eq!(type_of(&imported, "j12"), "i32[8192]");
    let def = imported.graph().snapshot().unwrap();
    let joined = &def.operation(imported.target("j12").unwrap().op_id()).op;
    assert!(!matches!(joined, Op::Const(_)), "{joined:?}");
}

#[test]
fn empty_integers_of_a_huge_shape_are_joined_at_once() {
    let empty = TensorProto {
        dtype: I32,
        tensor_shape: Some(shape(&[1 << 40, 0])),
        ..TensorProto::default()
    };
    let empty = ints("empty", &[]).with("value", Value::Tensor(empty));
    let joined = node("ConcatV2", "y", &["empty", "empty", "axis"]);
    let imported = import(vec![empty, int("axis", 1), joined]).unwrap();
    assert_eq!(type_of(&imported, "y"), "i32[1099511627776,0]");
}

#[test]
fn arithmetic_that_uses_a_size_again_and_again_is_as_long_as_its_nodes() {
    let sizes = node("Shape", "s0", &["x"]);
    let double = |i: usize| {
        let from = format!("s{i}");
        node("AddV2", &format!("s{}", i + 1), &[&from, &from])
    };
    let cast =
        node("Cast", "y", &["s14"]).with("SrcT", Value::Type(I32)).with("DstT", Value::Type(F32));
    let nodes = [placeholder("x", &[-1]), sizes].into_iter().chain((0..14).map(double));
    let imported = import(nodes.chain([cast]).collect()).unwrap();
    assert!(imported.graph().snapshot().unwrap().operations.len() < 100);
}

#[test]
fn constants_that_repeat_their_values_share_one_limit() {
    let repeated = |name: &str| {
        let proto = TensorProto {
            dtype: I8,
            tensor_shape: Some(shape(&[1 << 25])),
            int_val: vec![1],
            ..TensorProto::default()
        };
        ints(name, &[]).with("dtype", Value::Type(I8)).with("value", Value::Tensor(proto))
    };
    let constants = ["a", "b", "c"].map(repeated);
    assert_refused(constants.to_vec(), &["c", "constants repeat more than 67108864 values in all"]);
}

/// Every kind that has a translation or is folded.
const KINDS: &str = "\
    Abs Acos Acosh Add AddN AddV2 All Any ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdam \
    ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum \
    ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp ArgMax ArgMin Asin Asinh Assert \
    Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp Atan Atan2 \
    Atanh AvgPool AvgPoolGrad BatchMatMul BatchMatMulV2 BatchToSpaceND BiasAdd BiasAddGrad \
    BroadcastArgs BroadcastGradientArgs BroadcastTo Bucketize Cast Ceil CheckNumerics Concat \
    ConcatOffset ConcatV2 Const Conv2D Conv2DBackpropFilter Conv2DBackpropInput Cos Cosh Cumprod \
    Cumsum DenseToDenseSetOperation DepthToSpace DepthwiseConv2dNative \
    DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Digamma Dilation2D \
    Dilation2DBackpropFilter Dilation2DBackpropInput Div DivNoNan DynamicPartition DynamicStitch \
    Einsum Elu EmptyTensorList Enter Equal Erf Erfc EuclideanNorm Exit Exp ExpandDims Expm1 Fill \
    Floor FloorDiv FloorMod FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 \
    FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Gather GatherNd GatherV2 Greater \
    GreaterEqual Identity IdentityN If InTopKV2 Inv InvGrad InvertPermutation IsFinite IsInf IsNan \
    IsVariableInitialized L2Loss LeakyRelu LeakyReluGrad Less LessEqual Lgamma ListDiff Log Log1p \
    LogSoftmax LogicalAnd LogicalNot LogicalOr LoopCond MatMul MatrixBandPart MatrixDiag \
    MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 Max MaxPool \
    MaxPoolGrad Maximum Mean Merge Min Minimum MirrorPad MirrorPadGrad Mul MulNoNan Neg \
    NextIteration NoOp NotEqual OneHot OnesLike OptionalFromValue OptionalGetValue OptionalNone \
    Pack Pad PadV2 ParallelDynamicStitch PartitionedCall Placeholder PlaceholderWithDefault \
    Polygamma Pow PreventGradient Print Prod RandomStandardNormal RandomUniform Range Rank \
    ReadVariableOp RealDiv Reciprocal ReciprocalGrad RefIdentity RefMerge RefSwitch Relu Relu6 \
    Reshape ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad \
    ResourceApplyAdam ResourceApplyGradientDescent ResourceGather ResourceScatterAdd \
    ResourceScatterSub ReverseSequence ReverseV2 Rint Roll Round Rsqrt RsqrtGrad ScatterAdd \
    ScatterNd ScatterSub SegmentSum Select SelectV2 Selu Shape ShapeN Sigmoid SigmoidGrad Sign Sin \
    Sinh Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits Softplus Softsign \
    SpaceToBatchND SpaceToDepth SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 \
    SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSum \
    SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSoftmaxCrossEntropyWithLogits Split SplitV \
    Sqrt SqrtGrad Square SquaredDifference Squeeze StackPopV2 StackPushV2 StackV2 \
    StatefulPartitionedCall StatelessIf StatelessWhile StopGradient StridedSlice StridedSliceGrad \
    Sub Sum Switch Tan Tanh TanhGrad TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 \
    TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArrayV3 \
    TensorArrayWriteV3 TensorListElementShape TensorListFromTensor TensorListGather \
    TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListReserve \
    TensorListResize TensorListScatterIntoExistingList TensorListSetItem TensorListStack \
    TensorScatterAdd TensorScatterSub TensorScatterUpdate Tile TopKV2 Transpose Truncate \
    TruncateDiv TruncateMod TruncatedNormal Unique UniqueV2 Unpack UnsortedSegmentMax \
    UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum VarHandleOp VarIsInitializedOp \
    Variable VariableShape VariableV2 Where While Xdivy Xlog1py Xlogy ZerosLike";

/// Values of several types and ranks for a node to take, some of them known.
const OPERANDS: &[&str] =
    &["x", "image", "one", "matrix", "flag", "variable", "no", "int", "axis", "two", "many", "^x"];

/// Attributes that are integers.
const NUMBERS: &[&str] = &[
    "axis",
    "shrink_axis_mask",
    "new_axis_mask",
    "ellipsis_mask",
    "num_split",
    "batch_dims",
    "num",
    "N",
    "num_elements",
    "block_size",
    "begin_mask",
    "num_lower",
    "seed",
];

/// Attributes that are lists of integers.
const LISTS: &[&str] =
    &["strides", "ksize", "dilations", "rates", "squeeze_dims", "explicit_paddings", "boundaries"];

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => Just(1 << 40), 12 => -3i64..5]
}

/// A scalar of one integer.
fn int(name: &str, value: i32) -> NodeDef {
    let scalar = TensorProto { dtype: I32, int_val: vec![value], ..TensorProto::default() };
    ints(name, &[value]).with("value", Value::Tensor(scalar))
}

/// The nodes that [`OPERANDS`] names.
fn operands(drawn: &[i32], flag: i32) -> Vec<NodeDef> {
    let variable = node("VariableV2", "variable", &[])
        .with("dtype", Value::Type(F32))
        .with("shape", Value::Shape(shape(&[2, 3])));
    vec![
        placeholder("x", &[-1, 2, 3]),
        placeholder("image", &[2, 4, 4, 2]),
        placeholder("one", &[]),
        placeholder("matrix", &[-1, 3]),
        placeholder("flag", &[]).with("dtype", Value::Type(flag)),
        variable,
        ints("no", &[]),
        int("int", drawn[0]),
        int("axis", 1),
        ints("two", &drawn[..2]),
        ints("many", drawn),
    ]
}

proptest! {
    #[test]
    fn no_bytes_bring_the_importer_down(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _: Result<Imported, ImportError> = graph_def(&Graph::new(), &bytes);
    }

    #[test]
    fn no_operands_and_attributes_bring_the_importer_down(
        kind in select(KINDS.split_whitespace().collect::<Vec<_>>()),
        inputs in proptest::collection::vec(select(OPERANDS), 0..7),
        drawn in proptest::collection::vec(
            prop_oneof![1 => Just(i32::MIN), 1 => Just(i32::MAX), 8 => -3..5], 4,
        ),
        (named, value) in (select(NUMBERS), number()),
        (listed, list) in (select(LISTS), proptest::collection::vec(number(), 0..6)),
        padding in select(vec!["SAME", "VALID", "EXPLICIT"]),
        (dtype, flag) in (select(vec![F32, I32, I64, BOOL]), select(vec![BOOL, I32, I64])),
    ) {
        let list = Value::List(ListValue { i: list, ..ListValue::default() });
        let drawn_node = node(kind, "y", &inputs)
            .with("T", Value::Type(dtype))
            .with("dtype", Value::Type(dtype))
            .with("strides", list.clone())
            .with("ksize", list.clone())
            .with(listed, list)
            .with("padding", Value::S(padding.as_bytes().to_vec()))
            .with("shape", Value::Shape(shape(&[2, value])))
            .with(named, Value::I(value));
        let mut nodes = operands(&drawn, flag);
        nodes.push(drawn_node);
        if let Ok(imported) = import(nodes) {
            let _: Result<Output, ImportError> = imported.output("y");
        }
    }
}
