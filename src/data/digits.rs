//! The embedded digits: how they are read, and which of them are for testing.

use flate2::read::GzDecoder;

use super::samples::Samples;
use super::{DataError, Dataset};

/// A header line, then on each line 64 pixels from 0 to 16 and a label; `README.md` has their
/// origin.
const CSV_GZ: &[u8] = include_bytes!("digits.csv.gz");
const CLASSES: usize = 10;
const IMAGE: [usize; 3] = [8, 8, 1];
const PIXELS: usize = IMAGE[0] * IMAGE[1] * IMAGE[2];
const BRIGHTEST: f32 = 16.0;

/// Reads the digits; every sixth is for testing. The samples are ordered by writer, so a single cut
/// would test on people whose writing was never trained on.
pub(super) fn load() -> Result<Dataset, DataError> {
    let mut train = Samples::default();
    let mut test = Samples::default();
    let mut reader = csv::Reader::from_reader(GzDecoder::new(CSV_GZ));
    for (row, values) in reader.deserialize::<Vec<u8>>().enumerate() {
        let values = values.map_err(|error| DataError::Malformed {
            file: "the embedded digits".to_owned(),
            place: format!("sample {row}"),
            problem: error.to_string(),
        })?;
        let samples = if row % 6 == 5 { &mut test } else { &mut train };
        let (label, pixels) =
            values.split_last().expect("the reader gives every row as many fields as the header");
        samples.features.extend(pixels.iter().map(|pixel| f32::from(*pixel) / BRIGHTEST));
        samples.labels.push(i32::from(*label));
    }
    Dataset { train: train.into_split(PIXELS, CLASSES)?, test: test.into_split(PIXELS, CLASSES)? }
        .of_images(IMAGE)
}

#[cfg(test)]
mod tests {
    use super::super::Batch;
    use super::*;

    #[test]
    fn every_sixth_digit_is_for_testing_and_pixels_are_from_0_to_1() {
        let digits = Dataset::digits().unwrap();
        assert_eq!((digits.train.len(), digits.test.len()), (1498, 299));
        assert_eq!((digits.train.width(), digits.train.classes()), (64, 10));
        assert_eq!(digits.test.image_shape(), Some([8, 8, 1]));
        for split in [&digits.train, &digits.test] {
            let Batch { features, labels, .. } = split.whole();
            let pixels = features.values::<f32>().unwrap();
            assert!(
                pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)) && pixels.contains(&1.0)
            );
            assert!((0..10).all(|class| labels.values::<i32>().unwrap().contains(&class)));
        }
    }

    #[test]
    fn the_first_rows_are_those_of_the_file() {
        // Rows 0 to 11 are labelled 0 to 9, 0, 1; rows 5 and 11 are for testing.
        let digits = Dataset::digits().unwrap();
        let (train, test) = (digits.train.whole(), digits.test.whole());
        assert_eq!(train.labels.values::<i32>().unwrap()[..10], [0, 1, 2, 3, 4, 6, 7, 8, 9, 0]);
        assert_eq!(test.labels.values::<i32>().unwrap()[..2], [5, 1]);
        assert_eq!(
            train.features.values::<f32>().unwrap()[..5],
            [0.0, 0.0, 0.3125, 0.8125, 0.5625]
        );
    }
}
