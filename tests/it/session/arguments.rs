//! The arguments of a monitored session, of a scaffold and of a run's settings: the effect of each
//! is TensorFlow's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use trainyard::checkpoint::{Memory, Retention, Saver, Store, Stores};
use trainyard::prelude::*;
use trainyard::training::{Builder, Hook, HookContext, HookFuture, RunSettings, Scaffold};

use super::hooks::{events, graphs};
use crate::support::alone::{Counting, Seen, alone, at, every_steps, seconds, workers};
use crate::support::binary::folder;
use crate::support::fixture::{assert_error, cluster, on_actix};
use crate::support::simulated::{real_worker, real_worker_with};

/// The steps at which `tag` was written by a training of 30 steps, with `build`'s session.
fn written(test: &str, tag: &str, build: fn(Builder, PathBuf) -> Builder) -> Vec<i64> {
    written_by(RunSettings::new, (test, tag), build)
}

/// The same, of a task with these settings.
fn written_by(
    settings: fn() -> RunSettings,
    (test, tag): (&str, &str),
    build: fn(Builder, PathBuf) -> Builder,
) -> Vec<i64> {
    let folder = folder(test);
    alone(|_, task| {
        let folder = folder.clone();
        async move {
            let task = task.with_settings(settings());
            let model = Counting::new(&task)?;
            let scaffold = Scaffold::new().summary("v", &model.v.read());
            let builder = build(model.builder(&task).scaffold(scaffold), folder);
            let mut session = builder.open().await?;
            model.steps(&mut session, 30).await?;
            session.close().await
        }
    });
    let file = folder.join("events.out.tfevents.0000000000.worker-0");
    if !file.exists() {
        return Vec::new();
    }
    let of_tag = events(&file).1.into_iter().filter(|(_, of, _)| of == tag);
    of_tag.map(|(step, _, _)| step).collect()
}

/// The numbers are those of TensorFlow's `basic_session_run_hooks_test.py`.
#[test]
fn summaries_and_the_steps_a_second_are_written_as_often_as_the_session_is_told() {
    let every_8 = written("arguments_summaries", "v", |builder, folder| {
        builder.summary_dir(folder).save_summaries_steps(8)
    });
    assert_eq!(every_8, [1, 9, 17, 25]);
    let by_default =
        written("arguments_default", "v", |builder, folder| builder.summary_dir(folder));
    assert_eq!(by_default, [1], "every 100 steps");
    let none = written("arguments_none", "v", |builder, folder| {
        builder.summary_dir(folder).save_summaries_steps(None)
    });
    assert_eq!(none, [0i64; 0]);
    let every_0 = written("arguments_0", "v", |builder, folder| {
        builder.summary_dir(folder).save_summaries_steps(0)
    });
    assert_eq!(every_0, [0i64; 0], "as `None`");
    assert_eq!(written("arguments_no_folder", "v", |builder, _| builder), [0i64; 0]);
    let by_time = written("arguments_by_time", "v", |builder, folder| {
        builder.summary_dir(folder).save_summaries_secs(1000)
    });
    assert_eq!(by_time, [1]);
}

#[test]
fn summaries_are_written_as_often_as_the_settings_say_unless_the_session_is_told() {
    let by_settings = |test: &str, settings, build| written_by(settings, (test, "v"), build);
    let every_8 = || RunSettings::new().save_summary_steps(8);
    let of_settings =
        by_settings("settings_8", every_8, |builder, folder| builder.summary_dir(folder));
    assert_eq!(of_settings, [1, 9, 17, 25]);
    let of_session = by_settings("settings_20", every_8, |builder, folder| {
        builder.summary_dir(folder).save_summaries_steps(20)
    });
    assert_eq!(of_session, [1, 21]);
    let never = [
        || RunSettings::new().save_summary_steps(None),
        || RunSettings::new().save_summary_steps(0),
    ];
    for settings in never {
        let none =
            by_settings("settings_none", settings, |builder, folder| builder.summary_dir(folder));
        assert_eq!(none, [0i64; 0]);
    }
}

/// A node of a GraphDef, as far as it is read here.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    op: String,
    #[prost(string, repeated, tag = "3")]
    input: Vec<String>,
    #[prost(string, tag = "4")]
    device: String,
}

#[derive(Clone, PartialEq, Message)]
struct Nodes {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
}

/// The graphs that the chief of two workers writes, with `build`'s session.
fn drawn(test: &str, build: fn(Builder, PathBuf) -> Builder) -> Vec<Nodes> {
    let (folder, path) = (folder(test), folder(test));
    workers(2, move |_, task| {
        let folder = folder.clone();
        async move {
            let model = Counting::new(&task)?;
            let mut session = build(model.builder(&task), folder).open().await?;
            model.steps(&mut session, 2).await?;
            session.close().await
        }
    });
    let file = |task: &str| path.join(format!("events.out.tfevents.0000000000.{task}"));
    assert!(!file("worker-1").exists(), "only the chief writes");
    let written = if file("worker-0").exists() { graphs(&file("worker-0")) } else { Vec::new() };
    written.iter().map(|graph| Nodes::decode(&graph[..]).unwrap()).collect()
}

#[test]
fn the_whole_graph_is_written_where_tensorboard_draws_it_unless_it_is_not_to_be() {
    let graphs = drawn("arguments_graph", |builder, folder| {
        builder.summary_dir(folder).log_step_count_steps(None).save_summaries_steps(None)
    });
    assert_eq!(graphs.len(), 1, "once");
    let nodes = &graphs[0].node;
    let find = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
    let v = find("v");
    assert_eq!((&*v.op, &*v.device), ("VarHandleOp", "/job:worker/task:0"));
    let of_kind = |kind: &str| nodes.iter().find(|node| node.op == kind).unwrap();
    assert_eq!(of_kind("ResourceApplyGradientDescent").input[0], "v");
    let commit = of_kind("CommitStep");
    assert_eq!(commit.input[0], "global_step", "a kind that TensorFlow lacks: {commit:?}");
    for node in nodes {
        for input in &node.input {
            find(input.trim_start_matches('^').split(':').next().unwrap());
        }
    }
    let not = drawn("arguments_no_graph", |builder, folder| {
        builder.summary_dir(folder).save_graph_def(false)
    });
    assert_eq!(not, [], "the file has the steps a second alone");
    assert_eq!(drawn("arguments_graph_no_folder", |builder, _| builder), []);
}

#[test]
fn the_steps_a_second_are_told_every_so_many_steps() {
    // Between two tasks a step takes some time, without which there is no rate.
    let counted = |test: &str, every: Option<u64>| {
        let folder = folder(test);
        let seen = folder.clone();
        workers(2, move |_, task| {
            let folder = folder.clone();
            async move {
                let settings = RunSettings::new().log_step_count_steps(every);
                let task = task.with_settings(settings);
                let model = Counting::new(&task)?;
                let mut session = model.builder(&task).summary_dir(folder).open().await?;
                model.steps(&mut session, 15).await?;
                session.close().await
            }
        });
        let file = |task: &str| seen.join(format!("events.out.tfevents.0000000000.{task}"));
        assert!(!file("worker-1").exists(), "only the chief writes");
        let path = file("worker-0");
        if path.exists() { events(&path).1 } else { Vec::new() }
    };
    let told = counted("arguments_counted", Some(10));
    assert!(
        !told.is_empty() && told.iter().all(|(_, tag, _)| tag == "global_step/sec"),
        "{told:?}"
    );
    assert!(counted("arguments_uncounted", None).is_empty());
    assert!(counted("arguments_uncounted", Some(0)).is_empty());
}

/// The steps of the checkpoints that a store has.
fn steps_in(store: Arc<dyn Store>) -> Vec<u64> {
    let saver = Saver::new(store, Retention::default());
    saver.checkpoints().unwrap().into_iter().map(|listed| listed.global_step).collect()
}

#[test]
fn as_many_checkpoints_stay_as_the_settings_say() {
    let left = |settings: RunSettings| {
        let stores = Stores::in_memory();
        let own = stores.clone();
        on_actix(async {
            let task = real_worker_with(cluster(0, 1).remove(0), own)?;
            let task = task.with_settings(settings.save_checkpoints_steps(1));
            let model = Counting::new(&task)?;
            let mut session = model.builder(&task).checkpoint_dir("models")?.open().await?;
            model.steps(&mut session, 6).await?;
            session.close().await
        });
        steps_in(stores.open("models").unwrap())
    };
    let settings = RunSettings::new;
    assert_eq!(left(settings()), [2, 3, 4, 5, 6]);
    assert_eq!(left(settings().keep_checkpoint_max(2)), [5, 6]);
    assert_eq!(left(settings().keep_checkpoint_max(0)), [0, 1, 2, 3, 4, 5, 6]);
    let all_are_far_apart = settings().keep_checkpoint_max(2).keep_checkpoint_every_n_hours(1e-12);
    assert_eq!(left(all_are_far_apart), [0, 1, 2, 3, 4, 5, 6]);
    let none_is = settings().keep_checkpoint_max(2).keep_checkpoint_every_n_hours(1.0);
    assert_eq!(left(none_is), [0, 5, 6], "the oldest begins the first span");
}

#[test]
fn a_checkpoint_is_saved_as_often_as_the_session_is_told() {
    let saved = |build: fn(Builder) -> Builder| {
        let store = Memory::default();
        alone(|_, task| {
            let checkpointing = every_steps(&store, 100);
            async move {
                let model = Counting::new(&task)?;
                let builder = build(model.builder(&task).checkpointing(checkpointing));
                let mut session = builder.open().await?;
                model.steps(&mut session, 9).await?;
                session.close().await
            }
        });
        steps_in(Arc::new(store))
    };
    assert_eq!(saved(|builder| builder), [0, 9]);
    assert_eq!(saved(|builder| builder.save_checkpoint_steps(4)), [0, 4, 8, 9]);
    assert_eq!(saved(|builder| builder.save_checkpoint_secs(1000)), [0, 9]);
    assert_eq!(saved(|builder| builder.save_checkpoint_steps(0)), [0; 0], "none at all");
    assert_eq!(saved(|builder| builder.save_checkpoint_secs(0)), [0; 0]);
}

/// The times are those of TensorFlow's `basic_session_run_hooks_test.py`.
#[test]
fn a_checkpoint_is_saved_at_the_first_step_after_so_many_seconds() {
    let store = Memory::default();
    alone(|server, task| {
        let checkpointing = every_steps(&store, 100);
        async move {
            let model = Counting::new(&task)?;
            let builder = model.builder(&task).checkpointing(checkpointing);
            let mut session = builder.save_checkpoint_secs(2).open().await?;
            for time in [0.0, 0.5, 2.5, 2.6, 2.7, 10.0, 10.1] {
                at(&server, time).await;
                model.step(&mut session).await?;
            }
            session.close().await
        }
    });
    assert_eq!(steps_in(Arc::new(store)), [0, 3, 6, 7]);
}

#[test]
fn the_seed_of_the_settings_is_what_graphs_draw_from() {
    let drawn = |seed: Option<u64>| {
        let values = Seen::default();
        alone(|_, task| {
            let values = values.clone();
            async move {
                let settings = RunSettings::new();
                let task = match seed {
                    Some(seed) => task.with_settings(settings.tf_random_seed(seed)),
                    None => task,
                };
                let g = Graph::new();
                g.set_random_seed(task.seed());
                let w = g.variable("w", &g.glorot_uniform("w", [2, 2]))?;
                let session = Session::new(&task.target(), &g).await?;
                session.run().target(g.initializer()).await?;
                values.add(session.run().fetch(&w.read()).await?[0].clone());
                Ok(())
            }
        });
        values.all().remove(0)
    };
    assert_eq!(drawn(Some(1)), drawn(Some(1)));
    assert_ne!(drawn(Some(1)), drawn(Some(2)));
    assert_eq!(drawn(None), drawn(Some(7)), "the run's own seed is 7");
}

#[test]
fn another_worker_can_be_the_chief() {
    workers(2, |_, task| async move {
        let model = Counting::new(&task)?;
        let is_chief = task.index() == 1;
        let session = model.builder(&task).is_chief(is_chief).open().await?;
        let v = session.raw().run().fetch(&model.v.read()).await?.scalar::<f32>(0)?;
        assert_eq!(v, 0.0);
        session.close().await
    });
}

#[test]
fn a_session_is_on_the_server_that_it_is_told() {
    on_actix(async {
        let mut servers = cluster(0, 2).into_iter();
        let (own, elsewhere) = (servers.next().unwrap(), servers.next().unwrap());
        let task = real_worker(own)?;
        let model = Counting::new(&task)?;
        let told = model.builder(&task).master(&elsewhere.target()).is_chief(true);
        let session = told.open().await?;
        elsewhere.stop();
        let lost = session.raw().run().fetch(&model.v.read()).await.map(drop);
        assert_error(lost, Code::Unavailable, &["worker:1"]);
        Ok(())
    });
}

#[test]
fn the_options_of_a_session_are_those_that_the_builder_or_the_settings_give() {
    let filters = || vec!["/job:nowhere".parse().unwrap()];
    workers(2, move |_, task| async move {
        if task.index() == 0 {
            let session = Counting::new(&task)?.builder(&task).open().await?;
            return session.close().await;
        }
        let model = Counting::new(&task)?;
        let options = SessionOptions { device_filters: filters(), ..SessionOptions::default() };
        let opened = model.builder(&task).config(options).open().await.map(drop);
        assert_error(opened, Code::InvalidArgument, &["/job:worker/task:0"]);
        let task = task.with_settings(RunSettings::new().device_filters(filters()));
        let opened = model.builder(&task).open().await.map(drop);
        assert_error(opened, Code::InvalidArgument, &["/job:worker/task:0"]);
        Ok(())
    });
}

/// A hook that never ends.
struct Endless;

impl Hook for Endless {
    fn end<'a>(&'a mut self, _: &'a HookContext<'_>) -> HookFuture<'a> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn hooks_that_do_not_end_within_the_grace_period_are_given_up() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let grace = Duration::from_secs(3);
        let builder = model.builder(&task).hook(Endless).stop_grace_period(grace);
        let closed = builder.open().await?.close().await;
        assert_error(closed, Code::DeadlineExceeded, &["grace period of 3s"]);
        assert!((task.now().as_secs_f64() - 3.0).abs() < 0.1);
        Ok(())
    });
}

#[test]
fn the_chief_waits_until_others_have_left_and_no_longer_than_the_grace_period() {
    for (grace, ended) in [(3, 4.0), (20, 10.0)] {
        workers(2, move |server, task| async move {
            let model = Counting::new(&task)?;
            let builder = model.builder(&task).stop_grace_period(Duration::from_secs(grace));
            let mut session = builder.hook(StopAtStep::last_step(4)).open().await?;
            if task.is_chief() {
                at(&server, 1.0).await;
                model.to_the_end(&mut session).await?;
            } else {
                model.to_the_end(&mut session).await?;
                at(&server, 10.0).await;
            }
            session.close().await?;
            let closed = seconds(&task);
            assert!(!task.is_chief() || (closed - ended).abs() < 0.1, "{closed}");
            Ok(())
        });
    }
}

/// Trains two variables by a step, with what `scaffold` makes of them; gives what they were at the
/// beginning of that life.
fn life(
    store: &Memory,
    scaffold: impl Fn(&Counting, &Variable) -> Scaffold + Sync,
) -> (u64, f32, f32) {
    let seen = Seen::default();
    alone(|_, task| {
        let (store, seen, scaffold) = (store.clone(), seen.clone(), &scaffold);
        let built = (|| -> Result<_> {
            let model = Counting::new(&task)?;
            let other = model.graph.variable("other", &model.graph.constant(5f32))?;
            let scaffold = scaffold(&model, &other);
            let builder = model.builder(&task).scaffold(scaffold);
            let more = other.assign_add(&model.graph.constant(1f32))?;
            Ok((builder.checkpointing(every_steps(&store, 100)), model, other, more))
        })();
        async move {
            let (builder, model, other, more) = built?;
            let mut session = builder.open().await?;
            let raw = session.raw().run().fetch(&model.v.read()).fetch(&other.read()).await?;
            seen.add((session.global_step(), raw.scalar(0)?, raw.scalar(1)?));
            session.run().target(&model.train_op).target(&more).await?;
            session.close().await
        }
    });
    seen.all()[0]
}

#[test]
fn variables_that_the_saver_does_not_list_begin_anew_after_a_restore() {
    let store = Memory::default();
    let all = |_: &Counting, _: &Variable| Scaffold::new();
    let only_v = |model: &Counting, _: &Variable| Scaffold::new().saver([("v", model.v.clone())]);
    assert_eq!(life(&store, all), (0, 0.0, 5.0));
    assert_eq!(life(&store, all), (1, 1.0, 6.0));
    assert_eq!(life(&store, only_v), (2, 2.0, 5.0), "a partial restore");
    assert_eq!(life(&store, only_v), (3, 3.0, 5.0));
}

#[test]
fn a_variable_is_saved_and_restored_under_the_name_that_the_saver_gives_it() {
    let store = Memory::default();
    let renamed = |model: &Counting, other: &Variable| {
        Scaffold::new().saver([("old/v", model.v.clone()), ("v", other.clone())])
    };
    assert_eq!(life(&store, renamed), (0, 0.0, 5.0));
    assert_eq!(life(&store, renamed), (1, 1.0, 6.0));
    let swapped = |model: &Counting, other: &Variable| {
        Scaffold::new().saver([("v", model.v.clone()), ("old/v", other.clone())])
    };
    assert_eq!(life(&store, swapped), (2, 7.0, 2.0), "by the names in the checkpoint");
}

#[test]
fn a_saver_that_lists_a_variable_or_a_name_twice_is_refused() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        for names in [["a", "b"], ["a", "a"]] {
            let twice = Scaffold::new().saver(names.map(|name| (name, model.v.clone())));
            let opened = model.builder(&task).scaffold(twice).open().await.map(drop);
            assert_error(opened, Code::InvalidArgument, &["listed twice", "`v`"]);
        }
        Ok(())
    });
}

#[test]
fn a_scaffold_copies_what_it_does_not_have_and_feeds_the_initial_values() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let x = model.scalar("x")?;
        let fed = model.graph.variable("fed", &(&x + &model.graph.constant(1f32)))?;
        let first = Scaffold::new().init_feed_dict(vec![(x.clone(), Tensor::scalar(7f32))]);
        let copied = Scaffold::new().copy_from_scaffold(&first);
        let session = model.builder(&task).scaffold(copied).open().await?;
        let value = session.raw().run().fetch(&fed.read()).await?.scalar::<f32>(0)?;
        assert_eq!(value, 8.0);
        session.close().await
    });
}
