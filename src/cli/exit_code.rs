//! The exit codes for the help.

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
    7  a run diverged: its loss is not finite
  130  stopped by Ctrl-C, in good order
  138  peers lost, restart me
  143  stopped by SIGTERM, in good order";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::ExitCode;

    #[test]
    fn the_help_lists_each_code_and_no_other() {
        use ExitCode::*;
        let below = [
            Done,
            Internal,
            Usage,
            TargetNotReached,
            NothingToRun,
            RepeatDiffered,
            Stalled,
            Diverged,
        ];
        let codes = [&below[..], &[Interrupted, PeersLost, Terminated]].concat();
        let codes: Vec<_> = codes.into_iter().map(|code| (code as u8).to_string()).collect();
        let listed: Vec<_> =
            HELP.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(listed, codes);
    }
}
