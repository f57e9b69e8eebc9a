//! TensorFlow's null step: Abadi et al., OSDI 2016, figure 7.

use trainyard::prelude::*;

use super::{Row, assert_hold, median_step, of_each, scenario, simulate};

/// Medians \[ms\], by run and number of workers. A dense model of 1 GB and 100 workers was not
/// published as a number. Sparse steps are, as a range from 5 to 20 ms, whatever the table's size.
const PUBLISHED: [(&str, u32, f64); 9] = [
    ("scalar", 1, 1.8),
    ("scalar", 100, 8.8),
    ("dense 100 MB", 1, 147.0),
    ("dense 100 MB", 100, 613.0),
    ("dense 1 GB", 1, 1010.0),
    ("sparse 1 GB", 1, 5.0),
    ("sparse 1 GB", 100, 20.0),
    ("sparse 16 GB", 1, 5.0),
    ("sparse 16 GB", 100, 20.0),
];

#[test]
fn tensorflows_null_step_takes_what_was_published_within_8_per_cent() -> Result<()> {
    let row = |(run, workers, published): (&str, u32, f64)| -> Result<Row> {
        let experiment = scenario("osdi16_null_step")?.only(run);
        let simulated = simulate(&experiment.set(&format!("cluster.worker={workers}"))?)?;
        let s = if workers == 1 { "" } else { "s" };
        let what = format!("{run}, {workers} worker{s}");
        Ok(Row::near(what, published, median_step(&simulated), 0.08))
    };
    let rows = of_each(PUBLISHED, row)?;
    assert_hold("null step \\[ms\\]", &rows);
    Ok(())
}
