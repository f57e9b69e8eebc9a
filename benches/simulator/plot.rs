//! The rounds as an SVG plot, both axes logarithmic: a straight line of slope 1 is linear.

use std::fmt::Write;

use crate::rounds::{MODES, Round};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 60.0;
/// The dashes of each mode's line: they can be told apart in black and white.
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "10 3 2 3"];

/// The plot of `rounds`, measured on `machine`.
pub(crate) fn of_rounds(rounds: &[Round], machine: &str) -> String {
    let x = |workers: f64| MARGIN + (workers / 10.0).log10() / 2.6 * (WIDTH - 2.0 * MARGIN);
    let y =
        |ms: f64| HEIGHT - MARGIN - (ms + 0.001).log10().max(0.0) / 3.2 * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">Wall time of a simulated round [ms] by \
         workers (digits, 16 ps)</text>\n\
         <text x=\"{MARGIN}\" y=\"42\" fill=\"#666\">{machine}</text>\n"
    );
    let mut text = |at: (f64, f64), anchor: &str, words: &str| {
        let (left, top) = at;
        writeln!(
            svg,
            "<text x=\"{left:.0}\" y=\"{top:.0}\" text-anchor=\"{anchor}\">{words}</text>"
        )
        .expect("a string can be written to");
    };
    for workers in [10, 30, 100, 300, 1000, 3000] {
        text((x(workers.into()), HEIGHT - MARGIN + 20.0), "middle", &workers.to_string());
    }
    for ms in [1, 10, 100, 1000] {
        text((MARGIN - 8.0, y(ms.into()) + 4.0), "end", &ms.to_string());
    }
    for (place, ((mode, _), dashes)) in MODES.iter().zip(DASHES).enumerate() {
        let own = rounds.iter().filter(|round| round.mode == *mode);
        let points: Vec<String> = own
            .map(|round| format!("{:.1},{:.1}", x(round.workers.into()), y(round.milliseconds)))
            .collect();
        let (left, top) = (WIDTH - MARGIN - 100.0, HEIGHT - MARGIN - 80.0 + 18.0 * place as f64);
        let line = format!(
            "fill=\"none\" stroke=\"black\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\""
        );
        write!(
            svg,
            "<polyline points=\"{}\" {line}/>\n\
             <path d=\"M{:.0} {:.0}h36\" {line}/>\n\
             <text x=\"{left:.0}\" y=\"{top:.0}\">{mode}</text>\n",
            points.join(" "),
            left - 44.0,
            top - 4.0
        )
        .expect("a string can be written to");
    }
    svg + "</svg>\n"
}
