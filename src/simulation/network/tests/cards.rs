//! Cards that stand still or are slower, and tasks that share a host.

use super::*;

/// Advances to the next arrival; returns it with its time.
pub(super) fn next(network: &mut Network<char>) -> Option<(u64, char)> {
    while let Some(at) = network.next_event() {
        if let Some(delivery) = network.advance(at) {
            return Some((at.0, delivery.payload));
        }
    }
    None
}

/// Four tasks on hosts of their own; 'a' and 'b' into task 0 share its card.
pub(super) fn two_under_way() -> Network<char> {
    let spec = NetworkSpec { latency: Duration::from_nanos(10), ..spec() };
    let mut network = Network::new(&spec, (0..4).collect(), &[(1, 0)].into());
    network.send(Time(0), 1, 0, Bytes(1_000), 'a');
    network.send(Time(0), 2, 0, Bytes(1_000), 'b');
    let at = network.next_event().unwrap();
    assert_eq!((at, network.advance(at)), (Time(0), None), "the rates are settled");
    network
}

#[test]
fn a_card_that_stands_still_holds_what_it_has_not_sent_and_leaves_the_links_to_others() {
    let mut network = two_under_way();
    network.pause(Time(400), 1);
    assert_eq!(next(&mut network), Some((400 + 800 + 10, 'b')), "200 sent, 800 alone");
    assert_eq!(network.next_event(), None);
    network.resume(Time(5_000), 1);
    assert_eq!(next(&mut network), Some((5_810, 'a')));
}

#[test]
fn what_is_sent_to_a_card_that_stands_still_waits_and_what_has_left_arrives() {
    let spec = NetworkSpec { latency: Duration::from_nanos(500), ..spec() };
    let mut network = Network::new(&spec, vec![0, 1], &BTreeSet::new());
    network.send(Time(0), 1, 0, Bytes(100), 'a');
    network.pause(Time(200), 0);
    network.send(Time(300), 1, 0, Bytes(100), 'b');
    assert_eq!(next(&mut network), Some((600, 'a')));
    network.resume(Time(1_000), 0);
    assert_eq!(next(&mut network), Some((1_600, 'b')));
    assert_eq!(network.bytes_in_flight(), Bytes(0));
}

#[test]
fn a_message_waits_for_both_of_its_cards() {
    let mut network = two_under_way();
    network.pause(Time(0), 1);
    network.pause(Time(0), 0);
    network.resume(Time(100), 1);
    assert_eq!(network.next_event(), None);
    network.resume(Time(1_000), 0);
    assert_eq!(next(&mut network), Some((3_010, 'a')));
    assert_eq!(next(&mut network), Some((3_010, 'b')));
}

#[test]
fn a_slower_link_slows_what_is_under_way_between_its_two_tasks_and_lets_others_be_faster() {
    let mut network = two_under_way();
    network.set_link_speed(Time(400), (1, 0), 0.25);
    // 'a' goes on at a quarter, 'b' at three quarters of the receiver's card.
    assert_eq!(next(&mut network).map(|(at, name)| (at / 10, name)), Some((147, 'b')));
    network.set_link_speed(Time(1_800), (1, 0), 1.0);
    assert_eq!(next(&mut network), Some((1_800 + 450 + 10, 'a')), "350 of 800 by then");
}

#[test]
fn a_slower_link_slows_a_message_that_is_alone_on_it_one_way() {
    let mut network = Network::new(&spec(), vec![0, 1], &[(0, 1)].into());
    network.send(Time(0), 0, 1, Bytes(1_000), 'a');
    network.set_link_speed(Time(600), (0, 1), 0.5);
    assert_eq!(next(&mut network), Some((1_400, 'a')));
    network.send(Time(1_400), 1, 0, Bytes(1_000), 'b');
    assert_eq!(next(&mut network), Some((2_400, 'b')));
}

#[test]
fn a_slower_link_with_a_bandwidth_of_its_own_has_a_share_of_that() {
    let own = LinkSpeed { latency: None, bandwidth: Some(BytesPerSecond(NIC / 2.0)) };
    let spec = NetworkSpec { links: [((0, 1), own)].into(), ..spec() };
    let mut network = Network::new(&spec, vec![0, 1], &[(0, 1)].into());
    network.send(Time(0), 0, 1, Bytes(500), 'a');
    assert_eq!(next(&mut network), Some((1_000, 'a')));
    network.set_link_speed(Time(1_000), (0, 1), 0.5);
    network.send(Time(1_000), 0, 1, Bytes(500), 'b');
    assert_eq!(next(&mut network), Some((3_000, 'b')));
}

#[test]
fn a_connection_keeps_its_queue_while_a_card_stands_still() {
    let connection = ConnectionSpec { large: Bytes(100), ..ConnectionSpec::default() };
    let mut network =
        Network::new(&NetworkSpec { connection, ..spec() }, vec![0, 1], &BTreeSet::new());
    for (name, size) in [('a', 1_000), ('b', 600), ('c', 600)] {
        network.send(Time(0), 0, 1, Bytes(size), name);
    }
    while network.next_event() == Some(Time(0)) {
        assert_eq!(network.advance(Time(0)), None);
    }
    network.pause(Time(400), 1); // 600 of 'a' are left
    network.send(Time(500), 0, 1, Bytes(100), 's');
    assert_eq!(next(&mut network), None);
    network.resume(Time(1_000), 1);
    assert_eq!(next(&mut network), Some((1_100, 's')), "the small one goes first");
    assert_eq!(next(&mut network), Some((1_700, 'a')));
    assert_eq!(next(&mut network), Some((2_300, 'b')));
    assert_eq!(next(&mut network), Some((2_900, 'c')));
}

#[test]
fn tasks_on_one_host_talk_over_its_loopback_and_share_its_card() {
    let loopback =
        Loopback { latency: Duration::from_nanos(7), bandwidth: BytesPerSecond(4.0 * NIC) };
    let spec = NetworkSpec { latency: Duration::from_nanos(100), loopback, ..spec() };
    let mut network = Network::new(&spec, vec![0, 0, 1, 2], &BTreeSet::new());
    for (from, to, name) in [(0, 1, 'l'), (0, 2, 'a'), (1, 3, 'b')] {
        network.send(Time(0), from, to, Bytes(4_000), name);
    }
    assert_eq!(next(&mut network), Some((1_007, 'l')));
    assert_eq!(next(&mut network), Some((8_100, 'a')), "both leave over one card");
    assert_eq!(next(&mut network), Some((8_100, 'b')));
}
