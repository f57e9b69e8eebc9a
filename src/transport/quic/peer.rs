//! Another task: what waits to be sent to it, the ways to it, and which life it is in.
//!
//! A connection belongs to an epoch: the number of times that the way between the two tasks has
//! broken. When a connection breaks, both ends give up all that they have to each other, and the
//! epoch ends; a dialer whose epoch is over begins anew. So both ends count the same losses, and
//! nothing arrives from before one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::super::{Loss, Messages, Payload, PeerId, envelope_size};
use super::hello::{Close, Hello, Refusal};
use super::link::{Link, Side};
use super::node::Node;
use crate::cluster::TaskName;

/// Earlier lives of a task that are remembered, so that none comes back.
const REMEMBERED_LIVES: usize = 64;

/// Another task.
pub(super) struct Peer<M> {
    pub(super) id: PeerId,
    pub(super) name: TaskName,
    /// Where it listens, `host:port`; unknown where only it knows us.
    pub(super) address: Option<String>,
    state: RefCell<State<M>>,
}

struct State<M> {
    /// With the bytes of each.
    queue: VecDeque<(Messages<M>, usize)>,
    /// What is in the queue, and what has left it and is being written \[bytes\].
    waiting: usize,
    /// The first is what is sent on; a second is there where both ends dialed.
    links: Vec<Rc<Link>>,
    epoch: u64,
    incarnation: Option<u64>,
    earlier: VecDeque<u64>,
    is_dialing: bool,
    /// Why it has not been reached.
    trouble: Option<String>,
    has_stopped: bool,
}

impl<M: Payload> Peer<M> {
    pub(super) fn new(id: PeerId, name: TaskName, address: Option<String>) -> Self {
        let state = State {
            queue: VecDeque::new(),
            waiting: 0,
            links: Vec::new(),
            epoch: 0,
            incarnation: None,
            earlier: VecDeque::new(),
            is_dialing: false,
            trouble: None,
            has_stopped: false,
        };
        Self { id, name, address, state: RefCell::new(state) }
    }

    /// Queues `messages`. False where there is no room.
    pub(super) fn push(&self, messages: Messages<M>, room: usize) -> bool {
        let state = &mut *self.state.borrow_mut();
        let size = envelope_size(&messages).0 as usize;
        let has_room = state.waiting.saturating_add(size) <= room;
        if has_room {
            state.waiting += size;
            state.queue.push_back((messages, size));
        }
        has_room
    }

    /// The next that `link` is to send, and its size; none where another link is to.
    pub(super) fn pop(&self, link: &Rc<Link>) -> Option<(Messages<M>, usize)> {
        let state = &mut *self.state.borrow_mut();
        let is_first = state.links.first().is_some_and(|first| Rc::ptr_eq(first, link));
        if is_first { state.queue.pop_front() } else { None }
    }

    /// So much of what was queued has been written on `link`.
    pub(super) fn written(&self, link: &Link, size: usize) {
        if link.is_alive.get() {
            let state = &mut *self.state.borrow_mut();
            state.waiting = state.waiting.saturating_sub(size);
        }
    }

    /// The link that things are sent on.
    pub(super) fn way(&self) -> Option<Rc<Link>> {
        self.state.borrow().links.first().map(Rc::clone)
    }

    pub(super) fn links(&self) -> Vec<Rc<Link>> {
        self.state.borrow().links.clone()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.state.borrow().epoch
    }

    pub(super) fn is_owed(&self) -> bool {
        let state = self.state.borrow();
        !state.queue.is_empty() && !state.has_stopped
    }

    /// Whether somebody should dial, who then does.
    pub(super) fn begin_dialing(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_needed = state.links.is_empty() && !state.queue.is_empty() && self.address.is_some();
        is_needed && !std::mem::replace(&mut state.is_dialing, true)
    }

    /// Whether who dials can end, because there is a way or nothing to send.
    pub(super) fn end_dialing(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_over = !state.links.is_empty() || state.queue.is_empty();
        if is_over {
            state.is_dialing = false;
        }
        is_over
    }

    pub(super) fn note_trouble(&self, why: String) {
        self.state.borrow_mut().trouble = Some(why);
    }

    /// Why what is here for it has not been sent; none where nothing waits.
    pub(super) fn waits_because(&self) -> Option<String> {
        let state = self.state.borrow();
        let waits = state.links.is_empty() && !state.queue.is_empty();
        let unknown = if self.address.is_some() {
            "it has not answered yet"
        } else {
            "its address is not known"
        };
        waits.then(|| state.trouble.clone().unwrap_or_else(|| unknown.to_owned()))
    }

    /// Takes note of who is at the other end of a connection, which may mean that what was there
    /// before is lost. Gives the epoch that the connection belongs to.
    pub(super) fn greet(&self, node: &Node<M>, side: Side, hello: &Hello) -> Result<u64, Refusal> {
        let (known, is_earlier, has_links, is_again) = {
            let state = self.state.borrow();
            let is_again = state.links.iter().any(|link| link.side == side);
            let is_earlier = state.earlier.contains(&hello.incarnation);
            (state.incarnation, is_earlier, !state.links.is_empty(), is_again)
        };
        if is_earlier {
            return Err(Refusal::Outlived(self.name.clone()));
        }
        let has_restarted = known.is_some_and(|known| known != hello.incarnation);
        if has_restarted && has_links {
            self.lose(node, Loss::Restarted, Close::Lost);
        } else if has_restarted {
            node.report(self, Loss::Restarted);
        } else if has_links && (is_again || hello.epoch > self.epoch()) {
            self.lose(node, Loss::Silent, Close::Lost);
        }
        let state = &mut *self.state.borrow_mut();
        if let Some(earlier) = known.filter(|_| has_restarted) {
            state.earlier.push_back(earlier);
            if state.earlier.len() > REMEMBERED_LIVES {
                state.earlier.pop_front();
            }
        }
        state.incarnation = Some(hello.incarnation);
        state.epoch = state.epoch.max(hello.epoch);
        Ok(state.epoch)
    }

    /// Takes a link of `epoch` into use. False where that has ended meanwhile.
    pub(super) fn join(&self, link: &Rc<Link>, epoch: u64) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_current = state.epoch == epoch;
        if is_current {
            state.links.push(Rc::clone(link));
            state.trouble = None;
            state.has_stopped = false;
        }
        is_current
    }

    /// The way to the peer has broken: whatever was under way is lost, and an epoch ends.
    pub(super) fn lose(&self, node: &Node<M>, loss: Loss, close: Close) {
        let links = {
            let state = &mut *self.state.borrow_mut();
            state.epoch += 1;
            state.queue.clear();
            state.waiting = 0;
            state.has_stopped = loss == Loss::Stopped;
            std::mem::take(&mut state.links)
        };
        for link in &links {
            link.is_alive.set(false);
            if loss != Loss::Stopped {
                link.connection.close(close.code(), loss.to_string().as_bytes());
            }
            link.wake.notify_one();
        }
        if links.iter().any(|link| !link.sent.is_taken.get()) {
            node.note_unflushed();
        }
        node.report(self, loss);
        node.progress.notify_waiters();
    }
}
