//! Large tables: features and noise are chosen on some of the rows, and fitted to all of them once.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use super::{Best, Compared, Reason, describe, linear};
use crate::Error;
use crate::features::FeatureKind;
use crate::fitted::Fit;
use crate::work::Work;

/// Rows that a choice is made on. Gains differ by about 0.3 nats from row to row, so that their mean is known to 0.003, a third of the
/// least gain that matters.
pub(crate) const CHOICE_ROWS: usize = 10_000;

/// An error of a row that was not looked at is gross if it is so many times as large as any that was.
pub(super) const BEYOND_ALL: f64 = 2.0;

pub(super) fn best(work: &Work<'_>) -> Result<Best, Error> {
    let n = work.dataset.row_count();
    let mut rows = sample(&mut ChaCha8Rng::seed_from_u64(work.recipe.seed()), n, CHOICE_ROWS).into_vec();
    rows.sort_unstable();
    let some = work.dataset.take(&rows);
    let small = work.on(&some)?;
    let Best { candidate, compared, mut reasons, .. } = super::best(&small)?;
    let fit = &candidate.fit;
    let (small, work) = (&small.scaled_by(fit.design.target()), &work.scaled_by(fit.design.target()));
    reasons.retain(|reason| !matches!(reason, Reason::LeverageSetAside { .. } | Reason::RareErrorsSetAside { .. }));
    let all = if let FeatureKind::Smooth(kind) = fit.features {
        let (set_aside, rare) = gross_errors(work, small, fit, &work.residuals(fit)?);
        reasons.extend(rare);
        work.fit(fit.features, work.smooth_again(kind, fit)?, &fit.settings, set_aside)?
    } else if fit.features == FeatureKind::linear() {
        let residual = work.residuals(fit)?;
        let mut set_aside = linear::unconfirmed(work, small, fit)?;
        if !set_aside.is_empty() {
            reasons.push(Reason::LeverageSetAside { rows: set_aside.len() });
        }
        // Robust noise needs no help.
        if fit.model.noise().is_shared() {
            let (gross, rare) = gross_errors(work, small, fit, &residual);
            reasons.extend(rare);
            set_aside.extend(gross);
            set_aside.sort_unstable();
            set_aside.dedup();
        }
        work.fit(fit.features, work.lines_again(fit, &residual)?, &fit.settings, set_aside)?
    } else {
        work.fit(fit.features, work.learn(fit.features, fit.settings.noise)?, &fit.settings, Vec::new())?
    };
    for reason in &mut reasons {
        if let Reason::GrossErrorsSetAside { rows, .. } = reason {
            *rows = all.fit.set_aside.len();
        }
    }
    let from_some =
        |compared: Compared| Compared { learnt_from: compared.learnt_from.or(Some(CHOICE_ROWS)), ..compared };
    let mut compared: Vec<Compared> = compared.into_iter().map(from_some).collect();
    compared.push(describe(&all.fit));
    Ok(Best { candidate: all, place: compared.len() - 1, compared, reasons })
}

/// The rows of the whole table that are as far off as the rows that a curve, fitted to some of them, has set aside; if it has set none
/// aside, and beside lines, which set rows aside for their leverage, those that are much farther off than any of these. The fit leaves
/// `residual` of all rows.
fn gross_errors(work: &Work<'_>, small: &Work<'_>, fit: &Fit, residual: &[f64]) -> (Vec<usize>, Option<Reason>) {
    let (limit, has_aside) = gross_limit(small, fit);
    let is_new = |row: &usize| work.far_targets.binary_search(row).is_err();
    let found: Vec<usize> = (0..residual.len()).filter(|&row| residual[row].abs() > limit).filter(is_new).collect();
    let rare = (!has_aside && !found.is_empty()).then_some(Reason::RareErrorsSetAside { rows: found.len() });
    (found, rare)
}

/// The error beyond which rows of the whole table are set aside, and whether the fit to some of them has set any aside.
pub(crate) fn gross_limit(small: &Work<'_>, fit: &Fit) -> (f64, bool) {
    let mut errors: Vec<f64> = fit.left_out().residual.iter().map(|residual| residual.abs()).collect();
    // Typing errors are no measure.
    let silent = if fit.design.is_linear() { &fit.set_aside } else { &small.far_targets };
    silent.iter().for_each(|&row| errors[row] = 0.0);
    errors.sort_by(|a, b| b.total_cmp(a));
    let aside = (fit.set_aside.len() - silent.len()).min(errors.len() - 1);
    // As many of the rows looked at are beyond.
    (if aside > 0 { 0.5 * (errors[aside - 1] + errors[aside]) } else { BEYOND_ALL * errors[0] }, aside > 0)
}
