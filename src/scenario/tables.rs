//! Tables of a run's own settings: their paths, and how they change the scenario's.

use toml::{Table, Value};

use super::key_path::KeyPath;

/// The keys to which `set` gives values; of a law or a schedule that of the whole table, whose
/// other keys it may replace.
pub(super) fn paths_of(set: &Table) -> Vec<KeyPath> {
    fn gather(place: Option<&KeyPath>, table: &Table, found: &mut Vec<KeyPath>) {
        for (name, value) in table {
            let path = match place {
                Some(place) => place.clone().within(name),
                None => KeyPath::of(name),
            };
            match value {
                Value::Table(inner) if !KINDS.iter().any(|kind| inner.contains_key(*kind)) => {
                    gather(Some(&path), inner, found);
                }
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

/// The keys that say which others a table has: those of another law or schedule mean nothing.
const KINDS: [&str; 2] = ["law", "schedule"];

/// Whether `table` and `changes` are tables of a law or schedule, and not of the same one.
fn is_of_another_kind(table: &Table, changes: &Table) -> bool {
    KINDS.iter().any(|kind| {
        let both = table.get(*kind).zip(changes.get(*kind));
        both.is_some_and(|(own, other)| own != other)
    })
}

/// Changes the keys of `table` that `changes` has. A table changes only the keys that it names,
/// unless it is of another kind; any other value replaces the old one.
pub(super) fn merge(table: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(changes))
                if !is_of_another_kind(inner, &changes) =>
            {
                merge(inner, changes);
            }
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}
