//! The hooks: when each acts, and what it writes. The cases and their numbers are those of
//! TensorFlow's `basic_session_run_hooks_test.py`; where the two differ, a test says so.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use trainyard::checkpoint::{Memory, Retention, Saver};
use trainyard::graph::FifoQueue;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::tensor::Shape;
use trainyard::training::{
    CheckpointSaver, CheckpointSaverListener, Checkpointing, Consistency, FinalOps,
    GlobalStepWaiter, Hook, HookContext, HookFuture, InMemoryEvaluator, LoggingTensor, NanTensor,
    Profiler, RunValues, SecondOrStepTimer, StepCounter, SummarySaver, SummaryWriter, TraceLevel,
};

use crate::support::alone::{Counting, Noting, Seen, alone, at, every_steps, seconds, workers};
use crate::support::binary::folder;
use crate::support::fixture::assert_error;
use crate::support::log::Log;
use crate::support::simulated::Simulated;

fn every(seconds: u64) -> SecondOrStepTimer {
    SecondOrStepTimer::every_time(Duration::from_secs(seconds))
}

/// Notes the steps at which a checkpoint is saved; stops the training after that of `stops_at`.
struct Listening {
    calls: Seen<(&'static str, u64)>,
    stops_at: Option<u64>,
}

impl CheckpointSaverListener for Listening {
    fn begin(&mut self) {
        self.calls.add(("begin", 0));
    }

    fn before_save(&mut self, global_step: u64) {
        self.calls.add(("before_save", global_step));
    }

    fn after_save(&mut self, global_step: u64) -> bool {
        self.calls.add(("after_save", global_step));
        self.stops_at == Some(global_step)
    }

    fn end(&mut self, global_step: u64) {
        self.calls.add(("end", global_step));
    }
}

/// Takes a step at each of `times` \[s\], and closes the session; gives what a listener to the
/// checkpoints was told.
fn saving(checkpointing: &Checkpointing, times: &[f64]) -> Vec<(&'static str, u64)> {
    let calls = Seen::default();
    alone(|server, task| {
        let saver = CheckpointSaver::new(checkpointing);
        let saver = saver.listener(Listening { calls: calls.clone(), stops_at: None });
        let times = times.to_vec();
        async move {
            let model = Counting::new(&task)?;
            let mut session = model.builder(&task).hook(saver).open().await?;
            for time in times {
                at(&server, time).await;
                model.step(&mut session).await?;
            }
            session.close().await
        }
    });
    calls.all()
}

fn saved(calls: &[(&str, u64)]) -> Vec<u64> {
    calls.iter().filter(|(call, _)| *call == "after_save").map(|(_, step)| *step).collect()
}

/// TensorFlow's test leaves out the hook's `after_create_session`, and so sees a checkpoint of step
/// 1 at first, where there is one of step 0 here and in its trainings.
#[test]
fn a_saver_of_seconds_saves_at_the_beginning_and_at_the_first_step_after_each_time() {
    let checkpointing = Checkpointing { every: every(2), ..every_steps(&Memory::default(), 1) };
    assert_eq!(saved(&saving(&checkpointing, &[0.0, 0.5, 2.5, 2.6, 2.7, 10.0])), [0, 3, 6]);
}

#[test]
fn a_saver_of_steps_saves_at_the_beginning_every_so_many_and_at_the_end_what_is_not_saved() {
    let times: Vec<f64> = (0..5).map(f64::from).collect();
    assert_eq!(saved(&saving(&every_steps(&Memory::default(), 2), &times)), [0, 2, 4, 5]);
    assert_eq!(saved(&saving(&every_steps(&Memory::default(), 2), &times[..4])), [0, 2, 4]);
}

/// The chief takes two steps and sees no more of the training, of which the other worker takes
/// three more.
#[test]
fn the_last_checkpoint_has_the_steps_that_others_have_taken_after_the_chiefs_last() {
    for consistency in [Consistency::Fuzzy, Consistency::Consistent] {
        let store = Memory::default();
        workers(2, |server, task| {
            let checkpointing = Checkpointing { consistency, ..every_steps(&store, 1) };
            async move {
                let model = Counting::new(&task)?;
                let builder = model.builder(&task).checkpointing(checkpointing);
                let mut session = builder.open().await?;
                let (from, steps) = if task.is_chief() { (1.0, 2) } else { (2.0, 3) };
                at(&server, from).await;
                model.steps(&mut session, steps).await?;
                at(&server, 3.0).await;
                session.close().await
            }
        });
        let saver = Saver::new(Arc::new(store), Retention::default());
        assert_eq!(saver.newest().unwrap(), Some(5), "{consistency:?}");
    }
}

#[test]
fn listeners_are_told_before_and_after_each_checkpoint() {
    let calls = saving(&every_steps(&Memory::default(), 1), &[0.0, 1.0]);
    let around = |step| [("before_save", step), ("after_save", step)];
    assert_eq!(
        calls,
        [&[("begin", 0)][..], &around(0), &around(1), &around(2), &[("end", 2)]].concat()
    );
}

#[test]
fn a_listener_stops_a_training_after_a_checkpoint() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let listener = Listening { calls: Seen::default(), stops_at: Some(2) };
        let saver = CheckpointSaver::new(&every_steps(&Memory::default(), 1)).listener(listener);
        let mut session = model.builder(&task).hook(saver).open().await?;
        assert_eq!(model.to_the_end(&mut session).await?, 2);
        session.close().await
    });
}

/// An event of TensorBoard's, as far as it is read here.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, tag = "3")]
    file_version: String,
    #[prost(bytes = "vec", optional, tag = "4")]
    graph_def: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, tag = "2")]
    simple_value: f32,
}

fn read(file: &Path) -> Vec<Event> {
    let bytes = std::fs::read(file).unwrap();
    let mut rest = &bytes[..];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        events.push(Event::decode(&rest[12..12 + length]).unwrap());
        rest = &rest[12 + length + 4..];
    }
    events
}

/// The graphs of a file of events, each a GraphDef.
pub(super) fn graphs(file: &Path) -> Vec<Vec<u8>> {
    read(file).into_iter().filter_map(|event| event.graph_def).collect()
}

/// The events of a file: its version, then by step and tag the values.
pub(super) fn events(file: &Path) -> (String, Vec<(i64, String, f32)>) {
    let events = read(file);
    let values = |event: &Event| {
        let step = event.step;
        let values = event.summary.clone().unwrap_or_default().value;
        values
            .into_iter()
            .map(move |value| (step, value.tag, value.simple_value))
            .collect::<Vec<_>>()
    };
    (events[0].file_version.clone(), events[1..].iter().flat_map(values).collect())
}

#[test]
fn summaries_are_written_at_the_first_run_and_then_every_so_many_steps() {
    let folder = folder("summaries_are_written");
    alone(|_, task| {
        let folder = folder.clone();
        async move {
            let model = Counting::new(&task)?;
            let writer = SummaryWriter::create(&task, &folder)?;
            let (before, ten) = (model.v.read(), model.graph.constant(10i64));
            let saver = SummarySaver::new(&writer, SecondOrStepTimer::every_steps(8));
            let saver = saver.scalar("before", &before).scalar("ten", &ten);
            let mut session = model.builder(&task).hook(saver).open().await?;
            model.steps(&mut session, 30).await?;
            session.close().await
        }
    });
    let (version, written) = events(&folder.join("events.out.tfevents.0000000000.worker-0"));
    assert_eq!(version, "brain.Event:2");
    let of = |tag: &str| -> Vec<(i64, f32)> {
        written
            .iter()
            .filter(|(_, of, _)| of == tag)
            .map(|(step, _, value)| (*step, *value))
            .collect()
    };
    assert_eq!(of("before").iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 9, 17, 25]);
    assert_eq!(of("ten"), [(1, 10.0), (9, 10.0), (17, 10.0), (25, 10.0)]);
}

#[test]
fn a_summary_that_is_no_scalar_number_is_refused_before_the_session_is_created() {
    let folder = folder("a_summary_that_is_no_scalar");
    alone(|_, task| {
        let folder = folder.clone();
        async move {
            let model = Counting::new(&task)?;
            let row = model.graph.constant(Tensor::full([2], 1f32));
            let writer = SummaryWriter::create(&task, &folder)?;
            let saver =
                SummarySaver::new(&writer, SecondOrStepTimer::every_steps(1)).scalar("row", &row);
            let opened = model.builder(&task).hook(saver).open().await.map(drop);
            assert_error(opened, Code::InvalidArgument, &["`row`", "f32[2]", "no scalar number"]);
            Ok(())
        }
    });
}

#[test]
fn a_summary_that_can_not_be_written_names_its_file_and_two_writers_have_two_files() {
    let folder = folder("a_summary_that_can_not_be_written");
    alone(|_, task| {
        let folder = folder.clone();
        async move {
            let (one, other) =
                (SummaryWriter::create(&task, &folder)?, SummaryWriter::create(&task, &folder)?);
            one.scalar("a", 1.0, 1)?;
            other.scalar("b", 2.0, 2)?;
            assert_eq!(events(one.path()).1, [(1, "a".to_owned(), 1.0)]);
            assert_eq!(events(other.path()).1, [(2, "b".to_owned(), 2.0)]);
            let no_folder = one.path().to_owned();
            let says = [no_folder.to_str().unwrap(), "can't write"];
            assert_error(
                SummaryWriter::create(&task, &no_folder).map(drop),
                Code::Unwritable,
                &says,
            );
            Ok(())
        }
    });
}

#[test]
fn a_step_counter_writes_the_steps_a_second_every_so_many_steps_after_the_first() {
    let folder = folder("a_step_counter");
    alone(|server, task| {
        let folder = folder.clone();
        async move {
            let model = Counting::new(&task)?;
            let writer = SummaryWriter::create(&task, &folder)?;
            let counter = StepCounter::new(SecondOrStepTimer::every_steps(10)).writer(&writer);
            let mut session = model.builder(&task).hook(counter).open().await?;
            for step in 0..30 {
                at(&server, f64::from(step) / 4.0).await;
                model.step(&mut session).await?;
            }
            session.close().await
        }
    });
    let (_, written) = events(&folder.join("events.out.tfevents.0000000000.worker-0"));
    let steps: Vec<i64> = written.iter().map(|(step, ..)| *step).collect();
    assert_eq!(steps, [11, 21]);
    for (_, tag, rate) in written {
        assert_eq!(tag, "global_step/sec");
        assert!((rate - 4.0).abs() < 1e-3, "{rate}");
    }
}

/// Takes a step at each of `times` \[s\] with `hook`, and closes the session; gives the lines that
/// it told.
fn lines(times: &[f64], hook: impl Fn(&Counting) -> LoggingTensor + Sync) -> Vec<String> {
    let told = Seen::default();
    alone(|server, task| {
        let model = Counting::new(&task).unwrap();
        let (told, times) = (told.clone(), times.to_vec());
        let hook = hook(&model).sink(move |line| told.add(line.to_owned()));
        async move {
            let mut session = model.builder(&task).hook(hook).open().await?;
            for time in times {
                at(&server, time).await;
                session.run().fetch(&model.v.read()).await?;
                model.step(&mut session).await?;
            }
            session.close().await
        }
    });
    told.all()
}

/// Each time there are two runs, of which one is no training step.
#[test]
fn tensors_are_logged_at_the_first_run_and_then_every_so_many_runs_of_the_worker_and_at_the_end() {
    let times: Vec<f64> = (0..10).map(f64::from).collect();
    let step = |model: &Counting| model.global_step.read();
    let every_8 = |model: &Counting| {
        LoggingTensor::new(SecondOrStepTimer::every_steps(8)).tensor("step", &step(model))
    };
    let told = ["step = 0", "step = 4 (4.000 sec)", "step = 8 (4.000 sec)"];
    assert_eq!(lines(&times, every_8), told);
    assert_eq!(
        lines(&times, |model| every_8(model).at_end()),
        [&told[..], &["step = 10"]].concat()
    );
    assert_eq!(
        lines(&times, |model| LoggingTensor::only_at_end().tensor("step", &step(model))),
        ["step = 10"]
    );
}

#[test]
fn tensors_are_logged_every_so_often_as_a_formatter_says() {
    let hook = |model: &Counting| {
        let hook = LoggingTensor::new(every(1))
            .tensor("step", &model.global_step.read())
            .tensor("v", &model.v.read());
        hook.formatter(|values| {
            format!("{} of {}", values[0].1.item::<i64>().unwrap(), values[1].0)
        })
    };
    assert_eq!(lines(&[0.0, 0.5, 1.5, 1.6, 2.5], hook), ["0 of v", "2 of v", "4 of v"]);
}

#[test]
fn a_line_in_the_log_begins_with_the_tasks_name() {
    let log = Log::default();
    alone(|_, task| {
        let log = log.clone();
        async move {
            let _guard = tracing::subscriber::set_default(log.subscriber());
            let model = Counting::new(&task)?;
            let hook = LoggingTensor::only_at_end().tensor("step", &model.global_step.read());
            let mut session = model.builder(&task).hook(hook).open().await?;
            model.step(&mut session).await?;
            session.close().await
        }
    });
    assert!(log.text().contains(" worker:0: step = 1\n"), "{}", log.text());
}

/// Feeds `losses`, one a step, until the session is to stop; gives how the last step ended, and its
/// global step.
fn diverging(losses: &'static [f32], fails: bool) -> (Result<()>, u64) {
    let ends = Seen::default();
    alone(|_, task| {
        let ends = ends.clone();
        async move {
            let model = Counting::new(&task)?;
            let x = model.scalar("x")?;
            let loss = x.identity();
            let hook = NanTensor::new(&loss).fail_on_nan_loss(fails);
            let mut session = model.builder(&task).hook(hook).open().await?;
            let mut ended = Ok(());
            for value in losses {
                if ended.is_ok() && !session.should_stop() {
                    ended = session.run().target(&model.train_op).feed(&x, *value).await.map(drop);
                }
            }
            ends.add((ended, session.global_step()));
            session.close().await
        }
    });
    ends.all()[0].clone()
}

#[test]
fn a_loss_that_is_no_number_ends_a_training_and_an_infinite_one_does_not() {
    let losses = &[0.5, f32::INFINITY, f32::NAN, 0.5];
    let (ended, step) = diverging(losses, true);
    let says = ["`Identity", "NaN after global step 3", "lower learning rate", "worker:0"];
    assert_error(ended, Code::NanLoss, &says);
    assert_eq!(step, 3);
    assert_eq!(diverging(losses, false), (Ok(()), 3), "it only stops");
    assert_eq!(diverging(&losses[..2], true), (Ok(()), 2));
}

#[test]
fn a_waiter_lets_a_worker_begin_once_the_training_is_at_its_step() {
    let opened = Seen::default();
    workers(2, |server, task| {
        let opened = opened.clone();
        async move {
            let model = Counting::new(&task)?;
            let to = |step: i64| model.global_step.assign(&model.graph.constant(step));
            let (to_500, to_1100) = (to(500)?, to(1100)?);
            let builder = if task.is_chief() {
                model.builder(&task)
            } else {
                model.builder(&task).hook(GlobalStepWaiter::new(1000))
            };
            let mut session = builder.open().await?;
            if task.is_chief() {
                at(&server, 0.4).await;
                session.run().target(&to_500).await?;
                at(&server, 0.9).await;
                session.run().target(&to_1100).await?;
            } else {
                opened.add(seconds(&task));
            }
            session.close().await
        }
    });
    let at = opened.all()[0];
    assert!((1.0..1.01).contains(&at), "two waits of half a second: {at}");
}

/// TensorFlow's waits for ever where the training ends below its step.
#[test]
fn a_waiter_ends_its_wait_when_the_training_is_over_and_has_none_for_step_0() {
    workers(2, |server, task| async move {
        let model = Counting::new(&task)?;
        let step = if task.is_chief() { 0 } else { 1000 };
        let session = model.builder(&task).hook(GlobalStepWaiter::new(step)).open().await?;
        if task.is_chief() {
            assert!(seconds(&task) < 0.01);
            at(&server, 0.9).await;
            task.finish_training();
        } else {
            assert!(session.should_stop() && (1.0..1.01).contains(&seconds(&task)));
        }
        session.close().await
    });
}

/// TensorFlow's waits for ever, and says so each half of a second.
#[test]
fn a_waiter_gives_up_when_nobody_trains_and_names_the_chief() {
    let trained = Simulated::new(0, 2, Mode::Async).run_on_servers(|server, task| async move {
        let model = Counting::new(&task)?;
        let step = if task.is_chief() { 0 } else { 1000 };
        let session = model.builder(&task).hook(GlobalStepWaiter::new(step)).open().await?;
        at(&server, 3600.0).await;
        session.close().await
    });
    assert!((300.0..302.0).contains(&trained.outcome.ended.as_secs_f64()));
    let says = ["waits for global step 1000", "nobody trains", "worker:0"];
    assert_error(trained.outcome.result.map(drop), Code::DeadlineExceeded, &says);
}

/// Notes how much of each run is recorded.
struct Tracing(Seen<TraceLevel>);

impl Hook for Tracing {
    fn after_run<'a>(
        &'a mut self,
        _: &'a HookContext<'_>,
        run: &'a RunValues<'_>,
    ) -> HookFuture<'a> {
        self.0.add(run.options.trace);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The timelines that there are after a step at each of `times` \[s\], and the runs that were
/// recorded.
fn profiled(test: &str, timer: SecondOrStepTimer, times: &[f64]) -> (Vec<String>, Vec<usize>) {
    let (folder, levels) = (folder(test), Seen::default());
    alone(|server, task| {
        let (folder, levels, times) = (folder.clone(), levels.clone(), times.to_vec());
        async move {
            let model = Counting::new(&task)?;
            let hook = Profiler::new(folder, timer);
            let mut session = model.builder(&task).hook(hook).hook(Tracing(levels)).open().await?;
            for time in times {
                at(&server, time).await;
                model.step(&mut session).await?;
            }
            session.close().await
        }
    });
    let files = std::fs::read_dir(&folder).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let full = levels.all().into_iter().zip(1..).filter(|(level, _)| *level == TraceLevel::Full);
    (files, full.map(|(_, run)| run).collect())
}

#[test]
fn a_profiler_writes_timelines_every_so_often_but_not_of_the_first_run() {
    let files = |steps: &[u64]| {
        steps.iter().map(|step| format!("timeline-{step}.json")).collect::<Vec<_>>()
    };
    let steps = SecondOrStepTimer::every_steps(2);
    let times = [0.0, 0.5, 1.0, 2.5, 3.0];
    assert_eq!(profiled("a_profiler_of_steps", steps, &times), (files(&[2, 4]), vec![2, 4]));
    assert_eq!(profiled("a_profiler_of_seconds", every(2), &times), (files(&[4]), vec![4]));
}

#[test]
fn final_ops_are_evaluated_when_a_session_ends_in_good_order_and_read_afterwards() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let x = model.scalar("x")?;
        let sum = model.v.read().add(&x)?;
        let hook = FinalOps::new(&[&sum, &model.global_step.read()]).feed(&x, 10f32);
        let values = hook.values();
        let mut session = model.builder(&task).hook(hook).open().await?;
        model.steps(&mut session, 3).await?;
        assert_eq!(values.get(), None);
        session.close().await?;
        assert_eq!(values.get(), Some(vec![Tensor::scalar(13f32), Tensor::scalar(3i64)]));
        Ok(())
    });
}

#[test]
fn final_ops_that_meet_a_lost_task_are_evaluated_again() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let hook = FinalOps::new(&[&model.v.read()]);
        let values = hook.values();
        let lost = Noting::default().failing("end", 1, Code::Unavailable);
        let mut session = model.builder(&task).hook(lost).hook(hook).open().await?;
        model.step(&mut session).await?;
        session.close().await?;
        assert_eq!(values.get(), Some(vec![Tensor::scalar(1f32)]));
        Ok(())
    });
}

/// An end of the input in them is no end in good order of the training, which has ended already.
#[test]
fn final_ops_that_read_an_input_at_its_end_are_an_error_with_a_hint() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let queue = FifoQueue::new(&model.graph, "input", None, &[(DType::F32, Shape::new(&[]))])?;
        let (next, close) = (queue.dequeue().swap_remove(0), queue.close(false));
        let mut session = model.builder(&task).hook(FinalOps::new(&[&next])).open().await?;
        session.run().target(&close).await?;
        let says = ["evaluated at the end", &next.name(), "reads the training's input"];
        assert_error(session.close().await, Code::InvalidArgument, &says);
        Ok(())
    });
}

#[test]
fn an_evaluator_of_every_0_steps_is_refused_when_the_session_opens() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let value = model.v.read();
        let evaluator = InMemoryEvaluator::new(&value, &value).every_steps(0);
        let opened = model.builder(&task).hook(evaluator).open().await;
        assert_error(opened.map(drop), Code::InvalidArgument, &["every 0 steps", "1 or more"]);
        Ok(())
    });
}
