//! What matters?

use robustard::{Collinear, ColumnEffect, ColumnValue, FeatureSummary, Interaction, Standing};

use super::{Detail, Section, range};
use crate::chart::{Axis, Chart, Layer, Mark, Tone};
use crate::words::{clipped, counted, effect_words, short, three_digits};
use crate::{LONGEST_NAME, View};

/// Columns whose effects are drawn, and those that are drawn when asked for.
const MOST_DRAWN: usize = 6;
const MOST_MORE: usize = 24;
/// Columns listed.
const MOST_LISTED: usize = 15;
/// Levels of a category that are drawn.
const MOST_LEVELS: usize = 12;
/// Coefficients listed.
const MOST_COEFFICIENTS: usize = 200;
/// Pairs of columns shown, each with at least this importance.
const MOST_PAIRS: usize = 2;
const LEAST_PAIR: f64 = 0.01;
/// A normal variable is within so many standard deviations 95 times of 100.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// What is listed about columns.
#[derive(Debug)]
pub struct Columns {
    /// Columns in use, most important first.
    pub listed: Vec<ColumnLine>,
    /// How many more clearly matter.
    pub more: usize,
    /// How many more are not clear.
    pub unclear: usize,
    /// Names of those that do nothing.
    pub dropped: Vec<String>,
    /// Pairs that act together.
    pub pairs: Vec<Pair>,
    /// Coefficients of linear features, most relevant first, and the intercept.
    pub coefficients: Vec<FeatureSummary>,
    /// The intercept, if there is one that can be told.
    pub intercept: Option<f64>,
}

/// A column in the list.
#[derive(Debug)]
pub struct ColumnLine {
    /// Its name.
    pub name: String,
    /// Its share of the variance of predictions.
    pub importance: f64,
    /// What R² loses without it, and what that stays below if it does nothing.
    pub loss: [f64; 2],
    /// How it acts.
    pub words: String,
    /// Whether it clearly matters.
    pub is_clear: bool,
}

/// Two columns that act together.
#[derive(Debug)]
pub struct Pair {
    /// Their names.
    pub names: [String; 2],
    /// Its part of the importance of both.
    pub share: f64,
    /// Their values.
    pub values: [Vec<String>; 2],
    /// What they add to the main effects.
    pub effect: Vec<Vec<f64>>,
}

pub fn section(view: &View<'_>) -> Section {
    let effects = view.regression.effects();
    let design = view.regression.design();
    let ranking = effects.ranking();
    let (dropped, used): (Vec<usize>, Vec<usize>) =
        ranking.iter().partition(|&&column| effects.columns[column].standing == Standing::Dropped);
    let clear = used.iter().filter(|&&column| effects.columns[column].standing == Standing::Clear).count();
    let name = |column: usize| clipped(&effects.columns[column].name, LONGEST_NAME);
    let mut answer = vec![match clear {
        _ if used.is_empty() => "No column: the best prediction is one number for all rows.".to_owned(),
        0 => "No column clearly matters: what predictions of left-out rows lose without any one of them may be chance."
            .to_owned(),
        count => format!(
            "{count} of {} clearly matter{}. Importance is the column's share of the variance of predictions; R² lost is what \
             predictions of left-out rows lose where the column is not known, and in brackets what that reaches by chance for a column \
             that does nothing.",
            counted(effects.columns.len(), "column"),
            if count == 1 { "s" } else { "" },
        ),
    }];
    for Collinear { columns, loss, loss_by_chance, is_needed, .. } in &effects.collinear {
        let names: Vec<String> = columns.iter().map(|&column| name(column)).collect();
        let needed = if *is_needed { "at least one of them is needed" } else { "none of them is clearly needed" };
        answer.push(format!(
            "{} are collinear and share their effect: {needed}, and R² loses {loss:.3} ({loss_by_chance:.3}) without all of them.",
            names.join(", ")
        ));
    }
    let line = |&column: &usize| {
        let effect = &effects.columns[column];
        ColumnLine {
            name: name(column),
            importance: effect.importance,
            loss: [effect.loss, effect.loss_by_chance],
            words: effect_words(effect),
            is_clear: effect.standing == Standing::Clear,
        }
    };
    let chart = |(place, &column): (usize, &usize)| effect_chart(view, place, &effects.columns[column]);
    let mut charts: Vec<Chart> = used.iter().enumerate().take(MOST_DRAWN + MOST_MORE).map(chart).collect();
    let more = charts.split_off(MOST_DRAWN.min(charts.len()));
    let pairs = effects.interactions.iter().filter(|pair| pair.share >= LEAST_PAIR).take(MOST_PAIRS);
    let pair = |pair: &Interaction| Pair {
        names: pair.columns.map(name),
        share: pair.share,
        values: pair.values.each_ref().map(|values| values.iter().map(value_text).collect()),
        effect: pair.effect.clone(),
    };
    let coefficients = if design.is_linear() { view.regression.feature_summaries() } else { Vec::new() };
    let columns = Columns {
        listed: used.iter().take(MOST_LISTED).map(line).collect(),
        more: used
            .iter()
            .skip(MOST_LISTED)
            .filter(|&&column| effects.columns[column].standing == Standing::Clear)
            .count(),
        unclear: used
            .iter()
            .skip(MOST_LISTED)
            .filter(|&&column| effects.columns[column].standing != Standing::Clear)
            .count(),
        dropped: dropped.iter().map(|&column| name(column)).collect(),
        pairs: pairs.map(pair).collect(),
        coefficients: coefficients
            .into_iter()
            .take(MOST_COEFFICIENTS)
            .map(|mut feature| {
                feature.name = clipped(&feature.name, LONGEST_NAME);
                feature
            })
            .collect(),
        intercept: (design.is_linear() && design.has_intercept()).then(|| view.regression.intercept()),
    };
    Section {
        id: "features",
        question: "What matters?",
        answer: answer.into_iter().map(Into::into).collect(),
        tiles: Vec::new(),
        charts,
        more,
        detail: Detail::Columns(columns),
    }
}

fn value_text(value: &ColumnValue) -> String {
    match value {
        ColumnValue::Number(number) => three_digits(*number),
        ColumnValue::Level(level) => clipped(level, 24),
        ColumnValue::Missing => "missing".to_owned(),
    }
}

/// The main effect of a column with its band, or of levels with their intervals.
fn effect_chart(view: &View<'_>, place: usize, effect: &ColumnEffect) -> Chart {
    let target = &view.target;
    let name = clipped(&effect.name, LONGEST_NAME);
    let numbers: Vec<(f64, f64, f64)> = effect
        .points
        .iter()
        .filter_map(|point| match point.value {
            ColumnValue::Number(value) => Some((value, point.effect, NORMAL_95 * point.error)),
            _ => None,
        })
        .collect();
    let percent = format!("{:.1}%", 100.0 * effect.importance);
    let title = format!("{name} ({percent})");
    let id = format!("effect-{}", place + 1);
    let missing = effect.points.iter().find(|point| point.value == ColumnValue::Missing);
    let missing = missing.map_or_else(String::new, |point| {
        format!(" Missing: {} ± {}.", short(point.effect), short(NORMAL_95 * point.error))
    });
    let interacting = if effect.interacting > 0.2 {
        format!(" {:.0}% of its effect is interactions.", 100.0 * effect.interacting)
    } else {
        String::new()
    };
    if numbers.is_empty() {
        let mut points: Vec<_> = effect.points.iter().collect();
        points.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let cut = points.len().saturating_sub(MOST_LEVELS);
        points.truncate(MOST_LEVELS);
        points.sort_by(|a, b| a.effect.total_cmp(&b.effect));
        let cut = if cut > 0 { format!(" The {MOST_LEVELS} most frequent levels are drawn.") } else { String::new() };
        let names: Vec<String> = points.iter().map(|point| value_text(&point.value)).collect();
        let text = points.iter().zip(&names);
        let text =
            text.map(|(point, name)| format!("{name}: {} ± {}", short(point.effect), short(NORMAL_95 * point.error)));
        let mark = Mark::Intervals {
            x: points.iter().map(|point| point.effect).collect(),
            error: points.iter().map(|point| NORMAL_95 * point.error).collect(),
            y: (0..points.len()).map(|place| place as f64).collect(),
            text: text.collect(),
        };
        let [bottom, top] = [-0.5, points.len() as f64 - 0.5];
        return Chart {
            id,
            title,
            explanation: format!("Levels by their effect, with 95% intervals.{cut}{missing}{interacting}"),
            x: Axis::new(format!("effect on {target}")),
            y: Axis::categories("", names),
            is_small: true,
            layers: vec![Layer::guide(None, [0.0, 0.0], [bottom, top]), Layer { name: None, tone: Tone::Model, mark }],
        };
    }
    let values = || numbers.iter().map(|(value, ..)| *value);
    let [low, high] = range(values());
    let ends = numbers.iter().flat_map(|(_, effect, error)| [effect - error, effect + error]);
    let foot = range(ends.collect::<Vec<_>>().into_iter())[0];
    Chart {
        id,
        title,
        explanation: format!("{}.{missing}{interacting}", capital(&effect_words(effect))),
        x: Axis::new(name),
        y: Axis::new(format!("effect on {target}")),
        is_small: true,
        layers: vec![
            Layer::guide(None, [low, high], [0.0, 0.0]),
            Layer {
                name: None,
                tone: Tone::Model,
                mark: Mark::Band {
                    x: values().collect(),
                    lower: numbers.iter().map(|(_, effect, error)| effect - error).collect(),
                    upper: numbers.iter().map(|(_, effect, error)| effect + error).collect(),
                },
            },
            Layer::line(None, Tone::Model, values(), numbers.iter().map(|(_, effect, _)| *effect)),
            Layer {
                name: None,
                tone: Tone::Muted,
                mark: Mark::Rug { x: effect.rug.iter().copied().collect(), y: foot },
            },
        ],
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
