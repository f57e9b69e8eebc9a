//! The model's variables among those of a checkpoint, and the names of what workers have of their
//! own there.

use std::collections::{BTreeMap, BTreeSet};

use crate::optimizer::LocalSgd;
use crate::tensor::Tensor;

/// What the names of the positions of workers in their inputs begin with.
pub(crate) const POSITIONS: &str = "input/";
/// What the names of the numbers of counted steps begin with.
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

/// The model's variables among `all`, without the global step, counters and slots; slots are the
/// variables whose names begin with that of another and a `/`.
///
/// Where each worker has trained a copy, a variable has the value of the center of all. One
/// without a center, such as a moving average of batch normalisation, has the first worker's.
pub(super) fn of_model(all: BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
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
    let names: BTreeSet<String> = found.keys().cloned().collect();
    let is_slot = |name: &str| name.match_indices('/').any(|(at, _)| names.contains(&name[..at]));
    found.retain(|name, _| !is_slot(name));
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
    use super::*;

    /// The model's variables among those called `names`, each with the number of its place.
    fn of(names: &[&str]) -> Vec<(String, f32)> {
        let all = names
            .iter()
            .zip(0..)
            .map(|(name, place): (_, u8)| ((*name).to_owned(), Tensor::scalar(f32::from(place))));
        let found = of_model(all.collect());
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
