//! Arrays as NumPy writes them, and those that are refused.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use tempfile::TempDir;

use super::header::Header;
use crate::data::{DataError, Dataset, Split};

/// A `.npy` file of version 1.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    ordered(descr, "False", shape, data)
}

fn ordered(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// The data set of features and classes, each an array's bytes.
fn read(features: &[u8], classes: &[u8]) -> Result<Dataset, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = (folder.path().join("x.npy"), folder.path().join("y.npy"));
    fs::write(&x, features).unwrap();
    fs::write(&y, classes).unwrap();
    Dataset::npy((&x, &y), Some((&x, &y)), 0)
}

fn features(split: &Split) -> Vec<f32> {
    split.whole().features.values().unwrap().to_vec()
}

fn labels(split: &Split) -> Vec<i32> {
    split.whole().labels.values().unwrap().to_vec()
}

/// The features and the labels of samples 0 and 1, of the classes 2 and 0.
fn of_two(features_of: &[u8]) -> Vec<f32> {
    let dataset = read(features_of, &npy("<i2", "(2,)", &[2, 0, 0, 0])).unwrap();
    assert_eq!(labels(&dataset.train), [2, 0]);
    features(&dataset.train)
}

#[test]
fn pixels_are_scaled_and_other_numbers_kept() {
    assert_eq!(of_two(&npy("|u1", "(2, 1, 2)", &[0, 255, 51, 102])), [0.0, 1.0, 0.2, 0.4]);
    assert_eq!(of_two(&npy("|i1", "(2, 1)", &[255, 3])), [-1.0, 3.0]);
    assert_eq!(of_two(&npy("|b1", "(2, 1)", &[1, 0])), [1.0, 0.0]);
}

#[test]
fn each_type_is_read_in_both_orders_of_bytes() {
    let numbers = [1.5f64, -2.0, 0.0, 4.0];
    let least_first = |kind: &str| -> Vec<Vec<u8>> {
        let bytes = |value: &f64| match kind {
            "f2" => half::f16::from_f64(*value).to_le_bytes().to_vec(),
            "f4" => (*value as f32).to_le_bytes().to_vec(),
            "f8" => value.to_le_bytes().to_vec(),
            "i2" => (*value as i16).to_le_bytes().to_vec(),
            "i4" => (*value as i32).to_le_bytes().to_vec(),
            "i8" => (*value as i64).to_le_bytes().to_vec(),
            "u2" => (*value as u16).to_le_bytes().to_vec(),
            _ => (*value as u32).to_le_bytes().to_vec(),
        };
        numbers.iter().map(bytes).collect()
    };
    for kind in ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4"] {
        let expected = match &kind[..1] {
            "f" => [1.5, -2.0, 0.0, 4.0],
            "i" => [1.0, -2.0, 0.0, 4.0],
            _ => [1.0, 0.0, 0.0, 4.0],
        };
        let mut elements = least_first(kind);
        let little = npy(&format!("<{kind}"), "(2, 2)", &elements.concat());
        elements.iter_mut().for_each(|element| element.reverse());
        let big = npy(&format!(">{kind}"), "(2, 2)", &elements.concat());
        assert_eq!(of_two(&little), expected, "{kind}");
        assert_eq!(of_two(&big), expected, "{kind}");
    }
}

#[test]
fn an_array_in_fortran_order_has_the_samples_of_the_same_array_in_c_order() {
    let shape = [2usize, 3, 1, 4];
    let value = |at: [usize; 3]| (100 * at[0] + 10 * at[1] + at[2]) as u8;
    let (mut c, mut fortran) = (Vec::new(), Vec::new());
    for first in 0..shape[0] {
        for second in 0..shape[1] {
            c.extend((0..shape[3]).map(|last| value([first, second, last])));
        }
    }
    for last in 0..shape[3] {
        for second in 0..shape[1] {
            fortran.extend((0..shape[0]).map(|first| value([first, second, last])));
        }
    }
    assert_ne!(c, fortran);
    let dims = "(2, 3, 1, 4)";
    let expected = of_two(&npy("|u1", dims, &c));
    assert_eq!(of_two(&ordered("|u1", "True", dims, &fortran)), expected);
    let big: Vec<u8> = fortran.iter().flat_map(|value| f32::from(*value).to_be_bytes()).collect();
    let unscaled: Vec<f32> = c.iter().map(|value| f32::from(*value)).collect();
    assert_eq!(of_two(&ordered(">f4", "True", dims, &big)), unscaled);
}

#[test]
fn arrays_of_three_and_four_dimensions_are_images() {
    let shape = |dims: &str| {
        let array = npy("|u1", dims, &[0; 12]);
        let dataset = read(&array, &npy("|u1", "(2,)", &[0, 1])).unwrap();
        assert_eq!(dataset.train.image_shape(), dataset.test.image_shape());
        dataset.train.image_shape()
    };
    assert_eq!(shape("(2, 3, 2)"), Some([3, 2, 1]));
    assert_eq!(shape("(2, 1, 2, 3)"), Some([1, 2, 3]));
    assert_eq!((shape("(2, 6)"), shape("(2, 1, 1, 2, 3)")), (None, None));
}

#[test]
fn an_array_that_cannot_be_used_is_refused_with_the_reason() {
    let error = |bytes: &[u8]| read(bytes, &npy("|u1", "(1,)", &[0])).unwrap_err().to_string();
    assert!(error(b"PK\x03\x04rest").contains("read it with `npz = "));
    assert!(error(b"\x93NUMPX\x01\x00rest").contains("no NumPy array"));
    assert!(error(&npy("<c8", "(1, 1)", &[0; 8])).contains("`<c8` is none of"));
    assert!(error(&npy("é4", "(1, 1)", &[0; 4])).contains("is none of"));
    assert!(error(&npy("<f4", "(1, 1)", &[0; 3])).contains("ends after 3 of 4 bytes"));
    assert!(error(&npy("<f4", "(1, 1)", &[0; 5])).contains("more follows"));
    assert!(error(&npy("<f4", "(99999999, 99999999)", &[])).contains("are more than"));
    assert!(error(&npy("<f4", "(2, 1)", &[0; 8])).contains("one label for each of 2 samples"));
    let labels = |kind: &str, shape: &str, data: &[u8]| {
        read(&npy("|u1", "(2, 1)", &[0, 1]), &npy(kind, shape, data)).unwrap_err().to_string()
    };
    assert!(labels("|u1", "(2, 1)", &[0, 1]).contains("2 samples; make them so with `.ravel()`"));
    assert!(labels("|u1", "(2, 2)", &[1, 0, 0, 1]).contains("`.argmax(axis=1)` makes the class"));
    assert!(labels("|u1", "(3,)", &[0, 1, 0]).ends_with("one label for each of 2 samples"));
    assert!(labels("<f4", "(2,)", &[0; 8]).contains("make them so with `.astype(int)`"));
    let label = |value: i32| labels("<i4", "(2,)", &[0, value].map(i32::to_le_bytes).concat());
    assert!(label(-1).contains("y.npy, element 1: -1 is no label"), "{}", label(-1));
    assert!(label(i32::MAX).contains(
        "y.npy, element 1: 2147483647 is no label: labels are from 0 to below 2147483647"
    ));
    assert!(error(&ordered("|u1", "None", "(1, 1)", &[0])).contains("neither True nor False"));
}

#[test]
fn features_that_are_no_finite_numbers_are_refused_with_the_sample() {
    let labels = npy("|u1", "(2,)", &[0, 1]);
    let error = |kind: &str, values: &[u8]| {
        read(&npy(kind, "(2, 2)", values), &labels).unwrap_err().to_string()
    };
    let floats = |last: f32| [1.0, 2.0, last, 4.0].map(f32::to_le_bytes).concat();
    let said = error("<f4", &floats(f32::NAN));
    assert!(said.contains("x.npy, sample 1, feature 0: NaN is no number: fill it in"), "{said}");
    assert!(error("<f4", &floats(f32::NEG_INFINITY)).contains("sample 1, feature 0: it is too"));
    let wide = [1.0, 1e39, 2.0, 3.0].map(f64::to_le_bytes).concat();
    assert!(error("<f8", &wide).contains("sample 0, feature 1: it is too large for a float of 32"));
}

#[test]
fn a_header_that_claims_many_sides_costs_no_more_than_its_values() {
    let shape = format!("(2, {}3)", "1, ".repeat(10_000));
    let header = format!("{{'descr': '|u1', 'fortran_order': True, 'shape': {shape}, }}");
    assert_eq!(Header::parse(&header).unwrap().count, 6);
    assert_eq!(
        of_two(&ordered("|i1", "True", &shape, &[0, 1, 2, 3, 4, 5])),
        [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
    );
}

/// An archive of arrays, compressed by `method`.
fn archive(method: CompressionMethod, arrays: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut bytes);
    for (name, array) in arrays {
        let file = archive.new_file(name).compression_method(method);
        let (mut entry, config) = file.start().unwrap();
        let descriptor = if method == CompressionMethod::DEFLATE {
            let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
            writer.write_all(array).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        } else {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(array).unwrap();
            writer.finish().unwrap().1
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}

/// An archive in a file, which goes with its folder.
fn saved(bytes: &[u8]) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.npz");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn the_arrays_of_an_archive_are_read_by_their_names_compressed_or_not() {
    let x = ordered(">i2", "True", "(2, 2)", &[0, 1, 0, 2, 0, 3, 0, 4]);
    let y = npy("|u1", "(2,)", &[1, 0]);
    let test = npy("<i8", "(1, 2)", &[7; 16]);
    let arrays: [(&str, &[u8]); 4] = [
        ("x.npy", &x),
        ("y.npy", &y),
        ("x_test.npy", &test),
        ("y_test.npy", &npy("|u1", "(1,)", &[0])),
    ];
    for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
        let (_folder, path) = saved(&archive(method, &arrays));
        let dataset = Dataset::npz(&path, ("x", "y"), Some(("x_test", "y_test")), 0).unwrap();
        assert_eq!(features(&dataset.train), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!((labels(&dataset.train), dataset.test.len()), (vec![1, 0], 1));
        let missing = Dataset::npz(&path, ("x", "z"), None, 0).unwrap_err().to_string();
        assert!(missing.contains("no array `z`; it has x, y, x_test, y_test"), "{missing}");
    }
}

#[test]
fn a_damaged_archive_is_refused_and_a_small_one_cannot_claim_much() {
    let error = |bytes: &[u8]| {
        let (_folder, path) = saved(bytes);
        Dataset::npz(&path, ("x", "y"), None, 0).unwrap_err().to_string()
    };
    let zeros = npy("|u1", "(1000, 1000)", &[0; 1_000_000]);
    let bomb = npy("|u1", "(99999999, 99999999)", &[0; 1_000_000]);
    let of = |x: &[u8]| archive(CompressionMethod::DEFLATE, &[("x.npy", x)]);
    assert!(of(&bomb).len() < 2000);
    assert!(
        error(&of(&bomb)).contains("array `x`, the header: [99999999, 99999999] are more than")
    );
    let mut longer = zeros.clone();
    longer.push(0);
    assert!(error(&of(&longer)).contains("more follows"));
    assert!(error(&of(&zeros)[..500]).contains("the archive"));
    assert!(error(b"not an archive").contains("the archive"));
    // Stored bytes are damaged without anybody's notice but the checksum's.
    let mut damaged = archive(CompressionMethod::STORE, &[("x.npy", &zeros)]);
    damaged[5000] ^= 1;
    assert!(error(&damaged).contains("can't read array `x`"), "{}", error(&damaged));
}
