//! The house rules that the compiler and clippy (`clippy.toml`) do not keep: layers, circles,
//! lengths of lines and files, first lines, and where code may be `unsafe`.
//!
//! The source is read as text. Comments and literals are blanked first, so a rule sees code alone;
//! beyond that the reading is rough, and the self-tests at the end say what it is good for.

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/guides.rs"]
mod guides;

use std::fs;
use std::path::Path;

/// Which modules a module of the library may name, besides itself. `ALL` may name every one.
/// `lib.rs`, `main.rs` and `prelude` join the modules and may name all.
const LAYERS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("random", &[]),
    ("planted", &[]),
    ("event_file", &[]),
    ("process", &[]),
    ("user_file", &[]),
    ("say", &[]),
    ("on_actix", &[]), // of tests alone
    ("tensor", &["units", "say"]),
    ("cluster", &["units"]),
    ("faults", &["cluster", "units"]),
    ("graph", &["tensor", "cluster", "sync", "random"]),
    ("kernels", &["tensor", "graph", "random"]),
    ("operations", &["tensor", "graph", "kernels", "random", "say"]),
    ("placement", &["graph", "cluster", "kernels"]),
    ("partition", &["graph", "cluster"]),
    ("optimizer", &["tensor", "kernels", "graph", "operations", "sync"]),
    ("sync", &["cluster", "units"]),
    ("clock", &["units"]),
    ("transport", &["cluster", "tensor", "units", "clock", "user_file", "process", "say"]),
    ("runtime", &[BELOW]),
    ("checkpoint", &["runtime", BELOW]),
    ("data", &["runtime", BELOW]),
    ("models", &["data", "runtime", BELOW]),
    ("training", &["checkpoint", "data", "models", "import", "runtime", BELOW]),
    ("import", &["tensor", "cluster", "graph", "operations", "optimizer", "runtime"]),
    ("tape", &["runtime", BELOW]),
    ("simulation", &["tape", "runtime", BELOW]),
    ("live", &["training", "cluster", "process", "units"]),
    ("deployment", &["live", "tape", "training", "checkpoint", "runtime", BELOW]),
    (
        "scenario",
        &[
            "simulation",
            "training",
            "checkpoint",
            "data",
            "models",
            "import",
            "report",
            "runtime",
            BELOW,
        ],
    ),
    (
        "experiment",
        &[
            "scenario",
            "simulation",
            "deployment",
            "live",
            "tape",
            "training",
            "checkpoint",
            "data",
            "models",
            "import",
            "report",
            "runtime",
            BELOW,
        ],
    ),
    ("report", &["training", "units", "cluster", "event_file"]),
    ("cli", &[ALL]),
    ("prelude", &[ALL]),
    ("docs", &[]),
    ("lib", &[ALL]),
    ("main", &[ALL]),
];
const ALL: &str = "*";
/// In `LAYERS`, stands for all of `BELOW_RUNTIME`.
const BELOW: &str = "below runtime";
const BELOW_RUNTIME: &[&str] = &[
    "units",
    "random",
    "planted",
    "faults",
    "event_file",
    "process",
    "user_file",
    "say",
    "tensor",
    "cluster",
    "graph",
    "kernels",
    "operations",
    "placement",
    "partition",
    "optimizer",
    "sync",
    "clock",
    "transport",
];

/// The places whose code may be `unsafe`: the lint `unsafe_code` can be lifted anywhere.
const UNSAFE: [&str; 2] = ["src/kernels.rs", "src/kernels/"];

/// Rows of a table in a doc comment may be longer: Markdown has no other way to write one.
const COLUMNS: usize = 100;
const FILE_LINES: usize = 500;

/// One source file: its path from the repository's root, its text, and its text with comments and
/// the contents of literals blanked, line for line.
struct Source {
    path: String,
    text: String,
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    /// The top-level module that a file of the library belongs to.
    fn module(&self) -> Option<&str> {
        let inner = self.path.strip_prefix("src/")?;
        if inner.starts_with("bin/") {
            return Some("main");
        }
        Some(inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs"))
    }

    /// Whether it is of tests alone: a module's tests may use what is built on the module.
    fn is_unit_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn finding(&self, at: usize, what: impl std::fmt::Display) -> String {
        let line = self.code[..at].matches('\n').count() + 1;
        format!("{}:{line}: {what}", self.path)
    }

    /// Where `text` is in the code, not as a part of a longer name.
    fn places<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        self.code.match_indices(text).map(|(at, _)| at).filter(move |at| {
            let (before, after) = (&self.code[..*at], &self.code[at + text.len()..]);
            let joins_before = before.ends_with(is_name) && text.starts_with(is_name);
            let joins_after = text.ends_with(is_name) && after.starts_with(is_name);
            !joins_before && !joins_after
        })
    }
}

#[test]
fn the_source_keeps_the_house_rules() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let mut files = Vec::new();
    for folder in ["src", "macros/src", "tests", "benches", "sims"] {
        collect(Path::new(&root), folder, &mut files);
    }
    assert!(files.iter().any(|file| file.path == "src/lib.rs"), "the library was found");
    let mut findings: Vec<String> = files.iter().flat_map(check).collect();
    findings.extend(circles::circles(files.iter().map(|file| (&*file.path, &*file.code))));
    assert!(
        findings.is_empty(),
        "{} breaches of the house rules:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

/// Reads every Rust file under `folder`, in the order of their paths.
fn collect(root: &Path, folder: &str, files: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("the folder can be listed")
                .file_name()
                .into_string()
                .expect("a name in UTF-8")
        })
        .collect();
    names.sort();
    for name in names {
        let path = format!("{folder}/{name}");
        if root.join(&path).is_dir() {
            collect(root, &path, files);
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(root.join(&path))
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            files.push(Source::new(&path, &text));
        }
    }
}

/// Every breach in a file, as `path:line: what`.
fn check(file: &Source) -> Vec<String> {
    let mut findings = first_line(file);
    findings.extend(long_lines(file));
    if let Some(module) = file.module() {
        findings.extend(long_file(file));
        findings.extend(unsafe_code(file));
        findings.extend(unbiased_selects(file));
        if !file.is_unit_test() {
            findings.extend(forbidden_edges(file, module));
        }
    }
    findings
}

fn first_line(file: &Source) -> Vec<String> {
    let says_what_it_owns = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
    if says_what_it_owns { Vec::new() } else { vec![file.finding(0, "the first line is no `//!`")] }
}

fn long_lines(file: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        let is_row = ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
        if columns > COLUMNS && !is_row {
            let (path, line) = (&file.path, i + 1);
            findings.push(format!("{path}:{line}: {columns} columns, more than {COLUMNS}"));
        }
    }
    findings
}

fn long_file(file: &Source) -> Vec<String> {
    let lines = file.text.lines().count();
    let finding = || format!("{}:{lines}: {lines} lines, more than {FILE_LINES}", file.path);
    (lines > FILE_LINES).then(finding).into_iter().collect()
}

fn unsafe_code(file: &Source) -> Vec<String> {
    if UNSAFE.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    file.places("unsafe").map(|at| file.finding(at, "`unsafe`: keep it in kernels")).collect()
}

fn unbiased_selects(file: &Source) -> Vec<String> {
    let is_unbiased = |at: &usize| {
        let arms = file.code[at + "select!".len()..].trim_start().trim_start_matches(['{', '(']);
        !arms.trim_start().starts_with("biased;")
    };
    let places = file.places("select!").filter(is_unbiased);
    places
        .map(|at| file.finding(at, "`select!` without `biased;` polls in a random order"))
        .collect()
}

fn forbidden_edges(file: &Source, module: &str) -> Vec<String> {
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![
            file.finding(0, format_args!("the module `{module}` is not in the table of layers")),
        ];
    };
    let may_name = |target: &str| {
        let is_below = allowed.contains(&BELOW) && BELOW_RUNTIME.contains(&target);
        target == module || is_below || allowed.contains(&ALL) || allowed.contains(&target)
    };
    let mut findings = Vec::new();
    for at in file.places("crate::") {
        for target in roots(&file.code[at + "crate::".len()..]) {
            if !may_name(target) {
                findings.push(file.finding(at, format_args!("`{module}` may not use `{target}`")));
            }
        }
    }
    findings
}

/// The names that a path after `crate::` begins with: one, or those of a `{…}` group.
fn roots(path: &str) -> Vec<&str> {
    let name = |text: &'_ str| {
        text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
    };
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return vec![&path[..name(path)]];
    };
    let (mut roots, mut depth, mut begins) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && !c.is_whitespace() => {
                roots.push(&group[at..at + name(&group[at..])]);
                begins = false;
            }
            _ => {}
        }
    }
    roots
}

/// `text` with comments and the contents of string and character literals as spaces; lines stay
/// lines.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest, code.chars().next_back()));
        match skipped {
            Some(length) => {
                code.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                rest = &rest[length..];
            }
            None => {
                code.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment that `text` begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    Some(text.len())
}

/// The length of the string or character literal that `text`, which follows `before`, begins with.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    let is_in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let after_r = text.strip_prefix("br").or_else(|| text.strip_prefix('r'));
    if let Some(raw) = after_r.filter(|_| !is_in_name) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = text.len() - raw.len() + hashes + 1;
            return Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()));
        }
    }
    if text.starts_with('"') {
        return Some(closing(text, '"'));
    }
    let mut after = text.strip_prefix('\'')?.chars();
    let is_character = match after.next() {
        Some('\\') => true,
        _ => after.next() == Some('\''), // otherwise a lifetime
    };
    is_character.then(|| closing(text, '\''))
}

/// The length of a literal that begins and ends with `quote`.
fn closing(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// What the rules find in `code` at `path`, below a first line that is in order.
fn found(path: &str, code: &str) -> Vec<String> {
    check(&Source::new(path, &format!("//! Owns an example.\n{code}")))
}

#[track_caller]
fn assert_caught(path: &str, code: &str, expected: &str) {
    let findings = found(path, code);
    assert!(
        matches!(&findings[..], [one] if one.contains(expected)),
        "{code}\nhas {findings:?}, not one `{expected}`"
    );
}

#[track_caller]
fn assert_clean(path: &str, code: &str) {
    assert_eq!(found(path, code), Vec::<String>::new(), "{code}");
}

#[test]
fn a_file_that_does_not_say_what_it_owns_is_caught_wherever_it_is() {
    for path in ["src/graph.rs", "tests/it/main.rs", "benches/kernels.rs"] {
        let findings = check(&Source::new(path, "use std::fmt;\n//! Late.\n"));
        assert_eq!(findings, [format!("{path}:1: the first line is no `//!`")]);
    }
}

#[test]
fn long_lines_and_files_are_caught_and_those_at_the_limit_are_not() {
    let line = |columns: usize| format!("// {}é\n", "x".repeat(columns - 4));
    assert_clean("tests/it/main.rs", &line(100));
    assert_caught("tests/it/main.rs", &line(101), "main.rs:2: 101 columns");
    assert_clean("src/graph.rs", &format!("/// | {} |\nfn f() {{}}\n", "x".repeat(120)));
    assert_caught("src/graph.rs", &format!("/// {}\nfn f() {{}}\n", "x".repeat(120)), "124");
    assert_clean("src/graph.rs", &"\n".repeat(499));
    assert_caught("src/graph.rs", &"\n".repeat(500), "501 lines");
}

#[test]
fn unsafe_code_is_caught_outside_of_the_kernels() {
    let code = "fn f() {\n    unsafe { a() };\n}\n";
    assert_caught("src/runtime/worker.rs", code, "rs:3: `unsafe`");
    assert_clean("src/kernels/add.rs", code);
    assert_clean("src/graph.rs", "#![allow(unsafe_code)]\nfn f() { my_unsafe(); }\n");
    assert_clean("tests/it/main.rs", code);
}

#[test]
fn a_select_that_is_not_biased_is_caught() {
    assert_caught(
        "src/runtime.rs",
        "fn f() {\n    tokio::select! { a = b => {} }\n}\n",
        "rs:3: `select!`",
    );
    assert_clean(
        "src/runtime.rs",
        "fn f() { tokio::select! {\n    biased;\n    a = b => {}\n} }\n",
    );
}

#[test]
fn an_edge_that_the_table_does_not_allow_is_caught_in_every_way_of_writing_it() {
    assert_caught(
        "src/tensor/shape.rs",
        "use crate::graph::Graph;\n",
        "rs:2: `tensor` may not use `graph`",
    );
    assert_caught(
        "src/tensor.rs",
        "fn f() -> crate::graph::Graph {}\n",
        "`tensor` may not use `graph`",
    );
    let group = "use crate::{\n    units::{Bytes, Span},\n    runtime::Worker,\n};\n";
    assert_caught("src/sync.rs", group, "`sync` may not use `runtime`");
    assert_caught("src/sync.rs", "pub(crate) use crate::clock;\n", "`sync` may not use `clock`");
    assert_caught(
        "src/training.rs",
        "use crate::simulation::Law;\n",
        "`training` may not use `simulation`",
    );
    assert_caught(
        "src/simulation.rs",
        "use crate::training::Session;\n",
        "`simulation` may not use `training`",
    );
    assert_caught(
        "src/runtime.rs",
        "#[cfg(test)]\nmod tests { use crate::simulation::Law; }\n",
        "`simulation`",
    );
    assert_caught("src/runtime.rs", "use crate::prelude::*;\n", "`runtime` may not use `prelude`");
    assert_caught("src/sync.rs", "use crate::Result;\n", "`sync` may not use `Result`");
}

#[test]
fn edges_that_the_table_allows_and_those_inside_a_module_are_not_caught() {
    assert_clean(
        "src/sync/mode.rs",
        "use crate::{cluster::TaskName, sync::Round};\npub(crate) fn f() {}\n",
    );
    assert_clean(
        "src/simulation.rs",
        "use crate::runtime::Server;\nuse crate::random;\nuse crate::transport::Link;\n",
    );
    assert_clean("src/cli/sim.rs", "use crate::{simulation, training, report};\n");
    assert_clean("src/lib.rs", "pub use crate::graph::Graph;\n");
}

#[test]
fn a_module_that_is_not_in_the_table_is_caught() {
    assert_caught("src/gossip/peer.rs", "", "`gossip` is not in the table of layers");
}

#[test]
fn comments_and_literals_are_not_code_and_do_not_hide_the_code_after_them() {
    let hidden = [
        "//! See [`crate::cli`].\n",
        "/* unsafe /* crate::cli */ unsafe */\n",
        "const A: &str = \"\\\" unsafe { crate::cli }\";\n",
        "const A: &str = r#\"unsafe \" {\"#;\n",
        "const A: [char; 3] = ['\"', '\\'', '{'];\n",
        "fn f<'a>(a: &'a str, b: &'static str) {}\n",
    ];
    for text in hidden {
        assert_clean("src/graph.rs", text);
        assert_caught("src/graph.rs", &format!("{text}fn g() {{ unsafe {{}} }}\n"), "`unsafe`");
    }
}
