//! Notes a task's traffic, and who waits in it, on a board.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use super::network::Network;
use crate::live::Board;
use crate::runtime::Server;

/// The interval of the looks at the task.
const LOOK: Duration = Duration::from_secs(1);

/// Notes what `network` and `server` know on `board`, until the server is gone.
pub(super) fn watch(network: &Rc<Network>, server: &Rc<Server>, board: Arc<Board>) {
    network.count_by_peer();
    actix_rt::spawn(look(Rc::downgrade(network), Rc::downgrade(server), board));
}

async fn look(network: Weak<Network>, server: Weak<Server>, board: Arc<Board>) {
    loop {
        {
            let (Some(network), Some(server)) = (network.upgrade(), server.upgrade()) else {
                return;
            };
            let activity = network.activity(&server).await;
            board.note(server.task(), activity);
        }
        tokio::time::sleep(LOOK).await;
    }
}
