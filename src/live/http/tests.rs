//! Requests, good and bad, to a server on this machine.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

struct Counting(u32);

impl Events for Counting {
    fn next(&mut self) -> String {
        self.0 += 1;
        self.0.to_string()
    }
}

fn server() -> HttpServer {
    let answers = |path: &str| match path {
        "/" => Answer::Text("text/plain", "hello".to_owned()),
        "/events" => Answer::Events(Box::new(Counting(0))),
        _ => Answer::NotFound,
    };
    HttpServer::start(at("0").unwrap(), answers).unwrap()
}

fn connect(server: &HttpServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The whole answer to `request`.
fn answer(server: &HttpServer, request: &str) -> String {
    let mut stream = connect(server);
    // One who does not like a request may close before it is all sent.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn begins(answer: &str, status: u32) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

#[test]
fn a_path_has_its_answer_and_all_else_an_error() {
    let server = server();
    let get =
        |path: &str| answer(&server, &format!("GET {path} HTTP/1.1\r\nHost: [::1]:9\r\n\r\n"));
    let found = get("/?x=1");
    assert!(begins(&found, 200) && found.ends_with("\r\n\r\nhello"), "{found}");
    assert!(begins(&get("/../etc/passwd"), 404));
    let head = answer(&server, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(begins(&head, 200) && head.ends_with("\r\n\r\n"), "{head}");
    let posted = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
    assert!(begins(&answer(&server, posted), 405));
}

#[test]
fn a_page_of_another_site_reads_nothing_from_a_server_of_this_machine() {
    let server = server();
    let of = |host: &str| answer(&server, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(begins(&of("evil.example:9100"), 403));
    assert!(begins(&of("LOCALHOST:9100"), 200));
    assert!(begins(&of("127.0.0.1"), 200));
    assert!(begins(&answer(&server, "GET / HTTP/1.1\r\n\r\n"), 403), "it names no host");
}

#[test]
fn what_is_no_request_is_answered_with_an_error_or_not_at_all() {
    let server = server();
    for request in ["\0\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01"] {
        let mut stream = connect(&server);
        stream.write_all(request.as_bytes()).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write); // it may be closed already
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        assert!(read.is_err() || answer.is_empty() || begins(&answer, 400), "{answer}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(HEAD));
    assert!(!begins(&answer(&server, &long), 200));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: 1\r\n".repeat(HEADERS));
    assert!(!begins(&answer(&server, &many), 200));
    let good = answer(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(begins(&good, 200), "it goes on");
}

#[test]
fn who_sends_no_whole_request_keeps_nobody_waiting() {
    let server = server();
    let half = || {
        let mut stream = connect(&server);
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..2 * CONNECTIONS).map(|_| half()).collect();
    let mut asking = connect(&server);
    asking.set_read_timeout(Some(HEAD_TIME / 2)).unwrap();
    asking.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    asking.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop(slow);
}

#[test]
fn a_stream_tells_events_until_the_server_ends_and_then_that_it_is_over() {
    let server = server();
    let ask = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let open = || {
        let mut stream = connect(&server);
        stream.write_all(ask.as_bytes()).unwrap();
        let mut first = [0; 15];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..STREAMS).map(|_| open()).collect();
    assert!(begins(&answer(&server, ask), 503), "there are as many as there may be");
    let mut kept = streams.remove(0);
    drop(streams);
    drop(server);
    let mut rest = String::new();
    kept.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: 1\n\n") && rest.contains(body::OVER), "{rest}");
}

#[test]
fn a_port_alone_is_on_this_machine() {
    for text in ["9100", ":9100", "localhost:9100", "127.0.0.1:9100"] {
        assert_eq!(at(text).unwrap().to_string(), "127.0.0.1:9100");
    }
    assert_eq!(at("[::]:1").unwrap().to_string(), "[::]:1");
    for text in ["", "host:1", "70000", "1.2.3.4", "1.2.3.4:x"] {
        assert!(at(text).is_err(), "{text}");
    }
}
