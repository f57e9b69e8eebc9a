//! Gradients of operations that move elements: each squared after the move, so that it tells them
//! apart.

use trainyard::graph::{GraphError, Mirror, Subscript};
use trainyard::prelude::*;

use super::{Kind, Tally, compare};
use crate::support::fixture::on_actix;

/// A move of `a`, and of `b` where there are two to move.
type Move = fn(a: &Output, b: &Output) -> Result<Output, GraphError>;

const EVERY_OTHER: Subscript = Subscript::Every { begin: None, end: None, stride: 2 };
const BACKWARDS: Subscript = Subscript::Every { begin: None, end: None, stride: -1 };

const MOVES: &[(&str, Move)] = &[
    ("transpose", |a, _| a.transpose(&[1, 0])),
    ("reshape", |a, _| a.reshape([None, Some(1), Some(2)])),
    ("expand and squeeze", |a, _| a.expand_dims(-1)?.tanh().squeeze(&[-1])),
    ("concat rows", |a, b| concat(&[a, b, a], 0)),
    ("concat columns", |a, b| concat(&[a, b], -1)),
    ("stack", |a, b| stack(&[a, b, a], -1)),
    ("one part of several", |a, _| Ok(a.split(&[1, 0, 1], 0)?.remove(2))),
    ("parts in another order", |a, _| {
        let parts = a.split(&[1, 1], -1)?;
        concat(&[&parts[1], &parts[0]], -1)
    }),
    ("one row of several", |a, _| Ok(a.unstack(0)?.remove(1))),
    ("slice", |a, _| a.slice(&[1, 0], &[None, Some(2)])),
    ("strided slice", |a, _| a.strided_slice(&[BACKWARDS, Subscript::NewAxis, EVERY_OTHER])),
    ("subscripts in one piece", |a, _| a.strided_slice(&[(-1).into(), (1..).into()])),
    ("pad", |a, _| a.pad(&[(1, 0), (2, 1)], 3f32)),
    ("reflect", |a, _| a.mirror_pad(&[(1, 0), (1, 1)], Mirror::Reflect)),
    ("symmetric", |a, _| a.mirror_pad(&[(2, 1), (0, 2)], Mirror::Symmetric)),
    ("tile", |a, _| a.tile(&[2, 3])),
    ("broadcast", |a, _| a.broadcast_to([Some(4), None])),
    ("broadcast an axis", |a, _| a.expand_dims(0)?.broadcast_to([Some(4), None])),
    ("reverse", |a, _| a.reverse(&[-1])),
    ("cumsum", |a, _| a.cumsum(0, false, false)),
    ("exclusive cumsum from the end", |a, _| a.cumsum(-1, true, true)),
    ("gather rows", |a, _| a.gather(&indices(a, &[4], &[1, 0, 1, 1])?, 0)),
    ("gather columns", |a, _| a.gather(&indices(a, &[2, 2], &[1, 0, 1, 1])?, 1)),
    ("gather positions", |a, _| a.gather_nd(&indices(a, &[3, 2], &[1, 0, 0, 1, 1, 0])?)),
    ("parts of the rows", |a, _| {
        let parts = a.dynamic_partition(&indices(a, &[2], &[1, 0])?, 3)?;
        concat(&[&parts[1], &parts[0]], 0)
    }),
    ("scatter", |a, _| indices(a, &[2, 1], &[3, 1])?.scatter_nd(a, [4, 3])),
    ("add at positions", |a, b| a.tensor_scatter_add(&indices(a, &[2, 1], &[1, 1])?, b)),
    ("put at positions", |a, b| a.tensor_scatter_update(&indices(a, &[2, 1], &[1, 0])?, b)),
];

/// Indices into `a`, or another of their size, all below 2; an error where `a` has not as many
/// positions.
fn indices(a: &Output, dims: &[usize], values: &[i32]) -> Result<Output, GraphError> {
    a.strided_slice(&vec![Subscript::At(1); a.tensor_type().shape.rank()])?;
    Ok(a.graph().constant(Tensor::new(dims, values).unwrap()))
}

/// Move number `index`, squared.
pub(super) fn apply(index: usize, a: &Output, b: &Output) -> Result<Output, GraphError> {
    let (_, moved) = MOVES[index];
    moved(a, b)?.square().mul(&a.graph().constant(0.4f32))
}

#[test]
fn the_gradient_of_each_move_is_what_finite_differences_say() {
    for (index, (name, _)) in MOVES.iter().enumerate() {
        let tally = Tally::default();
        on_actix(async {
            for (a, b) in [(0, 2), (2, 2), (1, 0)] {
                compare(&[(Kind::Moved(index), a, b)], &tally).await?;
            }
            Ok(())
        });
        assert!(
            tally.compared.get() >= 6 && tally.unclear.get() == 0,
            "{name}: {}",
            tally.compared.get()
        );
    }
}

#[test]
fn gradients_find_their_way_through_moves_of_moves() {
    let tally = Tally::default();
    for seed in 0..MOVES.len() as u8 {
        let step = |i: u8| {
            (Kind::Moved(usize::from(seed * 7 + i * 11) % MOVES.len()), seed + i, seed * 3 + i)
        };
        on_actix(compare(&[step(0), step(1)], &tally));
    }
    assert!(tally.compared.get() > 100, "{}", tally.compared.get());
}
