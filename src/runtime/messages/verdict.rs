//! With backup workers: whether a worker's gradient counts, and how that travels along an edge of the graph.

use crate::tensor::{Tensor, TensorError};

/// With backup workers: who contributes to a round, as it travels in a tensor: `[round, worker…]`,
/// or nothing for a worker that came too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Counts { round: u64, contributors: Vec<u32> },
    TooLate,
}

impl Verdict {
    pub(crate) fn to_tensor(&self) -> Tensor {
        let values: Vec<i64> = match self {
            Self::Counts { round, contributors } => {
                std::iter::once(*round as i64).chain(contributors.iter().map(|worker| i64::from(*worker))).collect()
            }
            Self::TooLate => vec![],
        };
        Tensor::new([values.len()], &values).expect("a vector has as many values as it has")
    }

    /// # Errors
    /// If the tensor has no numbers.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Result<Self, TensorError> {
        Ok(match tensor.values::<i64>()? {
            [] => Self::TooLate,
            [round, contributors @ ..] => Self::Counts {
                round: *round as u64,
                contributors: contributors.iter().map(|worker| *worker as u32).collect(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_same_after_it_has_travelled() {
        for verdict in [Verdict::TooLate, Verdict::Counts { round: 7, contributors: vec![0, 3] }] {
            assert_eq!(Verdict::from_tensor(&verdict.to_tensor()), Ok(verdict));
        }
    }
}
