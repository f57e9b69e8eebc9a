//! The table of modes: how the workers of a training can be coordinated.
//!
//! A mode is one file here and one line in the table. The file has a struct of the mode's
//! parameters, as a scenario has them; `NAME` and `EXAMPLE`, as they are typed there; `Display`,
//! which names runs, and so tells any two values of the mode apart; and [`Protocol`], which has
//! everything else, and a default for each decision (`Averaging` implements it for modes whose
//! workers average copies of their own).
//! `elastic_averaging` is a good file to begin from. The mode's decisions at the task of the global
//! step are its [`Policy`]:
//! by default `Free` (each step counts by itself), or `Rounds` (made of votes) if the mode has a
//! rule for these.

mod asynchronous;
mod bounded_staleness;
mod delay_compensated;
mod diloco;
mod elastic_averaging;
mod k_async;
mod k_batch_async;
mod k_batch_sync;
mod local_sgd;
mod staleness_aware;
mod synchronous;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::gradients::{Arrived, Treatment};
use super::policy::Policy;
use super::protocol::{Copies, Needs, Protocol};

/// Makes [`Mode`] from the table.
macro_rules! modes {
    ($(
        $(#[$doc:meta])*
        $mode:ident $({ $($(#[$says:meta])* $parameter:ident: $kind:ty),* $(,)? })? = $file:ident;
    )*) => {
        /// How the workers of a training are coordinated.
        ///
        /// A run refuses parameters that are out of their ranges.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Mode {
            $($(#[$doc])* $mode $({ $($(#[$says])* $parameter: $kind),* })?,)*
        }

        impl Mode {
            /// The names of all modes, as a scenario has them.
            pub(crate) const NAMES: &'static [&'static str] = &[$($file::$mode::NAME),*];
            /// An example of each mode, as it is typed.
            pub(crate) const EXAMPLES: &'static [&'static str] = &[$($file::$mode::EXAMPLE),*];

            /// Parses the mode `name` with the parameters that are `typed`; `None` if there is no
            /// such mode.
            ///
            /// # Errors
            /// If a parameter is missing, unknown or of another type.
            pub(crate) fn parse<'de, D: Deserializer<'de>>(
                name: &str,
                typed: D,
            ) -> Result<Option<Self>, D::Error> {
                Ok(Some(match name {
                    $($file::$mode::NAME => {
                        let $file::$mode { $($($parameter),*)? } = Deserialize::deserialize(typed)?;
                        Self::$mode $({ $($parameter),* })?
                    })*
                    _ => return Ok(None),
                }))
            }

            /// The mode's name, as a scenario has it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$mode { .. } => $file::$mode::NAME,)*
                }
            }

            /// Whether its rounds or exchanges can do without the slowest workers.
            pub(crate) fn takes_backups(self) -> bool {
                let parameters: &[&str] = match self {
                    $(Self::$mode { .. } => &[$($(stringify!($parameter)),*)?],)*
                };
                parameters.contains(&"backups")
            }

            /// Asks the [`Protocol`] in the mode's file.
            fn with<T>(self, ask: impl FnOnce(&dyn Protocol) -> T) -> T {
                match self {
                    $(Self::$mode $({ $($parameter),* })? => {
                        ask(&$file::$mode { $($($parameter),*)? })
                    })*
                }
            }
        }
    };
}

modes! {
    /// Each worker's gradient is applied as it arrives.
    Async = asynchronous;
    /// One update a round, from one gradient of each worker, all of the same version of the
    /// variables. With backups only the first gradients of a round count.
    Sync {
        /// The number of workers that a round does not wait for: from 0, below that of workers.
        backups: u32,
        /// Whether a worker that is too late for a round is stopped, and begins anew with the next
        /// one; only with backups.
        cancel: bool,
    } = synchronous;
    /// Asynchronous, but a worker that is too far ahead of the slowest waits for it (Ho et al.
    /// 2013).
    BoundedStaleness {
        /// The most steps that a worker may be ahead of the slowest: from 0. A checkpoint lets
        /// those who wait take one more.
        slack: u32,
    } = bounded_staleness;
    /// One update from the first gradients of so many workers, each of any version; those workers
    /// wait for it (Dutta et al. 2018: K-async SGD).
    KAsync {
        /// The number of gradients of an update: from 1, at most that of workers.
        k: u32,
    } = k_async;
    /// One update from the first gradients of the same version; nobody waits, so that a worker can
    /// have several in one (Dutta et al. 2018: K-batch-sync SGD).
    KBatchSync {
        /// The number of gradients of an update: from 1.
        k: u32,
        /// Whether a worker that is too late for a round is stopped, and begins anew with the next
        /// one.
        cancel: bool,
    } = k_batch_sync;
    /// One update from the first gradients, of any version; nobody waits (Dutta et al. 2018:
    /// K-batch-async SGD).
    KBatchAsync {
        /// The number of gradients of an update: from 1.
        k: u32,
    } = k_batch_async;
    /// Asynchronous, with the learning rate divided by the gradient's staleness at each variable,
    /// at least 1 (Zhang et al. 2016).
    StalenessAware = staleness_aware;
    /// Asynchronous, with each gradient `g` corrected for the variable's change since the worker
    /// read it, to `g + lambda * g * g * (now - read)` (Zheng et al. 2017: DC-ASGD-c).
    DelayCompensated {
        /// The weight of the correction: finite, from 0.
        lambda: f32,
    } = delay_compensated;
    /// Workers train copies of their own, and every so many steps all go on from their average
    /// (Stich 2019).
    LocalSgd {
        /// The steps of a worker between two averages: from 1.
        every: u32,
        /// The number of workers that an average does not wait for: from 0, below that of workers.
        backups: u32,
    } = local_sgd;
    /// Workers train copies of their own; every so many steps the mean of their moves is a gradient
    /// for an outer optimizer, Nesterov's momentum (Douillard et al. 2023).
    DiLoCo {
        /// The steps of a worker between two exchanges: from 1.
        every: u32,
        /// The number of workers that an exchange does not wait for: from 0, below that of workers.
        backups: u32,
        /// The outer optimizer's learning rate: finite, from 0; 0.7 in a scenario that names none.
        outer_learning_rate: f32,
        /// The outer optimizer's momentum: from 0, below 1; 0.9 in a scenario that names none.
        outer_momentum: f32,
    } = diloco;
    /// Workers train copies of their own, which an elastic force holds near the center: every so
    /// many steps a copy and the center move towards each other (Zhang, Choromanska and LeCun
    /// 2015).
    ElasticAveraging {
        /// The steps of a worker between two moves: from 1.
        every: u32,
        /// The part of their distance that a copy and the center each move: above 0, at most 1.
        alpha: f32,
    } = elastic_averaging;
}

impl Mode {
    /// Checks the mode for a training of `workers` workers.
    ///
    /// # Errors
    /// The parameter that is wrong, as `mode.parameter`, and the problem.
    pub(crate) fn check(self, workers: u32) -> Result<(), (String, String)> {
        let checked = self.with(|mode| mode.check(workers));
        checked.map_err(|(parameter, problem)| (format!("{}.{parameter}", self.name()), problem))
    }

    /// The mode's needs of a training step.
    pub(crate) fn needs(self) -> Needs {
        self.with(|mode| mode.needs())
    }

    /// How workers exchange what they have learnt, if they train copies of their own.
    pub fn copies(self) -> Option<Copies> {
        self.with(|mode| mode.copies())
    }

    /// The treatment of a gradient at a shard.
    pub(crate) fn on_gradient(self, arrived: &Arrived<'_>) -> Treatment {
        self.with(|mode| mode.on_gradient(arrived))
    }

    /// The policy that decides who counts and who waits, in a training of `workers`.
    pub(super) fn policy(self, workers: u32) -> Box<dyn Policy> {
        self.with(|mode| mode.policy(workers))
    }

    /// Whether a slow worker costs the others no time: nobody waits for it, and its gradients are
    /// never too late.
    pub(crate) fn leaves_workers_free(self) -> bool {
        self.with(|mode| mode.leaves_workers_free())
    }

    /// The number of steps that each of `workers` has taken at `global_step`: exact with
    /// synchronous training, else as if they were equally fast.
    pub fn steps_of_a_worker(self, global_step: u64, workers: u32) -> u64 {
        self.with(|mode| mode.steps_of_a_worker(global_step, workers))
    }

    /// The number of gradients that a global step of `workers` applies: those of all its steps
    /// between two exchanges, if workers train copies of their own.
    pub fn gradients_of_a_step(self, workers: u32) -> u64 {
        self.with(|mode| mode.gradients_of_a_step(workers))
    }

    /// The number of `counted` gradients that are in none of the `updates` updates of a training:
    /// those of the last, unfinished round, if a worker goes on before its gradient is applied.
    pub fn left_over(self, counted: u64, updates: u64) -> u64 {
        self.with(|mode| mode.left_over(counted, updates))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|mode| mode.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mode_that_differs_in_any_parameter_has_another_name() {
        for mode in examples() {
            let whole = serde_json::to_value(mode).unwrap();
            let Some((variant, parameters)) = whole.as_object().and_then(|it| it.iter().next())
            else {
                continue; // it has no parameters
            };
            for (parameter, value) in parameters.as_object().unwrap() {
                let other = match value.as_f64() {
                    Some(number) if value.is_f64() => json!(number / 2.0),
                    Some(number) => json!(number as u32 + 1),
                    None => json!(value != &json!(true)),
                };
                let mut changed = whole.clone();
                changed[variant][parameter] = other;
                let changed: Mode = serde_json::from_value(changed).unwrap();
                assert_ne!(changed, mode, "{parameter}");
                assert_ne!(changed.to_string(), mode.to_string(), "{changed:?}");
            }
        }
    }

    /// The modes of [`Mode::EXAMPLES`].
    fn examples() -> Vec<Mode> {
        let typed = format!("all = [{}]", Mode::EXAMPLES.join(", "));
        let typed: toml::Table = toml::from_str(&typed).unwrap();
        let parse = |typed: &toml::Value| {
            let (name, parameters) = match typed {
                toml::Value::String(name) => (name, &toml::Table::new()),
                typed => {
                    let (name, parameters) = typed.as_table().unwrap().iter().next().unwrap();
                    (name, parameters.as_table().unwrap())
                }
            };
            Mode::parse(name, parameters.clone()).unwrap().unwrap()
        };
        typed["all"].as_array().unwrap().iter().map(parse).collect()
    }

    #[test]
    fn each_gradient_is_a_global_step_where_updates_make_up_for_staleness() {
        for mode in [Mode::StalenessAware, Mode::DelayCompensated { lambda: 0.04 }] {
            assert_eq!(mode.steps_of_a_worker(40, 8), 5, "{mode}");
            let needs = mode.needs();
            assert!(needs.has_version() && !needs.has_rounds(), "{mode}");
            assert_eq!(mode.left_over(40, 40), 0, "{mode}");
        }
    }

    #[test]
    fn a_global_step_applies_the_gradients_that_its_mode_says() {
        let gradients = |mode: Mode| mode.gradients_of_a_step(8);
        assert_eq!(gradients(Mode::Async), 1);
        assert_eq!(gradients(Mode::BoundedStaleness { slack: 4 }), 1);
        assert_eq!(gradients(Mode::Sync { backups: 0, cancel: false }), 8);
        assert_eq!(gradients(Mode::Sync { backups: 2, cancel: true }), 6);
        assert_eq!(gradients(Mode::KAsync { k: 3 }), 3);
        assert_eq!(gradients(Mode::LocalSgd { every: 5, backups: 1 }), 35);
    }

    #[test]
    fn a_slow_worker_costs_the_others_time_where_they_wait_for_it_or_its_gradients_are_late() {
        for mode in [
            Mode::Async,
            Mode::StalenessAware,
            Mode::DelayCompensated { lambda: 0.04 },
            Mode::KBatchAsync { k: 4 },
            Mode::ElasticAveraging { every: 4, alpha: 0.1 },
        ] {
            assert!(mode.leaves_workers_free(), "{mode}");
        }
        for mode in [
            Mode::Sync { backups: 0, cancel: false },
            Mode::Sync { backups: 2, cancel: true },
            Mode::BoundedStaleness { slack: 4 },
            Mode::KAsync { k: 4 },
            Mode::KBatchSync { k: 4, cancel: false },
            Mode::LocalSgd { every: 4, backups: 0 },
            Mode::LocalSgd { every: 4, backups: 1 },
        ] {
            assert!(!mode.leaves_workers_free(), "{mode}");
        }
    }

    #[test]
    fn modes_whose_rounds_or_exchanges_can_do_without_the_slowest_workers_take_backups() {
        let takes = [
            Mode::Sync { backups: 0, cancel: false }.takes_backups(),
            Mode::LocalSgd { every: 4, backups: 0 }.takes_backups(),
            Mode::KBatchSync { k: 4, cancel: false }.takes_backups(),
            Mode::Async.takes_backups(),
        ];
        assert_eq!(takes, [true, true, false, false]);
    }

    #[test]
    fn a_parameter_that_does_not_fit_is_told_by_its_place_in_the_scenario() {
        let (parameter, _) = Mode::DelayCompensated { lambda: -1.0 }.check(2).unwrap_err();
        assert_eq!(parameter, "delay_compensated.lambda");
    }
}
