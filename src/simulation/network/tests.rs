//! The network against closed forms.

mod cards;
mod collectives;
mod crashes;
mod fairness;
mod held_back;
mod naive;

use std::collections::BTreeMap;

use super::*;
use crate::units::BytesPerSecond;

const NIC: f64 = 1e9; // [bytes/s]: a byte a nanosecond

fn spec() -> NetworkSpec {
    NetworkSpec {
        latency: Duration::ZERO,
        bandwidth: BytesPerSecond(NIC),
        message_cost: Duration::ZERO,
        ..NetworkSpec::default()
    }
}

/// The headers of a packet \[bytes\].
const HEADERS: u64 = 77;

#[test]
fn packets_headers_cross_the_cards_and_no_loopback() {
    let spec = NetworkSpec { mtu: Some(1500), ..spec() };
    assert_eq!(arrivals(&spec, 2, &[(0, 1, 1, 0)]), [1 + HEADERS]);
    assert_eq!(arrivals(&spec, 2, &[(0, 1, 1_437_000, 0)]), [1_437_000 + 1_000 * HEADERS]);
    let shared = arrivals(&spec, 3, &[(1, 0, 1_437, 0), (2, 0, 1_437, 0)]);
    assert_eq!(shared, [2 * (1_437 + HEADERS); 2]);
    let loopback = Loopback { latency: Duration::ZERO, bandwidth: BytesPerSecond(NIC) };
    let mut network = Network::new(&NetworkSpec { loopback, ..spec }, vec![0, 0], &BTreeSet::new());
    network.send(Time(0), 0, 1, Bytes(1_000), ());
    assert_eq!(network.next_event(), Some(Time(1_000)));
}

/// A message of a test: its sender, its receiver, its size [bytes], and its sending time [ns].
type Sent = (usize, usize, u64, u64);

/// The arrival times [ns] of `messages`, in order of sending time; checks conservation at every
/// event.
fn arrivals(spec: &NetworkSpec, hosts: usize, messages: &[Sent]) -> Vec<u64> {
    let arrived = arrivals_despite(spec, hosts, messages, None);
    arrived.into_iter().map(|at| at.expect("every message arrives")).collect()
}

/// The same if a task crashes at a time [ns], after what is sent by then; nothing for messages that
/// don't arrive.
fn arrivals_despite(
    spec: &NetworkSpec,
    hosts: usize,
    messages: &[Sent],
    mut crash: Option<(usize, u64)>,
) -> Vec<Option<u64>> {
    let network = Network::new(spec, (0..hosts).collect(), &BTreeSet::new());
    let mut run = Run { network, messages, arrived: vec![None; messages.len()], under_way: 0 };
    for (index, (from, to, size, sent)) in messages.iter().enumerate() {
        if let Some((task, at)) = crash.take_if(|(_, at)| *at < *sent) {
            run.crash(task, at);
        }
        run.advance_to(*sent);
        run.under_way += size;
        run.network.send(Time(*sent), *from, *to, Bytes(*size), index);
    }
    if let Some((task, at)) = crash {
        run.crash(task, at);
    }
    run.advance_to(u64::MAX);
    assert_eq!((run.network.bytes_in_flight(), run.under_way), (Bytes(0), 0), "none is left");
    run.arrived
}

/// A network with messages that are known by their place among all of a test.
struct Run<'a> {
    network: Network<usize>,
    messages: &'a [Sent],
    arrived: Vec<Option<u64>>,
    /// The size of all messages under way \[bytes\].
    under_way: u64,
}

impl Run<'_> {
    /// Lets all events before `time` happen.
    fn advance_to(&mut self, time: u64) {
        while let Some(at) = self.network.next_event().filter(|at| at.0 < time) {
            if let Some(delivery) = self.network.advance(at) {
                self.arrive(at, &delivery);
            }
            self.check_conservation();
        }
    }

    fn arrive(&mut self, at: Time, delivery: &Delivery<usize>) {
        let (from, to, size, _) = self.messages[delivery.payload];
        assert_eq!((delivery.from, delivery.to, delivery.size.0), (from, to, size));
        self.arrived[delivery.payload] = Some(at.0);
        self.under_way -= size;
    }

    fn crash(&mut self, task: usize, at: u64) {
        self.advance_to(at);
        for unsent in self.network.crash(Time(at), task) {
            assert_eq!(unsent.from, task, "the messages of others go on");
            self.under_way -= unsent.size.0;
        }
        self.check_conservation();
    }

    fn check_conservation(&self) {
        assert_eq!(self.network.bytes_in_flight().0, self.under_way, "bytes are conserved");
    }
}

#[test]
fn a_message_alone_takes_its_cost_its_transfer_and_the_latency() {
    let (latency, message_cost) = (Duration::from_nanos(700), Duration::from_nanos(50));
    let spec = NetworkSpec { latency, message_cost, ..spec() };
    assert_eq!(arrivals(&spec, 2, &[(0, 1, 1_000, 5)]), [1_755]);
    assert_eq!(arrivals(&spec, 2, &[(0, 1, 0, 5)]), [755]);
    assert_eq!(arrivals(&spec, 2, &[(1, 1, 1_000, 5)]), [55], "within a host, the cost alone");
}

#[test]
fn a_message_alone_starts_and_arrives_and_its_last_byte_is_no_event() {
    let spec = NetworkSpec {
        latency: Duration::from_micros(5),
        message_cost: Duration::from_micros(1),
        ..spec()
    };
    let mut network = Network::new(&spec, vec![0, 1], &BTreeSet::new());
    network.send(Time(0), 0, 1, Bytes(100), 'a');
    assert_eq!(network.next_event(), Some(Time(1_000)));
    assert_eq!(network.advance(Time(1_000)), None);
    assert_eq!(network.next_event(), Some(Time(6_100)));
    assert_eq!(network.advance(Time(6_100)).map(|delivery| delivery.payload), Some('a'));
    assert_eq!(network.next_event(), None);
}

#[test]
fn a_sender_handles_its_messages_one_after_another() {
    let spec = NetworkSpec { message_cost: Duration::from_nanos(100), ..spec() };
    assert_eq!(arrivals(&spec, 4, &[(0, 1, 10, 0), (0, 2, 10, 0), (0, 3, 10, 0)]), [110, 210, 310]);
    assert_eq!(
        arrivals(&spec, 4, &[(0, 3, 10, 0), (1, 3, 10, 50), (2, 3, 10, 900)]),
        [110, 160, 1_010]
    );
}

#[test]
fn equal_messages_into_one_host_all_end_together() {
    for n in [2, 7, 100] {
        let messages: Vec<Sent> = (1..=n).map(|from| (from, 0, 1_000_000, 0)).collect();
        assert_eq!(arrivals(&spec(), n + 1, &messages), vec![n as u64 * 1_000_000; n]);
    }
}

#[test]
fn unequal_messages_into_one_host_end_as_processor_sharing_has_it() {
    let messages = [(1, 0, 1_000_000, 0), (2, 0, 2_000_000, 0), (3, 0, 4_000_000, 0)];
    assert_eq!(arrivals(&spec(), 4, &messages), [3_000_000, 5_000_000, 7_000_000]);
    // t_k = t_(k-1) + (n - k + 1) (m_k - m_(k-1)) / B
    let sizes: Vec<u64> = (0..200).map(|k| 1_003 * k + 7 * k * k + 1).collect();
    let messages: Vec<Sent> =
        sizes.iter().enumerate().map(|(k, size)| (k + 1, 0, *size, 0)).collect();
    let (mut expected, mut before) = (0, 0);
    for (k, at) in arrivals(&spec(), 201, &messages).into_iter().enumerate() {
        expected += (200 - k as u64) * (sizes[k] - before);
        before = sizes[k];
        assert!(at.abs_diff(expected) <= 1 + k as u64, "flow {k} at {at} for {expected}");
    }
}

#[test]
fn a_message_that_meets_another_half_way_shares_from_then_on() {
    assert_eq!(arrivals(&spec(), 3, &[(1, 0, 1_000, 0), (2, 0, 1_000, 500)]), [1_500, 2_000]);
    assert_eq!(arrivals(&spec(), 3, &[(1, 0, 1_000, 0), (2, 0, 1_000, 1_000)]), [1_000, 2_000]);
}

/// A worker's own NIC caps it: the rate of each is min(b, B/n), for each of its messages b =
/// NIC/(its messages).
#[test]
fn a_flow_is_held_back_by_the_fuller_of_its_two_nics() {
    // Host 1 sends to 3 hosts; so does each of 2..=5 to host 0 alone, with host 1: 5 into host 0.
    let mut messages = vec![(1, 0, 600, 0), (1, 6, 600, 0), (1, 7, 600, 0)];
    messages.extend((2..=5).map(|from| (from, 0, 600, 0)));
    // Into host 0: 1/5 each, all end at 3000. Host 1's other two share 4/5: 2/5 each, end at 1500.
    assert_eq!(arrivals(&spec(), 8, &messages), [3_000, 1_500, 1_500, 3_000, 3_000, 3_000, 3_000]);
    // With 2 into host 0, host 1's 1/3 caps it and the other gets 2/3.
    let messages = [(1, 0, 600, 0), (1, 6, 600, 0), (1, 7, 600, 0), (2, 0, 600, 0)];
    assert_eq!(arrivals(&spec(), 8, &messages), [1_800, 1_800, 1_800, 900]);
}

/// Parking lot: one long flow and a short one on each link get 1/2 each (proportional fairness
/// would not).
#[test]
fn a_long_route_gets_the_same_share_as_the_short_ones_it_meets() {
    // Racks of 2 behind uplinks as fast as NICs: the long flow 0 -> 2 crosses four links, each with
    // one rival.
    let spec = NetworkSpec {
        racks: Some(Racks { hosts_per_rack: 2, uplink: BytesPerSecond(NIC) }),
        ..spec()
    };
    let messages =
        [(0, 2, 1_000, 0), (0, 1, 1_000, 0), (5, 3, 1_000, 0), (1, 6, 1_000, 0), (3, 2, 1_000, 0)];
    assert_eq!(arrivals(&spec, 8, &messages), [2_000; 5]);
}

/// Pushing a model of M bytes from n workers to k servers takes max(M/B, nM/(kB)).
#[test]
fn pushing_to_servers_takes_the_longer_of_a_workers_and_a_servers_share() {
    for (n, k) in [(1, 4), (4, 4), (3, 5), (16, 16), (32, 4), (50, 8)] {
        let shard = 48_000;
        let model = shard * k as u64;
        let messages: Vec<Sent> = (0..n)
            .flat_map(|worker| (0..k).map(move |server| (k + worker, server, shard, 0)))
            .collect();
        let expected = model.max(n as u64 * model / k as u64);
        assert_eq!(
            arrivals(&spec(), n + k, &messages),
            vec![expected; n * k],
            "{n} workers, {k} servers"
        );
    }
}

/// SimGrid 3.32, CM02 without factors: every worker fetches 1/16 of M from each of 16 servers, 20
/// us latency.
#[test]
fn a_synchronous_fetch_takes_what_simgrid_says() {
    let spec = NetworkSpec {
        bandwidth: BytesPerSecond(1.063e9),
        latency: Duration::from_micros(20),
        ..spec()
    };
    for (workers, model, expected) in
        [(100, 1 << 30, 6.313177), (200, 100_000_000, 1.175937), (1000, 100_000_000, 5.879606)]
    {
        let messages: Vec<Sent> = (0..workers)
            .flat_map(|worker| (0..16).map(move |ps| (ps, 16 + worker, model / 16, 0)))
            .collect();
        let step = *arrivals(&spec, workers + 16, &messages).iter().max().unwrap() as f64 / 1e9;
        assert!((step - expected).abs() < 1e-6, "{workers} workers: {step} s for {expected} s");
    }
}

#[test]
fn what_a_host_sends_does_not_slow_what_it_receives() {
    assert_eq!(arrivals(&spec(), 2, &[(0, 1, 5_000, 0), (1, 0, 5_000, 0)]), [5_000, 5_000]);
}

#[test]
fn only_messages_to_other_racks_share_the_uplink() {
    let spec = NetworkSpec {
        racks: Some(Racks { hosts_per_rack: 4, uplink: BytesPerSecond(NIC / 2.0) }),
        ..spec()
    };
    let messages =
        [(0, 4, 1_000, 0), (1, 5, 1_000, 0), (2, 3, 1_000, 0), (6, 7, 1_000, 0), (4, 0, 1_000, 0)];
    assert_eq!(arrivals(&spec, 8, &messages), [4_000, 4_000, 1_000, 1_000, 2_000]);
}

/// Large messages start a microsecond late.
fn connected() -> NetworkSpec {
    let start = Duration::from_micros(1);
    NetworkSpec { connection: ConnectionSpec { large: Bytes(100), start }, ..spec() }
}

#[test]
fn messages_between_two_tasks_share_one_flow() {
    // Three large ones from task 1 share what task 2's one has by itself.
    let messages = [(1, 0, 600, 0), (1, 0, 600, 0), (1, 0, 600, 0), (2, 0, 600, 0)];
    // Each flow has sent 600 by 2200: task 2's message and the first of task 1 are through. The
    // others follow, alone.
    assert_eq!(arrivals(&connected(), 3, &messages), [2_200, 2_800, 3_400, 2_200]);
}

#[test]
fn a_small_message_waits_for_small_ones_before_it_and_not_for_large_ones() {
    let messages = [(1, 0, 1_000, 0), (1, 0, 100, 1_200), (1, 0, 50, 1_210), (1, 0, 400, 1_500)];
    // The large one begins at 1000 and waits 150 for the small ones.
    assert_eq!(arrivals(&connected(), 2, &messages), [2_000 + 150, 1_300, 1_350, 2_900]);
    let two = [(1, 0, 1_000, 0), (1, 0, 400, 500)];
    assert_eq!(arrivals(&connected(), 2, &two), [2_000, 2_400]);
}

#[test]
fn the_rate_of_a_receiving_nic_falls_with_the_number_of_its_senders() {
    let spec = NetworkSpec { incast: 0.1, ..spec() };
    assert_eq!(arrivals(&spec, 2, &[(1, 0, 1_000, 0), (1, 0, 1_000, 0)]), [1_000, 2_000]);
    // Three senders: each byte takes 1.2 as long; then two, then one.
    let unequal = [(1, 0, 1_000, 0), (2, 0, 2_000, 0), (3, 0, 3_000, 0)];
    let expected = [3_600, 3_600 + 2_200, 3_600 + 2_200 + 1_000];
    assert_eq!(arrivals(&spec, 4, &unequal), expected);
    assert_eq!(arrivals(&spec, 3, &[(0, 1, 1_000, 0), (0, 2, 1_000, 0)]), [2_000, 2_000]);
}

#[test]
fn a_task_or_a_pair_of_tasks_can_have_a_rate_and_a_latency_of_its_own() {
    let speed = |ns, share| LinkSpeed {
        latency: Some(Duration::from_nanos(ns)),
        bandwidth: Some(BytesPerSecond(NIC * share)),
    };
    let spec = NetworkSpec {
        latency: Duration::from_nanos(10),
        cards: BTreeMap::from([(1, speed(30, 0.5))]),
        links: BTreeMap::from([((0, 2), speed(5, 0.25))]),
        ..spec()
    };
    let alone = |message| arrivals(&spec, 3, &[message])[0];
    assert_eq!(alone((2, 0, 1_000, 0)), 1_010);
    assert_eq!((alone((0, 1, 1_000, 0)), alone((1, 0, 1_000, 0))), (2_030, 2_030));
    assert_eq!(alone((0, 2, 1_000, 0)), 4_005);
    assert_eq!(arrivals(&spec, 3, &[(0, 2, 800, 0), (0, 1, 800, 0)]), [3_205, 1_630]);
}

#[test]
fn messages_that_arrive_together_are_delivered_in_the_order_they_were_sent() {
    let mut network = Network::new(&spec(), (0..5).collect(), &BTreeSet::new());
    for from in [3, 1, 4, 2] {
        network.send(Time::ZERO, from, 0, Bytes(100), from);
    }
    let mut order = Vec::new();
    while let Some(at) = network.next_event() {
        order.extend(network.advance(at).map(|delivery| delivery.payload));
    }
    assert_eq!(order, [3, 1, 4, 2]);
}

#[test]
fn a_network_on_which_messages_would_never_arrive_is_refused() {
    let racks =
        |hosts_per_rack, uplink| Some(Racks { hosts_per_rack, uplink: BytesPerSecond(uplink) });
    let refused = [
        (NetworkSpec { bandwidth: BytesPerSecond(0.0), ..spec() }, "bandwidth"),
        (NetworkSpec { racks: racks(4, f64::NAN), ..spec() }, "uplink"),
        (NetworkSpec { incast: -0.1, ..spec() }, "incast"),
        (NetworkSpec { racks: racks(0, 1e9), ..spec() }, "hosts_per_rack"),
    ];
    for (spec, word) in refused {
        let error = spec.validate().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
