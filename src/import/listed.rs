//! The importer's knowledge of a list: a value whose first axis counts its elements. Such a value
//! flows from one change of a TensorArray to the next.
//!
//! A list whose elements' shape is not known yet has no value: it gets one where its first element
//! is set, or before the loop that sets it.

use std::rc::Rc;

use super::known::Known;
use super::value::Value;
use crate::tensor::DType;

/// The sizes of elements, as far as they are known.
pub(super) type Dims = Vec<Option<usize>>;

/// The role of a value as a list.
#[derive(Clone)]
pub(super) enum Listed {
    /// It names a TensorArray, whose elements flow beside it, or the gradient of one.
    Handle {
        /// Whether it names a gradient: what flows beside it may be the elements themselves, where
        /// nothing has been added to their gradient.
        is_gradient: bool,
    },
    /// A list without elements' shape, and so without a value.
    Open(Rc<OpenList>),
    /// A list with a value.
    Bound(Traits),
    /// An optional that two branches of a condition give values of different types: that of the
    /// branch where the condition holds, and that of the other. Only the one of the branch that has
    /// run means anything.
    Either(Rc<[Value; 2]>),
    /// An optional without a value (TensorFlow `OptionalNone`), such as what a branch that did not
    /// run keeps for its gradient.
    Nothing,
    /// A 0 that a loop adds lists to: an empty list, if it does.
    Zero,
}

/// The traits of a list that its changes keep.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Traits {
    /// Whether it gets longer.
    pub(super) grows: bool,
    /// Whether it is the gradient of another.
    pub(super) is_gradient: bool,
    /// How many lists its elements are in one another: 0 for tensors.
    pub(super) depth: u8,
}

impl Traits {
    /// What an element of the list is as a list; `None` for a tensor.
    pub(super) fn of_element(self) -> Option<Listed> {
        let depth = self.depth.checked_sub(1)?;
        Some(Listed::Bound(Self { depth, ..Self::default() }))
    }
}

/// A list whose elements' shape is not known, or not whole.
#[derive(Clone)]
pub(super) struct OpenList {
    /// The node that made it.
    pub(super) name: String,
    /// The type of its elements; `None` for lists and optionals, of whose values it is then.
    pub(super) dtype: Option<DType>,
    /// The number of elements; `None` where it is a value of another graph.
    pub(super) size: Option<Known>,
    pub(super) dims: Option<Dims>,
    pub(super) traits: Traits,
}

impl OpenList {
    /// The number of elements, if it is known.
    pub(super) fn count(&self) -> Option<usize> {
        let ints = self.size.as_ref()?.ints()?;
        ints.first().and_then(|count| usize::try_from(*count).ok()).filter(|_| !self.traits.grows)
    }

    /// The same list in a function's graph.
    pub(super) fn within(&self) -> Self {
        let Self { name, dtype, size, dims, traits } = self;
        let size = size.clone().filter(|size| size.ints().is_some());
        Self { name: name.clone(), dtype: *dtype, size, dims: dims.clone(), traits: *traits }
    }
}
