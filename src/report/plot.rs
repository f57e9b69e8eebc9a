//! Line plots as SVG: readable in black and white, in light and dark, with the numbers beside them.

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;
/// Lines are told apart by colour, dashes and marks; there are this many of each in the style.
const STYLES: usize = 8;
/// The most marks a line has; between them it is drawn without.
const MARKS: usize = 24;

/// A plot of lines.
pub(super) struct Plot {
    /// What it shows.
    pub(super) title: String,
    /// The horizontal axis, with its unit.
    pub(super) x: &'static str,
    /// The vertical axis, with its unit.
    pub(super) y: &'static str,
    /// The lines.
    pub(super) lines: Vec<Line>,
}

/// A point, by x and y.
pub(super) type Point = (f64, f64);

/// A line of a plot.
pub(super) struct Line {
    pub(super) name: String,
    /// The number of its colour, dashes and marks.
    pub(super) style: usize,
    /// Whether its points are joined; else there are marks alone.
    pub(super) is_joined: bool,
    /// By growing x.
    pub(super) points: Vec<Point>,
}

/// `text` with what has a meaning in HTML spelt out.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c => escaped.push(c),
        }
    }
    escaped
}

/// A range of numbers that an axis shows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: f64,
    high: f64,
}

impl Plot {
    /// The plot as a `figure`, with a legend and a table of its numbers. It is empty if no line has
    /// two points.
    pub(super) fn render(&self, id: usize) -> String {
        let finite = |(x, y): &Point| x.is_finite() && y.is_finite();
        let points = || self.lines.iter().flat_map(|line| &line.points).copied().filter(finite);
        if self.lines.iter().all(|line| line.points.iter().filter(|at| finite(at)).count() < 2) {
            return String::new();
        }
        let x = Range::of(points().map(|point| point.0));
        let y = Range::of(points().map(|point| point.1));
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"plot-{id}\">\n"
        );
        self.draw_axes(&mut svg, x, y);
        for line in &self.lines {
            let points: Vec<Point> = line.points.iter().copied().filter(finite).collect();
            draw_line(&mut svg, line, &points, (x, y));
        }
        svg += "</svg>";
        format!(
            "<figure>\n<figcaption id=\"plot-{id}\">{}</figcaption>\n{svg}\n{}{}</figure>\n",
            escape(&self.title),
            self.legend(),
            self.numbers()
        )
    }

    fn draw_axes(&self, svg: &mut String, x: Range, y: Range) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in y.ticks() {
            let at = y.at(tick, bottom, TOP);
            append!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        for tick in x.ticks() {
            let at = x.at(tick, LEFT, right);
            append!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 16.0,
                number(tick)
            );
        }
        let middle = (LEFT + right) / 2.0;
        append!(
            svg,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"2\" y=\"{:.1}\">{}</text>\n",
            HEIGHT - 8.0,
            escape(self.x),
            TOP - 14.0,
            escape(self.y)
        );
    }

    fn legend(&self) -> String {
        let item = |Line { name, style, is_joined, .. }: &Line| {
            let joined = match is_joined {
                true => format!("<path class=\"line s{}\" d=\"M0 6H40\"/>", style % STYLES),
                false => String::new(),
            };
            format!(
                "<li><svg viewBox=\"0 0 40 12\" aria-hidden=\"true\">{joined}{}</svg>{}</li>\n",
                mark((20.0, 6.0), *style, ""),
                escape(name)
            )
        };
        let items: String = self.lines.iter().map(item).collect();
        format!("<ul class=\"legend\">\n{items}</ul>\n")
    }

    /// The numbers as a table that opens on demand.
    fn numbers(&self) -> String {
        let mut rows = String::new();
        for Line { name, points, .. } in &self.lines {
            for (x, y) in thinned(points, MARKS) {
                append!(
                    rows,
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
                    escape(name),
                    number(x),
                    number(y)
                );
            }
        }
        format!(
            "<details><summary>Numbers</summary>\n<div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"{}\"><table>\n<thead><tr><th scope=\"col\">run</th>\
             <th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead>\n<tbody>\n\
             {rows}</tbody></table></div></details>\n",
            escape(&format!("numbers of {}", self.title)),
            escape(self.x),
            escape(self.y)
        )
    }
}

/// Draws `points` of `line`.
fn draw_line(svg: &mut String, line: &Line, points: &[Point], (x, y): (Range, Range)) {
    let Line { name, style, is_joined, .. } = line;
    let place =
        |point: &Point| (x.at(point.0, LEFT, WIDTH - RIGHT), y.at(point.1, HEIGHT - BOTTOM, TOP));
    if *is_joined {
        let path: String = points
            .iter()
            .map(place)
            .enumerate()
            .map(|(at, (x, y))| format!("{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }))
            .collect();
        append!(svg, "<path class=\"line s{}\" d=\"{path}\"/>\n", style % STYLES);
    }
    for point in thinned(points, MARKS) {
        let told = format!("{name}: {} at {}", number(point.1), number(point.0));
        *svg += &mark(place(&point), *style, &told);
    }
    *svg += "\n";
}

/// A mark of a line, which tells its numbers to who points at it.
fn mark((x, y): (f64, f64), style: usize, told: &str) -> String {
    let title = match told {
        "" => String::new(),
        told => format!("<title>{}</title>", escape(told)),
    };
    let shape = match style % 4 {
        0 => format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0-6 0", x - 3.0),
        1 => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        2 => format!("M{x:.1} {:.1}l4 7h-8z", y - 4.0),
        _ => format!("M{x:.1} {:.1}l4 4l-4 4l-4-4z", y - 4.0),
    };
    format!("<path class=\"mark s{}\" d=\"{shape}\">{title}</path>", style % STYLES)
}

/// At most `most` of `points`, evenly, with the first and the last.
pub(super) fn thinned<T: Copy>(points: &[T], most: usize) -> Vec<T> {
    let count = points.len();
    if count <= most {
        return points.to_vec();
    }
    (0..most).map(|at| points[at * (count - 1) / (most - 1)]).collect()
}

impl Range {
    /// The range of `values`, widened to ticks; never empty.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let step = step(span);
        // An axis begins at 0 where that costs little of it.
        let low = if low >= 0.0 && low < 0.5 * high { 0.0 } else { (low / step).floor() * step };
        Self { low, high: ((high / step).ceil() * step).max(low + step) }
    }

    /// The place of `value` between `from` and `to`.
    fn at(self, value: f64, from: f64, to: f64) -> f64 {
        from + (value - self.low) / (self.high - self.low) * (to - from)
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let step = step(self.high - self.low);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(move |number| number as f64 * step)
    }
}

/// The distance of ticks on an axis of length `span`: 1, 2 or 5 times a power of ten.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * 0.999);
    times.unwrap_or(10.0) * power
}

/// A number in as few digits as tell it.
fn number(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        0.0 => return "0".to_owned(),
        _ if size >= 1e6 => return format!("{value:.3e}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 1.0 => format!("{value:.3}"),
        _ if size >= 1e-3 => format!("{value:.5}"),
        _ => return format!("{value:.2e}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_the_range() {
        let range = Range::of([0.13, 0.97].into_iter());
        let ticks: Vec<String> = range.ticks().map(number).collect();
        assert_eq!(ticks, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let range = Range::of([0.66, 0.95].into_iter());
        assert_eq!(
            range.ticks().map(number).collect::<Vec<_>>(),
            ["0.6", "0.7", "0.8", "0.9", "1"]
        );
        let range = Range::of([2050.0, 2110.0].into_iter());
        assert_eq!(range.ticks().map(number).next().unwrap(), "2040");
    }

    #[test]
    fn a_plot_of_less_than_two_points_or_of_what_is_not_finite_is_left_out() {
        let plot = |points| Plot {
            title: "t".to_owned(),
            x: "x",
            y: "y",
            lines: vec![Line { name: "a".to_owned(), style: 0, is_joined: true, points }],
        };
        assert_eq!(plot(vec![(1.0, 1.0)]).render(0), "");
        assert_eq!(plot(vec![(1.0, 1.0), (2.0, f64::NAN)]).render(0), "");
        assert!(plot(vec![(1.0, 1.0), (2.0, 3.0)]).render(0).contains("<title>a: 3 at 2</title>"));
    }

    #[test]
    fn names_are_escaped() {
        let points = vec![(0.0, 0.0), (1.0, 1.0)];
        let lines = vec![Line { name: "<b>&\"".to_owned(), style: 0, is_joined: true, points }];
        let html = Plot { title: "t".to_owned(), x: "x", y: "y", lines }.render(0);
        assert!(html.contains("&lt;b&gt;&amp;&quot;") && !html.contains("<b>"), "{html}");
    }

    proptest! {
        #[test]
        fn every_value_is_within_its_axis(
            values in prop::collection::vec(-1e9_f64..1e9, 1..50),
        ) {
            let range = Range::of(values.iter().copied());
            prop_assert!(range.low < range.high);
            for value in values {
                let at = range.at(value, 0.0, 1.0);
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&at), "{value} in {range:?}");
            }
            prop_assert!((2..=12).contains(&range.ticks().count()), "{range:?}");
        }
    }
}
