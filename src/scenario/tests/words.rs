//! Tests of the words in which a mistake is told, and of what was probably meant.

use super::*;

#[test]
fn a_wrong_type_is_told_in_the_words_of_a_scenario_and_not_of_rust() {
    for (text, words) in [
        ("seed = -1", "expected a whole number from 0"),
        (
            "[[run]]\nmode = { elastic_averaging = { every = 9223372036854775807, alpha = 0.1 } }",
            "expected a whole number from 0 to 4294967295",
        ),
        (
            "seed = '99999999999999999999'",
            "is not from -9223372036854775808 to 9223372036854775807",
        ),
        ("stop.accuracy = 'x'", "expected a number"),
        ("program.hidden = 'x'", "expected a list, such as [1, 2]"),
        ("cluster = [1, 2]", "invalid type: a list, expected a table, such as { key = value }"),
        ("stop = 3", "expected a table, such as { key = value }"),
        ("program.model = 3", "the value is a name, such as one in quotes"),
        ("program.dataset = 'mnist'", "`idx` reads the files"),
    ] {
        let told = parse(text, "a.toml").unwrap_err().to_string();
        assert!(told.contains(words), "{text}: {told}");
    }
}

#[test]
fn of_names_that_are_equally_like_the_same_in_other_letters_is_meant() {
    let meant = |text: &str| parse(text, "a.toml").unwrap_err().to_string();
    assert!(meant("program.optimizer = 'Adam'").contains("did you mean `adam`?"));
    assert!(meant("program.optimizer = 'sgdd'").contains("did you mean `gradient_descent`?"));
    let all_reduce = meant("[[run]]\nname = 'a'\nmode = 'allreduce'");
    assert!(all_reduce.contains("did you mean `program.all_reduce`?"), "{all_reduce}");
}
