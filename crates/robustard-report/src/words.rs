//! Numbers and states as people read them.

use robustard::{NoiseKind, NoisePrior, Settings, Status};

/// Five significant digits, without an exponent where that is readable.
pub fn short(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else if (1e-4..1e10).contains(&magnitude) {
        let digits = (4 - magnitude.log10().floor() as i32).clamp(0, 8) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        format!("{value:.3e}")
    }
}

/// At most `most` characters.
pub fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// The noise of a fit.
pub fn noise_words(settings: &Settings) -> String {
    match (settings.noise, settings.noise_prior) {
        (NoiseKind::Shared, _) => "one noise variance for all rows".to_owned(),
        (NoiseKind::PerRow, NoisePrior::Flat) => "one noise variance per row (flat prior)".to_owned(),
        (NoiseKind::PerRow, prior) => format!("one noise variance per row ({prior})"),
    }
}

/// How a fit ended, and what to do if that is not well.
pub fn status_words(status: Status) -> &'static str {
    match status {
        Status::Converged => "converged",
        Status::IterationLimit => "NOT converged (--set max_iterations=… allows more)",
        Status::Interrupted => "interrupted: this is the model so far",
        Status::NumericalTrouble => "stopped by numerical trouble: this is the last good state",
    }
}

/// "1 row", "2 rows".
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (1.0, "1"), (-0.5, "-0.5"), (123456.7, "123457"), (2.345678, "2.3457"), (1e-9, "1.000e-9")]
        {
            assert_eq!(short(value), text);
        }
        assert_eq!((counted(1, "row"), counted(0, "row")), ("1 row".to_owned(), "0 rows".to_owned()));
    }
}
