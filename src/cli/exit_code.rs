//! The exit codes, which scripts and schedulers rely on. From 128 on they mean: try again.

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// Done.
    Done = 0,
    /// A bug of this program, or of the machine it runs on.
    Internal = 1,
    /// The arguments or the scenario are wrong. Also clap's.
    Usage = 2,
    /// A run ended before it reached its target.
    TargetNotReached = 3,
    /// The scenario has no run.
    NothingToRun = 4,
    /// A repeat with the same seed gave another result.
    RepeatDiffered = 5,
    /// Nothing could happen any more, but the program had not finished.
    Stalled = 6,
    /// Stopped by Ctrl-C, in good order.
    Interrupted = 130,
    /// Peers are lost; restart this task.
    PeersLost = 138,
    /// Stopped by SIGTERM, in good order.
    Terminated = 143,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// The codes, for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done
    1  internal error
    2  usage or configuration
    3  target not reached
    4  nothing to run
    5  a repeat differed
    6  stalled
  130  stopped by Ctrl-C, in good order
  138  peers lost, restart me
  143  stopped by SIGTERM, in good order";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_each_code_and_no_other() {
        use ExitCode::*;
        let below =
            [Done, Internal, Usage, TargetNotReached, NothingToRun, RepeatDiffered, Stalled];
        let codes = [&below[..], &[Interrupted, PeersLost, Terminated]].concat();
        let codes: Vec<_> = codes.into_iter().map(|code| (code as u8).to_string()).collect();
        let listed: Vec<_> =
            HELP.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(listed, codes);
    }
}
