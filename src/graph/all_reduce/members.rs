//! The members of an all-reduce, and what they do with the pieces of their values.

use std::panic::Location;

use crate::graph::{Graph, GraphError, OpId, Output, concat};
use crate::tensor::Shape;

/// The replicas that sum a value, and where each has its own.
pub(super) struct Members<'a> {
    graph: &'a Graph,
    /// By member, an operation on its device.
    homes: Vec<OpId>,
    /// What the whole sum is multiplied by.
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
        let sizes = pieces(elements, ring.len());
        let cut = self.cut(ring, values, &sizes)?;
        let mut whole = vec![Vec::new(); ring.len()];
        for piece in 0..sizes.len() {
            let sum = self.summed_around(ring, piece, &cut)?;
            let sum = self.scaled(ring[piece], sum)?;
            self.pass_around(ring, piece, &sum, &mut whole);
        }
        self.joined(ring, &whole)
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
        let mut cut = Vec::with_capacity(groups.len());
        for group in groups {
            let own: Vec<Output> = group.iter().map(|member| values[*member].clone()).collect();
            cut.push(self.cut(group, &own, &sizes)?);
        }
        let mut whole: Vec<Vec<Vec<Output>>> =
            groups.iter().map(|group| vec![Vec::new(); group.len()]).collect();
        for (piece, size) in sizes.iter().enumerate() {
            let in_groups: Vec<Output> = (groups.iter().zip(&cut))
                .map(|(group, cut)| self.summed_around(group, piece, cut))
                .collect::<Result<_, _>>()?;
            let peers: Vec<usize> = groups.iter().map(|group| group[piece]).collect();
            let sums = self.ring(&peers, &in_groups, *size)?;
            for ((group, sum), whole) in groups.iter().zip(&sums).zip(&mut whole) {
                self.pass_around(group, piece, sum, whole);
            }
        }
        let mut by_member = values.to_vec();
        for (group, whole) in groups.iter().zip(&whole) {
            for (member, sum) in group.iter().zip(self.joined(group, whole)?) {
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
        // Of so many pairs, the second gives all that it has to the first, which takes part.
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
        for distance in distances() {
            held = self.halved(part, &held, &mut lengths, distance)?;
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
    fn halved(
        &self,
        part: &[usize],
        held: &[Output],
        lengths: &mut [usize],
        distance: usize,
    ) -> Result<Vec<Output>, GraphError> {
        let mut halves = Vec::with_capacity(part.len());
        for ((member, held), length) in part.iter().zip(held).zip(&*lengths) {
            let second = *length / 2;
            halves.push(self.on(*member, || held.split(&[*length - second, second], 0))?);
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

    /// The sum of one `piece`, on the member of `ring` with its number: the next one's, and that of
    /// each one after it, added there.
    fn summed_around(
        &self,
        ring: &[usize],
        piece: usize,
        cut: &[Vec<Output>],
    ) -> Result<Output, GraphError> {
        let mut on_the_way = after(ring.len(), piece);
        let first = on_the_way.next().unwrap_or(piece);
        let mut sum = cut[first][piece].clone();
        for at in on_the_way {
            sum = self.on(ring[at], || sum.add(&cut[at][piece]))?;
        }
        Ok(sum)
    }

    /// Gives each of `ring` a `piece` that is whole, from its member with the piece's number on.
    fn pass_around(&self, ring: &[usize], piece: usize, sum: &Output, whole: &mut [Vec<Output>]) {
        let mut sum = sum.clone();
        whole[piece].push(sum.clone());
        for at in after(ring.len(), piece).take(ring.len() - 1) {
            sum = self.on(ring[at], || sum.identity());
            whole[at].push(sum.clone());
        }
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

/// The positions in a ring of `count` after `position`, up to and with it.
fn after(count: usize, position: usize) -> impl Iterator<Item = usize> {
    (1..=count).map(move |step| (position + step) % count)
}

/// The sizes of the pieces of `elements`, for at most `owners`: as equal as they can be, and none
/// empty but of a value without elements.
fn pieces(elements: usize, owners: usize) -> Vec<usize> {
    let count = owners.min(elements).max(1);
    (0..count).map(|piece| elements / count + usize::from(piece < elements % count)).collect()
}
