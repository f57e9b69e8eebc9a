//! Queues and conditional accumulators on tasks, after TensorFlow's `fifo_queue_test.py` and
//! `conditional_accumulator_test.py`.

use trainyard::graph::{ConditionalAccumulator, FifoQueue, Reduction};
use trainyard::prelude::*;
use trainyard::sync::Mode;
use trainyard::tensor::Shape;

use crate::fixture::{assert_error, both, cluster, impatient, on_actix};
use crate::simulated::Simulated;

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
        let queue = g.with_device("/job:ps/task:0", |g| pairs(g, 2))?;
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
            assert_error(outcome, Code::OutOfRange, &["`numbers` is closed and has 0 elements", &name]);
        }
        assert_error(session.run().target(&fill).await, Code::Cancelled, &["`numbers` is closed", "reset"]);
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
        assert!(wrong.contains("the components of an element, i64[]") && wrong.contains("f32[]"), "{wrong}");
        Session::new(&server.target(), &g).await?.run().fetch(&queue.size()).await?;
        let session = Session::new(&server.target(), &other).await?;
        assert_error(session.run().fetch(&alike.size()).await, Code::InvalidArgument, &["`q` is", "rename one"]);
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
        let queue = g.with_device("/job:ps/task:0", |g| pairs(g, 1))?;
        let session = Session::new(&task.target(), &g).await?;
        session.run().fetch(&queue.dequeue()[0]).await.map(|_| ())
    });
    let error = trained.outcome.result.unwrap_err();
    assert_eq!(error.code, Code::Stalled);
    assert!(error.message.contains("ps:0, step 0 waits for elements of the queue `pairs`"), "{error}");
}

#[test]
fn an_accumulator_gives_the_mean_or_the_sum_of_all_that_has_come() {
    on_actix(async {
        let server = Server::create_local();
        let g = Graph::new();
        for (name, reduction, expected) in [("mean", Reduction::Mean, 15.0), ("sum", Reduction::Sum, 30.0)] {
            let accumulator = ConditionalAccumulator::new(&g, name, DType::F32, Shape::SCALAR, reduction)?;
            let (gradient, step, number) = (g.constant(10f32), g.constant(0i64), g.constant(1i32));
            let (apply, take) = (accumulator.apply_grad(&gradient, &step)?, accumulator.take_grad(&number)?);
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
        let (apply, set) =
            (accumulator.apply_grad(&gradient, &g.constant(9i64))?, accumulator.set_global_step(&g.constant(3i64))?);
        let (one, two) = (accumulator.take_grad(&g.constant(1i32))?, accumulator.take_grad(&g.constant(2i32))?);
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
