//! Sums and means of segments of rows, whose ids are sorted: also of rows that are looked up first,
//! as `tf.nn.embedding_lookup_sparse` does.

use super::{Importer, Node, NodeProblem, Translate, Values};
use crate::graph::{Name, NewOperation, Op, OpId, Output, Subscript};
use crate::import::value::Value;
use crate::operations::{
    Array, Binary, Cast, Change, Compare, Dynamic, Guard, Indexed, Sparse, Unary,
};
use crate::tensor::{DType, PartialShape, Tensor};

pub(super) fn find(kind: &str) -> Option<Translate> {
    Some(match kind {
        "SegmentSum" => Box::new(sum),
        "SparseSegmentSum" => looked_up(Share::Whole),
        "SparseSegmentMean" => looked_up(Share::Count),
        "SparseSegmentSqrtN" => looked_up(Share::Root),
        "SparseSegmentSumGrad" => gradient(Share::Whole),
        "SparseSegmentMeanGrad" => gradient(Share::Count),
        "SparseSegmentSqrtNGrad" => gradient(Share::Root),
        "SparseSegmentSumGradV2" => gradient_rows(Share::Whole),
        "SparseSegmentMeanGradV2" => gradient_rows(Share::Count),
        "SparseSegmentSqrtNGradV2" => gradient_rows(Share::Root),
        _ => return None,
    })
}

/// What the sum of a segment is divided by.
#[derive(Clone, Copy, PartialEq)]
enum Share {
    /// Nothing: it is the sum.
    Whole,
    /// Its number of rows.
    Count,
    /// The root of that.
    Root,
}

/// `(data, ids)`
fn sum(importer: &mut Importer<'_>, node: &Node<'_>) -> Values {
    let (data, ids) = (importer.input(node, 0)?, importer.input(node, 1)?);
    let Ok(known) = node.ints(1) else {
        let segments = Segments::of(importer, node, &ids)?;
        return importer.emit(
            &segments.checked(node),
            Sparse::UnsortedSegmentSum(None),
            &[data, ids, segments.like],
        );
    };
    if !known.is_sorted() || known.first().is_some_and(|first| *first < 0) {
        return Err(NodeProblem::unsupported("its segment ids must be sorted, and from 0 on"));
    }
    let rows = known.last().map_or(Some(0), |last| usize::try_from(*last + 1).ok());
    importer.emit(node, Sparse::UnsortedSegmentSum(rows), &[data, ids])
}

/// `(data, indices, ids)`: each segment has the rows of `data` at its indices.
fn looked_up(share: Share) -> Translate {
    Box::new(move |importer, node| {
        node.def.flag("sparse_gradient")?; // which of the kinds below its gradient is
        let [data, indices, ids] =
            [importer.input(node, 0)?, importer.input(node, 1)?, importer.input(node, 2)?];
        let lookup = Indexed::Gather { axis: 0, batch: 0 };
        let rows = importer.helper(node, "rows", lookup, &[&data, &indices])?;
        let segments = Segments::of(importer, node, &ids)?;
        let (checked, summed) = (segments.checked(node), Sparse::UnsortedSegmentSum(None));
        if share == Share::Whole {
            return importer.emit(&checked, summed, &[rows, ids, segments.like]);
        }
        let sums = importer.helper(&checked, "sums", summed, &[&rows, &ids, &segments.like])?;
        let counts = segments.counts(importer, node, &ids, share, &sums)?;
        importer.emit(&checked, Binary::Div, &[sums, counts])
    })
}

/// `(gradient, indices, ids, rows of data)`: the gradient of the data.
fn gradient(share: Share) -> Translate {
    Box::new(move |importer, node| {
        let rows = gradients_of_rows(importer, node, share)?;
        let indices = importer.input(node, 1)?;
        super::sparse::sum_of_segments(importer, node, [rows, indices], 3)
    })
}

/// The same as rows, and the index that each is for.
fn gradient_rows(share: Share) -> Translate {
    Box::new(move |importer, node| {
        let rows = gradients_of_rows(importer, node, share)?;
        let indices = importer.input(node, 1)?;
        let distinct = importer.helper(node, "distinct", Sparse::Unique, &[&indices])?;
        let (places, summed) = (distinct.sibling(1), Sparse::UnsortedSegmentSum(None));
        let mut values = importer.emit(node, summed, &[rows, places, distinct.clone()])?;
        values.push(Value::from(distinct));
        Ok(values)
    })
}

/// The gradient of each row that was looked up, by the gradients of the segments, input 0.
fn gradients_of_rows(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    share: Share,
) -> Result<Output, NodeProblem> {
    let (mut of_segments, ids) = (importer.input(node, 0)?, importer.input(node, 2)?);
    if share != Share::Whole {
        let segments = Segments { like: of_segments.clone(), are_sorted: Vec::new() };
        let counts = segments.counts(importer, node, &ids, share, &of_segments)?;
        of_segments = importer.helper(node, "shares", Binary::Div, &[&of_segments, &counts])?;
    }
    let lookup = Indexed::Gather { axis: 0, batch: 0 };
    importer.helper(node, "rows", lookup, &[&of_segments, &ids])
}

/// Segments whose ids a step knows.
struct Segments {
    /// A value with a row for each.
    like: Output,
    /// What fails the step if the ids are not sorted.
    are_sorted: Vec<OpId>,
}

impl Segments {
    /// As many as the last of `ids` says.
    fn of(importer: &mut Importer<'_>, node: &Node<'_>, ids: &Output) -> Result<Self, NodeProblem> {
        let ids = importer.helper(node, "ids", Cast(DType::I64), &[ids])?;
        let none = Tensor::new([1], &[-1i64]).map_err(|_| NodeProblem::NotConstant { input: 0 })?;
        let none = importer.helper(node, "none", Op::Const(none), &[])?;
        let all = Array::Concat { axis: 0 };
        let all = importer.helper(node, "ids", all, &[&none, &ids])?;
        let every =
            |begin, end| Array::StridedSlice(vec![Subscript::Every { begin, end, stride: 1 }]);
        let last = importer.helper(node, "last", every(Some(-1), None), &[&all])?;
        let one = importer.scalar(node, "one", &last, 1.0)?;
        let count = importer.helper(node, "count", Binary::Add, &[&last, &one])?;
        let zero = importer.helper(node, "zero", Op::Const(Tensor::scalar(0f32)), &[])?;
        let shape = PartialShape::from([None]);
        let spread = Dynamic { change: Change::BroadcastTo, shape };
        let like = importer.helper(node, "like", spread, &[&zero, &count])?;
        let before = importer.helper(node, "before", every(None, Some(-1)), &[&all])?;
        let least = importer.scalar(node, "least", &before, 0.0)?;
        let before = importer.helper(node, "before", Binary::Maximum, &[&before, &least])?;
        let are_sorted = importer.helper(node, "sorted", Compare::LessEqual, &[&before, &ids])?;
        let message =
            format!("segment_ids of {}: they must be sorted, and from 0 on", node.def.name);
        let are_sorted = importer.graph.add(NewOperation {
            name: Name::Numbered(&importer.free_name(node, "are_sorted")),
            inputs: &[are_sorted.edge()],
            control_inputs: &node.controls,
            built_at: importer.built_at,
            ..NewOperation::of(Guard::Assert { message })
        })?;
        Ok(Self { like, are_sorted: vec![are_sorted] })
    }

    /// `node`, after the check of the ids.
    fn checked<'a>(&self, node: &Node<'a>) -> Node<'a> {
        node.with_controls([&node.controls[..], &self.are_sorted].concat())
    }

    /// What the sums, of the rank of `sums`, are divided by; 1 where a segment has no rows.
    fn counts(
        &self,
        importer: &mut Importer<'_>,
        node: &Node<'_>,
        ids: &Output,
        share: Share,
        sums: &Output,
    ) -> Result<Output, NodeProblem> {
        let ones = importer.helper(node, "ones", Cast(DType::F32), &[ids])?;
        let ones = importer.helper(node, "ones", Array::ZerosLike, &[&ones])?;
        let one = importer.scalar(node, "one", &ones, 1.0)?;
        let ones = importer.helper(node, "ones", Binary::Add, &[&ones, &one])?;
        let counted = Sparse::UnsortedSegmentSum(None);
        let mut counts = importer.helper(node, "counts", counted, &[&ones, ids, &self.like])?;
        counts = importer.helper(node, "counts", Binary::Maximum, &[&counts, &one])?;
        if share == Share::Root {
            counts = importer.helper(node, "roots", Unary::Sqrt, &[&counts])?;
        }
        for axis in 1..sums.tensor_type().shape.rank() {
            counts = importer.helper(node, "counts", Array::ExpandDims(axis), &[&counts])?;
        }
        Ok(counts)
    }
}
