//! All-reduce: the sums and their orders, and what they take of a network.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use trainyard::cluster::TaskName;
use trainyard::experiment::Experiment;
use trainyard::graph::{AllReduce, GraphError};
use trainyard::prelude::*;
use trainyard::simulation;
use trainyard::tensor::Shape;

use crate::support::fixture::{cluster, on_actix};

/// What `way` gives each of the replicas that have `values`.
fn reduced(
    values: &[Tensor],
    reduce: impl Fn(&[Output]) -> Result<Vec<Output>, GraphError>,
) -> Vec<Tensor> {
    let found = RefCell::new(Vec::new());
    on_actix(async {
        let server = cluster(0, 1).remove(0);
        let g = Graph::new();
        let own: Vec<Output> = values.iter().map(|value| g.constant(value.clone())).collect();
        let sums = reduce(&own)?;
        let session = Session::new(&server.target(), &g).await?;
        let fetched = sums.iter().fold(session.run(), |run, sum| run.fetch(sum)).await?;
        found.borrow_mut().extend((0..sums.len()).map(|at| fetched[at].clone()));
        Ok(())
    });
    found.into_inner()
}

fn bits(value: &Tensor) -> Vec<u32> {
    value.values::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// The sizes of pieces for `owners`, as equal as they can be.
fn sizes(elements: usize, owners: usize) -> Vec<usize> {
    let count = owners.min(elements).max(1);
    (0..count).map(|piece| elements / count + usize::from(piece < elements % count)).collect()
}

/// The piece that each element is of, and the number of elements before it in the piece.
fn piece_of(element: usize, sizes: &[usize]) -> (usize, usize) {
    let mut within = element;
    for (piece, size) in sizes.iter().enumerate() {
        if within < *size {
            return (piece, within);
        }
        within -= size;
    }
    panic!("there is no element {element}");
}

/// `of(1) + of(2) + … + of(0)`, where the numbers are those after `owner` in a ring of `count`.
fn around(count: usize, owner: usize, of: impl Fn(usize) -> f32) -> f32 {
    let mut order = (1..=count).map(|step| (owner + step) % count).map(of);
    let first = order.next().unwrap();
    order.fold(first, |sum, x| sum + x)
}

/// Pairs of neighbours, then pairs of pairs.
fn in_pairs(values: &[f32]) -> f32 {
    match values {
        [only] => *only,
        several => {
            let (lower, upper) = several.split_at(several.len() / 2);
            in_pairs(lower) + in_pairs(upper)
        }
    }
}

/// The sum of element `element` of `elements` in the order that is documented; `x` are the
/// replicas' own.
fn in_order(way: &AllReduce, x: &[f32], (element, elements): (usize, usize)) -> f32 {
    match way {
        AllReduce::Shuffle => x[1..].iter().fold(x[0], |sum, x| sum + x),
        AllReduce::Ring => {
            let (piece, _) = piece_of(element, &sizes(elements, x.len()));
            around(x.len(), piece, |replica| x[replica])
        }
        AllReduce::Tree => {
            let power = 1 << x.len().ilog2();
            let pairs = x.len() - power;
            let first = (0..pairs).map(|pair| x[2 * pair] + x[2 * pair + 1]);
            in_pairs(&first.chain(x[2 * pairs..].iter().copied()).collect::<Vec<_>>())
        }
        AllReduce::Hierarchical { groups } => {
            let mut members: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
            for (group, x) in groups.iter().zip(x) {
                members.entry(*group).or_default().push(*x);
            }
            let members: Vec<Vec<f32>> = members.into_values().collect();
            let owners = members.iter().map(Vec::len).min().unwrap();
            let pieces = sizes(elements, owners);
            let (piece, within) = piece_of(element, &pieces);
            let (part, _) = piece_of(within, &sizes(pieces[piece], members.len()));
            around(members.len(), part, |group| {
                around(members[group].len(), piece, |member| members[group][member])
            })
        }
    }
}

/// Replicas' values, of one shape with none to three axes, some of which are empty.
fn values() -> impl Strategy<Value = Vec<Tensor>> {
    let shape = prop::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..8], 0..4);
    (shape, 1usize..=9).prop_flat_map(|(shape, replicas)| {
        let elements = shape.iter().product::<usize>();
        let one = prop::collection::vec(-1e3f32..1e3, elements);
        let tensor = move |values: Vec<f32>| Tensor::new(Shape::new(&shape), &values).unwrap();
        prop::collection::vec(one.prop_map(tensor), replicas)
    })
}

fn ways(replicas: usize) -> impl Strategy<Value = AllReduce> {
    let groups = prop::collection::vec(0usize..3, replicas);
    prop_oneof![
        Just(AllReduce::Ring),
        Just(AllReduce::Tree),
        Just(AllReduce::Shuffle),
        groups.prop_map(|groups| AllReduce::Hierarchical { groups }),
    ]
}

#[test]
fn every_replica_has_the_sum_in_the_order_that_is_documented_to_the_last_bit() {
    let cases = values().prop_flat_map(|values| {
        let ways = ways(values.len());
        (Just(values), ways)
    });
    let mut runner =
        TestRunner::new(Config { cases: 160, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&cases, |(values, way)| {
        let own: Vec<&[f32]> = values.iter().map(|value| value.values().unwrap()).collect();
        let elements = own[0].len();
        let expected: Vec<u32> = (0..elements)
            .map(|at| {
                let x: Vec<f32> = own.iter().map(|own| own[at]).collect();
                in_order(&way, &x, (at, elements)).to_bits()
            })
            .collect();
        let sums = reduced(&values, |own| way.sum(own));
        prop_assert_eq!(sums.len(), values.len());
        for sum in &sums {
            prop_assert_eq!(sum.shape(), values[0].shape());
            prop_assert_eq!(bits(sum), expected.clone());
        }
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn the_sum_of_whole_numbers_is_the_plain_sum_in_every_way_and_the_mean_its_share() {
    for replicas in 1..=9usize {
        let value = |replica: usize| {
            let own: Vec<f32> = (0..11).map(|at| ((replica * 7 + at * 5) % 23) as f32).collect();
            Tensor::new([11], &own).unwrap()
        };
        let values: Vec<Tensor> = (0..replicas).map(value).collect();
        let total = |at: usize| values.iter().map(|own| own.values::<f32>().unwrap()[at]).sum();
        let sum: Vec<f32> = (0..11).map(total).collect();
        let mean: Vec<f32> = sum.iter().map(|sum| sum * (1.0 / replicas as f32)).collect();
        let groups = (0..replicas).map(|replica| replica / 4).collect();
        let grouped = AllReduce::Hierarchical { groups };
        for way in [AllReduce::Ring, AllReduce::Tree, AllReduce::Shuffle, grouped] {
            for own in reduced(&values, |own| way.sum(own)) {
                assert_eq!(own.values::<f32>().unwrap(), sum, "{way:?} of {replicas}");
            }
            for own in reduced(&values, |own| way.mean(own)) {
                assert_eq!(own.values::<f32>().unwrap(), mean, "{way:?} of {replicas}");
            }
        }
    }
}

#[test]
fn two_replicas_have_one_order_in_every_way() {
    let value = |seed: u32| {
        let own: Vec<f32> = (0..37u32).map(|at| (at * 7919 + seed) as f32 / 313.0).collect();
        Tensor::new([37], &own).unwrap()
    };
    let values = [value(1), value(104_729)];
    let plain = bits(&reduced(&values, |own| AllReduce::Shuffle.mean(own))[0]);
    for way in [AllReduce::Ring, AllReduce::Tree, AllReduce::Hierarchical { groups: vec![0, 1] }] {
        assert!(reduced(&values, |own| way.mean(own)).iter().all(|own| bits(own) == plain));
    }
}

#[test]
fn values_that_have_no_sum_are_refused_with_the_line_that_asked_for_it() {
    let g = Graph::new();
    let (floats, wide) = (g.constant(1f32), g.zeros([2]));
    let fed = g.placeholder("fed", DType::F32, [None]).unwrap();
    let whole = g.constant(3i64);
    let refused = |reduced: Result<Vec<Output>, GraphError>| {
        let text = reduced.unwrap_err().to_string();
        assert!(text.contains("tests/it/graph/all_reduce.rs:"), "{text}");
        text
    };
    let needs = "at least one, numbers of one type and of a shape known in full";
    for values in [vec![], vec![floats.clone(), wide], vec![fed.clone(), fed]] {
        assert!(refused(AllReduce::Ring.sum(&values)).contains(needs));
    }
    let means = refused(AllReduce::Tree.mean(&[whole.clone(), whole]));
    assert!(means.contains("at least one, floats of one type"), "{means}");
    let way = AllReduce::Hierarchical { groups: vec![0, 0, 1] };
    let grouped = refused(way.sum(&[floats.clone(), floats]));
    assert!(grouped.contains("as many values as its 3 replicas in groups"), "{grouped}");
}

/// Cards on a network that is all that takes time, and a client beside them.
const NETWORK: &str = "[network]\nlatency = \"50us\"\nbandwidth = \"10Gbps\"\n\
                       message_cost = \"0us\"\n[compute]\nrate = \"1000000GFLOP/s\"\n\
                       memory = \"1000000GB/s\"\nnumerics = \"shapes\"\n";
const LATENCY: f64 = 50e-6;
const BYTES_PER_SECOND: f64 = 1.25e9;
/// The elements of each card's value.
const ELEMENTS: usize = 5_000_000;
/// How long the cards' tasks are there.
const SERVES: Duration = Duration::from_secs(3600);

/// Sums a value of each of `cards`, tasks from 1 on, twice; gives how long the second took and how
/// much the cluster has sent in it.
async fn sums_twice(server: Rc<Server>, way: AllReduce, cards: usize) -> Result<Duration> {
    if server.task().index() > 0 {
        let clock = server.clock();
        clock.sleep_until(clock.now().after(SERVES)).await;
        return Ok(Duration::ZERO);
    }
    let g = Graph::new();
    let mut own = Vec::new();
    for card in 1..=cards {
        let device = format!("/job:worker/task:{card}");
        let zeros = |g: &Graph| g.variable(&format!("v{card}"), &g.zeros([ELEMENTS]));
        own.push(g.with_device(&device, zeros)?.read());
    }
    let sums = way.sum(&own)?;
    let session = Session::new(&server.target(), &g).await?;
    session.run().target(g.initializer()).await?;
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let began = server.clock().now();
        sums.iter().fold(session.run(), |run, sum| run.target(sum.target())).await?;
        took = server.clock().now().since(began);
    }
    Ok(took)
}

/// The seconds that `cards` take to sum a value, without those of the order and of the answer; and
/// the most bytes that one of them has sent, in both steps.
fn seconds(way: &AllReduce, cards: usize, network: &str) -> (f64, u64) {
    let tasks = cards + 1;
    let text =
        format!("[cluster]\nworker = {tasks}\n{NETWORK}{network}[[run]]\nmode = \"async\"\n");
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    let program = |server: Rc<Server>| sums_twice(server, way.clone(), cards);
    let outcome = simulation::run(&trial.cluster, program);
    let took = outcome.result.unwrap()[&TaskName::new("worker", 0)];
    let card = |task: &TaskName| task.index() > 0;
    let sent = outcome.sent.iter().filter(|(task, _)| card(task)).map(|(_, sent)| sent.total);
    (took.as_secs_f64() - 2.0 * LATENCY, sent.max().unwrap())
}

/// Asserts that `found` is within one per cent of `expected`.
#[track_caller]
fn assert_near(found: f64, expected: f64, what: &str) {
    let off = found / expected - 1.0;
    assert!(off.abs() < 0.01, "{what}: {found}, expected {expected}: {:.2} % off", 100.0 * off);
}

#[test]
fn each_way_takes_the_time_and_the_bytes_of_its_closed_form() {
    let bytes = 4.0 * ELEMENTS as f64;
    for cards in [2usize, 4, 5, 8] {
        let n = cards as f64;
        let share = 2.0 * (n - 1.0) / n * bytes;
        let ring = 2.0 * (n - 1.0) * (LATENCY + bytes / (n * BYTES_PER_SECOND));
        let (took, sent) = seconds(&AllReduce::Ring, cards, "");
        assert_near(took, ring, &format!("a ring of {cards}"));
        assert_near(sent as f64, 2.0 * share, &format!("bytes of a ring of {cards}"));
        let (took, sent) = seconds(&AllReduce::Shuffle, cards, "");
        let shuffle = 2.0 * LATENCY + share / BYTES_PER_SECOND;
        assert_near(took, shuffle, &format!("a shuffle of {cards}"));
        assert_near(sent as f64, 2.0 * share, &format!("bytes of a shuffle of {cards}"));
        if cards.is_power_of_two() {
            // Each round of halving but the first waits to hear that the one before has arrived.
            let rounds = 2.0 * n.log2() + (n.log2() - 1.0);
            let tree = rounds * LATENCY + share / BYTES_PER_SECOND;
            let (took, sent) = seconds(&AllReduce::Tree, cards, "");
            assert_near(took, tree, &format!("a tree of {cards}"));
            assert_near(sent as f64, 2.0 * share, &format!("bytes of a tree of {cards}"));
        }
    }
}

#[test]
fn rings_in_racks_and_between_them_send_a_share_of_the_bytes_over_the_uplinks() {
    // Two racks of four cards; the client has a host in the first.
    let racks = "[network.racks]\nhosts_per_rack = 5\nuplink = \"10Gbps\"\n";
    let bytes = 4.0 * ELEMENTS as f64;
    let groups = (1..=8usize).map(|host| host / 5).collect();
    let (took, _) = seconds(&AllReduce::Hierarchical { groups }, 8, racks);
    // In each rack a ring of four, twice; between them four rings of two that share the uplink.
    let inside = 6.0 * (LATENCY + bytes / 4.0 / BYTES_PER_SECOND);
    let between = 2.0 * (LATENCY + bytes / 2.0 / BYTES_PER_SECOND);
    assert_near(took, inside + between, "rings in two racks");
    let (shuffled, _) = seconds(&AllReduce::Shuffle, 8, racks);
    assert!(shuffled > 1.4 * took, "a shuffle over the uplinks takes {shuffled}, rings {took}");
}
