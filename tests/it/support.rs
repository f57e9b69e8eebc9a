//! What the tests share: programs, clusters, checks of what a training told of itself.

pub(crate) mod alone;
pub(crate) mod binary;
pub(crate) mod checkers;
pub(crate) mod counting;
pub(crate) mod deployed;
pub(crate) mod digit_files;
pub(crate) mod ear;
pub(crate) mod fixture;
pub(crate) mod log;
pub(crate) mod schema;
pub(crate) mod simulated;
pub(crate) mod tampered;
pub(crate) mod tfrecord;
pub(crate) mod thorough;
