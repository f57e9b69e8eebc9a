//! The guides say what the code does: the functions that they name are where they say.

use std::fs;
use std::path::Path;

/// The rows of the table of hops: the file that each names, and the function.
fn hops() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| ") && line.contains(".rs` `"));
    rows.map(|row| {
        let mut names = row.split('`').skip(1).step_by(2).map(str::to_owned);
        (names.next().unwrap(), names.next().unwrap())
    })
    .collect()
}

#[test]
fn each_hop_of_a_step_is_a_function_of_the_file_that_the_guide_names() {
    let hops = hops();
    assert!(hops.len() >= 7, "{hops:?}");
    for (file, function) in hops {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(&file);
        let code = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let name = function.rsplit("::").next().unwrap();
        assert!(code.contains(&format!("fn {name}(")), "{file} has no function {name}");
    }
}
