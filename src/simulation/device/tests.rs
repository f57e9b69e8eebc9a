//! The times of pieces of work, with and without laws.

use std::collections::BTreeMap;

use super::*;
use crate::cluster::TaskName;
use crate::kernels::{Cost, KernelKind};
use crate::runtime::Origin;
use crate::units::{BytesPerSecond, FlopsPerSecond};

const SPEC: ComputeSpec = ComputeSpec {
    rate: FlopsPerSecond(1e9),
    memory: BytesPerSecond(1e8),
    efficiency: BTreeMap::new(),
    straggler: None,
    step_time: None,
    stop_cost: Duration::ZERO,
};
const COIN: [f64; 2] = [1.0, 3.0];

fn device_of(job: &str, spec: ComputeSpec, slow: f64) -> Device {
    Device::new(DeviceName::cpu(TaskName::new(job, 0), 0), &spec, slow, 3)
}

fn device(spec: ComputeSpec, slow: f64) -> Device {
    device_of("worker", spec, slow)
}

/// The training step of this number.
fn step(number: u64) -> Option<WorkerStep> {
    let origin = Origin { owner: None, training: 1, number, is_again: false };
    Some(WorkerStep { master: 9, origin })
}

fn costs(flops: usize, bytes: usize) -> Costs {
    Costs::of(KernelKind::Matmul, Cost::work(flops, bytes))
}

/// The time of a piece of work \[ns\].
fn time(device: &mut Device, step: Option<WorkerStep>, flops: usize, bytes: usize) -> u64 {
    device.time(step, &costs(flops, bytes)).whole.as_nanos() as u64
}

/// A spec with a straggler law of two factors.
fn coin() -> ComputeSpec {
    ComputeSpec { straggler: Some(Law::Empirical { values: COIN.to_vec() }), ..SPEC }
}

#[test]
fn a_piece_takes_the_longer_of_its_arithmetic_and_its_memory_traffic() {
    let mut device = device(SPEC, 1.0);
    assert_eq!(time(&mut device, None, 1_000, 50), 1_000);
    assert_eq!(time(&mut device, None, 1_000, 200), 2_000);
    assert_eq!(time(&mut device, None, 0, 0), 0);
}

#[test]
fn kernels_of_a_kind_reach_the_share_of_the_peak_that_the_spec_gives_it() {
    let efficiency = BTreeMap::from([(KernelKind::Matmul, 0.5), (KernelKind::Elementwise, 0.25)]);
    let mut device = device(ComputeSpec { efficiency, ..SPEC }, 1.0);
    let mut costs = costs(1_000, 50);
    costs.add(KernelKind::Elementwise, Cost::work(100, 100));
    costs.add(KernelKind::Reduction, Cost::work(300, 0));
    assert_eq!(device.time(None, &costs).whole.as_nanos(), 2_000 + 4_000 + 300);
}

#[test]
fn a_slow_task_takes_its_factor_longer() {
    assert_eq!(time(&mut device(SPEC, 2.5), step(0), 1_000, 0), 2_500);
    let stepped = ComputeSpec { step_time: Some(Law::Constant { value: 1e-6 }), ..SPEC };
    assert_eq!(time(&mut device(stepped, 2.5), step(0), 1, 0), 2_500);
}

#[test]
fn a_straggler_factor_is_drawn_once_a_step_and_spares_work_outside_of_steps() {
    let mut device = device(coin(), 1.0);
    let mut seen = [0; 2];
    for number in 0..64 {
        let factor = if time(&mut device, step(number), 1_000, 0) == 1_000 { 0 } else { 1 };
        seen[factor] += 1;
        assert_eq!(time(&mut device, None, 1_000, 0), 1_000);
        assert_eq!(time(&mut device, step(number), 100, 0), 100 * COIN[factor] as u64);
    }
    assert!(seen.iter().all(|count| *count > 10), "both sides of the coin come up: {seen:?}");
}

#[test]
fn steps_that_are_interleaved_or_of_two_masters_draw_what_each_would_draw_alone() {
    let of = |master| move |number| step(number).map(|step| WorkerStep { master, ..step });
    let alone = |master| {
        let mut device = device(coin(), 1.0);
        (0..64).map(|number| time(&mut device, of(master)(number), 1_000, 0)).collect()
    };
    let (one, other): (Vec<u64>, Vec<u64>) = (alone(1), alone(2));
    assert_ne!(one, other);
    let mut device = device(coin(), 1.0);
    for number in (0..64).rev() {
        assert_eq!(time(&mut device, of(1)(number), 1_000, 0), one[number as usize]);
        assert_eq!(time(&mut device, of(2)(number), 1_000, 0), other[number as usize]);
        assert_eq!(time(&mut device, of(1)(number), 1_000, 0), one[number as usize]);
    }
}

#[test]
fn a_drawn_step_time_is_taken_whole_by_the_steps_first_piece_that_costs() {
    let step_time = Some(Law::Constant { value: 0.1 });
    let mut device = device(ComputeSpec { step_time, ..SPEC }, 1.0);
    for number in [4, 5] {
        assert_eq!(time(&mut device, step(number), 0, 0), 0);
        assert_eq!(time(&mut device, None, 1_000, 0), 1_000);
        assert_eq!(time(&mut device, step(number), 7, 7), 100_000_000);
        assert_eq!(time(&mut device, step(number), 1_000_000, 0), 0);
    }
}

#[test]
fn draws_of_a_law_without_a_mean_straggle_above_its_median() {
    let step_time = Some(Law::Pareto { scale: 1e-3, shape: 1.0 });
    let mut device = device(ComputeSpec { step_time, ..SPEC }, 1.0);
    let mut stragglers = 0;
    for number in 0..200 {
        let Span { whole, straggling } = device.time(step(number), &costs(1, 1));
        stragglers += usize::from(!straggling.is_zero());
        let beyond = whole.saturating_sub(Duration::from_millis(2));
        assert!(straggling.as_nanos().abs_diff(beyond.as_nanos()) < 1_000, "{straggling:?}");
    }
    assert!((60..140).contains(&stragglers), "half of 200, not {stragglers}");
}

#[test]
fn a_parameter_server_draws_for_each_piece_of_its_work() {
    let mut server = device_of("ps", coin(), 1.0);
    let mut seen = [0; 2];
    for _ in 0..64 {
        assert_eq!(time(&mut server, None, 0, 0), 0);
        seen[usize::from(time(&mut server, None, 1_000, 0) > 1_000)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 10), "both sides of the coin come up: {seen:?}");
    let step_time = Some(Law::Constant { value: 1e-3 });
    let mut server = device_of("ps", ComputeSpec { step_time, ..SPEC }, 1.0);
    assert_eq!(time(&mut server, None, 10, 0), 1_000_000);
    assert_eq!(time(&mut server, step(0), 10, 0), 1_000_000);
}

#[test]
fn a_spec_that_gives_no_finite_time_is_refused() {
    let refused = [
        ComputeSpec { rate: FlopsPerSecond(0.0), ..SPEC },
        ComputeSpec { memory: BytesPerSecond(f64::INFINITY), ..SPEC },
        ComputeSpec { efficiency: BTreeMap::from([(KernelKind::Matmul, 1.5)]), ..SPEC },
        ComputeSpec { straggler: Some(Law::Constant { value: -1.0 }), ..SPEC },
        ComputeSpec { step_time: Some(Law::Empirical { values: vec![] }), ..SPEC },
        ComputeSpec {
            straggler: Some(Law::Constant { value: 1.0 }),
            step_time: Some(Law::Constant { value: 1.0 }),
            ..SPEC
        },
    ];
    let words = ["rate", "memory", "efficiency", "straggler", "step_time", "both"];
    for (spec, word) in refused.iter().zip(words) {
        let error = spec.validate().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(SPEC.validate(), Ok(()));
}
