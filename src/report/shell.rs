//! Commands as a shell takes them, to be copied from a report.

/// The words of a command in one line.
pub(crate) fn typed(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_each_word_as_it_is() {
        let words = ["echo", "a=1", "", "two words", "it's", "[{ crash = 'ps:0' }]"];
        let line = typed(&words.map(str::to_owned));
        let output = std::process::Command::new("sh")
            .args(["-c", &line.replace("echo", r"printf '%s\n'")])
            .output();
        let printed = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>(), &words[1..], "{line}");
    }
}
