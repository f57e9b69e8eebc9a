//! Presets: processors and networks that a scenario names, each figure with the place to check it.
//!
//! Rates are peaks, of f32 unless the name says otherwise; `efficiency` says what share of them a
//! kind of kernel reaches. Where a vendor gives a rate "with sparsity", or a bandwidth of both
//! directions together, the figure here is half of it.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::error::most_like;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};

/// A processor that `preset` names: a socket with all its cores, or an accelerator.
#[derive(Debug, PartialEq)]
pub(crate) struct Processor {
    pub(crate) name: &'static str,
    /// Its peak.
    pub(crate) rate: FlopsPerSecond,
    /// The rate of its memory.
    pub(crate) memory: BytesPerSecond,
    /// What an accelerator has besides.
    pub(crate) accelerator: Option<Accelerator>,
    /// Where the figures are from.
    pub(crate) source: &'static str,
}

/// What an accelerator has besides a processor.
#[derive(Debug, PartialEq)]
pub(crate) struct Accelerator {
    /// The size of its memory.
    pub(crate) capacity: Bytes,
    /// The link to its host, in each direction.
    pub(crate) host: BytesPerSecond,
    /// The links to the other accelerators of the host together, in each direction.
    pub(crate) peers: Option<BytesPerSecond>,
}

/// A network card that `network.preset` names.
#[derive(Debug, PartialEq)]
pub(crate) struct Network {
    pub(crate) name: &'static str,
    /// Its rate in each direction.
    pub(crate) bandwidth: BytesPerSecond,
    /// Where the figure is from.
    pub(crate) source: &'static str,
}

/// 16 lanes of PCI Express, third to fifth generation, in one direction \[GB/s\].
const PCIE3: f64 = 16.0;
const PCIE4: f64 = 32.0;
const PCIE5: f64 = 64.0;

/// The latency of links of presets: no data sheet has it.
pub(super) const LINK_LATENCY: Duration = Duration::from_micros(10);

const ZEN3: &str = "AMD: EPYC 7763 specifications; Zen 3, 2 x 256 bits FMA";
const ZEN4: &str = "AMD: EPYC 9654 specifications; Zen 4, 2 x 256 bits FMA";
const ZEN5: &str = "AMD: EPYC 9755 specifications; Zen 5, 2 x 512 bits FMA";
const B200: &str = "NVIDIA: Blackwell architecture brief, HGX B200; memory: DGX B200 data sheet";
const EC2: &str = "AWS: Amazon EC2 instance types, network specifications";
const GCP: &str = "Google Cloud: Networking and GPU machines, maximum bandwidth";
const AZURE: &str = "Microsoft: Azure virtual machine sizes, expected network bandwidth";
const ETHERNET: &str = "IEEE 802.3";

/// All processors.
pub(crate) static PROCESSORS: [Processor; 25] = [
    cpu("xeon-8280", (28, 2.7, 64), (6, 2933), "Intel ARK: Xeon Platinum 8280, two AVX-512 units"),
    cpu("xeon-8380", (40, 2.3, 64), (8, 3200), "Intel ARK: Xeon Platinum 8380, two AVX-512 units"),
    cpu(
        "xeon-8480+",
        (56, 2.0, 64),
        (8, 4800),
        "Intel ARK: Xeon Platinum 8480+, two AVX-512 units",
    ),
    cpu(
        "xeon-8592+",
        (64, 1.9, 64),
        (8, 5600),
        "Intel ARK: Xeon Platinum 8592+, two AVX-512 units",
    ),
    cpu("epyc-7763", (64, 2.45, 32), (8, 3200), ZEN3),
    cpu("epyc-9654", (96, 2.4, 32), (12, 4800), ZEN4),
    cpu("epyc-9755", (128, 2.7, 64), (12, 6400), ZEN5),
    gpu("p100", 10.6, 732.0, (16, PCIE3, 80.0), "NVIDIA: Tesla P100 data sheet, NVLink"),
    gpu("v100-16gb", 15.7, 900.0, (16, PCIE3, 150.0), "NVIDIA: V100 data sheet, SXM2"),
    gpu("v100-32gb", 15.7, 900.0, (32, PCIE3, 150.0), "NVIDIA: V100 data sheet, SXM2"),
    gpu("t4", 8.1, 300.0, (16, PCIE3, 0.0), "NVIDIA: T4 data sheet"),
    gpu("a10", 31.2, 600.0, (24, PCIE4, 0.0), "NVIDIA: A10 data sheet"),
    gpu("a100-40gb", 19.5, 1555.0, (40, PCIE4, 300.0), "NVIDIA: A100 data sheet, SXM"),
    gpu("a100-40gb-tf32", 156.0, 1555.0, (40, PCIE4, 300.0), "NVIDIA: A100 data sheet, SXM, TF32"),
    gpu("a100-80gb", 19.5, 2039.0, (80, PCIE4, 300.0), "NVIDIA: A100 data sheet, SXM"),
    gpu("a100-80gb-tf32", 156.0, 2039.0, (80, PCIE4, 300.0), "NVIDIA: A100 data sheet, SXM, TF32"),
    gpu("l4", 30.3, 300.0, (24, PCIE4, 0.0), "NVIDIA: L4 data sheet"),
    gpu("l40s", 91.6, 864.0, (48, PCIE4, 0.0), "NVIDIA: L40S data sheet"),
    gpu("h100", 67.0, 3350.0, (80, PCIE5, 450.0), "NVIDIA: H100 data sheet, SXM"),
    gpu("h100-tf32", 494.5, 3350.0, (80, PCIE5, 450.0), "NVIDIA: H100 data sheet, SXM, TF32"),
    gpu("h200", 67.0, 4800.0, (141, PCIE5, 450.0), "NVIDIA: H200 data sheet, SXM"),
    gpu("h200-tf32", 494.5, 4800.0, (141, PCIE5, 450.0), "NVIDIA: H200 data sheet, SXM, TF32"),
    gpu("b200", 80.0, 8000.0, (180, PCIE5, 900.0), B200),
    gpu("b200-tf32", 1100.0, 8000.0, (180, PCIE5, 900.0), B200),
    gpu("mi300x", 163.4, 5300.0, (192, PCIE5, 448.0), "AMD: Instinct MI300X data sheet"),
];

/// All networks. An instance type that has a bandwidth "up to" is left out: it depends on credits.
pub(crate) static NETWORKS: [Network; 36] = [
    network("1gbe", 1.0, ETHERNET),
    network("10gbe", 10.0, ETHERNET),
    network("25gbe", 25.0, ETHERNET),
    network("40gbe", 40.0, ETHERNET),
    network("100gbe", 100.0, ETHERNET),
    network("200gbe", 200.0, ETHERNET),
    network("400gbe", 400.0, ETHERNET),
    network("aws-c5.18xlarge", 25.0, EC2),
    network("aws-c5n.18xlarge", 100.0, EC2),
    network("aws-c6i.32xlarge", 50.0, EC2),
    network("aws-c6in.32xlarge", 200.0, EC2),
    network("aws-c7i.48xlarge", 50.0, EC2),
    network("aws-m5.8xlarge", 10.0, EC2),
    network("aws-m5.16xlarge", 20.0, EC2),
    network("aws-m5.24xlarge", 25.0, EC2),
    network("aws-m6i.32xlarge", 50.0, EC2),
    network("aws-g4dn.12xlarge", 50.0, EC2),
    network("aws-g5.48xlarge", 100.0, EC2),
    network("aws-g6.48xlarge", 100.0, EC2),
    network("aws-p3.8xlarge", 10.0, EC2),
    network("aws-p3.16xlarge", 25.0, EC2),
    network("aws-p3dn.24xlarge", 100.0, EC2),
    network("aws-p4d.24xlarge", 400.0, EC2),
    network("aws-p5.48xlarge", 3200.0, EC2),
    network("gcp-a2-highgpu-1g", 24.0, GCP),
    network("gcp-a2-highgpu-8g", 100.0, GCP),
    network("gcp-a3-highgpu-8g", 1000.0, GCP),
    network("gcp-a3-megagpu-8g", 1800.0, GCP),
    network("gcp-g2-standard-32", 32.0, GCP),
    network("gcp-g2-standard-96", 100.0, GCP),
    network("azure-d32s-v5", 16.0, AZURE),
    network("azure-d96s-v5", 35.0, AZURE),
    network("azure-nc24ads-a100-v4", 20.0, AZURE),
    network("azure-nc96ads-a100-v4", 80.0, AZURE),
    network("azure-nd40rs-v2", 24.0, AZURE),
    network("azure-nd96isr-h100-v5", 80.0, AZURE),
];

/// A socket: its cores, their base clock \[GHz\] and operations a cycle; its memory channels of 8
/// bytes and their transfers \[MT/s\].
const fn cpu(
    name: &'static str,
    (cores, clock, a_cycle): (u32, f64, u32),
    (channels, transfers): (u32, u32),
    source: &'static str,
) -> Processor {
    Processor {
        name,
        rate: FlopsPerSecond(cores as f64 * clock * 1e9 * a_cycle as f64),
        memory: BytesPerSecond(channels as f64 * transfers as f64 * 8e6),
        accelerator: None,
        source,
    }
}

/// An accelerator: its peak \[TFLOP/s\], the rate of its memory \[GB/s\]; the size of that \[GB\],
/// its link to its host and, if above 0, those to its peers \[GB/s\].
const fn gpu(
    name: &'static str,
    rate: f64,
    memory: f64,
    (capacity, host, peers): (u64, f64, f64),
    source: &'static str,
) -> Processor {
    let accelerator = Accelerator {
        capacity: Bytes(capacity * 1_000_000_000),
        host: BytesPerSecond(host * 1e9),
        peers: if peers > 0.0 { Some(BytesPerSecond(peers * 1e9)) } else { None },
    };
    Processor {
        name,
        rate: FlopsPerSecond(rate * 1e12),
        memory: BytesPerSecond(memory * 1e9),
        accelerator: Some(accelerator),
        source,
    }
}

/// A network card of so many Gbit/s.
const fn network(name: &'static str, gigabits: f64, source: &'static str) -> Network {
    Network { name, bandwidth: BytesPerSecond(gigabits * 1e9 / 8.0), source }
}

impl<'de> Deserialize<'de> for &'static Processor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        find(&name, PROCESSORS.iter().map(|one| (one.name, one))).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for &'static Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        find(&name, NETWORKS.iter().map(|one| (one.name, one))).map_err(de::Error::custom)
    }
}

/// The one of `all` called `name`; or else what to write.
fn find<T: Copy>(
    name: &str,
    all: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<T, String> {
    let in_lower_case = name.to_lowercase().replace('_', "-");
    let found = all.clone().find(|(known, _)| *known == in_lower_case);
    found.map(|(_, one)| one).ok_or_else(|| {
        let mut names = all.map(|(known, _)| known);
        let longer = names.clone().find(|known| known.starts_with(&*in_lower_case));
        let meant = longer.or_else(|| most_like(name, &mut names));
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        format!("there is no preset `{name}` here{meant} (`trainyard presets` lists them)")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::{Scenario, ScenarioError, parse};

    fn read(text: &str) -> Result<Scenario, ScenarioError> {
        parse(text, "test.toml")
    }

    #[test]
    fn presets_have_different_names_figures_above_0_and_a_source() {
        let processors = PROCESSORS.iter().map(|it| (it.name, it.rate.0.min(it.memory.0)));
        let networks = NETWORKS.iter().map(|it| (it.name, it.bandwidth.0));
        let all: Vec<(&str, f64)> = processors.chain(networks).collect();
        assert_eq!(all.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|(name, least)| *least > 0.0 && *name == name.to_lowercase()));
        let sources = PROCESSORS.iter().map(|it| it.source);
        assert!(sources.chain(NETWORKS.iter().map(|it| it.source)).all(|it| it.len() > 8));
    }

    #[test]
    fn a_socket_s_figures_are_those_of_its_cores_and_channels() {
        let xeon = PROCESSORS.iter().find(|one| one.name == "xeon-8480+").unwrap();
        assert_eq!((xeon.rate.0, xeon.memory.0), (7.168e12, 307.2e9));
    }

    #[test]
    fn a_preset_gives_what_the_scenario_does_not_say_itself() {
        let text = "[compute]\npreset = 'epyc-7763'\nmemory = '1GB/s'\n\
                    [compute.tasks.ps]\npreset = 'T4'\n\
                    [network]\npreset = '25gbe'\nlatency = '7us'\n\
                    [network.tasks.ps]\npreset = 'aws-p4d.24xlarge'";
        let scenario = read(text).unwrap();
        assert_eq!(scenario.hardware.compute.rate, FlopsPerSecond(64.0 * 2.45e9 * 32.0));
        assert_eq!(scenario.hardware.compute.memory, BytesPerSecond(1e9));
        let (_, ps) = scenario.hardware.own_compute.first_key_value().unwrap();
        assert_eq!((ps.rate, ps.memory), (FlopsPerSecond(8.1e12), BytesPerSecond(300e9)));
        assert_eq!(scenario.hardware.network.bandwidth, BytesPerSecond(25e9 / 8.0));
        assert_eq!(scenario.hardware.network.latency, Duration::from_micros(7));
        assert_eq!(scenario.hardware.network.cards[&0].bandwidth, Some(BytesPerSecond(50e9)));
    }

    #[test]
    fn a_preset_that_gives_nothing_is_refused_with_what_stands_in_its_way() {
        let own = |text: &str| read(text).map(drop).map_err(|error| error.to_string());
        let cluster = "[cluster]\nps = 1\nworker = 1\n[stop]\nsteps = 1\n";
        let compute = "[compute]\npreset = 'epyc-7763'\nrate = '1GFLOP/s'\n";
        own(&format!("{cluster}{compute}")).unwrap();
        let error = own(&format!("{cluster}{compute}memory = '1GB/s'")).unwrap_err();
        assert!(error.contains("--unset compute.rate --unset compute.memory"), "{error}");
        let network = "[network]\npreset = '25gbe'\nbandwidth = '1Gbps'";
        let error = own(&format!("{cluster}{network}")).unwrap_err();
        assert!(error.contains("--unset network.bandwidth"), "{error}");
    }

    #[test]
    fn the_preset_of_an_accelerator_has_its_memory_and_links_too() {
        let own = "[gpus.worker]\npreset = 'h100'\ncount = 2\ncompute = { rate = '1TFLOP/s' }\n\
                   host = { latency = '1us' }";
        let scenario = read(own).unwrap();
        let (_, gpus) = scenario.hardware.gpus.first_key_value().unwrap();
        assert_eq!(gpus.compute.rate, FlopsPerSecond(1e12));
        assert_eq!(gpus.compute.memory, BytesPerSecond(3.35e12));
        assert_eq!(gpus.capacity, Some(Bytes(80_000_000_000)));
        assert_eq!(gpus.host.latency, Duration::from_micros(1));
        assert_eq!(gpus.host.bandwidth, BytesPerSecond(64e9));
        assert_eq!(gpus.peers.unwrap().bandwidth, BytesPerSecond(450e9));
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_one_that_is_most_like_it() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        let processor = told("compute.preset = 'a100-80_b'");
        assert!(processor.contains("did you mean `a100-80gb`?"), "{processor}");
        let beginning = told("compute.preset = 'V100'");
        assert!(beginning.contains("did you mean `v100-16gb`?"), "{beginning}");
        let network = told("network.preset = 'p3.16xlarge'");
        assert!(network.contains("did you mean `aws-p3.16xlarge`?"), "{network}");
        let nothing = told("network.preset = 'token ring'");
        assert!(nothing.contains("`trainyard presets` lists them"), "{nothing}");
        let cpu = told("gpus.worker.preset = 'epyc-9654'");
        assert!(cpu.contains("gpus.\"worker\".preset: `epyc-9654` is no accelerator"), "{cpu}");
    }
}
