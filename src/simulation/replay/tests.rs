//! Replays of tapes that are written here.

use smallvec::smallvec;

use super::*;
use crate::cluster::TaskName;
use crate::partition::CrossingId;
use crate::runtime::{GraphHandle, ParameterServerMessage, ProgramMessage, StepId, WorkerMessage};
use crate::sync::Leaving;
use crate::tape::{Author, Kind, Life};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn leave(worker: u32) -> PeerMessage {
    ParameterServerMessage::Leave { worker, why: Leaving::Done, training: 1 }.into()
}

fn leave_name(worker: u64) -> Name {
    Name { kind: Kind::Leave, author: Author::Own, number: worker, items: smallvec![] }
}

fn values(edges: &[u32]) -> PeerMessage {
    let arrivals = edges.iter().map(|edge| (CrossingId(*edge), None)).collect();
    let step = StepId { master: 99, number: 4, trains: true };
    WorkerMessage::Tensors { step, devices: smallvec![], arrivals }.into()
}

fn values_name(edges: &[u32]) -> Name {
    let items = edges.iter().copied().collect();
    Name { kind: Kind::Tensors, author: Author::Own, number: 4, items }
}

fn received(at: u64, from: usize, messages: Vec<Name>) -> Entry {
    Entry { at: Time(at), event: Event::Received { from: from as u32, messages } }
}

fn lost(at: u64, peer: usize) -> Entry {
    Entry { at: Time(at), event: Event::Lost { peer: peer as u32, loss: Loss::Silent } }
}

fn ended(at: u64) -> Entry {
    Entry { at: Time(at), event: Event::Ended { weights: None, error: None } }
}

/// A replay of three workers that have all begun. A's tape has `entries`; the other two tapes are
/// empty.
fn replay(entries: Vec<Entry>) -> Replay {
    let life = |entries| vec![Life { began: Time::ZERO, entries, died: None }];
    let tasks = (0..3).map(|index| TaskName::new("worker", index)).collect();
    let lives = vec![life(entries), life(vec![ended(9)]), life(vec![ended(9)])];
    let mut replay = Replay::new(&Tapes::of(tasks, lives));
    for task in [A, B, C] {
        let (begun, played) = replay.advance(Time::ZERO).unwrap();
        assert!(begun == task && matches!(played, Played::Start), "{played:?}");
    }
    replay
}

/// What is played next, and when.
fn next(replay: &mut Replay) -> Option<(u64, String)> {
    let at = replay.next_event(Time::ZERO)?;
    let (task, played) = replay.advance(at)?;
    assert_eq!(task, A);
    let words = match played {
        Played::Deliver { from, messages } => {
            let name = |message| Masters::default().name(from as u32, message);
            let tasks = replay.tapes.tasks();
            let names: Vec<String> =
                messages.iter().map(|message| name(message).in_words(tasks)).collect();
            format!("{from}: {}", names.join("; "))
        }
        other => format!("{other:?}"),
    };
    Some((at.0, words))
}

#[test]
fn messages_are_delivered_in_the_order_of_the_tape_and_not_before_their_time() {
    let mut replay = replay(vec![
        received(10, C, vec![leave_name(2)]),
        received(20, B, vec![leave_name(1), leave_name(7)]),
        ended(30),
    ]);
    replay.send(B, A, vec![leave(7)]);
    replay.send(B, A, vec![leave(1)]);
    assert_eq!(replay.next_event(Time::ZERO), None, "the first is not there");
    replay.send(C, A, vec![leave(2)]);
    assert_eq!(next(&mut replay), Some((10, "2: Leave worker 2".to_owned())));
    assert_eq!(next(&mut replay), Some((20, "1: Leave worker 1; Leave worker 7".to_owned())));
    assert_eq!(next(&mut replay), None);
    assert_eq!(replay.departure_at_end(), None);
}

#[test]
fn values_travel_together_as_on_the_tape_whatever_they_were_sent_with() {
    let names = vec![values_name(&[1, 2]), values_name(&[3])];
    let mut replay = replay(vec![received(10, B, names), ended(20)]);
    replay.send(B, A, vec![values(&[2, 3])]);
    assert_eq!(replay.next_event(Time::ZERO), None);
    replay.send(B, A, vec![values(&[1])]);
    let together = "1: Tensors step 4 (edges 1, 2); Tensors step 4 (edges 3)";
    assert_eq!(next(&mut replay), Some((10, together.to_owned())));
}

#[test]
fn a_message_that_never_comes_is_named_with_its_position_and_what_waits() {
    let mut replay =
        replay(vec![received(10, B, vec![leave_name(1)]), received(20, C, vec![leave_name(2)])]);
    replay.send(B, A, vec![leave(1)]);
    replay.send(B, A, vec![leave(3)]);
    next(&mut replay).unwrap();
    let limit = Time(20).after(PATIENCE);
    assert_eq!(replay.departure(Some(limit)), None, "it may still come");
    let error = replay.departure(Some(Time(limit.0 + 1))).unwrap();
    assert_eq!(error.code, Code::Departed);
    for told in ["worker:0 departs from its tape at position 1", "Leave worker 2", "Leave worker 3"]
    {
        assert!(error.message.contains(told), "no `{told}` in: {error}");
    }
    assert_eq!(replay.departure(None), Some(error.clone()));
    assert_eq!(replay.departure_at_end(), Some(error));
}

#[test]
fn a_message_that_the_tape_does_not_have_is_named_at_the_end() {
    let mut replay = replay(vec![received(10, B, vec![leave_name(2)]), ended(20)]);
    replay.send(B, A, vec![leave(1)]);
    replay.send(B, A, vec![leave(2)]);
    replay.send(C, A, vec![leave(3)]);
    next(&mut replay).unwrap();
    let error = replay.departure_at_end().unwrap();
    assert!(error.message.contains("Leave worker 1 from worker:1 was sent, too"), "{error}");
}

#[test]
fn a_question_after_a_wait_that_the_tape_does_not_have_is_no_departure() {
    let step = StepId { master: 99, number: 4, trains: true };
    let ways = WorkerMessage::AskForWays { step, graph: GraphHandle { master: 99, number: 1 } };
    let questions: [PeerMessage; 2] = [ProgramMessage::AskForPlaces.into(), ways.into()];
    for question in questions {
        let mut replay = replay(vec![received(10, B, vec![leave_name(1)]), ended(20)]);
        replay.send(B, A, vec![question]);
        replay.send(B, A, vec![leave(1)]);
        assert_eq!(next(&mut replay), Some((10, "1: Leave worker 1".to_owned())));
        assert_eq!(replay.departure_at_end(), None);
    }
}

#[test]
fn a_question_for_places_that_the_tape_has_is_delivered_though_it_was_asked_earlier() {
    let question =
        Name { kind: Kind::AskForPlaces, author: Author::Own, number: 0, items: smallvec![] };
    let mut replay = replay(vec![
        received(10, B, vec![leave_name(1)]),
        received(20, B, vec![question]),
        ended(30),
    ]);
    replay.send(B, A, vec![ProgramMessage::AskForPlaces.into()]);
    replay.send(B, A, vec![leave(1)]);
    assert_eq!(next(&mut replay), Some((10, "1: Leave worker 1".to_owned())));
    assert_eq!(next(&mut replay), Some((20, "1: AskForPlaces number 0".to_owned())));
    assert_eq!(replay.departure_at_end(), None);
}

#[test]
fn kernels_end_when_the_tape_has_their_end() {
    let computed = Entry { at: Time(10), event: Event::Computed { device: 0 } };
    let mut replay = replay(vec![computed, ended(20)]);
    assert_eq!(replay.next_event(Time::ZERO), None);
    replay.compute(DeviceOf { task: A, device: 0 });
    assert_eq!(next(&mut replay), Some((10, "Finish { device: 0 }".to_owned())));
}

#[test]
fn a_life_ends_after_its_tape_and_what_it_has_sent_is_lost_with_it_whoever_notices() {
    for notices in [true, false] {
        let tasks = (0..2).map(|index| TaskName::new("worker", index)).collect();
        let dead = Life { began: Time::ZERO, entries: Vec::new(), died: Some(Time(5)) };
        let again = Life { began: Time(8), entries: vec![ended(40)], died: None };
        let mut entries = vec![received(20, B, vec![leave_name(1)]), ended(30)];
        if notices {
            entries.insert(0, lost(10, B));
        }
        let observer = Life { began: Time::ZERO, entries, died: None };
        let mut replay = Replay::new(&Tapes::of(tasks, vec![vec![observer], vec![dead, again]]));
        let mut play = |sends: bool| {
            if sends {
                replay.send(B, A, vec![leave(1)]);
            }
            let at = replay.next_event(Time::ZERO)?;
            Some((at.0, format!("{:?}", replay.advance(at)?)))
        };
        let mut played = vec![play(false), play(false)];
        played.extend([true, false].map(&mut play));
        played.extend(notices.then(|| play(false)));
        let kinds: Vec<(u64, bool)> = played
            .into_iter()
            .map(|one| one.map(|(at, words)| (at, words.contains("Start"))).unwrap())
            .collect();
        // Two begin, one dies and begins again, the other loses it if it has met it.
        let expected = [(0, true), (0, true), (5, false), (8, true), (10, false)];
        assert_eq!(kinds, expected[..kinds.len()]);
        assert_eq!(play(false), None, "what the first life has sent is lost");
        let (at, words) = play(true).unwrap();
        assert!(at == 20 && words.contains("Leave"), "{words}");
    }
}

#[test]
fn who_has_met_a_life_may_receive_what_it_sent_after_its_death() {
    let tasks = (0..2).map(|index| TaskName::new("worker", index)).collect();
    let dead = Life { began: Time::ZERO, entries: Vec::new(), died: Some(Time(5)) };
    let again = Life { began: Time(8), entries: vec![ended(40)], died: None };
    let entries = vec![
        received(3, B, vec![leave_name(1)]),
        received(20, B, vec![leave_name(2)]),
        lost(25, B),
        ended(30),
    ];
    let frozen = Life { began: Time::ZERO, entries, died: None };
    let mut replay = Replay::new(&Tapes::of(tasks, vec![vec![frozen], vec![dead, again]]));
    let mut times = Vec::new();
    for sent in [None, None, Some(1), Some(2), None, None, None] {
        if let Some(worker) = sent {
            replay.send(B, A, vec![leave(worker)]);
        }
        let at = replay.next_event(Time::ZERO).unwrap();
        replay.advance(at).unwrap();
        times.push(at.0);
    }
    assert_eq!(times, [0, 0, 3, 5, 8, 20, 25]);
}
