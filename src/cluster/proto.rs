//! Clusters and servers as TensorFlow's protocol buffers: the field numbers of `cluster.proto` and
//! `tensorflow_server.proto`.

use std::collections::BTreeMap;

use prost::Message;

use super::{ClusterSpec, ConfigErrors, ConfigProblem, TaskName};

/// `JobDef`: a job's tasks, each with its address.
#[derive(Clone, PartialEq, Message)]
struct JobDef {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(btree_map = "int32, string", tag = "2")]
    tasks: BTreeMap<i32, String>,
}

/// `ClusterDef`.
#[derive(Clone, PartialEq, Message)]
struct ClusterDef {
    #[prost(message, repeated, tag = "1")]
    job: Vec<JobDef>,
}

/// `ServerDef`: a cluster, and one of its tasks.
#[derive(Clone, PartialEq, Message)]
struct ServerDef {
    #[prost(message, optional, tag = "1")]
    cluster: Option<ClusterDef>,
    #[prost(string, tag = "2")]
    job_name: String,
    #[prost(int32, tag = "3")]
    task_index: i32,
    /// `ConfigProto`, which is not read.
    #[prost(bytes = "vec", tag = "4")]
    default_session_config: Vec<u8>,
    #[prost(string, tag = "5")]
    protocol: String,
}

/// The transports that a `ServerDef` may name: TensorFlow's default, in whose place QUIC is used,
/// and QUIC itself.
const PROTOCOLS: [&str; 3] = ["", "grpc", "quic"];

impl ClusterSpec {
    /// The cluster as a serialized `ClusterDef` (TensorFlow: `as_cluster_def`).
    pub fn as_cluster_def(&self) -> Vec<u8> {
        self.to_def().encode_to_vec()
    }

    /// Reads a serialized `ClusterDef`.
    ///
    /// # Errors
    /// [`ConfigProblem::Proto`], or as [`Self::sparse`].
    pub fn from_cluster_def(bytes: &[u8]) -> Result<Self, ConfigErrors> {
        let def = ClusterDef::decode(bytes).map_err(|error| unreadable(error.to_string()))?;
        Self::of_def(def)
    }

    fn to_def(&self) -> ClusterDef {
        let mut job: Vec<JobDef> = Vec::new();
        for name in self.jobs() {
            job.push(JobDef { name: name.to_owned(), tasks: BTreeMap::new() });
        }
        for task in self.tasks() {
            let address = self.task_address(&task).unwrap_or_default().to_owned();
            if let Some(own) = job.iter_mut().find(|job| job.name == task.job()) {
                own.tasks.insert(task.index() as i32, address);
            }
        }
        ClusterDef { job }
    }

    fn of_def(def: ClusterDef) -> Result<Self, ConfigErrors> {
        let index = |index: i32| {
            u32::try_from(index)
                .map_err(|_| unreadable(format!("the task index {index} is negative")))
        };
        let mut jobs = Vec::new();
        for job in def.job {
            let tasks = job.tasks.into_iter().map(|(at, address)| Ok((index(at)?, address)));
            jobs.push((job.name, tasks.collect::<Result<Vec<_>, ConfigErrors>>()?));
        }
        Self::sparse(jobs)
    }
}

/// The `ServerDef` of a task of `cluster`, serialized.
pub(crate) fn server_def(cluster: &ClusterSpec, task: &TaskName) -> Vec<u8> {
    let def = ServerDef {
        cluster: Some(cluster.to_def()),
        job_name: task.job().to_owned(),
        task_index: task.index() as i32,
        default_session_config: Vec::new(),
        protocol: "quic".to_owned(),
    };
    def.encode_to_vec()
}

/// The cluster of a serialized `ServerDef`, and the job and the index of its task.
///
/// # Errors
/// [`ConfigProblem::Proto`] if it is none, or asks for what is not there; the mistakes of its
/// cluster.
pub(crate) fn read_server_def(bytes: &[u8]) -> Result<(ClusterSpec, String, u32), ConfigErrors> {
    let def = ServerDef::decode(bytes).map_err(|error| unreadable(error.to_string()))?;
    if !PROTOCOLS.contains(&&*def.protocol) {
        return Err(unreadable(format!("the protocol `{}` is not known; QUIC is", def.protocol)));
    }
    if !def.default_session_config.is_empty() {
        let why = "its `default_session_config` is not read; give sessions their own options";
        return Err(unreadable(why.to_owned()));
    }
    let index = u32::try_from(def.task_index)
        .map_err(|_| unreadable(format!("the task index {} is negative", def.task_index)))?;
    Ok((ClusterSpec::of_def(def.cluster.unwrap_or_default())?, def.job_name, index))
}

fn unreadable(why: String) -> ConfigErrors {
    ConfigErrors::one("the protocol buffer", ConfigProblem::Proto(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"ps": ["a:1"], "worker": {2: "b:2"}}`, by the rules of the wire format.
    const AS_ENCODED: &[u8] =
        b"\n\r\n\x02ps\x12\x07\x08\x00\x12\x03a:1\n\x11\n\x06worker\x12\x07\x08\x02\x12\x03b:2";

    fn spec() -> ClusterSpec {
        ClusterSpec::sparse([("ps", vec![(0, "a:1")]), ("worker", vec![(2, "b:2")])]).unwrap()
    }

    #[test]
    fn a_cluster_def_is_read_by_the_wire_format_and_ours_is_read_back() {
        assert_eq!(ClusterSpec::from_cluster_def(AS_ENCODED).unwrap(), spec());
        assert_eq!(ClusterSpec::from_cluster_def(&spec().as_cluster_def()).unwrap(), spec());
        assert_eq!(ClusterSpec::from_cluster_def(b"").unwrap(), ClusterSpec::default());
    }

    #[test]
    fn a_server_def_is_read_back() {
        let written = server_def(&spec(), &TaskName::new("worker", 2));
        assert_eq!(read_server_def(&written).unwrap(), (spec(), "worker".to_owned(), 2));
    }

    #[test]
    fn what_a_def_says_and_is_not_there_is_refused() {
        let mut def = ServerDef { protocol: "grpc+verbs".to_owned(), ..ServerDef::default() };
        let refused = |def: &ServerDef| read_server_def(&def.encode_to_vec()).unwrap_err();
        assert!(refused(&def).to_string().contains("`grpc+verbs`"));
        def.protocol = "grpc".to_owned();
        def.default_session_config = vec![0x38, 1];
        assert!(refused(&def).to_string().contains("default_session_config"));
        def.default_session_config.clear();
        def.task_index = -1;
        assert!(refused(&def).to_string().contains("-1"));
        assert!(ClusterSpec::from_cluster_def(b"\xff\xff").is_err());
    }
}
