//! A parameter server's work on the devices of its task: updates are computed there, and copies of
//! rows take their time.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cluster::LocalDevice;
use crate::kernels::{Cost, Costs, KernelKind};
use crate::optimizer::apply;
use crate::tensor::{Tensor, within_memory};

use super::ParameterServer;
use crate::runtime::compute::{Asker, Calculation, Work};
use crate::runtime::mail::ParameterServerMail;
use crate::runtime::mailbox::tell;
use crate::runtime::messages::Origin;
use crate::runtime::parameter_server::updating::{Updates, Updating};
use crate::runtime::state::{Served, StateValues, Ticket, VariableId};

impl ParameterServer {
    /// Copies rows of a variable, at once, so that nobody holds the variable during the device's
    /// time.
    pub(super) fn gather(
        &mut self,
        ticket: Ticket,
        origin: Option<Origin>,
        variable: VariableId,
        ids: &Tensor,
    ) {
        let gathered = within_memory(|| self.store.get(variable).gather(ids));
        let outcome = gathered.unwrap_or_else(|refused| Err(refused.into()));
        self.keep_snapshot(ticket, origin, variable);
        self.gathered.push(Served { ticket, outcome });
    }

    /// Launches the copies: their answers come after the time that the devices take to copy.
    pub(super) fn launch_gathers(&mut self) {
        let mut by_device: BTreeMap<LocalDevice, Vec<Served>> = BTreeMap::new();
        for served in std::mem::take(&mut self.gathered) {
            by_device.entry(served.ticket.device).or_default().push(served);
        }
        for (device, gathered) in by_device {
            let copied = gathered
                .iter()
                .flat_map(|served| served.outcome.iter().map(|outputs| outputs[0].byte_len()));
            let cost = Cost::moved(2 * copied.sum::<usize>());
            let cost = Costs::of(KernelKind::Movement, cost);
            self.launch_on(device, cost, Box::new(Gathered(gathered)));
        }
    }

    /// Launches the updates of this turn, as one piece of work for each device.
    pub(super) fn launch(&mut self) {
        if self.updates.0.is_empty() {
            return;
        }
        let mut waiting = std::mem::replace(&mut self.updates, self.idle.pop().unwrap_or_default());
        for device in self.devices.own() {
            let mut own = self.idle.pop().unwrap_or_default();
            own.0.extend(waiting.0.extract_if(.., |updating| updating.device == device));
            if own.0.is_empty() {
                self.idle.push(own);
                continue;
            }
            let cost = own.0.iter().map(|updating| updating.update.cost()).sum();
            self.launch_on(device, Costs::of(KernelKind::Update, cost), own);
        }
        self.idle.push(waiting);
    }

    fn launch_on(&self, device: LocalDevice, cost: Costs, calculation: Box<dyn Calculation>) {
        let asker = Asker(Rc::clone(&self.outbox.actors));
        self.devices.get(device).launch(Work { step: None, cost, calculation, asker });
    }

    pub(super) fn updated(&mut self, mut updates: Box<Updates>) {
        for Updating { variables, update, tickets, refused, .. } in updates.0.drain(..) {
            // Also one without room counts as an update: the rounds of its variable go on.
            let waited = self.store.put_back(&variables, update.values);
            if let Some(refused) = refused {
                let variable = &self.store.get(variables[0]).spec.shared_name;
                tracing::warn!(%variable, %refused, "an update is left out");
            }
            for ticket in tickets {
                self.answer(ticket, refused.map_or(Ok(StateValues::new()), |no| Err(no.into())));
            }
            waited.into_iter().for_each(|request| self.serve(request));
            self.apply_rounds(variables[0]);
        }
        self.idle.push(updates);
    }
}

impl Calculation for Updates {
    fn run(&mut self) {
        for updating in &mut self.0 {
            updating.refused = within_memory(|| apply(&mut updating.update)).err();
        }
    }

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.parameter_server, ParameterServerMail::Updated(self));
    }
}

/// Answers with rows that have been copied already: the device only takes the time of the copy.
struct Gathered(Vec<Served>);

impl Calculation for Gathered {
    fn run(&mut self) {}

    fn done(self: Box<Self>, asker: &Asker) {
        tell(&asker.0.parameter_server, ParameterServerMail::Gathered(self.0));
    }
}
