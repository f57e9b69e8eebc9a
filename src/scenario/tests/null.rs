//! The sizes of the model `null`.

use super::*;
use crate::models::{Lookups, Null, NullGradient};

#[test]
fn the_null_model_has_a_number_of_variables_their_bytes_and_rows_to_look_up() {
    let of = |text: &str| {
        let scenario = example(&format!("[program]\nmodel = \"null\"\n{text}")).unwrap();
        let Model::Null(null) = scenario.settings.model else { panic!("it is null") };
        null
    };
    assert_eq!(of(""), Null::scalars(16));
    let dense = of("variables = 4\nbytes = \"1MB\"\ngradient = \"scalar\"");
    let gradient = NullGradient::Scalar;
    assert_eq!(dense, Null { elements: 62_500, gradient, ..Null::scalars(4) });
    let sparse = of("bytes = \"16MB\"\nlookups = 32\ndim = 100");
    let lookups = Some(Lookups { rows: 32, width: 100 });
    assert_eq!(sparse, Null { elements: 250_000, lookups, ..Null::scalars(16) });
    let error = example("[program]\nmodel = \"null\"\nlookups = 9223372036854775807").unwrap_err();
    assert!(error.to_string().contains("3: program.lookups: 9223372036854775807 must be at most"));
    let error = example("[program]\nmodel = \"mlp\"\nbytes = \"1MB\"").unwrap_err().to_string();
    let expected = "3: program.bytes: only the model `null` has `bytes`; use it, or remove this";
    assert_eq!(error, format!("sims/example.toml:{expected}"));
}
