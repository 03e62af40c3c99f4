//! What each column does to predictions: how much it carries, how it acts, with which others, and what it contributes to a row.
//!
//! Everything comes from one look at the fitted function: predictions of training rows x₁ … x_N with the values of one column
//! exchanged for those of a grid, t_ig = f(xᵢ with the column at v_g), in the target's units, with weights w_g by how many rows have
//! such values. The mean over i is the column's main effect, the variance over g the column's part of the variance of predictions,
//! the error of its mean over g,
//! predicted from the other rows, what is lost where the column is not known. The function is linear in the model's weights, so that the main effect has a
//! posterior standard error in closed form.

mod background;
mod explain;
mod grid;
mod interactions;

use std::sync::OnceLock;

use faer::{Mat, MatRef, Par};
use rayon::prelude::*;
use serde::Serialize;

pub(crate) use background::Background;
pub use explain::{Explanation, SimilarRow};
pub use grid::ColumnValue;
pub use interactions::Interaction;

use crate::features::{Exchanged, Exchanger};
use crate::fitted::Fit;
use crate::input_column::{InputColumn, InputKind};
use grid::Grid;

/// Values of basis functions that the effects of all columns may take: about half a second.
const MOST_WORK: usize = 200_000_000;
/// Fewer rows would not show an average.
const LEAST_ROWS: usize = 64;
/// Points of a number, and with many columns.
const POINTS: usize = 24;
const FEWER_POINTS: usize = 16;
const MANY_COLUMNS: usize = 40;
/// Columns whose squared correlation is above this share their effect: a variance inflation of ten.
const COLLINEAR: f64 = 0.9;
/// Standard errors of a loss that is clear.
const CLEAR: f64 = 3.0;
/// Below this share of the variance of predictions a column does nothing.
const NOTHING: f64 = 1e-10;

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
    /// What the leave-one-out R² loses where it is not known and predictions are averaged over its values.
    pub loss: f64,
    /// Standard error of that.
    pub loss_error: f64,
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
    /// Left-out rows are predicted worse without it, by more than three standard errors: of many columns that do nothing, none looks
    /// clear by chance.
    Clear,
    /// They would not be predicted clearly worse.
    Negligible,
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
    /// Its standard error.
    pub error: f64,
    /// Share of the rows that the point stands for.
    pub weight: f64,
}

/// Columns that share their effect.
#[derive(Debug, Clone, Serialize)]
pub struct Collinear {
    /// Which, by their numbers.
    pub columns: Vec<usize>,
    /// What the leave-one-out R² loses where none of them is known.
    pub loss: f64,
    /// Standard error of that.
    pub loss_error: f64,
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
    pub fn similar(&self, fit: &Fit, row: MatRef<'_, f64>, most: usize) -> Vec<SimilarRow> {
        explain::similar(fit, self, row, most)
    }
}

/// The fitted function at training rows, in the target's units.
struct Look<'f> {
    fit: &'f Fit,
    exchanger: Exchanger<'f>,
    /// Weights of the basis functions, and the intercept.
    weights: Vec<f64>,
    intercept: f64,
    /// Shares of the rows, which add up to 1.
    share: Vec<f64>,
    /// Predictions.
    predicted: Vec<f64>,
    /// What is known of each row without itself; none for rows that look wrong.
    left_out: Vec<Option<LeftOutRow>>,
    /// Share of the training rows that is not looked at.
    unseen: f64,
}

/// A row that is predicted from the others.
struct LeftOutRow {
    actual: f64,
    /// Error of the prediction, in the target's units.
    error: f64,
    /// What the row adds to the weights of the basis functions and to the intercept: cov(w, f(xᵢ)) eᵢ/λᵢ with the left-out error e.
    weights: Vec<f64>,
    intercept: f64,
}

/// Predictions with exchanged values.
struct Seen {
    /// t, one row after the other.
    values: Mat<f64>,
    /// The same, each row predicted from the others; as before for rows that look wrong.
    left_out: Mat<f64>,
    /// Mean over the rows of the slope of the target times the basis functions, for each value; the intercept's first.
    sums: Mat<f64>,
}

impl<'f> Look<'f> {
    fn new(fit: &'f Fit, background: &Background, rows: usize) -> Self {
        let Fit { design, model, .. } = fit;
        let standard = design.standardize(background.inputs(rows).as_ref());
        let exchanger = Exchanger::new(design.map(), standard.as_ref());
        let coefficients = model.coefficients();
        let weights = exchanger.weights(design.of_features(coefficients));
        let intercept = design.of_intercept(coefficients).unwrap_or(0.0);
        let diagnostics = fit.diagnostics();
        let rows = &background.rows[..rows];
        let total: f64 = rows.iter().map(|&row| diagnostics.weight[row]).sum();
        let mut look = Self {
            left_out: left_out_rows(fit, &exchanger, standard.as_ref(), rows),
            exchanger,
            weights,
            intercept,
            share: rows.iter().map(|&row| diagnostics.weight[row] / total).collect(),
            predicted: Vec::new(),
            unseen: 1.0 - rows.len() as f64 / diagnostics.weight.len() as f64,
            fit,
        };
        // No input is exchanged for nothing, once.
        let nothing = look.exchanger.values(&[], Mat::zeros(1, 0).as_ref());
        look.predicted = (0..rows.len()).map(|row| look.row(row, &nothing)[0]).collect();
        look
    }

    fn standard(&self, basis: &[f64]) -> f64 {
        self.intercept + product(basis, &self.weights)
    }

    /// The same without what the row itself adds.
    fn without(&self, row: usize, standard: f64, basis: &[f64]) -> f64 {
        match &self.left_out[row] {
            Some(own) => standard - own.intercept - product(basis, &own.weights),
            None => standard,
        }
    }

    /// Predictions of a row with each of the values in place of its own.
    fn row(&self, row: usize, values: &Exchanged) -> Vec<f64> {
        let mut predicted = Vec::new();
        let target = self.fit.design.target();
        self.exchanger.show(row, values, |_, basis| predicted.push(target.expected(self.standard(basis))));
        predicted
    }

    /// Values in standard units, of values in the user's.
    fn exchanged(&self, inputs: &[usize], values: MatRef<'_, f64>) -> Exchanged {
        let scaling = self.fit.design.inputs();
        let standard = |g: usize, k: usize| (values[(g, k)] - scaling.mean[inputs[k]]) / scaling.scale[inputs[k]];
        self.exchanger.values(inputs, Mat::from_fn(values.nrows(), inputs.len(), standard).as_ref())
    }

    fn row_count(&self) -> usize {
        self.share.len()
    }

    /// Predictions of all rows, each from the others, with each of the values.
    fn left_out(&self, values: &Exchanged, count: usize) -> Mat<f64> {
        let target = self.fit.design.target();
        let mut all = Mat::zeros(self.row_count(), count);
        for row in 0..self.row_count() {
            self.exchanger.show(row, values, |g, basis| {
                all[(row, g)] = target.expected(self.without(row, self.standard(basis), basis));
            });
        }
        all
    }

    /// Predictions of all rows with each of the values, with what a posterior variance needs.
    fn seen(&self, values: &Exchanged, count: usize) -> Seen {
        let target = self.fit.design.target();
        let [values_of_rows, left_out] = [(); 2].map(|()| Mat::zeros(self.row_count(), count));
        let mut seen = Seen { values: values_of_rows, left_out, sums: Mat::zeros(self.exchanger.size() + 1, count) };
        for row in 0..self.row_count() {
            self.exchanger.show(row, values, |g, basis| {
                let standard = self.standard(basis);
                seen.values[(row, g)] = target.expected(standard);
                seen.left_out[(row, g)] = target.expected(self.without(row, standard, basis));
                let slope = self.share[row] * target.variance_at(standard, 1.0).sqrt();
                let sums = seen.sums.col_as_slice_mut(g);
                sums[0] += slope;
                sums[1..].iter_mut().zip(basis).for_each(|(sum, basis)| *sum += slope * basis);
            });
        }
        seen
    }

    /// Posterior variances of weighted sums of the columns of `sums`, in squared units of the target.
    fn variances(&self, sums: MatRef<'_, f64>) -> Vec<f64> {
        let Fit { design, model, .. } = self.fit;
        let features = self.exchanger.features(sums.subrows(1, sums.nrows() - 1));
        let first = usize::from(design.has_intercept());
        let rows = Mat::from_fn(features.nrows() + first, sums.ncols(), |j, g| match j.checked_sub(first) {
            Some(feature) => features[(feature, g)],
            None => sums[(0, g)],
        });
        model.predict_rows(rows.as_ref()).map_or_else(|_| vec![0.0; sums.ncols()], |latent| latent.variance)
    }

    /// What left-out R² loses where a column is not known and predictions are averaged over its values, of given weights, with the
    /// standard error; `values` are left-out predictions with them.
    fn loss(&self, values: MatRef<'_, f64>, weight: &[f64]) -> (f64, f64) {
        let loss = |(row, own): (usize, &Option<LeftOutRow>)| {
            let LeftOutRow { actual, error, .. } = own.as_ref()?;
            let mean: f64 = weight.iter().enumerate().map(|(g, w)| w * values[(row, g)]).sum();
            Some((self.share[row], (actual - mean).powi(2) - error * error, *actual))
        };
        let rows: Vec<(f64, f64, f64)> = self.left_out.iter().enumerate().filter_map(loss).collect();
        let total: f64 = rows.iter().map(|(share, ..)| share).sum();
        if total <= 0.0 {
            return (0.0, 0.0);
        }
        let average = |value: &dyn Fn(&(f64, f64, f64)) -> f64| -> f64 {
            rows.iter().map(|row| row.0 / total * value(row)).sum()
        };
        let actual = average(&|row| row.2);
        let variance = average(&|row| (row.2 - actual).powi(2));
        if variance <= 0.0 {
            return (0.0, 0.0);
        }
        let loss = average(&|row| row.1);
        let square: f64 = rows.iter().map(|row| (row.0 / total * (row.1 - loss)).powi(2)).sum();
        (loss / variance, square.sqrt() / variance)
    }
}

/// What is known of rows (standardized) without themselves.
fn left_out_rows(
    fit: &Fit,
    exchanger: &Exchanger<'_>,
    standard: MatRef<'_, f64>,
    rows: &[usize],
) -> Vec<Option<LeftOutRow>> {
    let Fit { design, model, .. } = fit;
    let diagnostics = fit.diagnostics();
    let errors = fit.left_out().residual;
    let of_rows = model.rows();
    let covariance = model.weight_covariance(design.columns(standard, Par::Seq).0.as_ref());
    let Ok(covariance) = covariance else { return rows.iter().map(|_| None).collect() };
    let left_out = |(k, &row): (usize, &usize)| {
        let size = errors[row] * of_rows.weight[row] / of_rows.noise_variance[row];
        let own: Vec<f64> = covariance.col(k).iter().map(|covariance| size * covariance).collect();
        (!diagnostics.flagged[row]).then(|| LeftOutRow {
            actual: diagnostics.actual[row],
            error: diagnostics.loo_residual[row],
            weights: exchanger.weights(design.of_features(&own)),
            intercept: design.of_intercept(&own).unwrap_or(0.0),
        })
    };
    rows.par_iter().enumerate().map(left_out).collect()
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
    let is_nothing = |part: f64| part <= NOTHING * variance || whole <= 0.0;
    let effect = |Found { mut effect, variance, main }: Found| {
        if is_nothing(variance) {
            // What is left is rounding.
            (effect.loss, effect.loss_error) = (0.0, 0.0);
        }
        effect.importance = if is_nothing(variance) { 0.0 } else { variance / whole };
        effect.interacting = if is_nothing(variance) { 0.0 } else { (1.0 - main / variance).max(0.0) };
        effect.standing = match effect.loss > CLEAR * effect.loss_error {
            _ if is_nothing(variance) => Standing::Dropped,
            true => Standing::Clear,
            false => Standing::Negligible,
        };
        effect
    };
    let parts: Vec<f64> = found.iter().map(|found| found.variance - found.main).collect();
    let found: Vec<ColumnEffect> = found.into_iter().map(effect).collect();
    let interactions = interactions::strongest(&look, columns, &grids, &parts, variance);
    let collinear = collinear(&look, columns, known.as_ref());
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
    let (loss, loss_error) = look.loss(left_out.as_ref(), &grid.weight);
    let point = |g: usize| EffectPoint {
        value: grid.shown[g].clone(),
        effect: main[g],
        error: (posterior[g] + of_sample(g)).max(0.0).sqrt(),
        weight: grid.weight[g],
    };
    let rug = match column.kind {
        InputKind::Category { .. } => Vec::new(),
        _ => known.col(column.inputs[0]).iter().copied().take(RUG).collect(),
    };
    let effect = ColumnEffect {
        name: column.name.clone(),
        importance: 0.0,
        loss,
        loss_error,
        interacting: 0.0,
        standing: Standing::Negligible,
        direction: direction(grid, &main),
        points: (0..count).map(point).collect(),
        rug,
    };
    let main = moments(main.iter().copied().zip(grid.weight.iter().copied())).1;
    Found { effect, variance, main }
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

/// Groups of numbers that can hardly be told apart, each linked to another by a squared correlation above [`COLLINEAR`].
fn collinear(look: &Look<'_>, columns: &[InputColumn], known: MatRef<'_, f64>) -> Vec<Collinear> {
    /// Sets of values, of other rows, that take the place of those of each row.
    const SETS: usize = 24;
    /// More columns are not compared with each other.
    const MOST_COLUMNS: usize = 1000;
    let numbers: Vec<usize> =
        (0..columns.len()).filter(|&c| !matches!(columns[c].kind, InputKind::Category { .. })).collect();
    if numbers.len() > MOST_COLUMNS || known.nrows() < 3 {
        return Vec::new();
    }
    let share = 1.0 / known.nrows() as f64;
    let standard = |&column: &usize| -> Vec<f64> {
        let values: Vec<f64> = known.col(columns[column].inputs[0]).iter().copied().collect();
        let (mean, variance) = moments(values.iter().map(|value| (*value, share)));
        let scale = if variance > 0.0 { (share / variance).sqrt() } else { 0.0 };
        values.iter().map(|value| (value - mean) * scale).collect()
    };
    let standard: Vec<Vec<f64>> = numbers.iter().map(standard).collect();
    let is_linked =
        |a: usize, b: usize| standard[a].iter().zip(&standard[b]).map(|(a, b)| a * b).sum::<f64>().powi(2) > COLLINEAR;
    // Each column has the label of the first one that it is linked to, perhaps by others.
    let mut label: Vec<usize> = (0..numbers.len()).collect();
    for b in 0..numbers.len() {
        for a in 0..b {
            if label[a] != label[b] && is_linked(a, b) {
                let (old, new) = (label[a].max(label[b]), label[a].min(label[b]));
                label.iter_mut().filter(|label| **label == old).for_each(|label| *label = new);
            }
        }
    }
    let groups = (0..numbers.len()).map(|first| -> Vec<usize> {
        (0..numbers.len()).filter(|&place| label[place] == first).map(|place| numbers[place]).collect()
    });
    let group = |members: Vec<usize>| {
        let inputs: Vec<usize> = members.iter().flat_map(|&column| columns[column].inputs.clone()).collect();
        let sets = SETS.min(known.nrows());
        let values = Mat::from_fn(sets, inputs.len(), |g, k| known[(known.nrows() - 1 - g, inputs[k])]);
        let values = look.left_out(&look.exchanged(&inputs, values.as_ref()), sets);
        let (loss, loss_error) = look.loss(values.as_ref(), &vec![1.0 / sets as f64; sets]);
        Collinear { columns: members, loss, loss_error }
    };
    groups.filter(|members| members.len() > 1).map(group).collect()
}
