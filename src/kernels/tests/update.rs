//! Update rules at every remainder and misalignment.

use super::super::parallel::PARALLEL_FROM;
use super::super::update::*;
use super::{LENGTHS, bits, values};

/// Asserts that `rule` gives each element of slices of every length, themselves misaligned, what it
/// gives it alone.
fn assert_elements_alike<const N: usize>(rule: impl Rule<N>) {
    for len in LENGTHS {
        for offset in 0..4 {
            let start: [Vec<f32>; N] = std::array::from_fn(|n| {
                values(n as u64, len + offset).iter().map(|x| x * x + 0.1).collect()
            });
            let gradient = &values(9, len + offset)[offset..];
            let (mut whole, mut single) = (start.clone(), start);
            apply(rule, whole.each_mut().map(|values| &mut values[offset..]), gradient);
            for i in 0..len {
                let element = single.each_mut().map(|values| &mut values[offset + i..=offset + i]);
                apply(rule, element, &gradient[i..=i]);
            }
            for (whole, single) in whole.iter().zip(&single) {
                assert_eq!(bits(whole), bits(single), "{len} from {offset} on");
            }
        }
    }
}

#[test]
fn every_update_rule_treats_every_element_of_any_length_alike() {
    let (rate, l1, l2) = (0.5, 0.01, 0.1);
    let adam =
        Adam { rate, beta1: 0.9, beta2: 0.99, beta1_power: 0.9, beta2_power: 0.99, epsilon: 1e-8 };
    let plain = RmsProp { rate, decay: 0.9, momentum: 0.9, epsilon: 3.0 };
    let ftrl = Ftrl { rate, power: -0.5, l1, l2, l2_shrinkage: 0.1, beta: 1.0 };
    let proximal = ProximalGradientDescent { rate, l1, l2 };
    assert_elements_alike(GradientDescent { rate });
    assert_elements_alike(Momentum { rate, momentum: 0.9, nesterov: false });
    assert_elements_alike(Momentum { rate, momentum: 0.9, nesterov: true });
    assert_elements_alike(Adagrad { rate });
    assert_elements_alike(AdagradDa { rate, l1, l2, update: 3.0 });
    assert_elements_alike(Adadelta { rate, rho: 0.9, epsilon: 1e-8 });
    assert_elements_alike(plain);
    assert_elements_alike(CenteredRmsProp(plain));
    assert_elements_alike(adam);
    assert_elements_alike(AdamW { adam, weight_decay: 0.1 });
    assert_elements_alike(Lamb { adam, weight_decay: 0.1 });
    assert_elements_alike(ftrl);
    assert_elements_alike(Ftrl { power: -0.7, ..ftrl });
    assert_elements_alike(proximal);
    assert_elements_alike(ProximalAdagrad(proximal));
}

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
