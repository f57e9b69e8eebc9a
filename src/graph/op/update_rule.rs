//! Update rules: how a gradient changes a variable, and what each rule keeps beside it.

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

/// How a gradient changes a variable: TensorFlow's dense rules, without the learning rate.
///
/// `v` is an element of the variable, `g` of its gradient, `lr` the learning rate; other letters
/// are slots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum UpdateRule {
    /// `v -= lr·g`
    GradientDescent,
    /// `m = μ·m + g; v -= lr·m`, with Nesterov `v -= lr·g + lr·μ·m`
    Momentum {
        /// μ.
        momentum: f32,
        /// Look ahead.
        use_nesterov: bool,
    },
    /// `a += g²; v -= lr·g/√a`
    Adagrad {
        /// What `a` begins with.
        initial_accumulator_value: f32,
    },
    /// `G += g; Q += g²; T += 1; v = −lr·sgn(G)·max(|G|−l1·T, 0)/(l2·T·lr+√Q)`
    AdagradDa {
        /// What `Q` begins with.
        initial_gradient_squared_accumulator_value: f32,
        /// The strength of the L1 norm.
        l1: f32,
        /// The strength of the L2 norm.
        l2: f32,
    },
    /// `a = ρ·a+(1−ρ)g²; d = √(u+ε)/√(a+ε)·g; v -= lr·d; u = ρ·u+(1−ρ)d²`
    Adadelta {
        /// ρ.
        rho: f32,
        /// ε.
        epsilon: f32,
    },
    /// `s += (g²−s)(1−ρ); m = μ·m+lr·g/√(s+ε); v -= m`, centered `c += (g−c)(1−ρ)` and `√(s−c²+ε)`
    RmsProp {
        /// ρ.
        decay: f32,
        /// μ.
        momentum: f32,
        /// ε, inside the root.
        epsilon: f32,
        /// Divide by the deviation of the gradient and not by its root mean square.
        centered: bool,
    },
    /// `m += (g−m)(1−β1); s += (g²−s)(1−β2); v -= lr·√(1−β2ᵗ)/(1−β1ᵗ)·m/(√s+ε)`
    Adam {
        /// β1.
        beta1: f32,
        /// β2.
        beta2: f32,
        /// ε, outside the root ("epsilon hat").
        epsilon: f32,
    },
    /// As [`UpdateRule::Adam`], but of some rows: no other row is read or written.
    LazyAdam {
        /// β1.
        beta1: f32,
        /// β2.
        beta2: f32,
        /// ε, as Adam's.
        epsilon: f32,
    },
    /// As [`UpdateRule::Adam`], and `v -= lr·λ·v`
    AdamW {
        /// β1.
        beta1: f32,
        /// β2.
        beta2: f32,
        /// ε, as Adam's.
        epsilon: f32,
        /// λ.
        weight_decay: f32,
    },
    /// `m` and `s` as Adam's; `u = m/(1−β1ᵗ)/(√(s/(1−β2ᵗ))+ε)+λ·v; v -= lr·‖v‖/‖u‖·u`
    Lamb {
        /// β1.
        beta1: f32,
        /// β2.
        beta2: f32,
        /// ε.
        epsilon: f32,
        /// λ.
        weight_decay: f32,
    },
    /// `n = a+g²; z += g'−(n^−p−a^−p)/lr·v;`
    /// `v = |z|>l1 ? (l1·sgn z−z)/(n^−p/lr+2·l2+β/lr) : 0; a = n`, where `g' = g+2·l2_shrinkage·v`
    Ftrl {
        /// p, at most 0.
        learning_rate_power: f32,
        /// What `a` begins with.
        initial_accumulator_value: f32,
        /// The strength of the L1 norm.
        l1: f32,
        /// The strength of the L2 norm.
        l2: f32,
        /// The strength of the L2 norm that shrinks the weights, and not the learning rate.
        l2_shrinkage: f32,
        /// β.
        beta: f32,
    },
    /// `w = v−lr·g; v = sgn(w)·max(|w|−lr·l1, 0)/(1+lr·l2)`
    ProximalGradientDescent {
        /// The strength of the L1 norm.
        l1: f32,
        /// The strength of the L2 norm.
        l2: f32,
    },
    /// `a += g²`, then as [`UpdateRule::ProximalGradientDescent`] with the rate `lr/√a`
    ProximalAdagrad {
        /// What `a` begins with.
        initial_accumulator_value: f32,
        /// The strength of the L1 norm.
        l1: f32,
        /// The strength of the L2 norm.
        l2: f32,
    },
}

/// A value that a rule keeps beside a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotSpec {
    /// What follows `variable/` in its name.
    pub(crate) name: &'static str,
    pub(crate) first: FirstValue,
}

/// What a slot holds, and what it begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstValue {
    /// This, for each element of the variable.
    Everywhere(f32),
    /// One number.
    Scalar(f32),
    /// One count, from 0.
    Count,
}

impl SlotSpec {
    fn like_variable(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Everywhere(first) }
    }

    fn scalar(name: &'static str, first: f32) -> Self {
        Self { name, first: FirstValue::Scalar(first) }
    }

    /// The moments, and the powers of the two betas.
    fn of_adam(names: [&'static str; 2], beta1: f32, beta2: f32) -> SmallVec<[Self; 4]> {
        let [first, second] = names.map(|name| Self::like_variable(name, 0.0));
        smallvec![
            first,
            second,
            Self::scalar("beta1_power", beta1),
            Self::scalar("beta2_power", beta2)
        ]
    }
}

impl UpdateRule {
    /// Its slots, in the order in which its update takes them, with TensorFlow's names.
    pub(crate) fn slots(self) -> SmallVec<[SlotSpec; 4]> {
        let like = SlotSpec::like_variable;
        match self {
            Self::GradientDescent | Self::ProximalGradientDescent { .. } => smallvec![],
            Self::Momentum { .. } => smallvec![like("Momentum", 0.0)],
            Self::Adagrad { initial_accumulator_value } => {
                smallvec![like("Adagrad", initial_accumulator_value)]
            }
            Self::AdagradDa { initial_gradient_squared_accumulator_value: squared, .. } => {
                let updates = SlotSpec { name: "updates", first: FirstValue::Count };
                smallvec![like("AdagradDA", 0.0), like("AdagradDA_1", squared), updates]
            }
            Self::Adadelta { .. } => smallvec![like("Adadelta", 0.0), like("Adadelta_1", 0.0)],
            Self::RmsProp { centered: false, .. } => {
                smallvec![like("RMSProp", 1.0), like("RMSProp_1", 0.0)]
            }
            Self::RmsProp { centered: true, .. } => {
                smallvec![like("RMSProp", 1.0), like("RMSProp_1", 0.0), like("RMSProp_2", 0.0)]
            }
            Self::Adam { beta1, beta2, .. } | Self::LazyAdam { beta1, beta2, .. } => {
                SlotSpec::of_adam(["Adam", "Adam_1"], beta1, beta2)
            }
            Self::AdamW { beta1, beta2, .. } => {
                SlotSpec::of_adam(["AdamW", "AdamW_1"], beta1, beta2)
            }
            Self::Lamb { beta1, beta2, .. } => SlotSpec::of_adam(["LAMB", "LAMB_1"], beta1, beta2),
            Self::Ftrl { initial_accumulator_value, .. } => {
                smallvec![like("Ftrl", initial_accumulator_value), like("Ftrl_1", 0.0)]
            }
            Self::ProximalAdagrad { initial_accumulator_value, .. } => {
                smallvec![like("ProximalAdagrad", initial_accumulator_value)]
            }
        }
    }

    /// How many of its slots have a value for each element of the variable.
    pub(crate) fn slots_like_variable(self) -> usize {
        self.slots().iter().filter(|slot| matches!(slot.first, FirstValue::Everywhere(_))).count()
    }

    /// Whether a gradient of some rows moves the others as well: their moments decay, or their
    /// weights.
    pub(crate) fn moves_every_row(self) -> bool {
        matches!(self, Self::Adam { .. } | Self::AdamW { .. } | Self::Lamb { .. })
    }

    pub(super) fn kind(self) -> &'static str {
        self.kinds().0
    }

    /// The kind, for a gradient of some rows.
    pub(super) fn sparse_kind(self) -> &'static str {
        self.kinds().1
    }

    fn kinds(self) -> (&'static str, &'static str) {
        match self {
            Self::GradientDescent => ("ApplyGradientDescent", "SparseApplyGradientDescent"),
            Self::Momentum { .. } => ("ApplyMomentum", "SparseApplyMomentum"),
            Self::Adagrad { .. } => ("ApplyAdagrad", "SparseApplyAdagrad"),
            Self::AdagradDa { .. } => ("ApplyAdagradDA", "SparseApplyAdagradDA"),
            Self::Adadelta { .. } => ("ApplyAdadelta", "SparseApplyAdadelta"),
            Self::RmsProp { centered: false, .. } => ("ApplyRMSProp", "SparseApplyRMSProp"),
            Self::RmsProp { centered: true, .. } => {
                ("ApplyCenteredRMSProp", "SparseApplyCenteredRMSProp")
            }
            Self::Adam { .. } => ("ApplyAdam", "SparseApplyAdam"),
            Self::LazyAdam { .. } => ("ApplyLazyAdam", "SparseApplyLazyAdam"),
            Self::AdamW { .. } => ("ApplyAdamW", "SparseApplyAdamW"),
            Self::Lamb { .. } => ("ApplyLAMB", "SparseApplyLAMB"),
            Self::Ftrl { .. } => ("ApplyFtrl", "SparseApplyFtrl"),
            Self::ProximalGradientDescent { .. } => {
                ("ApplyProximalGradientDescent", "SparseApplyProximalGradientDescent")
            }
            Self::ProximalAdagrad { .. } => ("ApplyProximalAdagrad", "SparseApplyProximalAdagrad"),
        }
    }
}
