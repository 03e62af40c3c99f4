//! Can I trust the error bars?

use super::quality::sample_words;
use super::{Detail, Section, range, tile};
use crate::View;
use crate::chart::{Axis, Chart, Layer, Mark, RowField, Tone};

/// Levels at which the curve is drawn.
const LEVELS: usize = 99;

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
    let verdict = if (covered - level).abs() <= slack {
        "Yes, as far as these rows can tell"
    } else if covered > level {
        "Yes; they are wider than they need be"
    } else if coverage.unflagged[94] >= level - slack {
        "For rows that are right, yes; wrong rows fall outside"
    } else {
        "Not fully: they are too narrow"
    };
    let flagged = match view.rows.flagged {
        0 => String::new(),
        count => format!(
            " {} among the misses; without flagged rows it would be {:.1}%.",
            if count == 1 { "1 flagged row is".to_owned() } else { format!("{count} flagged rows are") },
            100.0 * coverage.unflagged[94]
        ),
    };
    let answer = format!(
        "{verdict}: {:.1}% of the rows lie in their 95% interval, had they been left out; chance alone moves that by ±{:.1} \
         points.{flagged}",
        100.0 * covered,
        100.0 * slack
    );
    Section {
        id: "intervals",
        question: "Can I trust the error bars?",
        answer: vec![answer],
        tiles: [50, 80, 95]
            .map(|percent| {
                tile(format!("{:.1}%", 100.0 * coverage.at(percent)), format!("of rows in their {percent}% interval"))
            })
            .into(),
        charts: vec![coverage_curve(&coverage, n)],
        more: vec![residuals(view), quantiles(view)],
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
            "Share of rows inside their interval against the share that should be. Above the dashed line intervals \
                      are wider than needed, below too narrow; within the grey band it may be chance."
                .to_owned(),
        x: Axis::new("level of the interval"),
        y: Axis::new("share of rows inside"),
        is_small: false,
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
            "Should be a cloud without shape around 0. A bend says that a column acts in a curve (try --features rff), a \
             funnel that the noise grows with the prediction (try the logarithm of the target).{}",
            sample_words(view)
        ),
        x: Axis::new(format!("predicted {target}")),
        y: Axis::new("standard deviations off"),
        is_small: false,
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
            "Normal residuals follow the dashed line. Ends that bend away from it are the wrong rows, or heavy tails.{}",
            sample_words(view)
        ),
        x: Axis::new("expected, if normal"),
        y: Axis::new("standard deviations off"),
        is_small: false,
        layers: vec![Layer::guide(None, ends, ends), Layer::rows(RowField::Quantile, RowField::Z)],
    }
}
