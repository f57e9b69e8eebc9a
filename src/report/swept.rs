//! The values that a sweep has given a run, and its name with them.

use std::collections::BTreeMap;

/// The values of the keys that are swept, by the path of the key; without the seed's.
pub type Swept = BTreeMap<String, serde_json::Value>;

/// A run's name and its swept values: `async (cluster.worker=4)`.
pub(super) fn swept_name(run: &str, settings: &Swept) -> String {
    let value = |(key, value): (&String, &serde_json::Value)| match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}={value}"),
    };
    let values: Vec<String> = settings.iter().map(value).collect();
    match values.is_empty() {
        true => run.to_owned(),
        false => format!("{run} ({})", values.join(", ")),
    }
}
