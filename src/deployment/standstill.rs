//! Measures how long this process has stood still, as after SIGSTOP: the others may have given it
//! up.

use std::rc::Weak;
use std::time::Duration;

use crate::clock::{Clock, WallClock};
use crate::runtime::Server;

/// The interval of the looks at the clock.
const LOOK: Duration = Duration::from_secs(1);

/// Notes at `server` the longest time for which the process stood still, until the server is gone.
pub(super) async fn watch(server: Weak<Server>, clock: WallClock) {
    loop {
        let began = clock.now();
        tokio::time::sleep(LOOK).await;
        let Some(server) = server.upgrade() else { return };
        server.note_standstill(clock.now().since(began).saturating_sub(LOOK));
    }
}
