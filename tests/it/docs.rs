//! The guides say what the code does: the functions, keys and commands that they name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use trainyard::experiment::Experiment;

use crate::support::binary::trainyard;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn guide(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// What is in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the table of hops: the file that each names, and the function.
fn hops() -> Vec<(String, String)> {
    let guide = guide("architecture.md");
    let rows = guide.lines().filter(|line| line.starts_with("| ") && line.contains(".rs` `"));
    rows.map(|row| {
        let mut names = quoted(row).map(str::to_owned);
        (names.next().unwrap(), names.next().unwrap())
    })
    .collect()
}

/// The example of the section `title` of the guide to scenarios, and the section's tables.
fn section(title: &str) -> (String, String) {
    let guide = guide("scenarios.md");
    let (_, rest) = guide.split_once(&format!("\n## {title}\n")).expect("there is such a section");
    let section = rest.split("\n## ").next().unwrap();
    let example = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    (example.unwrap_or_default().to_owned(), section.to_owned())
}

#[test]
fn the_guides_example_of_each_fault_is_a_scenario() {
    let (example, _) = section("Faults");
    let experiment = Experiment::parse(example).unwrap();
    let (_, scenario) = experiment.scenarios().unwrap().remove(0);
    assert_eq!(scenario.faults.once.list.len(), 10);
    let (_, text) = section("Faults");
    let recurring = text.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next());
    let trials = Experiment::parse(recurring.unwrap()).unwrap().trials().unwrap();
    assert!(trials[0].cluster.faults.list.len() > 2, "a worker fails every hour in eight");
}

#[test]
fn the_keys_in_the_guides_table_of_defaults_exist() {
    let (_, table) = section("Keys and defaults");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    let keys: Vec<String> =
        cells.flat_map(|cell| quoted(&cell).map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys.iter().filter(|key| key.contains('.') && !key.contains("JOB")) {
        let experiment = Experiment::parse("").unwrap().set(&format!("{key}=no_value")).unwrap();
        if let Err(error) = experiment.scenarios() {
            assert!(!error.to_string().contains("unknown field"), "{key}: {error}");
        }
    }
}

#[test]
fn each_hop_of_a_step_is_a_function_of_the_file_that_the_guide_names() {
    let hops = hops();
    assert!(hops.len() >= 7, "{hops:?}");
    for (file, function) in hops {
        let path = root().join("src").join(&file);
        let code = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let name = function.rsplit("::").next().unwrap();
        assert!(code.contains(&format!("fn {name}(")), "{file} has no function {name}");
    }
}

/// The public names of the library: functions, types, modules, fields and macros' lines alike.
fn public_names() -> BTreeSet<String> {
    let (mut folders, mut names) = (vec![root().join("src")], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names.extend(declared(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    names
}

/// The names that `code` declares for all: of `pub fn name`, `pub name: Type`, `fn name` of a
/// trait, and of the variants of an enum.
fn declared(code: &str) -> Vec<String> {
    const BEFORE: [&str; 11] =
        ["pub", "async", "const", "fn", "struct", "enum", "trait", "mod", "type", "use", "unsafe"];
    let mut found = Vec::new();
    for line in code.lines().map(str::trim_start) {
        let is_variant = line.starts_with(|first: char| first.is_ascii_uppercase());
        if line.starts_with("pub ") || line.starts_with("fn ") || is_variant {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            found.extend(words.into_iter().find(|word| !BEFORE.contains(word)).map(str::to_owned));
        }
    }
    found
}

/// What a guide says in backticks, as far as it can be looked up.
#[derive(Debug, PartialEq)]
enum Said {
    /// The name of a function, method or type of the library.
    Name(String),
    /// A key of a scenario.
    Key(String),
    /// A line of a scenario's `[[run]]`.
    OfRun(String),
    /// A command of the program.
    Command(String),
    /// A file of the repository.
    File(String),
}

fn said(span: &str) -> Vec<Said> {
    const SECTIONS: [&str; 5] = ["program", "network", "compute", "cluster", "gpus"];
    let section = span.trim_matches(['[', ']']).split('.').next().unwrap();
    if let Some(command) = span.strip_prefix("trainyard ") {
        return vec![Said::Command(command.to_owned())];
    }
    if span.starts_with("sims/") {
        return vec![Said::File(span.to_owned())];
    }
    if SECTIONS.contains(&section) {
        return vec![Said::Key(span.trim_matches(['[', ']']).to_owned())];
    }
    if span.starts_with("mode =") {
        return vec![Said::OfRun(span.to_owned())];
    }
    if span.starts_with('/') || span.contains(':') && !span.contains("::") && !span.contains('(') {
        return vec![]; // a device
    }
    // Without what is in quotes, the variables of the example, and operators.
    let code: String = span.split('"').step_by(2).collect();
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_name = |word: &&str| word.len() > 3 && !word.starts_with(|c: char| c.is_ascii_digit());
    const VARIABLES: [&str; 6] = ["task", "session", "fetched", "batch", "loss", "await"];
    let names = words.filter(is_name).filter(|word| !VARIABLES.contains(word));
    names.map(|word| Said::Name(word.to_owned())).collect()
}

/// Why what a guide says is not so, if it is not.
fn mistake(said: &Said, names: &BTreeSet<String>) -> Option<String> {
    let parse = |text: &str| Experiment::parse(text).and_then(|known| known.trials().map(drop));
    let is_right = match said {
        Said::Name(name) => names.contains(name),
        Said::File(path) => root().join(path).exists(),
        Said::Command(command) => trainyard(&["help", command]).code == 0,
        Said::OfRun(line) => parse(&format!("[[run]]\n{line}\n")).is_ok(),
        // A section of the jobs' own names is a table; all other keys refuse what is no value.
        Said::Key(key) => {
            let unknown = format!("unknown field `{}`", key.rsplit('.').next().unwrap());
            parse(&format!("{key} = 1979-05-27\n"))
                .is_err_and(|error| !error.to_string().contains(&unknown))
        }
    };
    (!is_right).then(|| format!("{said:?}"))
}

#[test]
fn each_name_of_ours_beside_tensorflows_exists() {
    let (guide, names) = (guide("coming_from_tensorflow.md"), public_names());
    let table = guide.split("## Name by name").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let ours = row.replace("\\|", " ");
        let ours = ours.trim_matches(['|', ' ']).split(" | ").nth(1).unwrap().to_owned();
        let said: Vec<Said> = quoted(&ours).flat_map(said).collect();
        let is_absent = ours.starts_with("not there") || ours.starts_with("not needed");
        if said.is_empty()
            && !is_absent
            && !ours.contains("the same names")
            && !row.contains("a + b")
        {
            wrong.push(format!("nothing is looked up of: {row}"));
        }
        wrong.extend(said.iter().filter_map(|said| mistake(said, &names)));
        let links = ours.split("](crate::").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let last = link.rsplit("::").next().unwrap();
            if !names.contains(last) {
                wrong.push(format!("crate::{link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "these are not there: {wrong:#?}");
}

#[test]
fn a_name_that_is_not_there_is_found_out() {
    let names = public_names();
    let is_wrong = |span: &str| said(span).iter().any(|said| mistake(said, &names).is_some());
    for span in [
        "task.no_such_method(…)",
        "TypeOfNoSuchName",
        "program.no_such_key",
        "mode = \"no_such\"",
        "trainyard no_such",
        "sims/no_such.rs",
        "g.variable(\"w\", …).no_such_method()",
    ] {
        assert!(is_wrong(span), "{span} is taken for something that exists");
    }
    for span in ["task.minimize(…)", "program.towers", "[gpus]", "mode = \"sync\"", "/gpu:0"] {
        assert!(!is_wrong(span), "{span} exists");
    }
}
