//! The embedded digits in files of TFRecord.

use std::fs;
use std::path::Path;

use trainyard::data::{Dataset, Split};

use super::tfrecord::{example, framed};

/// Writes the digits into `folder`: those to train on in `files` files, `train-N.tfrecord`, those
/// to test on in `test.tfrecord`.
pub(crate) fn write_digits(folder: &Path, files: usize) {
    fs::create_dir_all(folder).unwrap();
    let digits = Dataset::digits().unwrap();
    let all = records(&digits.train);
    for (number, part) in all.chunks(all.len().div_ceil(files)).enumerate() {
        fs::write(folder.join(format!("train-{number}.tfrecord")), part.concat()).unwrap();
    }
    fs::write(folder.join("test.tfrecord"), records(&digits.test).concat()).unwrap();
}

fn records(split: &Split) -> Vec<Vec<u8>> {
    let batch = split.whole();
    let features = batch.features.values::<f32>().unwrap();
    let labels = batch.labels.values::<i32>().unwrap();
    let rows = features.chunks(split.width()).zip(labels);
    rows.map(|(features, label)| framed(&example(features, *label))).collect()
}
