//! The correction of delayed gradients, at every remainder and misalignment. Properties of every
//! rule are tested beside the rules.

use super::super::parallel::PARALLEL_FROM;
use super::super::update::*;
use super::{LENGTHS, bits, values};

#[test]
fn a_gradient_of_any_length_is_compensated_as_the_definition_says_also_over_threads() {
    for len in LENGTHS.chain([PARALLEL_FROM + 5]) {
        for offset in 0..4 {
            let [mut gradient, now, read] = [1, 2, 3].map(|seed| values(seed, len + offset));
            let expected: Vec<f32> = (offset..len + offset)
                .map(|i| gradient[i] + 0.3 * gradient[i] * gradient[i] * (now[i] - read[i]))
                .collect();
            compensate(&mut gradient[offset..], &now[offset..], &read[offset..], 0.3);
            assert_eq!(bits(&gradient[offset..]), bits(&expected), "{len} from {offset} on");
        }
    }
}
