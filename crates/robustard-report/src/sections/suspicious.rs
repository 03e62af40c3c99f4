//! Which rows should I check?

use super::quality::sample_words;
use super::{Detail, Section, range};
use crate::View;
use crate::chart::{Axis, Chart, Layer, RowField};
use crate::words::{grouped, short};

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
    let answer = match rows.flagged {
        0 => format!("No outliers flagged: no row is {expectation}."),
        count if within > 0 => format!(
            "{count} of {} rows are flagged: {} {expectation}; {within} less far off {} excluded from the fit as gross errors when the noise \
             was chosen. {}",
            rows.total,
            count - within,
            if within == 1 { "was" } else { "were" },
            first(view)
        ),
        count => {
            let verb = if count == 1 { "is" } else { "are" };
            format!("{count} of {} rows {verb} {expectation}. {}", rows.total, first(view))
        }
    };
    let mut answers = vec![answer.into()];
    if let Some(whole) = view.regression.whole() {
        let rows = grouped(whole.rows);
        let flagged = grouped(whole.flagged);
        let sample = grouped(view.rows.total as u64);
        answers.push(
            format!(
                "The model was fitted to {rows} rows, of which {flagged} are flagged; this page shows a random sample of {sample} of \
                 them. The rows file (--rows, or robustard diagnose) has all."
            )
            .into(),
        );
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

/// The row to check first.
fn first(view: &View<'_>) -> String {
    let rows = &view.rows;
    let worst = rows.field(RowField::Z)[0];
    format!(
        "Check {} {} first: its {} is {} standard deviations {} the prediction. Select a row to see why it is predicted as it is.",
        rows.label_name,
        rows.label[0],
        view.target,
        short((10.0 * worst.abs()).round() / 10.0),
        if rows.field(RowField::Actual)[0] > rows.field(RowField::Predicted)[0] { "above" } else { "below" },
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
