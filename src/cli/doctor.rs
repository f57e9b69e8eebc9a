//! `doctor`: finds settings of this machine that harm a training, and says what to do about them.

use std::io::{self, Write};

use super::args::DoctorArgs;
use super::failure::Failure;
use super::stdout::{raw_stdout, stdout};
use crate::deployment::{ExitCode, Finding, examine_machine};

/// Runs the command. A harmful setting is no failure: a training runs all the same.
pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let findings = examine_machine();
    let printed = match args.json {
        true => write_json(&findings, raw_stdout()),
        false => write_text(&findings, stdout()),
    };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

fn write_json(findings: &[Finding], mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, findings)?;
    writeln!(out)
}

fn write_text(findings: &[Finding], mut out: impl Write) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
    for Finding { what, value, advice } in findings {
        let verdict = if advice.is_some() { "warn" } else { "ok" };
        writeln!(out, "{verdict:<4}  {what:<width$}  {value}")?;
        if let Some(advice) = advice {
            writeln!(out, "      {:<width$}  -> {advice}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_what_to_do_another() {
        let finding = |what: &str, value: &str, advice: Option<&str>| Finding {
            what: what.to_owned(),
            value: value.to_owned(),
            advice: advice.map(str::to_owned),
        };
        let findings =
            [finding("cores", "8", None), finding("net.core.rmem_max", "212992", Some("raise it"))];
        let mut text = Vec::new();
        write_text(&findings, &mut text).unwrap();
        let expected = "ok    cores              8\n\
                        warn  net.core.rmem_max  212992\n                         -> raise it\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
