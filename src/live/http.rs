//! A small HTTP server on a thread of its own: it answers `GET`, and streams events.
//!
//! Whatever connects is hostile until its request is parsed: the number of connections, the length
//! and the time of a request's head and the time of an answer have limits, and bodies are not read.

mod body;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use hyper::header::{HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::process::open_files;

use body::Body;

/// The greatest number of connections at a time, and the part of the files that the process may
/// open that they are. The training needs files, too. One more closes the oldest that has not sent
/// its request's head yet; if all have, it waits.
const CONNECTIONS: u64 = 64;
const SHARE_OF_FILES: u64 = 4;
/// How many of them may be streams of events.
const STREAMS: usize = 16;
/// The greatest number of header lines of a request, and the greatest length of its head \[bytes\].
const HEADERS: usize = 64;
const HEAD: usize = 16 * 1024;
/// The time limits of a request's head, of an answer and of a stream. Browsers open a stream that
/// has ended again.
const HEAD_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(15);
const STREAM_TIME: Duration = Duration::from_secs(600);
/// The pause after a connection that could not be accepted, for want of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The time that viewers have at the end to receive the last event.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a page may do: run its own scripts, and ask the server that it came from.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The answer to a request.
pub(crate) enum Answer {
    /// A text, and its type.
    Text(&'static str, String),
    /// Events, as long as the asker listens: an event now, and others that follow.
    Events(Box<dyn Events>),
    /// There is nothing at this path.
    NotFound,
}

/// What a stream of events tells.
pub(crate) trait Events: Send {
    /// The text of the next event, with what has changed since the one before.
    fn next(&mut self) -> String;
}

/// The answers by path.
type Answers = dyn Fn(&str) -> Answer + Send + Sync;

/// A server that runs until it is dropped.
pub(crate) struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections of a server share.
struct Shared {
    answers: Box<Answers>,
    /// Whether only this machine reaches it.
    is_local: bool,
    streams: AtomicUsize,
    /// Whether the run is over: each stream then tells a last event.
    is_over: AtomicBool,
}

/// The address that `text` means: a port alone is on the loopback interface.
///
/// # Errors
/// If it is no address.
pub(crate) fn at(text: &str) -> Result<SocketAddr, String> {
    let local = |port: &str| Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().ok()?));
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    local(port).or_else(|| text.parse().ok()).ok_or_else(|| {
        "give a port of this machine, as in `9100`, or an address to listen on, as in \
         `0.0.0.0:9100`"
            .to_owned()
    })
}

impl HttpServer {
    /// A server that listens at `address` and answers each path as `answers` says.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn start(
        address: SocketAddr,
        answers: impl Fn(&str) -> Answer + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = StdTcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Shared {
            answers: Box::new(answers),
            is_local: address.ip().is_loopback(),
            streams: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        let (stop, stopped) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let named = thread::Builder::new().name("http".to_owned());
        let thread = named.spawn(move || runtime.block_on(listen(listener, shared, stopped)))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the HTTP server has panicked");
        }
    }
}

/// Accepts connections until the sender of `stopped` is dropped, and lets streams end.
async fn listen(listener: StdTcpListener, shared: Shared, stopped: oneshot::Receiver<()>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, "nothing is told over HTTP"),
    };
    let shared = Arc::new(shared);
    let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
    let _ = stopped.await; // its sender is dropped, never used
    accepting.abort();
    shared.is_over.store(true, Ordering::Relaxed);
    let gone = async {
        while shared.streams.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(LAST_WORDS, gone).await.is_err() {
        tracing::debug!("not all who looked know that the run is over");
    }
}

/// A connection that has been accepted.
struct Accepted {
    task: AbortHandle,
    /// Whether the head of its request has come.
    is_asking: Arc<AtomicBool>,
}

impl Accepted {
    fn is_silent(&self) -> bool {
        !self.is_asking.load(Ordering::Relaxed) && !self.task.is_finished()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let most = open_files().map_or(CONNECTIONS, |files| files / SHARE_OF_FILES);
    let slots = Arc::new(Semaphore::new(most.clamp(1, CONNECTIONS) as usize));
    let mut silent: VecDeque<Accepted> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                silent.retain(Accepted::is_silent);
                if slots.available_permits() == 0
                    && let Some(oldest) = silent.pop_front()
                {
                    oldest.task.abort();
                }
                let slot = Arc::clone(&slots).acquire_owned().await.expect("nobody closes it");
                let (shared, is_asking) = (Arc::clone(&shared), Arc::<AtomicBool>::default());
                let has_asked = Arc::clone(&is_asking);
                let task = tokio::spawn(async move {
                    serve(stream, shared, has_asked).await;
                    drop(slot);
                });
                silent.push_back(Accepted { task: task.abort_handle(), is_asking });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection is not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Serves one request, and says when its head has come.
async fn serve(stream: TcpStream, shared: Arc<Shared>, is_asking: Arc<AtomicBool>) {
    let is_stream = Arc::new(AtomicBool::new(false));
    let streams = Arc::clone(&is_stream);
    let service = service_fn(move |request: Request<Incoming>| {
        is_asking.store(true, Ordering::Relaxed);
        let response = respond(&request, &shared);
        streams.store(response.body().is_stream(), Ordering::Relaxed);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).keep_alive(false);
    http.max_headers(HEADERS).max_buf_size(HEAD);
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    let mut ended = timeout(ANSWER_TIME, &mut connection).await;
    if ended.is_err() && is_stream.load(Ordering::Relaxed) {
        ended = timeout(STREAM_TIME, &mut connection).await;
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an HTTP request went wrong"),
        Err(_) => tracing::debug!("an HTTP request took too long"),
    }
}

fn respond(request: &Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    // A page of another site could have its name stand for this machine.
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if shared.is_local && !host.is_some_and(is_local_name) {
        return plain(StatusCode::FORBIDDEN, "ask for it as localhost\n");
    }
    match (shared.answers)(request.uri().path()) {
        Answer::NotFound => plain(StatusCode::NOT_FOUND, "there is nothing here\n"),
        Answer::Text(kind, text) => {
            let body = if is_head { Body::text(String::new()) } else { Body::text(text) };
            with_headers(StatusCode::OK, kind, body)
        }
        Answer::Events(_) if is_head => {
            with_headers(StatusCode::OK, "text/event-stream", Body::text(String::new()))
        }
        Answer::Events(events) => match Body::events(events, shared) {
            Some(body) => with_headers(StatusCode::OK, "text/event-stream", body),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "too many are looking already\n"),
        },
    }
}

/// Whether the value of `Host` is an address, or this machine's own name for itself.
fn is_local_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|digit| digit.is_ascii_digit()) { name } else { host }
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    with_headers(status, "text/plain; charset=utf-8", Body::text(text.to_owned()))
}

fn with_headers(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
