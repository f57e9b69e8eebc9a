//! The path to a key of a scenario: `run[1].mode`, `run.1.mode`, `compute.slow."worker:3"`.

use std::fmt;

/// The most names and indices of a path: several times as many as any key has. Tables as deep as a
/// path of any length would overflow the stack.
pub(super) const MOST: usize = 32;

/// The names and indices on the way to a key; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPath(Vec<String>);

impl KeyPath {
    /// Parses `text`; none if a name is empty, a quote or bracket is left open, or there are more
    /// than [`MOST`] names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut segments = Vec::new();
        let mut rest = text.trim();
        loop {
            let (segment, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => rest.split_at(rest.find(['.', '[', '"']).unwrap_or(rest.len())),
            };
            if segment.is_empty() {
                return None;
            }
            segments.push(segment.to_owned());
            rest = after;
            while let Some(bracketed) = rest.strip_prefix('[') {
                let (index, after) = bracketed.split_once(']')?;
                segments.push(index.parse::<usize>().ok()?.to_string());
                rest = after;
            }
            match rest.strip_prefix('.') {
                Some(next) => rest = next,
                None if rest.is_empty() && segments.len() <= MOST => return Some(Self(segments)),
                None => return None,
            }
        }
    }

    /// The path to the key `name` of the whole scenario.
    pub(super) fn of(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// The names and indices, outermost first.
    pub(super) fn segments(&self) -> &[String] {
        &self.0
    }

    /// The path to `name` in the table at this path.
    pub(super) fn within(mut self, name: &str) -> Self {
        self.0.push(name.to_owned());
        self
    }

    /// Whether one is the other, or leads to it: a change of one is a change of the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(one, other)| one == other)
    }

    /// The first `length` of the names, as a path.
    pub(super) fn prefix(&self, length: usize) -> Self {
        Self(self.0[..length].to_vec())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            let dot = if position == 0 { "" } else { "." };
            let plain =
                segment.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
            let quote = if plain { "" } else { "\"" };
            write!(f, "{dot}{quote}{segment}{quote}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_may_be_written_with_dots_or_brackets_and_names_with_quotes() {
        let segments = |text: &str| KeyPath::parse(text).map(|path| path.to_string());
        assert_eq!(
            segments("run[1].mode.sync.backups").as_deref(),
            Some("run.1.mode.sync.backups")
        );
        assert_eq!(segments("run.1.mode").as_deref(), Some("run.1.mode"));
        assert_eq!(
            segments("compute.slow.\"worker:3\"").as_deref(),
            Some("compute.slow.\"worker:3\"")
        );
        assert_eq!(segments("compute.slow.worker:3").as_deref(), Some("compute.slow.\"worker:3\""));
        assert_eq!(segments("cluster.\"a.b\"[0]").as_deref(), Some("cluster.\"a.b\".0"));
    }

    #[test]
    fn a_path_of_more_names_than_any_key_has_is_none() {
        let names = |count: usize| vec!["a"; count].join(".");
        assert!(KeyPath::parse(&names(MOST)).is_some());
        assert_eq!(KeyPath::parse(&names(MOST + 1)), None);
        assert_eq!(KeyPath::parse(&format!("a{}", "[0]".repeat(MOST))), None);
    }

    #[test]
    fn a_path_with_an_empty_name_or_an_open_quote_is_none() {
        for text in ["", ".", "a..b", "a.", "a.\"b", "run[1", "run[x]", "a\"b\""] {
            assert_eq!(KeyPath::parse(text), None, "{text}");
        }
    }
}
