//! When a gradient counts and when it is applied: pure state machines that return effects.

mod mode;

pub use mode::Mode;
