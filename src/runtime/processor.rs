//! The processor of this machine: a task's message thread, and rayon's threads for large work.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use tokio::sync::oneshot;

use crate::runtime::compute::{Asker, Calculation, ComputeModel, Work, leaves_message_thread};

/// A device on this machine's cores: work takes its real time.
///
/// Small work runs on the thread that launches it, where it is done before another thread would
/// have woken. Large work (some tens of microseconds) runs on rayon's threads, one piece after the
/// other, while the task's message thread takes, answers and sends messages. Clones are the same
/// device.
#[derive(Clone, Default)]
pub struct Processor(Arc<Mutex<Line>>);

/// The large pieces of work that wait for the one under way.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Piece>,
    is_moving: bool,
}

/// A piece of work on its way through the cores, and the way back.
struct Piece {
    calculation: Box<dyn Calculation>,
    done: oneshot::Sender<Ran>,
}

/// A calculation that has run, or its panic.
type Ran = thread::Result<Box<dyn Calculation>>;

thread_local! {
    /// The number of pieces that this thread has handed to the cores and not heard of yet.
    static AWAY: Cell<usize> = const { Cell::new(0) };
}

/// Whether the cores compute for this message thread, which hears of the end.
pub(crate) fn is_computing() -> bool {
    AWAY.get() > 0
}

impl ComputeModel for Processor {
    fn launch(&self, work: Work) {
        let Work { cost, mut calculation, asker, .. } = work;
        if leaves_message_thread(cost.total()) {
            self.hand_over(calculation, asker);
        } else {
            match attempt(&mut *calculation) {
                Ok(()) => calculation.done(&asker),
                Err(panic) => asker.has_panicked(&*panic),
            }
        }
    }
}

impl Processor {
    /// Hands `calculation` to the cores; the end of it wakes this thread. If the task ends before,
    /// nobody waits for the calculation.
    fn hand_over(&self, calculation: Box<dyn Calculation>, asker: Asker) {
        let (done, ran) = oneshot::channel::<Ran>();
        let away = Away::count();
        tokio::task::spawn_local(async move {
            let ran = ran.await;
            drop(away);
            match ran {
                Ok(Ok(calculation)) => calculation.done(&asker),
                Ok(Err(panic)) => asker.has_panicked(&*panic),
                Err(_) => unreachable!("each piece of the line is run"),
            }
        });
        let mut line = self.line();
        line.waiting.push_back(Piece { calculation, done });
        if !std::mem::replace(&mut line.is_moving, true) {
            let line = self.clone();
            rayon::spawn(move || line.run());
        }
    }

    /// Runs pieces until none waits.
    fn run(&self) {
        while let Some(Piece { mut calculation, done }) = self.next() {
            let ran = attempt(&mut *calculation);
            if done.send(ran.map(|()| calculation)).is_err() {
                tracing::debug!("nobody waits for a calculation any more: the task has ended");
            }
        }
    }

    fn next(&self) -> Option<Piece> {
        let mut line = self.line();
        let next = line.waiting.pop_front();
        line.is_moving = next.is_some();
        next
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().expect("nobody panics while holding this lock")
    }
}

/// Runs `calculation`; returns its panic.
pub(crate) fn attempt(calculation: &mut dyn Calculation) -> thread::Result<()> {
    catch_unwind(AssertUnwindSafe(|| calculation.run()))
}

impl fmt::Debug for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a processor with {} pieces of work in line", self.line().waiting.len())
    }
}

/// Counts a piece of work for as long as this thread waits for it.
struct Away;

impl Away {
    fn count() -> Self {
        AWAY.set(AWAY.get() + 1);
        Self
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        AWAY.set(AWAY.get() - 1);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::kernels::{Cost, Costs, KernelKind};

    const LARGE: Cost = Cost { flops: 1 << 30, bytes: 0 };

    /// Sends the number of the piece and of the rayon thread that has run it.
    struct Probe {
        piece: u32,
        ran_on: Option<usize>,
        ends: tokio::sync::mpsc::UnboundedSender<(u32, Option<usize>)>,
    }

    impl Calculation for Probe {
        fn run(&mut self) {
            self.ran_on = rayon::current_thread_index();
        }

        fn done(self: Box<Self>, _: &Asker) {
            self.ends.send((self.piece, self.ran_on)).unwrap();
        }
    }

    /// The pieces of these costs in the order in which they were done, and where each has run.
    fn run(costs: &[Cost]) -> Vec<(u32, Option<usize>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let (asker, processor) = (Asker::nobody(), Processor::default());
        tokio::task::LocalSet::new().block_on(&runtime, async {
            for (piece, cost) in (0..).zip(costs) {
                let calculation = Box::new(Probe { piece, ran_on: None, ends: ends.clone() });
                let cost = Costs::of(KernelKind::Matmul, *cost);
                let asker = asker.clone();
                processor.launch(Work { step: None, cost, calculation, asker });
            }
            assert_eq!(is_computing(), costs.contains(&LARGE));
            let mut all = Vec::new();
            for _ in costs {
                all.push(ended.recv().await.unwrap());
            }
            assert!(!is_computing());
            all
        })
    }

    #[test]
    fn large_work_runs_on_rayons_threads_in_the_order_in_which_it_was_launched() {
        let done = run(&[LARGE; 20]);
        assert!(done.iter().map(|(piece, _)| *piece).eq(0..20), "{done:?}");
        assert!(done.iter().all(|(_, thread)| thread.is_some()), "{done:?}");
    }

    #[test]
    fn small_work_is_done_at_once_on_the_thread_that_launched_it() {
        let done = run(&[LARGE, Cost::default()]);
        assert_eq!(done[0], (1, None), "{done:?}");
    }
}
