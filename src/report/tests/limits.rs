//! What limits a run whose kernels straggle.

use super::*;
use crate::report::plan::{Limit, Point, Question};

#[test]
fn cards_that_are_full_together_are_told_to_be_made_faster_together() {
    let of = |causes: &[(TimeCause, f64)]| limited(causes, &[]).limit().unwrap();
    let (server, worker) = (TimeCause::ServerCard, TimeCause::WorkerCard);
    let together = of(&[(TimeCause::Bandwidth, 5.0), (server, 2.0), (TimeCause::Compute, 3.0)]);
    let expected = "limited by network cards and links that are full together or alone, 70 % of \
                    the time; at twice the speed, the run would be about 35 % shorter: faster";
    assert!(together.starts_with(expected), "{together}");
    let only = of(&[(TimeCause::Bandwidth, 7.0), (TimeCause::Compute, 3.0)]);
    assert!(only.contains(" that are full together, 70 % of the time;"), "{only}");
    let alone = of(&[(TimeCause::Bandwidth, 2.0), (server, 6.0), (worker, 1.0)]);
    let expected = "cards, 67 % of the time; at twice the speed, the run would be about 33 % \
                    shorter (50 % with all cards and links): more parameter servers";
    assert!(alone.contains(expected), "{alone}");
    let single = of(&[(server, 6.0), (worker, 4.0)]);
    assert!(single.contains("about 30 % shorter: more"), "{single}");
}

#[test]
fn a_plan_leaves_out_the_last_steps_of_late_workers_and_the_start_of_a_training_by_samples() {
    let causes = [(TimeCause::LateSteps, 8.0), (TimeCause::Start, 5.0), (TimeCause::Compute, 1.0)];
    let run = limited(&causes, &[]);
    assert!(run.limit().unwrap().starts_with("limited by late workers' last steps"));
    let limit = |samples: Option<u64>| {
        let question = Question { samples, target: Some(0.95), ..Question::default() };
        let point = Point::new((0, &run), &BTreeMap::new(), &question, None);
        point.limit.unwrap()
    };
    let of = |cause: TimeCause, share: f64| Limit { who: cause.name().to_owned(), share };
    assert_eq!(limit(None), of(TimeCause::Start, 5.0 / 6.0));
    assert_eq!(limit(Some(1000)), of(TimeCause::Compute, 1.0));
}

#[test]
fn faster_processors_are_told_to_shorten_stragglers_too() {
    let causes =
        [(TimeCause::Compute, 5.0), (TimeCause::Stragglers, 3.0), (TimeCause::WorkerCard, 2.0)];
    let limit = |causes: &[(TimeCause, f64)], is_free: bool| {
        let mut run = limited(causes, &[]);
        run.critical_path.as_mut().unwrap().workers_are_free = is_free;
        run.limit().unwrap()
    };
    let waits = limit(&causes, false);
    let expected = "limited by the workers' kernels, 50 % of the time (80 % with stragglers); at \
                    twice the speed, the run would be about 40 % shorter: faster processors";
    assert!(waits.starts_with(expected), "{waits}");
    let free = limit(&causes, true);
    let expected = "limited by the workers' kernels and stragglers together, 80 % of the time; at \
                    twice the speed, the run would be about 40 % shorter: faster processors";
    assert!(free.starts_with(expected), "{free}");
    let straggling = [(TimeCause::Compute, 2.0), (TimeCause::Stragglers, 8.0)];
    let waits = limit(&straggling, false);
    assert!(waits.starts_with("limited by stragglers, 80 % of the time; "), "{waits}");
    assert!(limit(&straggling, true).contains("kernels and stragglers together, 100 %"));
    let even = [(TimeCause::Compute, 8.0), (TimeCause::Links, 2.0)];
    for is_free in [false, true] {
        let limit = limit(&even, is_free);
        assert!(
            limit.starts_with("limited by the workers' kernels, 80 % of the time; "),
            "{limit}"
        );
    }
}
