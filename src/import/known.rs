//! Integers that the importer knows before a step runs: shapes, and numbers computed from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::NodeProblem;
use crate::graph::{Graph, GraphError, Name, NewOperation, Op, Output, Subscript};
use crate::operations::{Array, Binary, Cast};
use crate::tensor::{DType, Tensor};

/// The most integers that are followed one by one: those of a constant, or of a fold's result.
pub(super) const MOST: usize = 256;

/// One integer.
#[derive(Clone, Debug)]
pub(super) enum Element {
    /// This integer.
    Known(i64),
    /// The size of a value along an axis, known only in the step.
    Dim(Output, usize),
    /// The number of elements of a value, known only in the step.
    Size(Output),
    /// The integer that a value in the step is.
    Value(Output),
    /// What arithmetic makes of two others.
    Of(Arc<Arithmetic>),
    /// An integer known only in the step, which no operation here computes.
    Unknown,
}

/// Arithmetic on two integers, of which at least one is known only in the step.
#[derive(Debug)]
pub(super) struct Arithmetic {
    binary: Binary,
    operands: [Element; 2],
    depth: usize,
}

/// The deepest arithmetic that is followed.
const DEEPEST: usize = 50;

/// Integers in a shape of rank 0 or more.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) dtype: DType,
    pub(super) dims: Vec<usize>,
    pub(super) elements: Vec<Element>,
    /// The value whose shape they are, if they are one.
    pub(super) like: Option<Output>,
}

impl Element {
    pub(super) fn known(&self) -> Option<i64> {
        if let Self::Known(value) = self { Some(*value) } else { None }
    }

    /// What `binary` makes of `a` and `b`, of which one is not known.
    pub(super) fn of(binary: Binary, a: &Self, b: &Self) -> Self {
        let depth = |element: &Self| match element {
            Self::Of(arithmetic) => arithmetic.depth,
            _ => 0,
        };
        let is_unknown = |element: &Self| matches!(element, Self::Unknown);
        let depth = 1 + depth(a).max(depth(b));
        if is_unknown(a) || is_unknown(b) || depth > DEEPEST {
            return Self::Unknown;
        }
        Self::Of(Arc::new(Arithmetic { binary, operands: [a.clone(), b.clone()], depth }))
    }
}

impl Known {
    /// A vector of elements.
    pub(super) fn vector(dtype: DType, elements: Vec<Element>) -> Self {
        Self { dtype, dims: vec![elements.len()], elements, like: None }
    }

    pub(super) fn scalar(dtype: DType, element: Element) -> Self {
        Self { dtype, dims: vec![], elements: vec![element], like: None }
    }

    /// The integers of a constant, if there are at most [`MOST`].
    pub(super) fn of(tensor: &Tensor) -> Option<Self> {
        if !tensor.dtype().is_integer() || tensor.shape().elements() > MOST {
            return None;
        }
        let elements = tensor.integers().into_iter().map(Element::Known).collect();
        Some(Self {
            dtype: tensor.dtype(),
            dims: tensor.shape().dims().to_vec(),
            elements,
            like: None,
        })
    }

    /// The shape of `value`.
    pub(super) fn shape_of(value: &Output, dtype: DType) -> Self {
        let shape = value.tensor_type().shape;
        let element = |(axis, dim): (usize, &Option<usize>)| match dim {
            Some(dim) => Element::Known(*dim as i64),
            None => Element::Dim(value.clone(), axis),
        };
        let elements = shape.dims().iter().enumerate().map(element).collect();
        Self { like: Some(value.clone()), ..Self::vector(dtype, elements) }
    }

    /// The integers, if all are known.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        self.elements.iter().map(Element::known).collect()
    }

    /// The integers, if all are known and none is negative.
    pub(super) fn sizes(&self) -> Option<Vec<usize>> {
        self.ints()?.into_iter().map(|int| usize::try_from(int).ok()).collect()
    }

    /// Elements in the shape `dims`, each from the position that `from` gives for its own.
    pub(super) fn picked(&self, dims: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count = if dims.contains(&0) { 0 } else { dims.iter().product() };
        let element = |i: usize| {
            let mut rest = i;
            let mut at: Vec<usize> =
                dims.iter().rev().map(|dim| (rest % dim, rest /= dim).0).collect();
            at.reverse();
            let flat = from(&at).iter().zip(&self.dims).fold(0, |flat, (at, dim)| flat * dim + at);
            self.elements[flat].clone()
        };
        Self { dtype: self.dtype, elements: (0..count).map(element).collect(), dims, like: None }
    }

    /// The shape that the integers are, with -1 for an unknown one.
    pub(super) fn dims_or_unknown(&self) -> Vec<i64> {
        self.elements.iter().map(|element| element.known().unwrap_or(-1)).collect()
    }

    pub(super) fn has_unknown(&self) -> bool {
        self.elements.iter().any(|element| matches!(element, Element::Unknown))
    }

    /// The integers as a tensor, if all are known.
    pub(super) fn tensor(&self) -> Option<Tensor> {
        let ints = self.ints()?;
        match self.dtype {
            DType::I32 => {
                let ints = ints
                    .iter()
                    .map(|int| i32::try_from(*int).ok())
                    .collect::<Option<Vec<i32>>>()?;
                Tensor::new(self.dims.as_slice(), &ints).ok()
            }
            _ => Tensor::new(self.dims.as_slice(), &ints).ok(),
        }
    }

    /// Makes a value of them for a step, by operations called `name` and numbered.
    ///
    /// # Errors
    /// If no operation computes one of them.
    pub(super) fn materialise(
        &self,
        graph: &Graph,
        name: &str,
        input: usize,
    ) -> Result<Output, NodeProblem> {
        let mut make = Maker { graph, name, dtype: self.dtype, made: BTreeMap::new() };
        if let Some(tensor) = self.tensor() {
            return Ok(make.add(Op::Const(tensor), &[])?);
        }
        if let Some(like) = &self.like {
            return Ok(make.add(Array::Shape(self.dtype), &[like])?);
        }
        let scalars = self.elements.iter().map(|element| make.scalar(element));
        let scalars = scalars
            .collect::<Result<Option<Vec<_>>, _>>()?
            .ok_or(NodeProblem::NoValue { input })?;
        let dims = super::tensor::partial_shape(
            &self.dims.iter().map(|dim| *dim as i64).collect::<Vec<_>>(),
        )?;
        match (scalars.as_slice(), self.dims.as_slice()) {
            ([one], []) => Ok(one.clone()),
            (several, _) => {
                let stacked =
                    make.add(Array::Stack { axis: 0 }, &several.iter().collect::<Vec<_>>())?;
                let is_vector = dims.rank() == 1;
                Ok(if is_vector { stacked } else { make.add(Array::Reshape(dims), &[&stacked])? })
            }
        }
    }
}

/// Adds operations that make integers.
struct Maker<'a> {
    graph: &'a Graph,
    name: &'a str,
    dtype: DType,
    /// The results of arithmetic that is an operand several times: made anew each time, `n`
    /// doublings of one size would be 2ⁿ operations.
    made: BTreeMap<*const Arithmetic, Output>,
}

impl Maker<'_> {
    fn add(&self, op: impl Into<Op>, inputs: &[&Output]) -> Result<Output, GraphError> {
        let inputs: Vec<_> = inputs.iter().map(|input| input.edge()).collect();
        let new = NewOperation {
            name: Name::Numbered(self.name),
            inputs: &inputs,
            ..NewOperation::of(op)
        };
        Ok(self.graph.output(self.graph.add(new)?))
    }

    /// One element; `None` if no operation computes it.
    fn scalar(&mut self, element: &Element) -> Result<Option<Output>, GraphError> {
        Ok(Some(match element {
            Element::Known(value) => {
                match Known::scalar(self.dtype, Element::Known(*value)).tensor() {
                    Some(tensor) => self.add(Op::Const(tensor), &[])?,
                    None => return Ok(None),
                }
            }
            Element::Dim(value, axis) => {
                let shape = self.add(Array::Shape(self.dtype), &[value])?;
                self.add(Array::StridedSlice(vec![Subscript::At(*axis as i64)]), &[&shape])?
            }
            Element::Size(value) => self.add(Array::Size(self.dtype), &[value])?,
            Element::Value(value) => self.add(Cast(self.dtype), &[value])?,
            Element::Of(arithmetic) => {
                let key = Arc::as_ptr(arithmetic);
                if let Some(made) = self.made.get(&key) {
                    return Ok(Some(made.clone()));
                }
                let [a, b] = &arithmetic.operands;
                let Some(a) = self.scalar(a)? else { return Ok(None) };
                let Some(b) = self.scalar(b)? else { return Ok(None) };
                let made = self.add(arithmetic.binary, &[&a, &b])?;
                self.made.insert(key, made.clone());
                made
            }
            Element::Unknown => return Ok(None),
        }))
    }
}
