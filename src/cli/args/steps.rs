//! `FIRST..LAST`: a stretch of global steps.

use std::str::FromStr;

/// The global steps after the first number, up to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once("..").and_then(|(first, last)| {
            let first = if first.is_empty() { 0 } else { first.parse().ok()? };
            Some((first, last.parse().ok()?))
        });
        match numbers {
            Some((first, last)) if first < last => Ok(Self { first, last }),
            _ => Err("write two global steps, the lesser first, as in `100..120`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_two_numbers_of_which_the_first_may_be_left_out() {
        assert_eq!("10..12".parse(), Ok(Steps { first: 10, last: 12 }));
        assert_eq!("..12".parse(), Ok(Steps { first: 0, last: 12 }));
        for wrong in ["12", "12..", "12..10", "a..b", ""] {
            assert!(wrong.parse::<Steps>().is_err(), "{wrong}");
        }
    }
}
