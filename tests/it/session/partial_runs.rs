//! Steps in pieces, after TensorFlow's `direct_session_test` and `partial_run_mgr_test`: fed and
//! fetched a part at a time, as one step.

use trainyard::cluster::TaskName;
use trainyard::prelude::*;

use crate::support::fixture::{assert_error, both, cluster, impatient, on_actix};

/// `a + b` on a parameter server, and that times `c` on the worker.
struct Sums {
    g: Graph,
    a: Output,
    b: Output,
    c: Output,
    sum: Output,
    product: Output,
}

impl Sums {
    fn new() -> Result<Self> {
        let g = Graph::new();
        let [a, b, c] = ["a", "b", "c"].map(|name| g.placeholder(name, DType::F32, [0usize; 0]));
        let (a, b, c) = (a?, b?, c?);
        let sum = g.with_device("/job:ps", |_| a.add(&b))?;
        let product = g.with_device("/job:worker", |_| sum.mul(&c))?;
        Ok(Self { g, a, b, c, sum, product })
    }
}

#[test]
fn pieces_of_one_step_are_fed_and_fetched_one_after_the_other() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Sums { g, a, b, c, sum, product } = Sums::new()?;
        let afar = servers[1].target_of(&TaskName::new("ps", 0))?;
        for target in [servers[1].target(), afar] {
            let session = Session::new(&target, &g).await?;
            let (feeds, fetches) = ([&a, &b, &c], [&sum, &product, &a]);
            let mut partial = session.partial_run_setup(&feeds, &fetches, &[]).await?;
            partial.run(&[(&a, 1f32.into())], &[]).await?;
            let first = partial.run(&[(&b, 2f32.into())], &[&a, &sum]).await?;
            assert_eq!((first.scalar::<f32>(&a)?, first.scalar::<f32>(&sum)?), (1.0, 3.0));
            let second = partial.run(&[(&c, 17f32.into())], &[&product]).await?;
            assert_eq!(second.scalar::<f32>(0)?, 51.0);
            let over = partial.run(&[], &[&product]).await.map(drop);
            assert_error(over, Code::InvalidArgument, &["is over"]);
            let unfed = session.partial_run_setup(&[&a], &[&sum], &[]).await.map(drop);
            assert_error(unfed, Code::InvalidArgument, &["you must feed", "b"]);
            drop(session.partial_run_setup(&feeds, &fetches, &[]).await?);
        }
        Ok(())
    });
}

#[test]
fn each_operation_runs_once_however_many_pieces_there_are() {
    on_actix(async {
        let servers = cluster(1, 1);
        let g = Graph::new();
        let v = g.with_device("/job:ps", |g| g.variable("v", &g.constant(5f32)))?;
        let x = g.placeholder("x", DType::F32, [0usize; 0])?;
        let read = v.read().identity();
        let sum = read.add(&x)?;
        let add = v.assign_add(&g.constant(1f32))?;
        let session = Session::new(&servers[1].target(), &g).await?;
        session.run().target(g.initializer()).await?;
        let mut partial = session.partial_run_setup(&[&x], &[&read, &sum], &[]).await?;
        assert_eq!(partial.run(&[], &[&read]).await?.scalar::<f32>(0)?, 5.0);
        session.run().target(&add).await?;
        let later = partial.run(&[(&x, 10f32.into())], &[&sum]).await?;
        assert_eq!(later.scalar::<f32>(0)?, 15.0, "the value that was read first");
        assert_eq!(session.run().fetch(&v.read()).await?.scalar::<f32>(0)?, 6.0);
        Ok(())
    });
}

#[test]
fn a_piece_that_does_not_fit_is_refused_and_the_step_goes_on() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Sums { g, a, b, c, sum, product } = Sums::new()?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let mut partial = session.partial_run_setup(&[&a, &b], &[&sum], &[]).await?;
        let one = || Tensor::scalar(1f32);
        let refused = |outcome: Result<_>, says: &[&str]| {
            assert_error(outcome, Code::InvalidArgument, says);
        };
        refused(partial.run(&[(&a, one())], &[&sum]).await.map(drop), &["needs `b`", "Add"]);
        refused(partial.run(&[(&c, one())], &[]).await.map(drop), &["`c` is not what"]);
        refused(partial.run(&[], &[&product]).await.map(drop), &["is not what"]);
        refused(partial.run(&[(&a, 1i32.into())], &[]).await.map(drop), &["cannot feed i32"]);
        partial.run(&[(&a, one())], &[]).await?;
        refused(partial.run(&[(&a, one())], &[]).await.map(drop), &["fed before", "a"]);
        let done = partial.run(&[(&b, one())], &[&sum]).await?;
        assert_eq!(done.scalar::<f32>(0)?, 2.0);
        let unfed = session.partial_run_setup(&[&a], &[&sum], &[]).await.map(drop);
        assert_error(unfed, Code::InvalidArgument, &["you must feed", "b"]);
        Ok(())
    });
}

#[test]
fn a_step_in_pieces_fails_as_a_whole_and_ends_with_its_program_or_its_time() {
    on_actix(async {
        let servers = cluster(1, 1);
        let Sums { g, a, b, sum, .. } = Sums::new()?;
        let v = g.with_device("/job:ps", |g| g.variable("v", &g.constant(0f32)))?;
        let late = v.read().add(&a)?;
        let session = Session::new(&servers[1].target(), &g).await?;
        let mut partial = session.partial_run_setup(&[&a, &b], &[&sum, &late], &[]).await?;
        let failed = partial.run(&[(&a, 1f32.into())], &[&late]).await.map(drop);
        assert_error(failed, Code::FailedPrecondition, &["`v`", "ps:0"]);
        let failed = partial.run(&[(&b, 1f32.into())], &[&sum]).await.map(drop);
        assert_error(failed, Code::FailedPrecondition, &["`v`", "ps:0"]);
        drop(session.partial_run_setup(&[&a, &b], &[&sum], &[]).await?);
        let hasty = Session::with_options(&servers[1].target(), &g, impatient()).await?;
        let mut partial = hasty.partial_run_setup(&[&a, &b], &[&sum], &[]).await?;
        let never = g.await_initialization();
        let wait = session.run().target(&never);
        let opening = async {
            tokio::time::sleep(crate::support::fixture::SOON * 3).await;
            session.run().target(g.initializer()).await
        };
        let (waited, opened) = both(wait, opening).await;
        waited.and(opened)?;
        let overdue = partial.run(&[(&a, 1f32.into())], &[]).await.map(drop);
        assert_error(overdue, Code::DeadlineExceeded, &["ps:0"]);
        Ok(())
    });
}
