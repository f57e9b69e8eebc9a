//! The error-runtime trade-off: Dutta et al., AISTATS 2018.

use trainyard::prelude::*;

use super::{Row, assert_hold, of_each, scenario, simulate};

/// When the curves are compared \[s\]: early, and at their end.
const EARLY: (f64, f64) = (50.0, 200.0);
const LATE: (f64, f64) = (3_000.0, 5_000.0);

/// The mean test loss of a run, early and late.
fn losses(run: &str) -> Result<[f64; 2]> {
    let simulated = simulate(&scenario("dutta18")?.only(run))?;
    let mean = |(from, to): (f64, f64)| {
        let seen = simulated.recording.evaluations.iter();
        let losses: Vec<f64> = seen
            .filter(|seen| (from..to).contains(&seen.at.as_secs_f64()))
            .map(|seen| f64::from(seen.loss))
            .collect();
        assert!(!losses.is_empty(), "{run} has no evaluation from {from} s to {to} s");
        losses.iter().sum::<f64>() / losses.len() as f64
    };
    Ok([mean(EARLY), mean(LATE)])
}

#[test]
fn who_waits_for_fewer_gradients_is_ahead_at_first_and_behind_in_the_end() -> Result<()> {
    let curves = ["async", "sync", "4-sync", "4-batch-sync", "4-async"];
    let curves = of_each(curves, |run| Ok((run, losses(run)?)))?;
    let (_, quick) = curves[0];
    let mut rows = Vec::new();
    for (run, thorough) in &curves[1..] {
        for (when, index, is_below) in [("early", 0, true), ("late", 1, false)] {
            rows.push(Row {
                what: format!("test loss of async and of {run}, {when}"),
                published: if is_below { "below" } else { "above" }.to_owned(),
                simulated: format!("{:.3}, {:.3}", quick[index], thorough[index]),
                holds: match is_below {
                    true => quick[index] < thorough[index],
                    false => quick[index] > thorough[index],
                },
            });
        }
    }
    assert_hold("error-runtime trade-off", &rows);
    Ok(())
}
