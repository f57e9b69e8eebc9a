//! Which variables of a graph are trainable.

use super::*;

/// A graph of which `generate_programs.py` says what it trains.
fn trained() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/graphdefs/trained.pb");
    std::fs::read(path).expect("the file is there")
}

#[test]
fn variables_are_trainable_however_a_graph_trains_them_and_slots_averages_and_counters_are_not() {
    let each =
        |kind: &str| ["by_hand", "dense", "scattered", "table"].map(|of| format!("{kind}/{of}"));
    let expected = [each("reference"), each("resource")].concat();
    for wanted in [&["loss"][..], &["loss", "train"]] {
        let imported = sub_graph(&Graph::new(), &trained(), wanted).unwrap();
        let trainable = imported.graph().trainable_variables();
        let mut names: Vec<String> = trainable.iter().map(|v| v.name().to_string()).collect();
        names.sort();
        assert_eq!(names, expected, "{wanted:?}");
    }
}

#[test]
fn slots_whose_rows_are_updated_are_beside_their_variable() {
    let imported = sub_graph(&Graph::new(), &trained(), &["train"]).unwrap();
    let def = imported.graph().snapshot().unwrap();
    let beside = |name: String| {
        let slot = def.operations.iter().find(|operation| *operation.name == *name);
        slot.unwrap().colocated_with.map(|variable| def.operation(variable).name.to_string())
    };
    for kind in ["reference", "resource"] {
        for slot in ["Adam", "Adam_1"] {
            let table = format!("{kind}/table");
            assert_eq!(beside(format!("{kind}/{kind}/table/{slot}")), Some(table));
        }
    }
}

#[test]
fn beside_an_optimizer_what_is_subtracted_trains_but_for_numbers_and_the_steps_of_averages() {
    let variable = |name: &str| {
        node("VariableV2", name, &[])
            .with("dtype", Value::Type(F32))
            .with("shape", Value::Shape(shape(&[2])))
    };
    let trainable = |value: &str, has_optimizer: bool| {
        let mut nodes = vec![
            variable("v"),
            variable("w"),
            placeholder("x", &[2]),
            placeholder("rate", &[]),
            node("Identity", "v/read", &["v"]),
            node("Sub", "difference", &["v/read", "x"]),
            node("Mul", "share", &["x", "difference"]),
            node("Sub", "other", &["x", "v/read"]),
            node("AssignSub", "y", &["v", value]),
        ];
        if has_optimizer {
            nodes.push(node("ApplyGradientDescent", "update", &["w", "rate", "x"]));
        }
        let trainable = import(nodes).unwrap().graph().trainable_variables();
        trainable.iter().map(|variable| variable.name().to_string()).collect::<Vec<_>>()
    };
    for average in ["difference", "share"] {
        assert_eq!(trainable(average, true), ["w"], "{average}");
    }
    assert_eq!(trainable("other", true), ["v", "w"]);
    assert_eq!(trainable("difference", false), ["v", "w"]);
}
