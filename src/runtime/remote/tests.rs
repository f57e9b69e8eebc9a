//! What a client's end of a session does when the way to the other server breaks, or it is slow.

use std::cell::RefCell;
use std::time::Duration;

use super::*;
use crate::clock::WallClock;
use crate::cluster::TaskName;
use crate::on_actix::on_actix;
use crate::runtime::inquiry::Inquiry;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{ClientMessage, MasterMessage, SessionAnswer, SessionCall};
use crate::runtime::panics::Panics;
use crate::runtime::reply::Answer;
use crate::transport::{Inbox, Messages, Obstacle, Peers};

/// The other server.
const SERVER: PeerId = PeerId(0);
/// No answer takes this long, unless it never comes.
const LIMIT: Duration = Duration::from_secs(10);

/// A network that keeps what is sent.
#[derive(Default)]
struct Kept {
    sent: RefCell<Vec<(u64, SessionAction)>>,
    /// Why nothing gets through.
    obstacle: Option<Obstacle>,
    /// Whether this end is a client, and no task of the cluster.
    is_client: bool,
}

impl Transport<PeerMessage> for Kept {
    fn peers(&self) -> &dyn Peers {
        self
    }

    fn send(&self, _: PeerId, messages: Messages<PeerMessage>) {
        for message in messages {
            let PeerMessage::Master(MasterMessage::Called(call)) = message else {
                panic!("a client only calls, and sent {message:?}")
            };
            let SessionCall { number, action, .. } = *call;
            self.sent.borrow_mut().push((number, action));
        }
    }

    fn listen(&self, _: Rc<dyn Inbox<PeerMessage>>) {}

    fn close(&self) {}
}

impl Peers for Kept {
    fn local(&self) -> PeerId {
        PeerId(1)
    }

    fn resolve(&self, _: &TaskName) -> Option<PeerId> {
        Some(SERVER)
    }

    fn name(&self, peer: PeerId) -> TaskName {
        let job = match peer {
            SERVER => "ps",
            _ if self.is_client => CLIENT,
            _ => "worker",
        };
        TaskName::new(job, 0)
    }

    fn obstacle(&self, _: PeerId) -> Option<Obstacle> {
        self.obstacle.clone()
    }
}

/// A client's end of sessions on the server.
struct Ends {
    network: Rc<Kept>,
    masters: RemoteMasters,
    master: Address<MasterMail>,
}

impl Ends {
    fn over(network: Kept) -> Self {
        let (network, masters) = (Rc::new(network), RemoteMasters::default());
        let transport: Rc<dyn Transport<PeerMessage>> = Rc::<Kept>::clone(&network);
        let clock: Rc<dyn Clock> = Rc::new(WallClock::new());
        let panics = Rc::<Panics>::default();
        let master = masters.reach(SERVER, &transport, &clock, Patience::default(), &panics);
        Self { network, masters, master }
    }

    /// Asks for a session, whose requests end after `limit`.
    async fn ask(&self, limit: Option<Duration>) -> Answer<Result<SessionId>> {
        let created = Answer::new();
        let options = SessionOptions { operation_timeout: limit, ..SessionOptions::default() };
        let reply = created.reply();
        tell(&self.master, MasterMail::CreateSession { options, reply });
        settle().await;
        created
    }

    /// The server answers a call that it has begun session `number`.
    async fn begun(&self, call: u64, number: u64) {
        let outcome = Ok(SessionAnswer::Created((7, SessionId(number))));
        self.masters.deliver(SERVER, ClientMessage { number: call, outcome });
        settle().await;
    }

    /// The sessions that the server was asked to end.
    fn closed(&self) -> Vec<u64> {
        let closed = |(_, action): &(u64, SessionAction)| match action {
            SessionAction::Close { session: (_, session) } => Some(session.0),
            _ => None,
        };
        self.network.sent.borrow().iter().filter_map(closed).collect()
    }
}

/// Has the actors handle their mail.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn answered(created: Answer<Result<SessionId>>) -> Result<SessionId> {
    let answered = tokio::time::timeout(LIMIT, created).await;
    answered.expect("nobody answers").expect("the question is dropped")
}

#[test]
fn what_was_under_way_is_asked_for_again_where_a_reset_only_looks_like_a_restart() {
    on_actix(async {
        let ends = Ends::over(Kept::default());
        let created = ends.ask(None).await;
        ends.masters.lost(SERVER, Loss::Restarted);
        settle().await;
        let numbers: Vec<u64> = ends.network.sent.borrow().iter().map(|(call, _)| *call).collect();
        assert_eq!(numbers, [0, 0]);
        ends.begun(0, 3).await;
        assert!(answered(created).await.is_ok());
        ends.masters.lost(SERVER, Loss::Restarted);
        settle().await;
        let last = ends.network.sent.borrow().last().cloned();
        assert!(matches!(last, Some((_, SessionAction::Return))), "{last:?}");
        assert!(ends.closed().is_empty());
    });
}

#[test]
fn a_client_whose_name_another_process_has_taken_is_told_to_take_another_and_a_task_is_not() {
    on_actix(async {
        for is_client in [true, false] {
            let ends = Ends::over(Kept { is_client, ..Kept::default() });
            let created = ends.ask(None).await;
            ends.masters.lost(SERVER, Loss::Outlived);
            let error = answered(created).await.unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert_eq!(error.message.contains("such as that of `client:1`"), is_client, "{error}");
            assert_eq!(error.message.contains("clock is behind"), !is_client, "{error}");
        }
    });
}

#[test]
fn a_session_that_is_begun_after_its_program_has_given_up_is_ended_again() {
    on_actix(async {
        let ends = Ends::over(Kept::default());
        let late = ends.ask(Some(Duration::ZERO)).await;
        let error = answered(late).await.unwrap_err();
        assert_eq!(error.code, Code::DeadlineExceeded, "{error}");
        let inquiry = Inquiry::new();
        ends.masters.inquire(&inquiry);
        settle().await;
        let waiting = inquiry.take()[0].to_string();
        assert_eq!(waiting, "client worker:0 waits for ps:0 to begin a session");
        ends.begun(0, 3).await;
        assert_eq!(ends.closed(), [3]);
    });
}

#[test]
fn an_answer_that_comes_twice_does_not_end_the_session_that_it_has_begun() {
    on_actix(async {
        let ends = Ends::over(Kept::default());
        let created = ends.ask(None).await;
        ends.begun(0, 3).await;
        assert!(answered(created).await.is_ok());
        ends.begun(0, 3).await;
        assert!(ends.closed().is_empty());
        ends.begun(0, 4).await;
        assert_eq!(ends.closed(), [4], "nobody has this one");
    });
}

#[test]
fn a_task_that_is_to_stop_does_not_wait_for_a_server_that_it_can_not_reach() {
    on_actix(async {
        let obstacle = Obstacle { why: "no answer".to_owned(), refused: None };
        let network = Kept { obstacle: Some(obstacle), ..Kept::default() };
        let ends = Ends::over(network);
        let created = ends.ask(None).await;
        ends.masters.request_stop();
        let error = answered(created).await.unwrap_err();
        assert_eq!(error.code, Code::Cancelled, "{error}");
        assert!(
            error.message.contains("to stop") && error.message.contains("no answer"),
            "{error}"
        );
    });
}
