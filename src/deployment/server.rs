//! Makes a server that tasks in other processes reach, in one call.

use std::rc::Rc;

use super::seated::{Seated, take_seat};
use super::{Certificates, DeploymentError, Member, Seat};
use crate::cluster::{ClusterSpec, TaskName};
use crate::runtime::{Patience, Server};

impl Server {
    /// A started server of task `index` of `job`. It listens at its address in `cluster` and
    /// reaches the others over QUIC, whether they are servers such as this one or `trainyard
    /// task`s.
    ///
    /// # Errors
    /// If the cluster has no such task, or no address of it; if its certificate can't be read; or
    /// if it can't listen on its address.
    pub async fn quic(
        cluster: &ClusterSpec,
        job: &str,
        index: u32,
        certificates: &Certificates,
    ) -> Result<Rc<Self>, DeploymentError> {
        let task = TaskName::new(job, index);
        let mut member = Member::new(Seat::of_server(cluster, task, certificates)?);
        let Seated { server, .. } = take_seat(&mut member).await?;
        server.serve_sessions(Patience::default().recovery);
        Ok(server)
    }
}
