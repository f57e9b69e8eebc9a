//! What the tests of sessions and servers share: a runtime with a limit on time, clusters, waiting for several steps.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use trainyard::cluster::ClusterSpec;
use trainyard::prelude::*;

/// No test takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test on actix, in real time. A hang fails it.
pub(crate) fn on_actix(test: impl Future<Output = Result<()>>) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limited = async { tokio::time::timeout(LIMIT, test).await };
    actix_rt::System::with_tokio_rt(runtime).block_on(limited).expect("the test hangs").unwrap();
}

/// Started servers of `ps` and `worker` tasks, the parameter servers first.
pub(crate) fn cluster(ps: u32, worker: u32) -> Vec<Server> {
    Server::create_cluster(&ClusterSpec::simulated([("ps", ps), ("worker", worker)]).unwrap())
}

/// An f32 matrix, row by row.
pub(crate) fn matrix(rows: usize, columns: usize, values: &[f32]) -> Tensor {
    Tensor::new([rows, columns], values).unwrap()
}

/// Waits for two things that happen at the same time.
pub(crate) async fn both<A: IntoFuture, B: IntoFuture>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a.into_future()), pin!(b.into_future()));
    let (mut first, mut second) = (None, None);
    poll_fn(move |context| {
        advance(&mut first, a.as_mut(), context);
        advance(&mut second, b.as_mut(), context);
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}

fn advance<F: Future>(value: &mut Option<F::Output>, future: Pin<&mut F>, context: &mut Context<'_>) {
    if value.is_none()
        && let Poll::Ready(ready) = future.poll(context)
    {
        *value = Some(ready);
    }
}

/// A step's time where it waits for ever unless a deadline ends it.
pub(crate) const SOON: Duration = Duration::from_millis(50);

/// Options of a session whose steps end after [`SOON`].
pub(crate) fn impatient() -> SessionOptions {
    SessionOptions { operation_timeout: Some(SOON), ..SessionOptions::default() }
}

/// Asserts that `outcome` is an error of `code` whose text says all of `says`.
#[track_caller]
pub(crate) fn assert_error<T>(outcome: Result<T>, code: Code, says: &[&str]) {
    let Err(error) = outcome else { panic!("no error, where {code:?} was expected") };
    let text = error.to_string();
    assert_eq!(error.code, code, "{text}");
    says.iter().for_each(|part| assert!(text.contains(part), "`{text}` does not say `{part}`"));
}

/// Waits for all of `steps`, which happen at the same time.
pub(crate) async fn all<F: Future<Output = Result<T>>, T>(steps: impl IntoIterator<Item = F>) -> Result<Vec<T>> {
    let mut steps: Vec<_> = steps.into_iter().map(|step| (Box::pin(step), None)).collect();
    poll_fn(|context| {
        steps.iter_mut().for_each(|(step, value)| advance(value, step.as_mut(), context));
        if steps.iter().all(|(_, value)| value.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    steps.into_iter().map(|(_, value)| value.unwrap()).collect()
}
