//! The one grammar of job names.

/// The error of a text that is not a job name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobNameError {
    /// The name has a hyphen: the most common mistake, since Kubernetes and DNS names have them.
    #[error(
        "job name `{0}` has a hyphen, which a device name such as `/job:NAME/task:0` cannot carry; \
         write `{fixed}`",
        fixed = .0.replace('-', "_")
    )]
    Hyphen(String),
    /// Any other text outside the grammar.
    #[error(
        "`{0}` is not a job name; write a letter (A-Z, a-z), then letters, digits and `_`, such as \
         `worker`"
    )]
    Grammar(String),
}

/// Whether `name` is `[A-Za-z][A-Za-z0-9_]*`.
pub(super) fn check_job_name(name: &str) -> Result<(), JobNameError> {
    if is_word(name) {
        Ok(())
    } else if is_word(&name.replace('-', "_")) {
        Err(JobNameError::Hyphen(name.to_owned()))
    } else {
        Err(JobNameError::Grammar(name.to_owned()))
    }
}

/// Whether `name` is a letter, then letters, digits and `_`: also the grammar of device types.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses a number of decimal digits only; `u32::from_str` also takes a sign.
pub(super) fn parse_index(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hyphen_is_refused_with_the_reason_and_the_name_to_write() {
        let error = check_job_name("my-ps").unwrap_err().to_string();
        assert!(error.contains("hyphen") && error.contains("`my_ps`"), "{error}");
    }

    #[test]
    fn a_job_name_starts_with_a_letter_and_has_no_other_signs_than_underscores() {
        for name in ["ps", "Worker_2", "a"] {
            assert_eq!(check_job_name(name), Ok(()));
        }
        for name in ["", "1ps", "_ps", "ps:0", "ps/0", "büro", "p s", "-"] {
            assert_eq!(check_job_name(name), Err(JobNameError::Grammar(name.to_owned())));
        }
    }
}
