//! An all-reduce whose workers are lost: how the others go on without them.

use trainyard::cluster::TaskName;
use trainyard::experiment::{Experiment, Simulated};
use trainyard::training::train;

/// The global steps of each training.
const STEPS: u64 = 60;

/// A training of four workers by `way`, each of whose steps takes 10 ms and more, under `faults`.
fn trained(way: &str, faults: &str) -> Simulated {
    let text = format!(
        "seed = 3\n[cluster]\nworker = 4\n\
         [network]\nsilence = \"50ms\"\nrecovery = \"200ms\"\n\
         [compute]\nstep_time = {{ law = \"constant\", value = \"10ms\" }}\n\
         [program]\nmodel = \"mlp\"\nhidden = [24, 16]\ndataset = \"digits\"\nbatch = 16\n\
         optimizer = {{ rule = \"adagrad\", learning_rate = 0.05 }}\nall_reduce = \"{way}\"\n\
         [stop]\nsteps = {STEPS}\nevaluate_every = 20\n[[run]]\nmode = \"sync\"\n{faults}"
    );
    let trial = Experiment::parse(text).unwrap().trials().unwrap().remove(0);
    trial.simulate(&train)
}

/// Asserts that the training has taken all steps; by formation, the workers that it was without.
#[track_caller]
fn formations(of: &Simulated) -> Vec<Vec<u32>> {
    assert!(of.outcome.result.is_ok(), "{:?}", of.outcome.result);
    assert_eq!(of.recording.steps().map(|step| step.global_step).max(), Some(STEPS));
    assert!(of.recording.ending.unwrap().weights_digest.is_some());
    let without = of.recording.formed.iter().map(|formed| &formed.without);
    without.map(|tasks| tasks.iter().map(TaskName::index).collect()).collect()
}

#[test]
fn workers_that_die_at_once_are_all_gone_on_without() {
    let died = |worker: u32| format!("[[fault]]\nat = \"55ms\"\ncrash = \"worker:{worker}\"\n");
    for way in ["ring", "tree", "shuffle", "hierarchical"] {
        let hit = trained(way, &(died(1) + &died(3)));
        let formations = formations(&hit);
        assert_eq!(formations.first(), Some(&vec![]), "{way}");
        assert_eq!(formations.last(), Some(&vec![1, 3]), "{way}");
    }
    let alone: String = (1..4).map(died).collect();
    assert_eq!(formations(&trained("ring", &alone)).last(), Some(&vec![1, 2, 3]));
}

#[test]
fn of_two_workers_that_are_lost_before_the_towers_have_formed_both_are_gone_on_without() {
    let died =
        |at: &str, worker| format!("[[fault]]\nat = \"{at}\"\ncrash = \"worker:{worker}\"\n");
    for later in ["1ms", "100ms", "260ms"] {
        let hit = trained("ring", &(died("200us", 3) + &died(later, 1)));
        assert_eq!(formations(&hit), [vec![1, 3]], "{later}");
    }
}

#[test]
fn a_worker_that_is_cut_off_from_the_chief_alone_ends_and_the_others_go_on() {
    // The way is there again while they train, or only after the end; the process is gone by then.
    for lasts in ["500ms", "10s"] {
        let cut = "[[fault]]\nat = \"55ms\"\npartition = [\"worker:2\", \"worker:0\"]\n";
        let hit = trained("ring", &format!("{cut}for = \"{lasts}\"\n"));
        assert_eq!(formations(&hit), [vec![], vec![2]], "{lasts}");
    }
}

#[test]
fn a_worker_that_forms_anew_goes_on_with_the_numbers_of_its_steps() {
    let hit = trained("ring", "[[fault]]\nat = \"300ms\"\ncrash = \"worker:2\"\n");
    assert_eq!(formations(&hit), [vec![], vec![2]]);
    let applied = hit.recording.steps().filter(|step| step.applied);
    let numbers: Vec<u64> = applied.map(|step| step.local_step).collect();
    assert_eq!(numbers, Vec::from_iter(0..STEPS));
}

#[test]
fn towers_that_form_anew_are_looked_at_where_they_would_have_been() {
    let hit = trained("ring", "[[fault]]\nat = \"300ms\"\ncrash = \"worker:2\"\n");
    assert_eq!(formations(&hit), [vec![], vec![2]]);
    let looks = hit.recording.evaluations.iter().map(|it| it.global_step);
    assert_eq!(looks.collect::<Vec<_>>(), [20, 40, 60], "the end finds the last step's model");
}
