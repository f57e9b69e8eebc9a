//! `presets`: lists the processors and networks that a scenario's `preset` names.

use std::io::{self, Write};

use super::failure::Failure;
use super::stdout::stdout;
use crate::deployment::ExitCode;
use crate::report::{Layout, TextTable};
use crate::scenario::{NETWORKS, PROCESSORS};
use crate::units::BytesPerSecond;

/// Runs the command.
pub(super) fn run() -> Result<ExitCode, Failure> {
    list(&mut stdout()).map_err(Failure::writing("the presets"))?;
    Ok(ExitCode::Done)
}

fn list(out: &mut impl Write) -> io::Result<()> {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let titles = ["compute.preset", "rate", "memory", "capacity", "host", "peers", "source"];
    let mut processors = vec![titles.map(str::to_owned).to_vec()];
    for it in &PROCESSORS {
        let own = it.accelerator.as_ref();
        // Memories are known by bytes, networks by bits.
        let gigabytes = |rate: BytesPerSecond| format!("{}GB/s", (rate.0 / 1e8).round() / 10.0);
        let capacity = known(own.map(|own| own.capacity.to_string()));
        let host = known(own.map(|own| gigabytes(own.host)));
        let peers = known(own.and_then(|own| own.peers).map(gigabytes));
        let (rate, memory) = (it.rate.to_string(), gigabytes(it.memory));
        let (name, source) = (it.name.to_owned(), it.source.to_owned());
        processors.push(vec![name, rate, memory, capacity, host, peers, source]);
    }
    let mut networks = vec![["network.preset", "bandwidth", "source"].map(str::to_owned).to_vec()];
    for it in &NETWORKS {
        let gigabits = format!("{}Gbps", it.bandwidth.0 * 8.0 / 1e9);
        networks.push(vec![it.name.to_owned(), gigabits, it.source.to_owned()]);
    }
    let processors = TextTable::new(processors).words([6]).render(Layout::Plain);
    let networks = TextTable::new(networks).words([2]).render(Layout::Plain);
    write!(out, "{processors}\n{networks}")
}
