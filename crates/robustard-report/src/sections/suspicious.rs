//! Which rows look wrong?

use super::quality::sample_words;
use super::{Detail, Section, range};
use crate::View;
use crate::chart::{Axis, Chart, Layer, RowField};
use crate::words::short;

pub fn section(view: &View<'_>) -> Section {
    let rows = &view.rows;
    let threshold = rows.threshold;
    let expectation = match view.diagnostics.outlier_probability {
        Some(_) => "Flagged are rows that are more likely a gross error than not, by the noise model.".to_owned(),
        None => format!(
            "Flagged are rows more than {threshold:.1} standard deviations off what the other rows predict; a clean table \
             of this size would show half a row or less by chance."
        ),
    };
    let answer = match rows.flagged {
        0 => format!("None. {expectation}"),
        count => {
            let worst = rows.field(RowField::Z)[0];
            let verb = if count == 1 { "looks" } else { "look" };
            format!(
                "{count} of {} rows {verb} wrong. {expectation} The first to look at is {} {}, {} standard deviations {}.",
                rows.total,
                rows.label_name,
                rows.label[0],
                short((10.0 * worst.abs()).round() / 10.0),
                if worst > 0.0 { "above" } else { "below" },
            )
        }
    };
    Section {
        id: "rows",
        question: "Which rows look wrong?",
        answer: vec![answer],
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
        y: Axis::new("standard deviations off"),
        is_small: false,
        layers: vec![
            Layer::guide(None, [low, high], [threshold, threshold]),
            Layer::guide(None, [low, high], [-threshold, -threshold]),
            Layer::rows(RowField::Leverage, RowField::Z),
        ],
    }
}
