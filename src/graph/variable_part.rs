//! The parts of partitioned variables.

use crate::tensor::Shape;

/// A variable's part of a partitioned variable: the variable is a shard, or belongs to a shard, as
/// an optimizer's slot does and the center of workers' copies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VariablePart {
    /// The name of the whole.
    pub(crate) whole: String,
    /// The shape of the whole; a scalar if every shard has its own copy of one value.
    pub(crate) shape: Shape,
    /// The part's first row.
    pub(crate) begin: usize,
    /// The name of the whole's first part.
    pub(crate) first: String,
}

impl VariablePart {
    /// The part of the slot `name` of `shape` in the whole slot, if `self` is the part of the shard
    /// `shard`. `None` if the slot is not one of the shard.
    pub(super) fn beside(&self, shard: (&str, Shape), name: &str, shape: Shape) -> Option<Self> {
        let suffix = name.strip_prefix(shard.0)?;
        let whole_shape = match shape {
            Shape::SCALAR => Shape::SCALAR,
            _ if shape == shard.1 => self.shape,
            _ => return None,
        };
        let (whole, first) = (format!("{}{suffix}", self.whole), format!("{}{suffix}", self.first));
        Some(Self { whole, shape: whole_shape, begin: self.begin, first })
    }
}

/// The name of the first part of the partitioned variable `whole`.
pub(crate) fn first_part(whole: &str) -> String {
    format!("{whole}/part_0")
}
