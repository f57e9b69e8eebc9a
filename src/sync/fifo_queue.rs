//! A queue with a capacity, which serves those that wait in the order of their arrival.

use std::collections::VecDeque;

/// TensorFlow's `FIFOQueue` of elements `T`, with waiting requesters `W`.
///
/// Elements that are enqueued or dequeued together go one by one, as room and elements allow, so
/// that a request can be for more than fit at a time. Methods return the answers that are now due.
#[derive(Debug)]
pub(crate) struct QueueState<W, T> {
    /// The most elements that it holds; unbounded if `None`.
    capacity: Option<usize>,
    elements: VecDeque<T>,
    enqueuers: VecDeque<Enqueuer<W, T>>,
    dequeuers: VecDeque<Dequeuer<W, T>>,
    is_closed: bool,
}

#[derive(Debug)]
enum Enqueuer<W, T> {
    Elements(W, VecDeque<T>),
    /// Closes the queue once those before it are done.
    Close(W),
}

#[derive(Debug)]
struct Dequeuer<W, T> {
    who: W,
    wants: usize,
    /// Whether it takes fewer elements if the queue is closed before it has all.
    or_less: bool,
    taken: Vec<T>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<W, T> {
    /// The elements are in the queue or the queue is closed, as requested.
    Done(W),
    /// The elements.
    Taken(W, Vec<T>),
    /// The queue is closed, and takes no more elements.
    Closed(W),
    /// The queue is closed, and has fewer elements than were asked for.
    Exhausted {
        /// The requester.
        who: W,
        /// The number of elements requested.
        wanted: usize,
        /// The number of elements in the queue.
        size: usize,
    },
}

type Answers<W, T> = Vec<Answer<W, T>>;

impl<W, T> QueueState<W, T> {
    /// Creates an empty queue of at most `capacity` elements.
    pub(crate) fn new(capacity: Option<usize>) -> Self {
        let (elements, enqueuers, dequeuers) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { capacity, elements, enqueuers, dequeuers, is_closed: false }
    }

    /// The number of elements in the queue.
    pub(crate) fn size(&self) -> usize {
        self.elements.len()
    }

    /// Whether the queue takes no more elements.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Puts `elements` into the queue, as soon as there is room.
    pub(crate) fn enqueue(&mut self, who: W, elements: Vec<T>) -> Answers<W, T> {
        self.enqueuers.push_back(Enqueuer::Elements(who, elements.into()));
        self.settle()
    }

    /// Takes `wants` elements, as soon as there are as many. With `or_less`, takes the rest of a
    /// closed queue if any is left.
    pub(crate) fn dequeue(&mut self, who: W, wants: usize, or_less: bool) -> Answers<W, T> {
        self.dequeuers.push_back(Dequeuer { who, wants, or_less, taken: Vec::new() });
        self.settle()
    }

    /// Closes the queue: after the waiting enqueuers are served, or at once and refusing them.
    pub(crate) fn close(&mut self, who: W, cancel_pending_enqueues: bool) -> Answers<W, T> {
        let mut answers = Vec::new();
        if cancel_pending_enqueues {
            self.is_closed = true;
            answers.extend(self.enqueuers.drain(..).map(Enqueuer::refuse));
        }
        self.enqueuers.push_back(Enqueuer::Close(who));
        answers.extend(self.settle());
        answers
    }

    /// Removes the waiting requesters that `is_gone` marks; the elements that they had taken go
    /// back.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&W) -> bool) -> Answers<W, T> {
        self.enqueuers.retain(|enqueuer| !is_gone(enqueuer.who()));
        for mut dequeuer in std::mem::take(&mut self.dequeuers) {
            if is_gone(&dequeuer.who) {
                self.give_back(&mut dequeuer.taken);
            } else {
                self.dequeuers.push_back(dequeuer);
            }
        }
        self.settle()
    }

    /// The waiting enqueuers, and the waiting dequeuers.
    pub(crate) fn waiting(&self) -> (impl Iterator<Item = &W>, impl Iterator<Item = &W>) {
        (
            self.enqueuers.iter().map(Enqueuer::who),
            self.dequeuers.iter().map(|dequeuer| &dequeuer.who),
        )
    }

    /// Empties the queue and returns all waiting requesters.
    pub(crate) fn clear(&mut self) -> Vec<W> {
        self.elements.clear();
        let enqueuers = self.enqueuers.drain(..).map(|enqueuer| match enqueuer {
            Enqueuer::Elements(who, _) | Enqueuer::Close(who) => who,
        });
        enqueuers.chain(self.dequeuers.drain(..).map(|dequeuer| dequeuer.who)).collect()
    }

    /// Serves the first requester on either side, and the next, as long as anything moves.
    fn settle(&mut self) -> Answers<W, T> {
        let mut answers = Vec::new();
        loop {
            let before = answers.len();
            while let Some(answer) = self.serve_enqueuer() {
                answers.push(answer);
            }
            while let Some(answer) = self.serve_dequeuer() {
                answers.push(answer);
            }
            // A dequeuer that still wants more can have made room.
            let has_moved = answers.len() > before || self.can_enqueue();
            if !has_moved {
                return answers;
            }
        }
    }

    fn has_room(&self) -> bool {
        self.capacity.is_none_or(|capacity| self.elements.len() < capacity)
    }

    fn can_enqueue(&self) -> bool {
        self.has_room() && !self.enqueuers.is_empty()
    }

    /// The first enqueuer's answer, once it is done.
    fn serve_enqueuer(&mut self) -> Option<Answer<W, T>> {
        if self.is_closed {
            return self.enqueuers.pop_front().map(Enqueuer::refuse);
        }
        while self.has_room()
            && let Some(Enqueuer::Elements(_, left)) = self.enqueuers.front_mut()
            && let Some(element) = left.pop_front()
        {
            self.elements.push_back(element);
        }
        match self.enqueuers.front()? {
            Enqueuer::Elements(_, left) if !left.is_empty() => None,
            _ => self.enqueuers.pop_front().map(|enqueuer| match enqueuer {
                Enqueuer::Elements(who, _) => Answer::Done(who),
                Enqueuer::Close(who) => {
                    self.is_closed = true;
                    Answer::Done(who)
                }
            }),
        }
    }

    /// The first dequeuer's answer, once it has all it wants or can no longer get it.
    fn serve_dequeuer(&mut self) -> Option<Answer<W, T>> {
        let dequeuer = self.dequeuers.front_mut()?;
        let missing = dequeuer.wants - dequeuer.taken.len();
        dequeuer.taken.extend(self.elements.drain(..missing.min(self.elements.len())));
        let has_all = dequeuer.taken.len() == dequeuer.wants;
        if !has_all && !self.is_closed {
            return None;
        }
        let Dequeuer { who, wants, or_less, mut taken } = self.dequeuers.pop_front()?;
        if has_all || (or_less && !taken.is_empty()) {
            return Some(Answer::Taken(who, taken));
        }
        let size = taken.len();
        self.give_back(&mut taken);
        Some(Answer::Exhausted { who, wanted: wants, size })
    }

    fn give_back(&mut self, taken: &mut Vec<T>) {
        taken.drain(..).rev().for_each(|element| self.elements.push_front(element));
    }
}

impl<W, T> Enqueuer<W, T> {
    fn who(&self) -> &W {
        match self {
            Self::Elements(who, _) | Self::Close(who) => who,
        }
    }

    /// The answer of a closed queue; closing it again is done at once.
    fn refuse(self) -> Answer<W, T> {
        match self {
            Self::Elements(who, _) => Answer::Closed(who),
            Self::Close(who) => Answer::Done(who),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer::{Closed, Done, Exhausted, Taken};
    use super::*;

    /// A queue of numbers whose requesters are known by name.
    fn queue(capacity: usize) -> QueueState<&'static str, i32> {
        QueueState::new(Some(capacity))
    }

    #[test]
    fn elements_come_out_in_the_order_in_which_they_went_in() {
        let mut queue = queue(10);
        assert_eq!(queue.enqueue("a", vec![1, 2, 3]), [Done("a")]);
        assert_eq!(queue.dequeue("b", 1, false), [Taken("b", vec![1])]);
        assert_eq!(queue.dequeue("c", 2, false), [Taken("c", vec![2, 3])]);
        assert_eq!(queue.size(), 0);
    }

    #[test]
    fn a_full_queue_makes_the_next_wait_in_order_until_there_is_room() {
        let mut queue = queue(1);
        assert_eq!(queue.enqueue("a", vec![1]), [Done("a")]);
        assert_eq!(queue.enqueue("b", vec![2]), []);
        assert_eq!(queue.enqueue("c", vec![3]), []);
        assert_eq!(queue.dequeue("x", 1, false), [Taken("x", vec![1]), Done("b")]);
        assert_eq!(queue.dequeue("y", 2, false), [Done("c"), Taken("y", vec![2, 3])]);
    }

    #[test]
    fn more_can_be_asked_for_than_fit_at_a_time() {
        let mut queue = queue(2);
        assert_eq!(queue.dequeue("x", 5, false), []);
        assert_eq!(queue.enqueue("a", (0..5).collect()), [Done("a"), Taken("x", (0..5).collect())]);
    }

    #[test]
    fn who_waits_first_is_served_first_even_where_a_later_one_wants_less() {
        let mut queue = queue(10);
        assert_eq!(queue.dequeue("many", 3, false), []);
        assert_eq!(queue.dequeue("one", 1, false), []);
        assert_eq!(queue.enqueue("a", vec![1, 2]), [Done("a")]);
        assert_eq!(
            queue.enqueue("b", vec![3, 4]),
            [Done("b"), Taken("many", vec![1, 2, 3]), Taken("one", vec![4])]
        );
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_gives_what_it_has() {
        let mut queue = queue(10);
        queue.enqueue("a", vec![1, 2, 3]);
        assert_eq!(queue.close("k", false), [Done("k")]);
        assert!(queue.is_closed());
        assert_eq!(queue.enqueue("b", vec![4]), [Closed("b")]);
        assert_eq!(queue.dequeue("x", 1, false), [Taken("x", vec![1])]);
        assert_eq!(queue.dequeue("y", 3, false), [Exhausted { who: "y", wanted: 3, size: 2 }]);
        assert_eq!(queue.dequeue("z", 3, true), [Taken("z", vec![2, 3])]);
        assert_eq!(queue.dequeue("w", 3, true), [Exhausted { who: "w", wanted: 3, size: 0 }]);
        assert_eq!(queue.close("again", true), [Done("again")]);
    }

    #[test]
    fn closing_waits_for_those_who_wait_to_enqueue_or_cancels_them() {
        let mut waits = queue(1);
        waits.enqueue("a", vec![1]);
        waits.enqueue("b", vec![2]);
        assert_eq!(waits.close("k", false), []);
        assert_eq!(waits.enqueue("c", vec![3]), []);
        assert_eq!(
            waits.dequeue("x", 1, false),
            [Taken("x", vec![1]), Done("b"), Done("k"), Closed("c")]
        );
        let mut cancels = queue(1);
        cancels.enqueue("a", vec![1]);
        cancels.enqueue("b", vec![2]);
        assert_eq!(cancels.close("k", true), [Closed("b"), Done("k")]);
        assert_eq!(cancels.size(), 1);
    }

    #[test]
    fn who_is_forgotten_gives_back_what_it_had_taken() {
        let mut queue = queue(3);
        queue.dequeue("gone", 3, false);
        queue.enqueue("a", vec![1, 2]);
        queue.dequeue("next", 2, false);
        assert_eq!(queue.forget(|who| *who == "gone"), [Taken("next", vec![1, 2])]);
        queue.enqueue("b", vec![1, 2, 3]);
        queue.enqueue("late", vec![4]);
        assert_eq!(queue.forget(|who| *who == "late"), []);
        assert_eq!(queue.dequeue("x", 3, false), [Taken("x", vec![1, 2, 3])]);
        assert_eq!(queue.size(), 0, "what the forgotten wanted to enqueue never came");
    }
}
