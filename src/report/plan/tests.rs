//! Tests of plans: prices, parts, answers and knees.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::report::Layout;

/// A plan that asks `question` of points of the run `sync`, one for each time, price and number of
/// parameter servers.
fn plan(question: Question, points: &[(f64, f64, u32)]) -> Plan {
    let point = |(number, (seconds, price, servers)): (usize, &(f64, f64, u32))| Point {
        number,
        run: "sync".to_owned(),
        settings: Swept::from([("cluster.ps".to_owned(), json!(servers))]),
        seed: 0,
        seconds: Some(*seconds),
        bytes: 0.0,
        price: Some(*price),
        limit: None,
    };
    Plan {
        format: Plan::FORMAT,
        trainyard: "0".to_owned(),
        command: vec!["trainyard".to_owned(), "plan".to_owned()],
        scenario: "s".to_owned(),
        settings: json!({}),
        question,
        total: points.len(),
        points: points.iter().enumerate().map(point).collect(),
    }
}

fn priced() -> Question {
    Question { currency: Some("USD".to_owned()), ..Question::default() }
}

fn answers(plan: &Plan) -> Vec<String> {
    let answers = plan.answers(&plan.candidates());
    answers.iter().map(|answer| answer.render().to_owned()).collect()
}

#[test]
fn a_price_is_that_of_the_tasks_hours_and_of_the_gigabytes() {
    let per_hour = BTreeMap::from([("ps".to_owned(), 0.5), ("worker".to_owned(), 3.0)]);
    let price = Price { currency: None, per_hour, per_gb: 0.1 };
    let tasks = BTreeMap::from([("ps".to_owned(), 2), ("worker".to_owned(), 4)]);
    // Half an hour of 2 * 0.5 + 4 * 3, and 20 GB.
    assert!((price.of(&tasks, 1800.0, 20e9) - (6.5 + 2.0)).abs() < 1e-12);
}

#[test]
fn the_best_is_the_fastest_the_cheapest_and_what_keeps_the_limits() {
    let question = Question { within: Some(100.0), budget: Some(5.0), ..priced() };
    let plan = plan(question, &[(200.0, 1.0, 1), (90.0, 4.0, 2), (80.0, 5.0, 4), (70.0, 9.0, 8)]);
    assert_eq!(
        answers(&plan),
        [
            "fastest: sync (cluster.ps=8), 70.00 s, 9.00 USD",
            "cheapest: sync (cluster.ps=1), 200.00 s, 1.00 USD",
            "cheapest within 100.00 s: sync (cluster.ps=2), 90.00 s, 4.00 USD",
            "fastest for 5.00 USD: sync (cluster.ps=4), 80.00 s, 5.00 USD",
        ]
    );
}

#[test]
fn a_limit_that_nothing_keeps_and_a_training_that_did_not_end_are_no_answers() {
    let question = Question { within: Some(10.0), ..priced() };
    let mut plan = plan(question, &[(200.0, 1.0, 1), (90.0, 4.0, 2)]);
    (plan.points[0].seconds, plan.points[0].price) = (None, None);
    let answers = answers(&plan);
    assert_eq!(answers[1], "cheapest: sync (cluster.ps=2), 90.00 s, 4.00 USD");
    assert_eq!(answers[2], "cheapest within 10.00 s: none of these");
    assert!(plan.render(Layout::Plain).contains("not finished"), "{}", plan.render(Layout::Plain));
}

#[test]
fn all_times_of_a_plan_have_the_unit_of_the_fastest() {
    let plan = plan(priced(), &[(864_000.0, 1.0, 1), (7_200.0, 4.0, 2), (60.0, 5.0, 4)]);
    let times = |plan: &Plan| {
        let rows = plan.rows(&plan.candidates());
        rows[1..].iter().map(|row| row[1].clone()).collect::<Vec<_>>()
    };
    assert_eq!(times(&plan), ["864000.00 s", "7200.00 s", "60.00 s"]);
    let slow = Plan { points: plan.points[..2].to_vec(), total: 2, ..plan };
    assert_eq!(times(&slow), ["240.00 h", "2.00 h"]);
    assert_eq!(answers(&slow)[1], "cheapest: sync (cluster.ps=1), 240.00 h, 1.00 USD");
}

#[test]
fn each_question_is_asked_for_each_value_of_what_is_given() {
    let question = Question { given: vec!["cluster.ps".to_owned()], ..Question::default() };
    let plan = plan(question, &[(200.0, 1.0, 1), (90.0, 4.0, 2)]);
    assert_eq!(
        answers(&plan),
        [
            "fastest (cluster.ps=1): sync (cluster.ps=1), 200.00 s",
            "fastest (cluster.ps=2): sync (cluster.ps=2), 90.00 s",
        ]
    );
    assert_eq!(plan.knees(&plan.candidates()), []);
}

#[test]
fn what_seeds_cannot_tell_apart_is_said() {
    let mut plan =
        plan(priced(), &[(10.0, 1.0, 1), (14.0, 1.0, 1), (11.0, 1.0, 2), (13.0, 1.0, 2)]);
    for (point, seed) in plan.points.iter_mut().zip([0, 1, 0, 1]) {
        point.seed = seed;
    }
    assert!(answers(&plan)[0].contains("the seeds can't tell it apart from `sync (cluster.ps=2)`"));
}

/// A plan over seeds: the times with each number of parameter servers, which are the prices, too.
fn of_seeds(times: &[(u32, [f64; 3])]) -> Plan {
    let points: Vec<(f64, f64, u32)> = times
        .iter()
        .flat_map(|(servers, times)| times.map(|seconds| (seconds, seconds, *servers)))
        .collect();
    let mut plan = plan(priced(), &points);
    for (at, point) in plan.points.iter_mut().enumerate() {
        point.seed = at as u64 % 3;
    }
    plan
}

#[test]
fn what_seeds_tell_apart_of_two_they_do_not_of_many() {
    // The first is 1.01 to 1.66 times as fast as the second, which has a chance of 4.6 %.
    let two = [(2, [1.0, 1.0, 1.0]), (1, [1.2, 1.25, 1.45])];
    let others = [(4, [9.0, 9.1, 9.2]), (8, [9.1, 9.2, 9.3])];
    let as_good = |times: &[(u32, [f64; 3])]| {
        let plan = of_seeds(times);
        plan.answers(&plan.candidates())[0].as_good.clone()
    };
    assert_eq!(as_good(&two), [""; 0]);
    assert_eq!(as_good(&[two, others].concat()), ["sync (cluster.ps=1)"]);
}

#[test]
fn a_candidate_is_off_the_front_only_if_seeds_show_that_another_beats_it() {
    let front = |times: &[(u32, [f64; 3])]| {
        let candidates = of_seeds(times).candidates();
        candidates.iter().map(|one| one.is_on_front.unwrap()).collect::<Vec<_>>()
    };
    let chance = [1.2, 0.9, 1.3];
    assert_eq!(front(&[(1, [1.0, 1.0, 1.0]), (2, chance)]), [true, true]);
    assert_eq!(front(&[(1, [1.0, 1.0, 1.0]), (2, [2.0, 2.01, 2.02])]), [true, false]);
}

#[test]
fn of_the_cheapest_the_fastest_is_named_and_of_the_fastest_the_cheapest() {
    let plan = plan(priced(), &[(400.0, 10.0, 1), (100.0, 10.0001, 4), (100.0001, 12.0, 8)]);
    let best: Vec<String> =
        plan.answers(&plan.candidates()).into_iter().filter_map(|answer| answer.best).collect();
    assert_eq!(best, ["sync (cluster.ps=4)"; 2]);
}

#[test]
fn a_plan_of_several_runs_by_samples_says_what_it_does_not_compare() {
    let question = Question { samples: Some(1000), ..Question::default() };
    let mut plan = plan(question, &[(30.0, 1.0, 1), (60.0, 1.0, 2)]);
    let text = |plan: &Plan| plan.render(Layout::Plain);
    assert!(!text(&plan).contains("learns less"));
    plan.points[1].run = "async".to_owned();
    assert!(text(&plan).contains("one that learns less from a sample looks better than it is"));
    plan.question = Question { target: Some(0.9), ..Question::default() };
    assert!(!text(&plan).contains("learns less"), "each is simulated to the target");
}

#[test]
fn a_knee_names_the_other_values_that_seeds_cant_tell_from_the_best() {
    let plan = of_seeds(&[(1, [9.0, 9.1, 9.2]), (2, [1.0, 1.5, 1.3]), (4, [1.0, 1.2, 1.1])]);
    let knee = &plan.knees(&plan.candidates())[0];
    assert_eq!((&knee.value, &knee.as_good[..]), (&json!(4), &[json!(2)][..]));
    let says = "more may win more, so try larger values; the seeds can't tell 4 apart from 2";
    assert!(knee.render().contains(says), "{}", knee.render());
    let plan = of_seeds(&[(1, [9.0, 9.1, 9.2]), (2, [1.0, 1.2, 1.1]), (4, [1.0, 1.5, 1.3])]);
    let says = "sync, cluster.ps: beyond 2 nothing is shown to be won; the seeds can't tell 2 \
                apart from 4";
    assert_eq!(plan.knees(&plan.candidates())[0].render(), says);
}

#[test]
fn what_limits_a_candidate_is_what_limits_most_of_its_seeds_and_says_how_many() {
    let mut plan = of_seeds(&[(1, [1.0, 1.0, 1.0]), (2, [2.0, 2.0, 2.0])]);
    for (point, (who, share)) in
        plan.points.iter_mut().zip([("late", 0.9), ("kernels", 0.5), ("kernels", 0.7)])
    {
        point.limit = Some(Limit { who: who.to_owned(), share });
    }
    let limits = plan.candidates().into_iter().map(|candidate| candidate.limit);
    let limits: Vec<String> = limits.flatten().map(|limit| limit.render()).collect();
    assert_eq!(limits, ["limited by kernels, 60 % of the time (2 of 3 seeds)"]);
}

#[test]
fn a_knee_is_the_first_value_that_is_all_but_as_fast_as_the_best() {
    let knee = |times: &[f64]| {
        let points: Vec<(f64, f64, u32)> =
            times.iter().enumerate().map(|(at, seconds)| (*seconds, 1.0, 1 << at)).collect();
        let plan = plan(Question::default(), &points);
        plan.knees(&plan.candidates())[0].render()
    };
    let little = "sync, cluster.ps: beyond 4 little is won: the best, 8, is 1.03 times as fast";
    assert_eq!(knee(&[100.0, 60.0, 41.2, 40.0]), little);
    let nothing = "sync, cluster.ps: beyond 2 nothing is won";
    assert_eq!(knee(&[100.0, 60.0, 61.0, 90.0]), nothing);
    let more = "sync, cluster.ps: 8, the largest tried, is the fastest, 1.33 times as fast as the \
                next lesser: more may win more, so try larger values";
    assert_eq!(knee(&[100.0, 60.0, 40.0, 30.0]), more);
}

#[test]
fn a_knee_is_the_same_in_whatever_order_values_are_tried_and_knows_those_that_failed() {
    let mut plan = plan(Question::default(), &[(30.0, 1.0, 16), (60.0, 1.0, 4), (100.0, 1.0, 1)]);
    let knee = |plan: &Plan| plan.knees(&plan.candidates())[0].render();
    assert!(knee(&plan).starts_with("sync, cluster.ps: 16, the largest tried, is the fastest"));
    plan.points[0].seconds = None;
    let says = "sync, cluster.ps: beyond 4 nothing is shown to be won; with 16 not all trainings \
                finished";
    assert_eq!(knee(&plan), says);
}

#[test]
fn parts_that_lack_points_or_are_of_another_plan_are_refused() {
    let whole = plan(priced(), &[(1.0, 1.0, 1), (2.0, 1.0, 2), (3.0, 1.0, 4)]);
    let mut part = whole.clone();
    part.points.remove(1);
    let missing = MergeError::Missing { missing: 1, total: 3, first: 1 };
    assert_eq!(Plan::merge(vec![part.clone()]), Err(missing));
    let mut other = whole.clone();
    other.question.within = Some(3.0);
    let error = Plan::merge(vec![part, other]).unwrap_err();
    assert!(matches!(error, MergeError::Differ { what: "the question", .. }), "{error}");
    assert_eq!(Plan::merge(Vec::new()), Err(MergeError::Nothing));
}

proptest! {
    #[test]
    fn parts_give_the_plan_however_it_was_cut(cuts in prop::collection::vec(0_usize..4, 12)) {
        let points: Vec<(f64, f64, u32)> =
            (1..=12_u32).map(|n| (f64::from(n), 1.0, n)).collect();
        let whole = plan(priced(), &points);
        let part = |shard: usize| {
            let mut part = whole.clone();
            part.points.retain(|point| cuts[point.number] == shard);
            let mut file = Vec::new();
            part.write_json(&mut file).unwrap();
            serde_json::from_slice(&file).unwrap()
        };
        prop_assert_eq!(Plan::merge((0..4).map(part).collect()), Ok(whole.clone()));
    }

    #[test]
    fn what_is_on_the_front_is_beaten_by_none_and_all_else_by_one_of_it(
        costs in prop::collection::vec((1_u8..9, 1_u8..9), 1..20),
    ) {
        let points: Vec<(f64, f64, u32)> = costs
            .iter()
            .zip(0..)
            .map(|((time, price), n)| (f64::from(*time), f64::from(*price), n))
            .collect();
        let plan = plan(priced(), &points);
        let candidates = plan.candidates();
        for (candidate, own) in candidates.iter().zip(&costs) {
            let beats = |it: &(u8, u8)| it.0 <= own.0 && it.1 <= own.1 && it != own;
            let beaten = candidates
                .iter()
                .zip(&costs)
                .any(|(other, it)| other.is_on_front == Some(true) && beats(it));
            prop_assert_eq!(candidate.is_on_front, Some(!beaten));
        }
    }
}

#[test]
fn a_plan_with_points_missing_says_so_in_each_answer_and_not_where_more_stops_paying() {
    let question = Question { within: Some(10.0), ..priced() };
    let whole = plan(question, &[(200.0, 1.0, 1), (90.0, 4.0, 2)]);
    let part = Plan { total: 3, ..whole.clone() };
    assert_eq!((answers(&whole).len(), answers(&part).len()), (3, 2));
    let fastest = "fastest of 2 of 3 points: sync (cluster.ps=2), 90.00 s, 4.00 USD";
    assert_eq!(answers(&part)[0], fastest);
    assert_eq!([&whole, &part].map(|plan| plan.knees(&plan.candidates()).len()), [1, 0]);
    let complete = |plan: &Plan| {
        let mut json = Vec::new();
        plan.write_json(&mut json).unwrap();
        serde_json::from_slice::<serde_json::Value>(&json).unwrap()["complete"].clone()
    };
    assert_eq!((complete(&whole), complete(&part)), (json!(true), json!(false)));
    let first = |plan: &Plan| plan.render(Layout::Plain).lines().next().unwrap().to_owned();
    assert!(first(&part).ends_with("; not complete: 2 of 3 points"), "{}", first(&part));
    assert!(!first(&whole).contains("complete"));
    let mut page = Vec::new();
    part.write_page(&mut page).unwrap();
    assert!(String::from_utf8(page).unwrap().contains("not complete: 2 of 3 points"));
}
