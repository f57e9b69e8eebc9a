//! A store of objects: S3, Google's, Azure's, or one in memory.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutPayload, parse_url_opts};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{Entry, Store};
use crate::checkpoint::CheckpointError;

type Client = dyn object_store::ObjectStore;
type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Objects under the prefix that a URL names. A file is put as a whole: a reader gets the old one
/// or the new one. The services' settings, such as `AWS_ACCESS_KEY_ID`, come from the environment.
///
/// The client needs an async runtime. The callers block, some of them inside another runtime, so
/// the store has its own, on a thread.
pub struct ObjectStore {
    location: String,
    client: Arc<Client>,
    prefix: Path,
    jobs: UnboundedSender<Job>,
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("location", &self.location).finish_non_exhaustive()
    }
}

impl ObjectStore {
    /// The store at `location`, such as `s3://bucket/run-7`, `gs://…`, `az://…` or `memory:///`.
    ///
    /// # Errors
    /// If `location` is no such URL, or the environment lacks a setting.
    pub fn new(location: &str) -> Result<Self, CheckpointError> {
        let error = |problem| CheckpointError::Location { location: location.to_owned(), problem };
        let Ok(url) = location.parse() else { return Err(error("it is no URL".to_owned())) };
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text);
        let (client, prefix) =
            parse_url_opts(&url, environment).map_err(|problem| error(problem.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|problem| error(problem.to_string()))?;
        let (jobs, mut waiting) = unbounded_channel::<Job>();
        let serve = move || {
            runtime.block_on(async {
                while let Some(job) = waiting.recv().await {
                    job.await;
                }
            });
        };
        let started = thread::Builder::new().name("checkpoints".to_owned()).spawn(serve);
        started.map_err(|problem| error(problem.to_string()))?;
        Ok(Self {
            location: location.trim_end_matches('/').to_owned(),
            client: client.into(),
            prefix,
            jobs,
        })
    }

    /// Runs `ask` on the runtime's thread, and waits for its result.
    fn wait<T, F>(&self, ask: impl FnOnce(Arc<Client>) -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (reply, answer) = mpsc::sync_channel(1);
        let asked = ask(Arc::clone(&self.client));
        let gone = || io::Error::other("the thread of the client is gone");
        let job = Box::pin(async move {
            // The receiver is gone only if the caller's thread is.
            reply.send(asked.await).unwrap_or_default();
        });
        self.jobs.send(job).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?.map_err(|error| match error {
            Error::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, error),
            error => io::Error::other(error),
        })
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }
}

impl Store for ObjectStore {
    fn list(&self) -> io::Result<Vec<Entry>> {
        let prefix = self.prefix.clone();
        let listed =
            self.wait(|client| async move { client.list_with_delimiter(Some(&prefix)).await })?;
        let entry = |object: &object_store::ObjectMeta| {
            Some(Entry { name: object.location.filename()?.to_owned(), bytes: object.size })
        };
        let mut entries: Vec<Entry> = listed.objects.iter().filter_map(entry).collect();
        entries.sort();
        Ok(entries)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        let bytes = self.wait(|client| async move { client.get(&path).await?.bytes().await })?;
        Ok(bytes.into())
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let path = self.path(name);
        let payload: PutPayload = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
        self.wait(|client| async move { client.put(&path, payload).await.map(drop) })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        match self.wait(|client| async move { client.delete(&path).await }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            deleted => deleted,
        }
    }

    fn locate(&self, name: &str) -> String {
        if name.is_empty() { self.location.clone() } else { format!("{}/{name}", self.location) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::fixture::{files, files_of, is_of, save, saver, saver_to, snapshot};
    use crate::checkpoint::open_store;

    #[test]
    fn a_training_is_saved_and_found_among_objects_and_those_of_others_are_left() {
        let store = Arc::new(ObjectStore::new("memory:///runs/7").unwrap());
        store.write("other", &[b"one ", b"two"]).unwrap();
        assert_eq!(store.read("other").unwrap(), b"one two");
        let mut saver = saver_to(Arc::<ObjectStore>::clone(&store));
        save(&mut saver, 1..=4);
        assert!(is_of(&saver.latest().unwrap().checkpoint.unwrap(), &snapshot(4, 0)));
        let expected = [files_of(&[3, 4]), vec!["other".to_owned()]].concat();
        assert_eq!(files(&*store), expected);
    }

    #[test]
    fn objects_in_a_folder_are_those_of_the_folder() {
        let folder = std::env::temp_dir().join(format!("trainyard-{}-objects", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = ObjectStore::new(&format!("file://{}", folder.display())).unwrap();
        save(&mut saver(store), [5]);
        let found = open_store(folder.to_str().unwrap()).unwrap().list().unwrap();
        assert_eq!(found.into_iter().map(|entry| entry.name).collect::<Vec<_>>(), files_of(&[5]));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_object_that_is_not_there_is_not_found_and_can_be_deleted() {
        let store = ObjectStore::new("memory:///").unwrap();
        assert_eq!(store.read("absent").unwrap_err().kind(), io::ErrorKind::NotFound);
        store.delete("absent").unwrap();
        assert_eq!(store.list().unwrap(), []);
        assert_eq!(store.locate("absent"), "memory:/absent");
    }

    #[test]
    fn it_can_be_called_inside_of_a_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { save(&mut saver(ObjectStore::new("memory:///").unwrap()), [1]) });
    }

    #[test]
    fn a_url_of_no_store_is_refused() {
        for location in ["ftp://host/a", "s3://", "://"] {
            let error = open_store(location).err().unwrap().to_string();
            assert!(
                error.contains(&format!("`{location}` is no place for checkpoints")),
                "{error}"
            );
        }
    }
}
