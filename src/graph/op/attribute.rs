//! The attributes of a defined operation: listed for a message, and read from one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Axes;
use crate::graph::Function;
use crate::tensor::{DType, PartialShape, Shape, Tensor};

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
    /// A number in single precision.
    Float(f32),
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
    /// A shape, as far as it is known.
    Dims(PartialShape),
    /// A value.
    Tensor(Tensor),
    /// A branch of a condition, or a part of a loop.
    Function(Function),
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

        impl Attribute {
            /// Writes the value without its type.
            pub(crate) fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {$(
                    Self::$variant(value) => value.serialize(to),
                )*}
            }

            /// Reads a value of this one's type.
            pub(crate) fn read_alike<'de, D: Deserializer<'de>>(
                &self,
                from: D,
            ) -> Result<Self, D::Error> {
                match self {$(
                    Self::$variant(_) => Deserialize::deserialize(from).map(Self::$variant),
                )*}
            }
        }
    };
}
attributes! {
    int i64, Int "The integer",
    number f64, Number "The number",
    float f32, Float "The number in single precision",
    flag bool, Flag "The switch",
    text String, Text "The text",
    ints Vec<i64>, Ints "The integers",
    dtype DType, Type "The element type",
    shape Shape, Shape "The shape",
    dims PartialShape, Dims "The dimensions",
    tensor Tensor, Tensor "The value",
    function Function, Function "The function",
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

    /// The count called `name`, if there is one: `own` unless another is given.
    pub fn maybe_size(&mut self, name: &'static str, own: Option<usize>) -> Option<usize> {
        let read = |ints: &[i64]| match *ints {
            [] => Some(None),
            [size] => usize::try_from(size).ok().map(Some),
            _ => None,
        };
        let ints = own.iter().map(|size| *size as i64).collect();
        self.as_ints(name, ints, read).unwrap_or(own)
    }

    /// The seed called `name`: `own` unless another is given.
    pub fn seed(&mut self, name: &'static str, own: u64) -> u64 {
        self.int(name, own as i64) as u64
    }

    /// The sizes or positions called `name`: `own` unless others are given.
    pub fn sizes(&mut self, name: &'static str, own: &[usize]) -> Vec<usize> {
        let write = |own: &[usize]| own.iter().map(|size| *size as i64).collect();
        let read = |ints: &[i64]| ints.iter().map(|int| usize::try_from(*int).ok()).collect();
        self.as_ints(name, write(own), read).unwrap_or_else(|| own.to_vec())
    }

    /// The pair of sizes called `name`: `own` unless another is given.
    pub fn pair(&mut self, name: &'static str, own: [usize; 2]) -> [usize; 2] {
        let read = |ints: &[i64]| match *ints {
            [a, b] => Some([usize::try_from(a).ok()?, usize::try_from(b).ok()?]),
            _ => None,
        };
        self.as_ints(name, own.map(|size| size as i64).into(), read).unwrap_or(own)
    }

    /// The axes called `name`: `own` unless others are given.
    pub fn axes(&mut self, name: &'static str, own: Axes) -> Axes {
        let read = |ints: &[i64]| {
            let axis = |int: &i64| usize::try_from(*int).ok().filter(|axis| *axis < 32);
            ints.iter().map(axis).collect()
        };
        let ints = own.iter().map(|axis| axis as i64).collect();
        self.as_ints(name, ints, read).unwrap_or(own)
    }

    /// The value called `name`, listed as integers: those of `own` unless others are given. `None`
    /// if `read` finds no value in these.
    pub fn as_ints<T>(
        &mut self,
        name: &'static str,
        own: Vec<i64>,
        read: impl FnOnce(&[i64]) -> Option<T>,
    ) -> Option<T> {
        let value = read(&self.ints(name, own));
        self.is_wrong |= value.is_none();
        value
    }

    /// Whether a message has exactly the attributes that the operation has read.
    pub(crate) fn are_complete(self) -> bool {
        !self.is_wrong && self.given.is_none_or(|mut given| given.next().is_none())
    }

    pub(super) fn into_listed(self) -> Vec<(&'static str, Attribute)> {
        self.listed
    }
}
