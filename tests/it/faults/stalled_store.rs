//! A store of checkpoints that does not answer, as a disk that stands still: in real time, in which
//! alone a store can keep anyone waiting.

use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use trainyard::checkpoint::{Memory, Retention, Saver, Stores};
use trainyard::prelude::*;
use trainyard::runtime::Patience;
use trainyard::sync::Mode;
use trainyard::training::{Checkpointing, SecondOrStepTimer, Settings, SharedRecording, TaskParts};

use crate::support::alone::Counting;
use crate::support::fixture::{assert_error, cluster, on_actix};
use crate::support::simulated::Simulated;
use crate::support::tampered::Tampered;

/// How long the task waits for a store. Each test waits for that once or twice.
const LIMIT: Duration = Duration::from_millis(300);
/// What is told of a store that does not answer.
const TOLD: [&str; 3] = ["no answer for", "from a stalled disk", "to write a stalled disk/"];

/// A store in memory whose writes can be made to stand still.
#[derive(Default)]
struct Stalling {
    memory: Memory,
    stalls: Arc<(Mutex<bool>, Condvar)>,
}

impl Stalling {
    /// Has writes stand still, or go on.
    fn stall(&self, stalls: bool) {
        *self.stalls.0.lock().unwrap() = stalls;
        self.stalls.1.notify_all();
    }

    /// A checkpoint every two steps.
    fn checkpointing(&self) -> Checkpointing {
        let stalls = Arc::clone(&self.stalls);
        let on = move || {
            let (stalls, changes) = &*stalls;
            drop(changes.wait_while(stalls.lock().unwrap(), |stalls| *stalls).unwrap());
            Ok(())
        };
        let store = Tampered { memory: self.memory.clone(), place: "a stalled disk", on };
        let every = SecondOrStepTimer::every_steps(2);
        Checkpointing { every, ..Checkpointing::new(Arc::new(store)) }
    }

    fn newest(&self) -> Option<u64> {
        Saver::new(Arc::new(self.memory.clone()), Retention::default()).newest().unwrap()
    }
}

/// The only worker of a cluster, on the wall clock, with little patience.
fn chief(recording: &SharedRecording) -> Result<Task> {
    let settings = Simulated::new(0, 1, Mode::Async).settings().clone();
    Task::new(TaskParts {
        server: Rc::new(cluster(0, 1).remove(0)),
        mode: Mode::Async,
        seed: 7,
        run_folder: "run".to_owned(),
        settings: Settings { patience: Patience::new(LIMIT), ..settings },
        dataset: None,
        checkpointing: None,
        stores: Stores::in_memory(),
        recorder: recording.recorder(),
        config: None,
        arguments: Vec::new(),
    })
}

#[test]
fn a_store_that_does_not_answer_ends_no_training_and_is_saved_to_again_once_it_does() {
    let (store, recording) = (Stalling::default(), SharedRecording::default());
    on_actix(async {
        let task = chief(&recording)?;
        let model = Counting::new(&task)?;
        let builder = model.builder(&task).checkpointing(store.checkpointing());
        let mut session = builder.open().await?;
        store.stall(true);
        let began = task.now();
        model.steps(&mut session, 8).await?;
        let waited = task.now().since(began);
        assert!(waited >= LIMIT && waited < 4 * LIMIT, "it is waited for once: {waited:?}");
        assert_eq!(store.newest(), Some(0));
        store.stall(false);
        session.close().await
    });
    assert_eq!(store.newest(), Some(8), "the last one waits for the one before");
    let recording = recording.finish();
    let [first, second] = recording.failed_checkpoints.as_slice() else {
        panic!("the first that waits, and the first that is not begun: not each is told")
    };
    assert_eq!((first.global_step, second.global_step), (2, 4));
    for failed in [first, second] {
        let why = &failed.why;
        assert!(TOLD.iter().all(|told| why.contains(told)), "{why}");
        assert!(why.contains("to save the checkpoint of step 2"), "{why}");
    }
    assert!(!recording.is_unsaved());
}

#[test]
fn a_last_checkpoint_that_the_store_does_not_answer_is_one_that_cannot_be_written() {
    let (store, recording) = (Stalling::default(), SharedRecording::default());
    on_actix(async {
        let task = chief(&recording)?;
        let model = Counting::new(&task)?;
        let builder = model.builder(&task).checkpointing(store.checkpointing());
        let mut session = builder.open().await?;
        model.steps(&mut session, 1).await?;
        store.stall(true);
        assert_error(session.close().await, Code::Unwritable, &TOLD);
        store.stall(false);
        Ok(())
    });
    let recording = recording.finish();
    let failed: Vec<_> = recording.failed_checkpoints.iter().collect();
    assert!(matches!(failed[..], [last] if last.is_last && last.global_step == 1), "{failed:?}");
    assert!(recording.is_unsaved());
}

#[test]
fn a_store_that_does_not_answer_as_a_training_begins_is_named_in_its_error() {
    let store = Stalling::default();
    on_actix(async {
        let task = chief(&SharedRecording::default())?;
        let model = Counting::new(&task)?;
        store.stall(true);
        let opened = model.builder(&task).checkpointing(store.checkpointing()).open().await;
        assert_error(opened.map(drop), Code::DeadlineExceeded, &TOLD);
        store.stall(false);
        Ok(())
    });
}
