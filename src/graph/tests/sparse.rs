//! Operations on numbered rows: their shapes, their devices, and the structure of their gradients.

use super::{assert_says, floats};
use crate::graph::{
    FifoQueue, Gradient, Graph, GraphError, GraphProblem, IndexedSlices, InitialRows, OpDef,
    Partitioner, ShardStrategy, Sharding, TensorType, embedding_lookup, variable_gradients,
};
use crate::operations::Sparse;
use crate::tensor::{DType, Tensor};

#[test]
fn a_dimension_that_values_decide_is_unknown_and_one_that_they_do_not_is_known() {
    let g = Graph::new();
    let ids = g.placeholder("ids", DType::I64, [Some(6)]).unwrap();
    let (values, index) = ids.unique().unwrap();
    assert_eq!([values, index].map(|x| x.tensor_type().to_string()), ["i64[?]", "i32[6]"]);
    let sums = floats(&g, "x", [Some(6), None, Some(2)]).unsorted_segment_sum(&ids, 4).unwrap();
    assert_eq!(sums.tensor_type().to_string(), "f32[4,?,2]");
    let v = g.variable("v", &g.zeros([5, 3])).unwrap();
    let by_slots = g.placeholder("by_slots", DType::I32, [None, Some(2)]).unwrap();
    assert_eq!(v.gather(&by_slots).unwrap().tensor_type().to_string(), "f32[?,2,3]");
}

#[test]
fn what_has_no_rows_and_what_is_no_id_is_refused() {
    let g = Graph::new();
    let (x, ids) =
        (floats(&g, "x", [None]), g.placeholder("ids", DType::I64, [None, None]).unwrap());
    assert_says(
        &x.unique().unwrap_err(),
        "sparse.rs",
        &["Unique", "a vector of i32 or i64", "f32[?]"],
    );
    let scalar = g.variable("scalar", &g.constant(1f32)).unwrap();
    assert_says(
        &scalar.gather(&ids).unwrap_err(),
        "sparse.rs",
        &["ResourceGather", "rows of an f32 variable"],
    );
    let error =
        IndexedSlices::new(&floats(&g, "y", [Some(3), None]), &g.constant(1i64), 4).unwrap_err();
    assert_says(&error, "sparse.rs", &["IndexedSlices", "f32[3,?] and i64[]"]);
    let two = Partitioner::FixedSize(2);
    let table = g.partitioned_variable("t", [4, 2], InitialRows::Constant(0.0), two).unwrap();
    let error = embedding_lookup(&table, &ids, ShardStrategy::Div).unwrap_err();
    assert_says(&error, "sparse.rs", &["embedding_lookup", "at most one dimension"]);
    let many = g.placeholder("many", DType::I64, [Some(1); 6]).unwrap();
    let error = embedding_lookup(&table, &many, ShardStrategy::Div).unwrap_err();
    let told = ["at most 6 dimensions together", "i64[1,1,1,1,1,1] and f32[4,2]"];
    assert_says(&error, "sparse.rs", &told);
    let none = Partitioner::FixedSize(0);
    let error = g.partitioned_variable("u", [4, 2], InitialRows::Constant(0.0), none).unwrap_err();
    assert_says(&error, "sparse.rs", &["u (PartitionedVariable)", "1 to 10000 shards"]);
    let foreign = Graph::new().placeholder("ids", DType::I64, [None]).unwrap();
    let error = embedding_lookup(&table, &foreign, ShardStrategy::Div).unwrap_err();
    assert_eq!(error.problem, GraphProblem::OtherGraph("ids".to_owned()));
}

#[test]
fn rows_are_dealt_to_as_many_parts_as_there_can_be() {
    let g = Graph::new();
    let x = floats(&g, "x", [Some(2), None, Some(3)]);
    let part = g.placeholder("part", DType::I32, [None, None]).unwrap();
    let parts = x.dynamic_partition(&part, 2).unwrap();
    assert_eq!(
        parts.iter().map(|x| x.tensor_type().to_string()).collect::<Vec<_>>(),
        ["f32[?,3]"; 2]
    );
    for parts in [0, 1 << 20] {
        let error = x.dynamic_partition(&part, parts).unwrap_err();
        assert_says(&error, "sparse.rs", &["DynamicPartition", "1 to 65536 parts"]);
        let table = "t".into();
        let sharding = Sharding { table, rows: 9, shards: parts, strategy: ShardStrategy::Mod };
        let ids = TensorType::new(DType::I64, [None]);
        let problem = Sparse::ShardIds(sharding).infer(&[ids]).unwrap_err();
        assert!(problem.to_string().contains("1 to 65536 shards"), "{problem}");
    }
}

#[test]
fn rows_are_put_together_only_where_each_has_a_position_of_its_own() {
    let stitched = |positions: [i32; 3]| {
        let positions = Tensor::new([3], &positions).unwrap();
        let rows = Tensor::new([3, 1], &[1f32, 2.0, 3.0]).unwrap();
        Sparse::Stitch.compute(&[&positions, &rows])
    };
    assert_eq!(stitched([2, 0, 1]).unwrap()[0].slice::<f32>(), [2.0, 3.0, 1.0]);
    let error = stitched([2, 0, 2]).unwrap_err().to_string();
    assert!(error.contains("two rows have the position 2"), "{error}");
    assert!(stitched([3, 0, 1]).is_err() && stitched([-1, 0, 1]).is_err());
}

#[test]
fn elements_of_six_dimensions_are_not_stacked() {
    let g = Graph::new();
    let queue = FifoQueue::new(&g, "q", None, &[(DType::F32, [1; 6].into())]).unwrap();
    let error = queue.enqueue_many(&[&g.zeros([1; 6])]).unwrap_err();
    assert_says(&error, "sparse.rs", &["QueueEnqueueMany", "at most 5 dimensions"]);
}

#[test]
fn only_a_variable_whose_rows_alone_are_read_has_a_gradient_of_rows() -> Result<(), GraphError> {
    let g = Graph::new();
    let (rows, whole, unused) = (
        g.variable("a", &g.zeros([4, 2]))?,
        g.variable("b", &g.zeros([4, 2]))?,
        g.variable("c", &g.zeros([4, 2]))?,
    );
    let ids = g.placeholder("ids", DType::I64, [None, Some(3)])?;
    let gathered = rows.gather(&ids)?;
    let loss = gathered.sum().add(&whole.gather(&ids)?.sum())?.add(&whole.read().sum())?;
    let found = variable_gradients(&loss, &[rows.clone(), whole, unused])?;
    let [Some(Gradient::Slices(slices)), Some(Gradient::Dense(dense)), None] = found.as_slice()
    else {
        panic!("{found:?}")
    };
    let types = [slices.values(), slices.indices(), &slices.to_dense(), dense]
        .map(|x| x.tensor_type().to_string());
    assert_eq!(types, ["f32[?,2]", "i64[?]", "f32[4,2]", "f32[4,2]"]);
    let versions = |gradient: &Gradient| {
        rows.versions(gradient).iter().map(|version| version.name()).collect::<Vec<_>>()
    };
    assert_eq!(
        versions(&IndexedSlices::new(&g.zeros([1, 2]), &g.constant(one_id()), 4)?.into()),
        ["a/read:1"]
    );
    let of_values = variable_gradients(&gathered.square().sum(), std::slice::from_ref(&rows))?
        .remove(0)
        .unwrap();
    assert_eq!(versions(&of_values), ["ResourceGather:1"], "the version that the rows are of");
    Ok(())
}

fn one_id() -> Tensor {
    Tensor::full([1], 0i64)
}
