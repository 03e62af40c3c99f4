//! The target or a transformation of it: errors of prices, times and counts grow with them.

use super::{Best, Reason, explained_more, mean_and_error, on_this_scale};
use crate::Error;
use crate::fitted::Fit;
use crate::learn::normal_scores;
use crate::target::{SMALL, TargetTransform, small_size};
use crate::work::Work;

/// Of a quantity that has no sign at most this share of the values has one: wrong rows may.
const MOST_NEGATIVE: f64 = 0.1;
/// The largest targets of as many rows as are small are so many times as large as those, or a transformation is nearly a line.
const LEAST_RANGE: f64 = 2.0;

/// The best fit of the target, or of a transformation if errors grow with what is predicted and that is better by the density of left-out
/// rows and its errors, transformed back, are no larger: densities alone would prefer to know small targets well.
pub(super) fn best(work: &Work<'_>) -> Result<Best, Error> {
    let mut plain = on_this_scale(work)?;
    if work.control.is_stopped() || !has_a_range(work.dataset.target()) || !errors_grow(work, &plain.candidate.fit) {
        return Ok(plain);
    }
    let transform = TargetTransform::Asinh;
    let mut other = on_this_scale(&work.transformed(transform)?)?;
    // What was not finished is not compared.
    if work.control.is_stopped() {
        return Ok(plain);
    }
    let Comparison { gain: (gain, standard_error), has_no_larger_errors } =
        compare(work, &plain.candidate.fit, &other.candidate.fit);
    if gain > standard_error && has_no_larger_errors {
        other.reasons.insert(0, Reason::TargetTransformed { transform, gain, standard_error });
        other.place += plain.compared.len();
        other.compared.splice(0..0, plain.compared);
        Ok(other)
    } else {
        plain.reasons.push(Reason::TargetNotTransformed { transform, gain, standard_error });
        plain.compared.extend(other.compared);
        Ok(plain)
    }
}

/// Whether targets are sizes, and large ones larger than small ones.
fn has_a_range(target: &[f64]) -> bool {
    let negative = target.iter().filter(|y| **y < 0.0).count() as f64;
    let Some(small) = small_size(target) else { return false };
    let large = target.iter().filter(|y| y.abs() > LEAST_RANGE * small).count() as f64;
    let rows = target.len() as f64;
    negative <= MOST_NEGATIVE * rows && large > SMALL * rows
}

/// Whether errors of left-out rows are larger where more is predicted, by their rank correlation: not by chance, and so that it matters.
fn errors_grow(work: &Work<'_>, fit: &Fit) -> bool {
    const STANDARD_ERRORS: f64 = 2.0;
    const LEAST: f64 = 0.1;
    let residual = fit.left_out().residual;
    let is_wrong = wrong_rows(fit);
    let kept: Vec<usize> = (0..residual.len()).filter(|&row| !is_wrong[row]).collect();
    let sizes: Vec<f64> = kept.iter().map(|&row| residual[row].abs()).collect();
    let predicted: Vec<f64> = kept.iter().map(|&row| work.standard_target()[row] - residual[row]).collect();
    let [sizes, predicted] = [sizes, predicted].map(|values| normal_scores(&values));
    let n = kept.len() as f64;
    let correlation = sizes.iter().zip(predicted).map(|(a, b)| a * b).sum::<f64>() / n;
    correlation > (STANDARD_ERRORS / n.sqrt()).max(LEAST)
}

/// A fit to the transformed target beside one to the target itself.
struct Comparison {
    /// In log density per left-out row, and its standard error.
    gain: (f64, f64),
    /// Whether its errors, transformed back, are no larger, and not because it gives in to wrong rows.
    has_no_larger_errors: bool,
}

fn compare(work: &Work<'_>, plain: &Fit, other: &Fit) -> Comparison {
    let densities = |fit: &Fit| -> Vec<f64> {
        let (scale, rows) = (fit.design.target(), fit.model.rows());
        let densities = rows.target.iter().zip(fit.left_out_densities());
        densities.map(|(y, density)| scale.log_density_at(*y, density)).collect()
    };
    let gains: Vec<f64> = densities(other).iter().zip(densities(plain)).map(|(other, plain)| other - plain).collect();
    // Rows that are wrong for one fit only may be right: with the same noise for all, large errors are taken for wrong ones.
    let mut say = work.say();
    let wrong = [plain, other].map(wrong_rows);
    (0..say.len()).filter(|&row| wrong[0][row] && wrong[1][row]).for_each(|row| say[row] = 0.0);
    let errors = [other, plain].map(|fit| fit.diagnostics().loo_residual.as_slice());
    let (more, standard_error) = explained_more(work.dataset.target(), &say, errors);
    let squares = |errors: &[f64]| errors.iter().zip(&say).map(|(error, say)| say * error * error).sum::<f64>();
    let has_no_larger_errors = squares(errors[0]) <= squares(errors[1]) && more >= -standard_error;
    Comparison { gain: mean_and_error(&gains), has_no_larger_errors }
}

/// The rows that are wrong for a fit: robust noise sets none aside, but knows them.
fn wrong_rows(fit: &Fit) -> Vec<bool> {
    let diagnostics = fit.diagnostics();
    if fit.model.noise().is_shared() { diagnostics.set_aside.clone() } else { diagnostics.flagged.clone() }
}
