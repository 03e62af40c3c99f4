//! Can I trust the error bars?

use robustard::{Miscoverage, Part, PartCoverage};

use super::quality::sample_words;
use super::{Detail, Section, Tile, range, tile};
use crate::View;
use crate::chart::{Axis, Chart, Layer, Mark, RowField, Tone};
use crate::words::{counted, three_digits};

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
    let checks = view.regression.coverage_checks();
    let covered = coverage.at(95);
    let flagged = match view.rows.flagged {
        0 => String::new(),
        count => format!(" Without {} it is {:.1}%.", counted(count, "flagged row"), 100.0 * coverage.unflagged[94]),
    };
    let chance = checks.iter().find(|check| check.part == Part::All && check.level == 0.95);
    let chance = chance.map_or_else(String::new, |check| {
        format!("; chance alone moves that by ±{:.1} points", 100.0 * check.chance())
    });
    let overall = format!(
        "{:.1}% of the rows are inside the 95% interval that is predicted from the other rows{chance}.{flagged}",
        100.0 * covered,
    );
    let thirds: Vec<&PartCoverage> =
        checks.iter().filter(|check| check.part != Part::All && check.level == 0.95).collect();
    let verdict = verdict(&checks, n, view.regression.quality_is_optimistic());
    let mut tiles: Vec<Tile> = [50, 80, 95]
        .map(|percent| tile(format!("{:.1}%", 100.0 * coverage.at(percent)), format!("inside the {percent}% interval")))
        .into();
    tiles.extend(thirds.iter().map(|third| {
        let ends = [third.from, third.to].map(three_digits);
        let label = format!("inside 95%, {} predictions ({} to {})", part_word(third.part), ends[0], ends[1]);
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

fn part_word(part: Part) -> &'static str {
    match part {
        Part::All => "all",
        Part::Low => "low",
        Part::Middle => "middle",
        Part::High => "high",
    }
}

/// Whether intervals can be trusted, by everything that was checked: two levels, of all rows and of thirds.
fn verdict(checks: &[PartCoverage], rows: usize, is_optimistic: bool) -> String {
    if checks.is_empty() {
        return format!("{} are too few to tell", counted(rows, "row"));
    }
    let named = [0.95, 0.5].map(|level| PartCoverage::worst(checks, level));
    let off = |how: Miscoverage| -> Vec<&PartCoverage> {
        named.into_iter().flatten().filter(|check| check.miscoverage() == Some(how)).collect()
    };
    let (narrow, wide) = (off(Miscoverage::Narrow), off(Miscoverage::Wide));
    let words = |check: &&PartCoverage, how: &str, share: f64| {
        let place = match check.part {
            Part::All => String::new(),
            part => format!(" for {} predictions", part_word(part)),
        };
        format!("{:.0}% intervals are {how}{place} ({:.1}% inside)", 100.0 * check.level, 100.0 * share)
    };
    let narrow_words = narrow.iter().map(|check| words(check, "too narrow", check.covered_unflagged));
    let wide_words = wide.iter().map(|check| words(check, "too wide", check.covered));
    if narrow.is_empty() && wide.is_empty() {
        let flagged = checks.iter().any(|check| check.covered < check.level - check.chance());
        return if flagged { "Yes, for rows that are not outliers" } else { "Yes, as far as these rows can tell" }
            .to_owned();
    }
    if narrow.is_empty() && is_optimistic {
        // More rows are inside than new rows would be: intervals are made wider for it.
        return "Probably: with so few rows, left-out rows are predicted better than new ones would be, for which intervals are made wider; \
                robustard compare has the coverage of new rows"
            .to_owned();
    }
    if narrow.is_empty() && wide.iter().all(|check| check.part == Part::All) {
        return format!("Yes, but wider than they need be: {}", wide_words.collect::<Vec<_>>().join(", "));
    }
    format!("No: {}", narrow_words.chain(wide_words).collect::<Vec<_>>().join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is off at any level and in any part has a say.
    #[test]
    fn the_verdict_knows_all_levels_and_parts() {
        let is_trusted = |all_50: f64, low_95: f64| {
            let check = |part: Part, rows: usize, level: f64, covered: f64| PartCoverage {
                part,
                from: 0.0,
                to: 1.0,
                rows,
                covered,
                covered_unflagged: covered,
                level,
            };
            let thirds = [check(Part::Low, 300, 0.95, low_95), check(Part::High, 300, 0.95, 0.95)];
            let checks = [check(Part::All, 900, 0.5, all_50), check(Part::All, 900, 0.95, 0.95)];
            verdict(&[&checks[..], &thirds].concat(), 900, false)
        };
        assert_eq!(is_trusted(0.51, 0.95), "Yes, as far as these rows can tell");
        assert_eq!(is_trusted(0.40, 0.95), "No: 50% intervals are too narrow (40.0% inside)");
        assert_eq!(
            is_trusted(0.60, 0.95),
            "Yes, but wider than they need be: 50% intervals are too wide (60.0% inside)"
        );
        assert_eq!(is_trusted(0.50, 0.85), "No: 95% intervals are too narrow for low predictions (85.0% inside)");
        assert_eq!(verdict(&[], 12, false), "12 rows are too few to tell");
    }
}
