//! The built-in trainer's models that are more than a few layers, one file each.

mod embedding;

pub(super) use embedding::logits as embedding_logits;
