//! Any text as `TF_CONFIG`: refused with its mistakes, or a configuration that can be asked
//! everything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard::cluster::{ClusterSpec, RunConfig, TaskConfig};

fuzz_target!(|text: &str| {
    if let Err(errors) = TaskConfig::from_tf_config(Some(text)) {
        assert!(!errors.to_string().is_empty());
    }
    let Ok(config) = RunConfig::from_tf_config(Some(text)) else { return };
    let cluster = config.cluster_spec();
    let _chief = config.chief();
    for task in cluster.tasks() {
        cluster.task_address(&task).expect("every task of a cluster has an address");
    }
    let written = cluster.as_dict().to_string();
    assert_eq!(ClusterSpec::from_json(&written).as_ref(), Ok(cluster));
});
