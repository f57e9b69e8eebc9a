//! What of a run is not as expected, in the words of the file.

use super::*;

#[test]
fn an_end_that_is_not_as_expected_is_told_in_the_words_that_the_file_takes() {
    let missed = Run { end: End::TargetNotReached, ..run("sync", None, 1.0) };
    let before = Report { runs: vec![run("sync", None, 1.0)], ..report() };
    let text = Expectations::of(&before, None).text();
    let expected = Expectations::parse(&text).unwrap();
    let found = expected.check(&Report { runs: vec![missed], ..report() }, true).remove(0);
    assert_eq!(found.differences, ["end: target_not_reached, but done is expected"]);
    assert!(text.contains("end = \"done\"\n"), "{text}");
}
