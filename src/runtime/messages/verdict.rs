//! Where workers vote: whether a worker's gradient counts, and how that travels along an edge of
//! the graph.

use crate::sync::Place;
use crate::tensor::{Tensor, TensorError};

/// Where workers vote: where a gradient counts, if it does, and who contributes to the rounds that
/// some variable may still wait for. A variable learns so of its rounds even where the workers that
/// they were closed on are lost.
///
/// It travels in a tensor: `[round, index, (round, n, worker × n)…]`, with a round of -1 where the
/// gradient does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) place: Option<Place>,
    /// Rounds, and their contributors by place.
    pub(crate) closed: Vec<(u64, Vec<u32>)>,
}

impl Verdict {
    pub(crate) fn to_tensor(&self) -> Tensor {
        let mut values = match self.place {
            Some(Place { round, index }) => vec![round as i64, i64::from(index)],
            None => vec![-1, 0],
        };
        for (round, contributors) in &self.closed {
            values.extend([*round as i64, contributors.len() as i64]);
            values.extend(contributors.iter().map(|worker| i64::from(*worker)));
        }
        Tensor::new([values.len()], &values).expect("a vector has as many values as it has")
    }

    /// # Errors
    /// If the tensor has no numbers.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Result<Self, TensorError> {
        let (place, mut rest) = match tensor.values::<i64>()? {
            [round, index, rest @ ..] => {
                let place = Place { round: *round as u64, index: *index as u32 };
                (Some(place).filter(|_| *round >= 0), rest)
            }
            _ => (None, &[][..]),
        };
        let mut closed = Vec::new();
        while let [round, count, more @ ..] = rest {
            let (workers, next) = more.split_at((*count).clamp(0, more.len() as i64) as usize);
            closed.push((*round as u64, workers.iter().map(|worker| *worker as u32).collect()));
            rest = next;
        }
        Ok(Self { place, closed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_same_after_it_has_travelled() {
        let closed = vec![(6, vec![2]), (7, vec![0, 3, 0])];
        for place in [None, Some(Place { round: 7, index: 2 })] {
            for closed in [vec![], closed.clone()] {
                let verdict = Verdict { place, closed };
                assert_eq!(Verdict::from_tensor(&verdict.to_tensor()), Ok(verdict));
            }
        }
    }
}
