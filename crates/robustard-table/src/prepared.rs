//! A table made ready to be fitted: rows that have all values, as numbers, standardized.

use std::collections::HashMap;

use robustard::faer::Mat;
use robustard::features::{
    Basis, Effort, FeatureKind, FeatureMap, FeatureOptions, Gap, LearntSmooth, Smooth, SmoothOptions, Training,
};
use robustard::problem::check_row_weights;
use robustard::solver::{PathRecorder, Paths, Start};
use robustard::{FittedModel, Iteration, NoiseKind, NoisePrior, Observer, Problem, Stop, fit_from};

use crate::encode::{Encoded, Encoder};
use crate::error::TableError;
use crate::regression::{Fingerprint, Fitted, Quality, Regression, RegressionError, RegressionOptions, TargetScale};
use crate::table::Table;

/// How much rows that are set aside count.
const SET_ASIDE: f64 = 1e-8;

/// A table ready to be fitted, as often as wanted.
pub(crate) struct Prepared {
    encoder: Encoder,
    observed: Observed,
    scale: TargetScale,
    /// The target, standardized.
    standard: Vec<f64>,
    row_weight: Vec<f64>,
    /// How many rows have the same inputs and target, each row itself included.
    copies: Vec<usize>,
    /// Asks to end the learning of features.
    stop: Stop,
}

impl Prepared {
    pub fn new(table: &Table, options: &RegressionOptions, stop: Stop) -> Result<Self, RegressionError> {
        let encoder = Encoder::fit(table, &options.encode)?;
        let observed = Observed::of(&encoder, table)?;
        if observed.rows.is_empty() {
            return Err(TableError::AllDropped.into());
        }
        let row_weight = observed.weight.clone().unwrap_or_else(|| vec![1.0; observed.rows.len()]);
        // Before anything is learnt from them.
        check_row_weights(&row_weight)?;
        let scale = TargetScale::of(&observed.target, &row_weight, options.intercept);
        let standard = observed.target.iter().map(|y| (y - scale.mean) / scale.deviation).collect();
        let copies = count_copies(&observed);
        Ok(Self { encoder, observed, scale, standard, row_weight, copies, stop })
    }

    /// The inputs of the rows.
    pub fn inputs(&self) -> &Mat<f64> {
        &self.observed.inputs
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.standard.len()
    }

    /// Number of rows that are not copies of others.
    pub fn distinct_rows(&self) -> usize {
        self.copies.iter().map(|copies| 1.0 / *copies as f64).sum::<f64>().round() as usize
    }

    /// Standard deviation of the target.
    pub fn deviation(&self) -> f64 {
        self.scale.deviation
    }

    /// How often each row counts when some are set aside. For a learnt curve, copies of a row count as one row together and
    /// weights are relative to their mean: a curve would take the agreement of a row with itself for the absence of noise.
    fn weights(&self, set_aside: &[usize], is_curve: bool) -> Vec<f64> {
        let mut weights = self.row_weight.clone();
        if is_curve {
            weights.iter_mut().zip(&self.copies).for_each(|(weight, copies)| *weight /= *copies as f64);
            let copies: f64 = self.copies.iter().map(|copies| 1.0 / *copies as f64).sum();
            let mean = weights.iter().sum::<f64>() / copies;
            weights.iter_mut().for_each(|weight| *weight /= mean);
        }
        set_aside.iter().for_each(|&row| weights[row] *= SET_ASIDE);
        weights
    }

    /// The rows that have copies, unless most have: leaving one out does not take it away.
    pub fn copied_rows(&self) -> Vec<usize> {
        let copied: Vec<usize> = (0..self.len()).filter(|&row| self.copies[row] > 1).collect();
        if 2 * copied.len() > self.len() { Vec::new() } else { copied }
    }

    /// Whether the target has two values only, or one value in most rows: noise with outliers would take the rest for wrong.
    pub fn target_is_lumpy(&self) -> bool {
        let mut sorted = self.standard.clone();
        sorted.sort_by(f64::total_cmp);
        let runs: Vec<usize> = sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).collect();
        runs.len() <= 2 || runs.iter().any(|run| 2 * run > sorted.len())
    }

    /// The features that the options say.
    pub fn learn_features(&self, options: &RegressionOptions) -> Result<(FeatureMap, Option<Start>), RegressionError> {
        let is_kernel = matches!(options.features.kind, FeatureKind::Kernel { .. });
        let training = Training {
            target: &self.standard,
            // Kernel functions look after copies themselves.
            row_weight: &self.weights(&[], options.features.learns_lengthscales() && !is_kernel),
            noise: options.settings.noise,
            noise_prior: options.settings.noise_prior,
            stop: &self.stop,
        };
        Ok(FeatureMap::fit(self.observed.inputs.as_ref(), &self.row_weight, &training, &options.features)?)
    }

    /// A smooth curve, learnt with the given noise and without the rows set aside; a sketch only if it is better than lines.
    pub fn learn_smooth(
        &self,
        features: &FeatureOptions,
        (noise, noise_prior): (NoiseKind, NoisePrior),
        set_aside: &[usize],
        must_bend: bool,
        effort: Effort,
        from: Option<&LearntSmooth>,
    ) -> Result<LearntSmooth, RegressionError> {
        let centres = if let FeatureKind::Smooth { centres } = features.kind { centres } else { None };
        let inputs = self.observed.inputs.as_ref();
        let scaled = features.standardizer(inputs, &self.row_weight).transform(inputs)?;
        let row_weight = self.weights(set_aside, true);
        let training =
            Training { target: &self.standard, row_weight: &row_weight, noise, noise_prior, stop: &self.stop };
        let options = SmoothOptions { centres, seed: features.seed, must_bend, effort, from };
        Ok(Smooth::learn(scaled.as_ref(), &training, &options)?)
    }

    /// The map of a learnt curve.
    pub fn smooth_map(&self, features: &FeatureOptions, smooth: Smooth) -> FeatureMap {
        let inputs = features.standardizer(self.observed.inputs.as_ref(), &self.row_weight);
        FeatureMap { inputs, basis: Basis::Smooth(smooth) }
    }

    /// Fits the features, from `start` on if there is one, without the rows set aside.
    pub fn fit<O: Observer + Send>(
        &self,
        features: FeatureMap,
        mut start: Option<Start>,
        options: &RegressionOptions,
        set_aside: Option<Vec<usize>>,
        observer: &mut O,
    ) -> Result<Fitted, RegressionError> {
        let Observed { inputs, rows, target, notes, .. } = &self.observed;
        let set_aside = set_aside.unwrap_or_default();
        let transformed = features.transform(inputs.as_ref())?;
        let gaps = features.gaps(inputs.as_ref(), transformed.as_ref())?;
        let design = with_intercept(transformed, options.intercept);
        let mut problem = Problem::new(design.as_ref(), &self.standard)?;
        let is_curve = gaps.is_some();
        let row_weight = self.weights(&set_aside, is_curve);
        if row_weight.iter().any(|weight| *weight != 1.0) {
            problem = problem.with_row_weights(&row_weight)?;
        }
        let first = usize::from(options.intercept);
        let groups = features.groups(&self.encoder.groups());
        let mut labels: Vec<usize> = groups.iter().map(|group| group + first).collect();
        if options.intercept {
            labels.insert(0, 0);
        }
        problem = problem.with_groups(&labels)?;
        if options.intercept {
            problem = problem.with_unshrunk(0)?;
        }
        let mut recorder = PathRecorder::new(problem.groups().count(), problem.row_count());
        let mut both = |iteration: &Iteration<'_>| {
            recorder.record(iteration);
            observer.iteration(iteration)
        };
        if let Some(start) = start.as_mut().filter(|_| options.intercept) {
            // The intercept's group, whose precision is fixed, comes first.
            start.weight_precision.insert(0, 1.0);
        }
        let mut model = fit_from(&problem, &options.settings, start.as_ref(), &mut both)?;
        if let Some(gaps) = gaps {
            let mut weight = model.rows.weight.clone();
            self.copied_rows().iter().for_each(|&row| weight[row] = 0.0);
            model.calibrate(&gap_variances(&gaps, &model, options.intercept), &weight);
        }
        let regression = Regression {
            fingerprint: Fingerprint::of(inputs, target),
            quality: Quality::of(&model, self.scale),
            paths: select_paths(&recorder, &model, problem.groups().of_column()),
            options: options.clone(),
            choice: None,
            set_aside,
            target: self.scale,
            encoder: self.encoder.clone(),
            features,
            model,
            rows: rows.clone(),
        };
        Ok(Fitted { regression, notes: notes.clone() })
    }
}

/// How many rows are equal to each row, bit by bit. Rows are told apart by a hash first.
fn count_copies(observed: &Observed) -> Vec<usize> {
    /// An odd number without a pattern, to spread bits by multiplication.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let n = observed.target.len();
    let mut hashes = vec![0u64; n];
    let mut add = |values: &mut dyn Iterator<Item = f64>| {
        for (hash, value) in hashes.iter_mut().zip(values) {
            *hash = (hash.rotate_left(29) ^ value.to_bits()).wrapping_mul(SPREAD);
        }
    };
    observed.inputs.col_iter().for_each(|column| add(&mut column.iter().copied()));
    add(&mut observed.target.iter().copied());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&row| hashes[row]);
    let key = |row: usize| -> Vec<u64> {
        let inputs = observed.inputs.row(row).iter().map(|value| value.to_bits());
        inputs.chain([observed.target[row].to_bits()]).collect()
    };
    let mut copies = vec![1; n];
    for alike in order.chunk_by(|a, b| hashes[*a] == hashes[*b]).filter(|alike| alike.len() > 1) {
        let mut counts: HashMap<Vec<u64>, usize> = HashMap::new();
        alike.iter().for_each(|&row| *counts.entry(key(row)).or_default() += 1);
        alike.iter().for_each(|&row| copies[row] = counts[&key(row)]);
    }
    copies
}

/// Prior variances of the lines' and the curve's weights, of a learnt curve.
pub(crate) fn prior_variances(model: &FittedModel, intercept: bool) -> [f64; 2] {
    let precision = &model.weight_precision;
    [usize::from(intercept), precision.len() - 1].map(|column| 1.0 / precision[column])
}

/// The variance of rows that the features of a learnt curve do not carry.
pub(crate) fn gap_variances(gaps: &[Gap], model: &FittedModel, intercept: bool) -> Vec<f64> {
    let [line, curve] = prior_variances(model, intercept);
    gaps.iter().map(|gap| curve * gap.curve + line * gap.line).collect()
}

/// Paths of the most relevant features, of the most suspicious rows and of evenly spaced others.
fn select_paths(recorder: &PathRecorder, model: &FittedModel, group_of_column: &[usize]) -> Paths {
    const MOST_FEATURES: usize = 40;
    const SUSPICIOUS_ROWS: usize = 30;
    const OTHER_ROWS: usize = 70;
    let mut columns: Vec<usize> =
        (0..group_of_column.len()).filter(|column| !model.fixed_columns.contains(column)).collect();
    columns.sort_by(|&a, &b| model.weight_precision[a].total_cmp(&model.weight_precision[b]));
    let mut groups: Vec<usize> = Vec::new();
    for group in columns.iter().map(|&column| group_of_column[column]) {
        if groups.len() < MOST_FEATURES && !groups.contains(&group) {
            groups.push(group);
        }
    }
    let watched: Vec<usize> = model.diagnose().ranking().into_iter().filter(|&row| recorder.is_watched(row)).collect();
    let (suspicious, others) = watched.split_at(SUSPICIOUS_ROWS.min(watched.len()));
    let step = others.len().div_ceil(OTHER_ROWS).max(1);
    let rows: Vec<usize> = suspicious.iter().chain(others.iter().step_by(step)).copied().collect();
    recorder.paths(&groups, &rows)
}

/// The rows of a table that can be fitted.
pub(crate) struct Observed {
    pub inputs: Mat<f64>,
    pub rows: Vec<usize>,
    pub target: Vec<f64>,
    pub weight: Option<Vec<f64>>,
    pub notes: Vec<String>,
}

impl Observed {
    pub fn of(encoder: &Encoder, table: &Table) -> Result<Self, TableError> {
        let target = table.role(&encoder.target, "the target")?;
        require(encoder, &encoder.target, &target, "target")?;
        let mut required = vec![target];
        if let Some(name) = &encoder.weights {
            let weights = table.role(name, "weights")?;
            require(encoder, name, &weights, "weight")?;
            required.push(weights);
        }
        let columns: Vec<&[f64]> = required.iter().map(Vec::as_slice).collect();
        let Encoded { mut inputs, mut rows, mut notes } = encoder.encode(table, &columns)?;
        if let Some(weights) = required.get(1).filter(|weights| rows.iter().any(|&row| weights[row] == 0.0)) {
            let counting: Vec<usize> = (0..rows.len()).filter(|&k| weights[rows[k]] != 0.0).collect();
            notes.push(format!("{} rows of weight 0 are left out", rows.len() - counting.len()));
            inputs = Mat::from_fn(counting.len(), inputs.ncols(), |i, j| inputs[(counting[i], j)]);
            rows = counting.iter().map(|&k| rows[k]).collect();
        }
        let kept = |values: &Vec<f64>| -> Vec<f64> { rows.iter().map(|&row| values[row]).collect() };
        Ok(Self { target: kept(&required[0]), weight: required.get(1).map(kept), inputs, rows, notes })
    }
}

/// Missing targets or weights can only be dropped.
fn require(encoder: &Encoder, name: &str, values: &[f64], role: &'static str) -> Result<(), TableError> {
    match values.iter().position(|value| value.is_nan()) {
        Some(row) if encoder.missing != crate::encode::Missing::Drop => {
            Err(TableError::MissingRole { column: name.to_owned(), row, role })
        }
        _ => Ok(()),
    }
}

pub(crate) fn with_intercept(features: Mat<f64>, intercept: bool) -> Mat<f64> {
    if !intercept {
        return features;
    }
    let mut design = Mat::zeros(features.nrows(), features.ncols() + 1);
    design.as_mut().col_mut(0).fill(1.0);
    design.as_mut().subcols_mut(1, features.ncols()).copy_from(features);
    design
}
