//! Which rows should I check?

use robustard::{SuspiciousRow, Whole};

use super::quality::sample_words;
use super::{Detail, Section, range};
use crate::chart::{Axis, Chart, Layer, RowField};
use crate::words::{clipped, grouped, short, three_digits};
use crate::{LONGEST_NAME, View};

pub fn section(view: &View<'_>) -> Section {
    let rows = &view.rows;
    let threshold = rows.threshold;
    let expectation = match view.diagnostics.outlier_probability {
        Some(_) => "more likely a gross error than not, by the noise model".to_owned(),
        None => format!(
            "more than {threshold:.1} standard deviations off what the other rows predict (half a row or fewer is expected \
             by chance)"
        ),
    };
    let within = match view.diagnostics.outlier_probability {
        Some(_) => 0,
        None => view.diagnostics.flagged_within(),
    };
    let whole = view.regression.whole();
    let answer = match view.totals.flagged {
        0 => format!("No outliers flagged: no row is {expectation}."),
        // What was flagged for other reasons is known of the rows that the page has.
        count if within > 0 && whole.is_none() => format!(
            "{count} of {} rows are flagged: {} {expectation}; {within} less far off {} excluded from the fit as gross errors when the noise \
             was chosen. {}",
            rows.total,
            count - within,
            if within == 1 { "was" } else { "were" },
            first(view)
        ),
        count => {
            let verb = if count == 1 { "is" } else { "are" };
            let excluded = if whole.is_some() { ", or excluded as gross errors" } else { "" };
            format!("{count} of {} rows {verb} {expectation}{excluded}. {}", view.totals.rows, first(view))
        }
    };
    let mut answers = vec![answer.into()];
    if let Some(whole) = whole {
        let sample = grouped(view.rows.total as u64);
        let kept = format!(
            "The model was fitted to {} rows in passes. This page shows the random sample of {sample} of them that the model keeps; the rows \
             file (--rows, or robustard diagnose) has all.",
            grouped(whole.rows)
        );
        answers.push(kept.into());
        answers.extend(most_suspicious(view, whole).map(Into::into));
    }
    Section {
        id: "rows",
        question: "Which rows should I check?",
        answer: answers,
        tiles: Vec::new(),
        charts: Vec::new(),
        more: if view.regression.noise().is_shared() {
            vec![leverage(view)]
        } else {
            vec![noise_by_rank(view), leverage(view)]
        },
        detail: Detail::Rows,
    }
}

/// The most suspicious of all rows of a fit by passes, most of which are not in the sample.
fn most_suspicious(view: &View<'_>, whole: &Whole) -> Option<String> {
    const NAMED: usize = 20;
    let row = |(row, label): (&SuspiciousRow, &String)| {
        let [actual, predicted] = [row.actual, row.predicted].map(three_digits);
        format!("{} ({actual}, predicted {predicted}, {:.1} s.d.)", clipped(label, LONGEST_NAME), row.z)
    };
    let named: Vec<String> = whole.suspicious.iter().zip(view.model.suspicious()).take(NAMED).map(row).collect();
    let all = if named.len() as u64 == whole.flagged { "The flagged rows" } else { "The most suspicious of all rows" };
    (!named.is_empty()).then(|| format!("{all}: {}.", named.join(", ")))
}

/// The row to check first.
fn first(view: &View<'_>) -> String {
    let rows = &view.rows;
    let whole = view.regression.whole().and_then(|whole| whole.suspicious.first());
    let (label, z, is_above) = match (whole, view.model.suspicious().first()) {
        (Some(worst), Some(label)) => (label, worst.z, worst.actual > worst.predicted),
        _ => (
            &rows.label[0],
            rows.field(RowField::Z)[0],
            rows.field(RowField::Actual)[0] > rows.field(RowField::Predicted)[0],
        ),
    };
    format!(
        "Check {} {} first: its {} is {} standard deviations {} the prediction. Select a row to see why it is predicted as it is.",
        rows.label_name,
        clipped(label, LONGEST_NAME),
        view.target,
        short((10.0 * z.abs()).round() / 10.0),
        if is_above { "above" } else { "below" },
    )
}

fn noise_by_rank(view: &View<'_>) -> Chart {
    let target = &view.target;
    let explanation = "The noise variance that the fit gave each row, smallest first. A flat line means that all rows are equally \
                       trustworthy; rows at the steep right end hardly count.";
    Chart {
        id: "noise".to_owned(),
        title: "Noise of each row".to_owned(),
        explanation: format!("{explanation}{}", sample_words(view)),
        x: Axis::new("rows, most trusted first"),
        y: Axis::log(format!("noise variance ({target}²)")),
        is_small: false,
        layers: vec![Layer::rows(RowField::NoiseRank, RowField::NoiseVariance)],
    }
}

fn leverage(view: &View<'_>) -> Chart {
    let threshold = view.rows.threshold;
    let [low, high] = range(view.rows.leverage.0.iter().copied());
    Chart {
        id: "leverage".to_owned(),
        title: "Leverage against residual".to_owned(),
        explanation: format!(
            "Right: rows with unusual inputs, which pull the fit towards themselves. Top and bottom, beyond the dashed \
             lines: rows with an unusual target. Dangerous is the combination.{}",
            sample_words(view)
        ),
        x: Axis::new("leverage"),
        y: Axis::new("std. residual"),
        is_small: false,
        layers: vec![
            Layer::guide(None, [low, high], [threshold, threshold]),
            Layer::guide(None, [low, high], [-threshold, -threshold]),
            Layer::rows(RowField::Leverage, RowField::Z),
        ],
    }
}
