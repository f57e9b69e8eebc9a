//! What reads bytes from outside, each as a function that must not panic, hang or take more memory
//! than in proportion to them. `cargo +nightly fuzz run NAME` runs one for as long as it is let,
//! the tests each for a second, from the same seeds.

use std::cell::OnceCell;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rawzip::ZipArchiveWriter;
use trainyard::checkpoint::{Memory, Retention, SavedVariable, Saver, Shard, Snapshot, Store};
use trainyard::cluster::{ClusterSpec, RunConfig};
use trainyard::data::Dataset;
use trainyard::graph::Graph;
use trainyard::runtime::PeerMessage;
use trainyard::scenario;
use trainyard::tape::{self, Tape};
use trainyard::tensor::Tensor;
use trainyard::transport::wire::{FrameDecoder, WireLimits, decode_envelope, encode_envelope};
use trainyard::{experiment, import};

use super::server;

/// A reader, its name, and bytes that it understands.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

/// All readers.
pub(crate) const ALL: &[Target] = &[
    Target { name: "frame", run: frame, seeds: frames },
    Target { name: "server", run: conversation, seeds: conversations },
    Target { name: "graph_def", run: graph_def, seeds: graph_defs },
    Target { name: "checkpoint", run: checkpoint, seeds: checkpoints },
    Target { name: "scenario", run: read_scenario, seeds: scenarios },
    Target { name: "tf_config", run: tf_config, seeds: tf_configs },
    Target { name: "csv", run: csv, seeds: tables },
    Target { name: "libsvm", run: libsvm, seeds: sparse_tables },
    Target { name: "npy", run: npy, seeds: arrays },
    Target { name: "npz", run: npz, seeds: archives },
    Target { name: "idx", run: idx, seeds: images },
    Target { name: "tape", run: read_tape, seeds: tapes },
];

const LIMITS: WireLimits = WireLimits { control: 1 << 16, tensor: 1 << 16, envelope: 1 << 17 };

/// Any bytes as a frame from another process: refused or understood, and then the same again.
pub(crate) fn frame(bytes: &[u8]) {
    if let Ok(messages) = decode_envelope::<PeerMessage>(bytes, LIMITS) {
        let again = encode_envelope(&messages, LIMITS).expect("what was decoded can be encoded");
        let same = decode_envelope::<PeerMessage>(&again, LIMITS)
            .expect("what was encoded can be decoded");
        assert_eq!(format!("{messages:?}"), format!("{same:?}"));
    }
    let mut decoder = FrameDecoder::new(LIMITS);
    for mut piece in bytes.chunks(7) {
        while let Ok(Some(frame)) = decoder.push(&mut piece) {
            let _understood_or_refused = frame.messages::<PeerMessage>();
        }
    }
}

fn frames() -> Vec<Vec<u8>> {
    with_corpus(<[Vec<u8>]>::to_vec)
}

fn with_corpus<T>(read: impl FnOnce(&[Vec<u8>]) -> T) -> T {
    thread_local! { static CORPUS: OnceCell<Vec<Vec<u8>>> = const { OnceCell::new() } }
    CORPUS.with(|corpus| read(corpus.get_or_init(server::corpus)))
}

/// A part of what a worker's programs send, with changes: two bytes say which part, then five each
/// change. The server stands.
pub(crate) fn conversation(bytes: &[u8]) {
    let [start, count, changes @ ..] = bytes else { return };
    let mut messages = with_corpus(|corpus| {
        let whole = corpus.iter().cycle().skip(usize::from(*start) % corpus.len());
        whole.take(corpus.len().min(usize::from(*count) + 1)).cloned().collect::<Vec<_>>()
    });
    for change in changes.chunks_exact(5).take(16) {
        let [which, kind, a, b, c] = change else { continue };
        let at = usize::from(*which) % messages.len();
        match kind % 8 {
            0 => {
                let again = messages[at].clone();
                messages.insert(usize::from(*a) % messages.len(), again);
            }
            1 => swap(&mut messages, at, usize::from(*a)),
            2 | 3 => {
                let length = messages[at].len();
                messages[at][(usize::from(*a) << 8 | usize::from(*b)) % length] = *c;
            }
            _ => messages[at] = server::spoilt(&messages[at], [*a, *b, *c]),
        }
    }
    server::stands(&messages);
}

fn swap(messages: &mut [Vec<u8>], one: usize, other: usize) {
    messages.swap(one, other % messages.len());
}

/// The whole of what is sent, and parts of it with changes.
fn conversations() -> Vec<Vec<u8>> {
    let mut random = 1u32;
    let mut byte = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    let mut seeds = vec![vec![0, 255]];
    seeds.extend((0..100).map(|_| (0..2 + 5 * 6).map(|_| byte()).collect::<Vec<u8>>()));
    seeds
}

/// Any bytes as a binary GraphDef.
pub(crate) fn graph_def(bytes: &[u8]) {
    if let Err(error) = import::graph_def(&Graph::new(), bytes) {
        assert!(!error.to_string().is_empty());
    }
}

fn graph_defs() -> Vec<Vec<u8>> {
    let frozen = include_bytes!("../../graphdefs/frozen_mlp.pb");
    let training = include_bytes!("../../graphdefs/train_momentum.pb");
    vec![frozen.to_vec(), training.to_vec()]
}

/// Any bytes as one of the files of a checkpoint: the first says which.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let store = saved();
    let files = store.list().expect("memory can be listed");
    let name = &files[usize::from(*which) % files.len()].name;
    store.write(name, &[bytes]).expect("memory can be written");
    let mut saver = Saver::new(Arc::new(store), Retention::default());
    let _listed_or_refused = saver.checkpoints();
    if let Ok(found) = saver.latest() {
        assert!(!format!("{found:?}").is_empty());
    }
    let _restored_or_refused = saver.restore(3);
}

/// A store with a checkpoint of step 3.
fn saved() -> Memory {
    let store = Memory::default();
    let variables = vec![
        SavedVariable::new("w", Tensor::full([2, 3], 1f32)),
        SavedVariable::new("global_step", Tensor::scalar(3i64)),
    ];
    let shards = vec![Shard { task: "ps:0".to_owned(), variables }];
    let mut saver = Saver::new(Arc::new(store.clone()), Retention::default());
    saver.save(&Snapshot { global_step: 3, shards }, Default::default()).expect("memory has room");
    store
}

fn checkpoints() -> Vec<Vec<u8>> {
    let store = saved();
    let files = store.list().expect("memory can be listed");
    let file = |(which, entry): (u8, &trainyard::checkpoint::Entry)| {
        let bytes = store.read(&entry.name).expect("it is in the list");
        [&[which][..], &bytes].concat()
    };
    (0..).zip(&files).map(file).collect()
}

/// Any text as a scenario: refused with its mistakes, or one whose runs can be made.
pub(crate) fn read_scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = scenario::parse(text, "fuzz.toml") {
        return assert!(!error.to_string().is_empty());
    }
    let _trials_or_refused = experiment::Experiment::parse(text);
}

fn scenarios() -> Vec<Vec<u8>> {
    let all = concat!(
        "name = 'a'\nseed = 7\n[cluster]\nps = 1\nworker = 2\n[network]\nlatency = '50us'\n",
        "bandwidth = '10Gbps'\n[compute]\nrate = '50GFLOP/s'\n",
        "straggler = { law = 'lognormal', sigma = 0.3 }\nslow = { 'worker:1' = 2.0 }\n",
        "[program]\nmodel = 'mlp'\nhidden = [8]\nbatch = 8\n",
        "optimizer = { rule = 'adagrad', learning_rate = 0.05 }\n[stop]\nsteps = 20\n",
        "[[run]]\nname = 'sync'\nmode = { sync = { backups = 1 } }\n",
        "[[fault]]\nat = '2s'\ncrash = 'worker:1'\nrestart_after = '1s'\n",
    );
    vec![all.into(), b"[[run]]\nname = 'async'\nmode = 'async'\n".to_vec()]
}

/// Any text as `TF_CONFIG`: refused with its mistakes, or a configuration that can be asked
/// everything.
pub(crate) fn tf_config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let config = match RunConfig::from_tf_config(Some(text)) {
        Ok(config) => config,
        Err(errors) => return assert!(!errors.to_string().is_empty()),
    };
    let cluster = config.cluster_spec();
    let _chief = config.chief();
    for task in cluster.tasks() {
        cluster.task_address(&task).expect("every task of a cluster has an address");
    }
    let written = cluster.as_dict().to_string();
    assert_eq!(ClusterSpec::from_json(&written).as_ref(), Ok(cluster));
}

fn tf_configs() -> Vec<Vec<u8>> {
    let dense = r#"{"cluster": {"chief": ["a:1"], "ps": ["b:2", "c:3"], "worker": ["d:4"]},
        "task": {"type": "worker", "index": 0}, "environment": "cloud"}"#;
    let sparse = r#"{"sparseCluster": {"ps": ["b:2"], "worker": {"1": "d:4"}},
        "task": {"type": "worker", "index": "1"}}"#;
    [dense, sparse].map(|text| text.as_bytes().to_vec()).into()
}

/// A folder of files, which hold what a reader of files is given. It goes with its thread.
struct Place(PathBuf);

impl Place {
    fn of_this_thread() -> Self {
        let thread = format!("{:?}", std::thread::current().id());
        let folder =
            format!("trainyard-fuzz-{}-{}", std::process::id(), thread.replace(['(', ')'], ""));
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).expect("temporary files can be written");
        Self(folder)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// The folder of this thread.
fn place() -> PathBuf {
    thread_local!(static PLACE: Place = Place::of_this_thread());
    PLACE.with(|place| place.0.clone())
}

/// Reads `bytes` as the file `name` of the folder that it is given, then removes it.
fn as_file(name: &str, bytes: &[u8], read: impl FnOnce(&PathBuf)) {
    let file = place().join(name);
    fs::write(&file, bytes).expect("temporary files can be written");
    read(&file);
    fs::remove_file(file).expect("it was just written");
}

/// Any bytes as a table.
pub(crate) fn csv(bytes: &[u8]) {
    as_file("table.csv", bytes, |file| drop(Dataset::csv(file, "label", None, 1)));
}

fn tables() -> Vec<Vec<u8>> {
    vec![b"a,b,label\n1,2,0\n3,4,1\n-5e3,6,0\n7,8,1\n0,0,1\n".to_vec()]
}

/// Any bytes as a LIBSVM file, read densely and sparsely.
pub(crate) fn libsvm(bytes: &[u8]) {
    as_file("table.libsvm", bytes, |file| {
        drop(Dataset::libsvm(file, None, 1));
        drop(Dataset::libsvm_sparse(file, None, 16, 4, 1));
    });
}

fn sparse_tables() -> Vec<Vec<u8>> {
    vec![b"1 1:0.5 3:2\n-1 2:1\n1 3:1e-3 # note\n-1 1:2 2:3\n1 1:1\n-1 3:4\n".to_vec()]
}

/// Any bytes as the features of NumPy.
pub(crate) fn npy(bytes: &[u8]) {
    as_file("features.npy", bytes, |file| {
        let labels = file.with_file_name("labels.npy");
        fs::write(&labels, array("<i8", "(6,)", &[0; 48])).expect("temporary files can be written");
        drop(Dataset::npy((file, &labels), None, 1));
    });
}

fn array(kind: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), values].concat()
}

fn arrays() -> Vec<Vec<u8>> {
    let fortran = array(">i2", "(6, 2)", &[1; 24]);
    let fortran = String::from_utf8_lossy(&fortran[8..]).replace("False", "True ");
    let fortran = [&b"\x93NUMPY\x01\x00"[..], fortran.as_bytes()].concat();
    vec![array("<f4", "(6, 2)", &[0; 48]), array("|u1", "(6, 2)", &[7; 12]), fortran]
}

/// Any bytes as an archive of NumPy's arrays.
pub(crate) fn npz(bytes: &[u8]) {
    as_file("arrays.npz", bytes, |file| drop(Dataset::npz(file, ("x", "y"), None, 1)));
}

fn archives() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut bytes);
    for (name, array) in
        [("x.npy", array("<f4", "(6, 2)", &[0; 48])), ("y.npy", array("<i8", "(6,)", &[0; 48]))]
    {
        let (mut entry, config) = archive.new_file(name).start().expect("memory can be written");
        let mut writer = config.wrap(&mut entry);
        writer.write_all(&array).expect("memory can be written");
        let (_, descriptor) = writer.finish().expect("memory can be written");
        entry.finish(descriptor).expect("memory can be written");
    }
    archive.finish().expect("memory can be written");
    vec![bytes]
}

/// Any bytes as the images of MNIST's training split.
pub(crate) fn idx(bytes: &[u8]) {
    as_file("train-images-idx3-ubyte", bytes, |file| {
        let beside = |name: &str, bytes: &[u8]| {
            fs::write(file.with_file_name(name), bytes).expect("temporary files can be written");
        };
        beside("train-labels-idx1-ubyte", &labels());
        beside("t10k-images-idx3-ubyte", &images()[0]);
        beside("t10k-labels-idx1-ubyte", &labels());
        drop(Dataset::idx(&place()));
    });
}

fn images() -> Vec<Vec<u8>> {
    vec![[&[0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2][..], &[9; 12]].concat()]
}

fn labels() -> Vec<u8> {
    vec![0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2]
}

/// Any bytes as the tape of a task, and as one entry of it.
pub(crate) fn read_tape(bytes: &[u8]) {
    let beginning = [&b"trainyard tape\x03"[..], &tape_frame(TAPE_HEADER)].concat();
    for tape in [bytes, &[&beginning[..], &tape_frame(bytes)].concat()] {
        let Ok(Tape { header, entries, torn }) = tape::read(tape) else { continue };
        assert!(torn.is_none_or(|torn| torn < tape.len()));
        for entry in entries {
            drop(entry.event.in_words(&header.tasks));
        }
    }
}

const TAPE_HEADER: &[u8] = br#"{"scenario":"s","run":"r","how":"async","seed":3,"program":1,
    "task":"ps:0","tasks":["ps:0","worker:0"],"began":5}"#;

fn tape_frame(payload: &[u8]) -> Vec<u8> {
    let [low, high] = (payload.len() as u16).to_le_bytes();
    [&[251, low, high][..], payload, &crc32c::crc32c(payload).to_le_bytes()].concat()
}

fn tapes() -> Vec<Vec<u8>> {
    // An envelope of worker:0 with the order of a step and two values of it; the worker's loss; the
    // end of kernels, and that of the task.
    let envelope = vec![9, 0, 1, 2, 8, 1, 1, 0, 7, 1, 4, 9, 1, 1, 0, 7, 2, 0, 1];
    let mut seeds = vec![envelope, vec![9, 1, 1, 0], vec![9, 2, 0], vec![9, 3, 1, 5, 0]];
    let frames: Vec<u8> = seeds.iter().flat_map(|entry| tape_frame(entry)).collect();
    seeds.push([&b"trainyard tape\x03"[..], &tape_frame(TAPE_HEADER), &frames].concat());
    seeds
}
