//! The placement of a variable's shards, and of the operations on each: on the shard's parameter
//! server.

use super::{Built, snapshot};
use crate::cluster::ClusterSpec;
use crate::graph::{
    Graph, InitialRows, Partitioner, ShardStrategy, embedding_lookup_unique, variable_gradients,
};
use crate::placement::ReplicaDeviceSetter;

#[test]
fn a_shard_and_all_that_is_about_it_alone_is_on_its_parameter_server() -> Built {
    let g = Graph::new();
    let cluster = ClusterSpec::simulated([("ps", 2), ("worker", 1)]).unwrap();
    let table = g.with_device_fn(ReplicaDeviceSetter::new(&cluster), |g| {
        let ids = g.constant(3i64).reshape([1])?;
        let table = g.partitioned_variable(
            "t",
            [5, 2],
            InitialRows::Constant(0.0),
            Partitioner::FixedSize(2),
        )?;
        let loss = embedding_lookup_unique(&table, &ids, ShardStrategy::Div)?.square().sum();
        variable_gradients(&loss, table.shards()).map(|_| table)
    })?;
    let names: Vec<String> = table.shards().iter().map(|shard| shard.name()).collect();
    assert_eq!(names, ["t/part_0", "t/part_1"]);
    let rows: Vec<usize> =
        table.shards().iter().map(|shard| shard.spec().shape.dims()[0]).collect();
    assert_eq!(rows, [3, 2]);
    let graph = snapshot(&g);
    let device = |name: &str| {
        let found = graph.operations.iter().find(|operation| *operation.name == *name);
        found.unwrap_or_else(|| panic!("no `{name}`")).device.to_string()
    };
    assert_eq!([device("t/part_0"), device("t/part_1")], ["/job:ps/task:0", "/job:ps/task:1"]);
    assert_eq!(device("embedding_lookup/ResourceGather_1"), "/job:ps/task:1");
    assert_eq!(device("Fill"), "", "it follows its only user, the shard's first assignment");
    for name in
        ["embedding_lookup/Unique", "embedding_lookup/ShardIds", "gradients/DynamicStitchGrad"]
    {
        assert_eq!(device(name), "/job:worker", "{name}");
    }
    Ok(())
}
