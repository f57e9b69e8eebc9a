//! The hooks of a monitored session: which it has, and in what order.

use crate::graph::Output;
use crate::runtime::Result;

use super::super::super::checkpoints::Checkpoints;
use super::super::super::hooks::{
    CheckpointSaver, Hook, Hooks, StepCounter, StopAtTime, SummarySaver,
};
use super::super::super::summary::SummaryWriter;
use super::Builder;

impl Builder {
    /// The chief's writer into the folder of summaries, if there is one and something to write.
    pub(super) fn summary_writer(&self) -> Result<Option<SummaryWriter>> {
        let beside = self.checkpoints.as_ref().and_then(|kept| kept.folder.as_ref());
        let folder = self.summary_dir.as_ref().or(beside);
        let writes = self.save_graph_def
            || self.log_step_count.acts()
            || (self.save_summaries.acts() && !self.scaffold.summaries.is_empty());
        let folder = folder.filter(|_| writes && self.task.is_chief());
        folder.map(|folder| SummaryWriter::create(&self.task, folder)).transpose()
    }

    /// The hooks in TensorFlow's order: those of the chief alone, the counter of steps, the
    /// summaries, the saver, the program's.
    pub(super) fn assemble_hooks(
        &mut self,
        checkpoints: Option<&Checkpoints>,
        writer: Option<&SummaryWriter>,
    ) -> Result<Hooks> {
        let mut list = Vec::new();
        if self.task.is_chief() {
            list.append(&mut self.chief_only);
            if let Some(writer) = writer {
                self.add_summary_hooks(writer, &mut list);
            }
            if let (Some(kept), Some(checkpoints)) = (&self.checkpoints, checkpoints)
                && kept.settings.every.acts()
            {
                let (checkpoints, names) = (checkpoints.clone(), self.scaffold.saved_names()?);
                list.push(Box::new(CheckpointSaver::of(checkpoints, &kept.settings, names)));
            }
        }
        if let Some(limit) = self.task.settings().stop.time.filter(|_| !self.task.has_executor()) {
            list.push(Box::new(StopAtTime::new(limit)));
        }
        list.append(&mut self.hooks);
        Ok(Hooks::new(list))
    }

    /// Adds the hooks that write into the folder of summaries.
    fn add_summary_hooks(&self, writer: &SummaryWriter, list: &mut Vec<Box<dyn Hook>>) {
        let summaries = &self.scaffold.summaries;
        if self.log_step_count.acts() {
            let counter = StepCounter::new(self.log_step_count);
            list.push(Box::new(counter.writer(writer)));
        }
        if self.save_summaries.acts() && !summaries.is_empty() {
            let saver = SummarySaver::new(writer, self.save_summaries);
            let add =
                |saver: SummarySaver, (tag, scalar): &(String, Output)| saver.scalar(tag, scalar);
            list.push(Box::new(summaries.iter().fold(saver, add)));
        }
    }
}
