//! The rules on guides: what one links to in the repository is there, and so is the heading; and
//! prose has lines as short as the code's.

use std::fs;
use std::path::Path;

use crate::COLUMNS;

/// The links of the guide at `path`, such as `docs/tutorial.md`, that lead nowhere, as findings.
/// Links to other sites, and to items of the crate, which rustdoc follows, are left out.
pub(crate) fn dead(root: &Path, path: &str, text: &str) -> Vec<String> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let leads_out = |link: &str| link.contains("://") || link.contains("::") || link == "crate";
    let is_dead = |link: &&str| {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let file = if file.is_empty() { root.join(path) } else { root.join(folder).join(file) };
        let has_heading = || headings(&fs::read_to_string(&file).unwrap_or_default(), heading);
        !file.exists() || !heading.is_empty() && !has_heading()
    };
    links(text)
        .into_iter()
        .filter(|link| !leads_out(link))
        .filter(is_dead)
        .map(|link| format!("{path}: the link to {link} leads nowhere"))
        .collect()
}

/// Where the links of `text` lead: those in a line, and those that are defined at its beginning.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for line in prose(text) {
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        links.extend(inline);
        let defined = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
        links.extend(defined.map(|(_, link)| link.trim()));
    }
    links
}

/// Whether a heading of `text` has the anchor `wanted`.
fn headings(text: &str, wanted: &str) -> bool {
    let of = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(text).any(|line| line.starts_with('#') && of(line) == wanted)
}

/// The lines of `text` outside blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The lines of prose in the guide at `path` that are too long, as findings. Tables and code are
/// left out: Markdown can't break the rows of the one, and the other shows what a program prints.
fn long_lines(path: &str, text: &str) -> Vec<String> {
    let is_long = |line: &&str| line.chars().count() > COLUMNS && !line.starts_with('|');
    prose(text).filter(is_long).map(|line| format!("{path}: too long: {line}")).collect()
}

#[test]
fn the_guides_keep_the_house_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guides = fs::read_dir(root.join("docs")).unwrap();
    let guides = guides.map(|guide| guide.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<String> = guides.map(|name| format!("docs/{name}")).collect();
    paths.retain(|path| path.ends_with(".md"));
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benches/README.md"];
    paths.extend(others.map(str::to_owned));
    paths.push("python/README.md".to_owned());
    let breaches = |path: &String| {
        let text = fs::read_to_string(root.join(path)).unwrap();
        let mut breaches = dead(root, path, &text);
        breaches.extend(long_lines(path, &text));
        breaches
    };
    let found: Vec<String> = paths.iter().flat_map(breaches).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_long_line_of_prose_is_caught_and_a_row_or_code_is_not() {
    let long = "word ".repeat(21);
    let text = format!("{long}\n| {long} |\n```\n{long}\n```\nshort\n");
    assert_eq!(long_lines("x.md", &text).len(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_caught_and_others_are_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = "# What is it?\n[a](../README.md) [b](#what-is-it) [c](https://x) [d](crate::X)\n\
                ```\n[e](nowhere.md)\n```\n[f]: nowhere.md\n[g](#what) [h](tutorial.md#nothing)\n";
    let found = dead(root, "docs/x.md", text);
    // The file itself is not there, so that none of its headings is.
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[1].contains("nowhere.md") && found[3].contains("#nothing"), "{found:?}");
}
