//! Inputs with a default: which shapes may be declared for one, and what is built on one.

use super::*;

/// An input whose default is a vector of three, with a shape of these dimensions declared.
fn with_default(declared: TensorShapeProto) -> Vec<NodeDef> {
    let input = node("PlaceholderWithDefault", "x", &["default"])
        .with("dtype", Value::Type(I32))
        .with("shape", Value::Shape(declared));
    vec![ints("default", &[1, 2, 3]), input, node("Neg", "y", &["x"])]
}

#[test]
fn the_shape_of_an_input_with_a_default_is_the_declared_one_or_the_defaults_where_none_is() {
    let none = TensorShapeProto { dim: vec![], unknown_rank: true };
    for (declared, known) in [(shape(&[-1]), None), (shape(&[3]), Some(3)), (none, Some(3))] {
        let imported = import(with_default(declared)).unwrap();
        for name in ["x", "y"] {
            let found = imported.output(name).unwrap().tensor_type().shape;
            assert_eq!(found, PartialShape::new(&[known]), "{name}");
        }
    }
}

#[test]
fn a_default_that_does_not_fit_the_declared_shape_is_refused_by_the_inputs_name() {
    for declared in [&[4][..], &[-1, 3], &[]] {
        let error = import(with_default(shape(declared))).unwrap_err().to_string();
        assert!(error.contains("node `x` (PlaceholderWithDefault)"), "{error}");
        assert!(error.contains("a default of the shape"), "{error}");
    }
}

#[test]
fn what_is_computed_from_a_default_is_no_constant_since_another_value_may_be_fed() {
    let mut nodes = with_default(shape(&[-1]));
    nodes.extend([placeholder("z", &[6]), node("Reshape", "r", &["z", "y"])]);
    let error = import(nodes).unwrap_err().to_string();
    assert!(error.contains("node `r` (Reshape)"), "{error}");
}
