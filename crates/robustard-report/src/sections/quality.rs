//! In short: how good it is, what drives it, how many rows to check.

use robustard::faer::MatRef;
use robustard::{Choice, ColumnEffect, Options, Regression, Settings, Standing};
use robustard_table::ModelError;

use super::{Detail, Paragraph, Section, range, tile};
use crate::Totals;
use crate::chart::{Axis, Chart, Layer, Mark, RowField, Tone};
use crate::rows::single_input;
use crate::words::{clipped, counted, effect_words, three_digits};
use crate::{LONGEST_NAME, View};

/// Points of a curve.
const CURVE_POINTS: usize = 241;
const LEVEL: f64 = 0.95;

pub fn section(view: &View<'_>) -> Result<Section, ModelError> {
    let quality = view.regression.quality();
    let target = &view.target;
    let explained = if quality.loo_r2 > 0.0 {
        format!(
            "predictions explain {:.1}% of the variance of {target}; half of them are within {} (each row predicted from \
             the others).",
            100.0 * quality.loo_r2,
            three_digits(quality.loo_median_error)
        )
    } else {
        format!("the mean of {target} would predict as well; the columns explain nothing of it.")
    };
    let is_constant = range(view.rows.actual.0.iter().copied()).into_iter().reduce(|a, b| b - a) == Some(0.0);
    let explained =
        if is_constant { format!("{target} has one value only, so there is nothing to explain.") } else { explained };
    let caveat = if view.regression.quality_is_optimistic() {
        format!(
            " This is optimistic: the fit learnt {} from {} rows. robustard compare has cross-validated figures.",
            counted(view.regression.learnt_relevances(), "hyperparameter"),
            view.rows.total
        )
    } else {
        String::new()
    };
    let without = match view.totals.excluded {
        0 => String::new(),
        count => format!(
            " The {} excluded from the fit {} not counted.",
            counted(count, "row"),
            if count == 1 { "is" } else { "are" }
        ),
    };
    let good = Paragraph::labelled("How good", format!("{explained}{without}{caveat}"));
    let (mut charts, mut more) = (Vec::new(), Vec::new());
    if let Some(input) = single_input(view.model) {
        charts.push(curve(view, input)?);
    }
    more.push(predicted_against_actual(view));
    Ok(Section {
        id: "quality",
        question: "In short",
        answer: vec![
            good,
            Paragraph::labelled("What drives it", drivers(view)),
            Paragraph::labelled("Rows to check", to_check(view)),
        ],
        tiles: vec![
            tile(format!("{:.3}", quality.loo_r2), "R², each row left out"),
            tile(three_digits(quality.loo_median_error), "median error"),
            tile(three_digits(quality.loo_rmse), "root mean square error"),
            tile(format!("{:.1}%", 100.0 * quality.coverage_95), "inside the 95% interval"),
            tile(view.totals.flagged.to_string(), "rows to check"),
        ],
        charts,
        more,
        detail: Detail::None,
    })
}

/// What drives predictions, in a sentence.
fn drivers(view: &View<'_>) -> String {
    let effects = view.regression.effects();
    let clear: Vec<&ColumnEffect> = effects
        .ranking()
        .into_iter()
        .map(|column| &effects.columns[column])
        .filter(|column| column.standing == Standing::Clear)
        .collect();
    let name = |column: &&ColumnEffect| {
        let share = 100.0 * column.importance;
        format!("{} {share:.0}%, {}", clipped(&column.name, LONGEST_NAME), effect_words(column))
    };
    match clear.len() {
        0 => "no column clearly matters.".to_owned(),
        count => {
            let first: Vec<String> = clear.iter().take(3).map(name).collect();
            let rest =
                if count > 3 { format!(" {} clearly matter in all.", counted(count, "column")) } else { String::new() };
            format!("{} (share of the variance of predictions).{rest}", first.join("; "))
        }
    }
}

/// How many rows to check, in a sentence.
fn to_check(view: &View<'_>) -> String {
    let Totals { rows, flagged, excluded } = view.totals;
    let aside = match excluded {
        0 => String::new(),
        count => {
            let all = count == flagged;
            format!(", {} excluded from the fit", if all { "all".to_owned() } else { format!("{count} of them") })
        }
    };
    match flagged {
        0 => "no outliers flagged.".to_owned(),
        1 => format!("1 of {rows} is flagged as an outlier{aside}."),
        count => format!("{count} of {rows} are flagged as outliers{aside}."),
    }
}

fn predicted_against_actual(view: &View<'_>) -> Chart {
    let target = &view.target;
    let rows = &view.rows;
    let ends = range(rows.actual.0.iter().chain(&rows.predicted.0).copied());
    Chart {
        id: "predicted-actual".to_owned(),
        title: "Predicted against actual".to_owned(),
        explanation: format!(
            "Every point is a row, predicted without itself; on the dashed line the prediction is right.{}",
            sample_words(view)
        ),
        x: Axis::new(format!("actual {target}")),
        y: Axis::new(format!("predicted {target}")),
        is_small: false,
        layers: vec![Layer::guide(None, ends, ends), Layer::rows(RowField::Actual, RowField::Predicted)],
    }
}

/// What is not drawn.
pub fn sample_words(view: &View<'_>) -> String {
    let rows = &view.rows;
    if !rows.is_sample() {
        return String::new();
    }
    let drawn = rows.row.len() - rows.flagged + rows.flagged_drawn;
    let which = if rows.flagged_drawn < rows.flagged {
        format!("the {} most suspicious ones", rows.flagged_drawn)
    } else {
        "every flagged one".to_owned()
    };
    format!(" {drawn} of {} rows are drawn, among them {which}.", rows.total)
}

/// The paper's Figure 1: the curve and its band, with and without noise of its own for every row.
fn curve(view: &View<'_>, input: &str) -> Result<Chart, ModelError> {
    let regression = view.regression;
    let target = &view.target;
    let values = view.table.numbers(input)?.unwrap_or_default();
    let [low, high] = range(view.model.rows().iter().map(|&row| values[row]));
    let grid: Vec<f64> = (0..CURVE_POINTS)
        .map(|k| {
            let share = k as f64 / (CURVE_POINTS - 1) as f64;
            low * (1.0 - share) + high * share
        })
        .collect();
    let [own, other] = match regression.noise().is_shared() {
        false => ["noise per row", "one noise for all rows"],
        true => ["one noise for all rows", "noise per row"],
    };
    // The comparison is worth having, but not worth failing for.
    let companion = companion(view).ok().filter(|_| !view.control.is_stopped());
    let points = MatRef::from_column_major_slice(&grid, grid.len(), 1);
    let mut layers = Vec::new();
    let models = companion.iter().map(|model| (model, other, Tone::Other)).chain([(regression, own, Tone::Model)]);
    for (model, name, tone) in models {
        let prediction = model.predict(points)?;
        let interval = prediction.interval(LEVEL).map_err(robustard::Error::from)?;
        layers.push(Layer {
            name: None,
            tone,
            mark: Mark::Band {
                x: grid.iter().copied().collect(),
                lower: interval.lower.into_iter().collect(),
                upper: interval.upper.into_iter().collect(),
            },
        });
        layers.push(Layer::line(Some(name), tone, grid.iter().copied(), prediction.mean.iter().copied()));
    }
    layers.push(Layer::rows(RowField::Input, RowField::Actual));
    Ok(Chart {
        id: "curve".to_owned(),
        title: format!("{target} by {input}"),
        explanation: format!(
            "The fitted curve with the band that should hold 95% of new observations, and the same with the other noise \
             model. Where they part, wrong rows pull.{}",
            sample_words(view)
        ),
        x: Axis::new(input),
        y: Axis::new(target.clone()),
        is_small: false,
        layers,
    })
}

/// The same features with the other kind of noise.
fn companion(view: &View<'_>) -> Result<Regression, ModelError> {
    let regression = view.regression;
    let settings = match regression.noise().is_shared() {
        false => regression.settings().clone().with_shared_noise(),
        true => Settings::default(),
    };
    let options = Options {
        features: Some(Choice::Given(regression.features())),
        noise: Some(Choice::Given(settings.noise)),
        target_transform: Some(Choice::Given(regression.design().target().transform())),
        ..regression.recipe().options()
    };
    let recipe = options.recipe().and_then(|recipe| recipe.with_settings(settings)).map_err(robustard::Error::from)?;
    let data = view.model.encoder().data(view.table)?;
    Ok(robustard::fit(&data.dataset, &recipe, view.control)?)
}
