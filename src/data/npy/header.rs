//! The header of an array: the type of its elements, their order and their number.

use crate::data::file::MOST_VALUES;

/// The element types that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    Bool,
}

/// An array's header, which is a Python dictionary.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Whether the greatest byte of an element is the first one.
    pub(super) is_big_endian: bool,
    /// Whether the first index changes fastest.
    pub(super) is_fortran: bool,
    pub(super) shape: Vec<usize>,
    /// The number of elements, at most [`MOST_VALUES`].
    pub(super) count: usize,
}

impl Kind {
    fn of(letters: &str) -> Option<Self> {
        Some(match letters {
            "f2" => Self::F16,
            "f4" => Self::F32,
            "f8" => Self::F64,
            "i1" => Self::I8,
            "i2" => Self::I16,
            "i4" => Self::I32,
            "i8" => Self::I64,
            "u1" => Self::U8,
            "u2" => Self::U16,
            "u4" => Self::U32,
            "b1" => Self::Bool,
            _ => return None,
        })
    }

    /// The size of an element \[bytes\].
    pub(super) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }
}

impl Header {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let after = |key: &str| {
            let rest = text.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
            rest.ok_or_else(|| format!("no `{key}`"))
        };
        let quoted = |rest: &str| {
            rest.strip_prefix('\'')?.split_once('\'').map(|(descr, _)| descr.to_owned())
        };
        let descr = quoted(after("descr")?).ok_or("its `descr` is no type of one number")?;
        let letters = descr.strip_prefix(['<', '>', '|', '=']);
        let kind = letters.and_then(Kind::of).ok_or_else(|| {
            format!(
                "the type `{descr}` is none of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 and b1; \
                 save it with `.astype`"
            )
        })?;
        let fortran = after("fortran_order")?;
        let is_fortran = fortran.starts_with("True");
        if !is_fortran && !fortran.starts_with("False") {
            return Err("its `fortran_order` is neither True nor False".to_owned());
        }
        let dims = after("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (dims, _) = dims.ok_or("its `shape` is no tuple")?;
        let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape: Vec<usize> = dims
            .map(|dim| dim.parse().map_err(|_| format!("`{dim}` is no size")))
            .collect::<Result<_, _>>()?;
        let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim));
        let count = count.filter(|count| *count <= MOST_VALUES);
        let count = count.ok_or_else(|| format!("{shape:?} are more than {MOST_VALUES} values"))?;
        Ok(Self { kind, is_big_endian: descr.starts_with('>'), is_fortran, shape, count })
    }
}
