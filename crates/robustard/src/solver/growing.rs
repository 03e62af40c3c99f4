//! A start by growth: few columns in use, chosen by their evidence, instead of all. From there on it is EM.

use faer::{Mat, Par};

use super::safeguard::Limits;
use super::{CheckedSettings, Stop};
use crate::learn::{Grown, Growth, LearningNoise, grow_whole};
use crate::noise::{NoiseKind, NoiseModel, NoisePrior};
use crate::posterior::sweep::Sweep;
use crate::problem::{NaturalUnits, Problem};
use crate::state::State;

/// Up to so many columns, all inner products are formed at once if the noise is shared.
const MOST_WHOLE_COLUMNS: usize = 4096;

/// The groups in use and the state of all. None where columns share precisions, or nothing could be computed: the fit then starts
/// with all columns.
pub(super) fn start(
    problem: &Problem,
    settings: &CheckedSettings,
    limits: &Limits,
    state: &State,
    par: Par,
) -> Option<(Vec<bool>, State)> {
    let groups = problem.groups();
    if groups.size().iter().any(|size| *size != 1) {
        return None;
    }
    let units = problem.natural_units();
    let is_whole = settings.noise == NoiseKind::Shared && problem.column_count() <= MOST_WHOLE_COLUMNS;
    let grown = if is_whole { grow_at_once(problem, &units, par)? } else { grow(problem, settings, &units, par)? };
    let mut is_active: Vec<bool> = (0..groups.count()).map(|group| groups.fixed(group).is_some()).collect();
    let mut state = state.clone();
    for (&column, precision) in grown.columns.iter().zip(&grown.weight_precision) {
        let group = groups.of_column()[column];
        let [low, high] = limits.weight_precision[group];
        is_active[group] = true;
        state.weight_precision[group] = (precision * units.weight_precision[group]).clamp(low, high);
    }
    if !is_active.contains(&true) {
        // A problem has at least one column.
        is_active[0] = true;
    }
    let [low, high] = limits.noise_variance;
    if settings.noise == NoiseKind::Shared || !has_given_scale(settings.noise_prior) {
        // Given parameters are those of the state as it is.
        state.noise = grown.noise;
        state.noise.rescale(units.noise_variance);
    }
    if let NoiseModel::Shared { variance } = &mut state.noise {
        *variance = variance.clamp(low, high);
    }
    let variances = grown.noise_variance.iter().map(|variance| (variance * units.noise_variance).clamp(low, high));
    state.noise_variance = variances.collect();
    super::safeguard::confine(&mut state);
    Some((is_active, state))
}

fn has_given_scale(prior: NoisePrior) -> bool {
    matches!(prior, NoisePrior::InverseGamma { .. })
}

/// What the columns and the target are multiplied by to be of unit size.
fn scales(problem: &Problem, units: &NaturalUnits) -> (Vec<f64>, f64) {
    let target = units.noise_variance.sqrt().recip();
    let of_column = problem.groups().of_column().iter();
    (of_column.map(|&group| units.weight_precision[group].sqrt().recip() * target).collect(), target)
}

/// The prior for a target of unit size: a given scale is in units of the squared target.
fn scaled(prior: NoisePrior, units: &NaturalUnits) -> NoisePrior {
    match prior {
        NoisePrior::InverseGamma { shape, scale } => {
            NoisePrior::InverseGamma { shape, scale: scale / units.noise_variance }
        }
        other => other,
    }
}

fn fixed_precisions(problem: &Problem, units: &NaturalUnits) -> Vec<Option<f64>> {
    let groups = problem.groups();
    let of_column = groups.of_column().iter();
    of_column.map(|&group| groups.fixed(group).map(|precision| precision / units.weight_precision[group])).collect()
}

fn grow_at_once(problem: &Problem, units: &NaturalUnits, par: Par) -> Option<Grown> {
    let d = problem.column_count();
    let (columns, target) = scales(problem, units);
    let (mut gram, mut projection) = (Mat::zeros(d, d), vec![0.0; d]);
    let mut sweep = Sweep::new(problem.row_count(), d, par);
    sweep.gram(problem.rows(), problem.row_weight(), problem.target(), &mut gram, &mut projection);
    for j in 0..d {
        for i in j..d {
            gram[(i, j)] *= columns[i] * columns[j];
            gram[(j, i)] = gram[(i, j)];
        }
        projection[j] *= columns[j] * target;
    }
    let squares = problem.target().iter().zip(problem.row_weight());
    let target_square = squares.map(|(y, w)| w * (target * y).powi(2)).sum();
    let fixed = fixed_precisions(problem, units);
    let weight_sum = problem.row_weight().iter().sum();
    let (places, precisions, variance) = grow_whole(gram, projection, target_square, &fixed, weight_sum, par)?;
    let learnt = places.into_iter().zip(precisions).filter(|(column, _)| fixed[*column].is_none());
    let (columns, weight_precision) = learnt.unzip();
    let noise_variance = vec![variance; problem.row_count()];
    Some(Grown { columns, weight_precision, noise: NoiseModel::Shared { variance }, noise_variance })
}

fn grow(problem: &Problem, settings: &CheckedSettings, units: &NaturalUnits, par: Par) -> Option<Grown> {
    let n = problem.row_count();
    let (scale, target_scale) = scales(problem, units);
    let columns = |of: &[usize]| Mat::from_fn(n, of.len(), |i, k| scale[of[k]] * problem.rows()[(of[k], i)]);
    let fixed = fixed_precisions(problem, units);
    let (kept, order): (Vec<usize>, Vec<usize>) = (0..problem.column_count()).partition(|&j| fixed[j].is_some());
    let target: Vec<f64> = problem.target().iter().map(|y| target_scale * y).collect();
    let growth = Growth {
        columns: &columns,
        order: &order,
        target: &target,
        row_weight: problem.row_weight(),
        fixed: columns(&kept),
        fixed_precision: fixed.iter().flatten().copied().collect(),
        noise: LearningNoise { kind: settings.noise, prior: scaled(settings.noise_prior, units) },
        stop: Stop::default(),
        par,
    };
    growth.grow(None)
}
