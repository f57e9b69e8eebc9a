//! Tests of the error for each mistake in a scenario file.

use proptest::prelude::*;

use super::*;

/// Asserts that the error of a malformed file says `message` at `place`, and marks `marked` in the
/// line.
#[track_caller]
fn malformed(text: &str, place: &str, marked: &str, message: &str) {
    let said = example(text).unwrap_err().to_string();
    let (first, excerpt) = said.split_once('\n').unwrap();
    assert_eq!(first, format!("sims/example.toml:{place}: {message}"));
    let [_, line, marks] = excerpt.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let start = marks.chars().position(|c| c == '^').unwrap();
    let length = marks.chars().filter(|c| *c == '^').count();
    assert_eq!(line.chars().skip(start).take(length).collect::<String>(), marked, "{said}");
}

#[test]
fn an_unknown_key_is_shown_in_its_line_with_the_one_probably_meant() {
    let error = example("seed = 7\n\n[compute]\nnumeric = \"real\"\n").unwrap_err();
    let expected = "\
sims/example.toml:4:1: unknown field `numeric`, expected one of `preset`, `rate`, `memory`, \
`efficiency`, `devices`, `straggler`, `slow`, `step_time`, `stop_cost`, `numerics`, `tasks`; did \
you mean `numerics`?
  |
4 | numeric = \"real\"
  | ^^^^^^^";
    assert_eq!(error.to_string(), expected);
    let ScenarioError::Malformed { line: 4, column: 1, suggestion: Some(name), .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(name, "numerics");
}

#[test]
fn an_unknown_key_like_no_other_is_shown_without_a_guess() {
    malformed(
        "[stop]\nwhen = 3",
        "2:1",
        "when",
        "unknown field `when`, expected one of `steps`, `samples`, `epochs`, `accuracy`, \
         `evaluate_every`, `evaluate_every_samples`, `time`",
    );
}

#[test]
fn an_unknown_value_is_shown_in_its_line_with_the_one_probably_meant() {
    malformed(
        "[program]\nmodel = \"mpl\"",
        "2:9",
        "\"mpl\"",
        "unknown variant `mpl`, expected one of `softmax`, `mlp`, `convnet`, `embedding`, \
         `alexnet`, `vgg16`, `inception_v3`, `resnet50`, `null`, `count`; did you mean `mlp`?",
    );
    malformed(
        "[program]\ndataset = \"digit\"",
        "2:11",
        "\"digit\"",
        "unknown variant `digit`, expected `digits`",
    );
    malformed(
        "[program]\noptimizer = { rule = \"adgrad\" }",
        "2:22",
        "\"adgrad\"",
        "unknown variant `adgrad`, expected one of `adadelta`, `adagrad`, `adagrad_da`, `adam`, \
         `adamw`, `ftrl`, `gradient_descent`, `lamb`, `momentum`, `proximal_adagrad`, \
         `proximal_gradient_descent`, `rms_prop`; \
         did you mean `adagrad`?",
    );
    malformed(
        "[compute]\nstraggler = { law = \"log_normal\" }",
        "2:21",
        "\"log_normal\"",
        "unknown variant `log_normal`, expected one of `constant`, `uniform`, `exponential`, \
         `shifted_exponential`, `lognormal`, `pareto`, `weibull`, `empirical`; did you mean \
         `lognormal`?",
    );
}

#[test]
fn a_mode_that_there_is_not_is_shown_in_its_line() {
    let (last, others) = Mode::EXAMPLES.split_last().unwrap();
    let forms = format!("one of {} and {last}", others.join(", "));
    let names = format!("expected one of `{}`", Mode::NAMES.join("`, `"));
    assert!(
        forms
            .starts_with("one of \"async\", \"sync\", { sync = { backups = 1, cancel = true } }, "),
        "{forms}"
    );
    malformed(
        "[[run]]\nmode = \"asinc\"",
        "2:8",
        "\"asinc\"",
        &format!("unknown variant `asinc`, {names}; did you mean `async`?"),
    );
    malformed(
        "[[run]]\nmode = { snyc = { backups = 1 } }",
        "2:10",
        "snyc",
        &format!("unknown field `snyc`, {names}; did you mean `sync`?"),
    );
    malformed(
        "[[run]]\nmode = { sync = { backup = 1 } }",
        "2:19",
        "backup",
        "unknown field `backup`, expected `backups` or `cancel`; did you mean `backups`?",
    );
    malformed(
        "[[run]]\nmode = \"bounded_staleness\"",
        "2:8",
        "\"bounded_staleness\"",
        &format!("invalid value: string \"bounded_staleness\", expected {forms}"),
    );
    let two = "{ sync = {}, bounded_staleness = { slack = 1 } }";
    let message = format!("invalid value: not exactly one mode, expected {forms}");
    malformed(&format!("[[run]]\nmode = {two}"), "2:8", two, &message);
    malformed(
        "[[run]]\nmode = 3",
        "2:8",
        "3",
        &format!("invalid type: integer `3`, expected {forms}"),
    );
    malformed("[[run]]\nname = \"a\"", "1:1", "[[run]]", "missing field `mode`");
}

#[test]
fn a_value_of_the_wrong_type_or_unit_is_shown_in_its_line() {
    let units = "write a number and one of ns, us, µs, ms, s, min, h, such as `50us`";
    malformed(
        "[network]\nlatency = \"50\"",
        "2:11",
        "\"50\"",
        &format!("`50` is no length of time; {units}"),
    );
    let tasks = "expected a number of tasks or a list of \"host:port\"";
    malformed(
        "[cluster]\nworker = -1",
        "2:10",
        "-1",
        &format!("invalid value: integer `-1`, {tasks}"),
    );
    malformed(
        "[cluster]\nworker = \"b:1\"",
        "2:10",
        "\"b:1\"",
        &format!("invalid type: string \"b:1\", {tasks}"),
    );
}

#[test]
fn what_is_no_toml_is_shown_in_its_line() {
    malformed("seed = 7\nseed = 8", "2:1", "seed", "duplicate key");
    malformed("name = \"é\" 8", "1:12", "8", "unexpected key or value, expected newline, `#`");
    let cut = example("[cluster").unwrap_err().to_string();
    assert_eq!(
        cut,
        "sims/example.toml:1:9: unclosed table, expected `]`\n  |\n1 | [cluster\n  |         ^"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = load(Path::new("sims/no_such.toml"), &[]).unwrap_err();
    assert!(matches!(error, ScenarioError::Unreadable { .. }));
    assert!(error.to_string().starts_with("sims/no_such.toml: can't read it: "), "{error}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        text in "\\PC*",
        broken in "[a-z=\\[\\]{}\".,é \n]{0,40}",
        cut in 0_usize..2200,
    ) {
        drop(example(&text));
        drop(example(&broken));
        drop(text.parse::<Change>());
        let shipped = include_str!("../../../sims/sync_vs_async.toml");
        let (before, after) = shipped.split_at(cut.min(shipped.len()));
        drop(example(&format!("{before}{broken}{after}")));
    }
}

#[test]
fn a_compression_that_sends_nothing_is_refused_with_its_place() {
    let said = |text: &str| example(text).unwrap_err().to_string();
    let network = said("[network]\ncompression = { top_k = { fraction = 1.5 } }");
    assert!(
        network.contains(":2: network.compression.top_k.fraction: 1.5 must be above 0"),
        "{network}"
    );
    let run = said("[[run]]\nmode = \"sync\"\ncompression = { top_k = { fraction = 0 } }");
    assert!(run.contains(":3: run[0].compression.top_k.fraction: 0 must be above 0"), "{run}");
    malformed(
        "[network]\ncompression = { int8 = { block = 0 } }",
        "2:34",
        "0",
        "invalid value: integer `0`, expected a whole number from 1 to 4294967295",
    );
    malformed(
        "[network]\ncompression = \"bf61\"",
        "2:15",
        "\"bf61\"",
        "unknown variant `bf61`, expected one of `none`, `bf16`, `int8`, `top_k`; did you mean \
         `bf16`?",
    );
}
