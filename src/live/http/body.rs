//! The bodies of answers: a text, or events that come as time passes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::time::{Interval, interval};

use super::{Events, STREAMS, Shared};

/// The time between two events.
const PERIOD: Duration = Duration::from_millis(500);
/// The last event of a stream whose run is over.
pub(super) const OVER: &str = "event: over\ndata: {}\n\n";

/// The body of an answer.
pub(super) enum Body {
    /// A text that is not sent yet.
    Text(Option<Bytes>),
    Events(Stream),
}

/// A stream of events; each is made when the asker has taken the one before.
pub(super) struct Stream {
    events: Box<dyn Events>,
    ticks: Interval,
    shared: Arc<Shared>,
    is_over: bool,
}

impl Body {
    pub(super) fn text(text: String) -> Self {
        Self::Text(Some(text.into()))
    }

    /// A stream of `events`; none if there are as many as there may be.
    pub(super) fn events(events: Box<dyn Events>, shared: &Arc<Shared>) -> Option<Self> {
        let free = |open: usize| (open < STREAMS).then_some(open + 1);
        shared.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        let (ticks, shared) = (interval(PERIOD), Arc::clone(shared));
        Some(Self::Events(Stream { events, ticks, shared, is_over: false }))
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Events(_))
    }
}

impl Stream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        ready!(self.ticks.poll_tick(context));
        self.is_over = self.shared.is_over.load(Ordering::Relaxed);
        let mut text = format!("data: {}\n\n", self.events.next());
        if self.is_over {
            text.push_str(OVER);
        }
        Poll::Ready(Some(text.into()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Text(text) => text.take().filter(|text| !text.is_empty()),
            Self::Events(stream) => ready!(stream.poll(context)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}
