//! The update rules, one file each, and the table of them. A file has the whole rule, and the
//! builder that TensorFlow calls by the optimizer's name.

mod adadelta;
mod adagrad;
mod adagrad_da;
mod adam;
mod adamw;
mod ftrl;
mod gradient_descent;
mod lamb;
mod momentum;
mod proximal;
mod registry;
mod rms_prop;
#[cfg(test)]
mod tests;

use crate::graph::{Parameters, UpdateRule};
use crate::optimizer::Optimizer;

pub use adadelta::{Adadelta, AdadeltaRule};
pub use adagrad::{Adagrad, AdagradRule};
pub use adagrad_da::{AdagradDa, AdagradDaRule};
pub use adam::{Adam, AdamRule};
pub use adamw::{AdamW, AdamWRule};
pub use ftrl::{Ftrl, FtrlRule};
pub use gradient_descent::{GradientDescent, GradientDescentRule};
pub use lamb::{Lamb, LambRule};
pub use momentum::{Momentum, MomentumRule};
pub use proximal::{
    ProximalAdagrad, ProximalAdagradRule, ProximalGradientDescent, ProximalGradientDescentRule,
};
pub use registry::register_rule;
pub(crate) use registry::{check_rule, rule_named, rule_names};
pub use rms_prop::{RmsProp, RmsPropRule};

/// Every rule of the library, with its defaults.
fn built_in() -> [UpdateRule; 12] {
    [
        GradientDescentRule.into(),
        MomentumRule::default().into(),
        AdagradRule::default().into(),
        AdagradDaRule::default().into(),
        AdadeltaRule::default().into(),
        RmsPropRule::default().into(),
        AdamRule::default().into(),
        AdamWRule::default().into(),
        LambRule::default().into(),
        FtrlRule::default().into(),
        ProximalGradientDescentRule::default().into(),
        ProximalAdagradRule::default().into(),
    ]
}

/// Implements the builders, each of a rule and a learning rate.
macro_rules! optimizers {
    ($($builder:ident),* $(,)?) => {$(
        impl From<$builder> for Optimizer {
            fn from(builder: $builder) -> Self {
                Self::new(builder.rule, builder.learning_rate)
            }
        }
    )*};
}
optimizers!(
    Adadelta,
    Adagrad,
    AdagradDa,
    Adam,
    AdamW,
    Ftrl,
    GradientDescent,
    Lamb,
    Momentum,
    ProximalAdagrad,
    ProximalGradientDescent,
    RmsProp,
);

/// Asserts that the parameters of `rule` make sense.
///
/// # Panics
/// If one is out of its range.
#[track_caller]
fn assert_in_range(rule: impl Into<UpdateRule>) {
    if let Some(what) = out_of_range(&rule.into()) {
        panic!("{what}");
    }
}

/// The first parameter of `rule` that is out of its range, in words.
fn out_of_range(rule: &UpdateRule) -> Option<String> {
    let mut parameters = Parameters::default();
    rule.with(&mut parameters);
    let (name, wanted) = parameters.problems().first()?;
    Some(format!("the parameter `{name}` of the update rule `{}` {wanted}: {rule:?}", rule.name()))
}
