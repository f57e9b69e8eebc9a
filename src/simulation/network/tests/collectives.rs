//! Averaging a model of M bytes over n hosts: by a ring, on one of them, and on shards on all of
//! them.

use super::*;

/// The time at which the last of `messages` arrives, which are sent at `at` [ns].
fn last(spec: &NetworkSpec, hosts: usize, at: u64, messages: &[(usize, usize, u64)]) -> u64 {
    let sent: Vec<Sent> = messages.iter().map(|(from, to, size)| (*from, *to, *size, at)).collect();
    arrivals(spec, hosts, &sent).into_iter().max().unwrap_or(at)
}

/// 2(n − 1)M/(nB) + 2(n − 1)α (Patarasu and Yuan 2009).
#[test]
fn a_ring_takes_a_share_and_a_latency_for_each_of_its_2_n_minus_1_hops() {
    const LATENCY: u64 = 30_000;
    let spec = NetworkSpec { latency: Duration::from_nanos(LATENCY), ..spec() };
    for (n, share) in [(2, 1_000_000), (8, 250_000), (64, 12_345)] {
        let hops: Vec<_> = (0..n).map(|host| (host, (host + 1) % n, share)).collect();
        let end = (0..2 * (n - 1)).fold(0, |at, _| last(&spec, n, at, &hops));
        assert_eq!(end, 2 * (n as u64 - 1) * (share + LATENCY), "{n} hosts");
    }
}

#[test]
fn one_host_for_all_takes_n_models_in_and_n_out_and_shards_on_all_take_as_long_as_a_ring() {
    for (n, share) in [(2, 500_000), (8, 125_000), (50, 20_000)] {
        let model = share * n as u64;
        let gathered: Vec<_> = (1..=n).map(|host| (host, 0, model)).collect();
        let spread: Vec<_> = (1..=n).map(|host| (0, host, model)).collect();
        let reduced = last(&spec(), n + 1, 0, &gathered);
        assert_eq!(last(&spec(), n + 1, reduced, &spread), 2 * n as u64 * model, "{n} hosts");
        let others = |from| (0..n).filter(move |to| *to != from).map(move |to| (from, to, share));
        let exchange: Vec<_> = (0..n).flat_map(others).collect();
        let pushed = last(&spec(), n, 0, &exchange);
        assert_eq!(last(&spec(), n, pushed, &exchange), 2 * (n as u64 - 1) * share, "{n} hosts");
    }
}
