//! The results of a command that simulates several runs: if it is asked to stop, it shows those of
//! the runs that are over. The runs under way are lost.

use std::sync::{Arc, Mutex};
use std::thread;

use super::failure::Failure;
use crate::deployment::StopRequest;

/// Results that are added to until the command ends or is asked to stop.
pub(super) struct Results<R>(Arc<Mutex<Option<R>>>);

impl<R> Results<R> {
    /// The results so far.
    pub(super) fn new(results: R) -> Self {
        Self(Arc::new(Mutex::new(Some(results))))
    }

    /// Adds to the results.
    pub(super) fn with<T>(&self, add: impl FnOnce(&mut R) -> T) -> T {
        let mut results = self.0.lock().expect("nobody panics while a result is noted");
        if let Some(results) = results.as_mut() {
            return add(results);
        }
        drop(results);
        wait_for_the_end()
    }

    /// The results at the end.
    pub(super) fn take(self) -> R {
        taken(&self.0).unwrap_or_else(|| wait_for_the_end())
    }
}

/// Waits until the process has ended: whoever has taken the results away shows them, and ends it.
fn wait_for_the_end() -> ! {
    loop {
        thread::park();
    }
}

fn taken<R>(results: &Mutex<Option<R>>) -> Option<R> {
    results.lock().expect("nobody panics while a result is noted").take()
}

/// Has `show` show `results` and ends the process when it is asked to stop.
///
/// # Errors
/// If signals can't be listened for.
pub(super) fn on_stop<R: Send + 'static>(
    results: &Results<R>,
    show: impl FnOnce(R) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let results = Arc::clone(&results.0);
    Ok(StopRequest::on_signals()?.then(move |code| {
        let Some(results) = taken(&results) else { return };
        let code = show(results).map_or_else(|failure| failure.report(), |()| code);
        std::process::exit(code as i32);
    })?)
}
