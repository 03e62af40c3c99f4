//! The target or a transformation of it: errors of prices, times and counts grow with them.

use robustard_engine::LeftOut;

use super::{Begun, Best, Gains, Reason, Said, begin, explained_more, finish, mean_and_error};
use crate::Error;
use crate::fitted::error_densities;
use crate::learn::normal_scores;
use crate::target::{SMALL, TargetTransform, small_size};
use crate::work::Work;

/// Of a quantity that has no sign at most this share of the values has one: wrong rows may.
const MOST_NEGATIVE: f64 = 0.1;
/// Squared errors of a transformed target may be so many times as large: sketches do not tell more.
const LARGEST_ERRORS: f64 = 1.05;
/// What is beyond doubt differs by so many standard errors.
const BEYOND_DOUBT: f64 = 2.0;
/// The largest targets of as many rows as are small are so many times as large as those, or a transformation is nearly a line.
const LEAST_RANGE: f64 = 2.0;

/// The best fit of the target, or of a transformation if errors grow with what is predicted and that is better by the density of left-out
/// rows and its errors, transformed back, are no larger: densities alone would prefer to know small targets well. A scale on which fewer
/// rows look wrong is better, too, unless density or errors speak against it: on a scale that does not suit, large targets look wrong. All
/// that is decided on lines and sketches of curves; only the better scale is fitted.
pub(super) fn best(work: &Work<'_>) -> Result<Best, Error> {
    let plain = begin(work)?;
    if work.control.is_stopped() || !has_a_range(work.dataset.target()) {
        return finish(work, plain);
    }
    let of_plain = Errors::of(work, &plain);
    if !of_plain.grow(work) {
        return finish(work, plain);
    }
    let transform = TargetTransform::Asinh;
    let transformed = work.transformed(transform)?;
    let other = begin(&transformed)?;
    // What was not finished is not compared.
    if work.control.is_stopped() {
        return finish(work, plain);
    }
    let comparison = compare(work, &of_plain.in_units(work), &Errors::of(&transformed, &other).in_units(&transformed));
    let (gain, standard_error) = comparison.gain;
    let why = if comparison.gains() {
        Some(Reason::TargetTransformed { transform, gain, standard_error })
    } else if comparison.has_clearly_fewer_wrong_rows() {
        let [plain, transformed] = comparison.wrong_rows;
        Some(Reason::FewerRowsWrongWhenTransformed { transform, plain, transformed })
    } else {
        None
    };
    let (mut best, compared, reason) = match why {
        Some(reason) => (finish(&transformed, other)?, plain.compared(work), reason),
        None => {
            let reason = Reason::TargetNotTransformed { transform, gain, standard_error };
            (finish(work, plain)?, other.compared(&transformed), reason)
        }
    };
    best.reasons.insert(0, reason);
    best.compared.extend(compared);
    Ok(best)
}

/// Whether targets are sizes, and large ones larger than small ones.
fn has_a_range(target: &[f64]) -> bool {
    let negative = target.iter().filter(|y| **y < 0.0).count() as f64;
    let Some(small) = small_size(target) else { return false };
    let large = target.iter().filter(|y| y.abs() > LEAST_RANGE * small).count() as f64;
    let rows = target.len() as f64;
    negative <= MOST_NEGATIVE * rows && large > SMALL * rows
}

/// Errors of left-out rows by the better of lines and the sketch of a curve.
struct Errors {
    /// In standard units.
    left_out: LeftOut,
    inlier: f64,
    is_wrong: Vec<bool>,
}

impl Errors {
    fn of(work: &Work<'_>, Begun { lines, curve }: &Begun) -> Self {
        let fit = &lines.candidate.fit;
        if let Ok(sketched) = curve {
            let (sketch, wrong) = sketched.chosen();
            let said = Said { left_out: &sketch.left_out, inlier: sketch.start.noise.variance(0.0) };
            let inlier = said.inlier;
            if Gains::of(work, fit, said, &wrong).gain > 0.0 {
                let mut is_wrong = vec![false; sketch.left_out.residual.len()];
                wrong.into_iter().chain(work.far_targets.clone()).for_each(|row| is_wrong[row] = true);
                return Self { left_out: sketch.left_out.clone(), inlier, is_wrong };
            }
        }
        let diagnostics = fit.diagnostics();
        // Robust noise sets none aside, but knows them.
        let is_wrong = if fit.model.noise().is_shared() { &diagnostics.set_aside } else { &diagnostics.flagged };
        Self { left_out: fit.left_out(), inlier: fit.model.inlier_variance(), is_wrong: is_wrong.clone() }
    }

    /// Whether they are larger where more is predicted, by their rank correlation: not by chance, and so that it matters.
    fn grow(&self, work: &Work<'_>) -> bool {
        const STANDARD_ERRORS: f64 = 2.0;
        const LEAST: f64 = 0.1;
        let residual = &self.left_out.residual;
        let kept: Vec<usize> = (0..residual.len()).filter(|&row| !self.is_wrong[row]).collect();
        let sizes: Vec<f64> = kept.iter().map(|&row| residual[row].abs()).collect();
        let predicted: Vec<f64> = kept.iter().map(|&row| work.standard_target()[row] - residual[row]).collect();
        let [sizes, predicted] = [sizes, predicted].map(|values| normal_scores(&values));
        let n = kept.len() as f64;
        let correlation = sizes.iter().zip(predicted).map(|(a, b)| a * b).sum::<f64>() / n;
        correlation > (STANDARD_ERRORS / n.sqrt()).max(LEAST)
    }

    fn in_units(&self, work: &Work<'_>) -> InUnits {
        let (scale, standard, mut say) = (work.scale(), work.standard_target(), work.say());
        let densities = error_densities(&self.left_out, &say, self.inlier, work.least_variance());
        let densities = standard.iter().zip(densities).map(|(y, density)| scale.log_density_at(*y, density)).collect();
        say.iter_mut().zip(&self.is_wrong).filter(|(_, wrong)| **wrong).for_each(|(say, _)| *say = 0.0);
        let scale =
            scale.with_range(standard.iter().copied().zip(say.iter().map(|say| f64::from(u8::from(*say > 0.0)))));
        let scale = scale.with_errors(self.left_out.residual.iter().copied().zip(say));
        let errors = standard.iter().zip(&self.left_out.residual).map(|(y, residual)| scale.error(*y, *residual));
        InUnits { densities, errors: errors.collect(), is_wrong: self.is_wrong.clone() }
    }
}

/// Errors in the target's units.
struct InUnits {
    /// Log densities of the targets under the noise that explains the errors best.
    densities: Vec<f64>,
    /// Errors of predictions that are means.
    errors: Vec<f64>,
    is_wrong: Vec<bool>,
}

/// A transformed target beside the target itself.
struct Comparison {
    /// In log density per left-out row, and its standard error.
    gain: (f64, f64),
    /// What it explains more of the target, per row, and the standard error.
    more: (f64, f64),
    /// Sum of its squared errors, transformed back, over that of the target's own.
    squares: f64,
    /// How many rows look wrong with the target as it is, and transformed.
    wrong_rows: [usize; 2],
    /// Rows that look wrong with one of them only, in the same order.
    wrong_once: [usize; 2],
}

impl Comparison {
    /// Whether densities are better, and errors no larger, not because the fit gives in to wrong rows.
    fn gains(&self) -> bool {
        let ((gain, of_gain), (more, of_more)) = (self.gain, self.more);
        gain > of_gain && self.squares <= LARGEST_ERRORS && more >= -of_more
    }

    /// Whether fewer rows look wrong, by a sign test, and neither densities nor errors speak against it.
    fn has_clearly_fewer_wrong_rows(&self) -> bool {
        let [plain, transformed] = self.wrong_once.map(|count| count as f64);
        let is_no_worse = |(value, error): (f64, f64)| value > -BEYOND_DOUBT * error;
        plain - transformed > BEYOND_DOUBT * (plain + transformed).sqrt()
            && is_no_worse(self.gain)
            && is_no_worse(self.more)
    }
}

fn compare(work: &Work<'_>, plain: &InUnits, other: &InUnits) -> Comparison {
    // Rows that are wrong for one fit only may be right: with the same noise for all, large errors are taken for wrong ones.
    let both: Vec<[bool; 2]> =
        plain.is_wrong.iter().copied().zip(other.is_wrong.iter().copied()).map(Into::into).collect();
    let is_wrong: Vec<bool> = both.iter().map(|both| *both == [true, true]).collect();
    let gains = other.densities.iter().zip(&plain.densities).zip(&is_wrong).filter(|(_, wrong)| !**wrong);
    let gains: Vec<f64> = gains.map(|((other, plain), _)| other - plain).collect();
    let mut say = work.say();
    say.iter_mut().zip(&is_wrong).filter(|(_, wrong)| **wrong).for_each(|(say, _)| *say = 0.0);
    let squares = |errors: &[f64]| errors.iter().zip(&say).map(|(error, say)| say * error * error).sum::<f64>();
    let count = |wanted: &dyn Fn(&[bool; 2]) -> bool| both.iter().filter(|both| wanted(both)).count();
    Comparison {
        gain: mean_and_error(&gains),
        more: explained_more(work.dataset.target(), &say, [&other.errors, &plain.errors]),
        squares: squares(&other.errors) / squares(&plain.errors),
        wrong_rows: [count(&|both| both[0]), count(&|both| both[1])],
        wrong_once: [count(&|both| *both == [true, false]), count(&|both| *both == [false, true])],
    }
}
