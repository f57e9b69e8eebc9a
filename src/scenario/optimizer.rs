//! `program.optimizer`: checks that every parameter is in its range, and that the rule has it.

mod typed;

use super::error::{listed, most_like};
use super::mistakes::Mistakes;
use super::synonyms;
use crate::graph::{LearningRate, Parameters, Range, Schedule, UpdateRule};
use crate::optimizer::{ClipGradients, Optimizer, rule_named, rule_names};

pub(super) use typed::OptimizerFile;
use typed::{LearningRateFile, ScheduleFile, ScheduleName};

/// The path of the optimizer in a scenario.
const PATH: &str = "program.optimizer";
/// The path of its learning rate.
const RATE: &str = "program.optimizer.learning_rate";
/// The keys that it has whatever its rule is.
const COMMON: [&str; 5] = ["rule", "learning_rate", "clip_value", "clip_norm", "clip_global_norm"];

pub(super) fn optimizer(file: &OptimizerFile, found: &mut Mistakes) -> Optimizer {
    let learning_rate = learning_rate(file, found);
    let clip = clip(file, found);
    let rule = rule(file, found);
    Optimizer { clip, ..Optimizer::new(rule, learning_rate) }
}

/// The rule, with the file's parameters, and its defaults for the others.
fn rule(file: &OptimizerFile, found: &mut Mistakes) -> UpdateRule {
    let mut given = Parameters::named(file.parameters.clone());
    let rule = file.rule.0.with(&mut given);
    for (name, wanted) in given.problems() {
        found.note(format!("{PATH}.{name}"), wanted.as_str());
    }
    for name in given.left() {
        let next = without_parameter(&rule, &name);
        let text = format!("the optimizer's `rule` has no such parameter; {next}");
        found.note(format!("{PATH}.{name}"), text);
    }
    rule
}

/// What to do about `name`, which is no parameter of `rule`: the key that was probably meant, the
/// rules that have it, or what this rule has.
fn without_parameter(rule: &UpdateRule, name: &str) -> String {
    let own = names(rule);
    let keys = || own.iter().copied().chain(COMMON);
    let words = [synonyms::meant(name, &[]), synonyms::nearly_meant(name, &[])];
    let mut words = words.into_iter().flatten();
    let word = words.find_map(|path| path.strip_prefix(PATH)?.strip_prefix('.'));
    let did_you_mean = |key: &str| format!("did you mean `{PATH}.{key}`?");
    if let Some(key) = word.filter(|word| keys().any(|key| key == *word)) {
        return did_you_mean(key);
    }
    for wanted in [name].into_iter().chain(word) {
        let has = |rule: &&str| rule_named(rule).is_some_and(|rule| names(&rule).contains(&wanted));
        let others: Vec<&str> = rule_names().into_iter().filter(has).collect();
        if !others.is_empty() {
            let have = if others.len() == 1 { "has" } else { "have" };
            return format!("{} {have} `{wanted}`", listed(others, "and"));
        }
    }
    if let Some(key) = most_like(name, keys()) {
        return did_you_mean(key);
    }
    match own.is_empty() {
        true => format!("`{}` has none of its own", rule.name()),
        false => format!("`{}` has {}", rule.name(), listed(own, "and")),
    }
}

/// The names of the parameters of `rule`.
fn names(rule: &UpdateRule) -> Vec<&'static str> {
    rule.parameters().into_iter().map(|parameter| parameter.name).collect()
}

fn learning_rate(file: &OptimizerFile, found: &mut Mistakes) -> LearningRate {
    let rate = match &file.learning_rate {
        None => return file.rule.0.default_learning_rate().into(),
        Some(LearningRateFile::Schedule(file)) => return schedule(file, found),
        Some(LearningRateFile::Constant(rate)) => *rate,
    };
    found.unless(rate.is_finite() && rate >= 0.0, RATE, || {
        "must be finite and at least 0".to_owned()
    });
    rate.into()
}

fn schedule(file: &ScheduleFile, found: &mut Mistakes) -> LearningRate {
    let decays = !matches!(file.schedule, ScheduleName::Constant | ScheduleName::PiecewiseConstant);
    let (steps, is_piecewise) =
        (file.decay_steps, file.schedule == ScheduleName::PiecewiseConstant);
    found.unless(
        if decays { steps.is_some_and(|steps| steps >= 1) } else { steps.is_none() },
        RATE,
        || match decays {
            true => "this schedule needs `decay_steps` of at least 1".to_owned(),
            false => "this schedule has no `decay_steps`".to_owned(),
        },
    );
    found.unless(
        is_piecewise || (file.boundaries.is_none() && file.values.is_none()),
        RATE,
        || "only the schedule \"piecewise_constant\" has `boundaries` and `values`".to_owned(),
    );
    let decay_steps = steps.unwrap_or(1);
    let typed = file.parameters();
    let mut given = Parameters::named(typed.clone());
    let mut needed = |name: &'static str| {
        found.unless(typed.contains_key(name), RATE, || format!("this schedule needs `{name}`"));
        given.number(name, 0.0, Range::AtLeast0)
    };
    let schedule = match file.schedule {
        ScheduleName::Constant => Schedule::Constant(needed("initial")),
        ScheduleName::Exponential => Schedule::ExponentialDecay {
            initial: needed("initial"),
            decay_steps,
            decay_rate: needed("decay_rate"),
            staircase: given.flag("staircase", false),
        },
        ScheduleName::NaturalExp => Schedule::NaturalExpDecay {
            initial: needed("initial"),
            decay_steps,
            decay_rate: needed("decay_rate"),
            staircase: given.flag("staircase", false),
        },
        ScheduleName::InverseTime => Schedule::InverseTimeDecay {
            initial: needed("initial"),
            decay_steps,
            decay_rate: needed("decay_rate"),
            staircase: given.flag("staircase", false),
        },
        ScheduleName::Polynomial => Schedule::PolynomialDecay {
            initial: needed("initial"),
            decay_steps,
            end: given.number("end", 0.0001, Range::AtLeast0),
            power: given.number("power", 1.0, Range::Above0),
            cycle: given.flag("cycle", false),
        },
        ScheduleName::Cosine => Schedule::CosineDecay {
            initial: needed("initial"),
            decay_steps,
            alpha: given.number("alpha", 0.0, Range::AtLeast0),
        },
        ScheduleName::PiecewiseConstant => pieces(file, found),
    };
    for (name, wanted) in given.problems() {
        found.note(format!("{RATE}.{name}"), wanted.as_str());
    }
    for name in given.left() {
        found.note(format!("{RATE}.{name}"), "this schedule has no such parameter");
    }
    LearningRate::from(schedule).warmup_steps(file.warmup_steps.unwrap_or(0))
}

/// The schedule of rates that are given one by one.
fn pieces(file: &ScheduleFile, found: &mut Mistakes) -> Schedule {
    let boundaries = file.boundaries.clone().unwrap_or_default();
    let mut values = file.values.clone().unwrap_or_default();
    found.unless(values.len() == boundaries.len() + 1, RATE, || {
        "this schedule needs `boundaries` and a rate before each and after the last as `values`"
            .to_owned()
    });
    found.unless(boundaries.is_sorted_by(|a, b| a < b), RATE, || {
        "`boundaries` must ascend".to_owned()
    });
    let are_right = values.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
    found.unless(are_right, RATE, || "`values` must be finite and at least 0".to_owned());
    let last = values.pop().unwrap_or(0.0);
    Schedule::PiecewiseConstant { until: boundaries.into_iter().zip(values).collect(), last }
}

/// The bound of the gradients; at most one may be given.
fn clip(file: &OptimizerFile, found: &mut Mistakes) -> Option<ClipGradients> {
    type Bound = fn(f32) -> ClipGradients;
    let bounds: [(&str, Option<f32>, Bound); 3] = [
        ("clip_value", file.clip_value, ClipGradients::ByValue),
        ("clip_norm", file.clip_norm, ClipGradients::ByNorm),
        ("clip_global_norm", file.clip_global_norm, ClipGradients::ByGlobalNorm),
    ];
    let mut clip = None;
    for (key, bound, by) in bounds {
        let Some(bound) = bound else { continue };
        let path = format!("{PATH}.{key}");
        found.unless(bound.is_finite() && bound > 0.0, path.as_str(), || {
            "must be finite and above 0".to_owned()
        });
        found.unless(clip.is_none(), path, || {
            "gradients are clipped in one way; remove the other key".to_owned()
        });
        clip = Some(by(bound));
    }
    clip
}
