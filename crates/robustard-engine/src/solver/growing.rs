//! A start by growth: few columns in use, chosen by their evidence, instead of all. From there on it is EM.

use std::sync::Arc;

use faer::{Mat, Par};

use super::CheckedSettings;
use super::safeguard::Limits;
use crate::growth::{Grown, Growth, grow_whole};
use crate::noise::{Noise, NoiseModel, Shared};
use crate::posterior::InnerProducts;
use crate::problem::{NaturalUnits, Problem};
use crate::state::State;
use crate::stop::Stop;

/// Up to so many columns, all inner products are formed at once if the noise is shared.
const MOST_WHOLE_COLUMNS: usize = 4096;

/// Where a fit starts that has grown.
pub(super) struct GrownStart {
    /// The groups in use.
    pub is_active: Vec<bool>,
    /// The state of all groups.
    pub state: State,
    /// Inner products of all columns, if they were formed.
    pub products: Option<Arc<InnerProducts>>,
}

/// Grows, each column its own group. None where nothing could be computed: the fit then starts with all columns.
pub(super) fn start(
    problem: &Problem,
    settings: &CheckedSettings,
    limits: &Limits,
    state: &State,
    stop: &Stop,
    par: Par,
) -> Option<GrownStart> {
    let groups = problem.groups();
    let units = problem.natural_units();
    let is_whole = settings.noise.is_shared() && problem.column_count() <= MOST_WHOLE_COLUMNS;
    let products = is_whole.then(|| Arc::new(InnerProducts::new(problem, par)));
    let grown = match &products {
        Some(products) => grow_at_once(problem, products, &units, stop, par)?,
        None => grow(problem, settings, &units, stop, par)?,
    };
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
    if !has_given_scale(settings.noise) {
        // Given parameters are those of the state as it is.
        state.noise = grown.noise;
        state.noise.rescale(units.noise_variance);
    }
    if let NoiseModel::Shared(Shared { variance }) = &mut state.noise {
        *variance = variance.clamp(low, high);
    }
    // One per row, or one for all.
    for (variance, grown) in state.noise_variance.iter_mut().zip(&grown.noise_variance) {
        *variance = (grown * units.noise_variance).clamp(low, high);
    }
    super::safeguard::confine(&mut state);
    Some(GrownStart { is_active, state, products })
}

fn has_given_scale(noise: Noise) -> bool {
    matches!(noise, Noise::InverseGamma { .. })
}

/// What the columns and the target are multiplied by to be of unit size.
fn scales(problem: &Problem, units: &NaturalUnits) -> (Vec<f64>, f64) {
    let target = units.noise_variance.sqrt().recip();
    let of_column = problem.groups().of_column().iter();
    (of_column.map(|&group| units.weight_precision[group].sqrt().recip() * target).collect(), target)
}

/// The noise for a target of unit size: a given scale is in units of the squared target.
fn scaled(noise: Noise, units: &NaturalUnits) -> Noise {
    match noise {
        Noise::InverseGamma { shape, scale } => Noise::InverseGamma { shape, scale: scale / units.noise_variance },
        other => other,
    }
}

fn fixed_precisions(problem: &Problem, units: &NaturalUnits) -> Vec<Option<f64>> {
    let groups = problem.groups();
    let of_column = groups.of_column().iter();
    of_column.map(|&group| groups.fixed(group).map(|precision| precision / units.weight_precision[group])).collect()
}

fn grow_at_once(
    problem: &Problem,
    products: &InnerProducts,
    units: &NaturalUnits,
    stop: &Stop,
    par: Par,
) -> Option<Grown> {
    let d = problem.column_count();
    let (columns, target) = scales(problem, units);
    let gram = Mat::from_fn(d, d, |i, j| products.between(i, j) * (columns[i] * columns[j]));
    let projection = (0..d).map(|j| products.with_target(j) * (columns[j] * target)).collect();
    let squares = problem.target().iter().zip(problem.row_weight());
    let target_square = squares.map(|(y, w)| w * (target * y).powi(2)).sum();
    let fixed = fixed_precisions(problem, units);
    let weight_sum = problem.row_weight().iter().sum();
    let (places, precisions, variance) = grow_whole(gram, projection, target_square, &fixed, weight_sum, stop, par)?;
    let learnt = places.into_iter().zip(precisions).filter(|(column, _)| fixed[*column].is_none());
    let (columns, weight_precision) = learnt.unzip();
    Some(Grown { columns, weight_precision, noise: NoiseModel::shared(variance), noise_variance: vec![variance] })
}

fn grow(problem: &Problem, settings: &CheckedSettings, units: &NaturalUnits, stop: &Stop, par: Par) -> Option<Grown> {
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
        noise: scaled(settings.noise, units),
        stop: stop.clone(),
        par,
    };
    growth.grow(None)
}
