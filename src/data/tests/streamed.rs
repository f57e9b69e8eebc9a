//! What is read as it is used: its elements, and the errors for files that are broken or lie.

use std::path::PathBuf;
use std::sync::Arc;

use prost::Message;

use super::super::example::{
    BytesList, ExampleProto, Feature, Features, FloatList, Int64List, Kind,
};
use super::super::stream::{Format, Stream};
use super::*;
use crate::event_file::framed;

/// The record of a sample.
fn example(x: &[f32], y: i64) -> Vec<u8> {
    let x = Kind::Floats(FloatList { value: x.to_vec() });
    record([("x", x), ("y", Kind::Ints(Int64List { value: vec![y] }))])
}

/// The record of an example with `features`.
fn record<const N: usize>(features: [(&str, Kind); N]) -> Vec<u8> {
    let feature = features.map(|(name, kind)| (name.to_owned(), Feature { kind: Some(kind) }));
    let features = Some(Features { feature: feature.into_iter().collect() });
    framed(&ExampleProto { features }.encode_to_vec())
}

fn records(files: &[PathBuf]) -> Result<Vec<Record>, DataError> {
    Pipeline::tfrecord(files.to_vec()).iter()?.collect()
}

#[test]
fn examples_are_read_as_tensorflow_wrote_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/examples.tfrecord");
    let records = records(&[path]).unwrap();
    assert_eq!(records.len(), 3);
    for (i, record) in records.iter().enumerate() {
        let example = Example::decode(record).unwrap();
        let first = i as f32;
        assert_eq!(example.floats("x", 3).unwrap(), [first, first + 0.5, -1.25]);
        assert_eq!(example.ints("y", 1).unwrap(), [i as i64]);
        assert_eq!(example.bytes("raw").unwrap(), [0, 51, 255]);
        let said = |error: DataError| error.to_string();
        let count = said(example.floats("x", 4).unwrap_err());
        assert!(count.contains(&format!("record {}: feature `x`: 3 values, where 4", i + 1)));
        assert!(said(example.ints("x", 3).unwrap_err()).contains("it has floats, where integers"));
        assert!(said(example.bytes("z").unwrap_err()).contains("no feature `z`; it has raw, x, y"));
    }
}

#[test]
fn features_are_lists_of_any_length_and_one_may_not_be_there() {
    let folder = Folder::new("tfrecord-lists");
    let words = [b"two".to_vec(), b"words".to_vec()];
    let record = record([
        ("words", Kind::Bytes(BytesList { value: words.to_vec() })),
        ("ids", Kind::Ints(Int64List { value: vec![7, 8, 9] })),
        ("empty", Kind::Floats(FloatList { value: Vec::new() })),
    ]);
    let records = records(&[folder.file("lists.tfrecord", &record)]).unwrap();
    let example = Example::decode(&records[0]).unwrap();
    assert_eq!(example.bytes_list("words").unwrap(), words);
    assert_eq!(example.int_list("ids").unwrap(), [7, 8, 9]);
    assert!(example.float_list("empty").unwrap().is_empty());
    assert_eq!(["ids", "empty", "gone"].map(|name| example.has(name)), [true, true, false]);
    let said = example.float_list("ids").unwrap_err().to_string();
    assert!(said.contains("feature `ids`: it has integers, where floats"), "{said}");
    let said = example.bytes("words").unwrap_err().to_string();
    assert!(said.contains("feature `words`: 2 values, where 1"), "{said}");
}

#[test]
fn a_broken_record_is_named_with_its_file_and_number_and_takes_no_memory_for_what_it_claims() {
    let folder = Folder::new("tfrecord-errors");
    let whole = [example(&[1.0], 0), example(&[2.0], 1)].concat();
    let second = example(&[1.0], 0).len();
    let error = |bytes: &[u8]| {
        let file = folder.gzipped("broken.tfrecord", bytes);
        let skipped = Pipeline::tfrecord([file.clone()]).elements().unwrap().skip(9).map(drop);
        (records(&[file]).unwrap_err().to_string(), skipped.map_err(|error| error.to_string()))
    };
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let (said, skipped) = error(&damaged(second + 1));
    assert!(said.contains("broken.tfrecord, record 2: the length does not match"), "{said}");
    assert_eq!(skipped.unwrap_err(), said);
    let (said, _) = error(&damaged(second + 14));
    assert!(said.contains("record 2: the data does not match its checksum"), "{said}");
    for cut in [second + 3, second + 13, whole.len() - 1] {
        let (said, skipped) = error(&whole[..cut]);
        assert!(said.contains("record 2: the file ends within it"), "{cut}: {said}");
        assert!(skipped.is_err(), "{cut}");
    }
    let claims = |length: u64| {
        let length = length.to_le_bytes();
        [&length[..], &crate::event_file::masked_checksum(&length), b"few"].concat()
    };
    assert!(error(&claims(u64::MAX)).0.contains("are more than the 2147483648 of the longest"));
    assert!(error(&claims(1 << 31)).0.contains("record 1: the file ends within it"));
    let file = folder.file("none.tfrecord", &framed(b"\xff\xff"));
    let said = Example::decode(&records(&[file]).unwrap()[0]).unwrap_err().to_string();
    assert!(said.contains("record 1: it is no `tf.train.Example`"), "{said}");
}

/// A stream of the files `train`, tested on `test`.
fn stream(format: Format, train: PathBuf, test: PathBuf) -> Stream {
    Stream { format, train, test, shuffle: None, prefetch: 1 }
}

fn first_labels(stream: &Stream, worker: u32, workers: u32) -> Vec<i32> {
    let batches = stream.batches(0, worker, workers, 4).unwrap();
    let first = batches.iter().unwrap().next().unwrap().unwrap();
    first.labels.values::<i32>().unwrap().to_vec()
}

#[test]
fn many_files_are_one_data_set_of_which_each_worker_has_a_share() {
    let folder = Folder::new("streams");
    for file in 0..3 {
        let rows: Vec<u8> = (0..2).flat_map(|row| example(&[0.5; 4], file * 2 + row)).collect();
        folder.gzipped(&format!("part-{file}.tfrecord"), &rows);
        let rows: String = (0..2).map(|row| format!("1.5,{},2\n", file * 2 + row)).collect();
        folder.file(&format!("part-{file}.csv"), format!("a,y,b\n{rows}").as_bytes());
    }
    let (features, label) = ("x".to_owned(), "y".to_owned());
    let tfrecord =
        Format::TfRecord { features, label: label.clone(), shape: vec![2, 2, 1], classes: 6 };
    let at = |name: &str| folder.0.join(name);
    for (format, ending, image) in
        [(tfrecord, "tfrecord", Some([2, 2, 1])), (Format::Csv { label, classes: 6 }, "csv", None)]
    {
        let files = at(&format!("part-*.{ending}"));
        let stream = stream(format, files, at(&format!("part-1.{ending}")));
        let dataset = stream.load().unwrap();
        assert_eq!(labels(&dataset.test), [2, 3]);
        assert_eq!((dataset.train.len(), dataset.train.classes()), (0, 6));
        assert_eq!(dataset.train.image_shape(), image);
        assert_eq!(first_labels(&stream, 0, 1), [0, 1, 2, 3]);
        assert_eq!(first_labels(&stream, 1, 2), [1, 3, 5, 1], "every second, again and again");
        let few = Stream { train: at("nothing-*"), ..stream };
        assert!(few.load().unwrap_err().to_string().contains("there is no such file"));
    }
}

#[test]
fn csv_files_of_one_stream_have_the_columns_of_its_first_file_in_the_same_order() {
    let folder = Folder::new("stream-columns");
    let first = folder.file("part-1.csv", b"a,b,y\n1,2,0\n");
    let second = folder.file("part-2.csv", b"b,a,y\n4,3,1\n");
    let csv = || Format::Csv { label: "y".to_owned(), classes: 2 };
    let mixed = stream(csv(), folder.0.join("part-*.csv"), first.clone());
    let batches = mixed.batches(0, 0, 1, 1).unwrap();
    let read: Vec<_> = batches.iter().unwrap().take(2).collect();
    let said = read[1].as_ref().unwrap_err().to_string();
    assert!(said.contains("part-2.csv, the header: the column `b` stands where"), "{said}");
    let said = stream(csv(), first.clone(), second.clone()).load().unwrap_err().to_string();
    assert!(said.contains("part-2.csv, the header: the column `b` stands where"), "{said}");
    let rows: Result<Vec<_>, _> = Pipeline::csv([first, second], "y").iter().unwrap().collect();
    assert!(rows.unwrap_err().is_mistaken(), "of a program's own pipeline, too");
}

#[test]
fn a_programs_error_of_a_row_names_its_file_and_line() {
    let folder = Folder::new("stream-own-error");
    let file = folder.file("houses.csv", b"rooms,price\n3,2.5\n4,dear\n");
    let prices = Pipeline::csv([file], "price")
        .map(|row| row.label.parse::<f32>().map_err(|_| row.mistaken("the price is no number")));
    let read: Result<Vec<f32>, DataError> = prices.iter().unwrap().collect();
    let error = read.unwrap_err();
    let said = error.to_string();
    assert!(said.ends_with("houses.csv, line 3: the price is no number"), "{said}");
    assert!(error.is_mistaken(), "its file is sound");
}

#[test]
fn a_label_that_is_no_class_and_a_row_of_another_width_are_refused_with_their_place() {
    let folder = Folder::new("stream-errors");
    let error = |bytes: &[u8], format: Format| {
        let file = folder.file("data", bytes);
        stream(format, file.clone(), file).load().unwrap_err().to_string()
    };
    let csv = || Format::Csv { label: "y".to_owned(), classes: 2 };
    let tfrecord = |shape| Format::TfRecord {
        features: "x".to_owned(),
        label: "y".to_owned(),
        shape,
        classes: 2,
    };
    let said = error(b"x,y\n1,0\n1,2\n", csv());
    assert!(said.contains("line 3: the label `2` is no class from 0 to 1"), "{said}");
    let named = error(b"x,y\n1,iris\n", csv());
    assert!(named.contains("`iris` is no class from 0 to 1; number the classes"), "{named}");
    let said = error(&example(&[1.0], 2), tfrecord(vec![1]));
    assert!(said.contains("record 1: feature `label`: 2 is no class from 0 to 1"), "{said}");
    let said = error(&example(&[f32::NAN], 0), tfrecord(vec![1]));
    assert!(said.contains("record 1: feature `x`: NaN is no number"), "{said}");
    let said = error(&example(&[1.0], 0), tfrecord(vec![3]));
    assert!(said.contains("record 1: feature `x`: 1 values, where 3 are asked for"), "{said}");
}

#[test]
fn images_are_scaled_and_their_folders_are_the_classes() {
    let folder = Folder::new("images");
    for (class, value) in [("cat", 255u8), ("dog", 51)] {
        fs::create_dir_all(folder.0.join(class)).unwrap();
        let grey = image::GrayImage::from_pixel(6, 4, image::Luma([value]));
        grey.save(folder.0.join(class).join("one.png")).unwrap();
        let colour = image::RgbImage::from_pixel(2, 2, image::Rgb([value, value, value]));
        colour.save(folder.0.join(class).join("two.jpg")).unwrap();
        folder.file(&format!("{class}/notes.txt"), b"no image");
    }
    let size = [2, 3, 1];
    let stream = stream(Format::Images { size }, folder.0.clone(), folder.0.clone());
    let dataset = stream.load().unwrap();
    assert_eq!((dataset.train.image_shape(), dataset.train.classes()), (Some(size), 2));
    assert_eq!(labels(&dataset.test), [0, 0, 1, 1]);
    assert_eq!(dataset.train.count().unwrap(), Some(4));
    let pixels = features(&dataset.test);
    assert!(pixels[..12].iter().all(|pixel| *pixel > 0.98), "{pixels:?}");
    assert!(pixels[12..].iter().all(|pixel| (pixel - 0.2).abs() < 0.02), "{pixels:?}");
    assert_eq!(first_labels(&stream, 0, 1), [0, 0, 1, 1]);
    folder.file("cat/three.png", b"\x89PNG\r\n\x1a\n and no more");
    let said = stream.load().unwrap_err().to_string();
    assert!(said.contains("three.png, the image"), "{said}");
    let mut huge = fs::read(folder.0.join("cat/one.png")).unwrap();
    huge[16..24].copy_from_slice(&[12_000u32; 2].map(u32::to_be_bytes).concat());
    let mut check = flate2::Crc::new();
    check.update(&huge[12..29]);
    huge[29..33].copy_from_slice(&check.sum().to_be_bytes());
    folder.file("cat/three.png", &huge);
    let said = stream.load().unwrap_err().to_string();
    assert!(said.contains("three.png, the image: Memory limit exceeded"), "{said}");
}

#[test]
fn folders_of_test_images_have_the_classes_of_the_folders_to_train_on_and_hidden_ones_none() {
    let folder = Folder::new("image-classes");
    let image = |path: &str| {
        let path = folder.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::GrayImage::from_pixel(2, 2, image::Luma([9])).save(path).unwrap();
    };
    for path in ["ant", ".cache", "bee", "cat"] {
        image(&format!("train/{path}/one.png"));
    }
    image("train/ant/.two.png");
    image("test/cat/one.png");
    image("test/bee/one.png");
    image("test/.cache/one.png");
    let at = |name: &str| folder.0.join(name);
    let stream = stream(Format::Images { size: [2, 2, 1] }, at("train"), at("test"));
    let dataset = stream.load().unwrap();
    assert_eq!((dataset.train.classes(), labels(&dataset.test)), (3, vec![1, 2]));
    assert_eq!(first_labels(&stream, 0, 1), [0, 1, 2, 0]);
    image("test/dog/one.png");
    let said = stream.load().unwrap_err();
    assert!(said.is_mistaken() && said.to_string().contains("test/dog, the folder: "), "{said}");
    assert!(said.to_string().contains("train has no such folder"), "{said}");
}

#[test]
fn elements_of_a_file_that_is_not_there_are_an_error_that_names_it() {
    let gone = PathBuf::from("/nowhere/data.tfrecord");
    assert!(records(&[gone]).unwrap_err().to_string().contains("can't read /nowhere/data"));
    let empty: Arc<[PathBuf]> = Arc::default();
    assert!(records(&empty).unwrap().is_empty());
}
