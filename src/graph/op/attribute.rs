//! The attributes of a defined operation: listed for a message, and read from one.

use serde::{Deserialize, Serialize};

use super::Axes;
use crate::tensor::{DType, Shape, Tensor};

/// The attributes given to an operation, and the list of all attributes that it has.
///
/// An operation asks for each of its attributes once, always in the same order, with its own value.
/// So one function defines the attributes, and both writes and reads them.
#[derive(Debug, Default)]
pub struct Attributes {
    given: Option<std::vec::IntoIter<Attribute>>,
    listed: Vec<(&'static str, Attribute)>,
    is_wrong: bool,
}

/// The value of an attribute (TensorFlow: `AttrValue`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Attribute {
    /// An integer.
    Int(i64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// An element type.
    Type(DType),
    /// A shape.
    Shape(Shape),
    /// A value.
    Tensor(Tensor),
}

macro_rules! attributes {
    ($($method:ident $type:ty, $variant:ident $says:literal),* $(,)?) => {
        impl Attributes {$(
            #[doc = concat!($says, " called `name`: `own` unless another is given.")]
            pub fn $method(&mut self, name: &'static str, own: $type) -> $type {
                let value = match self.given.as_mut().map(Iterator::next) {
                    None => own,
                    Some(Some(Attribute::$variant(given))) => given,
                    Some(_) => {
                        self.is_wrong = true;
                        own
                    }
                };
                self.listed.push((name, Attribute::$variant(value.clone())));
                value
            }
        )*}
    };
}
attributes! {
    int i64, Int "The integer",
    number f64, Number "The number",
    flag bool, Flag "The switch",
    text String, Text "The text",
    ints Vec<i64>, Ints "The integers",
    dtype DType, Type "The element type",
    shape Shape, Shape "The shape",
    tensor Tensor, Tensor "The value",
}

impl Attributes {
    /// The attributes of a message: all that the operation has, in their order.
    pub(crate) fn in_order(given: Vec<Attribute>) -> Self {
        Self { given: Some(given.into_iter()), ..Self::default() }
    }

    /// The count or position called `name`: `own` unless another is given.
    pub fn size(&mut self, name: &'static str, own: usize) -> usize {
        let given = self.int(name, own as i64);
        self.is_wrong |= given < 0;
        usize::try_from(given).unwrap_or(own)
    }

    /// The axes called `name`: `own` unless others are given.
    pub fn axes(&mut self, name: &'static str, own: Axes) -> Axes {
        let given = self.ints(name, own.iter().map(|axis| axis as i64).collect());
        self.is_wrong |= given.iter().any(|axis| !(0..32).contains(axis));
        given.into_iter().filter(|axis| (0..32).contains(axis)).map(|axis| axis as usize).collect()
    }

    /// Whether a message has exactly the attributes that the operation has read.
    pub(crate) fn are_complete(self) -> bool {
        !self.is_wrong && self.given.is_none_or(|mut given| given.next().is_none())
    }

    pub(super) fn into_listed(self) -> Vec<(&'static str, Attribute)> {
        self.listed
    }
}
