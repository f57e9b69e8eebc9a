//! The codec of versions and verdicts, which travel along edges of the graph as tensors.

use crate::sync::{Epoch, RoundPosition, Verdict, Version};
use crate::tensor::{Tensor, TensorError};

/// The bits of the count in a number that packs an epoch (upper bits) and a count (lower bits).
const COUNT_BITS: u32 = 40;

fn packed(epoch: Epoch, count: u64) -> i64 {
    (i64::from(epoch.0) << COUNT_BITS) | (count & ((1 << COUNT_BITS) - 1)) as i64
}

fn unpacked(value: i64) -> (Epoch, u64) {
    (Epoch((value >> COUNT_BITS) as u32), (value & ((1 << COUNT_BITS) - 1)) as u64)
}

/// A version as an operation's output.
pub(crate) fn version_to_tensor(version: Version) -> Tensor {
    Tensor::scalar(packed(version.epoch, version.updates))
}

/// A version from an operation's output.
///
/// # Errors
/// If the tensor has no numbers.
pub(crate) fn version_from_tensor(tensor: &Tensor) -> Result<Version, TensorError> {
    let (epoch, updates) = unpacked(tensor.item::<i64>()?);
    Ok(Version { epoch, updates })
}

/// A verdict as an operation's output: `[epoch and round, index, (round, n, worker × n)…]`; the
/// index is -1 if the gradient does not count.
pub(crate) fn verdict_to_tensor(verdict: &Verdict) -> Tensor {
    let (round, index) = match verdict.place {
        Some(RoundPosition { round, index }) => (round, i64::from(index)),
        None => (0, -1),
    };
    let mut values = vec![packed(verdict.epoch, round), index];
    for (round, contributors) in &verdict.closed {
        values.extend([*round as i64, contributors.len() as i64]);
        values.extend(contributors.iter().map(i64::from));
    }
    Tensor::new([values.len()], &values).expect("a vector has as many values as it has")
}

/// A verdict from an operation's output.
///
/// # Errors
/// If the tensor has no numbers.
pub(crate) fn verdict_from_tensor(tensor: &Tensor) -> Result<Verdict, TensorError> {
    let (epoch, place, mut rest) = match tensor.values::<i64>()? {
        [first, index, rest @ ..] => {
            let (epoch, round) = unpacked(*first);
            let place = u32::try_from(*index).ok().map(|index| RoundPosition { round, index });
            (epoch, place, rest)
        }
        _ => (Epoch(0), None, &[][..]),
    };
    let mut closed = Vec::new();
    while let [round, count, more @ ..] = rest {
        let (workers, next) = more.split_at((*count).clamp(0, more.len() as i64) as usize);
        closed.push((*round as u64, workers.iter().map(|worker| *worker as u32).collect()));
        rest = next;
    }
    Ok(Verdict { epoch, place, closed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Contributors;

    #[test]
    fn a_verdict_is_the_same_after_it_has_travelled() {
        let closed = [(6, &[2][..]), (7, &[0, 3, 0])];
        let closed: Vec<(u64, Contributors)> =
            closed.map(|(round, workers)| (round, workers.iter().copied().collect())).to_vec();
        for place in [None, Some(RoundPosition { round: 7, index: 2 })] {
            for closed in [vec![], closed.clone()] {
                let verdict = Verdict { epoch: Epoch(9), place, closed };
                assert_eq!(verdict_from_tensor(&verdict_to_tensor(&verdict)), Ok(verdict));
            }
        }
    }

    #[test]
    fn a_version_is_the_same_after_it_has_travelled_and_a_plain_one_is_its_number() {
        let version = Version { epoch: Epoch(3), updates: 1 << 39 };
        assert_eq!(version_from_tensor(&version_to_tensor(version)), Ok(version));
        let plain = version_to_tensor(Version { epoch: Epoch(0), updates: 57 });
        assert_eq!(plain.item::<i64>(), Ok(57));
    }
}
