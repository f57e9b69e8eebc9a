//! Whoever may not talk to a task is refused, with the reason, and does not disturb those who may.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, SendStream};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::prelude::*;
use trainyard::transport::wire::{WireLimits, encode_envelope};
use trainyard::transport::{
    Authority, Identity, Inbox, Loss, PeerId, Peers, Quic, QuicConfig, Refused, Transport,
};

use crate::quic::transport_contract::{Kept, Note};
use crate::support::fixture::{loopback, on_actix, quic_config};

/// A parameter server and a worker that talk all the time, and a second worker that is not there.
struct Attacked {
    cluster: ClusterSpec,
    authority: Authority,
    ps: Rc<Quic<Note>>,
    worker: Rc<Quic<Note>>,
    at_ps: Rc<Kept>,
}

impl Attacked {
    async fn new() -> Self {
        Self::with_silence(Duration::from_secs(2)).await
    }

    async fn with_silence(silence: Duration) -> Self {
        let (cluster, sockets) = loopback(&[("ps", 1), ("worker", 2)]);
        let authority = Authority::new("test").unwrap();
        let mut ends = Vec::new();
        for (task, socket) in cluster.tasks().zip(sockets).take(2) {
            let config = quic_config(&cluster, &task, socket, &authority);
            let mut config = QuicConfig { silence, ..config };
            let settings = [("program.batch".to_owned(), "32".to_owned())];
            config.run = config.run.with_settings(settings.into());
            config.limits.handshakes = 16;
            config.limits.wire.tensor = 1 << 20;
            ends.push(Quic::bind(config).await.unwrap());
        }
        let at_ps = Rc::new(Kept::default());
        ends[0].listen(Rc::clone(&at_ps) as Rc<dyn Inbox<Note>>);
        let attacked = Self {
            cluster,
            authority,
            worker: ends.pop().unwrap(),
            ps: ends.pop().unwrap(),
            at_ps,
        };
        attacked.exchange().await;
        attacked
    }

    /// A message from the worker arrives soon.
    async fn exchange(&self) {
        let (before, sent) = (self.at_ps.count(), Instant::now());
        self.worker
            .send(PeerId(0), vec![Note { number: 1, tensors: vec![Tensor::full([100], 1f32)] }]);
        self.at_ps.until(before + 1).await;
        assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    }

    /// Waits until the parameter server has refused somebody because of `why`; what runs goes on
    /// meanwhile.
    async fn refuses(&self, why: &str) {
        let is_refused = || self.ps.refusals().iter().any(|(_, reason)| reason.contains(why));
        let began = Instant::now();
        while !is_refused() {
            self.exchange().await;
            assert!(
                began.elapsed() < Duration::from_secs(8),
                "no `{why}` in {:?}",
                self.ps.refusals()
            );
        }
        assert!(self.at_ps.losses.borrow().is_empty(), "the worker was not disturbed");
    }

    fn identity(&self, task: &TaskName) -> Identity {
        self.authority.issue(task, &[]).unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.ps.local_addr()
    }
}

/// Takes every server for whom it says that it is: the intruder is not the one to be protected.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A client of QUIC with any certificate and any protocol.
fn intruder(identity: Option<(&Identity, &TaskName)>, protocol: &str) -> Endpoint {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Gullible));
    let mut tls = match identity {
        None => builder.with_no_client_auth(),
        Some((identity, task)) => {
            let (certificate, key) = der(identity, task);
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(tls).unwrap(),
    )));
    endpoint
}

fn der(identity: &Identity, task: &TaskName) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let folder = std::env::temp_dir().join(format!(
        "trainyard-untrusted-{}-{:p}",
        std::process::id(),
        identity
    ));
    identity.save(&folder, task).unwrap();
    let stem = format!("{}-{}", task.job(), task.index());
    let certificate = CertificateDer::from_pem_file(folder.join(format!("{stem}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{stem}.key"))).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    (certificate, key)
}

const PROTOCOL: &str = "trainyard/25";

/// An introduction as a task would send it that was told nothing of the training.
fn hello(run: &str, task: &str, incarnation: u64) -> Vec<u8> {
    hello_told(&[], run, task, incarnation)
}

/// The same, of a task that was told these settings.
fn hello_told(settings: &[(&str, &str)], run: &str, task: &str, incarnation: u64) -> Vec<u8> {
    let settings: BTreeMap<&str, &str> = settings.iter().copied().collect();
    hello_listing(&[], settings, run, task, incarnation)
}

/// The same, of a task that was told of these tasks, by job, as ranges of their indices.
fn hello_listing(
    jobs: &[(&str, &[(u32, u32)])],
    settings: BTreeMap<&str, &str>,
    run: &str,
    task: &str,
    incarnation: u64,
) -> Vec<u8> {
    let roster: BTreeMap<&str, &[(u32, u32)]> = jobs.iter().copied().collect();
    let (epoch, lanes, lane) = (0u64, [0u16; 0].as_slice(), None::<u8>);
    let said = (run, settings, roster, task, incarnation, epoch, lanes, lane);
    let control = bincode::serde::encode_to_vec(said, bincode::config::standard()).unwrap();
    [&[1, 0, 0, 0], &(control.len() as u32).to_le_bytes()[..], &[0; 4], &control].concat()
}

/// Says `bytes` first, and gives why the connection ended, where it does soon.
async fn say(endpoint: &Endpoint, to: SocketAddr, bytes: &[u8]) -> Option<ConnectionError> {
    let connection = endpoint.connect(to, "ps-0.task.trainyard").unwrap().await.err();
    if connection.is_some() {
        return connection;
    }
    let connection = endpoint.connect(to, "ps-0.task.trainyard").unwrap().await.ok()?;
    let _control = opened(&connection, bytes).await;
    tokio::time::timeout(Duration::from_secs(3), connection.closed()).await.ok()
}

async fn opened(connection: &Connection, bytes: &[u8]) -> Option<SendStream> {
    let mut stream = connection.open_uni().await.ok()?;
    stream.write_all(bytes).await.ok()?;
    Some(stream)
}

fn absent() -> TaskName {
    TaskName::new("worker", 1)
}

/// What the other end said when it closed.
fn told(ended: Option<ConnectionError>) -> String {
    ended.map_or_else(|| "nothing".to_owned(), |error| error.to_string())
}

#[test]
fn without_a_certificate_of_the_run_nobody_gets_in() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let greeting = hello("test", "worker:1", 1);
        let nobody = intruder(None, PROTOCOL);
        assert!(say(&nobody, attacked.address(), &greeting).await.is_some());
        attacked.refuses("certificate is missing").await;
        let other = Authority::new("test").unwrap().issue(&absent(), &[]).unwrap();
        let stranger = intruder(Some((&other, &absent())), PROTOCOL);
        assert!(say(&stranger, attacked.address(), &greeting).await.is_some());
        attacked.refuses("certificate is not one of this run").await;
        Ok(())
    });
}

#[test]
fn who_dials_with_another_runs_certificates_is_no_reason_for_a_task_to_doubt_its_own() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = Authority::new("other").unwrap();
        let config = quic_config(&attacked.cluster, &absent(), socket, &other);
        let stranger: Rc<Quic<Note>> = Quic::bind(config).await.unwrap();
        stranger.send(PeerId(0), vec![Note { number: 1, tensors: Vec::new() }]);
        attacked.refuses("who dialed from 127.0.0.1 does not trust this run's authority").await;
        let refusals = attacked.ps.refusals();
        let doubts = |(_, why): &(String, String)| why.starts_with("this task's certificate");
        assert!(!refusals.iter().any(doubts), "{refusals:?}");
        Ok(())
    });
}

#[test]
fn another_version_run_setting_or_name_is_refused_and_told_why() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let identity = attacked.identity(&absent());
        let old = intruder(Some((&identity, &absent())), "trainyard/0");
        assert!(say(&old, attacked.address(), &hello("test", "worker:1", 1)).await.is_some());
        attacked.refuses("different versions").await;
        let known = intruder(Some((&identity, &absent())), PROTOCOL);
        let other = [("program.batch", "64"), ("seed", "\u{1b}7")];
        let same = [("program.batch", "32")].into();
        let listing = |jobs: &[(&str, &[(u32, u32)])]| {
            hello_listing(jobs, BTreeMap::clone(&same), "test", "worker:1", 1)
        };
        let cases = [
            (hello_told(&other[..1], "test", "worker:1", 1), "has program.batch = 64, and"),
            (hello_told(&other[..1], "test", "worker:1", 1), "ps:0 program.batch = 32: start both"),
            (hello_told(&other[1..], "test", "worker:1", 1), "no program.batch"),
            (hello_told(&[("a", other[1].1)], "test", "worker:1", 1), "a = \\u{1b}7"),
            (
                listing(&[("ps", &[(0, 1)])]),
                "worker:1 was started with ps:0 and ps:1, and ps:0 with",
            ),
            (listing(&[("p\u{1b}", &[(0, 0)])]), "started with p\\u{1b}:0 alone, and ps:0 with no"),
            (hello("yesterday", "worker:1", 1), "in the training `yesterday`"),
            (hello("test", "worker:0", 1), "says that it is worker:0, but its certificate"),
            (hello("test", "ps:0", 1), "says that it is ps:0, but its certificate"),
            (hello("test", "no name", 1), "can't be read"),
        ];
        for (greeting, why) in cases {
            let ended = told(say(&known, attacked.address(), &greeting).await);
            assert!(ended.contains(why), "{ended}");
            attacked.refuses(why).await;
        }
        Ok(())
    });
}

#[test]
fn a_refusal_for_other_settings_is_remembered_of_a_peer_that_has_proved_its_name_alone() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let greeting = hello_told(&[("program.batch", "64")], "test", "worker:1", 1);
        let another = TaskName::new("worker", 0);
        for (sender, why, refused) in [
            (another, "says that it is worker:1, but its certificate", None),
            (absent(), "has program.batch = 64, and", Some(Refused::Run)),
        ] {
            let identity = attacked.identity(&sender);
            let known = intruder(Some((&identity, &sender)), PROTOCOL);
            told(say(&known, attacked.address(), &greeting).await);
            attacked.refuses(why).await;
            let refusal = attacked.ps.refusal(PeerId(2));
            assert_eq!(refusal.map(|(refused, _)| refused), refused, "{why}");
        }
        Ok(())
    });
}

#[test]
fn garbage_before_an_introduction_ends_its_connection_alone() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let identity = attacked.identity(&absent());
        let known = intruder(Some((&identity, &absent())), PROTOCOL);
        let mut cut = hello("test", "worker:1", 1);
        cut.truncate(20);
        let too_long = [&[1, 0, 0, 0], &u32::MAX.to_le_bytes()[..], &[0; 4]].concat();
        let cases = [
            (vec![0xff; 64], "a frame can't begin with"),
            (too_long, "of which at most"),
            (hello("test", &"x".repeat(9000), 1), "of which at most"),
            (cut, "it does not answer"),
        ];
        for (bytes, why) in cases {
            assert!(say(&known, attacked.address(), &bytes).await.is_some(), "{why}");
            attacked.refuses(why).await;
        }
        Ok(())
    });
}

#[test]
fn garbage_after_an_introduction_ends_its_connection_alone() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let identity = attacked.identity(&absent());
        let known = intruder(Some((&identity, &absent())), PROTOCOL);
        let envelope = |note: Note| encode_envelope(&vec![note], WireLimits::default()).unwrap();
        let oversize =
            envelope(Note { number: 1, tensors: vec![Tensor::zeros(DType::F32, [1 << 20])] });
        let mut booleans = envelope(Note { number: 1, tensors: vec![Tensor::full([8], true)] });
        *booleans.last_mut().unwrap() = 7;
        let cases = [
            (vec![9; 12], "a frame can't begin with"),
            (oversize[..100].to_vec(), "of which at most 1048576"),
            (booleans, "neither 0 nor 1"),
            (envelope(Note::new(u64::MAX)), "a number that nothing has"),
            (hello("test", "worker:1", 1), "is not expected here"),
        ];
        for (incarnation, (bytes, why)) in (10..).zip(cases) {
            for on_its_own_stream in [false, true] {
                let connecting = known.connect(attacked.address(), "ps-0.task.trainyard").unwrap();
                let connection = connecting.await.unwrap();
                let greeting =
                    hello("test", "worker:1", incarnation * 2 + u64::from(on_its_own_stream));
                let mut control = opened(&connection, &greeting).await.unwrap();
                if on_its_own_stream {
                    let mut stream = opened(&connection, &bytes).await.unwrap();
                    stream.finish().unwrap();
                } else {
                    control.write_all(&bytes).await.unwrap();
                }
                let ended = tokio::time::timeout(Duration::from_secs(3), connection.closed()).await;
                assert!(told(ended.ok()).contains(why), "{why}");
            }
            attacked.at_ps.losses.borrow_mut().retain(|(peer, loss)| {
                assert!(*loss != Loss::Stopped);
                *peer != PeerId(2)
            });
            attacked.refuses(why).await;
        }
        let cut = envelope(Note { number: 1, tensors: vec![Tensor::full([8], 1f32)] });
        let connection =
            known.connect(attacked.address(), "ps-0.task.trainyard").unwrap().await.unwrap();
        let _control = opened(&connection, &hello("test", "worker:1", 99)).await.unwrap();
        opened(&connection, &cut[..cut.len() - 1]).await.unwrap().finish().unwrap();
        assert!(told(Some(connection.closed().await)).contains("cut short"));
        Ok(())
    });
}

#[test]
fn a_peer_that_says_goodbye_and_stays_is_not_kept() {
    on_actix(async {
        let silence = Duration::from_millis(500);
        let attacked = Attacked::with_silence(silence).await;
        let identity = attacked.identity(&absent());
        let known = intruder(Some((&identity, &absent())), PROTOCOL);
        let connecting = known.connect(attacked.address(), "ps-0.task.trainyard").unwrap();
        let connection = connecting.await.unwrap();
        let mut control = opened(&connection, &hello("test", "worker:1", 1)).await.unwrap();
        // `Bye`, after no large envelope.
        control.write_all(&[3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let began = Instant::now();
        while !attacked.at_ps.losses.borrow().contains(&(PeerId(2), Loss::Stopped)) {
            assert!(began.elapsed() < Duration::from_secs(8), "it has not stopped");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ended = tokio::time::timeout(Duration::from_secs(8), connection.closed()).await;
        let ended = told(ended.ok());
        assert!(ended.contains("goodbye"), "{ended}");
        Ok(())
    });
}

#[test]
fn a_certificate_of_no_task_of_the_cluster_is_refused_unless_it_is_a_clients() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let listed = "ps:1 is not among the tasks that ps:0 knows";
        for (name, why) in [("tester:0", "neither a task"), ("ps:1", listed)] {
            let task: TaskName = name.parse().unwrap();
            let identity = attacked.identity(&task);
            let stranger = intruder(Some((&identity, &task)), PROTOCOL);
            let greeting = hello("test", name, 1);
            let ended = told(say(&stranger, attacked.address(), &greeting).await);
            assert!(ended.contains(why), "{ended}");
        }
        let client = TaskName::new("client", 7);
        let identity = attacked.identity(&client);
        let known = intruder(Some((&identity, &client)), PROTOCOL);
        for name in ["client:7", "asker:7"] {
            let greeting = hello("test", name, 1);
            let ended = say(&known, attacked.address(), &greeting).await;
            assert!(ended.is_none(), "{name} stays connected");
        }
        let ended = say(&known, attacked.address(), &hello("test", "asker:8", 1)).await;
        assert!(told(ended).contains("its certificate has another name"));
        Ok(())
    });
}

#[test]
fn an_earlier_incarnation_does_not_take_the_place_of_a_later_one() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let identity = attacked.identity(&absent());
        let known = intruder(Some((&identity, &absent())), PROTOCOL);
        let meet = async |incarnation| {
            let connecting = known.connect(attacked.address(), "ps-0.task.trainyard").unwrap();
            let connection = connecting.await.unwrap();
            let greeting = hello("test", "worker:1", incarnation);
            let control = opened(&connection, &greeting).await;
            let ended = tokio::time::timeout(Duration::from_millis(300), connection.closed()).await;
            (told(ended.ok()), connection, control)
        };
        let (ended, later, _control) = meet(20).await;
        assert_eq!(ended, "nothing");
        let (ended, ..) = meet(10).await; // the parameter server has never met it
        assert!(ended.contains("a later incarnation of worker:1 has connected"), "{ended}");
        assert!(later.close_reason().is_none(), "the later one is not disturbed");
        assert_eq!(meet(30).await.0, "nothing");
        Ok(())
    });
}

#[test]
fn a_task_with_an_expired_certificate_is_refused_until_it_takes_a_new_one() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = quic_config(&attacked.cluster, &absent(), socket, &attacked.authority);
        let lifetime = Duration::from_secs(1);
        let identity = attacked.authority.issue_for(&absent(), &[], lifetime).unwrap();
        let late = Quic::<Note>::bind(QuicConfig { identity, ..config }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2100)).await;
        let before = attacked.at_ps.count();
        late.send(PeerId(0), vec![Note::new(5)]);
        attacked.refuses("or has expired").await;
        late.renew(&attacked.identity(&absent())).unwrap();
        let other = attacked.identity(&TaskName::new("worker", 0));
        assert!(late.renew(&other).is_err(), "it is another task's");
        let sent_since = attacked.at_ps.count() - before;
        late.send(PeerId(0), vec![Note::new(6)]);
        attacked.at_ps.until(before + sent_since + 2).await;
        Ok(())
    });
}

/// The first packets of `count` handshakes with `task`, which never go on.
pub(crate) async fn first_packets(count: usize) -> Vec<Vec<u8>> {
    let nowhere = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let nobody = intruder(None, PROTOCOL);
    let to = nowhere.local_addr().unwrap();
    let _dialed: Vec<_> =
        (0..count).map(|_| nobody.connect(to, "ps-0.task.trainyard").unwrap()).collect();
    let mut packets = Vec::new();
    while packets.len() < count {
        let mut packet = vec![0; 1500];
        let length = nowhere.recv(&mut packet).await.unwrap();
        packet.truncate(length);
        packets.push(packet);
    }
    packets
}

#[test]
fn half_open_handshakes_take_no_place_from_those_who_may_come_in() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let forged = UdpSocket::bind("127.0.0.1:0").unwrap();
        for packet in first_packets(500).await {
            forged.send_to(&packet, attacked.address()).unwrap();
        }
        attacked.exchange().await;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = quic_config(&attacked.cluster, &absent(), socket, &attacked.authority);
        let late = Quic::<Note>::bind(config).await.unwrap();
        let (before, began) = (attacked.at_ps.count(), Instant::now());
        late.send(PeerId(0), vec![Note::new(5)]);
        attacked.at_ps.until(before + 1).await;
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        Ok(())
    });
}

#[test]
fn tasks_that_come_at_once_come_in_though_one_at_a_time_shakes_hands() {
    const TASKS: usize = 8;
    on_actix(async {
        let (cluster, sockets) = loopback(&[("ps", 1), ("worker", TASKS)]);
        let authority = Authority::new("test").unwrap();
        let mut ends = Vec::new();
        for (task, socket) in cluster.tasks().zip(sockets) {
            let mut config = quic_config(&cluster, &task, socket, &authority);
            config.limits.handshakes = 1;
            ends.push(Quic::<Note>::bind(config).await.unwrap());
        }
        let at_ps = Rc::new(Kept::default());
        ends[0].listen(Rc::clone(&at_ps) as Rc<dyn Inbox<Note>>);
        let began = Instant::now();
        ends[1..].iter().for_each(|worker| worker.send(PeerId(0), vec![Note::new(5)]));
        at_ps.until(TASKS).await;
        // Whose first packets are dropped comes again after a second.
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        Ok(())
    });
}

#[test]
fn a_flood_does_not_keep_those_out_who_may_come_in() {
    on_actix(async {
        let attacked = Attacked::new().await;
        let nobody = intruder(None, PROTOCOL);
        let connections: Vec<_> = (0..300)
            .map(|_| nobody.connect(attacked.address(), "ps-0.task.trainyard").unwrap())
            .collect();
        let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
        for i in 0..2000u32 {
            let packet: Vec<u8> = (0..1200u32)
                .map(|k| (i.wrapping_mul(31) ^ k.wrapping_mul(i)) as u8 | 0xc0)
                .collect();
            let _dropped_where_there_is_no_room = noise.send_to(&packet, attacked.address());
        }
        for _ in 0..50 {
            attacked.exchange().await;
        }
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let config = quic_config(&attacked.cluster, &absent(), socket, &attacked.authority);
        let late = Quic::<Note>::bind(config).await.unwrap();
        let before = attacked.at_ps.count();
        late.send(PeerId(0), vec![Note::new(5)]);
        attacked.at_ps.until(before + 1).await;
        assert!(attacked.at_ps.losses.borrow().is_empty());
        drop(connections);
        Ok(())
    });
}
