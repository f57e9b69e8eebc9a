//! A shard as a file in the format of safetensors: written without a copy of its values, and
//! checked when it is read.

use safetensors::Dtype;
use safetensors::tensor::{Metadata, SafeTensors, TensorInfo, TensorView};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::tensor::{DType, FillingTensor, Shape, Tensor};

/// The alignment of the header's length, and so of the values \[bytes\].
const ALIGNMENT: usize = 8;
/// The key that the format reserves.
const RESERVED: &str = "__metadata__";

/// A file to be written: its header, and the tensors whose bytes follow it.
pub(super) struct Encoded<'a> {
    header: Vec<u8>,
    tensors: Vec<&'a Tensor>,
}

impl<'a> Encoded<'a> {
    /// A file of `tensors`; the largest elements come first, so that all are aligned.
    ///
    /// # Errors
    /// The name of a tensor that the format can't hold, and the reason.
    pub(super) fn new(
        tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
        (key, value): (&str, &str),
    ) -> Result<Self, (String, String)> {
        let mut tensors: Vec<(&str, &Tensor)> = tensors.into_iter().collect();
        tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype().size()), *name));
        let (mut infos, mut begin) = (Vec::with_capacity(tensors.len()), 0);
        for (name, tensor) in &tensors {
            let problem = match *name {
                _ if tensor.is_hollow() => "it has no numbers, because none are computed",
                RESERVED => "the format of the file keeps the name for itself",
                "" => "it has no name",
                _ => {
                    let (dtype, shape) =
                        (to_format(tensor.dtype()), tensor.shape().dims().to_vec());
                    let data_offsets = (begin, begin + tensor.byte_len());
                    begin = data_offsets.1;
                    infos.push(((*name).to_owned(), TensorInfo { dtype, shape, data_offsets }));
                    continue;
                }
            };
            return Err(((*name).to_owned(), problem.to_owned()));
        }
        let metadata = Metadata::new(Some([(key.to_owned(), value.to_owned())].into()), infos);
        let metadata = metadata.expect("each tensor begins where the one before it ends");
        let mut header = vec![0; size_of::<u64>()];
        serde_json::to_writer(&mut header, &metadata)
            .expect("strings and numbers can be written as JSON");
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        let length = (header.len() - size_of::<u64>()) as u64;
        header[..size_of::<u64>()].copy_from_slice(&length.to_le_bytes());
        Ok(Self { header, tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect() })
    }

    /// The file's bytes, in order.
    pub(super) fn parts(&self) -> Vec<&[u8]> {
        std::iter::once(&self.header[..])
            .chain(self.tensors.iter().map(|tensor| tensor.bytes()))
            .collect()
    }

    /// The file's length \[bytes\].
    pub(super) fn bytes(&self) -> u64 {
        self.parts().iter().map(|part| part.len() as u64).sum()
    }

    pub(super) fn checksum(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.parts().iter().for_each(|part| hash.update(part));
        hash.digest()
    }
}

/// A tensor within the bytes of a file that was read.
pub(super) struct Raw<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    bytes: &'a [u8],
}

impl Raw<'_> {
    pub(super) fn checksum(&self) -> u64 {
        xxh3_64(self.bytes)
    }

    /// A copy of the tensor.
    ///
    /// # Errors
    /// If a boolean is neither 0 nor 1.
    pub(super) fn tensor(&self) -> Result<Tensor, String> {
        let mut filling = FillingTensor::new(self.dtype, self.shape);
        filling.push(&mut &self.bytes[..]);
        filling.full().map_err(|error| format!("`{}`: {error}", self.name))
    }
}

/// A file that was read and parsed.
pub(super) struct Decoded<'a>(SafeTensors<'a>);

impl<'a> Decoded<'a> {
    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// If the bytes are not in the format; with the reason.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, String> {
        SafeTensors::deserialize(bytes)
            .map(Self)
            .map_err(|error| format!("it is no file of safetensors: {error}"))
    }

    /// The tensors, by name.
    ///
    /// # Errors
    /// If one has a type or shape that is not supported here.
    pub(super) fn tensors(&self) -> Result<Vec<Raw<'_>>, String> {
        let mut raws = self
            .0
            .iter()
            .map(|(name, view)| raw(name, &view))
            .collect::<Result<Vec<_>, String>>()?;
        raws.sort_by_key(|raw| raw.name);
        Ok(raws)
    }
}

fn raw<'a>(name: &'a str, view: &TensorView<'a>) -> Result<Raw<'a>, String> {
    let dtype = of_format(view.dtype())
        .ok_or_else(|| format!("`{name}` is of {}; save it as F32", view.dtype()))?;
    let shape =
        Shape::try_from(view.shape().to_vec()).map_err(|error| format!("`{name}`: {error}"))?;
    Ok(Raw { name, dtype, shape, bytes: view.data() })
}

fn to_format(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::BF16 => Dtype::BF16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::I8 => Dtype::I8,
        DType::Bool => Dtype::BOOL,
    }
}

fn of_format(dtype: Dtype) -> Option<DType> {
    let ours =
        [DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::I8, DType::Bool];
    ours.into_iter().find(|ours| to_format(*ours) == dtype)
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use proptest::prelude::*;

    use super::*;

    fn tensors() -> Vec<(&'static str, Tensor)> {
        vec![
            ("a/b", Tensor::new([2, 3], &[0f32, -0.0, f32::NAN, 1e-40, f32::MAX, 1.0]).unwrap()),
            ("empty", Tensor::zeros(DType::F64, [0, 4])),
            ("flag", Tensor::new([3], &[true, false, true]).unwrap()),
            ("half", Tensor::full([3], bf16::ONE)),
            ("labels", Tensor::new([1], &[-7i32]).unwrap()),
            ("pi", Tensor::scalar(std::f64::consts::PI)),
            ("step", Tensor::scalar(i64::MIN)),
        ]
    }

    fn encode(tensors: &[(&'static str, Tensor)]) -> Vec<u8> {
        let encoded =
            Encoded::new(tensors.iter().map(|(name, tensor)| (*name, tensor)), ("key", "value"))
                .unwrap();
        let file = encoded.parts().concat();
        assert_eq!((encoded.bytes(), encoded.checksum()), (file.len() as u64, xxh3_64(&file)));
        file
    }

    fn decode(file: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
        let decoded = Decoded::new(file)?;
        decoded.tensors()?.iter().map(|raw| Ok((raw.name.to_owned(), raw.tensor()?))).collect()
    }

    #[test]
    fn every_element_type_and_shape_comes_back_bit_for_bit() {
        let expected: Vec<(String, Tensor)> =
            tensors().into_iter().map(|(name, t)| (name.to_owned(), t)).collect();
        assert_eq!(decode(&encode(&tensors())).unwrap(), expected);
        assert_eq!(decode(&encode(&[])).unwrap(), []);
    }

    #[test]
    fn the_same_tensors_make_the_same_file_in_any_order() {
        let reversed: Vec<_> = tensors().into_iter().rev().collect();
        assert_eq!(encode(&reversed), encode(&tensors()));
    }

    #[test]
    fn a_tensor_without_numbers_or_with_a_name_that_is_taken_is_refused() {
        let refused = |name, tensor| Encoded::new([(name, &tensor)], ("k", "v")).err().unwrap();
        assert!(refused("w", Tensor::hollow(DType::F32, [2])).1.contains("no numbers"));
        assert_eq!(refused("__metadata__", Tensor::scalar(1)).0, "__metadata__");
        assert!(refused("", Tensor::scalar(1)).1.contains("no name"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_understood(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let _understood_or_refused = decode(&bytes);
        }

        #[test]
        fn a_file_that_is_changed_or_cut_off_is_refused_or_understood(
            at in any::<prop::sample::Index>(), byte: u8, end in any::<prop::sample::Index>()
        ) {
            let mut file = encode(&tensors());
            let at = at.index(file.len());
            file[at] = byte;
            let _understood_or_refused = decode(&file);
            let end = end.index(file.len());
            prop_assert!(decode(&file[..end]).is_err());
        }
    }
}
