//! An array as read: its numbers in C order, in the type of their use.

use std::io::BufRead;

use half::f16;
use ndarray::{ArrayView, IxDyn, ShapeBuilder};

use super::array_location::ArrayLocation;
use super::header::{Header, Kind};
use crate::data::{DataError, file};

/// An array as read.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    /// The last index changes fastest.
    pub(super) values: Values,
}

/// The numbers in the type of their use: floats for features, integers for labels.
#[derive(Debug)]
pub(super) enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Array {
    /// Reads the array at `location`. If `scales_bytes`, unsigned bytes are scaled to 0 to 1.
    pub(super) fn read(location: ArrayLocation<'_>, scales_bytes: bool) -> Result<Self, DataError> {
        location.open(|bytes| Self::from_bytes(location, bytes, scales_bytes))
    }

    fn from_bytes(
        location: ArrayLocation<'_>,
        file: &mut dyn BufRead,
        scales_bytes: bool,
    ) -> Result<Self, DataError> {
        let unreadable = |source| location.unreadable(source);
        let start = file::read(file, 8).map_err(unreadable)?;
        let length_bytes = match start.strip_prefix(b"\x93NUMPY") {
            Some([1, _]) => 2,
            Some([2 | 3, _]) => 4,
            _ => return Err(location.malformed("bytes 0 to 7", no_array(&start))),
        };
        let mut length = [0; 4];
        length[..length_bytes]
            .copy_from_slice(&file::read(file, length_bytes).map_err(unreadable)?);
        let header = file::read(file, u32::from_le_bytes(length).min(1 << 16) as usize)
            .map_err(unreadable)?;
        let in_header = |problem| location.malformed("the header", problem);
        let header = Header::parse(&String::from_utf8_lossy(&header)).map_err(in_header)?;
        let size = header.kind.size();
        let mut bytes = file::read(file, header.count * size).map_err(unreadable)?;
        if !file::is_at_end(file).map_err(unreadable)? {
            let problem = format!("more follows than the values of {:?}", header.shape);
            return Err(location.malformed("the end", problem));
        }
        if header.is_big_endian {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let mut values = Values::of(header.kind, &bytes, scales_bytes);
        if header.is_fortran {
            values = values.in_c_order(&header.shape);
        }
        Ok(Self { values, shape: header.shape })
    }
}

fn no_array(start: &[u8]) -> String {
    match start.starts_with(b"PK") {
        true => "this is an archive of arrays; read it with `npz = { file = \"FILE\", features = \
                 \"NAME\", labels = \"NAME\" }`"
            .to_owned(),
        false => "no NumPy array of version 1 to 3".to_owned(),
    }
}

impl Values {
    /// The values of `bytes`, the least byte of each first.
    fn of(kind: Kind, bytes: &[u8], scales_bytes: bool) -> Self {
        let twos = || bytes.as_chunks::<2>().0.iter().copied();
        let fours = || bytes.as_chunks::<4>().0.iter().copied();
        let eights = || bytes.as_chunks::<8>().0.iter().copied();
        let floats = |values: &mut dyn Iterator<Item = f32>| Self::Floats(values.collect());
        let integers = |values: &mut dyn Iterator<Item = i64>| Self::Integers(values.collect());
        match kind {
            Kind::F16 => floats(&mut twos().map(|b| f16::from_le_bytes(b).to_f32())),
            Kind::F32 => floats(&mut fours().map(f32::from_le_bytes)),
            Kind::F64 => floats(&mut eights().map(|b| f64::from_le_bytes(b) as f32)),
            Kind::U8 if scales_bytes => floats(&mut bytes.iter().map(|b| f32::from(*b) / 255.0)),
            Kind::U8 | Kind::Bool => integers(&mut bytes.iter().map(|b| i64::from(*b))),
            Kind::I8 => integers(&mut bytes.iter().map(|b| i64::from(b.cast_signed()))),
            Kind::I16 => integers(&mut twos().map(|b| i16::from_le_bytes(b).into())),
            Kind::U16 => integers(&mut twos().map(|b| u16::from_le_bytes(b).into())),
            Kind::I32 => integers(&mut fours().map(|b| i32::from_le_bytes(b).into())),
            Kind::U32 => integers(&mut fours().map(|b| u32::from_le_bytes(b).into())),
            Kind::I64 => integers(&mut eights().map(i64::from_le_bytes)),
        }
    }

    /// The same, where the first index of `shape` changed fastest before.
    fn in_c_order(self, shape: &[usize]) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(in_c_order(&values, shape)),
            Self::Integers(values) => Self::Integers(in_c_order(&values, shape)),
        }
    }
}

fn in_c_order<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
    // Without sides of 1, of which a file can claim thousands, a shape has at most 28 sides.
    let sides: Vec<usize> = shape.iter().copied().filter(|side| *side != 1).collect();
    if sides.len() < 2 || values.is_empty() {
        return values.to_vec();
    }
    let view = ArrayView::from_shape(IxDyn(&sides).f(), values);
    view.expect("a shape has as many values as were read").iter().copied().collect()
}
