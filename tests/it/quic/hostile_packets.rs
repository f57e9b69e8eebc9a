//! A training over QUIC while somebody without a certificate floods its parameter server with
//! garbage and with handshakes that are never finished. The training loses nothing, and is as fast
//! afterwards as it was before.
//!
//! ```sh
//! # The whole measurement, on a quiet machine; TRAINYARD_FLOOD=600 for ten minutes of it.
//! cargo test --release --test it quic::hostile_packets -- --ignored --nocapture
//! ```

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::quic::untrusted::first_packets;
use crate::support::binary::{Running, Said, folder, scenario, trainyard_in};
use crate::support::fixture::on_actix;

/// The packets of a flood in a second.
const RATE: u32 = 20_000;
/// The handshakes that are begun in a second of a flood.
const HANDSHAKES: usize = 100;
/// The time that a task may take to start and to end.
const SLACK: Duration = Duration::from_secs(60);

/// The phases of a training: calm, flooded, calm again.
#[derive(Clone, Copy)]
struct Phases {
    before: Duration,
    flood: Duration,
    after: Duration,
}

/// What came of a training: the end of each task, and the steps of its chief in one of the best
/// seconds of each phase.
struct Outcome {
    ends: Vec<Said>,
    dropped: u64,
    rates: [f64; 3],
}

/// Sends `RATE` packets a second to `target`, and begins `HANDSHAKES` handshakes, until `until`.
fn flood(target: SocketAddr, handshakes: &[Vec<u8>], until: Instant) -> u64 {
    let (noise, began) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Instant::now());
    let mut random = 0x9e37_79b9_u32;
    let mut packet = [0; 1200];
    let mut sent = 0;
    while Instant::now() < until {
        let due = (began.elapsed().as_secs_f64() * f64::from(RATE)) as u64;
        while sent < due {
            for bytes in packet.chunks_exact_mut(4) {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.copy_from_slice(&random.to_le_bytes());
            }
            // A long header, a version-1 Initial, or a short header, which asks for a reset.
            packet[0] = [0xff, 0xc3, 0x43][sent as usize % 3];
            if sent.is_multiple_of(2) {
                packet[1..5].copy_from_slice(&1u32.to_be_bytes());
            }
            let is_handshake = (sent as usize).is_multiple_of(RATE as usize / HANDSHAKES);
            let turn = sent as usize / (RATE as usize / HANDSHAKES) % handshakes.len();
            let bytes = if is_handshake { &handshakes[turn][..] } else { &packet };
            let _dropped_where_there_is_no_room = noise.send_to(bytes, target);
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Addresses that nobody listens on.
fn addresses() -> [String; 3] {
    let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}

fn start(place: &Path, path: &str, config: &Value, limit: Duration) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(["task", path, "--certs", "certs", "--busy-poll", "0s", "--out", "out"]);
    command.current_dir(place).env("TF_CONFIG", config.to_string());
    Running::start(&mut command, limit)
}

/// Trains through `phases`.
fn train(test: &str, phases: Phases) -> Outcome {
    let Phases { before, flood: flooded, after } = phases;
    let whole = before + flooded + after;
    let text = format!(
        "name = 'flood'\nseed = 3\n[cluster]\nps = 1\nworker = 2\n[program]\nmodel = 'softmax'\n\
         batch = 8\n[stop]\ntime = '{}s'\nsteps = 1000000000\n[[run]]\nname = 'sync'\n\
         mode = 'sync'\n",
        whole.as_secs()
    );
    let (path, place) = (scenario(test, &text), folder(&format!("{test}_in")));
    let tasks = "ps:0,worker:0,worker:1";
    for args in [&["certs", "new", "certs"][..], &["certs", "issue", "certs", "--task", tasks]] {
        assert_eq!(trainyard_in(&place, args, &[]).code, 0);
    }
    let [ps, first, second] = addresses();
    let cluster = json!({"ps": [ps], "worker": [first, second]});
    let limit = whole + SLACK;
    let run = |job: &str, index: u32| {
        let config = json!({"cluster": cluster, "task": {"type": job, "index": index}});
        start(&place, &path, &config, limit)
    };
    let mut handshakes = Vec::new();
    on_actix(async {
        handshakes = first_packets(2000).await;
        Ok(())
    });
    let others = [run("ps", 0), run("worker", 1)];
    let (chief, began) = (run("worker", 0), Instant::now());
    std::thread::sleep(before);
    let flood_began = began.elapsed();
    let sent = flood(ps.parse().unwrap(), &handshakes, Instant::now() + flooded);
    let flood_ended = began.elapsed();
    println!("{sent} packets in {:.1} s", (flood_ended - flood_began).as_secs_f64());
    let ends: Vec<Said> = [chief].into_iter().chain(others).map(Running::end).collect();
    let steps = steps(&place.join("out/steps.csv"));
    let rate = |from: Duration, until: Duration| {
        let mut seconds = vec![0; (until.as_secs() - from.as_secs()) as usize];
        for end in steps.iter().filter(|end| **end >= from.as_secs() as f64) {
            if let Some(second) = seconds.get_mut((end - from.as_secs() as f64) as usize) {
                *second += 1;
            }
        }
        // Not the mean: what else the machine does only takes time.
        seconds.sort_unstable();
        f64::from(seconds[seconds.len() * 9 / 10])
    };
    let margin = Duration::from_secs(1);
    let rates = [
        rate(margin, flood_began),
        rate(flood_began, flood_ended),
        rate(flood_ended + margin, whole - margin),
    ];
    let result = fs::read_to_string(place.join("out/result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let dropped = result["runs"][0]["gradients"]["dropped"].as_u64().unwrap();
    Outcome { ends, dropped, rates }
}

/// The ends of the chief's steps, in seconds since it began.
fn steps(path: &Path) -> Vec<f64> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "end_s").unwrap();
    lines.map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect()
}

/// Asserts that all tasks came to their end, and no gradient and no peer was lost.
fn assert_nothing_lost(outcome: &Outcome) {
    for said in &outcome.ends {
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(!said.err.contains("is lost"), "{}", said.err);
    }
    assert_eq!(outcome.dropped, 0);
}

#[test]
fn a_training_that_is_flooded_loses_nothing() {
    let second = Duration::from_secs(1);
    let outcome =
        train("flooded", Phases { before: 2 * second, flood: 2 * second, after: 3 * second });
    assert_nothing_lost(&outcome);
    assert!(outcome.rates[2] > 0.0, "it trains on: {:?}", outcome.rates);
}

#[test]
#[ignore = "measures throughput: takes a minute of a quiet machine; see the module's first lines"]
fn a_training_that_was_flooded_is_as_fast_as_before() {
    let seconds = std::env::var("TRAINYARD_FLOOD").ok().and_then(|text| text.parse().ok());
    let (calm, flood) = (Duration::from_secs(12), Duration::from_secs(seconds.unwrap_or(20)));
    let outcome = train("flooded_long", Phases { before: calm, flood, after: calm });
    let [before, during, after] = outcome.rates;
    println!("steps/s: {before:.0} before, {during:.0} under the flood, {after:.0} after");
    assert_nothing_lost(&outcome);
    assert!(after >= 0.95 * before, "{after:.0} of {before:.0} steps/s");
}
