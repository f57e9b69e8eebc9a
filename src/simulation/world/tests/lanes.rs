//! Lanes in a world: the bytes of large envelopes beside the message thread.

use super::gathering::post;
use super::*;
use crate::simulation::hosts::{Hosts, Lanes, MessageCost, MessageThread};
use crate::transport::SPREAD_ENVELOPE;
use crate::units::SecondsPerByte;

const FIXED: Duration = Duration::from_micros(10);

/// Two workers whose messages cost [`FIXED`] and a nanosecond a byte at either end, and who have
/// these lanes; on one host, if it has so many `cores`.
fn spreading(lanes: Option<Lanes>, cores: Option<u32>) -> World {
    world_of(&[], |cluster| {
        let cost = MessageCost { fixed: FIXED, per_byte: SecondsPerByte(1e-9) };
        let thread = MessageThread::sending_costs(Duration::ZERO);
        cluster.hardware.message_thread =
            Some(MessageThread { send: cost, receive: cost, lanes, ..thread });
        cluster.hardware.hosts = cores.map(|cores| Hosts {
            tasks: vec![vec![task(A), task(B)]],
            cores: NonZeroU32::new(cores).unwrap(),
        });
        cluster.hardware.network.loopback.latency = LATENCY;
        cluster.hardware.network.loopback.bandwidth = cluster.hardware.network.bandwidth;
    })
}

fn lanes(threads: u32, speed_up: f64) -> Option<Lanes> {
    Some(Lanes { threads: NonZeroU32::new(threads).unwrap(), speed_up })
}

/// When an envelope with a value of `size` arrives, and a small one that is sent after it.
fn arrivals(mut world: World, size: usize) -> [Duration; 2] {
    post(&mut world, size);
    send(&mut world, A, B);
    [next(&mut world).0, next(&mut world).0]
}

#[test]
fn lanes_carry_a_large_envelope_faster_and_what_is_sent_after_it_does_not_wait() {
    let size = 2 * SPREAD_ENVELOPE;
    let bytes = Duration::from_nanos(size as u64);
    let [large, small] = arrivals(spreading(None, None), size);
    assert!(large > FIXED * 2 + LATENCY + bytes, "{large:?}");
    assert!(small > large, "the thread is busy with the large one");
    let [small, large] = arrivals(spreading(lanes(4, 2.0), None), size);
    assert!(small < FIXED * 4 + LATENCY + bytes / 100, "{small:?}");
    let expected = FIXED * 2 + LATENCY + bytes / 2;
    assert!(large > expected && large < expected + bytes / 100, "{large:?}");
}

#[test]
fn only_what_is_large_enough_takes_lanes() {
    let size = SPREAD_ENVELOPE / 2;
    assert_eq!(
        arrivals(spreading(lanes(4, 2.0), None), size),
        arrivals(spreading(None, None), size)
    );
}

#[test]
fn tasks_on_one_host_have_the_lanes_that_deployed_ones_have_of_their_share_of_its_cores() {
    let size = 2 * SPREAD_ENVELOPE;
    let of = |lanes, cores| *arrivals(spreading(lanes, Some(cores)), size).iter().max().unwrap();
    let bytes = Duration::from_nanos(size as u64);
    assert_eq!(of(lanes(4, 3.0), 4), of(None, 4), "two threads of kernels each");
    let fixed = FIXED * 2 + LATENCY;
    for (cores, speed_up) in [(6, 1.0 + 2.0 * 3.0 / 4.0), (8, 3.0), (32, 3.0)] {
        let expected = fixed + bytes.div_f64(speed_up);
        let found = of(lanes(4, 3.0), cores);
        assert!(found > expected && found < expected + bytes / 100, "{cores}: {found:?}");
    }
}

#[test]
fn what_lanes_have_to_carry_when_a_run_ends_is_in_its_books() {
    for events in 0..12 {
        let mut world = spreading(lanes(4, 0.5), None);
        post(&mut world, 2 * SPREAD_ENVELOPE);
        send(&mut world, A, B);
        (0..events).for_each(|_| world.tick(&mut Vec::new()));
        drop(world.take_unfinished()); // panics unless the books have each byte once
    }
}
