//! Gradients of operations on windows of images, each squared so that it tells them apart.

use trainyard::graph::GraphError;
use trainyard::prelude::*;

use super::{Kind, Tally, compare};
use crate::support::fixture::on_actix;

/// Windows over images made of `a`, the filter of `b`.
type Slide = fn(image: &Output, b: &Output) -> Result<Output, GraphError>;

const ODD: Padding = Padding::Explicit([[1, 0], [0, 2]]);

const SLIDES: &[(&str, Slide)] = &[
    ("convolution", |x, b| x.conv2d(&b.reshape([2, 1, 1, 2])?, Padding::Same)),
    ("convolution by strides", |x, b| {
        x.conv2d(&b.reshape([2, 1, 1, 2])?, Sliding::from(ODD).strides([2, 3]))
    }),
    ("dilated convolution", |x, b| {
        x.conv2d(&b.reshape([1, 2, 1, 2])?, Sliding::from(ODD).dilations([1, 2]))
    }),
    ("transposed convolution", |x, b| {
        x.conv2d_transpose(
            &b.reshape([2, 1, 2, 1])?,
            [5, 6],
            Sliding::from(Padding::Valid).strides([2, 2]),
        )
    }),
    ("depthwise convolution", |x, b| {
        x.reshape([1, 2, 3, 2])?.depthwise_conv2d(&b.reshape([1, 1, 2, 2])?, Padding::Same)
    }),
    ("depthwise convolution by strides", |x, b| {
        x.depthwise_conv2d(&b.reshape([2, 2, 1, 1])?, Sliding::from(ODD).strides([1, 2]))
    }),
    ("greatest", |x, _| x.max_pool([2, 2], Sliding::from(Padding::Same).strides([2, 2]))),
    ("greatest of windows that overlap", |x, _| x.max_pool([2, 2], Padding::Valid)),
    ("mean", |x, _| x.avg_pool([2, 2], Sliding::from(Padding::Same).strides([2, 2]))),
    ("mean of windows that overlap", |x, _| x.avg_pool([2, 3], ODD)),
];

/// Slide number `index` over `a` `[2, 3]` as an image of twice its rows, squared; `b` is of 4
/// elements.
pub(super) fn apply(index: usize, a: &Output, b: &Output) -> Result<Output, GraphError> {
    let (_, slide) = SLIDES[index];
    let image = concat(&[a, &a.tanh()], 0)?.reshape([1, 4, 3, 1])?;
    slide(&image, b)?.square().mul(&a.graph().constant(0.4f32))
}

#[test]
fn the_gradient_of_each_slide_is_what_finite_differences_say() {
    for (index, (name, _)) in SLIDES.iter().enumerate() {
        let tally = Tally::default();
        on_actix(compare(&[(Kind::Windowed(index), 0, 2)], &tally));
        assert!(
            tally.compared.get() >= 6 && tally.unclear.get() <= 2,
            "{name}: {}",
            tally.compared.get()
        );
    }
}

/// Compares the gradients by both operands of the squared gradient of a convolution or a mean with
/// differences.
#[test]
fn gradients_of_gradients_are_what_finite_differences_say() {
    on_actix(async {
        let g = Graph::new();
        let image =
            |i: usize| (0..12).map(|j| ((i + 5 * j) % 7) as f32 * 0.2 - 0.5).collect::<Vec<_>>();
        let x = g.placeholder("x", DType::F32, [1, 4, 3, 1])?;
        let filter = g.placeholder("filter", DType::F32, [2, 2, 1, 3])?;
        let sliding = Sliding::from(Padding::Same).strides([1, 2]);
        let y = x.conv2d(&filter, sliding)?.avg_pool([2, 2], Padding::Valid)?;
        let y = y.mul(&y)?.sum();
        let first = gradients(&y, &[x.clone(), filter.clone()])?;
        let mut loss = g.constant(0f32);
        for gradient in first.iter().flatten() {
            loss = loss.add(&gradient.mul(gradient)?.sum())?;
        }
        let second = gradients(&loss, &[x.clone(), filter.clone()])?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        let fed = [Tensor::new([1, 4, 3, 1], &image(0))?, Tensor::new([2, 2, 1, 3], &image(3))?];
        for (which, gradient) in second.iter().enumerate() {
            let gradient = gradient.as_ref().expect("the loss depends on both");
            let run = session.run().feed(&x, fed[0].clone()).feed(&filter, fed[1].clone());
            let analytic = run.fetch(gradient).await?[0].values::<f32>()?.to_vec();
            for (element, analytic) in analytic.iter().enumerate() {
                let at = async |shift: f32| {
                    let mut values = fed[which].values::<f32>()?.to_vec();
                    values[element] += shift;
                    let mut moved = fed.clone();
                    moved[which] = Tensor::new(fed[which].shape(), &values)?;
                    let [image, weights] = moved;
                    session
                        .run()
                        .feed(&x, image)
                        .feed(&filter, weights)
                        .fetch(&loss)
                        .await?
                        .scalar::<f32>(0)
                };
                let slope = (at(0.01).await? - at(-0.01).await?) / 0.02;
                let error = (analytic - slope).abs();
                assert!(
                    error <= 2e-2 * (1.0 + slope.abs()),
                    "{which}[{element}]: {analytic}, but {slope}"
                );
            }
        }
        Ok(())
    });
}
