//! `SummaryWriter`: scalars over the steps of a training, and its graph, in files that TensorBoard
//! reads.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::event_file::{EventWriter, create_new, file_name};
use crate::graph::Graph;
use crate::import;
use crate::runtime::{Code, Error, Result};

use super::task::Task;

/// Writes a file of events into a folder (TensorFlow: `tf.summary.FileWriter`).
///
/// The file is called `events.out.tfevents.<seconds>.<job>-<index>`: where TensorFlow names the
/// host, this names the task, of which a host can have several. The time of an event is the task's,
/// so that a simulation writes the same bytes again. Each event is in the file when the call
/// returns. A clone writes to the same file.
#[derive(Clone)]
pub struct SummaryWriter {
    file: Rc<RefCell<EventWriter<File>>>,
    path: PathBuf,
    task: Task,
}

shown!(SummaryWriter, path);

impl SummaryWriter {
    /// A writer to a new file in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// If the folder can't be made or written to.
    pub fn create(task: &Task, folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        let task_name = format!("{}-{}", task.job(), task.index());
        let (file, path) = create_new(folder, &file_name(task.date().as_secs(), &task_name))
            .map_err(|error| unwritable(folder, &error))?;
        let file = EventWriter::new(file, task.date().as_secs_f64())
            .map_err(|error| unwritable(&path, &error))?;
        Ok(Self { file: Rc::new(RefCell::new(file)), path, task: task.clone() })
    }

    /// Writes that `tag` was `value` at `global_step`.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn scalar(&self, tag: &str, value: f32, global_step: u64) -> Result<()> {
        self.scalars(&[(tag, value)], global_step)
    }

    /// Writes several values of one step, as one event.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn scalars(&self, values: &[(&str, f32)], global_step: u64) -> Result<()> {
        let written =
            self.file.borrow_mut().scalars(values, global_step, self.task.date().as_secs_f64());
        written.map_err(|error| unwritable(&self.path, &error))
    }

    /// Writes `graph`, which TensorBoard draws (TensorFlow: `FileWriter.add_graph`). An operation
    /// that TensorFlow does not have is drawn under its name here. Constants of more than 1024
    /// bytes are written without their values. [`to_graph_def`](crate::import::to_graph_def)
    /// writes a graph to be run.
    ///
    /// # Errors
    /// If the graph has a mistake, or the file can't be written.
    pub fn graph(&self, graph: &Graph) -> Result<()> {
        let drawn = import::drawn(graph)?;
        let written = self.file.borrow_mut().graph(drawn, self.task.date().as_secs_f64());
        written.map_err(|error| unwritable(&self.path, &error))
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The error of an output file that can't be written, with what to do about it.
pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let message = format!(
        "can't write {}: {error}; make room there, or write to another folder",
        path.display()
    );
    Error::new(Code::Unwritable, message)
}
