//! Attributes of reductions: functions from many elements to one, and the axes that they reduce.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A function from any number of elements to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reduction {
    /// Their sum; 0 for no elements.
    Sum,
    /// Their mean, of integers rounded towards 0; NaN for no elements.
    Mean,
    /// Their product; 1 for no elements.
    Prod,
    /// The greatest; NaN if one is NaN; the type's least value for no elements.
    Max,
    /// The least; NaN if one is NaN; the type's greatest value for no elements.
    Min,
    /// Whether at least one is true.
    Any,
    /// Whether all are true.
    All,
}

/// A set of axes, counted from the outermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes(u32);

impl Axes {
    /// Whether `axis` is in the set.
    pub fn contains(self, axis: usize) -> bool {
        axis < u32::BITS as usize && self.0 >> axis & 1 == 1
    }

    /// The axes, outermost first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS as usize).filter(move |axis| self.contains(*axis))
    }
}

impl FromIterator<usize> for Axes {
    fn from_iter<I: IntoIterator<Item = usize>>(axes: I) -> Self {
        Self(axes.into_iter().fold(0, |set, axis| set | 1 << axis))
    }
}

impl fmt::Display for Axes {
    /// `[0,2]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.iter().map(|axis| axis.to_string()).collect();
        write!(f, "[{}]", axes.join(","))
    }
}

impl Reduction {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Mean => "Mean",
            Self::Prod => "Prod",
            Self::Max => "Max",
            Self::Min => "Min",
            Self::Any => "Any",
            Self::All => "All",
        }
    }
}
