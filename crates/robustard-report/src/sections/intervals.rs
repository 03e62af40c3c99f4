//! Can I trust the error bars?

use robustard::Miscoverage;

use super::quality::sample_words;
use super::{Detail, Section, Tile, range, tile};
use crate::View;
use crate::chart::{Axis, Chart, Layer, Mark, RowField, Tone};
use crate::words::{counted, three_digits};

/// Levels at which the curve is drawn.
const LEVELS: usize = 99;
/// Of fewer rows, one or none is outside 95% intervals that are right.
const FEWEST_ROWS: usize = 20;
/// Thirds of the predictions.
const THIRDS: [&str; 3] = ["low", "middle", "high"];

/// Share of rows inside their leave-one-out intervals at each level.
struct Coverage {
    levels: Vec<f64>,
    all: Vec<f64>,
    unflagged: Vec<f64>,
}

impl Coverage {
    fn new(view: &View<'_>) -> Self {
        let levels: Vec<f64> = (1..=LEVELS).map(|k| k as f64 / (LEVELS + 1) as f64).collect();
        let [all, unflagged] = [view.regression.coverages(&levels), view.regression.coverages_of_unflagged(&levels)];
        Self { levels, all, unflagged }
    }

    /// The share inside at a level of so many percent.
    fn at(&self, percent: usize) -> f64 {
        self.all[percent - 1]
    }
}

pub fn section(view: &View<'_>) -> Section {
    let coverage = Coverage::new(view);
    let n = view.rows.total;
    let (covered, level) = (coverage.at(95), 0.95f64);
    // Two standard deviations of the share that a right interval would hold.
    let slack = 2.0 * (level * (1.0 - level) / n as f64).sqrt();
    let thirds = view.regression.coverage_by_third(level);
    let off: Vec<String> = thirds
        .iter()
        .zip(THIRDS)
        .filter_map(|(third, name)| {
            let (how, share) = match third.miscoverage()? {
                Miscoverage::Narrow => ("too narrow", third.covered_unflagged),
                Miscoverage::Wide => ("too wide", third.covered),
            };
            Some(format!("{how} for {name} predictions ({:.1}% inside)", 100.0 * share))
        })
        .collect();
    let verdict = if n < FEWEST_ROWS {
        format!("{} are too few to tell", counted(n, "row"))
    } else if !off.is_empty() {
        format!("No: 95% intervals are {}", off.join(" and "))
    } else if (covered - level).abs() <= slack {
        "Yes, as far as these rows can tell".to_owned()
    } else if covered > level {
        "Yes, but they are wider than they need be".to_owned()
    } else if coverage.unflagged[94] >= level - slack {
        "Yes, for rows that are not outliers".to_owned()
    } else {
        "No: they are too narrow".to_owned()
    };
    let flagged = match view.rows.flagged {
        0 => String::new(),
        count => format!(" Without {} it is {:.1}%.", counted(count, "flagged row"), 100.0 * coverage.unflagged[94]),
    };
    let overall = format!(
        "{:.1}% of the rows are inside the 95% interval that is predicted from the other rows; chance alone moves that by ±{:.1} points.         {flagged}",
        100.0 * covered,
        100.0 * slack
    );
    let mut tiles: Vec<Tile> = [50, 80, 95]
        .map(|percent| tile(format!("{:.1}%", 100.0 * coverage.at(percent)), format!("inside the {percent}% interval")))
        .into();
    tiles.extend(thirds.iter().zip(THIRDS).map(|(third, name)| {
        let ends = [third.from, third.to].map(three_digits);
        let label = format!("inside 95%, {name} predictions ({} to {})", ends[0], ends[1]);
        tile(format!("{:.1}%", 100.0 * third.covered), label)
    }));
    Section {
        id: "intervals",
        question: "Can I trust the error bars?",
        answer: vec![format!("{verdict}.").into(), overall.into()],
        tiles,
        charts: vec![coverage_curve(&coverage, n), residuals(view), quantiles(view)],
        more: Vec::new(),
        detail: Detail::None,
    }
}

fn coverage_curve(coverage: &Coverage, n: usize) -> Chart {
    let slack = |level: f64| 2.0 * (level * (1.0 - level) / n as f64).sqrt();
    let levels = || coverage.levels.iter().copied();
    Chart {
        id: "coverage".to_owned(),
        title: "Coverage".to_owned(),
        explanation:
            "Share of rows inside their interval against its level: below the dashed line intervals are too narrow, above it too \
                      wide; in the grey band it may be chance. Blue: all rows, orange: without flagged ones."
                .to_owned(),
        x: Axis::new("level of the interval"),
        y: Axis::new("share of rows inside"),
        is_small: true,
        layers: vec![
            Layer {
                name: Some("by chance".to_owned()),
                tone: Tone::Muted,
                mark: Mark::Band {
                    x: levels().collect(),
                    lower: levels().map(|level| (level - slack(level)).max(0.0)).collect(),
                    upper: levels().map(|level| (level + slack(level)).min(1.0)).collect(),
                },
            },
            Layer::guide(None, [0.0, 1.0], [0.0, 1.0]),
            Layer::line(Some("rows not flagged"), Tone::Other, levels(), coverage.unflagged.iter().copied()),
            Layer::line(Some("all rows"), Tone::Model, levels(), coverage.all.iter().copied()),
        ],
    }
}

fn residuals(view: &View<'_>) -> Chart {
    let target = &view.target;
    let threshold = view.rows.threshold;
    let ends = range(view.rows.predicted.0.iter().copied());
    Chart {
        id: "residuals".to_owned(),
        title: "Residuals by prediction".to_owned(),
        explanation: format!(
            "Should have no shape. A bend: a column acts in a curve (--features smooth); a funnel: the noise grows with the \
             prediction.{}",
            sample_words(view)
        ),
        x: Axis::new(format!("predicted {target}")),
        y: Axis::new("std. residual"),
        is_small: true,
        layers: vec![
            Layer::guide(None, ends, [threshold, threshold]),
            Layer::guide(None, ends, [0.0, 0.0]),
            Layer::guide(None, ends, [-threshold, -threshold]),
            Layer::rows(RowField::Predicted, RowField::Z),
        ],
    }
}

fn quantiles(view: &View<'_>) -> Chart {
    let ends = range(view.rows.quantile.0.iter().copied());
    Chart {
        id: "quantiles".to_owned(),
        title: "Residuals against the normal distribution".to_owned(),
        explanation: format!(
            "Normal residuals follow the dashed line; outliers and heavy tails bend away from it.{}",
            sample_words(view)
        ),
        x: Axis::new("expected, if normal"),
        y: Axis::new("std. residual"),
        is_small: true,
        layers: vec![Layer::guide(None, ends, ends), Layer::rows(RowField::Quantile, RowField::Z)],
    }
}
