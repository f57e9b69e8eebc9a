//! Reductions, whose axes are attributes here.

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Op, Output, Reduction};
use crate::import::node::axis;
use crate::tensor::DType;

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "Sum" => Box::new(|importer, node| reduce(importer, node, Reduction::Sum)),
        "Mean" => Box::new(|importer, node| reduce(importer, node, Reduction::Mean)),
        "ArgMax" => Box::new(arg_max),
        _ => return None,
    })
}

/// The axes that input 1 names, in order.
fn axes(node: &Node<'_>, x: &Output) -> Result<Vec<usize>, NodeProblem> {
    let rank = x.tensor_type().shape.rank();
    let mut axes = node.ints(1)?.into_iter().map(|at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

fn reduce(importer: &mut Importer<'_>, node: &Node<'_>, reduction: Reduction) -> Values {
    let x = importer.input(node, 0)?;
    let (axes, rank, keep) = (axes(node, &x)?, x.tensor_type().shape.rank(), node.def.flag("keep_dims")?);
    if axes.is_empty() {
        return importer.emit(node, Op::Identity, &[x]);
    }
    if axes.len() == rank && !keep {
        return importer.emit(node, Op::Reduce(reduction), &[x]);
    }
    Err(NodeProblem::unsupported(format!("a reduction over the axes {axes:?} of {rank} is not supported")))
}

/// Over the last axis of a matrix.
fn arg_max(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let x = importer.input(node, 0)?;
    let rank = x.tensor_type().shape.rank();
    if axis(node.int(1)?, rank)? + 1 != rank {
        return Err(NodeProblem::unsupported("ArgMax is supported over the last axis alone"));
    }
    match node.def.optional_dtype("output_type")? {
        Some(DType::I32) => {
            let found = importer.helper(node, "index", Op::ArgMax, &[&x])?;
            importer.emit(node, Op::Cast(DType::I32), &[found])
        }
        _ => importer.emit(node, Op::ArgMax, &[x]),
    }
}
