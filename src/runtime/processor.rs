//! The processor of this machine: a task's message thread, and rayon's threads for large work.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

use crate::runtime::compute::{Asker, Calculation, ComputeModel, Work, leaves_message_thread};

/// A device on this machine's cores: work takes its real time.
///
/// Small work runs on the thread that launches it, where it is done before another thread would
/// have woken. Large work (some tens of microseconds) runs on rayon's threads, one piece after the
/// other, while the task's message thread takes, answers and sends messages. These are all that the
/// process has, or as many as the task is to use. Clones are the same device.
#[derive(Clone, Default)]
pub struct Processor(Arc<Mutex<Line>>);

/// The large pieces of work that wait for the one under way.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Piece>,
    is_moving: bool,
    /// The task's own threads; none for those of the process.
    threads: Option<Arc<ThreadPool>>,
}

/// What hands the end of large work to the actors of a task, in turn with all else that reaches
/// them from outside.
pub(crate) trait Gate {
    /// Has `done` called when its turn comes; it is the end of the next piece of the task's device
    /// of that number.
    fn pass(&self, device: u32, done: Box<dyn FnOnce()>);
}

/// A processor whose large work ends through a gate.
pub(crate) struct GatedProcessor {
    pub(crate) processor: Processor,
    /// The number of the device.
    pub(crate) device: u32,
    pub(crate) gate: Rc<dyn Gate>,
}

impl ComputeModel for GatedProcessor {
    fn launch(&self, work: Work) {
        self.processor.take(work, Some((self.device, Rc::clone(&self.gate))));
    }
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
        self.take(work, None);
    }

    /// # Panics
    /// If the system has no threads to give.
    fn use_cores(&self, cores: Option<NonZeroU32>) {
        let pool = |cores: NonZeroU32| {
            let threads = ThreadPoolBuilder::new().num_threads(cores.get() as usize);
            let threads = threads.thread_name(|thread| format!("core {thread}"));
            Arc::new(threads.build().expect("the system gives a task its threads"))
        };
        let mut line = self.line();
        if line.threads.as_ref().map(|pool| pool.current_num_threads() as u32)
            != cores.map(NonZeroU32::get)
        {
            line.threads = cores.map(pool);
        }
    }
}

impl Processor {
    /// Runs small work at once, and hands large work to the cores.
    fn take(&self, work: Work, gate: Option<(u32, Rc<dyn Gate>)>) {
        let Work { cost, mut calculation, asker, .. } = work;
        if leaves_message_thread(cost.total()) {
            return self.hand_over(calculation, asker, gate);
        }
        match attempt(&mut *calculation) {
            Ok(()) => calculation.done(&asker),
            Err(panic) => asker.has_panicked(&*panic),
        }
    }

    /// Hands `calculation` to the cores; the end of it wakes this thread. If the task ends before,
    /// nobody waits for the calculation.
    fn hand_over(
        &self,
        calculation: Box<dyn Calculation>,
        asker: Asker,
        gate: Option<(u32, Rc<dyn Gate>)>,
    ) {
        let (done, ran) = oneshot::channel::<Ran>();
        let away = Away::count();
        tokio::task::spawn_local(async move {
            let ran = ran.await;
            drop(away);
            match ran {
                Ok(Ok(calculation)) => match gate {
                    Some((device, gate)) => {
                        gate.pass(device, Box::new(move || calculation.done(&asker)));
                    }
                    None => calculation.done(&asker),
                },
                Ok(Err(panic)) => asker.has_panicked(&*panic),
                Err(_) => unreachable!("each piece of the line is run"),
            }
        });
        let mut line = self.line();
        line.waiting.push_back(Piece { calculation, done });
        if !std::mem::replace(&mut line.is_moving, true) {
            let (threads, line) = (line.threads.clone(), self.clone());
            match threads {
                Some(threads) => threads.spawn(move || line.run()),
                None => rayon::spawn(move || line.run()),
            }
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

    /// Sends the number of the piece, and where it has run.
    struct Probe {
        piece: u32,
        ran_on: Option<Place>,
        ends: tokio::sync::mpsc::UnboundedSender<(u32, Option<Place>)>,
    }

    impl Calculation for Probe {
        fn run(&mut self) {
            let threads = rayon::current_num_threads();
            self.ran_on = rayon::current_thread_index().map(|_| Place { threads });
        }

        fn done(self: Box<Self>, _: &Asker) {
            self.ends.send((self.piece, self.ran_on)).unwrap();
        }
    }

    /// A thread of a pool of so many.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Place {
        threads: usize,
    }

    /// The pieces of these costs in the order in which they were done, and where each has run.
    fn run(processor: &Processor, costs: &[Cost]) -> Vec<(u32, Option<Place>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (ends, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let asker = Asker::nobody();
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
        let done = run(&Processor::default(), &[LARGE; 20]);
        assert!(done.iter().map(|(piece, _)| *piece).eq(0..20), "{done:?}");
        assert!(done.iter().all(|(_, thread)| thread.is_some()), "{done:?}");
    }

    #[test]
    fn small_work_is_done_at_once_on_the_thread_that_launched_it() {
        let done = run(&Processor::default(), &[LARGE, Cost::default()]);
        assert_eq!(done[0], (1, None), "{done:?}");
    }

    #[test]
    fn large_work_spreads_over_as_many_threads_as_the_task_is_to_use() {
        let threads = |told: &[u32]| {
            let processor = Processor::default();
            told.iter().for_each(|cores| processor.use_cores(NonZeroU32::new(*cores)));
            run(&processor, &[LARGE])[0].1.unwrap().threads
        };
        assert_eq!((threads(&[3]), threads(&[3, 1])), (3, 1));
        assert_eq!(threads(&[3, 0]), rayon::current_num_threads(), "those of the process");
    }
}
