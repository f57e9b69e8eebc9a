//! Graph construction, shape inference, gradients by structure, pruning.
