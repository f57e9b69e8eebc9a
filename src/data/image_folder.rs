//! Folders of images: a class a folder, its images the files in it.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::imageops::FilterType;
use image::{DynamicImage, ImageReader, Limits};

use super::DataError;
use super::pipeline::Pipeline;
use crate::user_file;

/// The greatest length of an image's file \[bytes\].
const LONGEST: u64 = 1 << 28;
/// The greatest height and width of an image \[pixels\].
const LARGEST: u32 = 1 << 14;
/// The most memory that an image's pixels take as they are decoded \[bytes\].
const MOST_DECODED: u64 = 1 << 27;

/// An image's file.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// The file.
    pub path: Arc<Path>,
    /// The class: the number of its folder, in alphabetical order.
    pub class: i32,
}

impl Pipeline<ImageFile> {
    /// The PNG and JPEG files in the folders of `directory`, folder by folder in alphabetical order
    /// (TensorFlow: `image_dataset_from_directory`). The names are in memory, and no image is read.
    /// Names that begin with a dot are passed over.
    ///
    /// # Errors
    /// If a folder can't be read.
    pub fn image_folder(directory: &Path) -> Result<Self, DataError> {
        Self::image_folder_like(directory, directory)
    }

    /// The same with the classes of `train`: each folder of `directory` is the class that the
    /// folder of its name is there, so that a test folder may lack some.
    ///
    /// # Errors
    /// If a folder can't be read; if a folder of `directory` is none of `train`.
    pub fn image_folder_like(directory: &Path, train: &Path) -> Result<Self, DataError> {
        Ok(Self::from_elements(images(directory, train)?))
    }
}

/// The images in `directory`, as [`Pipeline::image_folder_like`] has them.
pub(super) fn images(directory: &Path, train: &Path) -> Result<Vec<ImageFile>, DataError> {
    let classes = folders(train)?;
    let mut images = Vec::new();
    for folder in folders(directory)? {
        let class = classes.iter().position(|class| class.file_name() == folder.file_name());
        let class = class.and_then(|class| i32::try_from(class).ok());
        let class = class.ok_or_else(|| {
            let problem = format!(
                "its name is no class: {} has no such folder, and its folders are the classes",
                train.display()
            );
            DataError::mistaken(&folder, "the folder", problem)
        })?;
        for path in listed(&folder)? {
            if is_image(&path) {
                images.push(ImageFile { path: path.into(), class });
            }
        }
    }
    Ok(images)
}

impl ImageFile {
    /// The image's pixels from 0 to 1, row by row, in the height, width and channels (1 or 3) of
    /// `shape`: an image of another size is scaled.
    ///
    /// # Errors
    /// If the file can't be read, or is no image.
    pub fn decode(&self, shape: [usize; 3]) -> Result<Vec<f32>, DataError> {
        let file = || self.path.display().to_string();
        let bytes = user_file::read(&self.path, LONGEST)
            .map_err(|source| DataError::Unreadable { file: file(), source })?;
        pixels(&bytes, shape).map_err(|why| DataError::malformed(&self.path, "the image", why))
    }
}

/// The number of classes in `directory`.
pub(super) fn classes(directory: &Path) -> Result<usize, DataError> {
    Ok(folders(directory)?.len())
}

/// The pixels of an encoded image, as [`ImageFile::decode`].
pub(super) fn pixels(
    bytes: &[u8],
    [height, width, channels]: [usize; 3],
) -> Result<Vec<f32>, String> {
    let mut limits = Limits::default();
    limits.max_image_width = Some(LARGEST);
    limits.max_image_height = Some(LARGEST);
    limits.max_alloc = Some(MOST_DECODED);
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| error.to_string())?;
    reader.limits(limits);
    let mut image = reader.decode().map_err(|error| error.to_string())?;
    let size = [width, height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    if [image.width(), image.height()] != size {
        image = image.resize_exact(size[0], size[1], FilterType::Triangle);
    }
    let bytes = match channels {
        1 => DynamicImage::into_luma8(image).into_raw(),
        _ => DynamicImage::into_rgb8(image).into_raw(),
    };
    Ok(bytes.into_iter().map(|pixel| f32::from(pixel) / 255.0).collect())
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn folders(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    Ok(listed(directory)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// What is in `folder`, in alphabetical order, without names that begin with a dot: those of other
/// programs, such as `.ipynb_checkpoints`.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |source| DataError::Unreadable { file: folder.display().to_string(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.retain(|path| {
        path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    });
    paths.sort();
    Ok(paths)
}
