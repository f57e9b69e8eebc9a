//! What the faults of a simulation and those of a launch have in common.

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its second half is missing.
    Cut,
    /// The byte in its middle is another.
    Changed,
}

impl Damage {
    /// Damages a file's `bytes`.
    pub(crate) fn apply(self, bytes: &mut Vec<u8>) {
        let middle = bytes.len() / 2;
        match self {
            Self::Cut => bytes.truncate(middle),
            Self::Changed => {
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 1;
                }
            }
        }
    }
}

/// Why a fault did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// The run had ended before.
    #[error("the run had ended before")]
    RunEnded,
    /// The task was down, or its program had returned.
    #[error("the task was not running")]
    NotRunning,
    /// There was no checkpoint to damage.
    #[error("there was no checkpoint yet")]
    NoCheckpoint,
    /// The checkpoints of a launch are in an object store.
    #[error("the checkpoints are in no folder")]
    NoFolder,
    /// The system of a launch refused to read or write the checkpoint.
    #[error("the checkpoint could not be damaged")]
    DamageFailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_half_a_file_or_another_byte_even_of_an_empty_one() {
        let after = |damage: Damage, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            damage.apply(&mut bytes);
            bytes
        };
        assert_eq!(after(Damage::Cut, &[1, 2, 3, 4]), [1, 2]);
        assert_eq!(after(Damage::Changed, &[1, 2, 3, 4]), [1, 2, 2, 4]);
        assert!(after(Damage::Changed, &[]).is_empty() && after(Damage::Cut, &[]).is_empty());
    }
}
