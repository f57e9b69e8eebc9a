//! What simulations cost on the wall clock. Prints one JSON line for each figure, and adds it to
//! `target/figures.jsonl`.
//!
//!     cargo bench --bench simulator                       # all cases, some minutes
//!     cargo bench --bench simulator -- events heap        # some of them
//!     cargo bench --bench simulator -- rounds --plot FILE # and the rounds as an SVG plot
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures real time, and prints it"
)]

mod events;
#[path = "../figures/mod.rs"]
mod figures;
mod plot;
#[path = "../figures/resident.rs"]
mod resident;
mod rounds;
mod scale;

use figures::Figures;

const CASES: [&str; 5] = ["heap", "events", "flows", "rounds", "scale"];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let plot = given.iter().position(|word| word == "--plot").and_then(|at| given.get(at + 1));
    let is_named = |name: &&str| given.iter().any(|word| word == name);
    let is_any_named = CASES.iter().any(is_named);
    let wanted = |name: &str| is_named(&name) || !is_any_named;
    let figures = Figures::of("simulator");
    if wanted("heap") {
        events::bare_heap(&figures);
    }
    if wanted("events") {
        events::of_null_programs(&figures);
    }
    if wanted("flows") {
        events::flows(&figures);
    }
    let rounds = if wanted("rounds") { rounds::measure(&figures) } else { Vec::new() };
    if let Some(file) = plot {
        let svg = plot::of_rounds(&rounds, &figures.machine);
        std::fs::write(file, svg).expect("the plot can be written");
    }
    if wanted("scale") {
        scale::measure(&figures);
    }
}
