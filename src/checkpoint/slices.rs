//! Slices of variables: a partitioned variable is saved part by part, and can be read in any parts.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tensor::{DType, Shape, Tensor};

/// Some rows of a partitioned variable, from `begin` on (TensorFlow: `SaveSliceInfo`). The part's
/// own shape says how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// The name of the whole, such as `table`; for a slot, `table/Adagrad`.
    pub full_name: String,
    /// The shape of the whole.
    pub full_shape: Shape,
    /// The part's first row.
    pub begin: usize,
}

impl Slice {
    /// The rows of the whole that a part of `shape` has, if it fits into it.
    pub(super) fn rows(&self, shape: Shape) -> Option<Range<usize>> {
        let ([rows, row @ ..], [full_rows, full_row @ ..]) = (shape.dims(), self.full_shape.dims())
        else {
            return None;
        };
        let end = self.begin.checked_add(*rows)?;
        (row == full_row && end <= *full_rows).then_some(self.begin..end)
    }
}

/// A variable's type, and its slice if it is a part.
pub(super) struct Layout<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    pub(super) slice: Option<&'a Slice>,
}

/// A partitioned variable: its type, and the names of its parts by their first rows.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// The rows of each part, with the part's name.
    pub(super) parts: Vec<(Range<usize>, String)>,
}

/// The partitioned variables among `variables`, by name.
///
/// # Errors
/// A variable's name and its problem: two of one name, or parts that don't make up the whole.
pub(super) fn tables<'a>(
    variables: impl Iterator<Item = Layout<'a>>,
) -> Result<BTreeMap<String, Table>, (String, String)> {
    let (mut names, mut tables) = (BTreeMap::new(), BTreeMap::<String, Table>::new());
    for Layout { name, dtype, shape, slice } in variables {
        if names.insert(name, ()).is_some() {
            return Err((name.to_owned(), "there are two variables of that name".to_owned()));
        }
        let Some(slice) = slice else { continue };
        let no_part = |what: String| {
            (name.to_owned(), format!("it is no part of `{}`: {what}", slice.full_name))
        };
        let type_of = format!("{dtype}{shape} from row {} on", slice.begin);
        let rows = slice
            .rows(shape)
            .ok_or_else(|| no_part(format!("{type_of}, of {}", slice.full_shape)))?;
        let whole = Table { dtype, shape: slice.full_shape, parts: Vec::new() };
        let table = tables.entry(slice.full_name.clone()).or_insert(whole);
        if (table.dtype, table.shape) != (dtype, slice.full_shape) {
            let (ours, theirs) = (slice.full_shape, table.shape);
            return Err(no_part(format!(
                "to it that is {dtype}{ours}, to the others {}{theirs}",
                table.dtype
            )));
        }
        table.parts.push((rows, name.to_owned()));
    }
    for (name, table) in &mut tables {
        if names.contains_key(name.as_str()) {
            return Err((
                name.clone(),
                "there are a variable and a partitioned variable of that name".to_owned(),
            ));
        }
        table.parts.sort_by_key(|(rows, _)| rows.start);
        let with_rows = || table.parts.iter().map(|(rows, _)| rows).filter(|rows| !rows.is_empty());
        let ends = std::iter::once(0).chain(with_rows().map(|rows| rows.end));
        let begins = with_rows().map(|rows| rows.start).chain([table.shape.dims()[0]]);
        if let Some((end, begin)) = ends.zip(begins).find(|(end, begin)| end != begin) {
            let problem = if end < begin { "in no part" } else { "in two parts" };
            return Err((
                name.clone(),
                format!("rows {} to {} are {problem}", end.min(begin), end.max(begin)),
            ));
        }
    }
    Ok(tables)
}

/// The rows `wanted` of a variable of `dtype` and `shape`, gathered from its parts, which are in
/// order and complete.
pub(super) fn gather(
    dtype: DType,
    shape: Shape,
    wanted: Range<usize>,
    parts: &[(Range<usize>, &Tensor)],
) -> Tensor {
    if let Some((_, same)) = parts.iter().find(|(rows, _)| *rows == wanted) {
        return (*same).clone();
    }
    let dims = [&[wanted.len()], &shape.dims()[1..]].concat();
    let row: usize = dims[1..].iter().product::<usize>() * dtype.size();
    let mut filling = crate::tensor::FillingTensor::new(dtype, Shape::new(&dims));
    for (rows, part) in parts {
        let (from, to) = (rows.start.max(wanted.start), rows.end.min(wanted.end));
        if from < to {
            filling.push(&mut &part.bytes()[(from - rows.start) * row..(to - rows.start) * row]);
        }
    }
    filling.full().expect("booleans of tensors are booleans")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, rows: usize, slice: &'static Slice) -> Layout<'static> {
        Layout { name, dtype: DType::F32, shape: [rows, 2].into(), slice: Some(slice) }
    }

    fn slice(begin: usize) -> &'static Slice {
        Box::leak(Box::new(Slice { full_name: "t".to_owned(), full_shape: [10, 2].into(), begin }))
    }

    #[track_caller]
    fn assert_refused(layouts: Vec<Layout<'_>>, name: &str, words: &str) {
        let (of, problem) = tables(layouts.into_iter()).unwrap_err();
        assert_eq!(of, name);
        assert!(problem.contains(words), "{problem}");
    }

    #[test]
    fn parts_that_make_no_whole_are_refused() {
        let whole = |name| Layout { name, dtype: DType::F32, shape: [10, 2].into(), slice: None };
        assert!(
            tables([part("b", 4, slice(6)), part("a", 6, slice(0)), whole("c")].into_iter())
                .is_ok()
        );
        assert_refused(
            vec![part("a", 4, slice(0)), part("b", 4, slice(6))],
            "t",
            "rows 4 to 6 are in no part",
        );
        assert_refused(vec![part("a", 4, slice(0))], "t", "rows 4 to 10 are in no part");
        assert_refused(
            vec![part("a", 7, slice(0)), part("b", 4, slice(6))],
            "t",
            "rows 6 to 7 are in two parts",
        );
        assert_refused(
            vec![part("a", 5, slice(6))],
            "a",
            "no part of `t`: f32[5,2] from row 6 on, of [10,2]",
        );
        assert_refused(vec![part("a", usize::MAX, slice(6))], "a", "no part of `t`");
        assert_refused(
            vec![part("a", 10, slice(0)), whole("t")],
            "t",
            "a variable and a partitioned variable",
        );
        assert_refused(vec![whole("c"), whole("c")], "c", "two variables");
        let other = Layout { dtype: DType::F64, ..part("b", 4, slice(6)) };
        assert_refused(
            vec![part("a", 6, slice(0)), other],
            "b",
            "f64[10,2], to the others f32[10,2]",
        );
        let scalar = Layout { shape: Shape::SCALAR, ..part("a", 1, slice(0)) };
        assert_refused(vec![scalar], "a", "no part of `t`");
    }
}
