//! Random values in imported functions: others in each step, call and round, and the same in what
//! the gradient computes again.

use std::fs;

use trainyard::import;
use trainyard::prelude::*;

use super::file;
use crate::support::fixture::on_actix;

const OUTPUTS: [&str; 10] = [
    "once",
    "again",
    "within",
    "either",
    "loop_before",
    "loop_now",
    "calls_before",
    "calls_now",
    "nested_before",
    "nested_now",
];

/// What all outputs are in two steps, at the global steps 0 and 1, each with its gradient by `x`,
/// which is all ones: so the outputs are what was drawn.
async fn drawn(seed: u64, holds: bool) -> Result<Vec<(String, Vec<f32>, Vec<f32>)>> {
    let g = Graph::new();
    g.set_random_seed(seed);
    let imported = import::graph_def(&g, &fs::read(file("draws.pb")).unwrap())?;
    let x = imported.output("x")?;
    let outputs = OUTPUTS.map(|name| imported.output(name).unwrap());
    let mut fetched = Vec::new();
    for output in &outputs {
        fetched.push(output.clone());
        let by = gradients(&output.sum(), std::slice::from_ref(&x))?.remove(0);
        fetched.push(by.expect("each output depends on x"));
    }
    let server = Server::create_local();
    let session = Session::new(&server.target(), &g).await?;
    let step = g.global_step()?;
    let mut told = Vec::new();
    for now in 0..2i64 {
        session.run().target(&step.assign(&g.constant(now))?).await?;
        let ones = Tensor::full([4], 1f32);
        let mut run = session.run().feed(&x, ones);
        run = run.feed(&imported.output("holds")?, Tensor::scalar(holds));
        let values = fetched.iter().fold(run, |run, output| run.fetch(output)).await?;
        for (i, name) in OUTPUTS.iter().enumerate() {
            let of = |at: usize| values[at].values::<f32>().unwrap().to_vec();
            told.push((format!("{name} in step {now}"), of(2 * i), of(2 * i + 1)));
        }
    }
    Ok(told)
}

#[test]
fn functions_draw_other_values_in_each_step_call_and_round_and_their_gradients_the_same() {
    on_actix(async {
        let told = drawn(7, true).await?;
        for (i, (name, values, by)) in told.iter().enumerate() {
            assert!(values.iter().all(|value| (0.5..1.0).contains(value)), "{name}: {values:?}");
            assert_eq!(values, by, "{name}: the gradient by x is the mask");
            for (other, others, _) in &told[..i] {
                assert_ne!(values, others, "{name} draws what {other} draws");
            }
        }
        assert_eq!(told, drawn(7, true).await?, "a run repeats");
        let either = |told: &[(String, Vec<f32>, Vec<f32>)]| told[3].1.clone();
        assert_ne!(either(&told), either(&drawn(7, false).await?), "each branch has its own");
        assert_ne!(told[0].1, drawn(8, true).await?[0].1, "the graph's seed counts");
        Ok(())
    });
}
