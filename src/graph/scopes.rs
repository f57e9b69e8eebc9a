//! The scopes that a part of a graph is built in: devices, names, control dependencies, containers.

use std::sync::Arc;

use super::device_scope::{DeviceFunction, DeviceScope};
use super::error::{GraphError, GraphProblem};
use super::output::Target;
use super::partitioner::Partitioner;
use super::state::is_legal;
use super::{Graph, OpId};
use crate::cluster::DeviceSpec;

/// Scopes. Each ends when `build` returns, and those inside it have ended by then.
///
/// `build` returns a [`GraphError`]; `?` converts the other errors that a trainer can meet while it
/// builds its graph.
impl Graph {
    /// Builds on `device`, a partial device name that fills the parts that inner scopes leave open.
    /// The empty name requests nothing; see [`Graph::without_device`] to forget outer scopes.
    ///
    /// # Errors
    /// If the name is malformed, and the errors of `build`.
    #[track_caller]
    pub fn with_device<T>(
        &self,
        device: &str,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        match device.parse() {
            Ok(spec) => self.with_device_spec(spec, build),
            Err(error) => Err(GraphError::new("device scope", GraphProblem::Device(error))),
        }
    }

    /// As [`Graph::with_device`], of a name that has been read.
    pub(super) fn with_device_spec<T>(
        &self,
        device: DeviceSpec,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.in_device_scope(DeviceScope::Spec(device), build)
    }

    /// Builds on the device that `function` chooses for each operation.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn with_device_fn<T>(
        &self,
        function: impl DeviceFunction + 'static,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.in_device_scope(DeviceScope::Function(Arc::new(function)), build)
    }

    /// Builds as if no device scope were around (TensorFlow: `tf.device(None)`).
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn without_device<T>(
        &self,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.in_device_scope(DeviceScope::Reset, build)
    }

    fn in_device_scope<T>(
        &self,
        scope: DeviceScope,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.state().device_scopes.push(scope);
        let built = build(self);
        self.state().device_scopes.pop();
        built
    }

    /// Builds with every new variable local to each worker: it is on the worker's task, and each
    /// worker gives its own copy the initial value. The global step is shared even so.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn with_local_variables<T>(
        &self,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.with_variables(true, build)
    }

    /// Builds with every new variable shared by the workers, whatever the scopes around.
    pub(crate) fn with_shared_variables<T>(
        &self,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.with_variables(false, build)
    }

    fn with_variables<T>(
        &self,
        are_local: bool,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let outer = std::mem::replace(&mut self.state().is_local, are_local);
        let built = build(self);
        self.state().is_local = outer;
        built
    }

    /// Builds with the weights of layers in as many shards as `partitioner` says, each placed by
    /// itself (TensorFlow: `variable_scope(partitioner=…)`). It is for kernels, biases, and scales
    /// and offsets of [`layer_norm`](super::layer_norm); those of batch normalisation stay whole.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn with_partitioner<T>(
        &self,
        partitioner: Partitioner,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let outer = self.state().partitioner.replace(partitioner);
        let built = build(self);
        self.state().partitioner = outer;
        built
    }

    /// Builds with names below `name/`, numbered if another scope has that name.
    ///
    /// # Errors
    /// If the name is illegal, and the errors of `build`.
    #[track_caller]
    pub fn with_name_scope<T>(
        &self,
        name: &str,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        self.enter_name_scope(name)?;
        let built = build(self);
        self.leave_name_scope();
        built
    }

    #[track_caller]
    pub(super) fn enter_name_scope(&self, name: &str) -> Result<(), GraphError> {
        let mut state = self.state();
        let scope = state.unique_scope(name);
        if !is_legal(&scope) {
            return Err(GraphError::new(format!("{name} (name scope)"), GraphProblem::IllegalName));
        }
        state.name_scopes.push(scope);
        Ok(())
    }

    pub(super) fn leave_name_scope(&self) {
        self.state().name_scopes.pop();
    }

    /// The container in force.
    pub(super) fn container(&self) -> Arc<str> {
        Arc::clone(&self.state().container)
    }

    /// `name` below the name scope in force.
    pub(crate) fn scoped_name(&self, name: &str) -> String {
        self.state().scoped(name)
    }

    /// Builds operations that run only after all of `targets`.
    ///
    /// # Errors
    /// If a target belongs to another graph, and the errors of `build`.
    #[track_caller]
    pub fn with_control_dependencies<T>(
        &self,
        targets: &[&Target],
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let controls = self.ids_of("control dependencies", targets)?;
        let outer = self.state().controls.len();
        self.state().controls.extend(controls);
        let built = build(self);
        self.state().controls.truncate(outer);
        built
    }

    /// Builds what sessions run by itself, such as first values, as if no control dependencies were
    /// around.
    ///
    /// # Errors
    /// The errors of `build`.
    pub(crate) fn without_control_dependencies<T>(
        &self,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let around = self.replace_controls(Vec::new());
        let built = build(self);
        self.replace_controls(around);
        built
    }

    /// Has `controls` around instead of those that are returned.
    pub(super) fn replace_controls(&self, controls: Vec<OpId>) -> Vec<OpId> {
        std::mem::replace(&mut self.state().controls, controls)
    }

    /// Builds variables in the namespace `container`, which a session's reset clears as one.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn with_container<T>(
        &self,
        container: &str,
        build: impl FnOnce(&Self) -> Result<T, GraphError>,
    ) -> Result<T, GraphError> {
        let outer = std::mem::replace(&mut self.state().container, container.into());
        let built = build(self);
        self.state().container = outer;
        built
    }
}
