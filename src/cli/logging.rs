//! Logs on stderr: warnings unless they are expected, more with each `-v`.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging, at the level `least` or, with each `-v`, at a more verbose one. A program that
/// has set up its own logging keeps it.
pub(super) fn start(verbose: u8, least: LevelFilter) {
    let level = match verbose {
        0 => least,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let logs =
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).without_time();
    let logs = logs.with_span_events(FmtSpan::NEW).finish(); // each hop of a step is a span
    if tracing::subscriber::set_global_default(logs).is_err() {
        tracing::debug!("the program logs by itself");
    }
}
