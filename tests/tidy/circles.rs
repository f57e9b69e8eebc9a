//! The rule on circles: within a module of the library, no three files or more need each other.
//!
//! A file needs another if it names something that is defined there. Names are followed through
//! `use` and `pub use` to the file that defines them. That a file needs what its own parents define
//! is no part of a circle: that is what parents are for. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

/// A file of the library as the rule sees it.
struct Module<'a> {
    children: BTreeSet<&'a str>,
    /// What the names that it imports stand for, as paths from the crate's root.
    imports: BTreeMap<String, Vec<String>>,
    /// All paths that its code names, from the crate's root.
    paths: Vec<Vec<String>>,
}

type ModulePath = Vec<String>;
/// By file: the files of the same module that it needs.
type Needs<'m> = BTreeMap<&'m ModulePath, BTreeSet<&'m ModulePath>>;

/// Every circle of three files or more, as one finding. Files are pairs of a path such as
/// `src/graph/op.rs` and its code without comments and literals.
pub(crate) fn circles<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let modules: BTreeMap<ModulePath, Module<'a>> = files
        .into_iter()
        .filter_map(|(path, code)| Some((module_path(path)?, without_tests(code))))
        .map(|(path, code)| {
            let module = read(&path, code);
            (path, module)
        })
        .collect();
    let needs = needs(&modules);
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        needs.keys().map(|file| (*file, reachable(file, &needs))).collect();
    let mut findings = Vec::new();
    let mut seen: BTreeSet<&ModulePath> = BTreeSet::new();
    for (file, others) in &reached {
        let circle: Vec<&ModulePath> =
            others.iter().copied().filter(|other| reached[*other].contains(*file)).collect();
        let is_new = seen.insert(file);
        seen.extend(&circle);
        if is_new && circle.len() > 2 {
            findings.push(described(&circle, &needs));
        }
    }
    findings
}

fn described(circle: &[&ModulePath], needs: &Needs<'_>) -> String {
    let mut text = format!("{} files need each other in a circle:", circle.len());
    for file in circle {
        let inside = needs[*file].iter().filter(|other| circle.contains(other));
        let names: Vec<String> = inside.map(|other| other.join("::")).collect();
        text.push_str(&format!("\n    {} needs {}", file.join("::"), names.join(", ")));
    }
    text
}

/// `["graph", "op"]` for `src/graph/op.rs`; none for tests, binaries and the crate's root.
fn module_path(path: &str) -> Option<ModulePath> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let segments: ModulePath = inner.split('/').map(str::to_owned).collect();
    let is_left_out = ["lib", "main", "bin"].contains(&segments[0].as_str())
        || segments.iter().any(|segment| segment == "tests");
    (!is_left_out).then_some(segments)
}

/// The code before a module of tests.
fn without_tests(code: &str) -> &str {
    let tests = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    &code[..tests]
}

fn read<'a>(own: &ModulePath, code: &'a str) -> Module<'a> {
    let children = words_after(code, "mod")
        .filter(|(name, rest)| rest.trim_start().starts_with(';') && !name.is_empty())
        .map(|(name, _)| name)
        .collect();
    let mut module = Module { children, imports: BTreeMap::new(), paths: Vec::new() };
    let mut outside_of_uses = String::new();
    let mut rest = code;
    while let Some(at) = place(rest, "use") {
        let end = rest[at..].find(';').map_or(rest.len(), |length| at + length);
        outside_of_uses.push_str(&rest[..at]);
        let mut expanded = Vec::new();
        expand(&[], &rest[at + "use".len()..end], &mut expanded);
        for (path, name) in expanded {
            let Some(path) = absolute(own, &path, &module.children) else { continue };
            module.imports.insert(name, path.clone());
            let is_exported = rest[..at].trim_end().ends_with(['b', ')']);
            if !is_exported {
                module.paths.push(path);
            }
        }
        rest = &rest[end..];
    }
    outside_of_uses.push_str(rest);
    for path in paths(&outside_of_uses) {
        module.paths.extend(absolute(own, &path, &module.children));
    }
    module
}

/// Where `word` stands in `code` as a whole word.
fn place(code: &str, word: &str) -> Option<usize> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !code[..*at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name))
}

/// Each name that follows `word`, with the code after the name.
fn words_after<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut rest = code;
    std::iter::from_fn(move || {
        let at = place(rest, word)?;
        let after = rest[at + word.len()..].trim_start();
        rest = &rest[at + word.len()..];
        Some(after.split_at(name_length(after)))
    })
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// The paths in a `use` tree, each with the name that it is imported as.
fn expand(prefix: &[String], tree: &str, found: &mut Vec<(ModulePath, String)>) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{') {
        // That takes the braces of nested groups, too, which `branches` does without.
        for branch in branches(group.trim_end_matches('}')) {
            expand(prefix, branch, found);
        }
        return;
    }
    let (first, rest) = tree.split_at(name_length(tree));
    let mut path = prefix.to_vec();
    if let Some(rest) = rest.trim_start().strip_prefix("::") {
        path.push(first.to_owned());
        return expand(&path, rest, found);
    }
    if first != "self" {
        path.push(first.to_owned()); // empty for `*`
    }
    let alias = rest.trim().strip_prefix("as ").map(str::trim);
    let name = alias.or(path.last().map(String::as_str)).unwrap_or_default().to_owned();
    found.push((path, name));
}

/// The branches of a group of a `use` tree.
fn branches(group: &str) -> Vec<&str> {
    let (mut branches, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&group[begin..]);
    branches.into_iter().filter(|branch| !branch.trim().is_empty()).collect()
}

/// All paths of two names or more in `code`.
fn paths(code: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let begin = rest[..at].trim_end_matches(is_name).len();
        let mut path = vec![rest[begin..at].to_owned()];
        rest = &rest[at..];
        while let Some(after) = rest.strip_prefix("::") {
            let (name, tail) = after.split_at(name_length(after));
            path.push(name.to_owned());
            rest = tail;
        }
        found.push(path);
    }
    found
}

/// `path`, as the file `own` writes it, from the crate's root; none if it leads out of the crate or
/// is not known to lead to another file.
fn absolute(own: &ModulePath, path: &[String], children: &BTreeSet<&str>) -> Option<ModulePath> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([own, &path[1..]].concat()),
        "super" => Some([&own[..own.len().checked_sub(supers)?], &path[supers..]].concat()),
        first if children.contains(first) => Some([own, path].concat()),
        _ => None,
    }
}

fn needs<'m>(modules: &'m BTreeMap<ModulePath, Module<'_>>) -> Needs<'m> {
    let of = |(file, module): (&'m ModulePath, &'m Module<'_>)| {
        let defining = module.paths.iter().filter_map(|path| defining(path, modules, 0));
        let needed = defining.filter(|other| other[0] == file[0] && !file.starts_with(other));
        (file, needed.collect())
    };
    modules.iter().map(of).collect()
}

/// The file that defines what `path` leads to.
fn defining<'m>(
    path: &[String],
    modules: &'m BTreeMap<ModulePath, Module<'_>>,
    followed: usize,
) -> Option<&'m ModulePath> {
    let is_file = |length: &usize| modules.contains_key(&path[..*length]);
    let length = (1..=path.len()).rev().find(is_file)?;
    let (file, module) = modules.get_key_value(&path[..length])?;
    let import = path.get(length).and_then(|name| module.imports.get(name));
    match import {
        Some(import) if followed < 8 => {
            defining(&[import, &path[length + 1..]].concat(), modules, followed + 1)
        }
        _ => Some(file),
    }
}

/// The files that `file` needs, and those that they need, and so on.
fn reachable<'m>(file: &'m ModulePath, needs: &Needs<'m>) -> BTreeSet<&'m ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&ModulePath> = needs[file].iter().copied().collect();
    while let Some(other) = next.pop() {
        if reached.insert(other) {
            next.extend(&needs[other]);
        }
    }
    reached
}

#[track_caller]
fn assert_circle(files: &[(&str, &str)], expected: &str) {
    let found = circles(files.iter().copied());
    assert!(matches!(&found[..], [one] if one.contains(expected)), "{files:?}\nhas {found:?}");
}

#[track_caller]
fn assert_none(files: &[(&str, &str)]) {
    assert_eq!(circles(files.iter().copied()), Vec::<String>::new(), "{files:?}");
}

#[test]
fn three_files_that_need_each_other_are_caught_however_they_name_each_other() {
    let ways_to_c = [
        "use super::c::C;\n",
        "use crate::m::c::C;\n",
        "use super::{a::A, c::{self, C as D}};\n",
        "fn f() -> super::c::C {}\n",
        "fn f() { crate::m::c::make(); }\n",
        "use super::C;\n", // by way of what the parent exports
    ];
    for way in ways_to_c {
        let files = [
            ("src/m.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\n"),
            ("src/m/a.rs", "use super::b::B;\n"),
            ("src/m/b.rs", way),
            ("src/m/c.rs", "use super::a::A;\n"),
        ];
        assert_circle(&files, "3 files need each other in a circle");
        assert_circle(&files, "m::c needs m::a");
    }
}

#[test]
fn a_circle_by_way_of_a_child_of_one_of_the_files_is_caught() {
    assert_circle(
        &[
            ("src/m/a.rs", "mod x;\nuse x::X;\n"),
            ("src/m/a/x.rs", "use crate::m::b::B;\n"),
            ("src/m/b.rs", "use super::a::A;\n"),
        ],
        "m::a needs m::a::x",
    );
}

#[test]
fn two_files_may_need_each_other_and_children_their_parent() {
    assert_none(&[("src/m/a.rs", "use super::b::B;\n"), ("src/m/b.rs", "use super::a::A;\n")]);
    assert_none(&[
        ("src/m.rs", "mod a;\nmod b;\nuse a::A;\nuse b::B;\npub struct M;\n"),
        ("src/m/a.rs", "use super::M;\n"),
        ("src/m/b.rs", "use super::{M, a::A};\n"),
    ]);
}

#[test]
fn tests_other_modules_and_what_a_parent_only_exports_make_no_circle() {
    assert_none(&[
        ("src/m.rs", "mod a;\nmod b;\npub use b::B;\npub(crate) use a::A;\n"),
        ("src/m/a.rs", "use super::B;\n#[cfg(test)]\nmod tests { use crate::m::c::C; }\n"),
        ("src/m/b.rs", "use super::c::C;\n"),
        ("src/m/b/tests.rs", "use crate::m::a::A;\n"),
        ("src/m/c.rs", "use crate::n::N;\n"),
        ("src/n.rs", "use crate::m::a::A;\n"),
    ]);
}
