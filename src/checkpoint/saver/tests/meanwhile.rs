//! Stores in which something else happens once, around the write of a file.

use std::sync::Mutex;

use crate::checkpoint::Memory;
use crate::checkpoint::fixture::{Call, Tampered};

/// Does `act` once, directly before the file `file` is written.
pub(super) fn before(
    store: &Memory,
    file: &'static str,
    act: impl FnOnce() + Send + 'static,
) -> Tampered {
    once(store, move |call| matches!(call, Call::Write(name, _) if *name == file), act)
}

/// Does `act` once, directly after the file `file` is written.
pub(super) fn after(
    store: &Memory,
    file: &'static str,
    act: impl FnOnce() + Send + 'static,
) -> Tampered {
    once(store, move |call| matches!(call, Call::Written(name) if *name == file), act)
}

fn once(
    store: &Memory,
    is_time: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static,
    act: impl FnOnce() + Send + 'static,
) -> Tampered {
    let act = Mutex::new(Some(act));
    Tampered::new(store, move |call| {
        if is_time(&call)
            && let Some(act) = act.lock().unwrap().take()
        {
            act();
        }
        Ok(())
    })
}
