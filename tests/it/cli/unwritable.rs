//! A standard output whose reader has gone, and one that can't be written.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::support::binary::{Said, folder, scenario, trainyard};

const SCENARIO: &str = "[cluster]\nps = 1\nworker = 1\n[program]\nbatch = 8\n[stop]\nsteps = 5\n";

/// What `args` come to with this standard output.
fn said_to(stdout: impl Into<Stdio>, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.args(args).stdout(stdout).env("RUST_BACKTRACE", "0");
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Said { code: output.status.code().expect("it was not killed"), out: String::new(), err }
}

/// What `args` come to if nobody reads their standard output.
fn unread(args: &[&str]) -> Said {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    said_to(writer, args)
}

#[test]
fn a_command_whose_reader_has_gone_ends_quietly_and_as_if_it_had_been_read() {
    let path = scenario("unread", SCENARIO);
    let out = folder("unread_files");
    let sim = ["sim", &path, "--quiet", "--out", out.to_str().unwrap()];
    let target = ["--set", "stop.accuracy=1.0"];
    let commands: [(&[&str], i32); 9] = [
        (&["--help"], 0),
        (&["presets"], 0),
        (&["doctor"], 0),
        (&["schema", "result"], 0),
        (&["completions", "bash"], 0),
        (&["cluster"], 0),
        (&["sim", &path, "--print-config"], 0),
        (&sim, 0),
        (&[&sim[..], &target].concat(), 3),
    ];
    for (args, code) in commands {
        let said = unread(args);
        assert_eq!((said.code, said.err.as_str()), (code, ""), "{args:?}");
    }
    assert!(fs::metadata(out.join("result.json")).unwrap().len() > 0);
}

#[test]
fn a_disk_that_is_full_as_a_training_begins_is_exit_code_9_as_one_that_fills_later() {
    let checkpoint = "[checkpoint]\nevery_steps = 2\n";
    for at in ["0s", "1ms"] {
        let fault = format!("[[fault]]\nat = '{at}'\nfull_disk = true\nfor = '1h'\n");
        let slow = "[compute]\nstep_time = { law = 'constant', value = '10ms' }\n";
        let path = scenario("full_disk", &format!("{SCENARIO}{checkpoint}{slow}{fault}"));
        let said = trainyard(&["sim", &path, "--quiet"]);
        assert_eq!(said.code, 9, "full at {at}: {}", said.err);
        assert_eq!(said.err.starts_with("error:"), at == "0s", "full at {at}: {}", said.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_a_full_disk_does_not_take_is_an_error() {
    let path = scenario("full_stdout", SCENARIO);
    let commands =
        [&["presets"][..], &["sim", &path, "--quiet"], &["completions", "bash"], &["--help"]];
    for args in commands {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let said = said_to(full, args);
        assert_eq!(said.code, 9, "{args:?}: {}", said.err);
        assert!(said.err.contains("cannot write"), "{args:?}: {}", said.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_said_to_a_full_disk_is_lost_and_nothing_else() {
    let path = scenario("full_stderr", SCENARIO);
    for args in [&["launch", &path, "--json"][..], &["sim", &path, "-vv", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        let output = command.args(args).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stdout.starts_with(b"{"), "{args:?}");
    }
}

#[test]
fn a_result_that_can_t_be_written_is_printed_and_named() {
    let path = scenario("no_room", SCENARIO);
    let out = folder("no_room_out");
    fs::create_dir(out.join("result.json")).unwrap();
    for command in ["sim", "launch"] {
        let said = trainyard(&[command, &path, "--out", out.to_str().unwrap()]);
        assert_eq!(said.code, 9, "{}", said.err);
        assert!(said.out.contains("weights="), "the table is printed: {}", said.out);
        assert!(said.err.contains("cannot write the files of run `"), "{}", said.err);
    }
}

#[test]
fn the_results_of_an_earlier_run_do_not_stand_for_one_that_fails() {
    let path = scenario("fails_later", SCENARIO);
    let out = folder("fails_later_files");
    let sim = ["sim", &path, "--quiet", "--out", out.to_str().unwrap()];
    assert_eq!(trainyard(&sim).code, 0);
    assert!(out.join("result.json").exists());
    let said = trainyard(&[&sim[..], &["--set", "fault=[{at='1us',crash='ps:0'}]"]].concat());
    assert_ne!(said.code, 0, "{}", said.err);
    assert!(!out.join("result.json").exists() && !out.join("report.html").exists());
}

/// What `args` come to where no file can grow beyond `blocks` of 512 bytes, as on a full disk.
fn said_in_little_room(blocks: u32, args: &[&str]) -> Said {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_trainyard")]).args(args);
    let output = command.env_remove("TF_CONFIG").output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Said { code: output.status.code().expect("it was not killed"), out, err }
}

#[test]
fn a_scenario_that_a_full_disk_does_not_take_is_not_in_the_way_of_the_next_try() {
    let folder = folder("full_init");
    let init = ["init", folder.to_str().unwrap()];
    let said = said_in_little_room(0, &init);
    assert_eq!(said.code, 9, "{}", said.err);
    assert_eq!(trainyard(&init).code, 0, "there is room again");
}

#[test]
fn a_calibration_that_fails_leaves_no_file() {
    let folder = folder("calibrates_nothing");
    let out = folder.join("laws.toml");
    let said = trainyard(&["calibrate", "--from", "nowhere", "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(!out.exists());
}

#[test]
fn a_training_whose_tapes_a_full_disk_does_not_take_goes_on_and_says_which_tapes_have_no_end() {
    let path = scenario("full_tapes", SCENARIO);
    let folder = folder("full_tapes_folder");
    let tapes = folder.join("tapes").display().to_string();
    let launch = ["launch", &path, "--set", "stop.steps=3000", "--record", &tapes];
    let said = said_in_little_room(32, &launch);
    assert_eq!(said.code, 9, "{}", said.err);
    assert!(said.out.contains("3000"), "the training has come to its end: {}", said.out);
    for tape in ["ps-0.0.tape", "worker-0.0.tape"] {
        let told = format!("{tape} has no end, and can't be replayed: File too large");
        assert!(said.err.contains(&told), "{}", said.err);
    }
}

#[test]
fn weights_that_a_full_disk_does_not_take_are_exit_code_9_after_the_result() {
    let (path, folder) = (scenario("full_weights", SCENARIO), folder("full_weights_files"));
    let weights = folder.to_str().unwrap();
    let said = said_in_little_room(2, &["sim", &path, "--weights", weights]);
    assert_eq!(said.code, 9, "{}", said.err);
    assert!(said.out.contains("weights="), "the result is printed: {}", said.out);
    assert!(said.err.contains("cannot write the weights of run"), "{}", said.err);
    let mut left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    assert!(!left.any(|path| path.extension().is_some_and(|last| last == "safetensors")));
}

#[test]
fn a_place_where_no_weights_can_be_written_is_told_before_the_training() {
    let path = scenario("no_place_for_weights", SCENARIO);
    let said = trainyard(&["sim", &path, "--weights", &path]);
    assert_eq!((said.code, said.out.as_str()), (9, ""), "{}", said.err);
    assert!(said.err.contains("cannot write"), "{}", said.err);
}

#[test]
fn a_full_disk_for_results_is_told_before_the_training() {
    let (path, out) = (scenario("full_results", SCENARIO), folder("full_results_folder"));
    let launch = ["launch", &path, "--set", "stop.steps=3000", "--out", out.to_str().unwrap()];
    let said = said_in_little_room(2, &launch);
    assert_eq!((said.code, said.out.as_str()), (9, ""), "{}", said.err);
    assert!(said.err.contains("cannot write") && !said.err.contains("run `"), "{}", said.err);
}

#[test]
fn a_training_whose_event_file_a_full_disk_does_not_take_goes_on_to_its_end() {
    let path = scenario("full_events", SCENARIO);
    let out = folder("full_events_folder");
    let launch = ["launch", &path, "--set", "stop.steps=3000", "--out", out.to_str().unwrap()];
    let said = said_in_little_room(32, &launch);
    assert_eq!(said.code, 9, "{}", said.err);
    assert!(said.out.contains("3000"), "the training has come to its end: {}", said.out);
    assert!(said.err.contains("cannot write the files of run `"), "{}", said.err);
    let folder = fs::read_dir(out.join("events")).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    assert!(file.metadata().unwrap().len() >= 32 * 512, "it has what there was room for");
}
