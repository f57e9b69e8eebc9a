//! `TF_CONFIG`: the variable in which the launchers of TensorFlow jobs write the cluster and the
//! role of a process.

use serde_json::{Map, Value};

use super::config_error::Problems;
use super::job_name::parse_index;
use super::json::parse_json;
use super::task_config::TaskConfig;
use super::validator::{Validator, described};
use super::{ConfigProblem, ConfigWarning};

/// The path of mistakes in the variable as a whole.
pub(super) const VARIABLE: &str = "TF_CONFIG";
const CLUSTER: &str = "cluster";
const SPARSE_CLUSTER: &str = "sparseCluster";
const EVAL_MASTER: &str = "eval_session_master";
const ENVIRONMENT: &str = "environment";
/// The keys that a launcher may write. `service` has no meaning here, nor has
/// `eval_session_master`: `RunSettings::evaluation_master` says where evaluations run. In
/// TensorFlow's oldest reader only the job `master` leads where `environment` is `cloud`. Kubeflow
/// writes that for clusters without one, so that here it changes nobody's role.
const KEYS: [&str; 9] = [
    CLUSTER,
    SPARSE_CLUSTER,
    "task",
    "rpc_layer",
    "session_master",
    EVAL_MASTER,
    "model_dir",
    "service",
    ENVIRONMENT,
];
const ROLES: [&str; 5] = ["chief", "master", "worker", "ps", "evaluator"];

impl TaskConfig {
    /// Reads the variable's `text`, without the parts that have mistakes; a missing or empty one
    /// gives no cluster.
    pub(super) fn read_tf_config(text: Option<&str>, problems: &mut Problems) -> Self {
        let root = read_root(text, problems);
        let mut config = Self {
            rpc_layer: text_at(&root, "rpc_layer", problems),
            session_master: text_at(&root, "session_master", problems),
            model_dir: text_at(&root, "model_dir", problems),
            ..Self::default()
        };
        // Of these the type alone is checked.
        for key in [ENVIRONMENT, EVAL_MASTER] {
            text_at(&root, key, problems);
        }
        if config.model_dir.as_deref() == Some("") {
            problems.add("model_dir", ConfigProblem::Empty);
        }
        if let Some(service) = root.get("service").filter(|service| !service.is_object()) {
            problems.add(
                "service",
                ConfigProblem::Type { expected: "a map", found: described(service) },
            );
        }
        config.warn_of_unknown_keys("", &root, &KEYS);
        config.read_task(&root, problems);
        config.read_cluster(&root, problems);
        config
    }

    fn read_task(&mut self, root: &Map<String, Value>, problems: &mut Problems) {
        let task = match root.get("task") {
            None | Some(Value::Null) => return,
            Some(Value::Object(task)) => task,
            Some(other) => {
                let expected = "a map with `type` and `index`";
                return problems
                    .add("task", ConfigProblem::Type { expected, found: described(other) });
            }
        };
        self.task_type = match task.get("type") {
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => text_at_path(task, "type", "task.type", problems).filter(|name| !name.is_empty()),
        };
        self.task_index = match task.get("index") {
            None | Some(Value::Null) => None,
            Some(index) => {
                let read = match index {
                    Value::String(text) => parse_index(text.trim()),
                    other => other.as_u64().and_then(|index| u32::try_from(index).ok()),
                };
                if read.is_none() {
                    let expected = "a whole number from 0";
                    problems.add(
                        "task.index",
                        ConfigProblem::Type { expected, found: described(index) },
                    );
                }
                read
            }
        };
        self.warn_of_unknown_keys("task.", task, &["type", "index"]);
    }

    fn read_cluster(&mut self, root: &Map<String, Value>, problems: &mut Problems) {
        let (path, cluster) = match (root.get(CLUSTER), root.get(SPARSE_CLUSTER)) {
            (None, None) => return,
            (None, Some(sparse)) => (SPARSE_CLUSTER, sparse),
            (Some(cluster), None) => (CLUSTER, cluster),
            (Some(cluster), Some(_)) => {
                problems.add(SPARSE_CLUSTER, ConfigProblem::TwoClusters);
                (CLUSTER, cluster)
            }
        };
        self.paths.cluster = path;
        self.dynamic = path == SPARSE_CLUSTER
            || cluster.as_object().is_some_and(|c| c.values().any(Value::is_object));
        let alone = self.own_task().filter(|task| self.dynamic && task.job() == "ps");
        let mut validator = Validator::new(problems);
        validator.cluster(path, cluster, alone.as_ref());
        self.cluster = validator.finish();
        let unknown = self.cluster.jobs().filter(|job| !ROLES.contains(job));
        let note = "not one of the roles that training knows: chief, worker, ps, evaluator";
        self.warnings
            .extend(unknown.map(|job| ConfigWarning { path: format!("{path}.{job}"), note }));
    }

    fn warn_of_unknown_keys(&mut self, prefix: &str, map: &Map<String, Value>, known: &[&str]) {
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        let note = "unknown key, ignored";
        self.warnings
            .extend(unknown.map(|key| ConfigWarning { path: format!("{prefix}{key}"), note }));
    }
}

fn read_root(text: Option<&str>, problems: &mut Problems) -> Map<String, Value> {
    let text = text.unwrap_or_default();
    if text.trim().is_empty() {
        return Map::new();
    }
    match parse_json(text) {
        Ok(Value::Object(root)) => return root,
        Ok(other) => problems
            .add(VARIABLE, ConfigProblem::Type { expected: "a map", found: described(&other) }),
        Err(error) => problems.add(VARIABLE, ConfigProblem::Json(error.to_string())),
    }
    Map::new()
}

fn text_at(map: &Map<String, Value>, key: &str, problems: &mut Problems) -> Option<String> {
    text_at_path(map, key, key, problems)
}

fn text_at_path(
    map: &Map<String, Value>,
    key: &str,
    path: &str,
    problems: &mut Problems,
) -> Option<String> {
    match map.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => {
            problems.add(path, ConfigProblem::Type { expected: "a text", found: described(other) });
            None
        }
    }
}
