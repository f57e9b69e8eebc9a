//! What a user holds: data sets and their batches.

pub mod data;
