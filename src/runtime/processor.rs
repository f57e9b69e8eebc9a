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

use crate::cluster::LocalDevice;
use crate::kernels::Numerics;
use crate::units::Bytes;

use crate::runtime::compute::{
    Asker, Calculation, ComputeModel, Work, WorkerStep, leaves_message_thread,
};

/// A device on this machine's cores: work takes its real time.
///
/// Small work runs on the thread that launches it, where it is done before another thread would
/// have woken. Large work (some tens of microseconds) runs on rayon's threads, one piece after the
/// other, while the task's message thread takes, answers and sends messages. These are all that the
/// process has, or as many as the task is to use. Clones are the same device.
#[derive(Clone, Default)]
pub struct Processor {
    cores: Cores,
    /// The gate through which large work ends, and the number of the device there; none if the
    /// actors are told at once.
    gate: Option<(u32, Rc<dyn Gate>)>,
}

/// The cores that large work runs on, and the line before them.
#[derive(Clone, Default)]
struct Cores(Arc<Mutex<Line>>);

/// The large pieces of work that wait for the one under way.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Piece>,
    is_moving: bool,
    /// The task's own threads; none for those of the process.
    threads: Option<Arc<ThreadPool>>,
}

/// Orders the ends of large work with everything else that reaches a task's actors.
pub(crate) trait Gate {
    /// Has `done` called when its turn comes; it is the end of the next piece of the task's device
    /// of that number.
    fn pass(&self, device: u32, done: Box<dyn FnOnce()>);
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
    /// Runs small work at once, and hands large work to the cores.
    fn launch(&self, work: Work) {
        let Work { cost, mut calculation, asker, .. } = work;
        if leaves_message_thread(cost.total()) {
            return self.hand_over(calculation, asker);
        }
        match attempt(&mut *calculation) {
            Ok(()) => calculation.done(&asker),
            Err(panic) => asker.has_panicked(&*panic),
        }
    }

    fn copy(
        &self,
        _: (LocalDevice, LocalDevice),
        _: Bytes,
        then: Box<dyn Calculation>,
        asker: Asker,
    ) {
        then.done(&asker); // the devices of a machine's cores share its memory
    }

    fn memory(&self) -> Option<Bytes> {
        None
    }

    /// # Panics
    /// If the system has no threads to give.
    fn use_cores(&self, cores: Option<NonZeroU32>) {
        let pool = |cores: NonZeroU32| {
            let threads = ThreadPoolBuilder::new().num_threads(cores.get() as usize);
            let threads = threads.thread_name(|thread| format!("core {thread}"));
            Arc::new(threads.build().expect("the system gives a task its threads"))
        };
        let mut line = self.cores.line();
        if line.threads.as_ref().map(|pool| pool.current_num_threads() as u32)
            != cores.map(NonZeroU32::get)
        {
            line.threads = cores.map(pool);
        }
    }

    fn stop(&self, _: WorkerStep) {}

    fn operate(&self, _: usize) {}

    fn takes_steps_whole(&self) -> bool {
        false
    }

    fn numerics(&self) -> Numerics {
        Numerics::Real
    }
}

impl Processor {
    /// Device `device` of a task whose large work ends through `gate`.
    pub(crate) fn gated(device: u32, gate: Rc<dyn Gate>) -> Self {
        Self { cores: Cores::default(), gate: Some((device, gate)) }
    }

    /// Hands `calculation` to the cores; the end of it wakes this thread. If the task ends before,
    /// nobody waits for the calculation.
    fn hand_over(&self, calculation: Box<dyn Calculation>, asker: Asker) {
        let (done, ran) = oneshot::channel::<Ran>();
        let (away, gate) = (Away::count(), self.gate.clone());
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
        self.cores.take(Piece { calculation, done });
    }
}

impl Cores {
    /// Runs `piece` after those that wait.
    fn take(&self, piece: Piece) {
        let mut line = self.line();
        line.waiting.push_back(piece);
        if !std::mem::replace(&mut line.is_moving, true) {
            let (threads, cores) = (line.threads.clone(), self.clone());
            match threads {
                Some(threads) => threads.spawn(move || cores.run()),
                None => rayon::spawn(move || cores.run()),
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
        write!(f, "a processor with {} pieces of work in line", self.cores.line().waiting.len())
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

    const LARGE: Cost = Cost { flops: 1 << 30, bytes: 0, is_unbounded: false };

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

    /// A gate that lets all pass at once.
    struct Open;

    impl Gate for Open {
        fn pass(&self, _: u32, done: Box<dyn FnOnce()>) {
            done();
        }
    }

    /// The number of threads that large work runs on, once `processor` was told these numbers of
    /// cores.
    fn threads(processor: &Processor, told: &[u32]) -> usize {
        for cores in told {
            processor.use_cores(NonZeroU32::new(*cores));
        }
        run(processor, &[LARGE])[0].1.unwrap().threads
    }

    #[test]
    fn large_work_spreads_over_as_many_threads_as_the_task_is_to_use() {
        assert_eq!(threads(&Processor::default(), &[3]), 3);
        assert_eq!(threads(&Processor::default(), &[3, 1]), 1);
        let all = rayon::current_num_threads();
        assert_eq!(threads(&Processor::default(), &[3, 0]), all, "those of the process");
    }

    #[test]
    fn a_recorded_task_uses_as_many_threads_as_it_is_to_use() {
        let processor = Processor::gated(0, Rc::new(Open));
        assert_eq!(threads(&processor, &[3]), 3);
        assert_eq!(threads(&processor, &[1]), 1);
    }
}
