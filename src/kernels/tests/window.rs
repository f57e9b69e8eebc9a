//! Convolutions and pools of any geometry against their definitions.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::reference::window::{self as reference, Operand};
use super::super::window::{self, Windows};
use super::{LENGTHS, assert_close, bits, values, written};
use crate::graph::{Padding, Sliding};
use crate::tensor::Shape;

/// Windows on `images` images of `extent`, if the window fits anywhere.
fn windows(
    images: usize,
    extent: [usize; 2],
    size: [usize; 2],
    sliding: Sliding,
) -> Option<Windows> {
    let fits = (0..2).all(|axis| sliding.places(axis, extent[axis], size[axis]).is_some());
    fits.then(|| Windows::new(&sliding, Shape::from([images, extent[0], extent[1], 1]), size))
}

/// Holds a convolution and its two gradients to the definition.
fn check_convolution(windows: &Windows, channels: [usize; 2], is_depthwise: bool) {
    let [c, o] = channels;
    let results = windows.len() * if is_depthwise { c * o } else { o };
    let image = values(1, windows.images * windows.extent[0] * windows.extent[1] * c);
    let (filter, result) = (values(2, windows.taps() * c * o), values(3, results));
    type Kernel = fn(&[f32], &[f32], &mut [f32], &Windows, [usize; 2]);
    let kernels: [Kernel; 3] = if is_depthwise {
        [window::depthwise, window::depthwise_input_gradient, window::depthwise_filter_gradient]
    } else {
        [window::convolution, window::input_gradient, window::filter_gradient]
    };
    let cases = [
        (Operand::Result, [&image, &filter], result.len(), windows.taps() * c),
        (Operand::Image, [&filter, &result], image.len(), windows.taps() * o),
        (Operand::Filter, [&image, &result], filter.len(), windows.len()),
    ];
    for (kernel, (wanted, operands, len, terms)) in kernels.into_iter().zip(cases) {
        let exact = reference::convolution(
            wanted,
            operands.map(Vec::as_slice),
            len,
            windows,
            channels,
            is_depthwise,
        );
        // The gradient by the image takes its operands as `(dy, filter)`.
        let [a, b] = if wanted == Operand::Image { [operands[1], operands[0]] } else { operands };
        let found = written(len, 1, |out| kernel(a, b, out, windows, channels));
        assert_close(&found, &exact, 4.0 * f32::EPSILON * terms as f32);
    }
}

fn check_pools(windows: &Windows, channels: usize) {
    let x = values(1, windows.images * windows.extent[0] * windows.extent[1] * channels);
    let dy = values(2, windows.len() * channels);
    let y = written(dy.len(), 1, |out| window::max_pool(&x, out, windows, channels));
    assert_eq!(bits(&y), bits(&reference::max_pool(&x, windows, channels)));
    let dx = written(x.len(), 1, |out| window::max_pool_grad(&x, &y, &dy, out, windows, channels));
    assert_close(&dx, &reference::max_pool_grad(&x, &dy, windows, channels), 0.0);
    let mean = written(dy.len(), 1, |out| window::avg_pool(&x, out, windows, channels));
    assert_close(&mean, &reference::avg_pool(&x, windows, channels), 4e-6);
    let dx = written(x.len(), 1, |out| window::avg_pool_grad(&dy, out, windows, channels));
    assert_close(&dx, &reference::avg_pool_grad(&dy, x.len(), windows, channels), 4e-6);
}

#[test]
fn every_number_of_channels_on_either_side_gives_the_convolution() {
    let windows = windows(2, [5, 4], [3, 2], Padding::Same.into()).unwrap();
    for channels in LENGTHS.skip(1) {
        check_convolution(&windows, [channels, 3], false);
        check_convolution(&windows, [3, channels], false);
        check_convolution(&windows, [channels, 1], true);
        check_convolution(&windows, [2, channels], true);
        check_pools(&windows, channels);
    }
}

#[test]
fn a_window_with_more_channels_than_a_panel_is_deep_gives_the_convolution() {
    let windows = windows(1, [3, 3], [2, 2], Padding::Same.into()).unwrap();
    check_convolution(&windows, [700, 3], false);
    check_convolution(&windows, [3, 700], false);
}

#[test]
fn windows_on_no_images_or_of_no_channels_give_nothing() {
    let none = windows(0, [4, 4], [2, 2], Padding::Same.into()).unwrap();
    check_convolution(&none, [2, 3], false);
    check_convolution(&none, [2, 3], true);
    check_pools(&none, 2);
    check_pools(&windows(2, [4, 4], [2, 2], Padding::Valid.into()).unwrap(), 0);
}

#[test]
fn an_odd_rest_of_same_padding_is_after_the_image_as_in_tensorflow() {
    let of = |extent: usize, size: usize, stride: usize| {
        let sliding = Sliding::from(Padding::Same).strides([stride, stride]);
        let windows = windows(1, [extent, extent], [size, size], sliding).unwrap();
        (windows.places[0], windows.before[0])
    };
    assert_eq!(of(4, 2, 1), (4, 0), "one of padding, all of it after");
    assert_eq!(of(28, 5, 1), (28, 2));
    assert_eq!(of(5, 3, 2), (3, 1));
    assert_eq!(of(6, 3, 2), (3, 0), "one of padding, all of it after");
    assert_eq!(of(7, 2, 3), (3, 0), "two of padding would be one too many");
    assert_eq!(of(5, 1, 2), (3, 0));
}

#[test]
fn the_gradient_of_a_maximum_goes_to_the_first_of_equals() {
    let windows = windows(1, [2, 2], [2, 2], Padding::Valid.into()).unwrap();
    let dx = written(4, 0, |out| {
        window::max_pool_grad(&[1.0, 2.0, 2.0, 2.0], &[2.0], &[5.0], out, &windows, 1)
    });
    assert_eq!(dx, [0.0, 5.0, 0.0, 0.0]);
}

#[test]
fn a_mean_leaves_padding_out() {
    let sliding = Sliding::from(Padding::Explicit([[1, 1], [1, 1]])).strides([2, 2]);
    let windows = windows(1, [2, 2], [2, 2], sliding).unwrap();
    let mean = written(4, 0, |out| window::avg_pool(&[1.0, 2.0, 3.0, 4.0], out, &windows, 1));
    assert_eq!(mean, [1.0, 2.0, 3.0, 4.0]);
}

fn sliding() -> impl Strategy<Value = Sliding> {
    let explicit = [0..3usize, 0..3usize, 0..3usize, 0..3usize]
        .prop_map(|[a, b, c, d]| Padding::Explicit([[a, b], [c, d]]));
    let padding = prop_oneof![Just(Padding::Same), Just(Padding::Valid), explicit];
    (padding, [1..4usize, 1..4usize], [1..3usize, 1..4usize]).prop_map(
        |(padding, strides, dilations)| {
            Sliding::from(padding).strides(strides).dilations(dilations)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn any_geometry_gives_the_convolution_and_its_gradients(
        sliding in sliding(),
        images in 1usize..4,
        extent in [1usize..13, 1usize..13],
        size in [1usize..6, 1usize..6],
        channels in [select(vec![1, 2, 3, 8, 17]), select(vec![1, 2, 5, 32, 40])],
        is_depthwise: bool,
    ) {
        if let Some(windows) = windows(images, extent, size, sliding) {
            check_convolution(&windows, channels, is_depthwise);
        }
    }

    #[test]
    fn any_geometry_gives_the_pools_and_their_gradients(
        sliding in sliding(),
        images in 1usize..4,
        extent in [1usize..13, 1usize..13],
        size in [3usize..6, 3usize..6],
        channels in select(vec![1, 2, 15, 16, 17, 40]),
    ) {
        if let Some(windows) = windows(images, extent, size, sliding.dilations([1, 1])) {
            check_pools(&windows, channels);
        }
    }
}
