//! The cores of a host, shared by the threads that run on it.
//!
//! Processor sharing: with `c` cores and `r` runnable threads, each thread runs at full speed, or
//! at the speed e·c/r where there are more threads than cores: these take turns, find their caches
//! cold and leave gaps, so that a share `e` of what the cores can do is left. All threads of a host
//! have the same speed, so the host keeps a single count of the time at full speed that it has
//! *served* each of them. A piece of work ends when that count reaches its *finish*; a new speed
//! moves no finish.
//!
//! A thread that polls for messages runs, too, though it does no work: it takes a share of what a
//! thread that works takes, until it gets something to do or gives up.

use std::collections::VecDeque;

use crate::units::Time;

/// A piece's place among all pieces that ever began; it breaks ties.
pub(super) type Number = u64;

/// The cores of one host, and the pieces of work that run on them.
pub(super) struct Cores {
    cores: u32,
    /// The number of runnable threads.
    threads: u64,
    /// The time at full speed that each piece has had, up to `at` \[ns\].
    served: f64,
    at: Time,
    /// The pieces that run, the next to end last.
    running: Vec<Running>,
    /// The queues that poll, each with the time at which it gives up; the first to do so first.
    pollers: VecDeque<(Time, usize)>,
    /// The share of a runnable thread that a thread that polls takes.
    polling: f64,
    /// The share of their speed that the cores have while more threads run than there are cores.
    crowded: f64,
    /// The next end, and the number of the piece that ends.
    next: Option<(Time, Number)>,
}

#[derive(Clone, Copy)]
struct Running {
    finish: f64,
    number: Number,
    queue: usize,
    threads: u32,
}

impl Cores {
    pub(super) fn new(cores: u32) -> Self {
        assert!(cores > 0, "a host has at least one core");
        let (running, pollers) = (Vec::new(), VecDeque::new());
        let (served, polling, at, next) = (0.0, 0.0, Time::ZERO, None);
        Self { cores, threads: 0, served, at, running, pollers, polling, crowded: 1.0, next }
    }

    /// Sets the share of a runnable thread that a thread that polls takes.
    pub(super) fn set_polling(&mut self, share: f64) {
        self.polling = share;
    }

    /// Sets the share of their speed that the cores have while they are crowded.
    pub(super) fn set_crowded(&mut self, share: f64) {
        self.crowded = share;
    }

    /// The message thread of `queue` begins to poll. None that polls gives up later than `until`.
    pub(super) fn begin_polling(&mut self, now: Time, queue: usize, until: Time) {
        if self.polling > 0.0 {
            self.serve(now);
            self.pollers.push_back((until, queue));
            self.find_next();
        }
    }

    /// The message thread of `queue` no longer polls. Returns whether it did.
    pub(super) fn end_polling(&mut self, now: Time, queue: usize) -> bool {
        let polls = self.pollers.iter().any(|(_, other)| *other == queue);
        if polls {
            self.serve(now);
            self.pollers.retain(|(_, other)| *other != queue);
            self.find_next();
        }
        polls
    }

    /// The time at which the next piece ends, and its number.
    pub(super) fn next(&self) -> Option<(Time, Number)> {
        self.next
    }

    /// Begins a piece of `queue` that takes `span` \[ns\] at full speed, on `threads` threads; no
    /// more of them run than there are cores.
    pub(super) fn begin(
        &mut self,
        now: Time,
        (queue, number): (usize, Number),
        span: f64,
        threads: u32,
    ) {
        self.serve(now);
        let threads = threads.min(self.cores);
        let new = Running { finish: self.served + span, number, queue, threads };
        self.threads += u64::from(threads);
        let ends_after = |other: &Running| {
            other.finish.total_cmp(&new.finish).then(other.number.cmp(&number)).is_gt()
        };
        let place = self.running.partition_point(ends_after);
        self.running.insert(place, new);
        self.find_next();
    }

    /// Ends the piece whose end is `now`, the next end. Returns its queue.
    pub(super) fn end(&mut self, now: Time) -> usize {
        assert_eq!(self.next.map(|(at, _)| at), Some(now), "a piece ends at its host's next end");
        self.serve(now);
        let ended = self.running.pop().expect("a host with a next end runs something");
        self.threads -= u64::from(ended.threads);
        self.find_next();
        ended.queue
    }

    /// Stops the piece of `queue` before its end. Returns what is left of it at full speed \[ns\].
    pub(super) fn stop(&mut self, now: Time, queue: usize) -> f64 {
        self.serve(now);
        let place = self.running.iter().position(|piece| piece.queue == queue);
        let stopped = self.running.remove(place.expect("a piece is stopped while it runs"));
        self.threads -= u64::from(stopped.threads);
        self.find_next();
        (stopped.finish - self.served).max(0.0)
    }

    /// Serves all pieces up to `now`.
    fn serve(&mut self, now: Time) {
        while let Some((until, _)) = self.pollers.front().copied().filter(|(at, _)| *at <= now) {
            self.serve_until(until.max(self.at));
            self.pollers.pop_front();
        }
        self.serve_until(now);
    }

    /// Serves all pieces up to `until`, while nothing changes.
    fn serve_until(&mut self, until: Time) {
        self.served = if self.running.is_empty() {
            0.0 // an idle host counts anew, so that whole nanoseconds stay exact
        } else {
            let speed = self.speed(self.pollers.len());
            self.served + speed * until.since(self.at).as_nanos() as f64
        };
        self.at = until;
    }

    fn find_next(&mut self) {
        self.next = self.running.last().map(|piece| (self.end_of(piece), piece.number));
    }

    /// The time at which `piece` ends, if none begins or ends before that, and all that poll do so
    /// until they give up.
    fn end_of(&self, piece: &Running) -> Time {
        let (mut left, mut at) = ((piece.finish - self.served).max(0.0), self.at);
        let mut polling = self.pollers.len();
        for (until, _) in &self.pollers {
            let speed = self.speed(polling);
            let span = until.since(at).as_nanos() as f64 * speed;
            if left <= span {
                break;
            }
            (left, at) = (left - span, (*until).max(at));
            polling -= 1;
        }
        let left = left / self.speed(polling);
        Time(at.0.saturating_add(left.round() as u64))
    }

    /// The speed of each runnable thread beside `pollers`, as a share of a core's.
    fn speed(&self, pollers: usize) -> f64 {
        let (cores, threads) = (f64::from(self.cores), self.threads as f64);
        let runnable = threads + self.polling * pollers as f64;
        if runnable <= cores { 1.0 } else { self.crowded * cores / runnable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs pieces given as (begin, span, threads) on `cores`. Returns, by piece, its end.
    fn ends(cores: u32, pieces: &[(u64, u64, u32)]) -> Vec<u64> {
        let mut host = Cores::new(cores);
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|piece| pieces[*piece].0);
        let (mut to_begin, mut ends) = (order.into_iter().peekable(), vec![0; pieces.len()]);
        loop {
            let begin = to_begin.peek().map(|piece| Time(pieces[*piece].0));
            match (begin, host.next()) {
                (Some(begin), next) if next.is_none_or(|(end, _)| begin < end) => {
                    let piece = to_begin.next().unwrap();
                    let (_, span, threads) = pieces[piece];
                    host.begin(begin, (piece, piece as u64), span as f64, threads);
                }
                (_, Some((end, _))) => ends[host.end(end)] = end.0,
                (_, None) => return ends,
            }
        }
    }

    #[test]
    fn equal_pieces_on_too_few_cores_take_their_number_over_the_cores_times_as_long() {
        for (cores, pieces) in [(1, 2), (2, 3), (2, 4), (4, 10), (8, 3)] {
            let span = 840_000;
            let expected = span * pieces.max(cores) / cores;
            let all = vec![(5, span, 1); pieces as usize];
            assert_eq!(ends(cores as u32, &all), vec![5 + expected; pieces as usize]);
        }
    }

    #[test]
    fn a_thread_that_polls_takes_its_share_until_it_gives_up_or_gets_work() {
        let mut host = Cores::new(1);
        host.set_polling(1.0);
        host.begin(Time(0), (0, 0), 100.0, 1);
        host.begin_polling(Time(0), 1, Time(60));
        assert_eq!(host.next(), Some((Time(130), 0)), "at half speed for 60, then alone for 70");
        host.end_polling(Time(20), 1);
        assert_eq!(host.next(), Some((Time(110), 0)), "at half speed for 20, then alone for 90");
        host.begin_polling(Time(30), 1, Time(50));
        host.begin_polling(Time(40), 2, Time(60));
        assert_eq!(host.end(host.next().unwrap().0), 0);
    }

    #[test]
    fn crowded_cores_do_less_in_all_and_others_do_not() {
        let mut host = Cores::new(2);
        host.set_crowded(0.5);
        for queue in 0..3 {
            host.begin(Time(0), (queue, queue as u64), 100.0, 1);
        }
        assert_eq!(host.next(), Some((Time(300), 0)), "at a half of two thirds of a core");
        host.stop(Time(150), 2);
        assert_eq!(host.next(), Some((Time(200), 0)), "two have a core each");
    }

    #[test]
    fn an_end_moves_when_another_piece_begins_or_ends() {
        // Alone for 100, at half speed for 200 while the second runs, alone for the last 50.
        assert_eq!(ends(1, &[(0, 250, 1), (100, 100, 1)]), [350, 300]);
    }

    #[test]
    fn a_piece_that_spreads_counts_as_one_thread_a_core_and_no_more() {
        assert_eq!(ends(2, &[(0, 100, 2)]), [100], "alone it has all cores");
        assert_eq!(ends(2, &[(0, 100, 2), (0, 100, 2)]), [200, 200]);
        assert_eq!(ends(2, &[(0, 200, 9), (0, 200, 1)]), [300, 300], "two threads of three");
        assert_eq!(ends(2, &[(0, 100, 1), (0, 100, 1)]), [100, 100]);
    }

    #[test]
    fn a_stopped_piece_has_what_it_has_not_had() {
        let mut host = Cores::new(1);
        host.begin(Time(0), (0, 0), 100.0, 1);
        host.begin(Time(0), (1, 1), 100.0, 1);
        assert_eq!(host.stop(Time(60), 0), 70.0);
        assert_eq!(host.next(), Some((Time(130), 1)), "the other has the core to itself");
    }

    #[test]
    fn pieces_that_end_at_one_time_end_in_the_order_in_which_they_began() {
        let mut host = Cores::new(8);
        for (queue, number) in [(7, 0), (3, 1), (5, 2)] {
            host.begin(Time(0), (queue, number), 100.0, 1);
        }
        let order: Vec<usize> = (0..3).map(|_| host.end(Time(100))).collect();
        assert_eq!(order, [7, 3, 5]);
    }

    proptest! {
        /// No work is lost or made up: the cores are as busy as they can be until all is done.
        #[test]
        fn work_is_conserved_and_nobody_starves(
            cores in 1u32..5,
            pieces in prop::collection::vec((0u64..2_000, 1u64..1_000, 1u32..2), 1..30),
        ) {
            let ended = ends(cores, &pieces);
            let last = *ended.iter().max().unwrap();
            let work: u64 = pieces.iter().map(|(_, span, _)| span).sum();
            let first = pieces.iter().map(|(begin, ..)| *begin).min().unwrap();
            prop_assert!((last - first + 1) * u64::from(cores) >= work);
            for ((begin, span, _), end) in pieces.iter().zip(&ended) {
                let alone = begin + span;
                let slots = pieces.len().div_ceil(cores as usize) as u64;
                // Rounding moves an end by half a nanosecond for each piece before it.
                let slack = pieces.len() as u64;
                prop_assert!(*end + slack >= alone, "nobody runs faster than alone");
                prop_assert!(*end <= begin + span * slots + slack, "each has its share");
            }
            let busy = busy_time(&pieces, &ended, cores);
            let rounding = (pieces.len() * pieces.len()) as f64;
            prop_assert!((busy - work as f64).abs() <= rounding, "{busy} of {work}");
        }
    }

    /// The time that the cores are busy between the first beginning and the last end \[ns\].
    fn busy_time(pieces: &[(u64, u64, u32)], ended: &[u64], cores: u32) -> f64 {
        let mut times: Vec<u64> =
            pieces.iter().map(|piece| piece.0).chain(ended.iter().copied()).collect();
        times.sort_unstable();
        let between = |pair: &[u64]| {
            let runs =
                |(piece, end): &(&(u64, u64, u32), &u64)| piece.0 <= pair[0] && **end >= pair[1];
            let threads = pieces.iter().zip(ended).filter(runs).count() as u64;
            threads.min(cores.into()) as f64 * (pair[1] - pair[0]) as f64
        };
        times.windows(2).map(between).sum()
    }
}
