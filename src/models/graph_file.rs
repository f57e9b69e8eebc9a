//! A model that is a graph of TensorFlow's.

use std::fmt;
use std::sync::Arc;

/// A graph that TensorFlow wrote, with the names of its ends: `graph_def` of a scenario's
/// `[program]`.
#[derive(Clone, PartialEq, Eq)]
pub struct GraphFile {
    /// The binary GraphDef.
    pub bytes: Arc<[u8]>,
    /// The placeholder of the samples.
    pub images: String,
    /// The placeholder of their labels.
    pub labels: String,
    /// The loss to minimize, a scalar.
    pub loss: String,
    /// The share of a batch that is classified correctly, a scalar, if the graph has it.
    pub accuracy: Option<String>,
    /// The graph's own training operation; none if the scenario's optimizer trains it.
    pub train: Option<String>,
    /// The variables that its loss or accuracy reads and other operations of the graph change,
    /// which the gradients of the loss do not run.
    pub unchanged: Vec<String>,
    /// The number of values in its trainable variables.
    pub parameters: u64,
    /// The number of values that a step computes for a sample.
    pub activations: u64,
}

impl GraphFile {
    /// The names of its ends without the training operation.
    pub(crate) fn measured(&self) -> Vec<&str> {
        let always = [&self.images, &self.labels, &self.loss];
        always.into_iter().chain(&self.accuracy).map(String::as_str).collect()
    }

    /// The names of its ends.
    pub(crate) fn ends(&self) -> Vec<&str> {
        self.measured().into_iter().chain(self.train.as_deref()).collect()
    }
}

impl fmt::Debug for GraphFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("GraphFile");
        shown.field("bytes", &self.bytes.len()).field("loss", &self.loss);
        shown.field("train", &self.train).finish_non_exhaustive()
    }
}
