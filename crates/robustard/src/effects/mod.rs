//! What each column does to predictions: how much it carries, how it acts, with which others, and what it contributes to a row.
//!
//! Everything comes from one look at the fitted function: predictions of training rows x₁ … x_N with the values of one column
//! exchanged for those of a grid, t_ig = f(xᵢ with the column at v_g), in the target's units, with weights w_g by how many rows have
//! such values. The mean over i is the column's main effect, the variance over g the column's part of the variance of predictions, and
//! the error of its mean over g, each row predicted from the others, what is lost where the column is not known. The function is linear
//! in the model's weights, so that the main effect has a posterior standard error in closed form, and a jackknife one; the larger counts.

mod background;
mod collinear;
mod explain;
mod grid;
mod interactions;
mod look;

use std::sync::OnceLock;

use faer::MatRef;
use rayon::prelude::*;
use serde::Serialize;

pub(crate) use background::Background;
pub use collinear::Collinear;
pub use explain::{Explanation, SimilarRow};
pub use grid::ColumnValue;
pub use interactions::Interaction;

use crate::fitted::Fit;
use crate::input_column::{InputColumn, InputKind};
use grid::Grid;
use look::{Look, Seen};

/// Values of basis functions that the effects of all columns may take: about half a second.
const MOST_WORK: usize = 200_000_000;
/// Fewer rows would not show an average.
const LEAST_ROWS: usize = 64;
/// Points of a number, and with many columns.
const POINTS: usize = 24;
const FEWER_POINTS: usize = 16;
const MANY_COLUMNS: usize = 40;
/// Standard errors of a loss that is clear.
const CLEAR: f64 = 3.0;
/// Below this share of the variance of predictions a column does nothing.
const NOTHING: f64 = 1e-10;
/// Less than this share of the variance and less loss is negligible, however many rows show it: both are shown as 0.0%.
const NEGLIGIBLE: f64 = 5e-4;
/// Relative error of predictions.
const ROUNDING: f64 = 1e-13;

/// What the columns of a regression do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Effects {
    /// Average prediction.
    pub average: f64,
    /// Standard deviation of predictions.
    pub deviation: f64,
    /// Training rows that were averaged over.
    pub rows: usize,
    /// The columns, in the order of the table.
    pub columns: Vec<ColumnEffect>,
    /// Columns that can hardly be told apart, and what they carry together.
    pub collinear: Vec<Collinear>,
    /// The strongest interactions of two columns, strongest first.
    pub interactions: Vec<Interaction>,
    #[serde(skip)]
    grids: Vec<Grid>,
}

/// What a column does.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ColumnEffect {
    /// Its name.
    pub name: String,
    /// Its share of the variance of predictions: the mean squared change when its values are exchanged among rows, divided by the sum
    /// of that over all columns.
    pub importance: f64,
    /// What the leave-one-out R² loses where it is not known and predictions are averaged over its values; at most all of it, since the mean
    /// of the target can always be predicted.
    pub loss: f64,
    /// Standard error of that: how it would vary from sample to sample.
    pub loss_error: f64,
    /// What the loss of a column that does nothing stays below: three standard errors that it has then. A larger loss is clear.
    pub loss_by_chance: f64,
    /// Share of its part of the variance that is not its main effect: it acts together with other columns.
    pub interacting: f64,
    /// What can be said of it.
    pub standing: Standing,
    /// Whether the main effect rises or falls over the values of a number, as the correlation of value and effect; 0 for a category.
    pub direction: f64,
    /// Points of the main effect, in the order of values.
    pub points: Vec<EffectPoint>,
    /// Values of some training rows, of a number.
    pub rug: Vec<f64>,
}

/// How sure it is that a column does something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Left-out rows are predicted worse without it, by more than [`ColumnEffect::loss_by_chance`]: of many columns that do nothing, none
    /// looks clear.
    Clear,
    /// They may not be predicted worse.
    Unclear,
    /// Predictions do not depend on it.
    Dropped,
}

/// The main effect of a column at one of its values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectPoint {
    /// The value.
    pub value: ColumnValue,
    /// Prediction at the value less the average, other columns averaged over the training rows.
    pub effect: f64,
    /// Its standard error: the posterior's or the jackknife's, whichever is larger.
    pub error: f64,
    /// Share of the rows that the point stands for.
    pub weight: f64,
}

/// Effects, once they are worked out.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownEffects(OnceLock<Effects>);

impl PartialEq for KnownEffects {
    /// They follow from the rest.
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl KnownEffects {
    pub fn get(&self, fit: &Fit, background: &Background) -> &Effects {
        self.0.get_or_init(|| effects(fit, background))
    }
}

impl Effects {
    /// The columns, most important first.
    pub fn ranking(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by(|&a, &b| self.columns[b].importance.total_cmp(&self.columns[a].importance));
        order
    }

    pub(crate) fn explain(&self, fit: &Fit, background: &Background, inputs: MatRef<'_, f64>) -> Vec<Explanation> {
        explain::explain(fit, background, self, inputs)
    }
}

impl Background {
    pub fn similar(&self, fit: &Fit, rows: MatRef<'_, f64>, most: usize) -> Vec<Vec<SimilarRow>> {
        explain::similar(fit, self, rows, most)
    }
}

/// Σ a b, in an order that vectorises.
fn product(a: &[f64], b: &[f64]) -> f64 {
    crate::learn::dot(a, b)
}

/// Mean and variance of values with weights that add up to 1.
fn moments(values: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64) {
    let mean: f64 = values.clone().map(|(value, weight)| weight * value).sum();
    (mean, values.map(|(value, weight)| weight * (value - mean).powi(2)).sum())
}

/// Works out the effects of all columns.
fn effects(fit: &Fit, background: &Background) -> Effects {
    let columns = &background.columns;
    let points = if columns.len() > MANY_COLUMNS { FEWER_POINTS } else { POINTS };
    let known = background.inputs(background.rows.len());
    let known_weight: Vec<f64> = background.rows.iter().map(|&row| fit.model.rows().weight[row]).collect();
    let grids: Vec<Grid> =
        columns.iter().map(|column| Grid::new(column, known.as_ref(), &known_weight, points)).collect();
    let values: usize = grids.iter().map(|grid| grid.weight.len()).sum();
    let work = fit.design.feature_count() * values.max(1);
    let rows = (MOST_WORK / work.max(1)).max(LEAST_ROWS).min(background.rows.len());
    let look = Look::new(fit, background, rows);
    let (average, variance) = moments(look.predicted.iter().copied().zip(look.share.iter().copied()));
    let found: Vec<Found> =
        columns.par_iter().zip(&grids).map(|(column, grid)| of_column(&look, column, grid, known.as_ref())).collect();
    let whole: f64 = found.iter().map(|found| found.variance).sum();
    // What is smaller than the rounding of predictions is nothing, too.
    let rounding = (ROUNDING * average).powi(2);
    let is_nothing = |part: f64| part <= NOTHING * variance + rounding || whole <= 0.0;
    let effect = |Found { mut effect, variance, main }: Found| {
        if is_nothing(variance) {
            // What is left is rounding.
            (effect.loss, effect.loss_error, effect.loss_by_chance) = (0.0, 0.0, 0.0);
        }
        effect.importance = if is_nothing(variance) { 0.0 } else { variance / whole };
        effect.interacting = if is_nothing(variance) { 0.0 } else { (1.0 - main / variance).max(0.0) };
        effect.standing = match effect.loss > effect.loss_by_chance {
            _ if is_nothing(variance) => Standing::Dropped,
            true if effect.importance.max(effect.loss) >= NEGLIGIBLE => Standing::Clear,
            _ => Standing::Unclear,
        };
        effect
    };
    let parts: Vec<f64> = found.iter().map(|found| found.variance - found.main).collect();
    let found: Vec<ColumnEffect> = found.into_iter().map(effect).collect();
    let interactions = interactions::strongest(&look, columns, &grids, &parts, whole);
    let collinear = collinear::groups(&look, columns, &found, known.as_ref());
    Effects { average, deviation: variance.sqrt(), rows, columns: found, collinear, interactions, grids }
}

/// What was found about a column.
struct Found {
    effect: ColumnEffect,
    /// Its part of the variance of predictions, and that of its main effect.
    variance: f64,
    main: f64,
}

fn of_column(look: &Look<'_>, column: &InputColumn, grid: &Grid, known: MatRef<'_, f64>) -> Found {
    /// Most values shown along the axis.
    const RUG: usize = 100;
    let count = grid.weight.len();
    let Seen { values, left_out, mut sums } = look.seen(&look.exchanged(&column.inputs, grid.values.as_ref()), count);
    let mut main = vec![0.0; count];
    let mut variance = 0.0;
    let mut centred = values.clone();
    for (row, share) in look.share.iter().enumerate() {
        let own = (0..count).map(|g| (values[(row, g)], grid.weight[g]));
        let (mean, square) = moments(own);
        variance += share * square;
        for (g, main) in main.iter_mut().enumerate() {
            centred[(row, g)] -= mean;
            *main += share * centred[(row, g)];
        }
    }
    // The same for the sums: they become those of the centred effect.
    for j in 0..sums.nrows() {
        let mean: f64 = (0..count).map(|g| grid.weight[g] * sums[(j, g)]).sum();
        (0..count).for_each(|g| sums[(j, g)] -= mean);
    }
    let posterior = look.variances(sums.as_ref());
    let of_sample = |g: usize| -> f64 {
        let rows = look.share.iter().enumerate();
        look.unseen * rows.map(|(row, share)| (share * (centred[(row, g)] - main[g])).powi(2)).sum::<f64>()
    };
    let loss = look.loss(left_out.as_ref(), &grid.weight);
    let main_variance = moments(main.iter().copied().zip(grid.weight.iter().copied())).1;
    // The average effect, by which the curve is centred, is known from a sample of the rows.
    let of_centre = (1.0 - known.nrows() as f64 / look.training_rows()) * main_variance / known.nrows() as f64;
    let point = |g: usize| EffectPoint {
        value: grid.shown[g].clone(),
        effect: main[g],
        error: (posterior[g] + of_sample(g) + of_centre).max(0.0).sqrt(),
        weight: grid.weight[g],
    };
    let rug = match column.kind {
        InputKind::Category { .. } => Vec::new(),
        _ => known.col(column.inputs[0]).iter().copied().take(RUG).collect(),
    };
    let effect = ColumnEffect {
        name: column.name.clone(),
        importance: 0.0,
        loss: loss.value,
        loss_error: loss.error,
        loss_by_chance: loss.by_chance,
        interacting: 0.0,
        standing: Standing::Unclear,
        direction: direction(grid, &main),
        points: (0..count).map(point).collect(),
        rug,
    };
    Found { effect, variance, main: main_variance }
}

/// Correlation of value and effect of a number.
fn direction(grid: &Grid, main: &[f64]) -> f64 {
    let points: Vec<(f64, f64, f64)> =
        (0..grid.numbers).map(|g| (grid.values[(g, 0)], main[g], grid.weight[g])).collect();
    let total: f64 = points.iter().map(|(.., weight)| weight).sum();
    if points.len() < 2 || total <= 0.0 {
        return 0.0;
    }
    let (x, x_square) = moments(points.iter().map(|(x, _, w)| (*x, w / total)));
    let (y, y_square) = moments(points.iter().map(|(_, y, w)| (*y, w / total)));
    let product: f64 = points.iter().map(|(a, b, w)| w / total * (a - x) * (b - y)).sum();
    if x_square * y_square > 0.0 { product / (x_square * y_square).sqrt() } else { 0.0 }
}
