//! The data of trials: those with the same key share them, and of many seeds only the data of the
//! trials under way are in memory.

mod cautions;

use std::sync::{Arc, Mutex};

use crate::data::{DataError, Dataset, Source};
use crate::experiment::{ExperimentError, Trial};
use crate::kernels::Numerics;
use crate::models::{Embedding, Model};
use crate::runtime::Error;
use crate::scenario::Scenario;
use crate::training::data_error;

/// The key of a run's data: runs with equal keys have the same data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DataKey {
    form: Form,
    /// None if the data are the same with any seed.
    seed: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Rows(Source),
    Images { image: [usize; 3], classes: usize, numerics: Numerics },
    Sparse { source: Source, rows: usize, slots: usize },
}

impl DataKey {
    /// The key of the data that `scenario` trains on; none for a model without data.
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let source = scenario.dataset.clone();
        let (form, is_drawn) = match &scenario.settings.model {
            Model::Null(_) | Model::Count | Model::Layers(_) => return None,
            Model::Softmax | Model::Mlp { .. } | Model::Convnet | Model::GraphDef(_) => {
                let is_drawn = source.depends_on_seed();
                (Form::Rows(source), is_drawn)
            }
            Model::Published(published) => {
                let (image, classes) = published.images();
                (Form::Images { image, classes, numerics: scenario.numerics }, true)
            }
            Model::Embedding(Embedding { rows, slots, .. }) => {
                let is_drawn = source.depends_on_seed() || !source.is_sparse();
                (Form::Sparse { source, rows: *rows, slots: *slots }, is_drawn)
            }
        };
        Some(Self { form, seed: is_drawn.then_some(scenario.seed) })
    }

    /// Whether the data are as many and as large as those of `other`.
    fn is_like(&self, other: &Self) -> bool {
        self.form == other.form
    }

    /// Loads the data.
    ///
    /// # Errors
    /// If a file can't be read, or is not as it should be.
    fn load(&self) -> Result<Arc<Dataset>, DataError> {
        let seed = self.seed.unwrap_or(0);
        let loaded = match &self.form {
            Form::Rows(source) => source.load(seed),
            Form::Images { image, classes, numerics } => {
                Dataset::random_images(*image, *classes, *numerics, seed)
            }
            Form::Sparse { source, rows, slots } => source.load_sparse(*rows, *slots, seed),
        };
        loaded.map(Arc::new)
    }
}

/// Data that are loaded when a trial begins.
#[derive(Clone)]
pub(crate) struct LateData {
    /// The same data with another seed: as many samples of the same size.
    pub(super) like: Arc<Dataset>,
    key: DataKey,
    shelf: Arc<Shelf>,
}

impl LateData {
    /// The data.
    ///
    /// # Errors
    /// As [`DataKey::load`].
    pub(super) fn load(&self) -> Result<Arc<Dataset>, Error> {
        self.shelf.load(&self.key).map_err(|error| data_error("program.dataset", &error))
    }
}

impl Trial {
    /// Whether its data are as many and as large as those of `other`, or neither has any.
    pub(crate) fn has_data_like(&self, other: &Self) -> bool {
        match (&self.data_key, &other.data_key) {
            (Some(key), Some(other)) => key.is_like(other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Finds its data: those of one of the trials `before`, if they are the same. If they only
    /// differ by the seed they are loaded when it begins, and put on `shelf`.
    ///
    /// # Errors
    /// If they can't be loaded.
    pub(crate) fn find_data(
        &mut self,
        before: &[Self],
        shelf: &Arc<Shelf>,
    ) -> Result<(), ExperimentError> {
        let Some(key) = &self.data_key else { return Ok(()) };
        let own = |trial: &&Self| trial.dataset.is_some() && trial.data_key.as_ref() == Some(key);
        let like = |trial: &&Self| trial.data_key.as_ref().is_some_and(|known| known.is_like(key));
        if let Some(known) = before.iter().find(own) {
            self.dataset = known.dataset.clone();
        } else if let Some(known) = before.iter().find(like)
            && let Some(like) = &known.dataset
        {
            let (like, key, shelf) = (Arc::clone(like), key.clone(), Arc::clone(shelf));
            self.late = Some(LateData { like, key, shelf });
        } else {
            self.dataset = Some(key.load().map_err(ExperimentError::Data)?);
        }
        self.check_images()
    }

    /// Checks that a network of convolutions has images: what a NumPy array holds is known once it
    /// is read.
    fn check_images(&self) -> Result<(), ExperimentError> {
        let rows = self.known_data().map(|data| &data.train);
        let rows = rows.filter(|train| train.image_shape().is_none());
        match rows.filter(|_| self.settings.model == Model::Convnet) {
            Some(rows) => Err(ExperimentError::Impossible(format!(
                "run `{}`: the model `convnet` needs images, and the data set has rows of {} \
                 features: give `features` the shape [N, HEIGHT, WIDTH] or [N, HEIGHT, WIDTH, \
                 CHANNELS] (`.reshape` in NumPy), or take the model `mlp`",
                self.run,
                rows.width()
            ))),
            None => Ok(()),
        }
    }
}

/// The data that were loaded last. Trials that need the same begin one after the other, unless
/// another swept key varies more slowly than the seed: their data are then loaded again.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Option<(DataKey, Arc<Dataset>)>>);

impl Shelf {
    fn load(&self, key: &DataKey) -> Result<Arc<Dataset>, DataError> {
        // A panic while the data are loaded leaves those that were there before.
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, data)) = last.as_ref().filter(|(known, _)| known == key) {
            return Ok(Arc::clone(data));
        }
        *last = None; // before there is more
        let data = key.load()?;
        *last = Some((key.clone(), Arc::clone(&data)));
        Ok(data)
    }
}
