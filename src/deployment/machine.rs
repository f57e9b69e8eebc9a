//! Findings about this machine that matter to a training: sockets, interfaces, cores, instructions,
//! clock.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroUsize;
use std::path::Path;

use serde::Serialize;

use crate::kernels;
use crate::process::open_files;
use crate::transport::SocketBuffers;

/// The packet size of an ordinary Ethernet \[bytes\].
const ETHERNET: u32 = 1500;

/// Fewer open files are too few for a task that writes checkpoints and is looked at.
const FILES_WANTED: u64 = 256;

/// A finding about a machine: the setting, its value, and advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The setting's name.
    pub what: String,
    /// Its value, for a person to read.
    pub value: String,
    /// What to do about it; none if all is well.
    pub advice: Option<String>,
}

impl Finding {
    fn new(what: impl Into<String>, value: impl Into<String>, advice: Option<String>) -> Self {
        Self { what: what.into(), value: value.into(), advice }
    }
}

/// The number of this machine's cores; 1 if the system does not tell.
pub(crate) fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Looks for settings of this machine that harm a training. None of them keeps it from running.
pub fn examine_machine() -> Vec<Finding> {
    let mut findings =
        vec![buffer("net.core.rmem_max"), buffer("net.core.wmem_max"), granted_buffers()];
    findings.extend(interfaces(Path::new("/sys/class/net")));
    findings.push(offload());
    findings.extend([cores_found(), threads(), open_files_found(), instructions(), clock()]);
    findings
}

/// The system's limit on socket buffers.
fn buffer(name: &str) -> Finding {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    let Some(limit) = read(&path).and_then(|text| text.parse::<usize>().ok()) else {
        return Finding::new(name, "unknown", None);
    };
    let advice = (limit < SocketBuffers::WANTED).then(|| {
        format!(
            "bursts overflow the socket and are sent again; as root: sysctl -w {name}={}, kept in \
             /etc/sysctl.d",
            SocketBuffers::WANTED
        )
    });
    Finding::new(name, limit.to_string(), advice)
}

/// The buffers that a socket is actually granted.
fn granted_buffers() -> Finding {
    const WHAT: &str = "UDP buffers granted";
    match SocketBuffers::measure() {
        Ok(buffers) => {
            let advice = buffers
                .are_small()
                .then(|| "raise net.core.rmem_max and net.core.wmem_max, as above".to_owned());
            Finding::new(
                WHAT,
                format!("{} receive, {} send", buffers.receive, buffers.send),
                advice,
            )
        }
        Err(error) => {
            Finding::new(WHAT, error.to_string(), Some("no task can listen without UDP".to_owned()))
        }
    }
}

/// The interfaces that are up, with their packet sizes.
fn interfaces(folder: &Path) -> Vec<Finding> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let interface = |name: &String| {
        let of = |file: &str| read(&folder.join(name).join(file));
        let mtu: u32 = of("mtu")?.parse().ok()?;
        let is_up = of("operstate").is_some_and(|state| state == "up" || state == "unknown");
        let speed =
            of("speed").and_then(|speed| speed.parse::<i64>().ok()).filter(|speed| *speed > 0);
        let advice = match mtu {
            _ if !is_up => return None,
            0..ETHERNET => {
                Some("packets are smaller than Ethernet's: a tunnel takes a part of each")
            }
            ETHERNET if speed.is_some_and(|speed| speed >= 10_000) => Some(
                "jumbo frames cost a fast network less: ip link set MTU 9000, on all hosts and \
                 switches",
            ),
            _ => None,
        };
        let speed = speed.map(|speed| format!(", {speed} Mbit/s")).unwrap_or_default();
        Some(Finding::new(
            format!("MTU of {name}"),
            format!("{mtu}{speed}"),
            advice.map(str::to_owned),
        ))
    };
    names.iter().filter_map(interface).collect()
}

/// Whether the system splits a batch of packets itself.
fn offload() -> Finding {
    const WHAT: &str = "segmentation offload";
    let state = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| quinn::udp::UdpSocketState::new(quinn::udp::UdpSockRef::from(&socket)));
    match state {
        Ok(state) => {
            let (send, receive) = (state.max_gso_segments(), state.gro_segments());
            let advice = (send <= 1).then(|| {
                "each packet is a system call: a newer kernel (4.18 or later) has it".to_owned()
            });
            Finding::new(WHAT, format!("{send} packets a send, {receive} a receive"), advice)
        }
        Err(error) => {
            Finding::new(WHAT, error.to_string(), Some("no task can listen without UDP".to_owned()))
        }
    }
}

fn cores_found() -> Finding {
    let cores = cores().get();
    let advice = (cores < 2)
        .then(|| "kernels and the network share one core: expect half the speed".to_owned());
    Finding::new("cores", cores.to_string(), advice)
}

/// The files that a process may open; each connection of `--metrics` or `--dashboard` is one.
fn open_files_found() -> Finding {
    let Some(files) = open_files() else { return Finding::new("open files", "no limit", None) };
    let advice = (files < FILES_WANTED).then(|| {
        format!("checkpoints and results may fail to open theirs: ulimit -n {FILES_WANTED}")
    });
    Finding::new("open files", files.to_string(), advice)
}

fn threads() -> Finding {
    let cores = cores().get();
    let threads = rayon::current_num_threads();
    let set = std::env::var("RAYON_NUM_THREADS").is_ok();
    let advice = (threads > cores).then(|| {
        format!("more threads than cores wait for one another: RAYON_NUM_THREADS={cores} or less")
    });
    Finding::new(
        "threads of kernels",
        format!("{threads}{}", if set { ", from RAYON_NUM_THREADS" } else { "" }),
        advice,
    )
}

fn instructions() -> Finding {
    let advice = "matrix products are several times slower without";
    match kernels::instructions() {
        Some(name) => Finding::new("SIMD", name, None),
        None => Finding::new("SIMD", "none that kernels know", Some(advice.to_owned())),
    }
}

fn clock() -> Finding {
    const WHAT: &str = "clock source";
    const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let Some(source) = read(Path::new(PATH)) else { return Finding::new(WHAT, "unknown", None) };
    let is_slow = matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies");
    let advice = is_slow
        .then(|| "each look at the clock is a slow access to a device; `tsc` is fast".to_owned());
    Finding::new(WHAT, source, advice)
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_cores_and_sockets() {
        let findings = examine_machine();
        for what in ["cores", "UDP buffers granted", "segmentation offload", "SIMD"] {
            assert!(
                findings.iter().any(|finding| finding.what == what && !finding.value.is_empty()),
                "{what}"
            );
        }
    }

    #[test]
    fn a_small_mtu_is_told() {
        let folder = std::env::temp_dir().join(format!("trainyard-doctor-{}", std::process::id()));
        for (name, mtu, state) in
            [("eth0", "9001", "up"), ("tun0", "1280", "unknown"), ("eth1", "1280", "down")]
        {
            let interface = folder.join(name);
            fs::create_dir_all(&interface).unwrap();
            fs::write(interface.join("mtu"), mtu).unwrap();
            fs::write(interface.join("operstate"), state).unwrap();
        }
        let found = interfaces(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let warned: Vec<_> =
            found.iter().map(|finding| (finding.what.as_str(), finding.advice.is_some())).collect();
        assert_eq!(warned, [("MTU of eth0", false), ("MTU of tun0", true)]);
    }
}
