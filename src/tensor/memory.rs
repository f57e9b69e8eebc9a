//! The memory that all tensors of this process may take together, and the refusal of more.
//!
//! A kernel that asks for too much is stopped by unwinding, as if it had panicked, before the
//! system would end the whole process; [`within_memory`] makes an error of that. Elsewhere the
//! refusal is told before its thread unwinds, as a panic is.

use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::say::say;
use crate::units::Bytes;

/// The limit on a machine whose memory is not known.
const UNKNOWN_MACHINE: Bytes = Bytes(16 << 30);
/// A smaller buffer is not counted: a step makes many, and together they are small.
const COUNTED: u64 = 1 << 20;

/// The limit that was set \[bytes\]; 0 for this machine's memory.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The limit of the simulations that run, in place of that one \[bytes\]; 0 if they have none.
static OF_SIMULATIONS: AtomicU64 = AtomicU64::new(0);
/// The number of simulations that run.
static SIMULATIONS: Mutex<u32> = Mutex::new(0);
/// The size of all counted buffers \[bytes\].
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of calls of [`within_memory`] that this thread is in.
    static WITHIN: Cell<u32> = const { Cell::new(0) };
}

/// More memory was asked for than this process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a value of {wanted} would be more than the {limit} that all tensors of this process may take, \
     of which {taken} are taken; make its shapes smaller, or raise the memory limit"
)]
pub struct OutOfMemory {
    /// The length of the value.
    pub wanted: Bytes,
    /// The size of all others.
    pub taken: Bytes,
    /// The limit of all together.
    pub limit: Bytes,
}

/// Sets the memory that all tensors of this process may take together. It is that of the machine,
/// of the process's control group, or what `ulimit -v` leaves, where none is set.
pub fn set_memory_limit(limit: Bytes) {
    LIMIT.store(limit.0.max(1), Ordering::Relaxed);
}

/// A simulation's own limit, while it runs. Those that run at once have the same.
pub(crate) struct SimulationLimit(());

impl SimulationLimit {
    /// The limit of a simulation that begins, which has that of the process if this is none.
    pub(crate) fn new(limit: Option<Bytes>) -> Self {
        let mut running = running();
        *running += 1;
        OF_SIMULATIONS.store(limit.map_or(0, |limit| limit.0.max(1)), Ordering::Relaxed);
        Self(())
    }
}

impl Drop for SimulationLimit {
    fn drop(&mut self) {
        let mut running = running();
        *running -= 1;
        if *running == 0 {
            OF_SIMULATIONS.store(0, Ordering::Relaxed);
        }
    }
}

fn running() -> MutexGuard<'static, u32> {
    SIMULATIONS.lock().expect("nobody panics while counting")
}

/// The memory of this machine, or what of it this process may use.
pub(crate) fn memory_of_machine() -> Bytes {
    static MACHINE: OnceLock<Bytes> = OnceLock::new();
    *MACHINE.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).ok();
        let total = read("/proc/meminfo").and_then(|text| listed(&text, "MemTotal:"));
        let group = read("/sys/fs/cgroup/memory.max");
        let group = group.and_then(|text| text.trim().parse().ok()).map(Bytes);
        // What `ulimit -v` leaves beside the program itself.
        let space = read("/proc/self/limits").and_then(|text| address_space(&text));
        let taken = read("/proc/self/status").and_then(|text| listed(&text, "VmSize:"));
        let space = space.map(|space| Bytes(space.0.saturating_sub(taken.map_or(0, |own| own.0))));
        [total, group, space].into_iter().flatten().min().unwrap_or(UNKNOWN_MACHINE)
    })
}

/// The size that the system lists under `name`.
fn listed(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib * 1024))
}

/// The address space that the limits of a process leave it; `None` if there is no such limit.
fn address_space(limits: &str) -> Option<Bytes> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok().map(Bytes)
}

/// The result of `work`, or the refusal of the memory that it asked for.
///
/// # Errors
/// If there is not as much memory.
pub(crate) fn within_memory<T>(work: impl FnOnce() -> T) -> Result<T, OutOfMemory> {
    WITHIN.set(WITHIN.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    WITHIN.set(WITHIN.get() - 1);
    done.map_err(|panic| match panic.downcast::<OutOfMemory>() {
        Ok(refused) => *refused,
        Err(defect) => resume_unwind(defect),
    })
}

/// The same for work that gives its caller an error. Within [`within_memory`] that is not asked
/// for: the refusal unwinds to there, with all that it says.
///
/// # Errors
/// As [`within_memory`].
pub(super) fn or_refused<T>(work: impl FnOnce() -> T) -> Result<T, OutOfMemory> {
    if WITHIN.get() > 0 { Ok(work()) } else { within_memory(work) }
}

/// A buffer's share of what is counted; none of a small one.
#[derive(Default)]
pub(super) struct Counted(u64);

impl Counted {
    /// Counts a buffer of `bytes`.
    ///
    /// # Errors
    /// If that is too much.
    pub(super) fn new(bytes: usize) -> Result<Self, OutOfMemory> {
        let wanted = bytes as u64;
        if wanted < COUNTED {
            return Ok(Self::default());
        }
        let limits = [&OF_SIMULATIONS, &LIMIT].map(|limit| limit.load(Ordering::Relaxed));
        let set = limits.into_iter().find(|limit| *limit > 0);
        let limit = set.map_or_else(memory_of_machine, Bytes);
        let taken = TAKEN.fetch_add(wanted, Ordering::Relaxed);
        let counted = Self(wanted);
        if taken.saturating_add(wanted) > limit.0 {
            drop(counted);
            return Err(OutOfMemory { wanted: Bytes(wanted), taken: Bytes(taken), limit });
        }
        Ok(counted)
    }

    /// Whether a buffer of `bytes` has to be counted, and takes more than this.
    pub(super) fn is_less_than(&self, bytes: usize) -> bool {
        let wanted = bytes as u64;
        wanted >= COUNTED && wanted > self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Unwinds without the report of a panic. Where nothing waits for it, it is told: what unwinds so
/// may end the program.
pub(super) fn refuse(refused: OutOfMemory) -> ! {
    if let Some(line) = told(&refused) {
        say!("{line}");
    }
    resume_unwind(Box::new(refused))
}

/// The message about memory that this thread is refused; none within [`within_memory`].
fn told(refused: &OutOfMemory) -> Option<String> {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    (WITHIN.get() == 0).then(|| format!("the thread `{name}` is refused memory: {refused}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Shape, Tensor};

    #[test]
    fn the_machines_memory_is_read_from_the_system() {
        let meminfo = "MemTotal:       16 kB\nMemFree: 3 kB\n";
        assert_eq!(listed(meminfo, "MemTotal:"), Some(Bytes(16 << 10)));
        assert_eq!(listed("nothing", "MemTotal:"), None);
    }

    #[test]
    fn a_limit_of_the_address_space_is_read_from_the_system() {
        let limits = |space: &str| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax address space  {space}  bytes\n")
        };
        assert_eq!(address_space(&limits("4096000  unlimited")), Some(Bytes(4_096_000)));
        assert_eq!(address_space(&limits("unlimited  unlimited")), None);
    }

    fn huge() -> Tensor {
        Tensor::zeros(DType::F32, Shape::from([1 << 20, 1 << 20]))
    }

    #[test]
    fn a_refusal_is_told_where_nothing_makes_an_error_of_it() {
        let refused = OutOfMemory { wanted: Bytes(9), taken: Bytes(1), limit: Bytes(8) };
        let line = told(&refused).expect("nobody else would tell");
        assert!(line.ends_with(&refused.to_string()), "{line}");
        assert_eq!(within_memory(|| told(&refused)), Ok(None));
        let after_another = within_memory(|| {
            within_memory(huge).expect_err("it is 4 TiB");
            told(&refused)
        });
        assert_eq!(after_another, Ok(None), "an error within another's work");
        assert!(told(&refused).is_some());
    }

    #[test]
    fn values_that_find_no_memory_are_an_error_and_unwind_where_one_is_made_of_it() {
        assert_eq!(or_refused(huge).map(drop).unwrap_err().wanted, Bytes(1 << 42));
        let within = within_memory(|| or_refused(huge).map(drop));
        assert_eq!(within.unwrap_err().wanted, Bytes(1 << 42));
    }

    #[test]
    fn a_tensor_larger_than_the_machine_is_refused_and_leaves_the_rest_as_it_was() {
        let refused = within_memory(huge).expect_err("it is 4 TiB");
        assert_eq!(refused.wanted, Bytes(1 << 42));
        assert!(within_memory(|| Tensor::zeros(DType::F32, Shape::from([1 << 20]))).is_ok());
    }
}
