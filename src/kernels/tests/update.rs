//! Update rules at every remainder and misalignment.

use super::super::update;
use super::{LENGTHS, bits, values};

/// Calls `check(x, y, offset)` for two slices of every length, themselves misaligned by `offset`.
fn for_slices(check: impl Fn(&[f32], &[f32], usize)) {
    for len in LENGTHS {
        for offset in 0..4 {
            let (x, y) = (values(1, len + offset), values(2, len + offset));
            check(&x[offset..], &y[offset..], offset);
        }
    }
}

#[test]
fn every_update_rule_treats_every_element_of_any_length_alike() {
    let momentum = update::Momentum { rate: 0.5, momentum: 0.9, nesterov: false };
    let nesterov = update::Momentum { nesterov: true, ..momentum };
    let adam = update::Adam { rate: 0.5, beta1: 0.9, beta2: 0.99, beta1_power: 0.9, beta2_power: 0.99, epsilon: 1e-8 };
    type Rule<'a> = &'a dyn Fn(&mut [f32], &mut [f32], &mut [f32], &[f32]);
    let rules: [Rule<'_>; 5] = [
        &|v, _, _, g| update::gradient_descent(v, g, 0.5),
        &|v, a, _, g| update::momentum(v, a, g, momentum),
        &|v, a, _, g| update::momentum(v, a, g, nesterov),
        &|v, a, _, g| update::adagrad(v, a, g, 0.5),
        &|v, a, b, g| update::adam(v, a, b, g, adam),
    ];
    for_slices(|x, gradient, _| {
        for rule in rules {
            let mut whole = [x.to_vec(), vec![0.1; x.len()], vec![0.2; x.len()]];
            let mut single = whole.clone();
            let [v, a, b] = &mut whole;
            rule(v, a, b, gradient);
            let [v, a, b] = &mut single;
            for i in 0..x.len() {
                rule(&mut v[i..=i], &mut a[i..=i], &mut b[i..=i], &gradient[i..=i]);
            }
            whole.iter().zip(&single).for_each(|(whole, single)| assert_eq!(bits(whole), bits(single)));
        }
    });
}
