//! Queues and conditional accumulators on tasks, after TensorFlow's `fifo_queue_test.py`,
//! `conditional_accumulator_test.py` and `sparse_conditional_accumulator_test.py`.

use trainyard::graph::{
    ConditionalAccumulator, FifoQueue, IndexedSlices, Reduction, SparseConditionalAccumulator,
};
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::tensor::Shape;

use crate::support::fixture::{all, assert_error, both, cluster, impatient, on_actix};
use crate::support::simulated::Simulated;

/// A queue of pairs of a number and a point.
fn pairs(g: &Graph, capacity: usize) -> Result<FifoQueue> {
    let components = [(DType::I64, Shape::SCALAR), (DType::F32, Shape::from([2]))];
    Ok(FifoQueue::new(g, "pairs", Some(capacity), &components)?)
}

#[test]
fn what_one_task_enqueues_another_dequeues_in_order_and_waits_for() {
    on_actix(async {
        let cluster = cluster(1, 2);
        let g = Graph::new();
        let queue = g.with_device("/job:ps/task:0", |g| Ok(pairs(g, 2)?))?;
        let (number, point) = (g.constant(7i64), g.constant(Tensor::new([2], &[1f32, 2.0])?));
        let (enqueue, dequeue) = (queue.enqueue(&[&number, &point])?, queue.dequeue());
        let producer = Session::new(&cluster[1].target(), &g).await?;
        let consumer = Session::new(&cluster[2].target(), &g).await?;
        let wanted = consumer.run().fetch(&dequeue[0]).fetch(&dequeue[1]);
        let produce = producer.run().feed(&number, 8i64).target(&enqueue);
        let (taken, enqueued) = both(wanted, produce).await;
        enqueued?;
        let taken = taken?;
        assert_eq!(taken.scalar::<i64>(0)?, 8);
        assert_eq!(taken[1].values::<f32>()?, [1.0, 2.0]);
        assert_eq!(consumer.run().fetch(&queue.size()).await?.scalar::<i32>(0)?, 0);
        Ok(())
    });
}

#[test]
fn many_elements_go_in_and_come_out_as_rows_also_where_fewer_fit_at_a_time() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let queue = pairs(&g, 2)?;
        let numbers = g.constant(Tensor::new([3], &[1i64, 2, 3])?);
        let points = g.constant(Tensor::new([3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?);
        let (enqueue, three) = (queue.enqueue_many(&[&numbers, &points])?, queue.dequeue_many(3));
        let session = Session::new(&server.target(), &g).await?;
        let taken = session.run().target(&enqueue).fetch(&three[0]).fetch(&three[1]).await?;
        assert_eq!(taken[0], Tensor::new([3], &[1i64, 2, 3])?);
        assert_eq!(taken[1], Tensor::new([3, 2], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?);
        Ok(())
    });
}

#[test]
fn a_dequeue_of_no_elements_gives_tensors_without_rows() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let queue = pairs(&g, 2)?;
        let (many, up_to) = (queue.dequeue_many(0), queue.dequeue_up_to(0));
        let session = Session::new(&server.target(), &g).await?;
        for none in [many, up_to] {
            // A user of the component runs, too: it has no rows to take.
            let doubled = none[1].add(&none[1])?;
            let taken = session.run().fetch(&none[0]).fetch(&none[1]).fetch(&doubled).await?;
            assert_eq!(taken[0], Tensor::zeros(DType::I64, [0]));
            assert_eq!(taken[1], Tensor::zeros(DType::F32, [0, 2]));
            assert_eq!(taken[2], taken[1]);
        }
        Ok(())
    });
}

#[test]
fn a_closed_queue_ends_an_input_pipeline_in_good_order() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let queue = FifoQueue::new(&g, "numbers", None, &[(DType::I64, Shape::SCALAR)])?;
        let numbers = g.constant(Tensor::new([5], &[1i64, 2, 3, 4, 5])?);
        let (fill, two) = (queue.enqueue_many(&[&numbers])?, queue.dequeue_up_to(2).remove(0));
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(&fill).await?;
        session.run().target(queue.close(false)).await?;
        assert!(session.run().fetch(&queue.is_closed()).await?.scalar::<bool>(0)?);
        for rest in [&[1i64, 2][..], &[3, 4], &[5]] {
            assert_eq!(session.run().fetch(&two).await?[0].values::<i64>()?, rest);
        }
        let (many, one) = (queue.dequeue_many(2).remove(0), queue.dequeue().remove(0));
        for output in [&two, &many, &one] {
            let name = output.name();
            let outcome = session.run().fetch(output).await;
            assert_error(
                outcome,
                Code::OutOfRange,
                &["`numbers` is closed and has 0 elements", &name],
            );
        }
        assert_error(
            session.run().target(&fill).await,
            Code::Cancelled,
            &["`numbers` is closed", "reset"],
        );
        Session::reset(&server.target(), &[]).await?;
        let again = Session::new(&server.target(), &g).await?;
        again.run().target(&fill).await?;
        assert_eq!(again.run().fetch(&queue.size()).await?.scalar::<i32>(0)?, 5);
        Ok(())
    });
}

#[test]
fn a_step_that_waits_at_a_queue_ends_with_its_deadline_and_takes_nothing_with_it() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let queue = FifoQueue::new(&g, "numbers", Some(1), &[(DType::I64, Shape::SCALAR)])?;
        let (one, three) = (queue.enqueue(&[&g.constant(1i64)])?, queue.dequeue_many(3).remove(0));
        let patient = Session::new(&server.target(), &g).await?;
        let session = Session::with_options(&server.target(), &g, impatient()).await?;
        assert_error(session.run().fetch(&three).target(&one).await, Code::DeadlineExceeded, &[]);
        assert_eq!(patient.run().fetch(&queue.size()).await?.scalar::<i32>(0)?, 1);
        assert_error(session.run().target(&one).await, Code::DeadlineExceeded, &[]);
        assert_eq!(patient.run().fetch(&queue.dequeue()[0]).await?.scalar::<i64>(0)?, 1);
        assert_eq!(patient.run().fetch(&queue.size()).await?.scalar::<i32>(0)?, 0);
        Ok(())
    });
}

#[test]
fn a_queue_of_other_components_under_the_same_name_is_refused() {
    on_actix(async {
        let server = Server::create_local();
        let (g, other) = (Graph::new(), Graph::new());
        let queue = FifoQueue::new(&g, "q", Some(1), &[(DType::I64, Shape::SCALAR)])?;
        let alike = FifoQueue::new(&other, "q", Some(1), &[(DType::F32, Shape::SCALAR)])?;
        let wrong = queue.enqueue(&[&g.constant(1f32)]).unwrap_err().to_string();
        assert!(
            wrong.contains("the components of an element, i64[]") && wrong.contains("f32[]"),
            "{wrong}"
        );
        Session::new(&server.target(), &g).await?.run().fetch(&queue.size()).await?;
        let session = Session::new(&server.target(), &other).await?;
        assert_error(
            session.run().fetch(&alike.size()).await,
            Code::InvalidArgument,
            &["`q` is", "rename one"],
        );
        Ok(())
    });
}

#[test]
fn who_waits_at_a_queue_for_ever_is_named_in_the_report_of_the_stall() {
    let trained = Simulated::new(1, 1, Mode::Async).run_program(|task| async move {
        if task.job() == "ps" {
            return task.join().await;
        }
        let g = Graph::new();
        let queue = g.with_device("/job:ps/task:0", |g| Ok(pairs(g, 1)?))?;
        let session = Session::new(&task.target(), &g).await?;
        session.run().fetch(&queue.dequeue()[0]).await.map(|_| ())
    });
    let error = trained.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert!(
        error.message.contains("ps:0, step 0 waits for elements of the queue `pairs`"),
        "{error}"
    );
}

#[test]
fn an_accumulator_gives_the_mean_or_the_sum_of_all_that_has_come() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        for (name, reduction, expected) in
            [("mean", Reduction::Mean, 15.0), ("sum", Reduction::Sum, 30.0)]
        {
            let accumulator =
                ConditionalAccumulator::new(&g, name, DType::F32, Shape::SCALAR, reduction)?;
            let (gradient, step, number) = (g.constant(10f32), g.constant(0i64), g.constant(1i32));
            let (apply, take) =
                (accumulator.apply_grad(&gradient, &step)?, accumulator.take_grad(&number)?);
            let session = Session::new(&server.target(), &g).await?;
            for local_step in [0i64, 1] {
                session.run().feed(&step, local_step).target(&apply).await?;
                session.run().feed(&step, local_step).feed(&gradient, 20f32).target(&apply).await?;
                let count = session.run().fetch(&accumulator.num_accumulated()).await?;
                assert_eq!(count.scalar::<i32>(0)?, 2);
                assert_eq!(session.run().fetch(&take).await?.scalar::<f32>(0)?, expected);
            }
            session.run().feed(&step, 1i64).target(&apply).await?;
            let count = session.run().fetch(&accumulator.num_accumulated()).await?;
            assert_eq!(count.scalar::<i32>(0)?, 0, "the gradient of an earlier step was dropped");
            let none = session.run().feed(&number, -1i32).fetch(&take).await;
            assert_error(none, Code::InvalidArgument, &["not of -1"]);
        }
        Ok(())
    });
}

#[test]
fn takers_of_an_accumulator_are_served_in_order_and_shapes_must_agree() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let shape = [None];
        let accumulator = ConditionalAccumulator::new(&g, "a", DType::F32, shape, Reduction::Mean)?;
        let gradient = g.placeholder("gradient", DType::F32, shape)?;
        let (apply, set) = (
            accumulator.apply_grad(&gradient, &g.constant(9i64))?,
            accumulator.set_global_step(&g.constant(3i64))?,
        );
        let (one, two) =
            (accumulator.take_grad(&g.constant(1i32))?, accumulator.take_grad(&g.constant(2i32))?);
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(&set).await?;
        session.run().feed(&gradient, Tensor::new([2], &[1f32, 2.0])?).target(&apply).await?;
        let wrong = session.run().feed(&gradient, Tensor::new([1], &[1f32])?).target(&apply).await;
        assert_error(wrong, Code::InvalidArgument, &["[1]", "which are [2]"]);
        let applying = async {
            for values in [[3f32, 4.0], [5.0, 6.0]] {
                session.run().feed(&gradient, Tensor::new([2], &values)?).target(&apply).await?;
            }
            Ok::<_, Error>(())
        };
        let taking = both(session.run().fetch(&two), session.run().fetch(&one));
        let ((pair, single), applied) = both(taking, applying).await;
        applied?;
        assert_eq!(pair?[0].values::<f32>()?, [2.0, 3.0], "the mean of the first two that came");
        assert_eq!(single?[0].values::<f32>()?, [5.0, 6.0]);
        Ok(())
    });
}

#[test]
fn each_of_ten_takers_at_once_gets_one_gradient_and_who_waits_when_its_session_closes_is_cancelled()
{
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let accumulator =
            ConditionalAccumulator::new(&g, "a", DType::F32, Shape::SCALAR, Reduction::Mean)?;
        let (gradient, step) = (g.constant(0f32), g.constant(100i64));
        let (apply, take) =
            (accumulator.apply_grad(&gradient, &step)?, accumulator.take_grad(&g.constant(1i32))?);
        let session = Session::new(&server.target(), &g).await?;
        let takers =
            all((0..10).map(|_| async { session.run().fetch(&take).await?.scalar::<f32>(0) }));
        let applying = async {
            for value in 0..10u8 {
                session.run().feed(&gradient, f32::from(value)).target(&apply).await?;
            }
            Ok::<_, Error>(())
        };
        let (taken, applied) = both(takers, applying).await;
        applied?;
        assert_eq!(taken?, (0..10u8).map(f32::from).collect::<Vec<_>>());
        let closing = async {
            session.run().fetch(&accumulator.num_accumulated()).await?;
            session.close();
            Ok::<_, Error>(())
        };
        let (cancelled, closed) = both(session.run().fetch(&take), closing).await;
        closed?;
        assert_error(cancelled, Code::Cancelled, &[]);
        Ok(())
    });
}

#[test]
fn what_adds_a_gradient_tells_how_many_steps_it_is_late() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let accumulator =
            ConditionalAccumulator::new(&g, "a", DType::F32, Shape::SCALAR, Reduction::Mean)?;
        let step = g.constant(0i64);
        let late = accumulator.apply_grad(&g.constant(1f32), &step)?.output(0).unwrap();
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(accumulator.set_global_step(&g.constant(3i64))?).await?;
        for (local_step, expected) in [(1i64, 2), (3, 0), (7, 0)] {
            assert_eq!(
                session.run().feed(&step, local_step).fetch(&late).await?.scalar::<i64>(0)?,
                expected
            );
        }
        assert_eq!(session.run().fetch(&accumulator.num_accumulated()).await?.scalar::<i32>(0)?, 2);
        Ok(())
    });
}

/// Two rows of two, fed, with their numbers.
fn slices(g: &Graph) -> Result<(Output, Output, IndexedSlices)> {
    let rows = g.placeholder("rows", DType::F32, [None, Some(2)])?;
    let indices = g.placeholder("indices", DType::I64, [None])?;
    let slices = IndexedSlices::new(&rows, &indices, 3)?;
    Ok((rows, indices, slices))
}

#[test]
fn a_sparse_accumulator_merges_rows_and_divides_each_by_the_gradients_that_have_it() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let (rows, indices, slices) = slices(&g)?;
        let means = [0.5f32, 0.5, 0.0, 2.0, 3.0, 0.0];
        let sums = [1.0, 1.0, 0.0, 2.0, 3.0, 0.0];
        for (name, reduction, expected) in
            [("mean", Reduction::Mean, means), ("sum", Reduction::Sum, sums)]
        {
            let accumulator =
                SparseConditionalAccumulator::new(&g, name, [Some(3), Some(2)], reduction)?;
            let (step, number) = (g.constant(0i64), g.constant(1i32));
            let (apply, taken) =
                (accumulator.apply_grad(&slices, &step)?, accumulator.take_grad(&number)?);
            assert_eq!(taken.rows(), 3);
            let session = Session::new(&server.target(), &g).await?;
            let apply = |step_of: i64, ids: [i64; 2], values: [f32; 4]| {
                let (ids, values) =
                    (Tensor::new([2], &ids).unwrap(), Tensor::new([2, 2], &values).unwrap());
                session
                    .run()
                    .feed(&step, step_of)
                    .feed(&indices, ids)
                    .feed(&rows, values)
                    .target(&apply)
            };
            apply(0, [0, 1], [1.0, 0.0, 0.0, 2.0]).await?;
            apply(0, [0, 2], [0.0, 1.0, 3.0, 0.0]).await?;
            let found = session.run().fetch(taken.indices()).fetch(taken.values()).await?;
            assert_eq!(found[0], Tensor::new([3], &[0i64, 1, 2])?);
            assert_eq!(found[1], Tensor::new([3, 2], &expected)?);
            apply(0, [0, 1], [9.0; 4]).await?;
            apply(1, [1, 2], [1.0, 2.0, 3.0, 4.0]).await?;
            let found =
                session.run().fetch(&accumulator.num_accumulated()).fetch(taken.values()).await;
            assert_eq!(
                found?[1],
                Tensor::new([2, 2], &[1f32, 2.0, 3.0, 4.0])?,
                "the late one was dropped"
            );
            let none = session.run().feed(&number, 0i32).fetch(taken.values()).await;
            assert_error(none, Code::InvalidArgument, &["not of 0"]);
            session.run().target(accumulator.set_global_step(&g.constant(7i64))?).await?;
            apply(6, [0, 1], [9.0; 4]).await?;
            assert_eq!(
                session.run().fetch(&accumulator.num_accumulated()).await?.scalar::<i32>(0)?,
                0
            );
        }
        Ok(())
    });
}

#[test]
fn a_gradient_that_does_not_fit_a_sparse_accumulator_is_refused() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        let (rows, indices, slices) = slices(&g)?;
        let accumulator =
            SparseConditionalAccumulator::new(&g, "a", [Some(3), None], Reduction::Mean)?;
        let apply = accumulator.apply_grad(&slices, &g.constant(0i64))?;
        let session = Session::new(&server.target(), &g).await?;
        let two = Tensor::new([2, 2], &[1f32; 4])?;
        let apply = |ids: &[i64]| {
            let ids = Tensor::new([ids.len()], ids).unwrap();
            session.run().feed(&indices, ids).feed(&rows, two.clone()).target(&apply)
        };
        assert_error(apply(&[1]).await, Code::InvalidArgument, &["`a` has 1 indices", "[2,2]"]);
        assert_error(
            apply(&[1, 3]).await,
            Code::InvalidArgument,
            &["`a`", "the index 3, at place 1", "3 positions"],
        );
        let scalar = SparseConditionalAccumulator::new(&g, "b", Shape::SCALAR, Reduction::Mean)
            .err()
            .unwrap();
        assert!(scalar.to_string().contains("number of rows is known"), "{scalar}");
        let narrow = SparseConditionalAccumulator::new(&g, "c", [3, 1], Reduction::Mean)?;
        let wrong = narrow.apply_grad(&slices, &g.constant(0i64)).unwrap_err().to_string();
        assert!(wrong.contains("the rows f32[?,1] of a gradient"), "{wrong}");
        assert!(SparseConditionalAccumulator::new(&g, "d", [3, 1], Reduction::Max).is_err());
        Ok(())
    });
}
