//! The log of one training step reads like the table of hops: a span for each, in this order.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use trainyard::sync::Mode;
use trainyard::training::train;

use crate::simulated::Simulated;

/// From the program's call to the hooks after it.
const HOPS: [&str; 10] = [
    "session",
    "run_step",
    "run_graph",
    "run_ready",
    "kernels",
    "rendezvous",
    "transport",
    "serve",
    "collect",
    "hooks",
];

/// Keeps the names of the spans, in the order in which they begin.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<&'static str>>>);

impl<S: tracing::Subscriber> Layer<S> for Names {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.0.lock().unwrap().push(attributes.metadata().name());
    }
}

thread_local! {
    /// Ends with the thread of the simulation.
    static LOGGING: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// The spans of the last training step of a worker that trains with two parameter servers.
fn spans_of_one_step() -> Vec<&'static str> {
    let names = Names::default();
    let logged = names.clone();
    let trained = Simulated::new(2, 1, Mode::Async).digits().steps(3).run_program(move |task| {
        LOGGING.with_borrow_mut(|logging| {
            let subscriber = || tracing_subscriber::registry().with(logged.clone());
            logging.get_or_insert_with(|| tracing::subscriber::set_default(subscriber()));
        });
        train(task)
    });
    assert!(trained.outcome.result.is_ok());
    let names = names.0.lock().unwrap();
    let ends: Vec<usize> = (0..names.len()).filter(|i| names[*i] == "hooks").collect();
    assert_eq!(ends.len(), 3, "each training step ends with its hooks, and no other step has any");
    names[ends[1] + 1..=ends[2]].to_vec()
}

#[test]
fn a_training_step_goes_through_the_ten_hops_in_their_order() {
    let spans = spans_of_one_step();
    let mut rest = spans.iter();
    for hop in HOPS {
        assert!(rest.any(|span| *span == hop), "no `{hop}` after those before it in {spans:?}");
    }
    assert_eq!((spans[0], spans.last()), ("session", Some(&"hooks")));
    let strangers: Vec<_> = spans.iter().filter(|span| !HOPS.contains(span)).collect();
    assert!(strangers.is_empty(), "spans that are no hop: {strangers:?}");
}
