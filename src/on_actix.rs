//! A runtime for tests of actors, in real time.

use std::future::Future;
use std::time::Duration;

/// No test takes this long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on actix. A hang fails it.
pub(crate) fn on_actix(test: impl Future<Output = ()>) {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let limited = async { tokio::time::timeout(LIMIT, test).await };
    actix_rt::System::with_tokio_rt(runtime).block_on(limited).expect("the test hangs");
}
