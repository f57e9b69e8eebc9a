//! `presets`: lists the processors and networks that a scenario's `preset` names.

use std::io::{self, Write};

use super::failure::Failure;
use crate::deployment::ExitCode;
use crate::experiment::scenario::{NETWORKS, PROCESSORS};

/// Runs the command.
pub(super) fn run() -> Result<ExitCode, Failure> {
    list(&mut io::stdout().lock()).map_err(Failure::writing("the presets"))?;
    Ok(ExitCode::Done)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    writeln!(
        out,
        "{:<22}  {:>14}  {:>10}  {:>8}  {:>8}  {:>8}  source",
        "compute.preset", "rate", "memory", "capacity", "host", "peers"
    )?;
    for it in &PROCESSORS {
        let own = it.accelerator.as_ref();
        let capacity = known(own.map(|own| own.capacity.to_string()));
        let host = known(own.map(|own| own.host.to_string()));
        let peers = known(own.and_then(|own| own.peers).map(|peers| peers.to_string()));
        let (rate, memory) = (it.rate.to_string(), it.memory.to_string());
        writeln!(
            out,
            "{:<22}  {rate:>14}  {memory:>10}  {capacity:>8}  {host:>8}  {peers:>8}  {}",
            it.name, it.source
        )?;
    }
    writeln!(out, "\n{:<22}  {:>14}  source", "network.preset", "bandwidth")?;
    for it in &NETWORKS {
        let gigabits = format!("{}Gbps", it.bandwidth.0 * 8.0 / 1e9);
        writeln!(out, "{:<22}  {gigabits:>14}  {}", it.name, it.source)?;
    }
    Ok(())
}
