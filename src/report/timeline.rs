//! The timeline of a stretch of steps as a drawing: a line for each part of each task.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::plot::escape;

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 170.0;
const TOP: f64 = 24.0;
const ROW: f64 = 15.0;
/// The most slices and lines that are drawn: a page of more is slow.
const MOST_SLICES: usize = 5_000;
const MOST_LINES: usize = 120;

/// What the parts of tasks did in a stretch of a simulation, as `timeline.json` has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    lines: Vec<Line>,
}

/// A part of a task.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    task: String,
    part: String,
    slices: Vec<Slice>,
}

#[derive(Clone, Debug, PartialEq)]
struct Slice {
    /// When it began \[us\].
    at: f64,
    /// How long it took \[us\].
    length: f64,
    name: String,
}

/// What is read of an event in Chrome's trace format.
#[derive(Deserialize)]
struct Event {
    ph: String,
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Named,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    trace_events: Vec<Event>,
}

impl Timeline {
    /// Reads a timeline in Chrome's trace format; none if `text` is not in it.
    pub fn read(text: &str) -> Option<Self> {
        let trace: Trace = serde_json::from_str(text).ok()?;
        let mut tasks: BTreeMap<u64, String> = BTreeMap::new();
        let mut lines: BTreeMap<(u64, u64), Line> = BTreeMap::new();
        for event in trace.trace_events {
            let Event { pid, tid, name, .. } = event;
            match (&*event.ph, &*name) {
                ("M", "process_name") => drop(tasks.insert(pid, event.args.name)),
                ("M", "thread_name") => lines.entry((pid, tid)).or_default().part = event.args.name,
                ("X", _) => {
                    let slice = Slice { at: event.ts, length: event.dur, name };
                    lines.entry((pid, tid)).or_default().slices.push(slice);
                }
                _ => {}
            }
        }
        let of_task = |((pid, _), line): ((u64, u64), Line)| {
            let task = tasks.get(&pid).cloned().unwrap_or_default();
            Line { task, ..line }
        };
        Some(Self { lines: lines.into_iter().map(of_task).collect() })
    }

    /// The drawing, or a sentence if there is too much of it; none if nothing happened.
    pub(super) fn render(&self, id: usize) -> Option<String> {
        let slices = || self.lines.iter().flat_map(|line| &line.slices);
        let begin = slices().map(|slice| slice.at).min_by(f64::total_cmp)?;
        let end = slices().map(|slice| slice.at + slice.length).max_by(f64::total_cmp)?;
        let count = slices().count();
        if count > MOST_SLICES || self.lines.len() > MOST_LINES {
            return Some(format!(
                "<p>{count} pieces of work of {} parts are too many for a page: open the file in \
                 Perfetto, or ask for fewer steps.</p>\n",
                self.lines.len()
            ));
        }
        let scale = (WIDTH - LEFT) / (end - begin).max(f64::MIN_POSITIVE);
        let height = TOP + ROW * self.lines.len() as f64 + 6.0;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"plot-{id}\">\n"
        );
        for (quarter, share) in [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().enumerate() {
            let (x, time) = (LEFT + share * (WIDTH - LEFT), begin + share * (end - begin));
            let anchor = if quarter == 4 { "end" } else { "start" };
            append!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{height}\"/>\
                 <text x=\"{x:.1}\" y=\"16\" text-anchor=\"{anchor}\">{:.3} ms</text>\n",
                time / 1e3
            );
        }
        let mut before = "";
        for (row, line) in self.lines.iter().enumerate() {
            let y = TOP + ROW * row as f64;
            line.draw(&mut svg, (y, line.task != before), |at| LEFT + (at - begin) * scale);
            before = &line.task;
        }
        let title = format!("From {:.3} to {:.3} ms", begin / 1e3, end / 1e3);
        Some(format!(
            "<figure>\n<figcaption id=\"plot-{id}\">{title}</figcaption>\n\
             <div class=\"timeline\" tabindex=\"0\" role=\"region\" \
             aria-label=\"timeline, {}\">{svg}</svg></div>\n</figure>\n",
            title.to_lowercase()
        ))
    }
}

impl Line {
    fn draw(&self, svg: &mut String, (y, is_first): (f64, bool), across: impl Fn(f64) -> f64) {
        if is_first {
            let task = escape(&self.task);
            append!(svg, "<text class=\"task\" x=\"0\" y=\"{:.1}\">{task}</text>", y + 11.0);
        }
        append!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            y + 11.0,
            escape(&self.part)
        );
        let kind = match &*self.part {
            "waits for" => " class=\"waits\"",
            part if part.starts_with("card") => " class=\"card\"",
            _ => "",
        };
        for Slice { at, length, name } in &self.slices {
            let (x, end) = (across(*at), across(at + length));
            append!(
                svg,
                "<rect{kind} x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\">\
                 <title>{} {}: {}, {length:.3} us</title></rect>\n",
                y + 1.5,
                (end - x).max(0.3),
                ROW - 3.0,
                escape(&self.task),
                escape(&self.part),
                escape(name)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"{"traceEvents":[
        {"ph":"M","pid":0,"name":"process_name","args":{"name":"ps:0"}},
        {"ph":"M","pid":0,"tid":3,"name":"thread_name","args":{"name":"device 0"}},
        {"ph":"X","pid":0,"tid":3,"ts":1000,"dur":500,"name":"a < b"},
        {"ph":"X","pid":0,"tid":3,"ts":1500,"dur":500,"name":"c"},
        {"ph":"s","id":0,"pid":0,"tid":3,"ts":1000,"name":"message","cat":"message"}]}"#;

    #[test]
    fn each_piece_of_work_is_drawn_as_long_as_it_took_and_says_so() {
        let drawn = Timeline::read(TRACE).unwrap().render(7).unwrap();
        let half = format!("width=\"{:.2}\"", (WIDTH - LEFT) / 2.0);
        assert_eq!(drawn.matches(&half).count(), 2, "{drawn}");
        assert!(drawn.contains("<title>ps:0 device 0: a &lt; b, 500.000 us</title>"), "{drawn}");
        assert!(drawn.contains("From 1.000 to 2.000 ms"), "{drawn}");
    }

    #[test]
    fn nothing_is_drawn_of_a_stretch_that_did_not_happen_or_of_what_is_no_timeline() {
        assert_eq!(Timeline::read(r#"{"traceEvents":[]}"#).unwrap().render(0), None);
        assert_eq!(Timeline::read("{"), None);
    }

    #[test]
    fn a_timeline_of_too_many_pieces_says_where_to_look_at_it() {
        let slice = Slice { at: 0.0, length: 1.0, name: String::new() };
        let line = Line { slices: vec![slice; MOST_SLICES + 1], ..Line::default() };
        let said = Timeline { lines: vec![line] }.render(0).unwrap();
        assert!(said.contains("Perfetto") && !said.contains("<svg"), "{said}");
    }
}
