//! What can be measured by itself: messages, the way to another thread and back, kernels.

use std::num::NonZeroU32;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::fit::line;
use super::machine::{Machine, cores_here};
use super::median;
use super::messages::{RoundTrip, round_trips, speed_up_of_lanes};
use crate::clock::{Clock, WallClock};
use crate::deployment::{DeploymentError, block_on};
use crate::graph::{Known, OpDef, Padding, Sliding};
use crate::operations::{Broadcast, Channels, Convolution, Pool, Product, Window};
use crate::tensor::{DType, Tensor};
use crate::transport::lanes_of;

/// What an operation costs before anything is known of it \[s\].
const OPERATION: f64 = 0.4e-6;
/// The share of the cores that polling takes before anything is known of it.
const POLLING: f64 = 0.5;
/// The share of their speed that crowded cores have before anything is known of it.
const CROWDED: f64 = 0.9;
/// The rate of the loopback where it is too fast to be measured \[bytes/s\].
const FASTEST: f64 = 20e9;
/// The number of hand-overs that are measured.
const HAND_OVERS: usize = 200;
/// The widths of the square matrices that are multiplied, and the elements that are added.
const WIDTHS: [usize; 3] = [128, 256, 512];
const ELEMENTS: [usize; 2] = [1 << 18, 1 << 22];
/// The images `[batch, height, width, channels]` that are convolved and pooled, and the filter.
const IMAGES: [usize; 4] = [32, 12, 12, 24];
const FILTER: [usize; 4] = [5, 5, 24, 48];

/// The machine as its parts are measured by themselves.
///
/// # Errors
/// If the system refuses sockets or threads.
pub(super) fn machine() -> Result<Machine, DeploymentError> {
    let (polled, slept) = (round_trips(true)?, round_trips(false)?);
    let (send, receive) = costs(&slept);
    let trip = polled[0].seconds;
    let wake = ((slept[0].seconds - trip) / 2.0).max(1e-6);
    let latency = (trip / 2.0 - send.0 - receive.0).max(1e-6);
    let large = polled[polled.len() - 1];
    let on_the_way = large.seconds - trip - (send.1 + receive.1) * large.size as f64;
    let bandwidth =
        if on_the_way > 0.0 { large.size as f64 / on_the_way } else { FASTEST }.min(FASTEST);
    let (rate, memory) = (rate(), memory());
    Ok(Machine {
        rate,
        memory,
        convolution: convolution((rate, memory)),
        reduction: pool((rate, memory)),
        send,
        receive,
        wake,
        polling: POLLING,
        crowded: CROWDED,
        operation: OPERATION,
        hand_over: hand_over()?,
        lanes: lanes()?,
        latency,
        bandwidth,
        cores: cores_here(),
        noise: Vec::new(),
    })
}

/// The costs of sending and of receiving, fixed and for each byte: the processor time of either
/// end. Each round trip sends and receives once at both ends, so that the fixed costs are told
/// apart only together: each is half.
fn costs(trips: &[RoundTrip]) -> ((f64, f64), (f64, f64)) {
    let points = |end: fn(&RoundTrip) -> f64| -> Vec<(f64, f64)> {
        trips.iter().map(|trip| (trip.size as f64, end(trip))).collect()
    };
    let (sender, receiver) = (line(&points(|trip| trip.sender)), line(&points(|it| it.receiver)));
    let fixed = ((sender.0 + receiver.0) / 4.0).max(0.1e-6);
    let per_byte = |slope: f64| slope.max(1e-12);
    ((fixed, per_byte(sender.1)), (fixed, per_byte(receiver.1)))
}

/// The lanes of two tasks that share this machine.
fn lanes() -> Result<Option<(NonZeroU32, f64)>, DeploymentError> {
    let share = cores_here().get() / 2;
    let threads = NonZeroU32::new(lanes_of(share as usize) as u32);
    threads.map(|threads| Ok((threads, speed_up_of_lanes(threads)?))).transpose()
}

/// The median time from giving nothing to another thread to hearing that it is done \[s\].
fn hand_over() -> Result<f64, DeploymentError> {
    let mut times = block_on(Duration::ZERO, async {
        let (clock, mut times) = (WallClock::new(), Vec::with_capacity(HAND_OVERS));
        for _ in 0..HAND_OVERS {
            let began = clock.now();
            let (done, is_done) = oneshot::channel();
            rayon::spawn(move || {
                let _somebody_waits = done.send(());
            });
            if is_done.await.is_ok() {
                times.push(clock.now().since(began).as_secs_f64());
            }
        }
        times
    })?;
    Ok(median(&mut times).unwrap_or(10e-6).max(1e-6))
}

/// The mean rate of arithmetic of one thread, of products of several sizes \[flop/s\].
fn rate() -> f64 {
    let of = |width: usize| {
        let matrix = Tensor::full([width, width], 0.5f32);
        let op = Product::MatMul { transpose_a: false, transpose_b: false };
        2.0 * (width as f64).powi(3) / seconds(&op, &[&matrix, &matrix])
    };
    WIDTHS.map(of).iter().sum::<f64>() / WIDTHS.len() as f64
}

/// The mean rate of memory traffic of one thread, of sums of several sizes \[bytes/s\].
fn memory() -> f64 {
    let of = |elements: usize| {
        let values = Tensor::zeros(DType::F32, [elements]);
        12.0 * elements as f64 / seconds(&Broadcast::AddN, &[&values, &values])
    };
    ELEMENTS.map(of).iter().sum::<f64>() / ELEMENTS.len() as f64
}

/// The share of the machine's rates that a convolution and its two gradients reach.
fn convolution(rates: (f64, f64)) -> f64 {
    let of = Convolution { sliding: Padding::Same.into(), channels: Channels::All };
    let [batch, height, width, channels] = IMAGES;
    let (x, filter) = (Tensor::full(IMAGES, 0.5f32), Tensor::full(FILTER, 0.5f32));
    let y = Tensor::full([batch, height, width, FILTER[3]], 0.5f32);
    debug_assert_eq!(channels, FILTER[2], "a filter takes all channels of the images");
    share(
        rates,
        &[
            (Window::Convolution(of), &[&x, &filter], &y),
            (Window::InputGradient(of, Some([height, width])), &[&y, &filter], &x),
            (Window::FilterGradient(of), &[&x, &y, &filter], &filter),
        ],
    )
}

/// The share of the machine's rates that a pool and its gradient reach.
fn pool(rates: (f64, f64)) -> f64 {
    let sliding = Sliding { strides: [2, 2], ..Padding::Valid.into() };
    let of = Pool { size: [2, 2], sliding };
    let [batch, height, width, channels] = IMAGES;
    let x = Tensor::full(IMAGES, 0.5f32);
    let y = Tensor::full([batch, height / 2, width / 2, channels], 0.5f32);
    share(rates, &[(Window::MaxPool(of), &[&x], &y), (Window::MaxPoolGrad(of), &[&x, &y, &y], &x)])
}

/// The time that kernels would take at the rates of arithmetic and of memory traffic, over the time
/// that they take; each with its inputs and its output.
fn share((rate, memory): (f64, f64), kernels: &[(Window, &[&Tensor], &Tensor)]) -> f64 {
    let known = |tensor: &Tensor| -> Known { (tensor.dtype(), tensor.shape()) };
    let (mut least, mut taken) = (0.0, 0.0);
    for (op, inputs, output) in kernels {
        let types: SmallVec<[Known; 3]> = inputs.iter().map(|input| known(input)).collect();
        let cost = op.cost(&types, &[known(output)]);
        least += (cost.flops as f64 / rate).max(cost.bytes as f64 / memory);
        taken += seconds(op, inputs);
    }
    (least / taken).min(1.0)
}

/// The median time of a kernel on one thread \[s\].
fn seconds(op: &dyn OpDef, inputs: &[&Tensor]) -> f64 {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let run = || {
        let clock = WallClock::new();
        let mut times: SmallVec<[f64; 16]> = SmallVec::new();
        for _ in 0..9 {
            let began = clock.now();
            let outputs = op.compute(inputs).expect("the inputs fit");
            times.push(clock.now().since(began).as_secs_f64());
            drop(outputs);
        }
        median(&mut times).expect("the kernel has run").max(1e-9)
    };
    match one {
        Ok(one) => one.install(run),
        Err(_) => run(),
    }
}
