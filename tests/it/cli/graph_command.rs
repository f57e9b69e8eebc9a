//! The command `graph`: what a file holds, and how a step is placed and cut.

use std::fs;

use crate::support::binary::{folder, scenario, trainyard};

const SMALL: &str = r#"
name = "small"
seed = 3
[cluster]
ps = 2
worker = 2
[program]
model = "mlp"
hidden = [8]
batch = 4
[stop]
steps = 2
[[run]]
name = "async"
mode = "async"
"#;

fn graph(name: &str) -> String {
    format!("{}/tests/graphdefs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn import_lists_what_a_file_holds() {
    let said = trainyard(&["graph", "import", &graph("train_adam.pb")]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in ["  x  f32[6,3]", "  mlp/w0  f32[3,4]", "       4 ApplyAdam", "parameters 26"] {
        assert!(said.out.lines().any(|said| said == line), "no `{line}` in {}", said.out);
    }
}

#[test]
fn a_saved_model_is_told_to_be_written_as_a_graph_def() {
    let folder = folder("graph_saved_model");
    let file = folder.join("saved_model.pb");
    fs::write(&file, b"\x08\x01\x12\x00").unwrap();
    for path in [&folder, &file] {
        let said = trainyard(&["graph", "import", path.to_str().unwrap()]);
        let says_how = said.err.contains("it is a SavedModel") && said.err.contains("as_graph_def");
        assert!(said.code == 2 && says_how, "{}", said.err);
    }
}

#[test]
fn an_exported_graph_is_imported_again_and_updates_are_refused_by_name() {
    let folder = folder("graph_export");
    let out = folder.join("mlp.pb");
    let out = out.to_str().unwrap();
    let said = trainyard(&["graph", "export", &graph("frozen_mlp.pb"), "--out", out]);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = trainyard(&["graph", "import", out]);
    for line in ["  x  f32[?,3]", "  probabilities  f32[?,2]"] {
        assert!(said.out.lines().any(|said| said == line), "no `{line}` in {}", said.out);
    }
    let source = scenario("graph_export_source", SMALL);
    let said = trainyard(&["graph", "export", &source, "--out", out]);
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(
        said.err.contains("can't be exported: TensorFlow has no such operation"),
        "{}",
        said.err
    );
}

#[test]
fn a_loop_whose_results_are_those_of_the_graph_is_listed() {
    let said = trainyard(&["graph", "import", &graph("loop_result.pb")]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in ["       1 While", "  while/Exit_1  f32[?,3]"] {
        assert!(said.out.lines().any(|said| said == line), "no `{line}` in {}", said.out);
    }
}

#[test]
fn of_a_file_what_the_named_values_need_is_exported_by_their_names() {
    let out = folder("graph_export_outputs").join("part.pb");
    let out = out.to_str().unwrap();
    let export = |name: &str| {
        let file = graph("outputs.pb");
        trainyard(&["graph", "export", &file, "--outputs", name, "--out", out])
    };
    let said = export("both:0");
    assert_eq!(said.code, 0, "{}", said.err);
    let said = trainyard(&["graph", "import", out]);
    for line in ["  x  f32[?,3]", "  both  f32[?,3]", "       1 Mul"] {
        assert!(said.out.lines().any(|said| said == line), "no `{line}` in {}", said.out);
    }
    for (name, says) in [
        ("both:1", "`both:1` is `x:0` here: write a `tf.identity`"),
        ("text", "of `EncodeBase64`, such as `text`"),
        ("none", "the graph has no `none`"),
    ] {
        let said = export(name);
        assert!(said.code == 2 && said.err.contains(says), "{}", said.err);
    }
}

#[test]
fn import_as_json_has_the_keys_that_were_agreed_on() {
    let said =
        trainyard(&["graph", "import", &graph("train_adam.pb"), "--json", "--outputs", "loss:0"]);
    let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&told["inputs"][0]["name"], &told["inputs"][0]["type"]),
        (&"x".into(), &"f32[6,3]".into())
    );
    assert_eq!(
        (&told["outputs"][0]["name"], &told["outputs"][0]["type"]),
        (&"loss".into(), &"f32[]".into())
    );
    assert_eq!(
        (told["variables"].as_array().unwrap().len(), &told["operations"]["MatMul"]),
        (4, &2.into())
    );
    assert_eq!(told["parameters"], 26);
}

#[test]
fn import_lists_all_operations_that_do_not_exist_here_and_that_is_a_mistake_to_mend() {
    let path = folder("unknown_operations").join("unknown.pb");
    // Three nodes: `a` and `b` of the kind NoSuchOp, `c` of OtherOp.
    let node = |name: &str, op: &str| {
        [&[10, name.len() as u8], name.as_bytes(), &[18, op.len() as u8], op.as_bytes()].concat()
    };
    let nodes = [node("a", "NoSuchOp"), node("b", "NoSuchOp"), node("c", "OtherOp")];
    let bytes: Vec<u8> =
        nodes.iter().flat_map(|node| [&[10, node.len() as u8], &node[..]].concat()).collect();
    fs::write(&path, bytes).unwrap();
    let said = trainyard(&["graph", "import", path.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    for words in
        ["3 operations of 2 kinds", "2 of `NoSuchOp`, such as `a`", "1 of `OtherOp`, such as `c`"]
    {
        assert!(said.err.contains(words), "no `{words}` in {}", said.err);
    }
}

#[test]
fn a_file_that_is_no_graph_or_not_there_is_refused() {
    let path = scenario("no_graph", "not a graph");
    for path in [path.as_str(), "no/such.pb"] {
        let said = trainyard(&["graph", "import", path]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(path), "{}", said.err);
    }
}

#[test]
fn show_lists_a_step_of_a_scenario_by_task_with_what_crosses() {
    let path = scenario("show", SMALL);
    let said = trainyard(&["graph", "show", &path]);
    assert_eq!(said.code, 0, "{}", said.err);
    for words in
        ["run `async`", "ps:0 (", "ps:1 (", "worker:0 (", "f32[64,8]", "2048 bytes", "MatMul"]
    {
        assert!(said.out.contains(words), "no `{words}` in {}", said.out);
    }
    assert!(!said.out.contains("worker:1"), "{}", said.out);
    let title = said.out.lines().next().unwrap();
    assert!(title.ends_with("a step of worker:0 with the built-in trainer"), "{title}");
}

#[test]
fn show_reads_every_scenario_that_is_shipped() {
    let sims = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sims")).unwrap();
    let files = sims.map(|file| file.unwrap().path()).filter(|path| {
        // The program of that one is its own.
        path.extension().is_some_and(|is| is == "toml") && !path.ends_with("own_operation.toml")
    });
    for file in files {
        let said = trainyard(&["graph", "show", file.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{}: {}", file.display(), said.err);
    }
}

#[test]
fn show_as_dot_has_a_cluster_a_task_and_an_edge_for_each_input() {
    let path = scenario("show_dot", SMALL);
    let said = trainyard(&["graph", "show", &path, "--dot"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.starts_with("digraph ") && said.out.ends_with("}\n"), "{}", said.out);
    assert_eq!(said.out.matches("subgraph cluster_").count(), 3);
    assert!(said.out.contains(r#"label="2048 bytes""#), "{}", said.out);
    assert_eq!(said.out.matches('{').count(), said.out.matches('}').count());
}

#[test]
fn show_places_a_file_on_the_tasks_that_it_names() {
    let said = trainyard(&["graph", "show", &graph("frozen_mlp.pb")]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains("localhost:0") && said.out.contains("between tasks (0)"),
        "{}",
        said.out
    );
}
