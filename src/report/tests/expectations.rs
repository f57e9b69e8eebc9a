//! What of a run is not as expected, in the words of the file.

use super::*;

const NONE_FAILED: BTreeMap<String, String> = BTreeMap::new();

#[test]
fn an_end_that_is_not_as_expected_is_told_in_the_words_that_the_file_takes() {
    let missed = Run { end: End::TargetNotReached, ..run("sync", None, 1.0) };
    let before = Report { runs: vec![run("sync", None, 1.0)], ..report() };
    let text = Expectations::of(&before, None).text();
    let expected = Expectations::parse(&text).unwrap();
    let report = Report { runs: vec![missed], ..report() };
    let found = expected.check(&report, &NONE_FAILED, true).remove(0);
    assert_eq!(found.differences, ["end: target_not_reached, but done is expected"]);
    assert!(text.contains("end = \"done\"\n"), "{text}");
}

#[test]
fn accuracy_and_loss_are_held_within_the_tolerance_and_files_without_them_say_nothing_of_them() {
    let of = |accuracy: f64, loss: f64| {
        let learnt =
            Run { test_accuracy: Some(accuracy), final_loss: Some(loss), ..run("a", None, 1.0) };
        Report { runs: vec![learnt], ..report() }
    };
    let text = Expectations::of(&of(0.95, 0.2), None).text();
    let differences = |text: &str, found: &Report| {
        Expectations::parse(text).unwrap().check(found, &NONE_FAILED, true).remove(0).differences
    };
    let nothing: [String; 0] = [];
    assert_eq!(differences(&text, &of(0.94, 0.202)), nothing);
    let found = differences(&text, &of(0.5, 0.4));
    assert!(found.len() == 2 && found[0].starts_with("test_accuracy: 0.5 is -47.4 %"), "{found:?}");
    assert!(found[1].starts_with("final_loss: 0.4 is +100.0 %"), "{found:?}");
    let earlier = "[run.a]\nend = \"done\"\n";
    assert_eq!(differences(earlier, &of(0.5, 0.4)), nothing);
    let kept = Expectations::parse(earlier).unwrap();
    assert!(!Expectations::of(&of(0.5, 0.4), Some(&kept)).text().contains("final_loss"));
    let diverged = of(0.1, f64::NAN);
    let text = Expectations::of(&diverged, None).text();
    assert_eq!(differences(&text, &diverged), nothing, "{text}");
}

#[test]
fn a_run_that_failed_is_not_as_expected_and_is_no_run_that_the_scenario_lacks() {
    let expected = Expectations::parse("[run.lost]\nend = 'done'\n[run.sync]\nend = 'done'\n");
    let report = Report { runs: vec![run("sync", None, 1.0)], ..report() };
    let failed = [("lost".to_owned(), "NanLoss: x".to_owned())].into();
    let found = expected.unwrap().check(&report, &failed, true);
    let found: Vec<_> = found.iter().map(|one| (&*one.name, &*one.differences)).collect();
    assert_eq!(found, [("sync", &[][..]), ("lost", &["failed: NanLoss: x".to_owned()])]);
}

#[test]
fn the_file_has_what_a_run_came_to_in_this_order_and_each_key_is_held_and_kept_by_itself() {
    let end = Run {
        digest: Some("a".to_owned()),
        weights_digest: Some("b".to_owned()),
        seconds_to_target: Some(2.0),
        samples_per_second: 3.0,
        bytes_sent: [(TaskName::new("ps", 0), 4)].into(),
        test_accuracy: Some(0.5),
        final_loss: Some(6.0),
        ..run("sync", None, 1.0)
    };
    let of = |run: &Run| Report { runs: vec![run.clone()], ..report() };
    let text = Expectations::of(&of(&end), None).text();
    let lines = [
        "end = \"done\"",
        "digest = \"a\"",
        "weights_digest = \"b\"",
        "seconds_to_target = 2.0",
        "samples_per_second = 3.0",
        "bytes_sent = 4.0",
        "test_accuracy = 0.5",
        "final_loss = 6.0",
    ];
    assert_eq!(text, format!("tolerance = 0.02\n\n[run.sync]\n{}\n", lines.join("\n")));
    let other = Run {
        end: End::TargetNotReached,
        digest: None,
        weights_digest: Some("c".to_owned()),
        seconds_to_target: None,
        samples_per_second: 4.0,
        bytes_sent: [(TaskName::new("ps", 0), 5)].into(),
        test_accuracy: Some(0.6),
        final_loss: Some(7.0),
        ..end.clone()
    };
    for line in lines {
        let kept = Expectations::parse(&format!("[run.sync]\n{line}\n")).unwrap();
        let again = Expectations::of(&of(&end), Some(&kept));
        assert_eq!(again, kept, "no other key is added");
        let found = kept.check(&of(&other), &NONE_FAILED, true).remove(0).differences;
        let (key, _) = line.split_once(" = ").unwrap();
        assert!(found.len() == 1 && found[0].starts_with(&format!("{key}: ")), "{found:?}");
        assert!(kept.check(&of(&end), &NONE_FAILED, true)[0].differences.is_empty());
    }
    let unknown = Expectations::parse("[run.sync]\nlosses = 6.0\n").unwrap_err();
    assert!(unknown.contains("unknown field `losses`, expected one of `end`, `d"), "{unknown}");
}
