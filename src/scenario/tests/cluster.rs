//! Tests of the jobs of a cluster.

use super::*;

#[test]
fn a_second_chief_is_refused_by_either_of_the_two_names() {
    let cases = [
        ("chief = 2", "cluster.chief: there can be one chief, not 2; make the others workers"),
        ("master = 3", "cluster.master: there can be one master, not 3; make the others workers"),
        (
            "chief = 1\nmaster = 1",
            "cluster.master: `chief` and `master` are two names of one job; keep `chief`",
        ),
    ];
    for (jobs, expected) in cases {
        let text = format!("[cluster]\nworker = 1\n{jobs}");
        let told = example(&text).unwrap_err().to_string();
        assert!(told.ends_with(expected), "{told}");
    }
}
