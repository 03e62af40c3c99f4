//! The design: the only place that knows the scaling of inputs and target, the intercept and the features.

use std::ops::Range;
use std::sync::Arc;

use faer::{ColMut, ColRef, Mat, MatMut, MatRef, Par};
use robustard_engine::{FittedModel, Problem, ProblemError, RowSource, Start};
use serde::{Deserialize, Serialize};

use crate::control::par;
use crate::dataset::{Dataset, DatasetError};
use crate::features::{FeatureError, FeatureKind, FeatureMap, Gap};
use crate::moments::Moments;
use crate::range;
use crate::scaling::{Standardizer, rows_of};
use crate::target::TargetScale;

/// Rows that are made into features together, so that the room needed does not grow with the table.
const BLOCK: usize = 4096;

/// An input that lies outside the range of the training rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beyond {
    /// Its name.
    pub name: String,
    /// In so many rows.
    pub rows: usize,
}

/// From inputs to the columns of a linear model, and from its weights back to the user's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    names: Vec<String>,
    groups: Vec<usize>,
    inputs: Standardizer,
    map: FeatureMap,
    target: TargetScale,
    intercept: bool,
}

impl Design {
    pub(crate) fn new(
        dataset: &Dataset<'_>,
        inputs: Standardizer,
        map: FeatureMap,
        target: TargetScale,
        intercept: bool,
    ) -> Self {
        let (names, groups) = (dataset.names().to_vec(), dataset.groups().to_vec());
        Self { names, groups, inputs, map, target, intercept }
    }

    /// The features.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Scaling of the inputs.
    pub fn inputs(&self) -> &Standardizer {
        &self.inputs
    }

    /// Names of the inputs.
    pub fn input_names(&self) -> &[String] {
        &self.names
    }

    /// Scaling of the target.
    pub fn target(&self) -> TargetScale {
        self.target
    }

    pub(crate) fn set_target(&mut self, target: TargetScale) {
        self.target = target;
    }

    /// Whether there is an intercept.
    pub fn has_intercept(&self) -> bool {
        self.intercept
    }

    /// Number of columns before those of the features.
    fn first(&self) -> usize {
        usize::from(self.intercept)
    }

    /// Number of features.
    pub fn feature_count(&self) -> usize {
        self.map.count(self.names.len())
    }

    /// Number of columns of the linear model.
    pub(crate) fn column_count(&self) -> usize {
        self.first() + self.feature_count()
    }

    /// Names of the features.
    pub fn feature_names(&self) -> Vec<String> {
        self.map.names(&self.names)
    }

    /// The group of features that shares a precision, for each feature. The intercept's group, if there is one, is 0.
    pub fn feature_groups(&self) -> Vec<usize> {
        self.map.groups(&self.groups).iter().map(|group| group + self.first()).collect()
    }

    /// The part of a list with one value per column that belongs to the features.
    pub fn of_features<'v, T>(&self, per_column: &'v [T]) -> &'v [T] {
        &per_column[self.first()..]
    }

    /// The value of a list with one per column that belongs to the intercept.
    pub fn of_intercept<T: Copy>(&self, per_column: &[T]) -> Option<T> {
        if self.intercept { per_column.first().copied() } else { None }
    }

    /// The feature that a column of the linear model is; none for the intercept.
    pub fn feature_of(&self, column: usize) -> Option<usize> {
        column.checked_sub(self.first())
    }

    /// A row that holds 1 in the column of a feature.
    pub(crate) fn unit_rows(&self, features: usize) -> Mat<f64> {
        let first = self.first();
        Mat::from_fn(features, self.column_count(), |i, j| f64::from(u8::from(j == i + first)))
    }

    /// The features that have a meaning of their own: all, but of learnt curves only the inputs.
    pub fn telling_features(&self) -> usize {
        if self.map.bends().is_some() { self.names.len() } else { self.feature_count() }
    }

    /// Coefficients of the features per standard deviation of each, in units of the transformed target, of a list with one per
    /// column.
    pub fn per_deviation(&self, per_column: &[f64]) -> Vec<f64> {
        self.of_features(per_column).iter().map(|weight| self.target.difference(*weight)).collect()
    }

    /// Units of the transformed target per unit of a feature.
    pub fn unit(&self, feature: usize) -> f64 {
        if self.map.begins_with_inputs() && feature < self.names.len() {
            self.target.difference(1.0) / self.inputs.scale[feature]
        } else {
            self.target.difference(1.0)
        }
    }

    /// The prediction where every input is zero, of linear features; else where every feature is.
    pub fn intercept_in_units(&self, coefficients: &[f64]) -> f64 {
        let own = self.of_intercept(coefficients).unwrap_or(0.0);
        let is_linear = self.feature_count() == self.names.len() && self.map.begins_with_inputs();
        let shift: f64 = if is_linear {
            let scaling = self.inputs.mean.iter().zip(&self.inputs.scale);
            self.of_features(coefficients)
                .iter()
                .zip(scaling)
                .map(|(weight, (mean, scale))| weight * mean / scale)
                .sum()
        } else {
            0.0
        };
        self.target.transformed(own - shift)
    }

    /// Whether the features are the inputs and nothing else.
    pub fn is_linear(&self) -> bool {
        matches!(self.map, FeatureMap::Linear(_))
    }

    /// The columns of a data set as a problem of the engine, each row counted once, and how far rows lie from what the features
    /// know. `is_standard` says that linear columns are standardized: they are then copied only if the fit needs them all at once.
    pub(crate) fn problem<'a>(
        &self,
        dataset: &'a Dataset<'a>,
        standard_target: Arc<Vec<f64>>,
        is_standard: bool,
    ) -> Result<(Problem<'a>, Option<Vec<Gap>>), ProblemError> {
        let (problem, gaps) = if self.is_linear() {
            let rows = LinearRows { dataset, inputs: self.inputs.clone(), first: self.first() };
            let problem = if is_standard {
                Problem::from_standard_source(rows, standard_target, self.first())
            } else {
                Problem::from_rows(rows.matrix(), standard_target)?
            };
            (problem, None)
        } else {
            let (rows, gaps) = self.feature_rows(dataset);
            (Problem::from_rows(rows, standard_target)?, gaps)
        };
        let mut labels = self.feature_groups();
        if self.intercept {
            labels.insert(0, 0);
        }
        Ok((problem.with_groups(&labels)?, gaps))
    }

    /// A problem with other weights of rows, whose intercept is not shrunk.
    pub(crate) fn weighted<'a>(
        &self,
        problem: &Problem<'a>,
        weights: Option<&[f64]>,
    ) -> Result<Problem<'a>, ProblemError> {
        let mut problem = problem.clone();
        if let Some(weights) = weights.filter(|weights| weights.iter().any(|weight| *weight != 1.0)) {
            problem = problem.with_row_weights(weights)?;
        }
        if self.intercept { problem.with_unshrunk(0) } else { Ok(problem) }
    }

    /// The precisions that a fit of this design has learnt, one per group of columns; that of the intercept, which is fixed, is 1.
    pub(crate) fn group_precisions(&self, model: &FittedModel) -> Vec<f64> {
        let groups = model.groups();
        let mut precisions = vec![1.0; groups.iter().max().map_or(0, |last| last + 1)];
        groups.iter().zip(model.weight_precision()).for_each(|(&group, precision)| precisions[group] = *precision);
        precisions[..self.first()].fill(1.0);
        precisions
    }

    /// How many parameters a fit has learnt besides the weights: precisions of columns in use, and lengthscales.
    pub(crate) fn learnt_parameters(&self, model: &FittedModel) -> usize {
        let is_learnt = |column: &&usize| !model.fixed_columns().contains(column);
        let mut groups: Vec<usize> =
            model.active_columns().iter().filter(is_learnt).map(|&column| model.groups()[column]).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.len() + self.map.learnt_lengthscales()
    }

    /// A start of the features' groups with that of the intercept's, whose precision is fixed.
    pub(crate) fn start(&self, mut start: Start) -> Start {
        if self.intercept {
            start.weight_precision.insert(0, 1.0);
        }
        start
    }

    fn feature_rows(&self, dataset: &Dataset<'_>) -> (Mat<f64>, Option<Vec<Gap>>) {
        let n = dataset.row_count();
        let columns: Vec<ColRef<'_, f64>> = dataset.columns().collect();
        let mut rows = Mat::zeros(self.column_count(), n);
        let mut gaps: Option<Vec<Gap>> = None;
        for start in (0..n).step_by(BLOCK) {
            let length = BLOCK.min(n - start);
            let standard = self.standardized_columns(&columns, start..start + length);
            let block = rows.as_mut().subcols_mut(start, length);
            let of_block = self.write(standard.as_ref(), block, par());
            if let Some(of_block) = of_block {
                gaps.get_or_insert_default().extend(of_block);
            }
        }
        (rows, gaps)
    }

    /// Some rows of columns of inputs, standardized: m × p.
    pub(crate) fn standardized_columns(&self, columns: &[ColRef<'_, f64>], rows: Range<usize>) -> Mat<f64> {
        let mut standard = Mat::zeros(rows.len(), columns.len());
        for (j, column) in columns.iter().enumerate() {
            let (mean, scale) = (self.inputs.mean[j], self.inputs.scale[j]);
            let values = column.subrows(rows.start, rows.len());
            let room = standard.col_as_slice_mut(j).iter_mut();
            room.zip(values.iter()).for_each(|(standard, value)| *standard = (value - mean) / scale);
        }
        standard
    }

    /// Writes the columns of some rows of inputs, of linear features: d × m.
    pub(crate) fn write_linear(&self, columns: &[ColRef<'_, f64>], range: Range<usize>, mut rows: MatMut<'_, f64>) {
        let first = self.first();
        for i in 0..rows.ncols() {
            contiguous(rows.as_mut().col_mut(i))[..first].fill(1.0);
        }
        // Columns of values that lie one after the other, read through the cache once.
        for (j, column) in columns.iter().enumerate() {
            let (mean, scale) = (self.inputs.mean[j], self.inputs.scale[j]);
            let values = column.subrows(range.start, range.len());
            let room = rows.as_mut().row_mut(first + j);
            room.iter_mut().zip(values.iter()).for_each(|(room, value)| *room = (value - mean) / scale);
        }
    }

    /// Writes the columns of standardized inputs.
    pub(crate) fn write(&self, standard: MatRef<'_, f64>, mut rows: MatMut<'_, f64>, par: Par) -> Option<Vec<Gap>> {
        let first = self.first();
        rows.as_mut().subrows_mut(0, first).fill(1.0);
        let mut features = rows.subrows_mut(first, self.feature_count());
        self.map.write(standard, features.as_mut(), par);
        self.map.gaps(standard, features.as_ref())
    }

    /// New rows (m × p) in standard units: done once, for all that follows.
    pub(crate) fn standardize(&self, inputs: MatRef<'_, f64>) -> Mat<f64> {
        self.inputs.transform(inputs)
    }

    /// The columns of standardized inputs, and how far they lie from what the features know.
    pub(crate) fn columns(&self, standard: MatRef<'_, f64>, par: Par) -> (Mat<f64>, Option<Vec<Gap>>) {
        let mut rows = Mat::zeros(self.column_count(), standard.nrows());
        let gaps = self.write(standard, rows.as_mut(), par);
        (rows, gaps)
    }

    /// Which standardized inputs are out of range, and in how many rows.
    pub(crate) fn beyond(&self, standard: MatRef<'_, f64>) -> Vec<(usize, usize)> {
        self.map.range().map_or_else(Vec::new, |range| range.beyond(standard))
    }

    /// The features' weights as expected values alone need them.
    pub(crate) fn fold(&self, coefficients: &[f64]) -> Option<Vec<f64>> {
        self.map.fold(&coefficients[self.first()..])
    }

    /// Expected values at standardized inputs, in standard units, by folded weights.
    pub(crate) fn folded_means(
        &self,
        standard: MatRef<'_, f64>,
        folded: &[f64],
        coefficients: &[f64],
        par: Par,
    ) -> Vec<f64> {
        let intercept: f64 = coefficients[..self.first()].iter().sum();
        self.map.folded_sums(standard, folded, par).into_iter().map(|sum| intercept + sum).collect()
    }

    /// Whether rows have the inputs of this design, all finite.
    pub(crate) fn check(&self, inputs: MatRef<'_, f64>) -> Result<(), crate::Error> {
        let (expected, found) = (self.names.len(), inputs.ncols());
        if found != expected {
            return Err(FeatureError::InputCount { expected, found }.into());
        }
        for (column, values) in inputs.col_iter().enumerate() {
            if let Some((row, &value)) = values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
                return Err(DatasetError::NotFinite { name: self.names[column].clone(), column, row, value }.into());
            }
        }
        Ok(())
    }

    /// Prior variances of the lines' and the curve's weights, of a learnt curve.
    pub(crate) fn prior_variances(&self, model: &FittedModel) -> [f64; 2] {
        let precision = self.of_features(model.weight_precision());
        let number = self.map.range().and_then(range::Range::number).unwrap_or(0);
        [number, precision.len() - 1].map(|feature| 1.0 / precision[feature])
    }

    /// The variance of rows that the features of a learnt curve do not carry, in standard units.
    pub(crate) fn unseen_variance(&self, gaps: &[Gap], model: &FittedModel) -> Vec<f64> {
        let [line, curve] = self.prior_variances(model);
        gaps.iter().map(|gap| curve * gap.curve + line * gap.line).collect()
    }

    /// The same between rows of standardized inputs, whose columns are given: m × m; none if the features carry everything.
    pub(crate) fn unseen_covariance(
        &self,
        standard: MatRef<'_, f64>,
        columns: MatRef<'_, f64>,
        model: &FittedModel,
    ) -> Option<Mat<f64>> {
        let features = columns.subrows(self.first(), self.feature_count());
        let [curve, line] = self.map.gap_covariances(standard, features)?;
        let [of_line, of_curve] = self.prior_variances(model);
        let covariance = |i, j| of_curve * curve[(i, j)] + of_line * line[(i, j)];
        Some(Mat::from_fn(standard.nrows(), standard.nrows(), covariance))
    }

    /// Whether all parts fit together, as they do unless the design comes from a damaged file.
    pub(crate) fn is_consistent(&self) -> bool {
        let inputs = self.names.len();
        self.groups.len() == inputs
            && self.inputs.mean.len() == inputs
            && self.inputs.scale.len() == inputs
            && self.map.is_consistent(inputs)
    }
}

/// The inputs of a data set, scaled, after an intercept if there is one.
#[derive(Debug)]
struct LinearRows<'a> {
    dataset: &'a Dataset<'a>,
    inputs: Standardizer,
    /// The column of the first input.
    first: usize,
}

impl RowSource for LinearRows<'_> {
    fn column_count(&self) -> usize {
        self.first + self.dataset.input_count()
    }

    fn row_count(&self) -> usize {
        self.dataset.row_count()
    }

    fn write(&self, first: usize, columns: &[usize], mut rows: MatMut<'_, f64>) {
        let Standardizer { mean, scale } = &self.inputs;
        let is_whole = columns.len() == self.column_count();
        let columns: Vec<(usize, Option<usize>)> =
            columns.iter().map(|&column| column.checked_sub(self.first)).enumerate().collect();
        let length = rows.ncols();
        match self.dataset.by_rows() {
            Some(inputs) => {
                for (i, row) in rows_of(inputs.subrows(first, length)).enumerate() {
                    let written = contiguous(rows.as_mut().col_mut(i));
                    if is_whole {
                        written[..self.first].fill(1.0);
                        self.inputs.write_row(row, &mut written[self.first..]);
                    } else {
                        for (value, (_, input)) in written.iter_mut().zip(&columns) {
                            *value = input.map_or(1.0, |input| (row[input] - mean[input]) / scale[input]);
                        }
                    }
                }
            }
            None => {
                for (place, input) in columns {
                    let Some(input) = input else {
                        rows.as_mut().row_mut(place).fill(1.0);
                        continue;
                    };
                    let (mean, scale) = (mean[input], scale[input]);
                    let values = self.dataset.column(input).subrows(first, length);
                    let row = rows.as_mut().row_mut(place);
                    row.iter_mut().zip(values.iter()).for_each(|(row, value)| *row = (value - mean) / scale);
                }
            }
        }
    }
}

fn contiguous(column: ColMut<'_, f64>) -> &mut [f64] {
    column.try_as_col_major_mut().expect("rows of the design are contiguous").as_slice_mut()
}

/// How inputs are scaled for a kind of features, by the whole table if the data set is a sample of it, and whether some are not of unit size then: those with typing errors, without which they
/// are scaled, and levels of categories.
pub(crate) fn input_scaling(
    dataset: &Dataset<'_>,
    whole: Option<&Moments>,
    kind: FeatureKind,
    standardize: bool,
    centre: bool,
) -> Result<(Standardizer, bool), DatasetError> {
    let (standard, far) = Standardizer::of(dataset)?;
    let of_whole = |standard: Standardizer| match whole {
        Some(whole) => whole.scaling(&standard),
        None => standard,
    };
    Ok(match (standardize, centre) {
        (false, _) => (Standardizer::identity(dataset.input_count()), false),
        (true, true) if kind.scales_to_range() => {
            (whole.map_or_else(|| Standardizer::of_range(dataset), Moments::scaling_of_range), false)
        }
        (true, true) => {
            let (standard, has_typing_errors) = standard.without_typing_errors(dataset, &far);
            let standard = of_whole(standard);
            let (standard, has_levels) = standard.with_levels_alike(dataset.levels());
            (standard, has_typing_errors || has_levels)
        }
        (true, false) => (of_whole(standard).with_levels_alike(dataset.levels()).0.without_shift(), false),
    })
}
