//! The timeline of a stretch of a simulation, in Chrome's trace format, which Perfetto opens.
//!
//! A task is a process. Its threads are the training steps, whom each step waited for, the message
//! thread, the devices, and the network card in both directions; what uses a card at the same time
//! as something else is on a line of its own. A message is an arrow from card to card. Slices are
//! written as they end, so that memory does not grow with the stretch.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use crate::cluster::TaskName;
use crate::units::{Bytes, Time};

use super::critical_path::Waited;
use super::network::MessageTimes;
use super::processor;

/// The stretch of a run that is written, and where.
#[derive(Clone, Debug)]
pub struct TimelineSpec {
    /// The file; it is written from its beginning.
    pub file: Arc<File>,
    /// The global step after which it begins.
    pub first: u64,
    /// The global step with which it ends.
    pub last: u64,
}

/// The most slices of a timeline. Viewers are slow beyond it.
const MOST: u64 = 1_000_000;

/// A thread of a task's process, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Steps,
    Waits,
    MessageThread,
    Device(u32),
    Lanes,
    MemoryLink(u32),
    CardOut,
    CardIn,
}

impl Track {
    /// The number of its first line among the threads of a process.
    fn thread(self) -> u32 {
        match self {
            Self::Steps => 0,
            Self::Waits => 1,
            Self::MessageThread => 2,
            Self::Device(device) => 3 + device,
            Self::Lanes => 9_999,
            Self::MemoryLink(link) => 10_000 + link,
            Self::CardOut => 20_000,
            Self::CardIn => 100_000,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Steps => "steps".to_owned(),
            Self::Waits => "waits for".to_owned(),
            Self::MessageThread => "message thread".to_owned(),
            Self::Device(device) => format!("device {device}"),
            Self::Lanes => "lanes of large tensors".to_owned(),
            Self::MemoryLink(link) => format!("memory link {link}"),
            Self::CardOut => "card, sending".to_owned(),
            Self::CardIn => "card, receiving".to_owned(),
        }
    }
}

/// A timeline that is being written.
pub(super) struct Timeline {
    out: BufWriter<Arc<File>>,
    first: u64,
    last: u64,
    /// When it began; none before it has.
    began: Option<Time>,
    is_over: bool,
    slices: u64,
    arrows: u64,
    /// For each track of a task its lines, each with the time at which its last slice ends: a slice
    /// goes to a line that is free by then.
    lines: BTreeMap<(usize, Track), Vec<Time>>,
    tasks: Vec<TaskName>,
}

impl Timeline {
    pub(super) fn new(spec: &TimelineSpec, tasks: &[TaskName]) -> Self {
        let mut timeline = Self {
            out: BufWriter::new(Arc::clone(&spec.file)),
            first: spec.first,
            last: spec.last,
            began: (spec.first == 0).then_some(Time::ZERO),
            is_over: false,
            slices: 0,
            arrows: 0,
            lines: BTreeMap::new(),
            tasks: tasks.to_vec(),
        };
        timeline.write(|out, tasks| {
            write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
            for (number, task) in tasks.iter().enumerate() {
                let comma = if number == 0 { "" } else { "," };
                write!(
                    out,
                    "{comma}\n{{\"ph\":\"M\",\"pid\":{number},\"name\":\"process_name\",\
                     \"args\":{{\"name\":\"{task}\"}}}}"
                )?;
            }
            Ok(())
        });
        timeline
    }

    /// Whether what happens now is written.
    pub(super) fn is_on(&self) -> bool {
        self.began.is_some() && !self.is_over
    }

    /// A piece of work of `task` has ended.
    pub(super) fn piece(
        &mut self,
        task: usize,
        unit: processor::ProcessorUnit,
        name: &str,
        began: Time,
        now: Time,
    ) {
        let track = match unit {
            processor::ProcessorUnit::MessageThread => Track::MessageThread,
            processor::ProcessorUnit::Device(device) => Track::Device(device as u32),
            processor::ProcessorUnit::Lanes => Track::Lanes,
            processor::ProcessorUnit::Link(link) => Track::MemoryLink(link as u32),
        };
        self.slice(task, track, name, began, now);
    }

    /// A message has arrived.
    pub(super) fn message(
        &mut self,
        from: usize,
        to: usize,
        size: Bytes,
        times: &MessageTimes,
        now: Time,
    ) {
        let sent = times.began;
        let received = sent.after(now.since(times.left));
        let name = |word: &str, task: usize| format!("{} B {word} {}", size.0, self.tasks[task]);
        let (out, into) = (name("to", to), name("from", from));
        let from_line = self.slice(from, Track::CardOut, &out, sent, times.left);
        let to_line = self.slice(to, Track::CardIn, &into, received, now);
        let (Some(from_line), Some(to_line)) = (from_line, to_line) else { return };
        let arrow = self.arrows;
        self.arrows += 1;
        for (kind, task, line, at) in
            [("s", from, from_line, sent), ("f\",\"bp\":\"e", to, to_line, received)]
        {
            self.write(|out, _| {
                write!(
                    out,
                    ",\n{{\"ph\":\"{kind}\",\"id\":{arrow},\"pid\":{task},\"tid\":{line},\
                     \"ts\":{},\"name\":\"message\",\"cat\":\"message\"}}",
                    Microseconds(at.0)
                )
            });
        }
    }

    /// A training step of `task` has ended, which made `global_step`, and `waited` so, from its end
    /// to its beginning.
    pub(super) fn step(
        &mut self,
        task: usize,
        global_step: u64,
        started: Time,
        now: Time,
        waited: &[Waited],
    ) {
        if self.is_on() && self.began.is_some_and(|began| began <= started) {
            self.slice(task, Track::Steps, &format!("step {global_step}"), started, now);
            for Waited { from, until, task: whom, part } in waited.iter().rev() {
                let name = format!("{}: {}", self.tasks[*whom], part.name());
                self.slice(task, Track::Waits, &name, *from, *until);
            }
        }
        if self.began.is_none() && global_step >= self.first {
            self.began = Some(now);
        }
        if global_step >= self.last {
            self.finish();
        }
    }

    /// Writes a slice on a free line of `track`, whose number it returns; none if the timeline is
    /// not on, or full.
    fn slice(
        &mut self,
        task: usize,
        track: Track,
        name: &str,
        from: Time,
        until: Time,
    ) -> Option<u32> {
        if !self.is_on() {
            return None;
        }
        if self.slices == MOST {
            tracing::warn!("the timeline ends after {MOST} slices; ask for fewer steps");
            self.finish();
            return None;
        }
        self.slices += 1;
        let lines = self.lines.entry((task, track)).or_default();
        let free = lines.iter().position(|end| *end <= from);
        let line = track.thread() + free.unwrap_or(lines.len()) as u32;
        match free {
            Some(free) => lines[free] = until,
            None => lines.push(until),
        }
        let duration = until.since(from).as_nanos() as u64;
        self.write(|out, _| {
            if free.is_none() {
                let (head, track) = (",\n{\"ph\":\"M\",\"pid\":", track.name());
                write!(
                    out,
                    "{head}{task},\"tid\":{line},\"name\":\"thread_name\",\
                     \"args\":{{\"name\":\"{track}\"}}}}\
                     {head}{task},\"tid\":{line},\"name\":\"thread_sort_index\",\
                     \"args\":{{\"sort_index\":{line}}}}}"
                )?;
            }
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"pid\":{task},\"tid\":{line},\"ts\":{},\"dur\":{},\
                 \"name\":\"{name}\"}}",
                Microseconds(from.0),
                Microseconds(duration)
            )
        });
        Some(line)
    }

    /// Writes the end of the file, once.
    fn finish(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.write_end();
        }
    }

    fn write_end(&mut self) {
        let written = write!(self.out, "\n]}}\n").and_then(|()| self.out.flush());
        if let Err(error) = written {
            tracing::error!(%error, "the timeline can't be written to its end");
        }
    }

    /// Writes; an error ends the timeline, and not the run.
    fn write(
        &mut self,
        what: impl FnOnce(&mut BufWriter<Arc<File>>, &[TaskName]) -> io::Result<()>,
    ) {
        if let Err(error) = what(&mut self.out, &self.tasks) {
            tracing::error!(%error, "the timeline can't be written");
            self.is_over = true;
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Nanoseconds, shown as microseconds.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}
