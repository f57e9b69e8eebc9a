//! The costs of several kernels, by kind.

use super::{Cost, KernelKind};

/// The costs of several kernels, added up by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs([Cost; KernelKind::ALL.len()]);

impl Costs {
    /// The cost of kernels of one kind.
    pub fn of(kind: KernelKind, cost: Cost) -> Self {
        let mut costs = Self::default();
        costs.add(kind, cost);
        costs
    }

    /// Adds the cost of a kernel.
    pub fn add(&mut self, kind: KernelKind, cost: Cost) {
        let sum = &mut self.0[kind as usize];
        *sum = *sum + cost;
    }

    /// Takes back `bytes` of the memory traffic that was added for kernels of `kind`.
    pub(crate) fn save(&mut self, kind: KernelKind, bytes: u64) {
        self.0[kind as usize].bytes -= bytes;
    }

    /// The cost of all kernels together.
    pub fn total(&self) -> Cost {
        self.0.iter().copied().sum()
    }

    /// The cost of the kernels of each kind.
    pub fn by_kind(&self) -> impl Iterator<Item = (KernelKind, Cost)> {
        KernelKind::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_by_kind_and_in_all() {
        let mut costs = Costs::of(KernelKind::Update, Cost::work(3, 4));
        costs.add(KernelKind::Matmul, Cost::work(10, 20));
        costs.add(KernelKind::Matmul, Cost::work(1, 2));
        assert_eq!(costs.total(), Cost::work(14, 26));
        let given: Vec<_> = costs.by_kind().filter(|(_, cost)| *cost != Cost::default()).collect();
        let expected =
            [(KernelKind::Matmul, Cost::work(11, 22)), (KernelKind::Update, Cost::work(3, 4))];
        assert_eq!(given, expected);
        assert!(KernelKind::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }
}
