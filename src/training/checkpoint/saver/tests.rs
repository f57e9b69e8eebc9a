//! What a saver keeps, finds and refuses.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::tensor::Tensor;
use crate::training::checkpoint::{Memory, SavedVariable, Shard};

fn snapshot(global_step: u64) -> Snapshot {
    let variable = |name: &str, from: u64| {
        let values: Vec<f32> = (0..6).map(|at| (from * 10 + at) as f32).collect();
        SavedVariable::new(name, Tensor::new([2, 3], &values).unwrap())
    };
    let step = SavedVariable::new("global_step", Tensor::scalar(global_step as i64));
    let first = Shard { task: "ps:0".to_owned(), variables: vec![variable("mlp/w", global_step), step] };
    let second = Shard { task: "ps:1".to_owned(), variables: vec![variable("mlp/w/Adagrad", global_step + 1)] };
    Snapshot { global_step, shards: vec![first, second] }
}

#[test]
fn what_is_saved_is_found_by_another_saver() {
    let store = Memory::default();
    let saved = Saver::new(Arc::new(store.clone()), Retention::default()).save(&snapshot(7), Duration::ZERO).unwrap();
    assert_eq!((saved.name.as_str(), saved.unfinished.len()), ("model.ckpt-7", 0));
    let found = Saver::new(Arc::new(store), Retention::default()).latest().unwrap();
    let restored = found.checkpoint.unwrap();
    assert_eq!((restored.global_step, restored.name.as_str(), found.rejected.len()), (7, "model.ckpt-7", 0));
    for variable in snapshot(7).shards.iter().flat_map(|shard| &shard.variables) {
        let value = restored.tensor(&variable.name, (variable.value.dtype(), variable.value.shape()), None).unwrap();
        assert_eq!(value, variable.value);
    }
}
