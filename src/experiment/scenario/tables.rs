//! Tables of a run's own settings: their paths, and how they change the scenario's.

use toml::{Table, Value};

use super::key_path::KeyPath;

/// The keys to which `set` gives values.
pub(super) fn paths_of(set: &Table) -> Vec<KeyPath> {
    fn gather(place: Option<&KeyPath>, table: &Table, found: &mut Vec<KeyPath>) {
        for (name, value) in table {
            let path = match place {
                Some(place) => place.clone().within(name),
                None => KeyPath::of(name),
            };
            match value {
                Value::Table(inner) => gather(Some(&path), inner, found),
                _ => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    gather(None, &with_paths_spelt_out(set.clone()), &mut found);
    found
}

/// Expands `set`: a key such as `"program.batch"` becomes a table in a table.
pub(super) fn with_paths_spelt_out(set: Table) -> Table {
    let mut spelt_out = Table::new();
    for (key, mut value) in set {
        let segments =
            KeyPath::parse(&key).map_or_else(|| vec![key], |path| path.segments().to_vec());
        for segment in segments[1..].iter().rev() {
            value = Value::Table(Table::from_iter([(segment.clone(), value)]));
        }
        merge(&mut spelt_out, Table::from_iter([(segments[0].clone(), value)]));
    }
    spelt_out
}

/// Changes the keys of `table` that `changes` has. A table changes only the keys that it names; any
/// other value replaces the old one.
pub(super) fn merge(table: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}
