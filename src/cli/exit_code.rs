//! The exit codes for the help.

use crate::deployment::ExitCode;

/// The codes, for `--help`.
pub(crate) fn help() -> String {
    let first = ExitCode::FIRST_FOR_A_RESTART;
    let mut help = format!("Exit codes ({first} and above: start it again):");
    for (code, meaning) in ExitCode::ALL {
        append!(help, "\n  {:>3}  {meaning}", code as u8);
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_the_table_of_the_help() {
        let guide = include_str!("../../docs/deploying.md");
        for (code, meaning) in ExitCode::ALL {
            let row = format!("| {} | {meaning} |", code as u8);
            assert!(guide.contains(&row), "docs/deploying.md has no row `{row}`");
        }
        let has_code = |line: &&str| {
            let cell = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next());
            cell.is_some_and(|cell| cell.parse::<u8>().is_ok())
        };
        assert_eq!(guide.lines().filter(has_code).count(), ExitCode::ALL.len());
    }
}
