//! The number of values in a range.

use crate::tensor::{DType, Tensor};

/// The number of values from `start` in steps of `delta` that do not reach `limit`, three scalars
/// of one type; `None` if they are not numbers, the step is 0, or there are more values than any
/// memory holds.
pub(super) fn range_len(start: &Tensor, limit: &Tensor, delta: &Tensor) -> Option<usize> {
    match start.dtype() {
        // Counted in the numbers' own type, as TensorFlow does: in f64, 0.3 of f32 is more than
        // three times 0.1.
        DType::F32 => {
            let [start, limit, delta] = [start, limit, delta].map(|x| x.slice::<f32>()[0]);
            real(f64::from(((limit - start) / delta).ceil()))
        }
        DType::F64 => {
            let [start, limit, delta] = [start, limit, delta].map(|x| x.slice::<f64>()[0]);
            real(((limit - start) / delta).ceil())
        }
        DType::I32 => whole([start, limit, delta].map(|x| i128::from(x.slice::<i32>()[0]))),
        DType::I64 => whole([start, limit, delta].map(|x| i128::from(x.slice::<i64>()[0]))),
        _ => None,
    }
}

/// The unmet requirement of [`range_len`] on these three tensors.
pub(super) fn needs(start: &Tensor, limit: &Tensor, delta: &Tensor) -> &'static str {
    let all = [start, limit, delta];
    let is_finite = |x: &&Tensor| match x.dtype() {
        DType::F32 => x.slice::<f32>()[0].is_finite(),
        DType::F64 => x.slice::<f64>()[0].is_finite(),
        _ => true,
    };
    if !are_scalars_alike(all) {
        "three scalars of one numeric type"
    } else if !all.iter().all(is_finite) {
        "a start, a limit and a step that are finite"
    } else {
        "a step that is not 0, and fewer values than any memory holds"
    }
}

fn are_scalars_alike(all: [&Tensor; 3]) -> bool {
    all.iter().all(|x| x.dtype() == all[0].dtype() && x.shape().rank() == 0)
}

/// Checks that a range of three scalars of one type goes towards its limit. One that does not has
/// no values here; TensorFlow refuses it.
pub(crate) fn check_direction(
    start: &Tensor,
    limit: &Tensor,
    delta: &Tensor,
) -> Result<(), &'static str> {
    fn is_opposed<T: Copy + PartialOrd>([start, limit, delta]: [T; 3], zero: T) -> bool {
        (delta > zero && start > limit) || (delta < zero && start < limit)
    }
    let all = [start, limit, delta];
    let is_opposed = match start.dtype() {
        _ if !are_scalars_alike(all) => false, // no range at all: its types are refused
        DType::F32 => is_opposed(all.map(|x| x.slice::<f32>()[0]), 0.0),
        DType::F64 => is_opposed(all.map(|x| x.slice::<f64>()[0]), 0.0),
        DType::I32 => is_opposed(all.map(|x| x.slice::<i32>()[0]), 0),
        DType::I64 => is_opposed(all.map(|x| x.slice::<i64>()[0]), 0),
        _ => false,
    };
    if is_opposed {
        Err("the steps of a range must lead from its start to its limit")
    } else {
        Ok(())
    }
}

/// More values than any memory holds.
const MOST: i128 = 1 << 48;

/// `steps`, which a step of 0 makes infinite or NaN.
fn real(steps: f64) -> Option<usize> {
    (steps.is_finite() && steps < MOST as f64).then(|| steps.max(0.0) as usize)
}

fn whole([start, limit, delta]: [i128; 3]) -> Option<usize> {
    if delta == 0 {
        return None;
    }
    let (span, step) = if delta > 0 { (limit - start, delta) } else { (start - limit, -delta) };
    let steps = (span + step - 1).div_euclid(step).max(0);
    (steps < MOST).then_some(steps as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_range_lacks_is_told() {
        let floats = |start: f32, limit: f32, delta: f32| {
            let all: [Tensor; 3] = [start.into(), limit.into(), delta.into()];
            (needs(&all[0], &all[1], &all[2]), check_direction(&all[0], &all[1], &all[2]).is_ok())
        };
        assert_eq!(floats(0.0, f32::NAN, 1.0).0, "a start, a limit and a step that are finite");
        assert!(floats(0.0, 1e30, 1.0).0.contains("fewer values"));
        assert!(floats(0.0, 1.0, 0.0).0.contains("not 0"));
        assert!(needs(&0f32.into(), &1i32.into(), &1f32.into()).contains("one numeric type"));
        let goes_on = [(5.0, 0.0, -1.0), (0.0, 5.0, 1.0), (5.0, 5.0, -1.0), (5.0, 5.0, 1.0)];
        assert!(goes_on.iter().all(|(start, limit, delta)| floats(*start, *limit, *delta).1));
        assert!(!floats(0.0, 5.0, -1.0).1 && !floats(5.0, 0.0, 1.0).1);
    }

    #[test]
    fn a_range_ends_before_its_limit_and_one_in_the_other_direction_is_empty() {
        let len = |start: i64, limit: i64, delta: i64| {
            range_len(&start.into(), &limit.into(), &delta.into())
        };
        assert_eq!(
            [len(0, 10, 3), len(0, 9, 3), len(5, 5, 1), len(0, 5, -1)],
            [4, 3, 0, 0].map(Some)
        );
        assert_eq!([len(5, 0, -2), len(i64::MIN, i64::MAX, i64::MAX)], [Some(3), Some(3)]);
        assert_eq!([len(0, 1, 0), len(i64::MIN, i64::MAX, 1)], [None, None]);
        let floats = |start: f32, limit: f32, delta: f32| {
            range_len(&start.into(), &limit.into(), &delta.into())
        };
        assert_eq!([floats(0.0, 1.0, 0.25), floats(0.0, 1.1, 0.25)], [Some(4), Some(5)]);
        assert_eq!([floats(0.0, 0.3, 0.1), floats(0.0, 1.2, 0.4)], [Some(3), Some(3)]);
        assert_eq!(
            [floats(0.0, f32::INFINITY, 1.0), floats(0.0, 1.0, 0.0), floats(0.0, f32::NAN, 1.0)],
            [None; 3]
        );
    }
}
