//! The numbers of all tasks that a process knows of, for whoever looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use super::course::Course;
use super::snapshot::{Snapshot, TaskActivity, evaluated};
use super::traffic::{Pair, Traffic};
use crate::cluster::{ClusterSpec, TaskName};
use crate::training::{Evaluation, StepStats};
use crate::units::Time;

/// The greatest number of runs that are shown; the first ones go.
const RUNS: usize = 1000;

/// The numbers of a run's tasks so far. All clones of the `Arc` show the same.
#[derive(Debug)]
pub struct Board {
    shown: Mutex<Shown>,
    observer: Option<Observer>,
}

/// What is seen of a simulation as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// When it was so \[s\].
    pub(crate) now: f64,
    /// What tasks have sent, by sender and receiver \[bytes\].
    pub(crate) sent: BTreeMap<(TaskName, TaskName), u64>,
    /// The parts of tasks that its steps waited for so far, each with its share of their time; the
    /// greatest first.
    pub(crate) waited: Vec<(String, f64)>,
}

/// Looks at a simulation.
struct Observer(Box<dyn Fn() -> Seen + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// The boards of the runs of one command, in the order in which the runs began.
#[derive(Default)]
pub(crate) struct Boards(Mutex<Vec<Arc<Board>>>);

/// What is known of a run before it begins.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its name.
    pub run: String,
    /// Whether it is in simulation or deployed, as a part of a sentence.
    pub world: &'static str,
    /// The number of global steps after which it ends, if it is known.
    pub total_steps: Option<u64>,
}

/// What a board shows.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) about: About,
    /// Whether it trains, by task.
    trains: BTreeMap<TaskName, bool>,
    pub(super) tasks: BTreeMap<TaskName, Snapshot>,
    /// The number of steps of all tasks.
    steps: u64,
    pub(super) course: Course,
    pub(super) traffic: Traffic,
    /// Who steps waited for, with the share of their time; nothing of a deployment.
    pub(super) waited: Vec<(String, f64)>,
}

impl Shown {
    /// The traffic between each two tasks \[bytes\]. If one of the two is not shown, it is as the
    /// other has counted it.
    fn sent(&self) -> BTreeMap<Pair, u64> {
        let mut all = BTreeMap::new();
        for (name, task) in &self.tasks {
            let name = name.to_string();
            let received = task.activity.received.iter();
            let received = received.map(|(from, bytes)| ((from.clone(), name.clone()), bytes));
            let sent = task.activity.sent.iter();
            let sent = sent.map(|(to, bytes)| ((name.clone(), to.clone()), bytes));
            for (pair, bytes) in received.chain(sent) {
                let known: &mut u64 = all.entry(pair).or_default();
                *known = (*known).max(*bytes);
            }
        }
        all
    }

    /// Whether `task` trains.
    pub(super) fn trains(&self, task: &TaskName) -> bool {
        self.trains.get(task).copied().unwrap_or(false)
    }
}

impl Board {
    /// A board of `tasks` of a run on `cluster`, which begins.
    pub fn new(
        about: About,
        cluster: &ClusterSpec,
        tasks: impl IntoIterator<Item = TaskName>,
    ) -> Arc<Self> {
        let trains = cluster.tasks().map(|task| (task, false));
        let trains = trains.chain(cluster.workers().map(|task| (task, true))).collect();
        let tasks = tasks.into_iter().map(|task| (task, Snapshot::default())).collect();
        let shown = Shown { about, trains, tasks, ..Shown::default() };
        Arc::new(Self { shown: Mutex::new(shown), observer: None })
    }

    /// A board of all tasks of a simulation on `cluster`, which begins, and at which `observe`
    /// looks.
    pub(crate) fn of_simulation(
        about: About,
        cluster: &ClusterSpec,
        observe: impl Fn() -> Seen + Send + Sync + 'static,
    ) -> Arc<Self> {
        let board = Self::new(about, cluster, cluster.tasks());
        let board = Arc::into_inner(board).expect("nobody else has it yet");
        Arc::new(Self { observer: Some(Observer(Box::new(observe))), ..board })
    }

    /// Looks at who sends to whom, and who waits for whom.
    pub(super) fn look(&self) -> MutexGuard<'_, Shown> {
        let seen = self.observer.as_ref().map(|Observer(observe)| observe());
        let mut shown = self.shown();
        let mut now = shown.tasks.values().map(|task| task.now).fold(0.0, f64::max);
        if let Some(Seen { now: then, sent, waited }) = seen {
            (shown.waited, now) = (waited, then);
            for ((from, to), bytes) in sent {
                if let Some(task) = shown.tasks.get_mut(&from) {
                    task.activity.sent.insert(to.to_string(), bytes);
                }
            }
        }
        let sent = shown.sent();
        shown.traffic.look(now, sent);
        shown
    }

    /// Counts a step on a batch of `batch` samples, of whoever took it; or of `task`, if that is in
    /// this process alone, and another one took the step for it.
    pub(crate) fn count(&self, step: &StepStats, batch: u64, task: Option<&TaskName>) {
        let Shown { tasks, steps, course, trains, .. } = &mut *self.shown();
        let is_shown = tasks.contains_key(&step.worker);
        let taker = if is_shown { Some(&step.worker) } else { task };
        if let Some((task, name)) = taker.and_then(|name| Some((tasks.get_mut(name)?, name))) {
            if let Some(trains) = trains.get_mut(name) {
                *trains = true; // an executor of a coordinator
            }
            task.count(step, batch);
            *steps += 1;
            course.add(*steps, tasks);
        }
    }

    /// Notes an evaluation; by `task`, if that is in this process alone.
    pub(crate) fn evaluate(&self, evaluation: &Evaluation, task: Option<&TaskName>) {
        let Shown { tasks, course, .. } = &mut *self.shown();
        let look = evaluated(evaluation);
        course.evaluate(look);
        if let Some(task) = task.and_then(|task| tasks.get_mut(task)) {
            task.evaluated = Some(look);
        }
    }

    /// Notes what `task` does: its traffic, and who waits there.
    pub(crate) fn note(&self, task: &TaskName, activity: TaskActivity) {
        if let Some(task) = self.shown().tasks.get_mut(task) {
            task.activity = activity;
        }
    }

    /// Notes that the training has gone back to `global_step`; by `task`, if that is in this
    /// process alone.
    pub(crate) fn restore(&self, global_step: u64, task: Option<&TaskName>) {
        let Shown { tasks, steps, .. } = &mut *self.shown();
        for task in tasks.values_mut() {
            task.global_step = task.global_step.min(global_step);
        }
        // First values at the beginning undo nothing.
        if global_step + *steps > 0
            && let Some(task) = task.and_then(|task| tasks.get_mut(task))
        {
            task.saves.restores += 1;
        }
    }

    /// Notes the last checkpoint that `task` has saved or restored: its global step, and when.
    pub(crate) fn save(&self, task: &TaskName, (global_step, at): (u64, Time)) {
        if let Some(task) = self.shown().tasks.get_mut(task) {
            task.saves.last = Some((global_step, at.as_secs_f64()));
        }
    }

    /// Counts a checkpoint that `task` could not save.
    pub(crate) fn count_failed_save(&self, task: &TaskName) {
        if let Some(task) = self.shown().tasks.get_mut(task) {
            task.saves.failed += 1;
        }
    }

    /// Shows `snapshot` for `task`, which runs in another process; a new one, if it has taken fewer
    /// steps than before.
    pub(crate) fn show(&self, task: &TaskName, snapshot: Snapshot) {
        let Shown { tasks, steps, course, .. } = &mut *self.shown();
        let Some(before) = tasks.get_mut(task) else { return };
        if let Some(look) = snapshot.evaluated {
            course.evaluate(look);
        }
        match snapshot.steps.checked_sub(before.steps) {
            Some(new) => *steps += new,
            None => {
                course.end_life(before);
                *steps += snapshot.steps;
            }
        }
        *before = snapshot;
        course.add(*steps, tasks);
    }

    /// The numbers of `task`, if they are shown here.
    pub(crate) fn snapshot(&self, task: &TaskName) -> Option<Snapshot> {
        self.shown().tasks.get(task).cloned()
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().expect("nobody panics while it holds the board")
    }
}

impl Boards {
    /// Adds the board of a run that begins.
    pub(crate) fn add(&self, board: Arc<Board>) {
        let mut boards = self.lock();
        if boards.len() == RUNS {
            boards.remove(0);
        }
        boards.push(board);
    }

    /// The names of all runs; the run of this number and its board, or those of the last one.
    pub(super) fn choose(&self, run: Option<usize>) -> (Vec<String>, Option<(usize, Arc<Board>)>) {
        let boards = self.lock();
        let names = boards.iter().map(|board| board.shown().about.run.clone()).collect();
        let at = run.filter(|at| *at < boards.len()).or_else(|| boards.len().checked_sub(1));
        (names, at.map(|at| (at, Arc::clone(&boards[at]))))
    }

    /// The metrics of the run that began last.
    pub(crate) fn metrics(&self) -> String {
        self.choose(None).1.map_or_else(String::new, |(_, board)| board.metrics())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Board>>> {
        self.0.lock().expect("nobody panics while it holds the boards")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_goes_on_when_tasks_are_started_again_and_the_training_with_them() {
        let jobs = [("ps", vec!["a:1"]), ("worker", vec!["b:1", "c:1"])];
        let cluster = ClusterSpec::dense(jobs).unwrap();
        let board = Board::new(About::default(), &cluster, cluster.tasks());
        let show = |worker, steps, global_step, now| {
            let snapshot = Snapshot { steps, global_step, now, ..Snapshot::default() };
            board.show(&TaskName::new("worker", worker), snapshot);
            let shown = board.shown();
            (shown.course.points().len(), shown.course.global_step())
        };
        assert_eq!(show(0, 50, 90, 1.0), (1, 90));
        assert_eq!(show(1, 50, 100, 1.0), (2, 100));
        board.restore(0, None);
        assert_eq!(show(0, 3, 3, 2.0), (3, 3), "far fewer steps than before");
        assert_eq!(show(1, 4, 7, 2.1), (4, 7));
        assert_eq!(show(1, 6, 9, 2.2), (5, 9));
    }
}
