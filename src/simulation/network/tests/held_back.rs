//! What holds messages back, against what a faster card would change.

use super::*;

/// What held each message back, in their order \[ns\]; they are all sent at their times.
fn held_back(spec: &NetworkSpec, messages: &[Sent]) -> Vec<Vec<(Limit, u64)>> {
    let mut network = Network::new(spec, (0..7).collect(), &BTreeSet::new());
    let mut held = vec![Vec::new(); messages.len()];
    let mut advance = |network: &mut Network<usize>, until: u64| {
        while let Some(at) = network.next_event().filter(|at| at.0 < until) {
            let Some(Delivery { times, payload, .. }) = network.advance(at) else { continue };
            let spans: Vec<(Limit, u64)> = times.held.spans().collect();
            let all: u64 = spans.iter().map(|(_, span)| span).sum();
            assert_eq!(all, times.left.since(times.began).as_nanos() as u64, "nothing is missing");
            held[payload] = spans;
        }
    };
    for (index, (from, to, size, sent)) in messages.iter().enumerate() {
        advance(&mut network, *sent);
        network.send(Time(*sent), *from, *to, Bytes(*size), index);
    }
    advance(&mut network, u64::MAX);
    held
}

fn cards(rates: &[(usize, f64)]) -> NetworkSpec {
    let own = |rate: f64| LinkSpeed { bandwidth: Some(BytesPerSecond(rate)), latency: None };
    let cards = rates.iter().map(|(task, rate)| (*task, own(*rate))).collect();
    NetworkSpec { cards, ..spec() }
}

#[test]
fn a_message_alone_is_held_back_by_the_slower_card_or_by_both() {
    let alone = |spec: &NetworkSpec| held_back(spec, &[(0, 1, 1_000, 0)]).remove(0);
    assert_eq!(alone(&spec()), [(Limit::BothCards, 1_000)]);
    assert_eq!(alone(&cards(&[(0, NIC / 2.0)])), [(Limit::SendingCard, 2_000)]);
    assert_eq!(alone(&cards(&[(1, NIC / 4.0)])), [(Limit::ReceivingCard, 4_000)]);
    // Twice as fast, the sender's card would still be the slower one; then they are equal.
    let nearly = alone(&cards(&[(0, NIC / 1.25)]));
    assert_eq!(nearly, [(Limit::SendingCard, 500), (Limit::BothCards, 750)]);
}

/// The senders 0 and 1 each send to three hosts; what they send to host 4 is more than the rest, so
/// that its last bytes meet there.
#[test]
fn a_card_that_only_the_last_bytes_meet_is_charged_with_these_alone() {
    let messages = [
        (0, 2, 1_000, 0),
        (0, 3, 1_000, 0),
        (0, 4, 2_000, 0),
        (1, 5, 1_000, 0),
        (1, 6, 1_000, 0),
        (1, 4, 2_000, 0),
    ];
    let held = held_back(&spec(), &messages);
    let last =
        [(Limit::SendingCard, 2_000), (Limit::ReceivingCard, 2_000), (Limit::BothCards, 1_000)];
    assert_eq!((&held[2][..], &held[5][..]), (&last[..], &last[..]));
    assert_eq!(held[0], [(Limit::SendingCard, 3_000)]);
    // With senders' cards twice as fast, host 4 receives at its full rate all the time.
    let faster = cards(&[(0, 2.0 * NIC), (1, 2.0 * NIC)]);
    assert_eq!(arrivals(&spec(), 7, &messages)[2], 5_000);
    assert_eq!(arrivals(&faster, 7, &messages)[2], 5_000 - 2_000 / 2);
}

#[test]
fn what_a_message_waits_for_behind_another_of_its_connection_held_it_back_too() {
    // Alone for 1000 ns; then host 0 sends to two, and at last again to one.
    let messages = [(0, 1, 3_000, 0), (0, 1, 1_000, 0), (0, 2, 1_000, 1_000)];
    let held = held_back(&spec(), &messages);
    assert_eq!(arrivals(&spec(), 3, &messages), [4_000, 5_000, 3_000]);
    assert_eq!(held[0], [(Limit::SendingCard, 2_000), (Limit::BothCards, 2_000)]);
    assert_eq!(held[1], [(Limit::SendingCard, 2_000), (Limit::BothCards, 3_000)]);
    assert_eq!(held[2], [(Limit::SendingCard, 2_000)]);
}
