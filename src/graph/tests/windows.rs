//! Convolutions and pools in graphs: their shapes, the inputs they refuse, and their gradients.

use super::shapes::assert_table;
use super::{assert_says, floats, operation, snapshot, written};
use crate::graph::{Graph, Op, Padding, Sliding, conv2d, flatten, gradients, max_pool2d};
use crate::operations::{Channels, Convolution, Pool, Window};

fn convolution(channels: Channels, sliding: impl Into<Sliding>) -> Convolution {
    Convolution { sliding: sliding.into(), channels }
}

#[test]
fn a_convolution_gives_an_image_of_the_places_that_its_filter_has() {
    let conv = |sliding| Op::from(Window::Convolution(convolution(Channels::All, sliding)));
    let same = Sliding::from(Padding::Same);
    assert_table(
        &conv(same),
        &[
            ("f32[?,28,28,1] f32[5,5,1,32]", "f32[?,28,28,32]"),
            ("f32[8,?,7,3] f32[?,5,3,4]", "f32[8,?,7,4]"),
            ("f32[?,28,28,2] f32[5,5,1,32]", "-"),
            ("f32[?,28,28] f32[5,5,1,32]", "-"),
            ("f32[?,28,28,1] f32[5,0,1,32]", "-"),
            ("i32[?,28,28,1] f32[5,5,1,32]", "-"),
        ],
    );
    assert_table(&conv(same.strides([2, 3])), &[("f32[?,5,7,1] f32[3,3,1,2]", "f32[?,3,3,2]")]);
    let valid = Sliding::from(Padding::Valid);
    assert_table(
        &conv(valid),
        &[("f32[?,5,7,1] f32[3,2,1,2]", "f32[?,3,6,2]"), ("f32[?,1,7,1] f32[3,2,1,2]", "-")],
    );
    assert_table(&conv(valid.dilations([2, 1])), &[("f32[?,5,7,1] f32[3,2,1,2]", "f32[?,1,6,2]")]);
    assert_table(&conv(valid.strides([0, 1])), &[("f32[?,5,7,1] f32[3,2,1,2]", "-")]);
    let explicit = Sliding::from(Padding::Explicit([[1, 0], [2, 2]]));
    assert_table(&conv(explicit), &[("f32[?,5,7,1] f32[3,2,1,2]", "f32[?,4,10,2]")]);
}

#[test]
fn a_depthwise_convolution_multiplies_the_channels() {
    let conv = Op::from(Window::Convolution(convolution(Channels::Each, Padding::Same)));
    assert_table(
        &conv,
        &[("f32[?,4,4,3] f32[3,3,3,2]", "f32[?,4,4,6]"), ("f32[?,4,4,3] f32[3,3,2,2]", "-")],
    );
}

#[test]
fn a_transposed_convolution_gives_the_image_that_was_asked_for_if_it_fits() {
    let sliding = Sliding::from(Padding::Same).strides([2, 2]);
    let to =
        |size| Op::from(Window::InputGradient(convolution(Channels::All, sliding), Some(size)));
    assert_table(
        &to([8, 7]),
        &[("f32[?,4,4,5] f32[3,3,2,5]", "f32[?,8,7,2]"), ("f32[?,4,4,4] f32[3,3,2,5]", "-")],
    );
    assert_table(&to([9, 7]), &[("f32[?,4,4,5] f32[3,3,2,5]", "-")]);
}

#[test]
fn a_pool_keeps_the_channels_and_finds_something_in_each_window() {
    let pool = |size, sliding: Sliding| Op::from(Window::MaxPool(Pool { size, sliding }));
    let same = Sliding::from(Padding::Same).strides([2, 2]);
    assert_table(
        &pool([2, 2], same),
        &[("f32[?,7,8,3]", "f32[?,4,4,3]"), ("f32[?,?,8,?]", "f32[?,?,4,?]")],
    );
    assert_table(&pool([2, 2], same.dilations([2, 2])), &[("f32[?,7,8,3]", "-")]);
    assert_table(&pool([0, 2], same), &[("f32[?,7,8,3]", "-")]);
    assert_table(
        &pool([2, 2], Padding::Explicit([[0, 2], [0, 0]]).into()),
        &[("f32[?,7,8,3]", "-")],
    );
}

#[test]
fn what_does_not_fit_is_told_with_the_line() {
    let g = Graph::new();
    let (x, filter) = (floats(&g, "x", [None, Some(4), Some(4), Some(3)]), g.zeros([3, 3, 2, 2]));
    let error = x.conv2d(&filter, Padding::Same).unwrap_err();
    assert_says(
        &error,
        "windows.rs",
        &["as many channels as the filter has inputs", "f32[?,4,4,3] and f32[3,3,2,2]"],
    );
    let error = conv2d(&floats(&g, "rows", [None, Some(4)]), 2, [3, 3], Padding::Same).unwrap_err();
    assert_says(&error, "windows.rs", &["conv2d", "of known channels", "f32[?,4]"]);
    assert_says(&flatten(&g.zeros([0; 0])).unwrap_err(), "windows.rs", &["flatten"]);
}

#[test]
fn layers_have_variables_of_the_sizes_of_their_windows() {
    let g = Graph::new();
    let x = floats(&g, "x", [None, Some(7), Some(8), Some(3)]);
    let y = conv2d(&x, 5, [3, 2], Padding::Same).unwrap();
    let pooled = max_pool2d(&y, [2, 2], [2, 2], Padding::Same).unwrap();
    let rows = flatten(&pooled).unwrap();
    assert_eq!(rows.tensor_type().to_string(), "f32[?,80]");
    let def = snapshot(&g);
    assert_eq!(operation(&def, "conv2d/kernel/read").outputs[0].to_string(), "f32[3,2,3,5]");
    assert_eq!(operation(&def, "conv2d/bias/read").outputs[0].to_string(), "f32[5]");
}

#[test]
fn a_networks_first_convolution_has_no_gradient_by_the_images() {
    let g = Graph::new();
    let x = floats(&g, "x", [None, Some(4), Some(4), Some(1)]);
    let filter = g.variable("filter", &g.zeros([3, 3, 1, 2])).unwrap();
    let loss = x.conv2d(&filter.read(), Padding::Same).unwrap().sum();
    let built = snapshot(&g).operations.len();
    gradients(&loss, &[filter.read()]).unwrap();
    let added = written(&snapshot(&g), built);
    assert!(added.iter().any(|line| line.contains("BackpropFilter")), "{added:?}");
    assert!(!added.iter().any(|line| line.contains("BackpropInput")), "{added:?}");
}
