//! `status`: how a running task is: its cluster, its devices, who waits for what, whom it can't
//! reach.

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::args::StatusArgs;
use super::exit_code::ExitCode;
use super::failure::Failure;
use super::task::{Message, Standing};
use crate::cluster::ClusterSpec;
use crate::transport::{
    Identity, Inbox, Loss, Messages, PeerId, Quic, QuicConfig, QuicError, RunId, Transport,
};

/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the connection's end may take.
const FLUSH: Duration = Duration::from_millis(500);

/// Runs the command.
pub(super) fn run(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("the system has what a runtime needs")
    };
    let standing = actix_rt::System::with_tokio_rt(runtime).block_on(ask(args))?;
    let out = io::stdout().lock();
    let printed = if args.json { write_json(&standing, out) } else { write_text(&standing, out) };
    printed.map_err(Failure::writing("the result"))?;
    Ok(ExitCode::Done)
}

/// Asks the task how it is.
async fn ask(args: &StatusArgs) -> Result<Standing, Failure> {
    let wrong = |mistakes: String| Failure::Cluster { origin: "the flags".to_owned(), mistakes };
    let (own, task) = (&args.client, &args.task);
    if own.job() == task.job() {
        return Err(wrong(format!(
            "--as {own}: who asks must not be of the job `{}`, which is asked",
            task.job()
        )));
    }
    // Nobody connects to who asks: its own address only has to be one.
    let own_address = "localhost:1".to_owned();
    let jobs = [
        (own.job(), [(own.index(), own_address)]),
        (task.job(), [(task.index(), args.address.clone())]),
    ];
    let cluster = ClusterSpec::sparse(jobs).map_err(|error| wrong(error.to_string()))?;
    let identity = Identity::load(&args.certs, own)?;
    let bind = |listen: SocketAddr| {
        let run = RunId::new(args.run_name.clone());
        let config = QuicConfig::new(cluster.clone(), own.clone(), run, identity.clone());
        Quic::<Message>::bind(QuicConfig { listen: Some(listen), ..config })
    };
    let quic = match bind((Ipv6Addr::UNSPECIFIED, 0).into()).await {
        // A machine without IPv6.
        Err(QuicError::Bind { .. }) => bind((Ipv4Addr::UNSPECIFIED, 0).into()).await?,
        bound => bound?,
    };
    let (reply, told) = oneshot::channel();
    quic.listen(Rc::new(Ear { reply: RefCell::new(Some(reply)) }));
    let peer = quic.resolve(task).expect("it is in the cluster");
    quic.send(peer, vec![Message::Ask]);
    let told = timeout(PATIENCE, told).await;
    let reasons: Vec<String> = quic.waiting_for().into_iter().map(|(_, why)| why).collect();
    if !quic.shut_down(FLUSH).await {
        tracing::debug!("the task may not know that nobody asks any more");
    }
    match told {
        Ok(Ok(standing)) => Ok(standing),
        _ => {
            let why = if reasons.is_empty() {
                "it does not answer".to_owned()
            } else {
                reasons.join("; ")
            };
            Err(Failure::Unanswered { task: task.clone(), address: args.address.clone(), why })
        }
    }
}

/// Hears the answer.
struct Ear {
    reply: RefCell<Option<oneshot::Sender<Standing>>>,
}

impl Inbox<Message> for Ear {
    fn deliver(&self, _: PeerId, messages: Messages<Message>) {
        for message in messages {
            if let (Message::Told(standing), Some(reply)) = (message, self.reply.take())
                && reply.send(standing).is_err()
            {
                tracing::debug!("the answer came too late");
            }
        }
    }

    fn lost(&self, _: PeerId, loss: Loss) {
        tracing::debug!(%loss, "the task is gone");
        self.reply.take();
    }
}

fn write_json(standing: &Standing, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, standing)?;
    writeln!(out)
}

fn write_text(standing: &Standing, mut out: impl Write) -> io::Result<()> {
    let state = if standing.is_training_over { "its training is over" } else { "it trains" };
    writeln!(out, "{}: {state}, {} bytes sent", standing.task, standing.bytes_sent)?;
    for device in &standing.devices {
        writeln!(out, "device   {device}")?;
    }
    for (task, address) in &standing.cluster {
        writeln!(out, "{task:<8} {}", address.as_deref().unwrap_or("address not known"))?;
    }
    for (task, why) in &standing.unreached {
        writeln!(out, "can't reach {task}: {why}")?;
    }
    for (who, why) in &standing.refused {
        writeln!(out, "no connection with {who}: {why}")?;
    }
    for (who, what) in &standing.waiting {
        writeln!(out, "{who} waits for {what}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_tells_who_waits_for_what() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let standing = Standing {
            task: "worker:1".to_owned(),
            devices: vec!["/job:worker/task:1/device:CPU:0".to_owned()],
            cluster: vec![
                ("ps:0".to_owned(), Some("a:1".to_owned())),
                ("worker:0".to_owned(), None),
            ],
            bytes_sent: 5,
            waiting: vec![pair("master of worker:1", "ps:0")],
            unreached: vec![pair("ps:0", "it has not answered yet")],
            ..Standing::default()
        };
        let mut text = Vec::new();
        write_text(&standing, &mut text).unwrap();
        let expected = "worker:1: it trains, 5 bytes sent\n\
                        device   /job:worker/task:1/device:CPU:0\n\
                        ps:0     a:1\n\
                        worker:0 address not known\n\
                        can't reach ps:0: it has not answered yet\n\
                        master of worker:1 waits for ps:0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
