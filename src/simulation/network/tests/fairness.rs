//! Random flows and messages against the naive references.

use proptest::prelude::*;

use super::naive::{Fluid, ends, fair_rates};
use super::route::{LinkKind, Route};
use super::*;

/// A random test's change to the flows: one joins on these links with this many bytes, the next
/// one ends, or one leaves before its end.
#[derive(Clone, Debug)]
enum Change {
    Join { route: Vec<usize>, size: u64 },
    End,
    Leave { place: usize },
}

const LINKS: usize = 9;
/// The link that most flows share, as those of a parameter server do.
const HUB: usize = 0;

fn change() -> impl Strategy<Value = Change> {
    let route = prop_oneof![
        proptest::sample::subsequence((0..LINKS).collect::<Vec<_>>(), 1..=4),
        (1..LINKS).prop_map(|link| vec![HUB, link]),
    ];
    prop_oneof![
        3 => (route, 1..1_000_000_u64).prop_map(|(route, size)| Change::Join { route, size }),
        2 => Just(Change::End),
        1 => (0..60_usize).prop_map(|place| Change::Leave { place }),
    ]
}

/// The flows under way, by their ids, with their links.
type Active = Vec<(ConnectionId, Vec<usize>)>;

fn apply(flows: &mut Flows, active: &mut Active, now: &mut Time, id: usize, change: &Change) {
    match change {
        Change::Join { route, size } => {
            let links: Vec<LinkId> = route.iter().map(|link| *link as LinkId).collect();
            flows.join(*now, id as ConnectionId, Route::over(&links), *size as f64);
            active.push((id as ConnectionId, route.clone()));
        }
        Change::End => {
            let Some(link) = (0..LINKS as LinkId).min_by_key(|link| flows.next_end(*link)) else {
                return;
            };
            if active.is_empty() {
                return;
            }
            let mut ended = Vec::new();
            *now = flows.next_end(link);
            flows.end(*now, link, &mut ended);
            assert!(!ended.is_empty(), "an end is the end of a flow");
            active.retain(|(id, _)| !ended.contains(id));
            ended.into_iter().for_each(|id| flows.leave(*now, id));
        }
        Change::Leave { place } => {
            if *place < active.len() {
                flows.leave(*now, active.remove(*place).0);
            }
        }
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_the_max_min_fair_ones_after_every_change(
        capacities in proptest::collection::vec(prop_oneof![Just(1.0), 0.1..4.0_f64], LINKS),
        incast in prop_oneof![Just(0.0), 0.0..0.3_f64],
        changes in proptest::collection::vec(change(), 1..60),
    ) {
        let links = capacities.iter().map(|capacity| (LinkKind::Between, *capacity));
        let mut flows = Flows::new(links);
        (0..LINKS).for_each(|link| flows.set_incast(link as LinkId, incast));
        let (mut active, mut now) = (Active::new(), Time::ZERO);
        for (id, change) in changes.iter().enumerate() {
            apply(&mut flows, &mut active, &mut now, id, change);
            flows.settle(now, &mut Vec::new());
            let routes: Vec<&[usize]> = active.iter().map(|(_, route)| &**route).collect();
            let capacities: Vec<f64> = (0..LINKS)
                .map(|link| {
                    let crossing = routes.iter().filter(|route| route.contains(&link)).count();
                    capacities[link] / (1.0 + incast * crossing.saturating_sub(1) as f64)
                })
                .collect();
            let expected = fair_rates(&capacities, &routes);
            let rates: Vec<f64> = active.iter().map(|(id, _)| flows.rate(flows.of(*id))).collect();
            for (flow, route) in routes.iter().enumerate() {
                prop_assert!(
                    close(rates[flow], expected[flow]),
                    "{rates:?} for {expected:?} over {routes:?}"
                );
                let is_bottleneck = |link: &usize| {
                    let crossing = (0..routes.len()).filter(|other| routes[*other].contains(link));
                    let on_link: Vec<f64> = crossing.map(|other| rates[other]).collect();
                    let is_fastest = on_link.iter().all(|rate| *rate <= rates[flow] * (1.0 + 1e-9));
                    is_fastest && close(on_link.iter().sum(), capacities[*link])
                };
                prop_assert!(
                    route.iter().any(is_bottleneck),
                    "flow {flow} has no full link on which it is fastest"
                );
            }
        }
    }

    /// Each end is rounded to a nanosecond. Times are milliseconds, so that no small message begins
    /// within that rounding of a large one's end: whether it interrupts the large one is a jump.
    #[test]
    fn messages_arrive_when_a_fluid_simulation_has_them_arrive(
        messages in proptest::collection::vec(
            (0..6_usize, 0..6_usize, 0..3_000_000_u64, 0..4_000_000_u64),
            1..40,
        ),
        (message_cost, latency) in (prop_oneof![Just(0), 1..300_000_u64], 0..500_000_u64),
        hosts_per_rack in proptest::option::of(1..4_usize),
        crash in proptest::option::of((0..6_usize, 0..4_000_000_u64)),
    ) {
        let mut messages = messages;
        messages.sort_by_key(|message| message.3);
        let racks = hosts_per_rack
            .map(|hosts_per_rack| Racks { hosts_per_rack, uplink: BytesPerSecond(NIC * 0.7) });
        let (latency_span, message_cost) =
            (Duration::from_nanos(latency), Duration::from_nanos(message_cost));
        let connection = ConnectionSpec { large: Bytes(1_500_000), ..ConnectionSpec::default() };
        let spec = NetworkSpec { latency: latency_span, message_cost, racks, connection, ..spec() };
        let (wiring, capacities) = Wiring::new(&spec, (0..6).collect(), &BTreeSet::new());
        let mut sender_free = [[0; 2]; 6]; // by task, before and after its crash
        let flows: Vec<Fluid> = messages
            .iter()
            .map(|(from, to, size, sent)| {
                let crash_at = crash.and_then(|(task, at)| (task == *from).then_some(at));
                let until = crash_at.filter(|at| sent <= at);
                let is_after = crash_at.is_some() && until.is_none();
                let free = &mut sender_free[*from][usize::from(is_after)];
                *free = (*sent).max(*free) + message_cost.as_nanos() as u64;
                let route = wiring.route(*from, *to).iter().map(|link| *link as usize).collect();
                let pair = (*from, *to);
                let until = until.map_or(f64::INFINITY, |at| at as f64);
                Fluid { start: *free as f64, size: *size as f64, pair, route, until }
            })
            .collect();
        let expected = ends(&capacities, 1_500_000.0, &flows);
        let arrived = arrivals_despite(&spec, 6, &messages, crash);
        for (index, (at, flow)) in arrived.iter().zip(&flows).enumerate() {
            let latency = if flow.route.is_empty() { 0 } else { latency };
            // One that leaves about when its sender crashes may arrive or not.
            let expected = expected[index].min(flow.until);
            let left = at.map_or(flow.until, |at| (at - latency) as f64);
            let error = left - expected;
            prop_assert!(
                error.abs() <= 1.0 + messages.len() as f64,
                "message {index} is {error} ns late"
            );
        }
        let again = arrivals_despite(&spec, 6, &messages, crash);
        prop_assert_eq!(arrived, again, "two runs are equal bit for bit");
    }
}
