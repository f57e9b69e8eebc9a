//! Decides how a session's variables come to their values: whether a training goes on, is restored,
//! begins anew or is lost.

/// The values of the variables that workers share, as a new session has found them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// The number of variables without a value.
    pub(super) missing: usize,
    /// The number of all variables.
    pub(super) shared: usize,
    /// None if the global step has no value.
    pub(super) global_step: Option<u64>,
    /// Whether an error has interrupted the initialization.
    pub(super) is_half_initialized: bool,
}

/// How the variables come to their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// They have them: those of this global step.
    GoOn(u64),
    /// All are set to those of the newest checkpoint.
    Restore,
    /// All get first values, also those that have some.
    BeginAnew,
    /// Those without a value get first values.
    Initialize,
    /// Trained values are lost, and no checkpoint has them.
    Lost,
}

impl Values {
    /// The global step of a training whose variables all have values.
    pub(super) fn live(self) -> Option<u64> {
        let is_whole = self.missing == 0 && !self.is_half_initialized;
        self.global_step.filter(|_| is_whole)
    }

    /// Whether any variable has a value.
    pub(super) fn are_there(self) -> bool {
        self.missing < self.shared
    }

    /// The start of the chief's first session, where the newest checkpoint has the step `newest`.
    pub(super) fn start(self, newest: Option<u64>) -> Start {
        let live = self.live();
        if newest.is_some_and(|newest| live.is_none_or(|live| live < newest)) {
            return Start::Restore;
        }
        if let Some(live) = live {
            return Start::GoOn(live);
        }
        match self.missing {
            0 => Start::Initialize,
            _ if self.global_step.is_some_and(|step| step > 0) => Start::Lost,
            _ if self.are_there() => Start::BeginAnew,
            _ => Start::Initialize,
        }
    }

    /// Whether values are lost of a training that has `reached` a step. Without checkpoints, no
    /// other worker can have restored an earlier step.
    pub(super) fn are_lost(self, reached: u64, keeps_checkpoints: bool) -> bool {
        let went_back = self.global_step.is_some_and(|step| step < reached);
        self.missing > 0 || went_back && !keeps_checkpoints
    }

    /// The source of the lost values of a training that had `reached` a step.
    pub(super) fn start_again(self, reached: u64, has_checkpoint: bool) -> Start {
        let is_untrained = reached.max(self.global_step.unwrap_or(0)) == 0;
        match has_checkpoint {
            true => Start::Restore,
            false if is_untrained => Start::BeginAnew,
            false => Start::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: usize = 4;

    fn values(missing: usize, global_step: Option<u64>) -> Values {
        Values { missing, shared: SHARED, global_step, is_half_initialized: false }
    }

    #[test]
    fn a_chief_goes_on_restores_begins_anew_or_initializes_by_what_it_finds() {
        let table = [
            // missing, global step, newest checkpoint
            (0, Some(7), None, Start::GoOn(7)),
            (0, Some(7), Some(5), Start::GoOn(7)),
            (0, Some(7), Some(7), Start::GoOn(7)),
            (0, Some(7), Some(9), Start::Restore),
            (0, Some(0), None, Start::GoOn(0)),
            (1, Some(7), Some(5), Start::Restore),
            (1, Some(7), None, Start::Lost),
            (1, Some(0), None, Start::BeginAnew),
            (1, None, None, Start::BeginAnew),
            (1, None, Some(0), Start::Restore),
            (SHARED, None, None, Start::Initialize),
            (SHARED, None, Some(5), Start::Restore),
        ];
        for (missing, step, newest, start) in table {
            let found = values(missing, step);
            assert_eq!(found.start(newest), start, "{found:?}, {newest:?}");
        }
    }

    #[test]
    fn an_interrupted_initialization_is_taken_up_again_even_if_all_have_values() {
        let half = |missing, step| Values { is_half_initialized: true, ..values(missing, step) };
        let table = [
            (0, Some(0), None, Start::Initialize),
            (0, Some(7), None, Start::Initialize),
            (0, Some(7), Some(5), Start::Restore),
            (1, Some(0), None, Start::BeginAnew),
            (1, Some(7), None, Start::Lost),
            (SHARED, None, None, Start::Initialize),
        ];
        for (missing, step, newest, start) in table {
            assert_eq!(half(missing, step).start(newest), start, "{missing}, {step:?}, {newest:?}");
        }
    }

    #[test]
    fn values_are_lost_if_some_are_missing_or_the_step_went_back_without_a_checkpoint() {
        let table = [
            // missing, global step, step reached, whether checkpoints are kept
            (0, Some(7), 7, false, false),
            (0, Some(8), 7, false, false),
            (0, Some(5), 7, true, false),
            (0, Some(5), 7, false, true),
            (1, Some(7), 7, true, true),
            (1, None, 0, false, true),
        ];
        for (missing, step, reached, keeps, lost) in table {
            let found = values(missing, step);
            assert_eq!(found.are_lost(reached, keeps), lost, "{found:?}, {reached}, {keeps}");
        }
    }

    #[test]
    fn lost_values_come_from_a_checkpoint_or_anew_if_nothing_was_trained() {
        let table = [
            // global step, step reached, whether there is a checkpoint
            (None, 0, false, Start::BeginAnew),
            (Some(0), 0, false, Start::BeginAnew),
            (Some(3), 0, false, Start::Lost),
            (None, 3, false, Start::Lost),
            (None, 0, true, Start::Restore),
            (Some(3), 3, true, Start::Restore),
        ];
        for (step, reached, has_checkpoint, start) in table {
            let found = values(1, step);
            assert_eq!(found.start_again(reached, has_checkpoint), start, "{found:?}, {reached}");
        }
    }
}
