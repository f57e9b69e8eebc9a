//! Lists that have no value yet, and how they get one.

use super::{Importer, Node, NodeProblem, known_size};
use crate::graph::{Op, Output};
use crate::import::known::{Element, Known};
use crate::import::listed::{Dims, OpenList, Traits};
use crate::operations::{Change, Dynamic};
use crate::tensor::{DType, PartialShape, Tensor};

impl Importer<'_> {
    /// Gives a list a value: zeros for elements of this type and these sizes, as far as they are
    /// known.
    pub(in crate::import::translate) fn bind(
        &self,
        node: &Node<'_>,
        list: &OpenList,
        (dtype, element): (Option<DType>, &[Option<usize>]),
    ) -> Result<Output, NodeProblem> {
        let unknown = || {
            NodeProblem::unsupported(format!(
                "the shape of the elements of the list `{}` is not known: give its element_shape",
                list.name
            ))
        };
        let own = list.dims.clone().unwrap_or_default();
        let element: Dims = match (own.len(), element.len()) {
            (_, 0) if list.dims.is_some() => own,
            (0, _) => element.to_vec(),
            (a, b) if a == b => own.iter().zip(element).map(|(a, b)| b.or(*a)).collect(),
            _ => return Err(unknown()),
        };
        let dtype = list.dtype.or(dtype).ok_or_else(unknown)?;
        let zero = Tensor::scalar_of(dtype, 0.0);
        let count = list.count();
        let dims: Dims = std::iter::once(count).chain(element.iter().copied()).collect();
        let shape = PartialShape::checked(&dims).ok_or_else(unknown)?;
        if let Some(shape) = shape.known() {
            return self.helper(node, "zeros", Op::Fill { shape, value: zero }, &[]);
        }
        let none = Element::Known(0);
        let size = list.size.as_ref().and_then(|size| size.elements.first());
        let rest = element.iter().map(|dim| Element::Known(dim.unwrap_or(0) as i64));
        let sizes = std::iter::once(size.unwrap_or(&none).clone()).chain(rest).collect();
        let sizes = Known::vector(DType::I32, sizes);
        let sizes = sizes.materialise(self.graph, &format!("{}/sizes_", node.def.name), 0)?;
        let zero = self.helper(node, "zero", Op::Const(zero), &[])?;
        let change = Dynamic { change: Change::BroadcastTo, shape };
        self.helper(node, "zeros", change, &[&zero, &sizes])
    }

    /// An empty list of the type of `like`, which lists are added to.
    pub(in crate::import::translate) fn empty_like(
        &self,
        node: &Node<'_>,
        like: &Output,
    ) -> Result<Output, NodeProblem> {
        let kind = like.tensor_type();
        let list = OpenList {
            name: node.def.name.clone(),
            dtype: Some(kind.dtype),
            size: kind.shape.dims().first().copied().flatten().map(known_size),
            dims: None,
            traits: Traits { is_gradient: true, ..Traits::default() },
        };
        self.bind(node, &list, (None, kind.shape.dims().get(1..).unwrap_or_default()))
    }
}
