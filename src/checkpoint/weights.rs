//! The model's variables among those of a checkpoint, and the names of what workers have of their
//! own there.

use std::collections::{BTreeMap, BTreeSet};

use crate::optimizer::LocalSgd;
use crate::tensor::Tensor;

/// The prefix of the names of workers' positions in their inputs.
pub(crate) const POSITIONS: &str = "input/";
/// The prefix of the names of the numbers of counted steps.
const COUNTED: &str = "own_values";

/// The name of the variable with the number of a worker's counted steps.
pub(crate) fn counter(worker: u32) -> String {
    own_name(COUNTED, worker)
}

/// The name of `worker`'s own variable `name`.
pub(crate) fn own_name(name: &str, worker: u32) -> String {
    format!("{name}/worker_{worker}")
}

/// The name that a worker has given its own variable, which is called `saved` in checkpoints.
fn name_at_worker(saved: &str) -> Option<&str> {
    let (name, worker) = saved.rsplit_once("/worker_")?;
    worker.parse::<u32>().is_ok().then_some(name)
}

/// The name that the variable `saved` has in the model if workers train copies.
pub(super) fn as_in_model(saved: &str) -> &str {
    name_at_worker(saved).or_else(|| LocalSgd::copies_of(saved)).unwrap_or(saved)
}

/// Whether `name` is that of another variable with a `/` and more after it, as a slot's is.
pub(super) fn is_like_slot(name: &str, names: &BTreeSet<&str>) -> bool {
    name.match_indices('/').any(|(at, _)| names.contains(&name[..at]))
}

/// The model's variables among `all`, without the global step, counters and slots: variables that
/// are named like slots are slots unless they are among `marked`.
///
/// Where each worker has trained a copy, a variable has the value of the center of all. One
/// without a center, such as a moving average of batch normalisation, has the first worker's.
pub(super) fn of_model(
    all: BTreeMap<String, Tensor>,
    marked: &BTreeSet<String>,
) -> BTreeMap<String, Tensor> {
    let has_own_values = all.contains_key(&counter(0));
    let (mut found, mut own) = (BTreeMap::new(), BTreeMap::new());
    for (saved, value) in all {
        match name_at_worker(&saved) {
            Some(_) if saved.starts_with(POSITIONS) => {}
            Some(COUNTED | LocalSgd::LOCAL_STEP) if has_own_values => {}
            Some(name) if has_own_values => {
                own.entry(name.to_owned()).or_insert(value);
            }
            _ => {
                found.insert(saved, value);
            }
        }
    }
    if has_own_values {
        found = as_copied(found);
    }
    for (name, value) in own {
        found.entry(name).or_insert(value);
    }
    found.remove("global_step");
    let in_model = |name| if has_own_values { as_in_model(name) } else { name };
    let marked: BTreeSet<&str> = marked.iter().map(|name| in_model(name.as_str())).collect();
    let names: Vec<String> = found.keys().cloned().collect();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    found.retain(|name, _| marked.contains(name.as_str()) || !is_like_slot(name, &names));
    found
}

/// `variables`, with each center under the name of the copies.
fn as_copied(variables: BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let names: BTreeSet<String> = variables.keys().cloned().collect();
    let renamed = |(name, value): (String, Tensor)| {
        let copies = LocalSgd::copies_of(&name).filter(|copies| !names.contains(*copies));
        (copies.map_or_else(|| name.clone(), str::to_owned), value)
    };
    variables.into_iter().map(renamed).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::checkpoint::{Memory, Retention, SavedVariable, Saver, Shard, Slice, Snapshot};
    use crate::tensor::DType;

    /// The model's variables among those called `names`, each with the number of its place.
    fn of(names: &[&str]) -> Vec<(String, f32)> {
        of_marked(names, &[])
    }

    /// The same where those of `marked` are known to be of the model.
    fn of_marked(names: &[&str], marked: &[&str]) -> Vec<(String, f32)> {
        let all = names
            .iter()
            .zip(0..)
            .map(|(name, place): (_, u8)| ((*name).to_owned(), Tensor::scalar(f32::from(place))));
        let marked = marked.iter().map(|name| (*name).to_owned()).collect();
        let found = of_model(all.collect(), &marked);
        found.into_iter().map(|(name, value)| (name, value.item().unwrap())).collect()
    }

    fn expected(values: &[(&str, f32)]) -> Vec<(String, f32)> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn of_copies_that_workers_train_the_model_is_the_center() {
        let names = [
            "bn/mean/worker_0",
            "bn/mean/worker_1",
            "global_step",
            "local_step/worker_0",
            "own_values/worker_0",
            "own_values/worker_1",
            "w/Adagrad/worker_0",
            "w/center",
            "w/center/Momentum",
            "w/start/worker_0",
            "w/worker_0",
            "w/worker_1",
        ];
        assert_eq!(of(&names), expected(&[("bn/mean", 0.0), ("w", 7.0)]));
    }

    #[test]
    fn what_is_known_to_be_of_the_model_is_no_slot_though_it_is_named_like_one() {
        let names = ["w", "w/Adam", "w/scale", "w/scale/Adam"];
        assert_eq!(of(&names), expected(&[("w", 0.0)]), "by their names alone");
        let both = [("w", 0.0), ("w/scale", 2.0)];
        assert_eq!(of_marked(&names, &["w/scale"]), expected(&both));
        let copies = ["own_values/worker_0", "w/center", "w/scale/center", "w/scale/worker_0"];
        let both = [("w", 1.0), ("w/scale", 2.0)];
        assert_eq!(of_marked(&copies, &["w/scale/center"]), expected(&both));
    }

    #[test]
    fn a_checkpoint_knows_which_variables_named_like_slots_are_of_the_model() {
        let of = |name: &str, is_of_model| SavedVariable {
            is_of_model,
            ..SavedVariable::new(name, Tensor::scalar(1f32))
        };
        let part = SavedVariable {
            slice: Some(Slice {
                full_name: "w/table".to_owned(),
                full_shape: [2].into(),
                begin: 0,
            }),
            is_of_model: true,
            ..SavedVariable::new("w/table/part_0", Tensor::zeros(DType::F32, [2]))
        };
        let variables =
            vec![of("w", true), of("w/Adam", false), of("w/scale", true), of("b/x", true), part];
        let mut saver = Saver::new(Arc::new(Memory::default()), Retention::default());
        let shards = vec![Shard { task: "ps:0".to_owned(), variables }];
        saver.save(&Snapshot { global_step: 1, shards }, Duration::ZERO).unwrap();
        let restored = saver.restore(1).unwrap();
        let marked: Vec<&str> = restored.of_model.iter().map(String::as_str).collect();
        assert_eq!(marked, ["w/scale", "w/table"], "what is not named like a slot needs no mark");
        let found = of_model(restored.clone().into_whole(), &restored.of_model);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["b/x", "w", "w/scale", "w/table"]);
    }

    #[test]
    fn counters_of_workers_and_positions_in_inputs_are_not_of_the_model() {
        let names = ["global_step", "input/rows/worker_0", "own_values/worker_0", "w"];
        assert_eq!(of(&names), expected(&[("w", 3.0)]));
        assert_eq!(
            of(&["w", "w/residual/worker_0", "own_values/worker_0"]),
            expected(&[("w", 0.0)])
        );
    }

    #[test]
    fn what_a_model_calls_input_or_center_or_by_a_worker_is_exported() {
        let names = ["clusters/center", "expert/worker_0", "input/kernel"];
        let all = [("clusters/center", 0.0), ("expert/worker_0", 1.0), ("input/kernel", 2.0)];
        assert_eq!(of(&names), expected(&all));
    }
}
