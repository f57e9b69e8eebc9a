//! Numbers as they are shown.

/// `value` with so many decimals; from 10⁹ on, as a loss is before it diverges, with three decimals
/// and an exponent.
pub(crate) fn render(value: f64, decimals: usize) -> String {
    if value.abs() < 1e9 { format!("{value:.decimals$}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_number_has_an_exponent() {
        assert_eq!(render(358_392_897_211_424_014_087_915_307_008.0, 4), "3.584e29");
        assert_eq!(render(-1e9, 1), "-1.000e9");
        assert_eq!(render(999_999_999.0, 1), "999999999.0");
        assert_eq!(render(f64::INFINITY, 3), "inf");
        assert_eq!(render(f64::NAN, 3), "NaN");
    }
}
