//! Second derivatives: the gradient of a function's gradient by the value that this sees.

use std::f64::consts::PI;

use super::{Unary, UnaryGrad};
use crate::graph::{GraphError, Output};

/// The gradient by `seen` of `function`'s gradient, a product of two factors: what arrived at the
/// function's result, and a factor of `seen` alone. `both` is the former times what has arrived at
/// the product. The outer `None` says that there is no rule, the inner that the gradient is 0.
pub(super) fn by_seen(
    function: Unary,
    both: &Output,
    seen: &Output,
) -> Result<Option<Option<Output>>, GraphError> {
    use Unary::{
        Abs, Cos, Elu, Erf, Exp, Expm1, Gelu, LeakyRelu, Log, Log1p, LogSigmoid, Reciprocal, Relu,
        Relu6, Rsqrt, Selu, Sigmoid, Sign, Silu, Sin, Softplus, Softsign, Sqrt, Square, Tanh,
    };
    let by_sigmoid = || both.with(&[&seen.sigmoid()], UnaryGrad(Sigmoid));
    Ok(Some(Some(match function {
        Relu | Relu6 | LeakyRelu(_) | Abs | Sign => return Ok(Some(None)),
        Elu | Selu => {
            let zero = seen.scalar_alike(0.0);
            seen.less(&zero)?.select(both, &zero)?
        }
        Gelu { approximate: false } => {
            let square = seen.square();
            let density = (&square * -0.5).exp() * &seen.scalar_alike((2.0 * PI).sqrt().recip());
            both * (2.0 - square) * density
        }
        Sigmoid => both * (1.0 - 2.0 * seen),
        Tanh => both * seen * -2.0,
        Softplus => by_sigmoid()?,
        LogSigmoid => -by_sigmoid()?,
        Softsign => {
            let away = seen.abs() + 1.0;
            both * seen.sign() * -2.0 / (away.square() * away)
        }
        Silu => by_sigmoid()? * (2.0 + seen * (1.0 - 2.0 * seen.sigmoid())),
        Exp => both.clone(),
        Expm1 => both * seen.exp(),
        Log => -(both / seen.square()),
        Log1p => -(both / (seen + 1.0).square()),
        Sqrt => both / seen.square() * -0.5,
        Rsqrt => both * seen.square() * -1.5,
        Reciprocal => both * seen * -2.0,
        Square => both * 2.0,
        Sin => -(both * seen.sin()),
        Cos => -(both * seen.cos()),
        Erf => both.with(&[seen], UnaryGrad(Erf))? * seen * -2.0,
        _ => return Ok(None),
    })))
}
