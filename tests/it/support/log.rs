//! A log in memory.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};

use tracing::Subscriber;

/// What is logged. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Writes what is logged into this.
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let log = self.clone();
        tracing_subscriber::fmt().with_writer(move || log.clone()).finish()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
