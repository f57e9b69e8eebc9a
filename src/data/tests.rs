//! The data sets that each format gives, and the errors for malformed files.

mod streamed;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::libsvm::{LibSvm, SparseSample};
use super::*;
use crate::tensor::DType;

/// A temporary folder for a test's files, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("trainyard-data-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn gzipped(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
        zipped.write_all(bytes).unwrap();
        self.file(name, &zipped.finish().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn features(split: &Split) -> Vec<f32> {
    split.whole().features.values().unwrap().to_vec()
}

fn labels(split: &Split) -> Vec<i32> {
    split.whole().labels.values().unwrap().to_vec()
}

/// An IDX file of unsigned bytes.
fn idx(dims: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|dim| bytes.extend(dim.to_be_bytes()));
    bytes.extend(values);
    bytes
}

#[test]
fn idx_files_are_read_as_mnist_ships_them_gzipped_or_not() {
    let folder = Folder::new("idx");
    folder.gzipped("train-images-idx3-ubyte.gz", &idx(&[2, 1, 2], &[0, 255, 51, 102]));
    folder.file("train-labels-idx1-ubyte", &idx(&[2], &[7, 0]));
    folder.file("t10k-images.idx3-ubyte", &idx(&[1, 1, 2], &[255, 0]));
    folder.gzipped("t10k-labels-idx1-ubyte.gz", &idx(&[1], &[9]));
    let dataset = Dataset::idx(&folder.0).unwrap();
    assert_eq!(
        (features(&dataset.train), labels(&dataset.train)),
        (vec![0.0, 1.0, 0.2, 0.4], vec![7, 0])
    );
    assert_eq!((features(&dataset.test), labels(&dataset.test)), (vec![1.0, 0.0], vec![9]));
    assert_eq!((dataset.train.classes(), dataset.test.classes()), (10, 10));
    assert_eq!(dataset.train.image_shape(), Some([1, 2, 1]));
}

#[test]
fn idx_files_that_lie_about_themselves_are_named_with_the_place() {
    let folder = Folder::new("idx-errors");
    let error = |images: &[u8], labels: &[u8]| {
        folder.file("train-images-idx3-ubyte", images);
        folder.file("train-labels-idx1-ubyte", labels);
        Dataset::idx(&folder.0).unwrap_err().to_string()
    };
    let (images, labels) = (idx(&[1, 1, 2], &[1, 2]), idx(&[1], &[1]));
    assert!(error(b"\0\0\x0d\x03", &labels).contains("bytes 0 to 3"));
    assert!(error(&images[..17], &labels).contains("ends after 1 of 2 bytes"));
    assert!(Dataset::idx(&folder.0).unwrap_err().is_corrupt(), "it is cut off");
    assert!(error(&idx(&[u32::MAX, u32::MAX, u32::MAX], &[]), &labels).contains("are more than"));
    assert!(error(&idx(&[1, 1, 1], &[1, 2]), &labels).contains("more follows"));
    assert!(error(&images, &idx(&[2], &[1, 2])).contains("2 labels for 1 images"));
    assert!(
        error(&images, &labels).contains("t10k-images-idx3-ubyte"),
        "the missing file is named"
    );
}

#[test]
fn a_csv_file_has_its_classes_by_number_or_by_name() {
    let folder = Folder::new("csv");
    let flowers = folder.file("flowers.csv", b"length, kind ,width\n1,setosa,2\n3,iris,4.5\n");
    let other = folder.file("other.csv", b"length,kind,width\n5,setosa,6\n");
    let dataset = Dataset::csv(&flowers, "kind", Some(&other), 0).unwrap();
    assert_eq!(
        (features(&dataset.train), labels(&dataset.train)),
        (vec![1.0, 2.0, 3.0, 4.5], vec![1, 0])
    );
    assert_eq!((features(&dataset.test), labels(&dataset.test)), (vec![5.0, 6.0], vec![1]));
    let numbers = folder.gzipped("numbers.csv.gz", b"y,x\n3,1\n10,2\n");
    let dataset = Dataset::csv(&numbers, "y", Some(&numbers), 0).unwrap();
    assert_eq!((labels(&dataset.train), dataset.train.classes()), (vec![3, 10], 11));
}

#[test]
fn a_scenario_that_names_the_wrong_column_is_mistaken_and_the_file_is_sound() {
    let folder = Folder::new("csv-mistaken");
    let error = |text: &str, label: &str| {
        let file = folder.file("data.csv", text.as_bytes());
        Dataset::csv(&file, label, None, 0).unwrap_err()
    };
    assert!(!error("x,y\n1,0\n", "z").is_corrupt());
    assert!(error("x,y\nno,0\n", "y").is_corrupt());
    let empty = error("", "y");
    assert!(empty.is_corrupt() && empty.to_string().contains("the file is empty"), "{empty}");
    let label = Tensor::new([1], &[10]).unwrap();
    let ten = Split::new(Tensor::zeros(DType::F32, [1, 1]), label, 10);
    assert!(!ten.unwrap_err().is_corrupt(), "a label that is no class");
}

#[test]
fn a_mistake_in_a_csv_file_is_told_with_line_and_column() {
    let folder = Folder::new("csv-errors");
    let error = |text: &str, label: &str| {
        let file = folder.file("data.csv", text.as_bytes());
        Dataset::csv(&file, label, None, 0).unwrap_err().to_string()
    };
    let number = error("x,y\n1,0\nno,1\n", "y");
    assert!(number.contains("line 3, column `x`: `no` is no number"), "{number}");
    assert!(error("x,y\n1,0\n", "z").contains("no column `z`; it has x, y"));
    assert!(error("x,y\n1,0\n1\n", "y").contains("line 3: 1 fields, where the header has 2"));
    assert!(error("x,y\n1,0\n2,\n", "y").contains("line 3, column `y`: the label is missing"));
    assert!(error("x,y\n,0\n", "y").contains("column `x`: the field is empty: fill it in"));
    assert!(error("x,y\n1,0.5\n2,1\n", "y").contains("such as 0.5, are numbers, not classes"));
    for text in ["x;y\n1;0\n", "x\ty\n1\t0\n"] {
        let said = error(text, "y");
        assert!(said.contains("; fields are separated by commas"), "{said}");
    }
    assert!(error("x,y\n1,0\n", "z").ends_with("it has x, y"));
    let great = error("x,y\n1,0\n2,1000000\n3,70000\n", "y");
    assert!(great.contains("line 3: the label 1000000 is too large"), "{great}");
    assert!(error("x,y\n1e39,0\n", "y").contains("line 2, column `x`: 1e39 is too large"));
    assert!(error("x,x,y\n1,2,0\n", "y").contains("the header: two columns are called `x`"));
    let from_windows = error("x,y\r\n1,0\r\nno,1\r\n\r\n", "y");
    assert!(from_windows.contains("line 3, column `x`: `no` is no"), "{from_windows}");
}

#[test]
fn a_test_file_without_a_label_that_is_trained_on_is_refused() {
    let folder = Folder::new("csv-labels");
    let train = folder.file("train.csv", b"x,y\n1,iris\n2,setosa\n");
    let of = |rows: &str| {
        let test = folder.file("test.csv", format!("x,y\n{rows}").as_bytes());
        Dataset::csv(&train, "y", Some(&test), 0)
    };
    assert_eq!(of("1,rose\n2,iris\n").unwrap().test.classes(), 3);
    let error = of("1,Iris\n2,Setosa\n").unwrap_err();
    let said = error.to_string();
    assert!(said.contains("column `y`: none of the labels, such as `Iris`, is in"), "{said}");
    assert!(!error.is_corrupt(), "{said}");
}

#[test]
fn a_pattern_of_csv_files_without_classes_is_told_what_it_needs() {
    let folder = Folder::new("csv-pattern");
    folder.file("part-1.csv", b"x,y\n1,0\n");
    let file = folder.file("odd?.csv", b"x,y\n1,0\n2,1\n");
    let error = Dataset::csv(&folder.0.join("part-*.csv"), "y", None, 0).unwrap_err();
    let said = error.to_string();
    assert!(error.is_mistaken() && said.contains("part-*.csv, the name: files by a"), "{said}");
    assert!(said.contains("`classes = N`"), "{said}");
    assert!(Dataset::csv(&file, "y", Some(&file), 0).is_ok(), "a file may have such a name");
}

#[test]
fn a_test_file_has_the_columns_of_the_file_to_train_on_in_the_same_order() {
    let folder = Folder::new("csv-columns");
    let train = folder.file("train.csv", b"a,b,y\n1,2,0\n3,4,1\n");
    let of = |header: &str, row: &str| {
        let test = folder.file("test.csv", format!("{header}\n{row}\n").as_bytes());
        Dataset::csv(&train, "y", Some(&test), 0)
    };
    assert_eq!(features(&of("y,a,b", "0,5,6").unwrap().test), [5.0, 6.0], "of a label elsewhere");
    for (header, row, said) in [
        ("b,a,y", "6,5,0", "the header: the column `b` stands where"),
        ("a,c,y", "5,6,0", "the header: no column `b`, which"),
        ("a,y", "5,0", "it has a"),
        ("a,b,c,y", "5,6,7,0", "the header: the column `c` is not in"),
    ] {
        let error = of(header, row).unwrap_err();
        assert!(error.is_mistaken() && error.to_string().contains(said), "{header}: {error}");
    }
}

#[test]
fn a_libsvm_file_is_read_a_sample_at_a_time_or_made_dense() {
    let folder = Folder::new("libsvm");
    let file = folder.file("data", b"# a comment\n+1 1:0.5 4:2\n-1 # nothing\n\n-1 2:1e-1\n");
    let samples: Vec<SparseSample> = LibSvm::open(&file).unwrap().map(Result::unwrap).collect();
    assert_eq!(samples.len(), 3);
    assert_eq!(samples[0], SparseSample { label: 1, indices: vec![0, 3], values: vec![0.5, 2.0] });
    let dataset = Dataset::libsvm(&file, Some(&file), 0).unwrap();
    assert_eq!(labels(&dataset.train), [1, 0, 0]);
    assert_eq!(
        features(&dataset.train),
        [0.5, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0]
    );
}

#[test]
fn a_mistake_in_a_libsvm_file_is_told_with_its_line_and_ends_the_reading() {
    let folder = Folder::new("libsvm-errors");
    for (line, said) in [
        ("x 1:1", "`x` is no label"),
        ("0.5 1:1", "0.5 is no class"),
        ("1 1=1", "`1=1` is no index:value"),
        ("1 0:1", "features count from 1"),
        ("1 2:1 2:1", "`2:1` comes after"),
    ] {
        let file = folder.file("data", format!("1 1:1\n{line}\n1 1:1\n").as_bytes());
        let read: Vec<_> = LibSvm::open(&file).unwrap().collect();
        assert_eq!(read.len(), 2);
        let error = read[1].as_ref().unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(said), "{error}");
    }
    let wide = folder.file("wide", b"1 4000000000:1\n");
    assert!(
        Dataset::libsvm(&wide, None, 0).unwrap_err().to_string().contains("too many to be dense")
    );
}

#[test]
fn sparse_samples_of_a_libsvm_file_are_padded_and_those_of_its_dense_form() {
    let folder = Folder::new("sparse");
    let sample = |i: usize| match i % 3 {
        0 => format!("{} {}:{i}\n", i % 2, i + 1),
        1 => format!("{}\n", i % 2),
        _ => format!("{} 1:-1 {}:0.5 40:{i}\n", i % 2, i + 1),
    };
    let file = folder.file("data", (0..33).map(sample).collect::<String>().as_bytes());
    let sparse = Dataset::libsvm_sparse(&file, None, 40, 3, 5).unwrap();
    let dense = Dataset::libsvm(&file, None, 5).unwrap();
    let spread = |batch: &Batch| {
        let mut rows = vec![0.0; batch.samples() * 40];
        let ids = batch.ids.as_ref().unwrap().values::<i64>().unwrap();
        for (place, (id, value)) in
            ids.iter().zip(batch.features.values::<f32>().unwrap()).enumerate()
        {
            rows[place / 3 * 40 + *id as usize] += value;
        }
        rows
    };
    for (sparse, dense, samples) in [(sparse.train, dense.train, 27), (sparse.test, dense.test, 6)]
    {
        let (sparse, dense) = (sparse.whole(), dense.whole());
        assert_eq!(sparse.samples(), samples);
        assert_eq!(spread(&sparse), dense.features.values::<f32>().unwrap());
        assert_eq!(sparse.labels, dense.labels);
    }
}

#[test]
fn a_split_of_unequal_parts_or_unknown_classes_is_refused_with_the_numbers() {
    let split = |rows: usize, labels: &[i32]| {
        let labels = Tensor::new([labels.len()], labels).unwrap();
        Split::new(Tensor::zeros(DType::F32, [rows, 2]), labels, 3).unwrap_err().to_string()
    };
    assert!(split(2, &[0, 1, 2]).contains("not [2, 2] and [3]"));
    assert!(split(2, &[0, 3]).contains("sample 1 has label 3"));
    assert!(split(2, &[-1, 0]).contains("sample 0 has label -1"));
    let labels = Tensor::zeros(DType::F32, [2]);
    assert!(
        Split::new(Tensor::zeros(DType::F32, [2, 2]), labels, 3)
            .unwrap_err()
            .to_string()
            .contains("not i32")
    );
}

#[test]
fn samples_are_images_only_of_as_many_pixels_as_they_have_features() {
    let split = || {
        let labels = Tensor::new([1], &[0i32]).unwrap();
        Split::new(Tensor::zeros(DType::F32, [1, 12]), labels, 1).unwrap()
    };
    assert_eq!(split().image_shape(), None);
    assert_eq!(split().of_images([2, 3, 2]).unwrap().image_shape(), Some([2, 3, 2]));
    let error = split().of_images([2, 3, 3]).unwrap_err().to_string();
    assert!(error.contains("12 features") && error.contains("[2, 3, 3]"), "{error}");
}
