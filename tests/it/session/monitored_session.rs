//! The monitored session: how it begins, what its runs do, how it recovers and ends. The cases and
//! their numbers are those of TensorFlow's `monitored_session_test.py`; where the two differ, a
//! test says so.

use std::time::Duration;

use trainyard::checkpoint::Memory;
use trainyard::prelude::*;
use trainyard::training::{
    Checkpointing, FeedFn, Hook, HookContext, HookFuture, RunArgs, RunOptions, RunValues,
    TraceLevel,
};

use crate::support::alone::{Counting, Noting, Seen, alone, at, every_steps, workers};
use crate::support::fixture::assert_error;

/// Trains with checkpoints in `store` until `stop` says so; gives the global steps of the beginning
/// and of the end.
fn train(store: &Memory, stop: StopAtStep) -> (u64, u64) {
    let seen = Seen::default();
    alone(|_, task| {
        let (store, seen) = (store.clone(), seen.clone());
        async move {
            let model = Counting::new(&task)?;
            let builder = model.builder(&task).checkpointing(every_steps(&store, 100)).hook(stop);
            let mut session = builder.open().await?;
            let begun = session.global_step();
            let ended = model.to_the_end(&mut session).await?;
            let v = session.raw().run().fetch(&model.v.read()).await?.scalar::<f32>(0)?;
            assert_eq!(v, ended as f32, "the variables are of the step");
            seen.add((begun, ended));
            session.close().await
        }
    });
    seen.all()[0]
}

#[test]
fn a_training_begun_anew_goes_on_where_its_last_checkpoint_ended() {
    let store = Memory::default();
    assert_eq!(train(&store, StopAtStep::last_step(2)), (0, 2));
    assert_eq!(train(&store, StopAtStep::last_step(4)), (2, 4));
}

#[test]
fn a_last_step_is_of_the_training_and_not_of_its_life() {
    let store = Memory::default();
    assert_eq!(train(&store, StopAtStep::last_step(3)), (0, 3));
    assert_eq!(train(&store, StopAtStep::last_step(5)), (3, 5));
}

#[test]
fn a_number_of_steps_is_of_each_life_of_the_training() {
    let store = Memory::default();
    assert_eq!(train(&store, StopAtStep::num_steps(3)), (0, 3));
    assert_eq!(train(&store, StopAtStep::num_steps(4)), (3, 7));
}

#[test]
fn a_number_of_steps_counts_on_over_a_recovery() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let lost = Noting::default().failing("before_run", 3, Code::Aborted);
        let mut session =
            model.builder(&task).hook(StopAtStep::num_steps(4)).hook(lost).open().await?;
        assert_eq!(model.to_the_end(&mut session).await?, 4);
        session.close().await
    });
}

#[test]
fn hooks_are_called_in_their_order_those_of_the_chief_first() {
    let calls = Seen::default();
    alone(|_, task| {
        let calls = calls.clone();
        async move {
            let model = Counting::new(&task)?;
            let (a, b, c) =
                (Noting::new("a", &calls), Noting::new("b", &calls), Noting::new("c", &calls));
            let mut session =
                model.builder(&task).hook(a).hook(b).chief_only_hook(c).open().await?;
            model.step(&mut session).await?;
            session.close().await
        }
    });
    let expected = ["begin", "after_create_session", "before_run", "after_run", "end"];
    let expected: Vec<String> =
        expected.iter().flat_map(|call| ["c", "a", "b"].map(|n| format!("{n}.{call}"))).collect();
    assert_eq!(calls.all(), expected);
}

/// TensorFlow tries for ever; here it is given up after the sixth time, and the first error is the
/// one that is told.
#[test]
fn an_error_that_a_new_session_mends_is_mended_wherever_a_hook_meets_it_and_given_up_in_the_end() {
    for code in [Code::Aborted, Code::Unavailable] {
        for method in ["after_create_session", "before_run", "after_run", "end"] {
            let calls = Seen::default();
            alone(|_, task| {
                let calls = calls.clone();
                async move {
                    let model = Counting::new(&task)?;
                    let hook = Noting::new("h", &calls).failing(method, 1, code);
                    let mut session = model.builder(&task).hook(hook).open().await?;
                    model.step(&mut session).await?;
                    assert_eq!(session.global_step(), 1, "the step is taken once");
                    session.close().await
                }
            });
            let times =
                |method: &str| calls.all().iter().filter(|call| call.ends_with(method)).count();
            assert_eq!(
                (times("h.begin"), times(method)),
                (1, 2),
                "{code:?} in {method}: {:?}",
                calls.all()
            );
            assert_eq!(times("after_create_session"), 2, "the hook is told of each session");
        }
    }
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let hook = (1..20).fold(Noting::default(), |hook, time| {
            hook.failing("before_run", time, Code::Unavailable)
        });
        let mut session = model.builder(&task).hook(hook).open().await?;
        let says = ["before_run fails, time 7", "tried again, in vain"];
        assert_error(model.step(&mut session).await, Code::Unavailable, &says);
        session.close().await
    });
}

#[test]
fn sessions_that_are_lost_one_after_the_other_are_each_followed_by_another() {
    let calls = Seen::default();
    alone(|_, task| {
        let calls = calls.clone();
        async move {
            let model = Counting::new(&task)?;
            let hook = Noting::new("h", &calls).failing("before_run", 2, Code::Aborted);
            let hook = hook.failing("before_run", 5, Code::Unavailable).failing(
                "before_run",
                8,
                Code::Aborted,
            );
            let mut session = model.builder(&task).hook(hook).open().await?;
            model.steps(&mut session, 6).await?;
            assert_eq!(session.global_step(), 6);
            session.close().await
        }
    });
    let times = |method: &str| calls.all().iter().filter(|call| call.ends_with(method)).count();
    assert_eq!((times("after_create_session"), times("before_run"), times("after_run")), (4, 9, 6));
}

/// Takes two steps, clears all variables, and takes one more; gives its global step.
async fn step_after_reset(task: &Task, checkpointing: Option<Checkpointing>) -> Result<u64> {
    let model = Counting::new(task)?;
    let builder = model.builder(task);
    let builder = match checkpointing {
        Some(checkpointing) => builder.checkpointing(checkpointing),
        None => builder,
    };
    let mut session = builder.open().await?;
    model.steps(&mut session, 2).await?;
    Session::reset(&task.target(), &[]).await?;
    let step = model.step(&mut session).await?;
    session.close().await.map(|()| step)
}

/// In TensorFlow the step after it is 1: it has begun anew, and says nothing of it.
#[test]
fn a_training_whose_variables_are_lost_goes_back_to_its_checkpoint_or_ends_where_it_has_none() {
    alone(|_, task| async move {
        let lost = step_after_reset(&task, None).await.unwrap_err();
        assert_eq!(lost.code, Code::VariablesLost, "{lost}");
        Ok(())
    });
    for (every, expected) in [(1, 3), (2, 3), (100, 1)] {
        alone(|_, task| async move {
            let step =
                step_after_reset(&task, Some(every_steps(&Memory::default(), every))).await?;
            assert_eq!(step, expected, "saved every {every} steps");
            Ok(())
        });
    }
}

#[test]
fn an_error_of_another_class_ends_the_run_in_which_a_hook_meets_it() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let hook = Noting::default().failing("before_run", 1, Code::Internal).failing(
            "after_run",
            2,
            Code::NotFound,
        );
        let mut session = model.builder(&task).hook(hook).open().await?;
        assert_error(model.step(&mut session).await, Code::Internal, &["before_run fails, time 1"]);
        assert_eq!(model.step(&mut session).await?, 1);
        assert_error(model.step(&mut session).await, Code::NotFound, &["after_run fails, time 2"]);
        assert_eq!(session.global_step(), 2, "the step itself was taken");
        session.close().await
    });
}

#[test]
fn what_a_program_feeds_is_fed_again_to_the_session_that_takes_the_run_after_all() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let x = model.scalar("x")?;
        let double = x.add(&x)?;
        let lost = Noting::default().failing("before_run", 1, Code::Aborted);
        let mut session = model.builder(&task).hook(lost).open().await?;
        let mut batch = 0f32;
        let feeds = || {
            batch += 1.0;
            Ok(vec![(x.clone(), Tensor::scalar(batch))])
        };
        let fetched = session.run().feed_with(feeds).fetch(&double).await?;
        assert_eq!(fetched.scalar::<f32>(0)?, 2.0, "it is the first batch");
        session.close().await
    });
}

#[test]
fn the_end_of_the_input_ends_a_training_in_good_order() {
    let (store, calls) = (Memory::default(), Seen::default());
    alone(|_, task| {
        let (store, calls) = (store.clone(), calls.clone());
        async move {
            let model = Counting::new(&task)?;
            let builder = model.builder(&task).checkpointing(every_steps(&store, 100));
            let mut session = builder.hook(Noting::new("h", &calls)).open().await?;
            model.steps(&mut session, 2).await?;
            session.close_after(Err(Error::new(Code::OutOfRange, "no more batches"))).await
        }
    });
    assert_eq!(calls.all().last().unwrap(), "h.end");
    assert_eq!(train(&store, StopAtStep::last_step(3)), (2, 3), "the last step was saved");
}

#[test]
fn any_other_error_of_the_program_passes_and_the_hooks_do_not_have_their_end() {
    let (store, calls) = (Memory::default(), Seen::default());
    alone(|_, task| {
        let (store, calls) = (store.clone(), calls.clone());
        async move {
            let model = Counting::new(&task)?;
            let builder = model.builder(&task).checkpointing(every_steps(&store, 100));
            let mut session = builder.hook(Noting::new("h", &calls)).open().await?;
            model.steps(&mut session, 2).await?;
            let ended = session.close_after(Err(Error::new(Code::Internal, "a mistake"))).await;
            assert_error(ended, Code::Internal, &["a mistake"]);
            Ok(())
        }
    });
    assert!(!calls.all().contains(&"h.end".to_owned()));
    assert_eq!(train(&store, StopAtStep::last_step(3)), (0, 3), "the last step was not saved");
}

#[test]
fn a_run_after_a_stop_was_requested_is_an_error() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let mut session = model.builder(&task).hook(StopAtStep::last_step(1)).open().await?;
        assert!(!session.should_stop());
        model.step(&mut session).await?;
        assert!(session.should_stop());
        assert_error(
            model.step(&mut session).await,
            Code::FailedPrecondition,
            &["after should_stop"],
        );
        session.close().await
    });
}

/// Such as while it awaits the next element of its input.
#[test]
fn a_run_after_another_task_has_ended_the_training_is_an_orderly_end() {
    workers(2, |server, task| async move {
        let model = Counting::new(&task)?;
        let mut session = model.builder(&task).open().await?;
        if task.is_chief() {
            at(&server, 1.0).await;
            task.finish_training();
        } else {
            model.step(&mut session).await?;
            assert!(!session.should_stop());
            at(&server, 2.0).await;
            let says = ["worker:1", "at step 1", "`should_stop`", "`session.close_after(…)`"];
            assert_error(model.step(&mut session).await, Code::OutOfRange, &says);
        }
        session.close().await
    });
}

/// A hook that feeds `place` and asks for options.
struct Feeding {
    place: Output,
    value: f32,
    options: RunOptions,
    seen: Seen<RunOptions>,
}

impl Hook for Feeding {
    fn before_run(&mut self, _: &HookContext<'_>, run: &mut RunArgs<'_>) -> Result<()> {
        run.options(self.options);
        run.feed(&self.place, self.value)
    }

    fn after_run<'a>(
        &'a mut self,
        _: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        self.seen.add(run.options);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn feeding(place: &Output, value: f32) -> Feeding {
    Feeding { place: place.clone(), value, options: RunOptions::default(), seen: Seen::default() }
}

#[test]
fn what_hooks_feed_joins_what_the_program_feeds_and_the_same_place_twice_is_an_error() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let (a, b, c) = (model.scalar("a")?, model.scalar("b")?, model.scalar("c")?);
        let two = a.add(&b)?;
        let all = two.add(&c)?;
        let b_again = b.clone();
        let feed_b = FeedFn::new(move || Ok(vec![(b_again.clone(), Tensor::scalar(10f32))]));
        let mut session = model.builder(&task).hook(feeding(&a, 5.0)).hook(feed_b).open().await?;
        assert_eq!(session.run().fetch(&two).await?.scalar::<f32>(0)?, 15.0);
        assert_eq!(session.run().feed(&c, 20f32).fetch(&all).await?.scalar::<f32>(0)?, 35.0);
        let twice = session.run().feed(&b, 20f32).fetch(&two).await;
        assert_error(twice, Code::InvalidArgument, &["`b` is fed twice"]);
        session.close().await
    });
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let a = model.scalar("a")?;
        let mut session =
            model.builder(&task).hook(feeding(&a, 5.0)).hook(feeding(&a, 10.0)).open().await?;
        assert_error(session.run().fetch(&a).await, Code::InvalidArgument, &["`a` is fed twice"]);
        session.close().await
    });
}

#[test]
fn of_what_the_program_and_hooks_ask_for_a_run_gets_the_longest_time_and_the_fullest_trace() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let (a, b) = (model.scalar("a")?, model.scalar("b")?);
        let (seconds, seen) = (|seconds| Some(Duration::from_secs(seconds)), Seen::default());
        let options = RunOptions { timeout: seconds(30), trace: TraceLevel::Full };
        let first = Feeding { options, seen: seen.clone(), ..feeding(&a, 1.0) };
        let options = RunOptions { timeout: seconds(60), trace: TraceLevel::None };
        let second = Feeding { options, seen: seen.clone(), ..feeding(&b, 1.0) };
        let mut session = model.builder(&task).hook(first).hook(second).open().await?;
        let asked = RunOptions { timeout: seconds(45), trace: TraceLevel::None };
        session.run().options(asked).fetch(&a).await?;
        assert_eq!(seen.all(), [RunOptions { timeout: seconds(60), trace: TraceLevel::Full }; 2]);
        session.close().await
    });
}
