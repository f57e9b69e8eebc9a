//! The mistakes in a scenario, noted one by one and reported all at once.

use std::path::Path;

use super::error::{Mistake, ScenarioError, line_of};

/// The mistakes found so far: keys, each with a message.
#[derive(Default)]
pub(super) struct Mistakes {
    mistakes: Vec<(String, String)>,
}

impl Mistakes {
    pub(super) fn note(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.mistakes.push((path.into(), text.into()));
    }

    /// Notes, at the `key` that names it, the mistakes `of` the file at `path`, which has this
    /// `text`.
    pub(super) fn note_all(&mut self, key: &str, path: &Path, text: &str, of: Self) {
        for (inner, said) in of.mistakes {
            let line = line_of(text, &inner).map(|line| format!(":{line}")).unwrap_or_default();
            self.note(key, format!("{}{line}: {inner}: {said}", path.display()));
        }
    }

    pub(super) fn unless(
        &mut self,
        right: bool,
        path: impl Into<String>,
        text: impl FnOnce() -> String,
    ) {
        if !right {
            self.note(path, text());
        }
    }

    pub(super) fn at_least_1(&mut self, number: u64, path: &str) {
        self.unless(number >= 1, path, || "0 must be at least 1".to_owned());
    }

    pub(super) fn at_most(&mut self, number: usize, most: usize, path: &str) {
        self.unless(number <= most, path, || format!("{number} must be at most {most}"));
    }

    pub(super) fn above_0(&mut self, number: f64, path: &str) {
        self.unless(number > 0.0, path, || "must be above 0".to_owned());
    }

    /// Notes a `name` that can't be read in a table or a file's path.
    pub(super) fn printable(&mut self, name: &str, path: &str) {
        let is_blank = name.trim().is_empty();
        self.unless(!is_blank && !name.contains(char::is_control), path, || {
            let what = if is_blank { "is empty" } else { "has control characters" };
            format!("the name {name:?} {what}; it stands in tables and names folders: give another")
        });
    }

    /// Fails if anything was noted. `text` is the file, or none if its lines no longer apply.
    pub(super) fn settle(self, origin: &str, text: Option<&str>) -> Result<(), ScenarioError> {
        let located = |found: Vec<(String, String)>| -> Vec<Mistake> {
            let locate = |(path, said): (String, String)| {
                let line = text.and_then(|text| line_of(text, &path));
                Mistake { path, line, text: said }
            };
            let mut located: Vec<_> = found.into_iter().map(locate).collect();
            located.sort_by_key(|mistake| mistake.line);
            located
        };
        let origin = origin.to_owned();
        if !self.mistakes.is_empty() {
            return Err(ScenarioError::Invalid { origin, mistakes: located(self.mistakes) });
        }
        Ok(())
    }
}
