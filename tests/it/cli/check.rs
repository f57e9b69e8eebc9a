//! `check`: a scenario's runs held against a file of expectations.

use std::fs;

use crate::support::binary::{Said, folder, scenario, trainyard};

const TWO_RUNS: &str = r#"
name = "small & quick"
[program]
batch = 8
[stop]
steps = 20
[[run]]
name = "sync"
mode = "sync"
[[run]]
name = "async"
mode = "async"
"#;

fn check(path: &str, expect: &str, flags: &[&str]) -> Said {
    trainyard(&[&["check", path, "--expect", expect], flags].concat())
}

#[test]
fn a_scenario_is_as_expected_until_something_changes() {
    let (path, folder) = (scenario("check", TWO_RUNS), folder("check_expected"));
    let [expect, junit] = ["expected.toml", "junit.xml"].map(|name| folder.join(name));
    let [expect, junit] = [&expect, &junit].map(|path| path.to_str().unwrap());
    let lacking = check(&path, expect, &[]);
    assert_eq!(lacking.code, 2, "{}", lacking.err);
    assert!(lacking.err.contains("`--update` writes one"), "{}", lacking.err);

    assert_eq!(check(&path, expect, &["--update"]).code, 0);
    let same = check(&path, expect, &["--junit", junit]);
    assert_eq!((same.code, &*same.out), (0, "sync: as expected\nasync: as expected\n"));
    let all_passed = fs::read_to_string(junit).unwrap();
    assert!(all_passed.contains(r#"<testsuite name="small &amp; quick" tests="2" failures="0">"#));

    let seed = ["--run", "async", "--seed", "9", "--junit", junit];
    let other = check(&path, expect, &seed);
    assert_eq!(other.code, 14, "{}", other.err);
    let different = "async: not as expected\n  weights_digest: ";
    assert!(other.out.starts_with(different), "{}", other.out);
    assert!(!other.out.contains("sync: as") && !other.out.contains("samples_per"), "{}", other.out);
    let failed = fs::read_to_string(junit).unwrap();
    assert!(failed.contains(r#"name="async""#) && failed.contains("<failure message=\"weights_"));

    // What is meant is written, of that run alone.
    assert_eq!(check(&path, expect, &["--run", "async", "--seed", "9", "--update"]).code, 0);
    assert_eq!(check(&path, expect, &seed).code, 0);
    assert_eq!(check(&path, expect, &["--run", "sync"]).code, 0);
}

#[test]
fn a_budget_tolerates_a_little_and_keeps_its_keys_when_it_is_written_anew() {
    let (path, folder) = (scenario("check_budget", TWO_RUNS), folder("check_budget_expected"));
    let expect = folder.join("budget.toml");
    let name = expect.to_str().unwrap();
    assert_eq!(check(&path, name, &["--update"]).code, 0);
    let kept = |line: &&str| {
        !line.starts_with("digest") && !line.starts_with("weights") && !line.starts_with("end")
    };
    let budget: Vec<String> =
        fs::read_to_string(&expect).unwrap().lines().filter(kept).map(str::to_owned).collect();
    fs::write(&expect, budget.join("\n")).unwrap();
    assert_eq!(check(&path, name, &["--set", "network.latency=50100ns"]).code, 0);
    let slow = ["--set", "network.latency=80us"];
    let slower = check(&path, name, &slow);
    assert_eq!(slower.code, 14, "{}", slower.err);
    assert!(slower.out.contains("  samples_per_second: "), "{}", slower.out);
    assert!(slower.out.contains(" % from the expected "), "{}", slower.out);
    assert!(slower.out.contains("at most 2 % are tolerated"), "{}", slower.out);

    assert_eq!(check(&path, name, &[&slow[..], &["--update"]].concat()).code, 0);
    assert_eq!(check(&path, name, &slow).code, 0);
    assert!(!fs::read_to_string(&expect).unwrap().contains("digest"));
}

#[test]
fn runs_that_are_there_on_one_side_only_are_told() {
    let (path, folder) = (scenario("check_runs", TWO_RUNS), folder("check_runs_expected"));
    let expect = folder.join("expected.toml");
    fs::write(&expect, "[run.sync]\nend = 'done'\n[run.gone]\nend = 'done'\n").unwrap();
    let said = check(&path, expect.to_str().unwrap(), &[]);
    assert_eq!(said.code, 14, "{}", said.err);
    let expected = "sync: as expected\n\
                    async: not as expected\n  nothing is expected of it; `--update` adds it\n\
                    gone: not as expected\n  it is expected, and the scenario has no such run\n";
    assert_eq!(said.out, expected);
    fs::write(&expect, "tolerance = 2\n").unwrap();
    let said = check(&path, expect.to_str().unwrap(), &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("tolerance: 2 must be at least 0 and below 1"), "{}", said.err);
}

#[test]
fn a_run_that_fails_is_a_finding_and_the_others_are_looked_at_all_the_same() {
    let folder = folder("check_failed_expected");
    let [expect, junit] = ["expected.toml", "junit.xml"].map(|name| folder.join(name));
    let [expect, junit] = [&expect, &junit].map(|path| path.to_str().unwrap());
    // Both are over by then.
    let text = format!("{TWO_RUNS}[[fault]]\nat = \"1s\"\ncrash = \"ps:0\"\n");
    let path = scenario("check_failed", &text);
    assert_eq!(check(&path, expect, &["--update"]).code, 0);
    let before = fs::read_to_string(expect).unwrap();
    // Now the first one is.
    let text = text.replace("mode = \"async\"", "mode = \"async\"\nset.stop.steps = 100_000");
    let path = scenario("check_failed", &text);

    let said = check(&path, expect, &["--junit", junit]);
    assert_eq!(said.code, 12, "{}", said.err);
    let failed = "async: not as expected\n  failed: Unavailable: ";
    assert!(said.out.starts_with("sync: as expected\n"), "{}", said.out);
    assert!(said.out.contains(failed) && !said.out.contains("no such run"), "{}", said.out);
    assert!(said.err.contains("run `async`: Unavailable"), "{}", said.err);
    let suite = fs::read_to_string(junit).unwrap();
    assert!(suite.contains(r#"tests="2" failures="1">"#), "{suite}");
    assert!(suite.contains("<failure message=\"failed: Unavailable: "), "{suite}");

    let updated = check(&path, expect, &["--update"]);
    assert_eq!(updated.code, 12, "{}", updated.err);
    assert_eq!(fs::read_to_string(expect).unwrap(), before, "what was expected of it is kept");
}
