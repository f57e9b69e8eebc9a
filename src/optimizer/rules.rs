//! The optimizers, with TensorFlow's defaults.

mod adadelta;
mod adagrad;
mod adam;
mod ftrl;
mod gradient_descent;
mod lamb;
mod proximal;
mod rms_prop;

pub use adadelta::Adadelta;
pub use adagrad::{Adagrad, AdagradDa};
pub use adam::{Adam, AdamW};
pub use ftrl::Ftrl;
pub use gradient_descent::{GradientDescent, Momentum};
pub use lamb::Lamb;
pub use proximal::{ProximalAdagrad, ProximalGradientDescent};
pub use rms_prop::RmsProp;

/// `value`, the parameter `name`.
///
/// # Panics
/// If it is not `wanted`.
#[track_caller]
fn checked(name: &str, value: f32, wanted: &str, is_right: impl Fn(f32) -> bool) -> f32 {
    assert!(value.is_finite() && is_right(value), "{name} must be {wanted}, not {value}");
    value
}

#[track_caller]
fn positive(name: &str, value: f32) -> f32 {
    checked(name, value, "above 0", |value| value > 0.0)
}

#[track_caller]
fn at_least_0(name: &str, value: f32) -> f32 {
    checked(name, value, "at least 0", |value| value >= 0.0)
}
