//! The members of an all-reduce, and what they do with the pieces of their values.

use std::panic::Location;

use crate::graph::{Graph, GraphError, OpId, Output, concat};
use crate::tensor::Shape;

/// The bytes from which a piece travels in an envelope of its own, beside others.
const LARGE: usize = 64 << 10;

/// The replicas that sum a value, and where each has its own.
pub(super) struct Members<'a> {
    graph: &'a Graph,
    /// By member, an operation on its device.
    homes: Vec<OpId>,
    /// The factor of the whole sum.
    scale: Option<f32>,
    /// The line of the program that asked for the sum.
    at: &'static Location<'static>,
}

impl<'a> Members<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        values: &[Output],
        scale: Option<f32>,
        at: &'static Location<'static>,
    ) -> Self {
        let homes = values.iter().map(|value| value.edge().op).collect();
        Self { graph, homes, scale, at }
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.homes.len()).collect()
    }

    /// `values`, of each member, in another shape.
    pub(super) fn reshaped(
        &self,
        values: &[Output],
        shape: Shape,
    ) -> Result<Vec<Output>, GraphError> {
        let reshape = |(member, value): (usize, &Output)| match value.tensor_type().shape.known() {
            Some(own) if own == shape => Ok(value.clone()),
            _ => self.on(member, || value.reshape(shape)),
        };
        values.iter().enumerate().map(reshape).collect()
    }

    /// The sums of `values`, one of each of `ring`: each piece is summed on its way around the
    /// ring, up to the member with the piece's number, and goes around again as it is then.
    pub(super) fn ring(
        &self,
        ring: &[usize],
        values: &[Output],
        elements: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let cut = self.cut(ring, values, &pieces(elements, ring.len()))?;
        let mut sums = self.summed_around(ring, &cut)?;
        for (member, sum) in ring.iter().zip(&mut sums) {
            *sum = self.scaled(*member, sum.clone())?;
        }
        self.joined(ring, &self.passed_around(ring, &sums))
    }

    /// The sums of `values`: in each of `groups` a ring sums pieces, as many as the smallest group
    /// has members; the members of all groups with the same piece sum it in a ring of theirs; then
    /// it goes around in each group.
    pub(super) fn hierarchical(
        &self,
        groups: &[Vec<usize>],
        values: &[Output],
        elements: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let owners = groups.iter().map(Vec::len).min().unwrap_or(1);
        let sizes = pieces(elements, owners);
        let mut sums = Vec::with_capacity(groups.len());
        for group in groups {
            let own: Vec<Output> = group.iter().map(|member| values[*member].clone()).collect();
            sums.push(self.summed_around(group, &self.cut(group, &own, &sizes)?)?);
        }
        for (piece, size) in sizes.iter().enumerate() {
            let peers: Vec<usize> = groups.iter().map(|group| group[piece]).collect();
            let in_groups: Vec<Output> = sums.iter().map(|sums| sums[piece].clone()).collect();
            for (sums, sum) in sums.iter_mut().zip(self.ring(&peers, &in_groups, *size)?) {
                sums[piece] = sum;
            }
        }
        let mut by_member = values.to_vec();
        for (group, sums) in groups.iter().zip(&sums) {
            let whole = self.joined(group, &self.passed_around(group, sums))?;
            for (member, sum) in group.iter().zip(whole) {
                by_member[*member] = sum;
            }
        }
        Ok(by_member)
    }

    /// The sums of `values` by recursive halving and doubling.
    pub(super) fn tree(
        &self,
        values: &[Output],
        elements: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let power = 1 << values.len().ilog2();
        // With a member count that is no power of two, the first `pairs` pairs merge: the second
        // member adds its value to the first's and sits out.
        let pairs = values.len() - power;
        let is_second = |member: usize| member < 2 * pairs && !member.is_multiple_of(2);
        let part: Vec<usize> = self.all().into_iter().filter(|it| !is_second(*it)).collect();
        let mut held = Vec::with_capacity(power);
        for member in &part {
            held.push(match *member < 2 * pairs {
                true => self.on(*member, || values[*member].add(&values[member + 1]))?,
                false => values[*member].clone(),
            });
        }
        let held = self.swapped(&part, held, elements)?;
        let mut sums: Vec<Option<Output>> = vec![None; values.len()];
        for (member, sum) in part.into_iter().zip(held) {
            if member < 2 * pairs {
                sums[member + 1] = Some(self.on(member + 1, || sum.identity()));
            }
            sums[member] = Some(sum);
        }
        Ok(sums.into_iter().flatten().collect())
    }

    /// The sums of what each of `part`, a power of two, holds: halves are added in rounds, and
    /// joined again in as many.
    fn swapped(
        &self,
        part: &[usize],
        mut held: Vec<Output>,
        elements: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let distances = || (0..part.len().ilog2()).map(|round| 1 << round);
        let mut lengths = vec![elements; part.len()];
        let mut before = None;
        for distance in distances() {
            held = self.halved(part, &held, &mut lengths, (before, distance))?;
            before = Some(distance);
        }
        for (member, sum) in part.iter().zip(&mut held) {
            *sum = self.scaled(*member, sum.clone())?;
        }
        for distance in distances().rev() {
            let both = |at: usize| [&held[at & !distance], &held[at | distance]];
            held = (part.iter().enumerate())
                .map(|(at, member)| self.on(*member, || concat(&both(at), 0)))
                .collect::<Result<_, _>>()?;
        }
        Ok(held)
    }

    /// A round of halving: each of `part` has one half of what it holds added to that of the member
    /// `distance` away, which takes the other. The one with the lower number takes the first half.
    ///
    /// Each begins once its partner of the round `before` has what it sent it then, if that is
    /// large. A member that comes late has all of its partners' halves already: it would send those
    /// of all rounds at once, and the first one, with the longest way to go, would come last.
    fn halved(
        &self,
        part: &[usize],
        held: &[Output],
        lengths: &mut [usize],
        (before, distance): (Option<usize>, usize),
    ) -> Result<Vec<Output>, GraphError> {
        let mut halves = Vec::with_capacity(part.len());
        for (at, (member, length)) in part.iter().zip(&*lengths).enumerate() {
            let is_large = length * held[at].tensor_type().dtype.size() >= LARGE;
            let partner = before.filter(|_| is_large).map(|before| held[at ^ before].target());
            let second = *length / 2;
            let split = || held[at].split(&[*length - second, second], 0);
            halves.push(
                self.graph
                    .with_control_dependencies(&partner.iter().collect::<Vec<_>>(), |_| {
                        self.on(*member, split)
                    })?,
            );
        }
        let mut sums = Vec::with_capacity(part.len());
        for (at, member) in part.iter().enumerate() {
            let own = usize::from(at & distance != 0);
            let second = lengths[at] / 2;
            lengths[at] = if own == 0 { lengths[at] - second } else { second };
            let (lower, upper) = (&halves[at & !distance][own], &halves[at | distance][own]);
            sums.push(self.on(*member, || lower.add(upper))?);
        }
        Ok(sums)
    }

    /// The sums of `values`: each member sums a piece of all, in their order.
    pub(super) fn shuffle(
        &self,
        values: &[Output],
        elements: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let all = self.all();
        let sizes = pieces(elements, all.len());
        let cut = self.cut(&all, values, &sizes)?;
        let (first, others) = cut.split_first().expect("there are several members");
        let mut sums = Vec::with_capacity(sizes.len());
        for owner in 0..sizes.len() {
            let others: Vec<&Output> = others.iter().map(|pieces| &pieces[owner]).collect();
            let sum = self.on(owner, || first[owner].add_all(&others))?;
            sums.push(self.scaled(owner, sum)?);
        }
        self.joined(&all, &vec![sums; all.len()])
    }

    /// Runs `build`, whose operations are on the device of `member`.
    fn on<T>(&self, member: usize, build: impl FnOnce() -> T) -> T {
        self.graph.beside(self.homes[member], self.at, build)
    }

    /// The pieces of `values`, one of each of `members`.
    fn cut(
        &self,
        members: &[usize],
        values: &[Output],
        sizes: &[usize],
    ) -> Result<Vec<Vec<Output>>, GraphError> {
        let cut = |(member, value): (&usize, &Output)| match sizes {
            [_] => Ok(vec![value.clone()]),
            several => self.on(*member, || value.split(several, 0)),
        };
        members.iter().zip(values).map(cut).collect()
    }

    /// The sum of each piece, on the member of `ring` with its number: the next one's, and that of
    /// each one after it, added there.
    ///
    /// Built hop by hop, as operations are run in that order: a member that comes late sends first
    /// what has the longest way to go.
    fn summed_around(
        &self,
        ring: &[usize],
        cut: &[Vec<Output>],
    ) -> Result<Vec<Output>, GraphError> {
        let at = |piece: usize, hop: usize| (piece + 1 + hop) % ring.len();
        let mut sums: Vec<Output> =
            (0..cut[0].len()).map(|piece| cut[at(piece, 0)][piece].clone()).collect();
        for hop in 1..ring.len() {
            for (piece, sum) in sums.iter_mut().enumerate() {
                let at = at(piece, hop);
                *sum = self.on(ring[at], || sum.add(&cut[at][piece]))?;
            }
        }
        Ok(sums)
    }

    /// The pieces that each of `ring` has once `sums`, each on the member with its number, have
    /// gone around.
    fn passed_around(&self, ring: &[usize], sums: &[Output]) -> Vec<Vec<Output>> {
        let mut whole = vec![sums.to_vec(); ring.len()];
        let mut passed = sums.to_vec();
        for hop in 1..ring.len() {
            for (piece, sum) in passed.iter_mut().enumerate() {
                let at = (piece + hop) % ring.len();
                *sum = self.on(ring[at], || sum.identity());
                whole[at][piece] = sum.clone();
            }
        }
        whole
    }

    /// The pieces of each of `members`, joined on its device.
    fn joined(&self, members: &[usize], pieces: &[Vec<Output>]) -> Result<Vec<Output>, GraphError> {
        let join = |(member, pieces): (&usize, &Vec<Output>)| match pieces.as_slice() {
            [only] => Ok(self.on(*member, || only.identity())),
            several => self.on(*member, || concat(&several.iter().collect::<Vec<_>>(), 0)),
        };
        members.iter().zip(pieces).map(join).collect()
    }

    /// A whole sum, or mean, on the device of `member`.
    fn scaled(&self, member: usize, sum: Output) -> Result<Output, GraphError> {
        let Some(scale) = self.scale else { return Ok(sum) };
        self.on(member, || sum.mul(&sum.scalar_alike(scale.into())))
    }
}

/// The sizes of the pieces of `elements`, for at most `owners`: as equal as they can be, and none
/// empty but of a value without elements.
fn pieces(elements: usize, owners: usize) -> Vec<usize> {
    let count = owners.min(elements).max(1);
    (0..count).map(|piece| elements / count + usize::from(piece < elements % count)).collect()
}
