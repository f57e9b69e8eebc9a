//! A run of a program on a simulated cluster, from its first event to its end.

use std::future::Future;
use std::rc::Rc;

use crate::runtime::{Error, Server, simulation_panicked};

use super::cluster::{Cluster, Outcome};
use super::driver::Driver;
use super::programs::Programs;

/// Runs `program` once for each task of `cluster`, all on one virtual clock.
///
/// A task that restarts runs it again; the process of one whose program returns ends, as when
/// deployed, and the others hear that it has stopped. The run ends when every program has returned
/// or died for good, when one has failed, or when nothing can happen any more; the last is an error
/// of code [`Stalled`](crate::runtime::Code::Stalled) that lists who waits for what. A parameter
/// server that was asked to stop and does not come back ends it with an error, too. Of tasks that
/// fail because they are cut off from the chief, an evaluator and, without parameter servers, a
/// helper end alone; once the chief is done, so does any task that fails because others are gone.
/// Each run has a thread of its own, so that several can go on side by side; a panic of that is the
/// run's error, and the outcome has nothing else.
pub fn run<T, F>(cluster: &Cluster, program: impl Fn(Rc<Server>) -> F + Sync) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    #[cfg(test)]
    let planted = crate::planted::planted();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            #[cfg(test)]
            crate::planted::plant(planted);
            run_here(cluster, &program)
        });
        // A defect of the simulation ends this run, and not those beside it.
        running.join().unwrap_or_else(|panic| Outcome::unknown(simulation_panicked(&*panic)))
    })
}

fn run_here<T, F>(cluster: &Cluster, program: &impl Fn(Rc<Server>) -> F) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let (driver, commands) = Driver::enter(cluster);
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime without drivers needs nothing of the system")
    };
    let run = async { Programs::start(cluster, &driver, program).finish(commands).await };
    let result = actix_rt::System::with_tokio_rt(runtime).block_on(driver.drive(run));
    driver.leave(result)
}
