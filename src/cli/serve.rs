//! `serve`: one task without a program, in this process, over QUIC: clients run their graphs on it.

use std::sync::Arc;

use super::args::ServeArgs;
use super::failure::Failure;
use super::live::Live;
use crate::cluster::ClusterSpec;
use crate::deployment::{self, ExitCode, Member, Proof, Seat, StopRequest, require_role};
use crate::live::{About, Board};
use crate::say::say;
use crate::tensor::set_memory_limit;
use crate::transport::RunId;

/// Runs the command, until a signal ends it.
pub(super) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let config = require_role(&args.role.flags(None), None)?;
    super::cluster::warn(&config);
    let proof = args.certs.as_deref().map(Proof::Folder);
    args.memory_limit.into_iter().for_each(set_memory_limit);
    let run = RunId::new(&*args.run_name);
    let mut seat = Seat::new(&config, ClusterSpec::default(), proof, run)?;
    seat.silence = Some(args.silence.0);
    seat.lanes = args.lanes.threads.map(usize::from);
    let (task, places) = (seat.task().clone(), super::cluster::addresses(seat.cluster()));
    let stop = StopRequest::on_signals()?;
    let (devices, busy_poll) = (args.devices, args.busy_poll.0);
    let live = Live::start(args.metrics.address, None)?;
    let board = live.as_ref().map(|live| {
        let about = About { run: args.run_name.clone(), ..About::default() };
        let board = Board::new(about, seat.cluster(), [task.clone()]);
        live.boards.add(Arc::clone(&board));
        board
    });
    let member = Member { devices, busy_poll, board, ..Member::new(seat) };
    let ready = || {
        say!("{task} serves sessions as `{}`; a signal ends it; its cluster:", args.run_name);
        places.iter().for_each(|place| say!("{place}"));
    };
    let ended = deployment::serve(member, args.recovery.0, stop, ready)?;
    ended.map_err(|error| Failure::Task { run: args.run_name.clone(), error })
}
