//! How a model is made ready for its training, by the chief and for the other workers. The cases
//! are those of TensorFlow's `session_manager_test.py`.

use std::time::Duration;

use futures_util::future::join;
use trainyard::checkpoint::Memory;
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::training::{Scaffold, train};

use crate::support::alone::{Counting, Seen, alone, at, every_steps, seconds, workers};
use crate::support::fixture::{assert_error, cluster, on_actix};
use crate::support::simulated::{Simulated, real_worker};

async fn value(session: &MonitoredSession, variable: &Variable) -> Result<f32> {
    session.raw().run().fetch(&variable.read()).await?.scalar::<f32>(0)
}

#[test]
fn an_init_op_of_the_programs_gives_the_variables_what_it_is_fed() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let x = model.scalar("x")?;
        let step = model.global_step.assign(&model.graph.constant(5i64))?;
        let init = model.graph.group("my_init", &[&model.v.assign(&x)?, &step])?;
        let scaffold = Scaffold::new().init_op(&init, vec![(x, Tensor::scalar(7f32))]);
        let session = model.builder(&task).scaffold(scaffold).open().await?;
        assert_eq!((value(&session, &model.v).await?, session.global_step()), (7.0, 5));
        session.close().await
    });
}

#[test]
fn an_init_op_that_leaves_a_variable_without_value_is_an_error_that_names_it() {
    alone(|_, task| async move {
        let model = Counting::new(&task)?;
        let init = model.v.assign(&model.graph.constant(1f32))?;
        let scaffold = Scaffold::new().init_op(&init, Vec::new());
        let opened = model.builder(&task).scaffold(scaffold).open().await.map(drop);
        assert_error(
            opened,
            Code::FailedPrecondition,
            &["did not make the model ready", "`global_step` has no value"],
        );
        Ok(())
    });
}

/// What gives `v` the value 9, noting each call, of which the first `lost` meet a lost task.
fn init_fn(model: &Counting, calls: &Seen<()>, lost: usize) -> Result<Scaffold> {
    let nine = model.v.assign(&model.graph.constant(9f32))?;
    let calls = calls.clone();
    Ok(Scaffold::new().init_fn(move |session| {
        calls.add(());
        let (is_lost, nine) = (calls.all().len() <= lost, nine.clone());
        Box::pin(async move {
            if is_lost {
                return Err(Error::new(Code::Aborted, "the session is gone"));
            }
            session.run().target(&nine).await.map(drop)
        })
    }))
}

#[test]
fn an_init_function_is_called_after_the_initial_values_and_not_where_there_is_a_checkpoint() {
    let (store, calls) = (Memory::default(), Seen::default());
    for begun in [9.0, 10.0] {
        alone(|_, task| {
            let (store, calls) = (store.clone(), calls.clone());
            async move {
                let model = Counting::new(&task)?;
                let builder = model.builder(&task).scaffold(init_fn(&model, &calls, 0)?);
                let mut session = builder.checkpointing(every_steps(&store, 100)).open().await?;
                assert_eq!(value(&session, &model.v).await?, begun);
                model.step(&mut session).await?;
                session.close().await
            }
        });
        assert_eq!(calls.all().len(), 1);
    }
}

#[test]
fn an_init_function_gives_all_workers_their_values_where_each_trains_a_copy_of_its_own() {
    let modes = [
        Mode::LocalSgd { every: 2, backups: 0 },
        Mode::DiLoCo { every: 2, backups: 0, outer_learning_rate: 0.7, outer_momentum: 0.9 },
        Mode::ElasticAveraging { every: 2, alpha: 0.3 },
    ];
    let cases = modes.into_iter().flat_map(|mode| ["v", "v/center"].map(|set| (mode, set)));
    for (mode, set) in cases {
        let values = Seen::default();
        let trained = Simulated::new(1, 3, mode).run_program(|task| {
            let values = values.clone();
            async move {
                if task.job() == "ps" {
                    return task.join().await;
                }
                let g = Graph::new();
                let setter = ReplicaDeviceSetter::new(task.cluster()).worker_device(task.device());
                let (v, w, train_op) = g.with_device_fn(setter, |g| {
                    let (v, w) =
                        (g.variable("v", &g.constant(1f32))?, g.variable("w", &g.constant(2f32))?);
                    let loss = v.read().mul(&w.read())?;
                    let train_op = task.minimize(GradientDescent::new(0.0), &loss)?;
                    Ok((v, w, train_op))
                })?;
                let set = g.variables().into_iter().find(|variable| variable.name() == set);
                let nine = set.expect("it is there").assign(&g.constant(9f32))?;
                let scaffold = Scaffold::new().init_fn(move |session| {
                    let nine = nine.clone();
                    Box::pin(async move { session.run().target(&nine).await.map(drop) })
                });
                let builder = MonitoredSession::builder(&task, g).scaffold(scaffold);
                let mut session = builder.open().await?;
                values.add((value(&session, &v).await?, value(&session, &w).await?));
                // The second ends with an exchange, which would pull them to other centers.
                for _ in 0..2 {
                    session.run().target(&train_op).await?;
                }
                values.add((value(&session, &v).await?, value(&session, &w).await?));
                session.close().await
            }
        });
        assert!(trained.outcome.result.is_ok(), "{mode}, {set}: {:?}", trained.outcome.result);
        assert_eq!(values.all(), [(9.0, 2.0); 6], "{mode}, {set}");
    }
}

/// TensorFlow tries for ever.
#[test]
fn an_init_function_that_meets_a_lost_task_is_called_again_and_given_up_in_the_end() {
    for (lost, expected) in [(2, 3), (100, 7)] {
        let calls = Seen::default();
        alone(|_, task| {
            let calls = calls.clone();
            async move {
                let model = Counting::new(&task)?;
                let opened =
                    model.builder(&task).scaffold(init_fn(&model, &calls, lost)?).open().await;
                if lost > 99 {
                    assert_error(opened.map(drop), Code::Aborted, &["the session is gone"]);
                    return Ok(());
                }
                let session = opened?;
                assert_eq!(value(&session, &model.v).await?, 9.0);
                session.close().await
            }
        });
        assert_eq!(calls.all().len(), expected);
    }
}

#[test]
fn an_operation_for_the_workers_own_variables_runs_once_a_session_also_after_a_restore() {
    let store = Memory::default();
    for expected in [1.0, 2.0] {
        alone(|_, task| {
            let store = store.clone();
            async move {
                let model = Counting::new(&task)?;
                let times = model.graph.variable("times", &model.graph.constant(0f32))?;
                let once_more = times.assign_add(&model.graph.constant(1f32))?;
                let scaffold = Scaffold::new().local_init_op(&once_more);
                let builder =
                    model.builder(&task).scaffold(scaffold).checkpointing(every_steps(&store, 100));
                let session = builder.open().await?;
                assert_eq!(value(&session, &times).await?, expected);
                session.close().await
            }
        });
    }
}

/// A scaffold one of whose conditions never holds.
fn never(model: &Counting, for_own: bool) -> Scaffold {
    let no = model.graph.constant(Tensor::new([2], &[true, false]).unwrap());
    if for_own {
        Scaffold::new().ready_for_local_init_op(&no)
    } else {
        Scaffold::new().ready_op(&no)
    }
}

const SAYS: [(bool, &str); 2] = [(true, "ready-for-local-init"), (false, "its ready operation")];

#[test]
fn a_model_that_its_init_does_not_make_ready_is_an_error_of_the_chief() {
    alone(|_, task| async move {
        for (for_own, says) in SAYS {
            let model = Counting::new(&task)?;
            let opened =
                model.builder(&task).scaffold(never(&model, for_own)).open().await.map(drop);
            assert_error(opened, Code::FailedPrecondition, &["did not make the model ready", says]);
        }
        Ok(())
    });
}

#[test]
fn a_worker_whose_model_does_not_become_ready_in_time_says_what_it_waited_for() {
    for (for_own, says) in SAYS {
        workers(2, |server, task| async move {
            let model = Counting::new(&task)?;
            if task.is_chief() {
                let session = model.builder(&task).open().await?;
                at(&server, 4.0).await;
                return session.close().await;
            }
            let builder = model.builder(&task).scaffold(never(&model, for_own));
            let opened = builder.max_wait(Duration::from_secs(3)).open().await.map(drop);
            assert_error(
                opened,
                Code::DeadlineExceeded,
                &["not ready after waiting 3s", says, "worker:0"],
            );
            assert!((3.0..3.2).contains(&seconds(&task)), "{}", seconds(&task));
            Ok(())
        });
    }
}

/// TensorFlow's worker looks every 30 seconds.
#[test]
fn a_worker_begins_soon_after_its_model_is_ready() {
    workers(2, |server, task| async move {
        let model = Counting::new(&task)?;
        if task.is_chief() {
            let mut session = model.builder(&task).open().await?;
            at(&server, 1.0).await;
            model.step(&mut session).await?;
            return session.close().await;
        }
        let has_begun = model.global_step.read().greater(&model.graph.constant(0i64))?;
        let session =
            model.builder(&task).scaffold(Scaffold::new().ready_op(&has_begun)).open().await?;
        assert!((1.0..1.2).contains(&seconds(&task)), "{}", seconds(&task));
        session.close().await
    });
}

/// In real time, where nobody sees that nothing can ever happen any more.
#[test]
fn a_worker_whose_chief_does_not_come_in_time_names_it() {
    on_actix(async {
        let mut servers = cluster(1, 2);
        let server = servers.pop().expect("the last is a worker");
        let task = real_worker(server)?;
        let model = Counting::new(&task)?;
        let opened =
            model.builder(&task).max_wait(Duration::from_millis(300)).open().await.map(drop);
        assert_error(opened, Code::DeadlineExceeded, &["the chief, worker:0", "first values"]);
        Ok(())
    });
}

/// Its parameter server would wait for it, and the simulation stall.
#[test]
fn a_worker_that_is_asked_to_stop_before_its_session_exists_says_that_it_leaves() {
    let training = Simulated::new(1, 2, Mode::Async);
    let trained = training.run_on_servers(|server, task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        if task.is_chief() {
            at(&server, 2.0).await;
            return train(task).await;
        }
        let stopped = async {
            at(&server, 1.0).await; // it has met the parameter server, and waits for the chief
            server.request_stop();
        };
        let (trained, ()) = join(train(task), stopped).await;
        assert_error(trained, Code::Cancelled, &["before the chief, worker:0, had given"]);
        Ok(())
    });
    assert!(trained.outcome.result.is_ok(), "{:?}", trained.outcome.result);
}
