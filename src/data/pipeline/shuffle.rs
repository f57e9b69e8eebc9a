//! Elements in an order that is drawn from a buffer.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::super::DataError;
use super::{Elements, Source};
use crate::random;

pub(super) struct Shuffled<T> {
    inner: Elements<T>,
    buffer: Vec<T>,
    size: usize,
    stream: Pcg64,
}

impl<T> Shuffled<T> {
    pub(super) fn new(inner: Elements<T>, size: usize, seed: u64, epoch: u64) -> Self {
        let stream = random::stream(seed, &["data", "shuffle", &epoch.to_string()]);
        Self { inner, buffer: Vec::new(), size, stream }
    }
}

impl<T: Send> Source<T> for Shuffled<T> {
    fn next(&mut self) -> Result<Option<T>, DataError> {
        while self.buffer.len() < self.size {
            let Some(element) = self.inner.next()? else { break };
            self.buffer.push(element);
        }
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let drawn = self.stream.random_range(0..self.buffer.len());
        Ok(Some(self.buffer.swap_remove(drawn)))
    }
}
