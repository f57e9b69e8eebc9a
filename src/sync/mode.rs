//! How the workers of a training are coordinated.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::rounds::{RoundRule, Versions, Voters};

/// How the workers of a training are coordinated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Mode {
    /// Each worker's gradient is applied as it arrives.
    Async,
    /// One update a round, from one gradient of each worker, all of the same version of the
    /// variables. With backups only the first `workers - backups` gradients of a round count.
    Sync {
        /// How many of the workers need not be waited for.
        backups: u32,
    },
    /// Asynchronous, but a worker waits when it is more than `slack` steps ahead of the slowest.
    BoundedStaleness {
        /// How many steps ahead of the slowest a worker may be.
        slack: u32,
    },
    /// One update from the first `k` gradients, of as many workers, each of whatever version it is.
    /// They wait for the update, the other workers compute on (Dutta et al. 2018: K-async SGD).
    KAsync {
        /// How many gradients make an update, at most one of each worker.
        k: u32,
    },
    /// One update from the first `k` gradients of the same version. Nobody waits, so that a fast
    /// worker can have several in one update; those that come too late are dropped (Dutta et al.
    /// 2018: K-batch-sync SGD).
    KBatchSync {
        /// How many gradients make an update.
        k: u32,
    },
    /// One update from the first `k` gradients, of whatever version. Nobody waits (Dutta et al.
    /// 2018: K-batch-async SGD).
    KBatchAsync {
        /// How many gradients make an update.
        k: u32,
    },
    /// Asynchronous, with the learning rate divided by the gradient's staleness at each variable,
    /// at least 1 (Zhang et al., "Staleness-aware Async-SGD for Distributed Deep Learning", 2016).
    StalenessAware,
    /// Asynchronous, where each gradient `g` of what was read is made up for what has changed
    /// since: it counts as `g + lambda * g * g * (now - read)` (Zheng et al., "Asynchronous
    /// Stochastic Gradient Descent with Delay Compensation", 2017: DC-ASGD-c). The parameter
    /// servers hold for each worker what it has read last, so that each update copies the whole
    /// variable, also where only rows of it are gathered.
    DelayCompensated {
        /// How much of the change counts. The paper takes 0.04 to 2.
        lambda: f32,
    },
}

impl Mode {
    /// How its rounds are made of votes; none where nobody votes.
    pub(crate) fn round_rule(self, workers: u32) -> Option<RoundRule> {
        let rule = |size, voters, versions| Some(RoundRule { size, voters, versions });
        match self {
            Self::Sync { backups: backups @ 1.. } => {
                rule(workers.saturating_sub(backups), Voters::Wait, Versions::Same)
            }
            Self::KAsync { k } => rule(k, Voters::Wait, Versions::Any),
            Self::KBatchSync { k } => rule(k, Voters::GoOn, Versions::Same),
            Self::KBatchAsync { k } => rule(k, Voters::GoOn, Versions::Any),
            Self::Async
            | Self::Sync { backups: 0 }
            | Self::BoundedStaleness { .. }
            | Self::StalenessAware
            | Self::DelayCompensated { .. } => None,
        }
    }

    /// Whether a worker says that its gradients are on their way, and is told whether they count.
    pub(crate) fn votes(self) -> bool {
        self.round_rule(1).is_some()
    }

    /// Whether gradients are collected into rounds, whose mean is applied.
    pub(crate) fn has_rounds(self) -> bool {
        self.votes() || matches!(self, Self::Sync { .. })
    }

    /// Whether an update needs to know which version of its variable a gradient was computed from.
    pub(crate) fn needs_version(self) -> bool {
        self.has_rounds() || matches!(self, Self::StalenessAware | Self::DelayCompensated { .. })
    }

    /// The learning rate of a gradient that the variable has had `staleness` updates since.
    pub(crate) fn learning_rate(self, given: f32, staleness: u64) -> f32 {
        match self {
            Self::StalenessAware => given / staleness.max(1) as f32,
            _ => given,
        }
    }

    /// How much of a variable's change since a worker has read it counts in the worker's gradient.
    pub(crate) fn compensation(self) -> Option<f32> {
        match self {
            Self::DelayCompensated { lambda } => Some(lambda),
            _ => None,
        }
    }

    /// Whether a worker goes on before its gradient is applied.
    pub(crate) fn goes_on(self) -> bool {
        self.round_rule(1).is_some_and(|rule| rule.voters == Voters::GoOn)
    }

    /// What is wrong with it for a training of `workers` workers: the parameter, and what to say of
    /// it.
    pub(crate) fn check(self, workers: u32) -> Result<(), (&'static str, String)> {
        match self {
            Self::Sync { backups } if backups >= workers => Err((
                "sync.backups",
                format!("{backups} backups of {workers} workers leave nobody to wait for"),
            )),
            Self::KAsync { k } if k > workers => Err((
                "k_async.k",
                format!("{k} workers are to be in each update, but there are {workers}"),
            )),
            Self::KAsync { k: 0 } => Err(("k_async.k", "0 must be at least 1".to_owned())),
            Self::KBatchSync { k: 0 } => Err(("k_batch_sync.k", "0 must be at least 1".to_owned())),
            Self::KBatchAsync { k: 0 } => {
                Err(("k_batch_async.k", "0 must be at least 1".to_owned()))
            }
            Self::DelayCompensated { lambda } if !(lambda.is_finite() && lambda >= 0.0) => Err((
                "delay_compensated.lambda",
                format!("{lambda} must be a finite number, at least 0"),
            )),
            _ => Ok(()),
        }
    }

    /// How many steps each of `workers` has taken at `global_step`: exactly with synchronous
    /// training; else as if they were equally fast.
    pub fn steps_of_a_worker(self, global_step: u64, workers: u32) -> u64 {
        match self {
            Self::Sync { .. } => global_step,
            Self::Async
            | Self::BoundedStaleness { .. }
            | Self::StalenessAware
            | Self::DelayCompensated { .. } => global_step / u64::from(workers.max(1)),
            Self::KAsync { k } | Self::KBatchSync { k } | Self::KBatchAsync { k } => {
                global_step * u64::from(k) / u64::from(workers.max(1))
            }
        }
    }

    /// Of `counted` gradients of a training that has had `updates` updates, how many are in none:
    /// those of the round that its end has left unfinished, where a worker goes on before its
    /// gradient is applied.
    pub fn left_over(self, counted: u64, updates: u64) -> u64 {
        let rule = self.round_rule(1).filter(|rule| rule.voters == Voters::GoOn);
        rule.map_or(0, |rule| counted.saturating_sub(u64::from(rule.size) * updates))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Async => f.write_str("async"),
            Self::Sync { backups: 0 } => f.write_str("sync"),
            Self::Sync { backups } => {
                write!(f, "sync, {backups} backup{}", if *backups == 1 { "" } else { "s" })
            }
            Self::BoundedStaleness { slack } => write!(f, "bounded staleness, slack {slack}"),
            Self::KAsync { k } => write!(f, "{k}-async"),
            Self::KBatchSync { k } => write!(f, "{k}-batch-sync"),
            Self::KBatchAsync { k } => write!(f, "{k}-batch-async"),
            Self::StalenessAware => f.write_str("staleness-aware"),
            Self::DelayCompensated { lambda } => write!(f, "delay-compensated, lambda {lambda}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staleness_aware_training_divides_the_learning_rate_by_the_staleness_and_others_leave_it() {
        let rates = |mode: Mode| [0, 1, 2, 8].map(|staleness| mode.learning_rate(0.5, staleness));
        assert_eq!(rates(Mode::StalenessAware), [0.5, 0.5, 0.25, 0.0625]);
        for other in
            [Mode::Async, Mode::DelayCompensated { lambda: 1.0 }, Mode::Sync { backups: 1 }]
        {
            assert_eq!(rates(other), [0.5; 4], "{other}");
        }
    }

    #[test]
    fn each_gradient_is_a_global_step_where_updates_make_up_for_staleness() {
        for mode in [Mode::StalenessAware, Mode::DelayCompensated { lambda: 0.04 }] {
            assert_eq!(mode.steps_of_a_worker(40, 8), 5, "{mode}");
            assert!(mode.needs_version() && !mode.has_rounds() && !mode.votes(), "{mode}");
            assert_eq!(mode.left_over(40, 40), 0, "{mode}");
        }
    }

    #[test]
    fn a_lambda_that_is_no_weight_is_refused() {
        for lambda in [-0.1, f32::NAN, f32::INFINITY] {
            let (parameter, problem) = Mode::DelayCompensated { lambda }.check(2).unwrap_err();
            assert_eq!(parameter, "delay_compensated.lambda");
            assert!(problem.contains("at least 0"), "{problem}");
        }
        assert_eq!(Mode::DelayCompensated { lambda: 0.0 }.check(2), Ok(()));
    }
}
