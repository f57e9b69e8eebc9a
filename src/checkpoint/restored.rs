//! The contents of a checkpoint that was read: its variables, whole or any rows of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::slices::{self, Slice, Table, gather};
use super::{CheckpointError, SavedVariable};
use crate::tensor::{DType, Shape, Tensor};

/// The number of names that a message lists.
const NAMES: usize = 8;
/// The least similarity of a name that is suggested (Jaro-Winkler).
const ALIKE: f64 = 0.8;

/// The variables of a checkpoint, with all checksums verified.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The training's step.
    pub global_step: u64,
    /// The checkpoint's name, such as `model.ckpt-300`.
    pub name: String,
    /// The variables by the names that they were saved with; of a partitioned one, each part.
    pub variables: BTreeMap<String, Tensor>,
    pub(super) tables: BTreeMap<String, Table>,
    /// The variables of the model, partitioned ones as wholes, that are named like slots.
    pub(super) of_model: BTreeSet<String>,
}

impl Restored {
    /// The contents of a checkpoint called `name`, of `global_step`, that has `variables` alone.
    ///
    /// # Errors
    /// If two have one name, or parts don't make up a whole.
    pub(crate) fn of(
        name: &str,
        global_step: u64,
        variables: Vec<SavedVariable>,
    ) -> Result<Self, CheckpointError> {
        let tables = slices::tables(variables.iter().map(SavedVariable::layout));
        let tables = tables
            .map_err(|(variable, problem)| CheckpointError::NotSavable { variable, problem })?;
        let of_model = variables.iter().filter(|variable| variable.is_of_model);
        let of_model = of_model.map(|variable| variable.whole().to_owned()).collect();
        let variables =
            variables.into_iter().map(|variable| (variable.name, variable.value)).collect();
        Ok(Self { global_step, name: name.to_owned(), variables, tables, of_model })
    }

    /// The value of a variable, or of its part `slice`, if it has the given type and shape.
    ///
    /// The slice need not be one that was saved: any rows of a variable can be read, and all of
    /// them by its full name.
    ///
    /// # Errors
    /// If there is no such variable, or it has another type or shape.
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

    /// Whether it has a variable of this name, partitioned or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.type_of(name).is_some()
    }

    /// The length of all values \[bytes\].
    pub fn bytes(&self) -> u64 {
        self.variables.values().map(|value| value.byte_len() as u64).sum()
    }

    /// All variables, each partitioned one as a whole.
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

    /// The rows `wanted` of a variable, which must exist and have them.
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
