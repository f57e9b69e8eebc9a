//! The IP addresses of the cluster's tasks, by which one is known that could not prove its name.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::node::Node;

/// The time limit for finding them all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Those of the other tasks, as far as they are found in time.
pub(super) async fn of_others<M>(node: &Node<M>) -> BTreeSet<IpAddr> {
    let peers = node.peers.borrow().clone();
    let others = peers.iter().filter(|peer| peer.name != node.task);
    let mut found = BTreeSet::new();
    let search = async {
        for host_and_port in others.filter_map(|peer| peer.address.as_deref()) {
            let addresses = tokio::net::lookup_host(host_and_port).await;
            found.extend(addresses.into_iter().flatten().map(|address| address.ip()));
        }
    };
    let _those_of_the_rest_are_not_found = tokio::time::timeout(PATIENCE, search).await;
    found
}
