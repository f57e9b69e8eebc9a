//! Casts from one element type to another.

use half::bf16;
use smallvec::smallvec;

use crate::graph::{
    Attributes, Backprop, ComputeError, Defined, GraphError, GraphProblem, KernelKind, OpDef,
    Output, OutputTypes, Outputs, TensorType, one,
};
use crate::kernels::convert;
use crate::tensor::{DType, Element, Tensor};

/// `(x)` cast to another element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast(pub DType);

/// One of each kind.
pub(super) fn kinds() -> Vec<Defined> {
    vec![Cast(DType::F32).into()]
}

impl OpDef for Cast {
    fn kind(&self) -> &'static str {
        "Cast"
    }

    fn attributes(&self, given: &mut Attributes) -> Defined {
        Self(given.dtype("DstT", self.0)).into()
    }

    fn infer(&self, inputs: &[TensorType]) -> Result<OutputTypes, GraphProblem> {
        match inputs {
            [x] => Ok(one(self.0, x.shape)),
            _ => Err(GraphProblem::needs("another number of inputs", inputs)),
        }
    }

    /// The gradient cast back; none if either type is not of real numbers.
    fn gradient(&self, of: &Backprop<'_>) -> Result<Vec<Option<Output>>, GraphError> {
        let dy = of.only_arrived()?;
        let from = of.input(0).tensor_type().dtype;
        let are_real = from.is_float() && self.0.is_float();
        Ok(vec![are_real.then(|| dy.cast(from))])
    }

    fn kernel_kind(&self) -> KernelKind {
        KernelKind::Movement
    }

    fn compute(&self, inputs: &[&Tensor]) -> Result<Outputs, ComputeError> {
        Ok(smallvec![cast(inputs[0], self.0)])
    }
}

fn cast(x: &Tensor, to: DType) -> Tensor {
    match x.dtype() {
        from if from == to => x.clone(),
        DType::F32 => cast_from::<f32>(x, to),
        DType::F64 => cast_from::<f64>(x, to),
        DType::BF16 => cast_from::<bf16>(x, to),
        DType::I32 => cast_from::<i32>(x, to),
        DType::I64 => cast_from::<i64>(x, to),
        DType::I8 => cast_from::<i8>(x, to),
        DType::Bool => cast_from::<bool>(x, to),
    }
}

fn cast_from<From: Element + convert::CastToAny>(x: &Tensor, to: DType) -> Tensor {
    fn into<From: Element + convert::CastTo<To>, To: Element>(x: &Tensor) -> Tensor {
        let mut out = Tensor::uninitialised::<To>(x.shape());
        convert::cast(x.slice::<From>(), out.make_mut::<To>());
        out
    }
    match to {
        DType::F32 => into::<From, f32>(x),
        DType::F64 => into::<From, f64>(x),
        DType::BF16 => into::<From, bf16>(x),
        DType::I32 => into::<From, i32>(x),
        DType::I64 => into::<From, i64>(x),
        DType::I8 => into::<From, i8>(x),
        DType::Bool => into::<From, bool>(x),
    }
}

impl Output {
    /// The values, cast to another element type.
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Self {
        self.map(Cast(dtype))
    }
}
