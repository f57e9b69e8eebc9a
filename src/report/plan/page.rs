//! A plan as one page for a browser, which needs no network.

use std::io::{self, Write};

use super::knee::knees;
use super::text::front_legend;
use super::{Candidate, Plan};
use crate::report::html::{document, grid, list, origin};
use crate::report::plot::{Line, Plot, Point};

impl Plan {
    /// Writes the page.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_page(&self, out: impl Write) -> io::Result<()> {
        let candidates = self.candidates();
        let answers = self.answers(&candidates);
        let answers = answers.iter().map(|answer| answer.render().to_owned());
        let answers = list(answers.chain(self.not_compared()));
        let knees = list(self.knees(&candidates).iter().map(super::Knee::render));
        let mut body = format!("<h2>Answers</h2>\n{answers}");
        if !knees.is_empty() {
            append!(body, "<h2>Where more stops paying</h2>\n{knees}");
        }
        let plots = [front(&candidates).render(0), curves(&candidates)].concat();
        if !plots.is_empty() {
            append!(body, "<div class=\"plots\">\n{plots}</div>\n");
        }
        let note = match self.question.currency {
            Some(_) => format!("<p>{}.</p>\n", front_legend(&candidates)),
            None => String::new(),
        };
        let table = grid("the candidates", &self.rows(&candidates));
        append!(body, "<h2>All candidates</h2>\n{table}{note}");
        body += &origin(&self.command, &self.trainyard, &self.settings);
        document(&format!("{}: a plan", self.scenario), &self.title(), &body, out)
    }
}

/// Price over time: those that no other beats as a line, the others as marks.
fn front(candidates: &[Candidate]) -> Plot {
    let points = |is_on_front: bool| {
        let wanted = |one: &&Candidate| one.is_on_front == Some(is_on_front);
        let cost = |one: &Candidate| Some((one.seconds?.mean / 3600.0, one.price?.mean));
        let mut points: Vec<Point> = candidates.iter().filter(wanted).filter_map(cost).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let line = |name: &str, style, is_on_front: bool| Line {
        name: name.to_owned(),
        style,
        is_joined: is_on_front,
        points: points(is_on_front),
    };
    let lines = vec![line("not beaten", 0, true), line("beaten by another", 1, false)];
    Plot { title: "Price over time".to_owned(), x: "h", y: "price", lines }
}

/// For each swept key, the time of each run over it, the other keys at its fastest candidate's.
fn curves(candidates: &[Candidate]) -> String {
    let knees = knees(candidates);
    let mut keys: Vec<&str> = knees.iter().map(|knee| &*knee.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let curve = |(at, key): (usize, &&str)| {
        let of_key = knees.iter().filter(|knee| knee.key == **key);
        let line = |(style, knee): (usize, &super::Knee)| {
            let own = candidates.iter().filter(|one| {
                let others = one.settings.iter().filter(|(other, _)| other != key);
                one.run == knee.run && others.eq(knee.others.iter())
            });
            let point = |one: &Candidate| {
                Some((one.settings.get(*key)?.as_f64()?, one.seconds?.mean / 3600.0))
            };
            let points = own.filter_map(point).collect();
            Line { name: knee.run.clone(), style, is_joined: true, points }
        };
        let lines = of_key.enumerate().map(line).collect();
        let title = format!("Time of a training by {key}");
        Plot { title, x: "swept value", y: "h", lines }.render(at + 1)
    };
    keys.iter().enumerate().map(curve).collect()
}
