//! A worker's loss of a task: forgets the steps that the task began, and fails those that wait for
//! it.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::transport::{Loss, PeerId};

use super::registration::{graphs_of, ways_to};
use super::steps::all_of;
use super::{RegisteredPartition, Worker};
use crate::runtime::error::{Code, Error};
use crate::runtime::mail::ParameterServerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::{GraphHandle, MasterMessage, Scope, StepId, StepPart};

impl Worker {
    /// The way to `peer` has broken.
    pub(super) fn lost(&mut self, peer: PeerId, masters: Vec<u64>, loss: Loss) {
        masters.iter().for_each(|master| self.rendezvous.lose(*master));
        self.forget_what_it_began(peer, &masters);
        self.fail_what_waits_for(peer, loss);
        self.tell_masters_of_the_way_to(peer);
        let lost = ParameterServerMail::Lost { peer, masters, loss };
        tell(&self.outbox.actors.parameter_server, lost);
    }

    /// Forgets the steps that `peer` began as any of `masters`: nobody takes their outcome, and
    /// nobody orders them again.
    fn forget_what_it_began(&mut self, peer: PeerId, masters: &[u64]) {
        let began = masters.iter().flat_map(|master| self.steps_within(all_of(*master)));
        let began: SmallVec<[StepId; 4]> = began.map(|(part, _)| part.step).collect();
        began.into_iter().for_each(|step| self.abort(step));
        self.pending.retain(|_, pending| pending.master != peer);
        let lost = masters.iter().flat_map(|master| self.registered.range(graphs_of(*master)));
        let lost: Vec<GraphHandle> = lost.map(|(handle, _)| *handle).collect();
        lost.into_iter().for_each(|handle| drop(self.forget_graph(handle)));
        // A session's own variables may outlast its partitions, or come before any is ready.
        let own = self.scopes.iter().filter(|(_, master)| **master == peer);
        let own: Vec<Scope> = own.map(|(scope, _)| *scope).collect();
        own.into_iter().for_each(|scope| self.close_scope(scope));
    }

    /// Fails the steps that use variables in `containers` (the default one if none is named), which
    /// have lost their values: so values read before the clearing never mix with later ones.
    pub(super) fn cleared(&mut self, containers: &[String]) {
        let hit = self.steps.iter().filter(|(_, step)| step.executor.plan().uses(containers));
        let hit: SmallVec<[StepPart; 4]> = hit.map(|(part, _)| *part).collect();
        let used =
            self.registered.values_mut().filter(|registered| registered.plan.uses(containers));
        used.for_each(RegisteredPartition::void_ahead);
        for part in hit {
            let here = self.outbox.name(self.outbox.local());
            let message =
                format!("the variables of step {} were reset while it ran", part.step.number);
            self.fail(part, Error::new(Code::Aborted, message).on(&here));
        }
    }

    /// Tells the masters of the partitions that send values to `peer` that these may be lost: a
    /// part there can wait for them without having lost this task since it began.
    fn tell_masters_of_the_way_to(&self, peer: PeerId) {
        let senders = self.ways.range(ways_to(peer));
        let senders = senders.filter_map(|(_, graph)| self.registered.get(graph));
        let masters: BTreeSet<PeerId> = senders.map(|one| one.master).collect();
        for master in masters {
            self.outbox.send(master, MasterMessage::WayLost { to: self.outbox.name(peer) });
        }
    }

    /// Tells a `master` which receivers of its `graph` are not reached: what was sent to them waits
    /// here, though the graph's part of the `step` may have ended. The parameter server adds whom
    /// it waits for.
    pub(super) fn tell_ways(&self, master: PeerId, step: StepId, graph: GraphHandle) {
        let receivers = self.registered.get(&graph).map(|registered| registered.receivers.peers());
        let others = receivers.into_iter().flatten().filter(|peer| *peer != self.outbox.local());
        let blocked = |peer| Some((self.outbox.name(peer), self.outbox.obstacle(peer)?.why));
        let to = others.filter_map(blocked).collect();
        let mail = ParameterServerMail::TellWays { master, step, graph, to };
        tell(&self.outbox.actors.parameter_server, mail);
    }

    /// Fails the steps of others that wait for values of `peer`, and tells their masters.
    fn fail_what_waits_for(&mut self, peer: PeerId, loss: Loss) {
        let name = self.outbox.name(peer);
        let waiting: SmallVec<[StepPart; 4]> = self
            .steps
            .iter()
            .filter(|(_, step)| step.executor.waits_for(&name))
            .map(|(part, _)| *part)
            .collect();
        for part in waiting {
            let missing = self
                .steps
                .get(&part)
                .map(|step| step.executor.missing().collect::<Vec<_>>().join(", "));
            let here = self.outbox.name(self.outbox.local());
            let what = format!(
                "step {} at {here} waited for {}",
                part.step.number,
                missing.unwrap_or_default()
            );
            let error =
                Error::new(loss.into(), format!("{name} was lost, {loss}, while {what}")).on(&name);
            self.fail(part, error);
        }
    }
}
