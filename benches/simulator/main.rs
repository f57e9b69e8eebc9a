//! What simulations cost on the wall clock. Prints one JSON line for each figure, and adds it to
//! `target/figures.jsonl`.
//!
//!     cargo bench --bench simulator                       # all cases, some minutes
//!     cargo bench --bench simulator -- events heap        # some of them
//!     cargo bench --bench simulator -- rounds --plot FILE # and the rounds as an SVG plot

mod events;
#[path = "../figures/mod.rs"]
mod figures;
mod plot;
mod rounds;

use figures::Figures;

/// A case by its name.
type Case = (&'static str, fn(&Figures) -> Vec<rounds::Round>);

const CASES: [Case; 4] = [
    ("heap", |figures| none(events::bare_heap(figures))),
    ("events", |figures| none(events::of_null_programs(figures))),
    ("flows", |figures| none(events::flows(figures))),
    ("rounds", rounds::measure),
];

fn none((): ()) -> Vec<rounds::Round> {
    Vec::new()
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let plot = given.iter().position(|word| word == "--plot").and_then(|at| given.get(at + 1));
    let named = |name: &str| given.iter().any(|word| word == name);
    let is_any_named = CASES.iter().any(|(name, _)| named(name));
    let figures = Figures::of("simulator");
    let mut measured = Vec::new();
    for (name, run) in CASES {
        if named(name) || !is_any_named {
            measured.extend(run(&figures));
        }
    }
    if let Some(file) = plot {
        let svg = plot::of_rounds(&measured, &figures::machine());
        std::fs::write(file, svg).expect("the plot can be written");
    }
}
