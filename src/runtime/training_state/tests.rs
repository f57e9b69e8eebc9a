//! What a task knows of its training, over ends and trainings.

use super::*;
use crate::runtime::messages::WorkerMessage;

#[test]
fn messages_about_the_end_make_no_partner_however_many_travel_together() {
    let (own, other) = (PeerId(1), PeerId(3));
    let training = TrainingState::default();
    let leave = ParameterServerMessage::Leave { worker: 1, why: Leaving::Done, training: 1 };
    let over = PeerMessage::from(ParameterServerMessage::TrainingOver { training: 1 });
    training.note_partner(other, &[over.clone(), leave.into()]);
    assert_eq!(training.who_misses_a_worker(own), [own].into());
    let of_a_step = WorkerMessage::AskForMaster { master: 0 };
    training.note_partner(other, &[over, of_a_step.into()]);
    assert_eq!(training.who_misses_a_worker(own), [own, other].into());
}

#[test]
fn a_task_is_done_with_a_training_once_it_or_the_chief_has_left_it_and_was_not_stopped() {
    let leave = |worker, why| ParameterServerMessage::Leave { worker, why, training: 1 };
    for (why, is_done) in [(Leaving::Stopped, false), (Leaving::Done, true)] {
        let [of_chief, own] = [(); 2].map(|()| TrainingState::default());
        of_chief.note(PeerId(1), None, &leave(0, why));
        own.partings.keep(Parting { message: leave(2, why), to: None });
        assert_eq!([of_chief.is_done(), own.is_done()], [is_done; 2]);
    }
}

#[test]
fn a_training_is_at_its_end_at_its_last_step_or_when_that_is_announced_until_another_begins() {
    let training = TrainingState::default();
    assert!(!training.is_at_its_end());
    training.reach_last_step();
    assert!(training.is_at_its_end());
    training.begin();
    assert!(!training.is_at_its_end());
    training.note(PeerId(0), None, &ParameterServerMessage::TrainingOver { training: 1 });
    assert!(training.is_at_its_end());
}

/// The state of a worker that has ended a training: at its last step, or its own part alone.
fn has_left(is_at_last_step: bool) -> TrainingState {
    let training = TrainingState::default();
    training.begin();
    if is_at_last_step {
        training.reach_last_step();
    }
    let message = ParameterServerMessage::Leave { worker: 1, why: Leaving::Done, training: 1 };
    training.partings.keep(Parting { message, to: None });
    training
}

#[test]
fn the_end_of_a_training_that_a_task_has_ended_before_is_not_that_of_the_next_one() {
    let training = has_left(true);
    training.begin();
    training.note(PeerId(0), None, &ParameterServerMessage::TrainingOver { training: 1 });
    assert!(!training.is_over());
    training.note(PeerId(0), None, &ParameterServerMessage::TrainingOver { training: 2 });
    assert!(training.is_over());
}

#[test]
fn a_worker_whose_own_part_alone_has_ended_goes_on_in_the_same_training() {
    for (is_at_last_step, number) in [(false, 1), (true, 2)] {
        let training = has_left(is_at_last_step);
        training.begin();
        assert_eq!(training.number(), number);
        training.begin();
        assert_eq!(training.number(), number, "it has not ended this one");
    }
}

#[test]
fn a_request_to_stop_holds_until_the_next_life_of_the_parameter_server_has_come() {
    let (training, server) = (TrainingState::default(), PeerId(2));
    training.note(server, Some(7), &ParameterServerMessage::Stopping);
    for (life, stopping) in [(7, Some(server)), (8, None)] {
        training.forget_past_stop(|peer| Some(life).filter(|_| peer == server));
        assert_eq!(training.stopping(), stopping);
    }
}
