//! Reads files of safetensors that other programs wrote.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::CheckpointError;
use super::shard_file::Decoded;
use crate::tensor::Tensor;
use crate::user_file;

/// The tensors of a file of safetensors, by name. What was trained elsewhere is an initial value
/// here (TensorFlow: `tf.train.init_from_checkpoint`); a checkpoint comes before initial values.
///
/// ```no_run
/// # use trainyard::prelude::*;
/// # fn build(g: &Graph) -> Result<(), Box<dyn std::error::Error>> {
/// let trained = trainyard::checkpoint::read_safetensors("model.safetensors")?;
/// let kernel = g.variable("kernel", &g.constant(trained["dense.weight"].clone()))?;
/// # let _ = kernel;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the file can't be read or is not in the format; if it has a tensor of a type that there is
/// not here, such as F16, with the tensor's name.
pub fn read_safetensors(
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    let file = path.as_ref().display().to_string();
    let mut bytes = Vec::new();
    user_file::open(path.as_ref())
        .and_then(|mut opened| opened.read_to_end(&mut bytes))
        .map_err(CheckpointError::store("read", file.clone()))?;
    let read = || -> Result<BTreeMap<String, Tensor>, String> {
        let decoded = Decoded::new(&bytes)?;
        decoded.tensors()?.iter().map(|raw| Ok((raw.name.to_owned(), raw.tensor()?))).collect()
    };
    read().map_err(|problem| CheckpointError::Malformed { file, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as Python's library writes it: its metadata, its own order, no alignment.
    fn written(name: &str, dtype: &str) -> std::path::PathBuf {
        let header = format!(
            "{{\"__metadata__\":{{\"format\":\"pt\"}},\
             \"fc.weight\":{{\"dtype\":\"{dtype}\",\"shape\":[2,1],\"data_offsets\":[3,7]}},\
             \"mask\":{{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}}}"
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend([1, 0, 1]);
        let values = [1f32, -2.0].map(half::bf16::from_f32);
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let path = std::env::temp_dir().join(format!("trainyard-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_file_of_another_program_is_read_by_its_names() {
        let path = written("foreign", "BF16");
        let read = read_safetensors(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let values = [1f32, -2.0].map(half::bf16::from_f32);
        assert_eq!(read["fc.weight"], Tensor::new([2, 1], &values).unwrap());
        assert_eq!(read["mask"], Tensor::new([3], &[true, false, true]).unwrap());
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_file_that_is_gone_or_has_a_type_that_is_not_here_is_refused_by_its_name() {
        let path = written("foreign-type", "F16");
        let refused = read_safetensors(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let name = path.display().to_string();
        for part in [&*name, "`fc.weight` is of F16", "F32"] {
            assert!(refused.contains(part), "{refused}");
        }
        let gone = read_safetensors(&path).unwrap_err().to_string();
        assert!(gone.contains("can't read") && gone.contains(&name), "{gone}");
        let endless = read_safetensors("/dev/zero").unwrap_err().to_string();
        assert!(endless.contains("/dev/zero") && endless.contains("a device"), "{endless}");
    }
}
