//! Logs on stderr: warnings unless they are expected, more with each `-v`, or what `RUST_LOG` says.

use std::env;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, format::FmtSpan};
use tracing_subscriber::layer::SubscriberExt;

use super::failure::Failure;
use crate::say::Escaping;

/// The variable that gives each module a level, as in `trainyard::sync=debug,info`.
const LEVELS: &str = "RUST_LOG";

/// Starts logging: by [`LEVELS`] or else at the level `least` or, with each `-v`, at a more verbose
/// one. A program that has set up its own logging keeps it.
pub(super) fn start(verbose: u8, least: LevelFilter) -> Result<(), Failure> {
    let level = match verbose {
        0 => least,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let levels = match env::var(LEVELS) {
        Ok(levels) if verbose == 0 && !levels.is_empty() => parsed(&levels)?,
        _ => Targets::new().with_default(level),
    };
    let stderr = || Escaping(std::io::stderr());
    let lines = fmt::layer().with_writer(stderr).with_ansi(false).without_time();
    let lines = lines.log_internal_errors(false); // it would panic on a full disk
    let lines = lines.with_span_events(FmtSpan::NEW); // each hop of a step is a span
    let logs = tracing_subscriber::registry().with(levels).with(lines);
    if tracing::subscriber::set_global_default(logs).is_err() {
        tracing::debug!("the program logs by itself");
    }
    Ok(())
}

/// The flags by which another process logs as this one.
pub(super) fn flags(verbose: u8) -> Vec<String> {
    (0..verbose).map(|_| "-v".to_owned()).collect()
}

fn parsed(levels: &str) -> Result<Targets, Failure> {
    let mistaken = |problem| {
        Failure::NotSupported(format!(
            "{LEVELS}={levels}: {problem}; write, for example, `trainyard::sync=debug,info`"
        ))
    };
    levels.parse().map_err(mistaken)
}
