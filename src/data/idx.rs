//! IDX files: images and labels as MNIST ships them (LeCun, Cortes and Burges), gzipped or not.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use super::file::{self, MOST_VALUES};
use super::samples::Samples;
use super::{DataError, Dataset};

/// The type code of unsigned bytes.
const UNSIGNED_BYTE: u8 = 0x08;

/// Reads the data set in `directory`: `train-images-idx3-ubyte` and so on, with `.gz` or without;
/// pixels from 0 to 1.
pub(super) fn load(directory: &Path) -> Result<Dataset, DataError> {
    let part = |name: &str| -> Result<(Samples, [usize; 2]), DataError> {
        let images = find(directory, name, "images-idx3-ubyte")?;
        let labels = find(directory, name, "labels-idx1-ubyte")?;
        samples(&images, &labels)
    };
    let ((train, size), (test, test_size)) = (part("train")?, part("t10k")?);
    if size != test_size {
        let problem = format!("its images have {test_size:?} pixels, those for training {size:?}");
        return Err(DataError::malformed(
            &directory.join("t10k-images-idx3-ubyte"),
            "the sizes",
            problem,
        ));
    }
    let [height, width] = size;
    train.into_dataset(Some(test), height * width, 0)?.of_images([height, width, 1])
}

/// Finds the file of a part, under any of its usual names.
fn find(directory: &Path, part: &str, what: &str) -> Result<PathBuf, DataError> {
    let dotted = what.replacen("-idx", ".idx", 1);
    let names = [what, &dotted].map(|what| format!("{part}-{what}"));
    let candidates = names.iter().flat_map(|name| [name.clone(), format!("{name}.gz")]);
    candidates.map(|name| directory.join(name)).find(|path| path.exists()).ok_or_else(|| {
        let source = std::io::Error::new(
            std::io::ErrorKind::NotFound,
            "no such file, nor one that ends in `.gz`",
        );
        DataError::Unreadable { file: directory.join(&names[0]).display().to_string(), source }
    })
}

fn samples(images: &Path, labels: &Path) -> Result<(Samples, [usize; 2]), DataError> {
    let (pixels, dims) = values::<3>(images)?;
    let (classes, [labelled]) = values::<1>(labels)?;
    if labelled != dims[0] {
        return Err(DataError::malformed(
            labels,
            "the sizes",
            format!("{labelled} labels for {} images", dims[0]),
        ));
    }
    let features = pixels.iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
    let labels = classes.iter().map(|class| i32::from(*class)).collect();
    Ok((Samples { features, labels }, [dims[1], dims[2]]))
}

/// Reads the bytes of an IDX file of `RANK` dimensions.
fn values<const RANK: usize>(path: &Path) -> Result<(Vec<u8>, [usize; RANK]), DataError> {
    let mut file = file::open(path)?;
    let file: &mut dyn BufRead = &mut *file;
    let unreadable = |source| DataError::Unreadable { file: path.display().to_string(), source };
    let magic = file::read(file, 4).map_err(unreadable)?;
    if magic != [0, 0, UNSIGNED_BYTE, RANK as u8] {
        let problem =
            format!("{magic:02x?} is not the beginning of unsigned bytes in {RANK} dimensions");
        return Err(DataError::malformed(path, "bytes 0 to 3", problem));
    }
    let sizes = file::read(file, 4 * RANK).map_err(unreadable)?;
    let (sizes, _) = sizes.as_chunks::<4>();
    let dims: [usize; RANK] = std::array::from_fn(|i| u32::from_be_bytes(sizes[i]) as usize);
    let count = dims
        .iter()
        .try_fold(1usize, |count, dim| count.checked_mul(*dim))
        .filter(|count| *count <= MOST_VALUES);
    let Some(count) = count else {
        return Err(DataError::malformed(
            path,
            "the sizes",
            format!("{dims:?} are more than {MOST_VALUES} values"),
        ));
    };
    let values = file::read(file, count).map_err(unreadable)?;
    if !file::is_at_end(file).map_err(unreadable)? {
        return Err(DataError::malformed(
            path,
            "the end",
            format!("more follows than the {count} values of {dims:?}"),
        ));
    }
    Ok((values, dims))
}
