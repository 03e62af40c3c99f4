//! Numbers and states as people read them.

use std::time::Duration;

use robustard::{ColumnEffect, ColumnValue, Compared, Noise, Reason, SolverKind, Status, TargetTransform};

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

/// Three significant digits.
pub fn three_digits(value: f64) -> String {
    format!("{value:.2e}").parse().map_or_else(|_| value.to_string(), short)
}

/// At most `most` characters.
pub fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// The noise of a fit.
pub fn noise_words(noise: Noise) -> String {
    match noise {
        Noise::Shared => "one noise variance for all rows".to_owned(),
        Noise::Flat => "one noise variance per row (flat prior)".to_owned(),
        other => format!("one noise variance per row ({other})"),
    }
}

/// A solver as people write it.
pub fn solver_name(solver: SolverKind) -> &'static str {
    match solver {
        SolverKind::Em => "EM",
        SolverKind::Mackay => "MacKay",
        SolverKind::IrlsL2 => "ℓ2-IRLS",
        SolverKind::IrlsL1 => "ℓ1-IRLS",
        SolverKind::Gradient => "gradient",
        SolverKind::Growing => "growing",
        SolverKind::Passes => "passes",
        _ => "another solver",
    }
}

/// A time that was waited.
pub fn time_words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 1.0 => format!("{:.0} ms", 1e3 * seconds),
        _ if seconds < 100.0 => format!("{seconds:.1} s"),
        _ => format!("{:.0} s", seconds),
    }
}

/// How a column acts, in a word or two.
pub fn effect_words(effect: &ColumnEffect) -> String {
    let levels = effect.points.iter().filter(|point| matches!(point.value, ColumnValue::Level(_))).count();
    let interacts = effect.interacting > 0.5;
    let alone = match effect.direction {
        _ if levels > 0 => counted(levels, "level"),
        along if along > 0.9 => "rises".to_owned(),
        along if along < -0.9 => "falls".to_owned(),
        along if along > 0.5 => if interacts { "rises" } else { "mostly rises" }.to_owned(),
        along if along < -0.5 => if interacts { "falls" } else { "mostly falls" }.to_owned(),
        _ => "up and down".to_owned(),
    };
    if interacts { format!("{alone}, interacts") } else { alone }
}

/// Whether at most one row of a hundred has a value as unusual: that is worth a word.
pub fn is_unusual(unusual: f64) -> bool {
    share_as_unusual(unusual) <= 0.01
}

/// How many rows have a value as unusual.
pub fn unusual_words(unusual: f64) -> String {
    format!("{} of rows as unusual", unusual_percent(unusual))
}

/// The same as a percentage alone.
pub fn unusual_percent(unusual: f64) -> String {
    match 100.0 * share_as_unusual(unusual) {
        share if share < 0.1 => "<0.1%".to_owned(),
        share if share < 1.0 => format!("{share:.1}%"),
        share => format!("{share:.0}%"),
    }
}

/// The share of the rows, of which two normal tails hold as many beyond so many standard deviations.
fn share_as_unusual(unusual: f64) -> f64 {
    (-0.5 * unusual * unusual).exp()
}

/// Why a fit was chosen.
pub fn reason_words(reason: &Reason) -> String {
    match *reason {
        Reason::TooFewRowsForCurve { rows } => format!("lines, because {rows} rows are too few for a curve"),
        Reason::NoCurveLearnt => "lines, because no curve could be learnt".to_owned(),
        Reason::CurveExplainsNoMore { gain, rows } if gain > 0.05 => {
            format!("lines, because a curve explains {rows} rows only {gain:.1} nats better")
        }
        Reason::CurveExplainsNoMore { rows, .. } => format!("lines, because a curve explains {rows} rows no better"),
        Reason::CurveGains { gain, standard_error } => {
            format!("a smooth curve gains {gain:.2} ± {standard_error:.2} nats per left-out row on lines")
        }
        Reason::CurveGainsTooLittle { gain, standard_error } => {
            format!(
                "lines, because a smooth curve gains no more than {gain:.2} ± {standard_error:.2} nats per left-out row"
            )
        }
        Reason::FewTargetValues => "shared noise, because most targets are one of very few values".to_owned(),
        Reason::RobustNoiseGains { noise, gain } => {
            format!("{noise} noise, which gains {gain:.2} nats per row on shared noise")
        }
        Reason::RobustNoiseGainsTooLittle { noise, gain } if gain <= 0.0 => {
            format!("shared noise, because {noise} noise gains nothing")
        }
        Reason::RobustNoiseGainsTooLittle { noise, gain } => {
            format!("shared noise, because {noise} noise gains only {gain:.2} nats per row")
        }
        Reason::RobustNoisePredictsWorse { noise } => {
            format!("shared noise, because predictions of left-out rows explain no more with {noise} noise")
        }
        Reason::LeverageSetAside { rows } => format!(
            "{} far from the others in their inputs excluded, because the others contradict them",
            counted(rows, "row")
        ),
        Reason::GrossErrorsSetAside { rows, limit, gain } => format!(
            "{} excluded as gross errors, at least {limit:.1} standard deviations of the others off: noise with outliers gains \
             {gain:.2} nats per row on shared noise",
            counted(rows, "row")
        ),
        Reason::RareErrorsSetAside { rows } => format!(
            "{} excluded, whose errors are more than twice as large as any that the noise was chosen by",
            counted(rows, "row")
        ),
        Reason::TypingErrorsSetAside { rows } => format!(
            "{} excluded, whose targets are more than 1000 standard deviations from the others",
            counted(rows, "row")
        ),
        Reason::TargetTransformed { transform, gain, standard_error } => format!(
            "{transform} of the target, because errors grow with it: that gains {gain:.2} ± {standard_error:.2} nats per left-out row"
        ),
        Reason::FewerRowsWrongWhenTransformed { transform, plain, transformed } => format!(
            "{transform} of the target, because errors grow with it: {transformed} rows look wrong instead of {plain}"
        ),
        Reason::TargetNotTransformed { transform, gain, standard_error } if gain <= standard_error => {
            format!(
                "the target itself, because its {transform} gains no more than {gain:.2} ± {standard_error:.2} nats per left-out row"
            )
        }
        Reason::TargetNotTransformed { transform, .. } => {
            format!("the target itself, because with its {transform} the errors of left-out rows are larger")
        }
        Reason::WidthsVary { narrow, wide, gain, standard_error } => format!(
            "error bars depend on the inputs, {narrow:.1} to {wide:.1} times as wide as otherwise: that gains {gain:.2} ± \
             {standard_error:.2} nats per left-out row"
        ),
        Reason::NoErrorStandsApart => "shared noise, because no error stands apart".to_owned(),
        Reason::Interrupted => "interrupted before everything was compared".to_owned(),
        _ => "another reason".to_owned(),
    }
}

/// A fit among those compared.
pub fn compared_words(compared: &Compared) -> String {
    let from = compared.learnt_from.map_or(String::new(), |rows| format!(" (learnt from {rows} rows)"));
    let aside = if compared.set_aside == 0 { String::new() } else { format!(", {} excluded", compared.set_aside) };
    let target = match compared.target_transform {
        TargetTransform::None => String::new(),
        transform => format!(", {transform} of the target"),
    };
    format!("{}{from}, {}{target}{aside}", compared.features, compared.noise)
}

/// How a fit ended, and what to do if that is not well.
pub fn status_words(status: Status) -> &'static str {
    match status {
        Status::Converged => "converged",
        Status::IterationLimit => "NOT converged (--set max_iterations=… allows more)",
        Status::Interrupted => "interrupted: this is the model so far",
        Status::NumericalTrouble => "stopped by numerical trouble: this is the last good state",
        _ => "ended in another way",
    }
}

/// A count with its digits in groups of three: 1,000,000.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
