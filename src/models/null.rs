//! The null model: variables that a step reads and updates with next to no arithmetic, to measure
//! what a step costs by itself.

use rand::RngExt;
use serde::Deserialize;

use crate::graph::{Gradient, Graph, GraphError, IndexedSlices, Output, Variable};
use crate::random;
use crate::tensor::{Shape, Tensor};

/// The sizes of [`Model::Null`](super::Model::Null).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Null {
    /// The number of variables.
    pub variables: usize,
    /// The elements of each variable (f32); 1 makes it a scalar.
    pub elements: usize,
    /// The rows that a step looks up, if it does not read whole variables.
    pub lookups: Option<Lookups>,
    /// What a step updates.
    pub gradient: NullGradient,
}

/// The rows that a step of a null model looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookups {
    /// The number of rows, of all variables together.
    pub rows: usize,
    /// The width of a row \[elements\].
    pub width: usize,
}

/// What a step of a null model updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NullGradient {
    /// All that it reads.
    #[default]
    Full,
    /// A scalar beside each variable.
    Scalar,
}

impl Null {
    /// Scalar variables, each of which is read and updated.
    pub fn scalars(variables: usize) -> Self {
        Self { variables, elements: 1, lookups: None, gradient: NullGradient::Full }
    }

    /// The variables that a step updates, with their gradients. `variable` makes a variable, with
    /// its initial value. The rows of a step are drawn once, by `seed`.
    ///
    /// The negation is the least arithmetic possible: a scenario's drawn step time is spent on it.
    ///
    /// # Errors
    /// The error of `variable`.
    pub(crate) fn gradients(
        &self,
        g: &Graph,
        variable: impl Fn(&str, &Output) -> Result<Variable, GraphError>,
        seed: u64,
    ) -> Result<Vec<(Variable, Gradient)>, GraphError> {
        let rows = |width: usize| self.elements.div_ceil(width);
        let initial = || match self.lookups {
            Some(Lookups { width, .. }) => g.zeros([rows(width), width]),
            None if self.elements == 1 => g.constant(0f32),
            None => g.zeros([self.elements]),
        };
        let new = |index| Ok((index, variable(&format!("v{index}"), &initial())?));
        let whole = (0..self.variables).map(new).collect::<Result<Vec<_>, GraphError>>()?;
        whole
            .into_iter()
            .map(|(index, whole)| {
                let ids = self.lookups.map(|of| (self.ids(g, index, of, seed), rows(of.width)));
                let read = match &ids {
                    Some((ids, _)) => whole.gather(ids)?,
                    None => whole.read(),
                };
                if self.gradient == NullGradient::Scalar {
                    let scalar = variable(&format!("s{index}"), &g.constant(0f32))?;
                    return Ok((scalar, Gradient::Dense(first_element(&read)?.negate())));
                }
                let gradient = match ids {
                    Some((ids, rows)) => {
                        Gradient::Slices(IndexedSlices::new(&read.negate(), &ids, rows)?)
                    }
                    None => Gradient::Dense(read.negate()),
                };
                Ok((whole, gradient))
            })
            .collect()
    }

    /// The rows that a step looks up in one of the variables, which have equal shares of them.
    fn ids(&self, g: &Graph, index: usize, lookups: Lookups, seed: u64) -> Output {
        // The product of the two need not fit the type of either.
        let end = |index| (lookups.rows as u128 * index as u128 / self.variables as u128) as usize;
        let count = end(index + 1) - end(index);
        let rows = self.elements.div_ceil(lookups.width) as i64;
        let mut draws = random::stream(seed, &["null", "rows", &index.to_string()]);
        let ids: Vec<i64> = (0..count).map(|_| draws.random_range(0..rows)).collect();
        g.constant(Tensor::new([count], &ids).expect("there is an id for each row"))
    }
}

/// The first element of a value, as a scalar.
fn first_element(values: &Output) -> Result<Output, GraphError> {
    let rank = values.tensor_type().shape.dims().len();
    values.slice(&vec![0; rank], &vec![Some(1); rank])?.reshape(Shape::SCALAR)
}
