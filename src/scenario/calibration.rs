//! `[calibration]`: what messages cost a task's message thread, and other measured values.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::compute::check_efficiency;
use super::mistakes::Mistakes;
use super::read_file;
use crate::kernels::KernelKind;
use crate::simulation::{
    ComputeSpec, Lanes, Loopback, MessageCost, MessageThread, NetworkSpec, Noise,
};
use crate::units::{BytesPerSecond, FlopsPerSecond, SecondsPerByte, Span};

/// The least time between two interruptions of a kind.
const LEAST_BETWEEN: Duration = Duration::from_micros(1);

/// Measured values. A cost that is left out is none; a part of the network or of the devices that
/// is left out is as `[network]` and `[compute]` say.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// The cost of sending an envelope.
    pub send: EnvelopeCost,
    /// The cost of receiving an envelope.
    pub receive: EnvelopeCost,
    /// The time that a sleeping message thread takes to wake up.
    pub wake: Span,
    /// The time without anything to do after which a message thread sleeps.
    pub patience: Span,
    /// The share of the cores that a message thread takes meanwhile, since it polls, of what one
    /// that works takes.
    pub polling: f64,
    /// The share of their speed that cores have while more threads run on them than there are
    /// cores; all of it, if left out.
    pub crowded: Option<f64>,
    /// The cost of an operation of a graph, beside its kernel.
    pub operation: Span,
    /// The cost of giving kernels to the cores and hearing of their end.
    pub hand_over: Span,
    /// The threads that carry large envelopes beside a message thread.
    pub lanes: Option<MeasuredLanes>,
    /// What takes a core away for a while, again and again: interruptions by kind.
    pub noise: Vec<NoiseKind>,
    /// The way between tasks on one host.
    pub loopback: MeasuredNetwork,
    /// The network between hosts.
    pub network: MeasuredNetwork,
    /// The devices.
    pub compute: MeasuredCompute,
}

/// The cost of an envelope to one of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvelopeCost {
    /// The cost of any envelope.
    pub fixed: Span,
    /// The cost of each of its bytes.
    pub per_byte: SecondsPerByte,
}

/// What was measured of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredLanes {
    /// The number of threads.
    pub threads: NonZeroU32,
    /// How many times as fast as a message thread they are together.
    pub speed_up: f64,
}

/// Interruptions of one kind, at random times.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoiseKind {
    /// The mean time that a core works between two of them.
    pub every: Span,
    /// For how long each takes the core.
    pub span: Span,
}

impl NoiseKind {
    fn check(&self, key: &str, found: &mut Mistakes) {
        found.unless(self.every.0 >= LEAST_BETWEEN, format!("{key}.every"), || {
            format!("must be at least {LEAST_BETWEEN:?}: a simulation draws each interruption")
        });
        found.unless(self.span.0 < self.every.0, format!("{key}.span"), || {
            "must be less than `every`, or the core would do nothing else".to_owned()
        });
    }
}

/// What was measured of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MeasuredNetwork {
    /// The time from a message's last byte sent to its arrival.
    pub latency: Option<Span>,
    /// The rate: of each network card, in each direction, or of the loopback.
    pub bandwidth: Option<BytesPerSecond>,
}

/// What was measured of the devices.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MeasuredCompute {
    /// The rate of arithmetic.
    pub rate: Option<FlopsPerSecond>,
    /// The rate of memory traffic.
    pub memory: Option<BytesPerSecond>,
    /// The share of these rates that kernels of a kind reach; without an entry all of it.
    pub efficiency: BTreeMap<KernelKind, f64>,
}

impl Calibration {
    /// The costs of message threads.
    pub(crate) fn message_thread(&self) -> MessageThread {
        let cost = |EnvelopeCost { fixed, per_byte }| MessageCost { fixed: fixed.0, per_byte };
        MessageThread {
            send: cost(self.send),
            receive: cost(self.receive),
            wake: self.wake.0,
            patience: self.patience.0,
            polling: self.polling,
            crowded: self.crowded.unwrap_or(1.0),
            operation: self.operation.0,
            hand_over: self.hand_over.0,
            gathers: true,
            lanes: self.lanes.map(|it| Lanes { threads: it.threads, speed_up: it.speed_up }),
        }
    }

    /// What takes the cores away.
    pub(crate) fn noise(&self) -> Vec<Noise> {
        let kind = |kind: &NoiseKind| Noise { every: kind.every.0, span: kind.span.0 };
        self.noise.iter().map(kind).collect()
    }

    /// Puts what was measured in the place of what a scenario says.
    pub(crate) fn apply(&self, network: &mut NetworkSpec, compute: &mut ComputeSpec) {
        network.latency = self.network.latency.map_or(network.latency, |latency| latency.0);
        network.bandwidth = self.network.bandwidth.unwrap_or(network.bandwidth);
        let Loopback { latency, bandwidth } = network.loopback;
        network.loopback = Loopback {
            latency: self.loopback.latency.map_or(latency, |latency| latency.0),
            bandwidth: self.loopback.bandwidth.unwrap_or(bandwidth),
        };
        compute.rate = self.compute.rate.unwrap_or(compute.rate);
        compute.memory = self.compute.memory.unwrap_or(compute.memory);
        compute.efficiency.extend(&self.compute.efficiency);
    }

    fn check(&self, found: &mut Mistakes) {
        found.unless((0.0..=10.0).contains(&self.polling), "calibration.polling", || {
            format!("{} must be at least 0 and at most 10", self.polling)
        });
        if let Some(lanes) = self.lanes {
            found.unless(
                (0.1..=100.0).contains(&lanes.speed_up),
                "calibration.lanes.speed_up",
                || format!("{} must be at least 0.1 and at most 100", lanes.speed_up),
            );
        }
        if let Some(crowded) = self.crowded {
            found.unless((0.01..=1.0).contains(&crowded), "calibration.crowded", || {
                format!("{crowded} must be at least 0.01 and at most 1")
            });
        }
        let rates = [
            ("network.bandwidth", self.network.bandwidth.map(|rate| rate.0)),
            ("loopback.bandwidth", self.loopback.bandwidth.map(|rate| rate.0)),
            ("compute.rate", self.compute.rate.map(|rate| rate.0)),
            ("compute.memory", self.compute.memory.map(|rate| rate.0)),
        ];
        for (key, rate) in rates {
            found.above_0(rate.unwrap_or(1.0), &format!("calibration.{key}"));
        }
        for (at, kind) in self.noise.iter().enumerate() {
            kind.check(&format!("calibration.noise[{at}]"), found);
        }
        check_efficiency(&self.compute.efficiency, "calibration.compute.efficiency", found);
    }
}

/// A calibration as it is typed: its values, or the name of a file that has them.
pub(super) enum CalibrationFile {
    Here(Box<Calibration>),
    In(String),
}

/// A file with a calibration, as `trainyard calibrate` writes it.
#[derive(Deserialize)]
struct InFile {
    calibration: Calibration,
}

/// The calibration; a file's name is relative to the folder of `origin`.
pub(super) fn calibration(
    file: CalibrationFile,
    origin: &str,
    found: &mut Mistakes,
) -> Calibration {
    match file {
        CalibrationFile::Here(calibration) => {
            calibration.check(found);
            *calibration
        }
        CalibrationFile::In(name) => {
            let path = Path::new(origin).parent().unwrap_or(Path::new("")).join(name);
            read(&path, found).unwrap_or_else(|why| {
                found.note("calibration", why);
                Calibration::default()
            })
        }
    }
}

/// The calibration in the file at `path`, whose mistakes are noted; the error says why there is
/// none.
fn read(path: &Path, found: &mut Mistakes) -> Result<Calibration, String> {
    let text = read_file(path).map_err(|error| error.to_string())?;
    let file: Result<InFile, _> = toml::from_str(&text);
    let wrong = |error: toml::de::Error| {
        let path = path.display();
        format!("{path}: {}; `trainyard calibrate` writes such a file", error.message())
    };
    let calibration = file.map_err(wrong)?.calibration;
    let mut within = Mistakes::default();
    calibration.check(&mut within);
    found.note_all("calibration", path, &text, within);
    Ok(calibration)
}

struct CalibrationVisitor;

impl<'de> Visitor<'de> for CalibrationVisitor {
    type Value = CalibrationFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of costs, or the name of a file that has them")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<CalibrationFile, E> {
        Ok(CalibrationFile::In(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CalibrationFile, A::Error> {
        let calibration = Calibration::deserialize(MapAccessDeserializer::new(map))?;
        Ok(CalibrationFile::Here(Box::new(calibration)))
    }
}

impl<'de> Deserialize<'de> for CalibrationFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CalibrationVisitor)
    }
}
