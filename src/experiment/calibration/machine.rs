//! A machine, as the simulation models it: what its kernels, its messages and its threads cost.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::fit::Guess;
use super::time_text;
use crate::cluster::TaskName;
use crate::deployment::cores;
use crate::kernels::KernelKind;
use crate::scenario::{
    Calibration, EnvelopeCost, MeasuredCompute, MeasuredLanes, MeasuredNetwork, NoiseKind,
};
use crate::simulation::{Cluster, Hosts, Noise};
use crate::transport::Polling;
use crate::units::{BytesPerSecond, FlopsPerSecond, SecondsPerByte, Span};

/// The parameters of a machine's model that a calibration finds. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The rate of arithmetic of one thread \[flop/s\].
    pub rate: f64,
    /// The rate of memory traffic of one thread \[bytes/s\].
    pub memory: f64,
    /// The share of these that convolutions reach.
    pub convolution: f64,
    /// The share of these that reductions, pools and losses reach.
    pub reduction: f64,
    /// The cost of sending any envelope, and of each of its bytes.
    pub send: (f64, f64),
    /// The cost of receiving any envelope, and of each of its bytes.
    pub receive: (f64, f64),
    /// The time that a thread that sleeps takes to wake up.
    pub wake: f64,
    /// Core time of a polling thread, as a fraction of a working thread's.
    pub polling: f64,
    /// The share of their speed that cores have while more threads run on them than there are
    /// cores.
    pub crowded: f64,
    /// The cost of an operation of a graph, beside its kernel.
    pub operation: f64,
    /// The cost of giving a large kernel to the cores, and of hearing of its end.
    pub hand_over: f64,
    /// The threads that carry large envelopes, of which two tasks have so many each, and how many
    /// times as fast as a message thread they are together; none where cores are few.
    pub lanes: Option<(NonZeroU32, f64)>,
    /// The latency of the loopback.
    pub latency: f64,
    /// The rate of the loopback \[bytes/s\].
    pub bandwidth: f64,
    /// The number of cores.
    pub cores: NonZeroU32,
    /// What takes a core away now and then.
    pub noise: Vec<Noise>,
}

impl Machine {
    /// The parameters that the fit may change, each with its prior and its greatest value, as
    /// [`Guess`] has them. The cost of a byte is measured well by itself, and the rate of matrix
    /// products fairly well, so the fit keeps them near that. All else differs in a training, where
    /// threads share cores and caches.
    fn parameters(&mut self) -> impl Iterator<Item = (&mut f64, f64, f64)> {
        const LOOSE: f64 = 0.01;
        const FAIR: f64 = 0.03;
        const FIRM: f64 = 1.0;
        const ANY: f64 = f64::INFINITY;
        [
            (&mut self.rate, FAIR, ANY),
            (&mut self.memory, LOOSE, ANY),
            (&mut self.convolution, LOOSE, 1.0),
            (&mut self.reduction, LOOSE, 1.0),
            (&mut self.send.0, LOOSE, ANY),
            (&mut self.send.1, FIRM, ANY),
            (&mut self.receive.0, LOOSE, ANY),
            (&mut self.receive.1, FIRM, ANY),
            (&mut self.wake, LOOSE, ANY),
            (&mut self.polling, LOOSE, ANY),
            (&mut self.crowded, LOOSE, 1.0),
            (&mut self.operation, LOOSE, ANY),
            (&mut self.hand_over, LOOSE, ANY),
            (&mut self.latency, LOOSE, ANY),
            (&mut self.bandwidth, LOOSE, ANY),
        ]
        .into_iter()
    }

    /// What the fit begins with.
    pub(super) fn guesses(&self) -> Vec<Guess> {
        let guess = |(value, prior, most): (&mut f64, _, _)| Guess { value: *value, prior, most };
        self.clone().parameters().map(guess).collect()
    }

    /// The machine whose parameters have these values, in the order of the guesses.
    pub(super) fn with(&self, values: &[f64]) -> Self {
        let mut machine = self.clone();
        for ((parameter, ..), value) in machine.parameters().zip(values) {
            *parameter = *value;
        }
        machine
    }

    /// Puts all tasks of `cluster` on this machine.
    pub fn apply(&self, cluster: &mut Cluster) {
        let calibration = self.calibration();
        place_together(cluster, self.cores);
        let hardware = &mut cluster.hardware;
        hardware.message_thread = Some(calibration.message_thread());
        hardware.noise = calibration.noise();
        hardware.compute.efficiency.clear(); // the scenario's are of other devices
        calibration.apply(&mut hardware.network, &mut hardware.compute);
    }

    /// The section `[calibration]` of a scenario.
    fn calibration(&self) -> Calibration {
        let span = |seconds: f64| Span(Duration::from_secs_f64(seconds));
        let cost = |(fixed, per_byte)| EnvelopeCost {
            fixed: span(fixed),
            per_byte: SecondsPerByte(per_byte),
        };
        let kind = |noise: &Noise| NoiseKind { every: Span(noise.every), span: Span(noise.span) };
        Calibration {
            send: cost(self.send),
            receive: cost(self.receive),
            wake: span(self.wake),
            patience: Span(Polling::PATIENCE),
            polling: self.polling,
            crowded: Some(self.crowded),
            operation: span(self.operation),
            hand_over: span(self.hand_over),
            lanes: self.lanes.map(|(threads, speed_up)| MeasuredLanes { threads, speed_up }),
            noise: self.noise.iter().map(kind).collect(),
            loopback: MeasuredNetwork {
                latency: Some(span(self.latency)),
                bandwidth: Some(BytesPerSecond(self.bandwidth)),
            },
            network: MeasuredNetwork::default(),
            compute: MeasuredCompute {
                rate: Some(FlopsPerSecond(self.rate)),
                memory: Some(BytesPerSecond(self.memory)),
                efficiency: BTreeMap::from([
                    (KernelKind::Convolution, self.convolution),
                    (KernelKind::Reduction, self.reduction),
                ]),
            },
        }
    }

    /// The same, as text.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("[calibration]\n");
        let cost = |(fixed, per_byte): (f64, f64)| {
            format!("{{ fixed = {}, per_byte = \"{:.5}ns\" }}", time_text(fixed), per_byte * 1e9)
        };
        let gigabits = self.bandwidth * 8e-9;
        let (rate, memory) = (self.rate / 1e9, self.memory / 1e9);
        let latency = time_text(self.latency);
        let efficiency = format!(
            "{{ convolution = {:.4}, reduction = {:.4} }}",
            self.convolution, self.reduction
        );
        let rates = format!("rate = \"{rate:.3}GFLOP/s\", memory = \"{memory:.3}GB/s\"");
        let compute = format!("{{ {rates}, efficiency = {efficiency} }}");
        let kind = |noise: &Noise| {
            let [every, span] = [noise.every, noise.span].map(|span| time_text(span.as_secs_f64()));
            format!("    {{ every = {every}, span = {span} }},\n")
        };
        let noise = format!("[\n{}]", self.noise.iter().map(kind).collect::<String>());
        let lines = [
            ("send", cost(self.send)),
            ("receive", cost(self.receive)),
            ("wake", time_text(self.wake)),
            ("patience", time_text(Polling::PATIENCE.as_secs_f64())),
            ("polling", format!("{:.4}", self.polling)),
            ("crowded", format!("{:.4}", self.crowded)),
            ("operation", time_text(self.operation)),
            ("hand_over", time_text(self.hand_over)),
            ("noise", noise),
            ("loopback", format!("{{ latency = {latency}, bandwidth = \"{gigabits:.3}Gbps\" }}")),
            ("compute", compute),
        ];
        let lanes = |(threads, speed_up): (NonZeroU32, f64)| {
            ("lanes", format!("{{ threads = {threads}, speed_up = {speed_up:.4} }}"))
        };
        for (key, value) in lines.into_iter().chain(self.lanes.map(lanes)) {
            append!(text, "{key} = {value}\n");
        }
        text
    }
}

/// The number of this machine's cores, as [`Hosts`] has it.
pub(crate) fn cores_here() -> NonZeroU32 {
    NonZeroU32::try_from(cores()).unwrap_or(NonZeroU32::MAX)
}

/// Puts all tasks of `cluster` on one host with so many cores, as `launch` does.
pub(crate) fn place_together(cluster: &mut Cluster, cores: NonZeroU32) {
    let tasks: Vec<TaskName> = cluster.spec.tasks().collect();
    cluster.hardware.hosts = Some(Hosts { tasks: vec![tasks], cores });
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::scenario;

    const MILLISECOND: Duration = Duration::from_millis(1);

    pub(crate) fn machine() -> Machine {
        Machine {
            rate: 40e9,
            memory: 8e9,
            convolution: 0.5,
            reduction: 0.25,
            send: (9e-6, 0.5e-9),
            receive: (8e-6, 0.25e-9),
            wake: 25e-6,
            polling: 0.5,
            crowded: 0.9,
            operation: 0.5e-6,
            hand_over: 12e-6,
            lanes: Some((NonZeroU32::new(4).expect("four"), 2.5)),
            latency: 15e-6,
            bandwidth: 2.5e9,
            cores: NonZeroU32::new(2).expect("two"),
            noise: vec![Noise { every: MILLISECOND, span: MILLISECOND / 50 }],
        }
    }

    #[test]
    fn what_is_written_of_a_machine_reads_back_as_its_model() {
        let machine = machine();
        let read = scenario::parse(&machine.to_toml(), "machine.toml").unwrap();
        let mut cluster = Experiment::parse("").unwrap().trials().unwrap().remove(0).cluster;
        machine.apply(&mut cluster);
        let hosts = cluster.hardware.hosts.take().unwrap();
        assert_eq!(hosts.tasks[0].len(), 3);
        assert_eq!(read.hardware, cluster.hardware);
    }

    #[test]
    fn the_parameters_of_a_fit_are_those_of_the_machine() {
        let machine = machine();
        let values = |of: &Machine| Vec::from_iter(of.guesses().iter().map(|guess| guess.value));
        let measured = values(&machine);
        let found: Vec<f64> = (1u8..).map(f64::from).take(measured.len()).collect();
        let other = machine.with(&found);
        assert_eq!(values(&other), found);
        assert_eq!(other.with(&measured), machine);
    }
}
