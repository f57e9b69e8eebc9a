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

use crate::graph::{LearningRate, Parameters, Rule, UpdateRule};
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

/// A rule with its learning rate, which makes an [`Optimizer`]. TensorFlow's optimizers are names
/// of such types: [`Adam`] is that of [`AdamRule`], with its methods.
#[derive(Clone, Debug)]
pub struct Rated<R> {
    rule: R,
    learning_rate: LearningRate,
}

impl<R: Rule + Copy> Rated<R> {
    /// Itself, if all parameters of the rule make sense.
    ///
    /// # Panics
    /// If one is out of its range.
    #[track_caller]
    fn checked(self) -> Self {
        if let Some(what) = out_of_range(&self.rule.into()) {
            panic!("{what}");
        }
        self
    }
}

impl<R: Rule> From<Rated<R>> for Optimizer {
    fn from(rated: Rated<R>) -> Self {
        Self::new(rated.rule, rated.learning_rate)
    }
}

/// The first parameter of `rule` that is out of its range, in words.
fn out_of_range(rule: &UpdateRule) -> Option<String> {
    let mut parameters = Parameters::default();
    rule.with(&mut parameters);
    let (name, wanted) = parameters.problems().first()?;
    Some(format!("the parameter `{name}` of the update rule `{}` {wanted}: {rule:?}", rule.name()))
}
