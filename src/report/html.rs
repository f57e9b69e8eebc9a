//! `report.html`: the whole report as one page for a browser, which needs no network.

mod courses;

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::plot::{Line, Plot, Point, escape};
use super::{CriticalPath, PathPart, Report, Run, TaskUsage, remarks::remarks, shell, table};

pub use courses::Course;
use courses::{plots, timelines};

const STYLE: &str = include_str!("html.css");
/// Above this number of runs, what each one's time went to is folded away.
const FEW_RUNS: usize = 4;

/// Writes the page of `report`, with the courses of those of its runs that are to be drawn.
///
/// # Errors
/// If it can't be written.
pub fn write(report: &Report, courses: &[Course], out: impl Write) -> io::Result<()> {
    let origin = origin(&report.command, report.trainyard, &report.settings);
    let parts = [
        comparison(report),
        swept(report),
        time(report),
        plots(courses, report),
        timelines(courses),
        origin,
    ];
    document(&report.scenario, &table::title(report), &parts.concat(), out)
}

/// Writes a page with a title, a line under it, and `body` in HTML.
pub(super) fn document(
    title: &str,
    under: &str,
    body: &str,
    mut out: impl Write,
) -> io::Result<()> {
    let (title, under) = (escape(title), escape(under));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: trainyard</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p>{under}</p>\n{body}</main>\n</body>\n</html>\n",
    )?;
    out.flush()
}

/// The table, and who was faster.
fn comparison(report: &Report) -> String {
    let under = list(remarks(report));
    format!("<h2>Runs</h2>\n{under}{}", grid("the runs", &table::rows(report)))
}

/// A list of `items`; nothing if there are none.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: String =
        items.into_iter().map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
    match items.is_empty() {
        true => items,
        false => format!("<ul>\n{items}</ul>\n"),
    }
}

/// A table of `rows`, the first of which has the columns' names.
pub(super) fn grid(what: &str, rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
        escape(what)
    );
    for (at, row) in rows.iter().enumerate() {
        html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            match (at, column) {
                (0, _) => append!(html, "<th scope=\"col\">{cell}</th>"),
                (_, 0) => append!(html, "<th scope=\"row\">{cell}</th>"),
                _ => append!(html, "<td>{cell}</td>"),
            }
        }
        html += "</tr>\n";
    }
    html + "</table>\n</div>\n"
}

/// Where the time of the runs went, and what limits each.
fn time(report: &Report) -> String {
    let (mut html, mut known) = (String::new(), BTreeSet::new());
    for run in &report.runs {
        let is_first = known.insert((&run.run, format!("{:?}", run.settings)));
        let (Some(path), Some(limit)) = (&run.critical_path, run.limit()) else { continue };
        let (bar, words) = causes(path);
        let details = [parts(path, &run.name), busy(run)].concat();
        let (name, limit) = (escape(&run.name), escape(&limit));
        match report.runs.len() <= FEW_RUNS {
            true => append!(
                html,
                "<h3>{name}</h3>\n<p>The run is {limit}.</p>\n{bar}{words}{details}\n"
            ),
            // A run with another seed, mostly much like the first.
            false if !is_first => append!(
                html,
                "<details><summary>{name} is {limit}</summary>\n{bar}{words}{details}</details>\n"
            ),
            false => append!(
                html,
                "<h3>{name}</h3>\n{bar}<details><summary>It is {limit}</summary>\n\
                 {words}{details}</details>\n"
            ),
        }
    }
    match html.is_empty() {
        true => html,
        false => format!("<h2>Where the time went</h2>\n{html}"),
    }
}

/// The causes of a run's time as a bar, and in words.
fn causes(path: &CriticalPath) -> (String, String) {
    let ranked = path.ranked();
    let mut bar = String::new();
    let mut words = String::new();
    for (cause, share) in &ranked {
        let (name, percent) = (escape(cause.name()), 100.0 * share);
        let style = *cause as usize;
        append!(
            bar,
            "<span class=\"b{style}\" style=\"width:{percent:.2}%\" \
             title=\"{name}: {percent:.1} %\"></span>"
        );
        append!(words, "<li><span class=\"key b{style}\"></span>{percent:.1} % {name}</li>\n");
    }
    (
        format!("<div class=\"bar\" aria-hidden=\"true\">{bar}</div>\n"),
        format!("<ul class=\"causes\">\n{words}</ul>\n"),
    )
}

/// The parts of tasks that took most of the time.
fn parts(path: &CriticalPath, run: &str) -> String {
    if path.parts.is_empty() {
        return String::new();
    }
    let header = ["part", "seconds", "share"].map(str::to_owned).to_vec();
    let row = |part: &PathPart| {
        let share = 100.0 * part.seconds / path.seconds();
        vec![part.name.clone(), format!("{:.4}", part.seconds), format!("{share:.1} %")]
    };
    let rows: Vec<_> = std::iter::once(header).chain(path.parts.iter().map(row)).collect();
    let table = grid(&format!("who {run} waited for"), &rows);
    format!("<details><summary>Whom the steps waited for</summary>\n{table}</details>\n")
}

/// The parts of each task with the share of the time in which they were busy.
fn busy(run: &Run) -> String {
    if run.usage.is_empty() {
        return String::new();
    }
    let header = ["task", "kernels", "message thread", "card, sending", "card, receiving"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    // Where messages cost nothing, no thread is busy with them.
    let has_threads = run.usage.values().any(|usage| usage.messages > 0.0);
    for (task, usage) in &run.usage {
        let TaskUsage { compute, messages, card_out, card_in } = *usage;
        let shares = [compute, messages, card_out, card_in];
        let mut cells = shares.map(|share| format!("{:.1} %", 100.0 * share));
        if !has_threads {
            cells[1] = "not modelled".to_owned();
        }
        rows.push([&[task.to_string()][..], &cells].concat());
    }
    let table = grid(&format!("how busy the tasks of {} were", run.name), &rows);
    format!("<details><summary>How busy each task was</summary>\n{table}</details>\n")
}

/// Of a sweep over one key with numbers: the speed and the time to the target over that key.
fn swept(report: &Report) -> String {
    let summaries = report.summaries();
    let keys: Vec<&String> = summaries.iter().flat_map(|one| one.settings.keys()).collect();
    let Some(key) = keys.first().filter(|first| keys.iter().all(|key| key == *first)) else {
        return String::new();
    };
    let mut runs: Vec<&str> = summaries.iter().map(|summary| &*summary.run).collect();
    runs.sort_unstable();
    runs.dedup();
    let plot = |what: &str, y, of: &dyn Fn(&super::Summary) -> Option<f64>| {
        let line = |(style, run): (usize, &&str)| {
            let mut points: Vec<Point> = summaries
                .iter()
                .filter(|summary| summary.run == **run)
                .filter_map(|summary| Some((summary.settings.get(*key)?.as_f64()?, of(summary)?)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: (*run).to_owned(), style, is_joined: true, points }
        };
        let lines = runs.iter().enumerate().map(line).collect();
        Plot { title: format!("{what} by {key}"), x: "swept value", y, lines }
    };
    let speed = plot("Samples a second", "samples/s", &|one| Some(one.samples_per_second?.mean));
    let time = plot("Time to the target", "s", &|one| Some(one.seconds_to_target?.mean));
    let plots = [speed.render(100), time.render(101)].concat();
    match plots.is_empty() {
        true => plots,
        false => format!("<h2>Over the sweep</h2>\n<div class=\"plots\">\n{plots}</div>\n"),
    }
}

/// How to come to the same page: the command, the version and the scenario's settings.
pub(super) fn origin(command: &[String], version: &str, settings: &serde_json::Value) -> String {
    let mut html = "<h2>Where it comes from</h2>\n".to_owned();
    if !command.is_empty() {
        append!(html, "<pre>{}</pre>\n", escape(&shell::typed(command)));
    }
    let settings = serde_json::to_string_pretty(settings).unwrap_or_default();
    html + &format!(
        "<p>trainyard {version}. The scenario, as changed by the command:</p>\n<pre>{}</pre>\n",
        escape(&settings)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::report::TimeCause;

    #[test]
    fn every_cause_of_time_is_drawn_in_a_style_of_its_own() {
        let last = TimeCause::Update as usize;
        let rules = (0..=last).map(|style| {
            let begin = format!(".b{style} {{ background: ");
            STYLE.lines().find_map(|line| line.strip_prefix(&*begin)).expect("it has a rule")
        });
        assert_eq!(rules.collect::<BTreeSet<_>>().len(), last + 1);
    }
}
