//! What a crashed task leaves on the network.

use super::cards::{next, two_under_way};
use super::*;

fn names(unsent: &[Delivery<char>]) -> String {
    unsent.iter().map(|delivery| delivery.payload).collect()
}

#[test]
fn a_crashed_task_leaves_the_network_to_the_others() {
    let mut network = two_under_way();
    let unsent = network.crash(Time(400), 1);
    assert_eq!(names(&unsent), "a");
    assert_eq!(next(&mut network), Some((400 + 800 + 10, 'b')), "200 sent, 800 alone");
    assert_eq!((next(&mut network), network.bytes_in_flight()), (None, Bytes(0)));
    assert_eq!(network.card_traffic(1).out, Bytes(200));
    assert_eq!(network.card_traffic(0).into, Bytes(200 + 1_000));
}

#[test]
fn what_has_left_a_task_before_it_crashes_arrives() {
    let spec = NetworkSpec { latency: Duration::from_nanos(500), ..spec() };
    let mut network = Network::new(&spec, vec![0, 1], &BTreeSet::new());
    network.send(Time(0), 1, 0, Bytes(100), 'a');
    assert_eq!(network.crash(Time(200), 1), []);
    assert_eq!(next(&mut network), Some((600, 'a')));
}

#[test]
fn what_others_send_a_task_goes_on_when_it_crashes() {
    let mut network = two_under_way();
    assert_eq!(network.crash(Time(400), 0), []);
    assert_eq!(next(&mut network), Some((2_010, 'a')));
    assert_eq!(next(&mut network), Some((2_010, 'b')));
}

#[test]
fn a_task_that_crashed_sends_again_over_empty_connections() {
    let message_cost = Duration::from_nanos(100);
    let connection = ConnectionSpec { large: Bytes(500), ..ConnectionSpec::default() };
    let mut network = Network::new(
        &NetworkSpec { connection, message_cost, ..spec() },
        vec![0, 1],
        &BTreeSet::new(),
    );
    for (name, size) in [('a', 1_000), ('b', 1_000), ('c', 10), ('d', 10), ('e', 10)] {
        network.send(Time(0), 1, 0, Bytes(size), name);
    }
    assert_eq!(next(&mut network), Some((310, 'c')));
    network.pause(Time(320), 1);
    let unsent = network.crash(Time(350), 1);
    assert_eq!(names(&unsent), "deab", "two wait for their sender, and two for the card");
    network.send(Time(350), 1, 0, Bytes(1_000), 'f');
    assert_eq!(network.crash(Time(360), 1).len(), 1, "a task can crash again at once");
    network.send(Time(360), 1, 0, Bytes(1_000), 'g');
    assert_eq!(next(&mut network), Some((360 + 100 + 1_000, 'g')));
    assert_eq!((next(&mut network), network.bytes_in_flight()), (None, Bytes(0)));
}
