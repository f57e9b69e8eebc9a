//! Errors of a scenario, with the place in the file and a likely correction.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::key_path::{self, KeyPath};
use super::synonyms;

/// The error of a scenario that can't be used. The user can mend any of them: exit code 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("{origin}: can't read it: {reason}{}", next(.reason))]
    Unreadable {
        /// The file.
        origin: String,
        /// The system's error.
        reason: std::io::Error,
    },
    /// The text is not TOML, or has a key or value that no scenario has.
    #[error("{origin}:{line}:{column}: {message}{}\n{excerpt}", help(.suggestion))]
    Malformed {
        /// The file.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// The column \[characters\], from 1.
        column: usize,
        /// The problem.
        message: String,
        /// The offending line, with the offending part marked under it.
        excerpt: String,
        /// What was probably meant: an expected name, or the path of a key.
        suggestion: Option<String>,
    },
    /// The file is well formed, but contradictory or out of range; all mistakes at once.
    #[error("{}", list(.origin, .mistakes))]
    Invalid {
        /// The file.
        origin: String,
        /// The mistakes, at least one, in the order of their lines.
        mistakes: Vec<Mistake>,
    },
    /// A change, such as a `--set` or a run's own, does not fit the file.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// The error of a `--set`, `--unset` or `--sweep`, or of a run's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// It is not written `path=value`.
    #[error(
        "`{0}` is no `path=value`; write, for example, `network.latency=1ms` or `run.0.mode=async`"
    )]
    Unreadable(String),
    /// A sweep is not written `path=a,b,c`.
    #[error("`{0}` is no `path=a,b,c`; write, for example, `cluster.worker=4,8,16`")]
    NoSweep(String),
    /// A value of a sweep is missing.
    #[error("`{0}` has an empty value; write `path=a,b,c`")]
    EmptyValue(String),
    /// Two sweeps give values to one key.
    #[error("`{path}` is swept twice; write `--sweep {path}={values}`")]
    SweptTwice {
        /// The path to the key.
        path: String,
        /// The values of all its sweeps.
        values: String,
    },
    /// A run has its own value of a key that is swept.
    #[error(
        "`{path}` takes several values, but not in run `{run}`, which has its own `{own}`: its \
         rows would be alike under different names; remove that from the run, or name the other \
         runs with `--run`"
    )]
    OfRunItself {
        /// The path to the key.
        path: String,
        /// The run's name.
        run: String,
        /// The key that the run sets or removes: the same, one in it, or one around it.
        own: String,
    },
    /// It is not written as the path to a key.
    #[error(
        "`{0:.100}` is no path to a key; write at most {most} names, for example, \
         `compute.straggler` or `fault.0`",
        most = key_path::MOST
    )]
    NoPath(String),
    /// The scenario has no such place.
    #[error("`{setting}`: `{at}` is {found}")]
    NoSuchPlace {
        /// The setting.
        setting: String,
        /// The part of its path that exists.
        at: String,
        /// The value there, and what to write instead.
        found: String,
    },
    /// The change makes the file invalid.
    #[error("`{setting}`: {message}{}", help(.suggestion))]
    Rejected {
        /// The setting.
        setting: String,
        /// The problem.
        message: String,
        /// What was probably meant: an expected name, or the path of a key.
        suggestion: Option<String>,
    },
}

/// One mistake, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The key, such as `run[1].mode.sync.backups`.
    pub path: String,
    /// The line of the key, or of the section that lacks it; from 1. None if the file has neither,
    /// or if `--set` changed it.
    pub line: Option<usize>,
    /// The problem, and what to write instead.
    pub text: String,
}

impl ScenarioError {
    /// The error `error` of `text`, with the line it is in and a suggestion added.
    pub(super) fn malformed(origin: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        let position = TextPosition::of(text, span.start);
        Self::Malformed {
            origin: origin.to_owned(),
            line: position.line,
            column: position.column,
            message: in_words(error.message()),
            excerpt: position.excerpt(text, &span),
            suggestion: suggestion(error.message()),
        }
    }
}

impl ScenarioError {
    /// The error `error` of the value at `path`; `text` is the file, if its lines still apply.
    pub(super) fn of_key(
        origin: &str,
        text: Option<&str>,
        path: String,
        error: &toml::de::Error,
    ) -> Self {
        let line = text.and_then(|text| line_of(text, &path));
        let text = in_words(error.message()) + &help(&suggestion(error.message()));
        let mistakes = vec![Mistake { path, line, text }];
        Self::Invalid { origin: origin.to_owned(), mistakes }
    }

    /// The error of run `index`'s own scenario; `text` is the file, if its lines still apply, and
    /// `set` the keys that the run gives values to.
    pub(super) fn within(self, index: usize, text: Option<&str>, set: &[KeyPath]) -> Self {
        let is_own = |path: &str| {
            KeyPath::parse(path).is_none_or(|path| set.iter().any(|own| own.overlaps(&path)))
        };
        let of_run = |mut mistake: Mistake| {
            // Its own scenario has only this run.
            let path = match mistake.path.strip_prefix("run[0]") {
                Some(rest) => format!("run[{index}]{rest}"),
                None if is_own(&mistake.path) => format!("run[{index}].set.{}", mistake.path),
                None => {
                    append!(
                        mistake.text,
                        "; this is so in run[{index}], whose `set` changes only the keys that it \
                         names: its `unset` removes others"
                    );
                    mistake.path.clone()
                }
            };
            Mistake { line: text.and_then(|text| line_of(text, &path)), path, ..mistake }
        };
        match self {
            Self::Invalid { origin, mistakes } => {
                Self::Invalid { origin, mistakes: mistakes.into_iter().map(of_run).collect() }
            }
            other => other,
        }
    }
}

/// What serde expects, by its name for a type of ours, and what to write.
const TYPES: [(&str, &str); 14] = [
    ("u64", "a whole number from 0"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("usize", "a whole number from 0"),
    ("a nonzero u64", "a whole number from 1"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("a nonzero usize", "a whole number from 1"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("a sequence", "a list, such as [1, 2]"),
    ("a map", "a table, such as { key = value }"),
    ("a boolean", "true or false"),
    ("unit", "nothing"),
];

/// serde's `message` without Rust's names for types.
pub(super) fn in_words(message: &str) -> String {
    let of_a_name = ["invalid type: unit variant, expected string only", "wanted string or table"];
    if of_a_name.contains(&message) {
        return "the value is a name, such as one in quotes".to_owned();
    }
    let message = message.replacen("invalid type: sequence,", "invalid type: a list,", 1);
    let message = message.replacen("invalid type: map,", "invalid type: a table,", 1);
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message };
    if let Some(rest) = expected.strip_prefix("an array of length ") {
        return format!("{found}, expected a list of {rest} values");
    }
    let known = TYPES.iter().find(|(name, _)| *name == expected).map(|(_, words)| *words);
    if let Some(number) = beyond_64_bits(found).filter(|_| known.is_some()) {
        return format!("{number} is not from {} to {}", i64::MIN, i64::MAX);
    }
    match known {
        Some(words) => format!("{found}, expected {words}"),
        None if expected.starts_with("struct ") => {
            format!("{found}, expected a table, such as {{ key = value }}")
        }
        None => message,
    }
}

/// The whole number that serde `found` as text: from a command line, one beyond 64 bits is read so.
fn beyond_64_bits(found: &str) -> Option<&str> {
    let text = found.strip_prefix("invalid type: string \"")?.strip_suffix('"')?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_whole && text.parse::<i64>().is_err()).then_some(text)
}

/// What was meant, from serde's message about an unknown name, "unknown field `a`, expected `b` or
/// `c`": our word for one of other systems, or the expected name that is most like the found one.
pub(super) fn suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let (found, names) = (names.next()?, names.collect::<Vec<_>>());
    let meant = synonyms::meant(found, &names).or_else(|| most_like(found, names.iter().copied()));
    let meant = meant.or_else(|| synonyms::nearly_meant(found, &names));
    // The only name that is expected is said already.
    meant.filter(|meant| names != [*meant]).map(str::to_owned)
}

/// A list of `keys` for errors, with a `word` before the last.
pub(super) fn listed<'a>(keys: impl IntoIterator<Item = &'a str>, word: &str) -> String {
    let keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}`")).collect();
    match keys.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {word} {last}", others.join(", ")),
    }
}

/// The one of `names` that is most like `found`, if any is similar enough.
pub(super) fn most_like<'a>(
    found: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let found = found.to_lowercase();
    let likeness = |name: &str| match strsim::damerau_levenshtein(&found, name) {
        0 => 2.0,
        1 => 1.0, // one slip of a finger: in short names the other measure asks too much
        _ => strsim::jaro_winkler(&found, name),
    };
    let rated = names.into_iter().map(|name| (likeness(name), name));
    rated
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.len().cmp(&a.1.len())))
        .map(|(_, name)| name)
}

/// "; did you mean ...?", or nothing.
fn help(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// What to do about a file that can't be read.
fn next(reason: &std::io::Error) -> &'static str {
    match reason.kind() {
        std::io::ErrorKind::NotFound => {
            "; check the path (`trainyard init` writes a first scenario)"
        }
        std::io::ErrorKind::IsADirectory => "; name a file in it",
        _ => "",
    }
}

/// The line of the key at `path` in `text`, or of the innermost section around it.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let path = KeyPath::parse(path)?;
    let (first, rest) = path.segments().split_first()?;
    let mut found = document.get_ref().get(first.as_str())?;
    for segment in rest {
        let inner = match found.get_ref() {
            DeValue::Table(table) => table.get(segment.as_str()),
            DeValue::Array(array) => segment.parse().ok().and_then(|index: usize| array.get(index)),
            _ => None,
        };
        match inner {
            Some(inner) => found = inner,
            None => break,
        }
    }
    Some(TextPosition::of(text, found.span().start).line)
}

/// One line for each of `mistakes`, which all have the same `kind`.
fn list(origin: &str, mistakes: &[Mistake]) -> String {
    let one = |Mistake { path, line, text }: &Mistake| {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{origin}{line}: {path}: {text}")
    };
    mistakes.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A place in a text, counted from 1, and the byte where its line begins.
struct TextPosition {
    line: usize,
    column: usize,
    line_start: usize,
}

impl TextPosition {
    fn of(text: &str, offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            line_start,
        }
    }

    /// The line, and under it a mark as long as the part of `span` that is on it.
    fn excerpt(&self, text: &str, span: &Range<usize>) -> String {
        let line = text[self.line_start..].lines().next().unwrap_or_default();
        let line_end = self.line_start + line.len();
        let marked =
            text.get(span.start..span.end.min(line_end)).map_or(0, |part| part.chars().count());
        let number = self.line.to_string();
        let (gutter, indent) = (" ".repeat(number.len()), " ".repeat(self.column - 1));
        format!("{gutter} |\n{number} | {line}\n{gutter} | {indent}{}", "^".repeat(marked.max(1)))
    }
}
