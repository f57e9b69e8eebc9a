//! The devices that the layers of a network are dealt to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::DeviceSpec;
use crate::graph::{DeviceFunction, OperationRequest};

/// Devices in a row, each of which computes some consecutive layers. Variables, and what is built
/// outside of layers, are where they would be without them: the first device is the worker's own.
#[derive(Clone)]
pub(crate) struct Stages {
    devices: Arc<[DeviceSpec]>,
    /// The device of the layer that is built; the first between layers.
    current: Arc<AtomicUsize>,
}

impl Stages {
    /// Stages on `devices`, of which there is at least one.
    pub(crate) fn new(devices: Vec<DeviceSpec>) -> Self {
        Self { devices: devices.into(), current: Arc::default() }
    }

    /// Builds layer `layer` of `layers`.
    pub(super) fn layer<T>(&self, layer: usize, layers: usize, build: impl FnOnce() -> T) -> T {
        self.current.store(layer * self.devices.len() / layers, Ordering::Relaxed);
        let built = build();
        self.current.store(0, Ordering::Relaxed);
        built
    }

    /// The rule that moves to the layer's device what `rule` puts on the first.
    pub(crate) fn around<F: DeviceFunction>(&self, rule: F) -> impl DeviceFunction + use<F> {
        Around { rule, stages: self.clone() }
    }
}

struct Around<F> {
    rule: F,
    stages: Stages,
}

impl<F: DeviceFunction> DeviceFunction for Around<F> {
    fn device(&self, request: &OperationRequest<'_>) -> DeviceSpec {
        let Stages { devices, current } = &self.stages;
        let chosen = self.rule.device(request);
        match request.variable().is_none() && chosen == devices[0] {
            true => devices[current.load(Ordering::Relaxed)].clone(),
            false => chosen,
        }
    }
}
