//! Checks of what measures a training: the chief's looks at the test split, or an evaluator's at
//! checkpoints.

use std::collections::BTreeMap;

use super::mistakes::Mistakes;
use super::{Checkpoint, Tasks};
use crate::kernels::Numerics;
use crate::training::Stop;

/// Checks that a training which stops at an accuracy has one, and that one which is looked at
/// `measures` any: without numbers a look still takes its time. An evaluator, if there is one,
/// looks at checkpoints.
pub(super) fn check_accuracy(
    stop: &Stop,
    measures: bool,
    numerics: Numerics,
    has_evaluator: bool,
    found: &mut Mistakes,
) {
    let has_accuracy = measures && numerics == Numerics::Real;
    found.unless(has_accuracy || stop.accuracy.is_none(), "stop.accuracy", || {
        "neither `numerics = \"shapes\"`, nor the models `null` and `count`, nor an imported graph \
         without `program.accuracy` have an accuracy; stop by `steps` or `time`"
            .to_owned()
    });
    for (path, every) in [
        ("stop.evaluate_every", stop.evaluate_every),
        ("stop.evaluate_every_samples", stop.evaluate_every_samples),
    ] {
        found.unless(measures || every.is_none(), path, || {
            "neither the models `null` and `count`, nor an imported graph without \
             `program.accuracy` have an accuracy to look at; remove the key"
                .to_owned()
        });
        found.unless(!has_evaluator || every.is_none(), path, || {
            "with an evaluator, looks are at checkpoints; set `checkpoint.every_steps` instead"
                .to_owned()
        });
    }
}

/// Checks that an evaluator has something to measure, that another process can read the checkpoints
/// that it measures, and that there is one if it has settings. `measures`: whether the model has
/// anything to measure.
pub(super) fn check_evaluator(
    cluster: &BTreeMap<String, Tasks>,
    has_settings: bool,
    checkpoint: Option<&Checkpoint>,
    measures: bool,
    found: &mut Mistakes,
) {
    let count = cluster.get("evaluator").map(Tasks::count);
    found.unless(count.is_some() || !has_settings, "evaluator", || {
        "the cluster has no evaluator; add `evaluator = 1` to `[cluster]`".to_owned()
    });
    let Some(count) = count else { return };
    let path = "cluster.evaluator";
    found.unless(count <= 1, path, || format!("there can be one evaluator at most, not {count}"));
    let has_place = checkpoint.map(|checkpoint| checkpoint.directory.is_some());
    found.unless(has_place.is_some(), path, || {
        "an evaluator measures checkpoints, and there are none; add `[checkpoint]`".to_owned()
    });
    found.unless(has_place != Some(false), path, || {
        "an evaluator reads checkpoints in another process than the chief's; give \
         `checkpoint.directory`, a folder or URL that both see"
            .to_owned()
    });
    found.unless(measures, path, || {
        "the models `null` and `count`, and an imported graph without `program.accuracy`, have \
         nothing to measure; remove it"
            .to_owned()
    });
    found.unless(!cluster.contains_key("master"), path, || {
        "beside the job `master`, an evaluator is not supported; rename `master` to `chief`"
            .to_owned()
    });
}
