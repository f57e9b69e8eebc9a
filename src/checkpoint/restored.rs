//! What was read of a checkpoint: its variables, whole or in any rows of them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::CheckpointError;
use super::slices::{Slice, Table, gather};
use crate::tensor::{DType, Shape, Tensor};

/// How many names a message lists.
const NAMES: usize = 8;
/// How like a name has to be to be the one that was meant (Jaro-Winkler).
const ALIKE: f64 = 0.8;

/// The variables of a checkpoint, every byte of which is as it was saved.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The training's step.
    pub global_step: u64,
    /// The checkpoint's name, such as `model.ckpt-300`.
    pub name: String,
    /// The variables, those that are partitioned part by part, under the names that they were saved
    /// with.
    pub variables: BTreeMap<String, Tensor>,
    pub(super) tables: BTreeMap<String, Table>,
}

impl Restored {
    /// The value of a variable, or of the part `slice` of one, of this type.
    ///
    /// It need not be cut as it was when it was saved: any rows of a variable can be had, and all
    /// of them by its full name.
    ///
    /// # Errors
    /// If there is no such variable, or one of another type or shape.
    pub fn tensor(
        &self,
        name: &str,
        (dtype, shape): (DType, Shape),
        slice: Option<&Slice>,
    ) -> Result<Tensor, CheckpointError> {
        let wanted = match slice {
            Some(slice) => (&*slice.full_name, slice.full_shape),
            None => (name, shape),
        };
        let found = self.type_of(wanted.0).ok_or_else(|| self.no_such(wanted.0))?;
        if found != (dtype, wanted.1) {
            return Err(self.mismatch(wanted.0, found, (dtype, wanted.1)));
        }
        match slice {
            None => Ok(self.whole(name).expect("what has a type is there")),
            Some(slice) => {
                let rows =
                    slice.rows(shape).ok_or_else(|| self.mismatch(name, found, (dtype, shape)))?;
                Ok(self.rows(&slice.full_name, rows))
            }
        }
    }

    /// All variables, those that are partitioned as one each.
    pub fn into_whole(self) -> BTreeMap<String, Tensor> {
        let wholes: Vec<_> =
            self.tables.keys().filter_map(|name| Some((name.clone(), self.whole(name)?))).collect();
        let mut variables = self.variables;
        for (_, part) in self.tables.values().flat_map(|table| &table.parts) {
            variables.remove(part);
        }
        variables.extend(wholes);
        variables
    }

    /// The type of a variable, partitioned or not.
    fn type_of(&self, name: &str) -> Option<(DType, Shape)> {
        let table = || self.tables.get(name).map(|table| (table.dtype, table.shape));
        self.variables.get(name).map(|variable| (variable.dtype(), variable.shape())).or_else(table)
    }

    /// All of a variable, partitioned or not.
    fn whole(&self, name: &str) -> Option<Tensor> {
        let table = || self.tables.get(name).map(|table| self.rows(name, 0..table.shape.dims()[0]));
        self.variables.get(name).cloned().or_else(table)
    }

    /// Rows of a variable that is there and has them.
    fn rows(&self, name: &str, wanted: Range<usize>) -> Tensor {
        if let Some(whole) = self.variables.get(name) {
            return gather(
                whole.dtype(),
                whole.shape(),
                wanted,
                &[(0..whole.shape().dims()[0], whole)],
            );
        }
        let table = &self.tables[name];
        let part = |(rows, part): &(Range<usize>, String)| (rows.clone(), &self.variables[part]);
        let parts: Vec<(Range<usize>, &Tensor)> = table.parts.iter().map(part).collect();
        gather(table.dtype, table.shape, wanted, &parts)
    }

    fn mismatch(
        &self,
        name: &str,
        found: (DType, Shape),
        wanted: (DType, Shape),
    ) -> CheckpointError {
        let [found, wanted] = [found, wanted].map(|(dtype, shape)| format!("{dtype}{shape}"));
        CheckpointError::Mismatch {
            checkpoint: self.name.clone(),
            name: name.to_owned(),
            found,
            wanted,
        }
    }

    fn no_such(&self, name: &str) -> CheckpointError {
        let names: Vec<&str> =
            self.variables.keys().chain(self.tables.keys()).map(String::as_str).collect();
        let rated = names.iter().map(|there| (strsim::jaro_winkler(name, there), there));
        let most_like =
            rated.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
        let alike =
            most_like.map(|(_, there)| format!(" (did you mean `{there}`?)")).unwrap_or_default();
        let more = names.len().saturating_sub(NAMES);
        let there = match names.len() - more {
            0 => "none".to_owned(),
            listed if more > 0 => format!("{} and {more} more", names[..listed].join(", ")),
            _ => names.join(", "),
        };
        CheckpointError::NoSuchVariable {
            checkpoint: self.name.clone(),
            name: name.to_owned(),
            alike,
            there,
        }
    }
}

#[cfg(test)]
mod tests;
