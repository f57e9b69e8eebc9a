//! Tests of reading variables in other parts than they were saved in.

use proptest::prelude::*;

use super::*;
use crate::checkpoint::fixture::{at, saver, snapshot};
use crate::checkpoint::{Memory, SavedVariable, Shard, Snapshot};

/// The parts of a table of `rows` rows of 3 whose ends are `cuts`, each with its slice.
fn parts(table: &Tensor, cuts: &[usize]) -> Vec<SavedVariable> {
    let rows = table.shape().dims()[0];
    let ends = cuts.iter().copied().chain([rows]);
    let mut begin = 0;
    ends.enumerate()
        .map(|(number, end)| {
            let values = &table.values::<f32>().unwrap()[begin * 3..end * 3];
            let value = Tensor::new([end - begin, 3], values).unwrap();
            let slice = Slice { full_name: "table".to_owned(), full_shape: table.shape(), begin };
            begin = end;
            let name = format!("table/part_{number}");
            SavedVariable { slice: Some(slice), ..SavedVariable::new(name, value) }
        })
        .collect()
}

fn table(rows: usize) -> Tensor {
    Tensor::new([rows, 3], &(0..rows * 3).map(|value| value as f32).collect::<Vec<_>>()).unwrap()
}

fn restored(variables: Vec<SavedVariable>) -> Restored {
    let mut saver = saver(Memory::default());
    // Every other part is on another parameter server, and each has its parts in the wrong order.
    let mut shards = vec![Shard::default(), Shard::default()];
    for (number, variable) in variables.into_iter().enumerate().rev() {
        shards[number % 2].variables.push(variable);
    }
    saver.save(&Snapshot { global_step: 1, shards }, at(1)).unwrap();
    saver.latest().unwrap().checkpoint.unwrap()
}

fn cuts(rows: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..=rows, 0..5).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    })
}

proptest! {
    #[test]
    fn a_variable_that_was_saved_in_any_parts_is_read_in_any_others(
        (rows, saved, wanted) in
            (1usize..12).prop_flat_map(|rows| (Just(rows), cuts(rows), cuts(rows))),
    ) {
        let table = table(rows);
        let restored = restored(parts(&table, &saved));
        for part in parts(&table, &wanted) {
            let read = restored
                .tensor(&part.name, (DType::F32, part.value.shape()), part.slice.as_ref())
                .unwrap();
            prop_assert_eq!(read, part.value);
        }
        prop_assert_eq!(
            restored.tensor("table", (DType::F32, table.shape()), None).unwrap(),
            table.clone()
        );
        let whole = restored.into_whole();
        prop_assert_eq!(whole.into_iter().collect::<Vec<_>>(), vec![("table".to_owned(), table)]);
    }
}

#[test]
fn a_variable_that_was_saved_whole_is_read_in_parts() {
    let table = table(7);
    let restored = restored(vec![SavedVariable::new("table", table.clone())]);
    for part in parts(&table, &[2, 2, 5]) {
        let read = restored
            .tensor(&part.name, (DType::F32, part.value.shape()), part.slice.as_ref())
            .unwrap();
        assert_eq!(read, part.value);
    }
}

#[test]
fn a_part_is_read_by_its_own_name_without_a_copy() {
    let restored = restored(parts(&table(4), &[2]));
    let part = restored.tensor("table/part_0", (DType::F32, [2, 3].into()), None).unwrap();
    assert_eq!(part.bytes().as_ptr(), restored.variables["table/part_0"].bytes().as_ptr());
}

#[test]
fn a_name_that_is_not_there_is_refused_with_one_that_is_like_it() {
    let mut saver = saver(Memory::default());
    saver.save(&snapshot(1, 0), at(1)).unwrap();
    let restored = saver.latest().unwrap().checkpoint.unwrap();
    let error =
        |name| restored.tensor(name, (DType::F32, [1].into()), None).unwrap_err().to_string();
    let expected = "model.ckpt-1 has no variable `mlp/w0` (did you mean `mlp/w`?); it has \
                    global_step, is_warm, mlp/w, mlp/w/Adagrad, none, table/part_0, table/part_1, \
                    table";
    assert_eq!(error("mlp/w0"), expected);
    assert!(
        error("zzz").starts_with("model.ckpt-1 has no variable `zzz`; it has"),
        "{}",
        error("zzz")
    );
}

#[test]
fn another_type_or_shape_is_refused_with_both() {
    let restored = restored(parts(&table(4), &[2]));
    let error = |dtype, shape: Shape, slice: Option<&Slice>| {
        restored.tensor("table", (dtype, shape), slice).unwrap_err().to_string()
    };
    let expected = "`table` is f32[4,3] in model.ckpt-1, and not f32[5,3]";
    assert_eq!(error(DType::F32, [5, 3].into(), None), expected);
    assert!(error(DType::F64, [4, 3].into(), None).ends_with("not f64[4,3]"));
    let of = |full_shape: Shape, begin| Slice { full_name: "table".to_owned(), full_shape, begin };
    assert_eq!(error(DType::F32, [2, 3].into(), Some(&of([5, 3].into(), 0))), expected);
    assert!(error(DType::F32, [2, 3].into(), Some(&of([4, 3].into(), 3))).contains("f32[4,3]"));
}
