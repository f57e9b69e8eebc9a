//! A server over QUIC that a program makes in one call talks to `trainyard task`.

use std::fs;
use std::process::Command;
use std::time::Duration;

use trainyard::cluster::{ClusterSpec, TaskName};
use trainyard::deployment::{Certificates, Question, ask};
use trainyard::prelude::*;
use trainyard::transport::Authority;

use crate::support::binary::{Running, folder, free_address};
use crate::support::fixture::on_actix;

#[test]
fn a_program_puts_a_variable_on_a_parameter_server_that_the_command_line_runs() {
    let place = folder("own_server");
    let authority = Authority::new("mine").unwrap();
    let (ps, worker, client) =
        (TaskName::new("ps", 0), TaskName::new("worker", 0), TaskName::new("client", 0));
    for task in [&ps, &worker, &client] {
        authority.issue(task, &["127.0.0.1".to_owned()]).unwrap().save(&place, task).unwrap();
    }
    fs::write(place.join("mine.toml"), "[program]\nmodel = 'null'\n").unwrap();
    let (ps_address, worker_address) = (free_address(), free_address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.arg("task").arg(place.join("mine.toml")).arg("--certs").arg(&place);
    command.args(["--ps-hosts", &ps_address, "--worker-hosts", &worker_address]);
    command.args(["--job-name", "ps", "--task-index", "0", "--run-name", "mine"]);
    let served = Running::start(command.env_remove("TF_CONFIG"), Duration::from_secs(60));
    let cluster =
        ClusterSpec::dense([("ps", [ps_address.clone()]), ("worker", [worker_address])]).unwrap();
    on_actix(async {
        let certificates = Certificates::new(&place, "mine");
        let server = Server::quic(&cluster, "worker", 0, &certificates).await.unwrap();
        let g = Graph::new();
        let v = g.with_device("/job:ps/task:0", |g| g.variable("v", &g.constant(7f32)))?;
        let doubled = v.read().mul(&g.constant(2f32))?;
        let session = Session::new(&server.target(), &g).await?;
        session.run().target(g.initializer()).await?;
        assert_eq!(session.run().fetch(&doubled).await?.scalar::<f32>(0)?, 14.0);
        session.close();
        Ok(())
    });
    let question = Question {
        task: &ps,
        address: &ps_address,
        run: "mine",
        certificates: &place,
        client: &client,
    };
    let standing = ask(&question).unwrap();
    assert_eq!((standing.task.as_str(), standing.is_training_over), ("ps:0", false));
    assert!(standing.bytes_sent > 0);
    drop(served);
}
