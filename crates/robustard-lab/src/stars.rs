//! The star cluster CYG OB1 (Rousseeuw & Leroy, 1987): four giants of high leverage pull the line to the wrong sign (the paper's
//! Figure 7).

use faer::Mat;
use robustard::engine::{FittedModel, Problem, fit};
use robustard::{Preset, Settings, Standardizer};
use robustard_table::samples::{GIANTS, STARS, pairs};

use crate::LabError;
use crate::runner::LAST_MEASURE;
use crate::trial::Measures;

const ITERATIONS: usize = 3000;

/// Logarithms of temperature and light, standardized over the rows used.
#[derive(Debug, Clone)]
pub struct Stars {
    /// Temperature and light as in the table.
    pub raw: Vec<(f64, f64)>,
    /// Their means and standard deviations.
    pub scale: Standardizer,
    problem: Problem<'static>,
}

impl Stars {
    /// With or without the giants.
    pub fn new(with_giants: bool) -> Result<Self, LabError> {
        let all = pairs(STARS);
        let is_used = |row: &usize| with_giants || !GIANTS.contains(row);
        let raw: Vec<(f64, f64)> = (0..all.len()).filter(is_used).map(|row| all[row]).collect();
        let table = Mat::from_fn(raw.len(), 2, |i, j| if j == 0 { raw[i].0 } else { raw[i].1 });
        let scale = Standardizer::fit(table.as_ref());
        let standard = scale.transform(table.as_ref());
        let light: Vec<f64> = standard.col(1).iter().copied().collect();
        let design = Mat::from_fn(raw.len(), 2, |i, j| if j == 0 { 1.0 } else { standard[(i, 0)] });
        // Neither weight is shrunk: there is only one feature, and its sign is the question.
        let problem = Problem::new(design.as_ref(), &light)?.with_unshrunk(0)?.with_unshrunk(1)?;
        Ok(Self { raw, scale, problem })
    }

    /// EM with the paper's recipe, with the studentized noise update of a power or the plain one.
    pub fn fit(&self, power: Option<f64>) -> Result<FittedModel, LabError> {
        let settings =
            Settings { studentized_power: power, max_iterations: ITERATIONS, ..Settings::preset(Preset::Paper) };
        Ok(fit(&self.problem, &settings)?)
    }

    /// Slope in the table's units, and the intercept.
    pub fn line(&self, model: &FittedModel) -> (f64, f64) {
        let Standardizer { mean, scale } = &self.scale;
        let slope = model.coefficients()[1] * scale[1] / scale[0];
        (slope, mean[1] + scale[1] * model.coefficients()[0] - slope * mean[0])
    }
}

/// The slope, and how many of the giants are among the four rows of largest noise. A power of 0 is the plain update.
pub fn measure(with_giants: bool, power: f64) -> Result<Measures, LabError> {
    let start = std::time::Instant::now();
    let stars = Stars::new(with_giants)?;
    let model = stars.fit((power > 0.0).then_some(power))?;
    let mut measures = vec![("slope", stars.line(&model).0)];
    if with_giants {
        let leverage = model.diagnose().leverage;
        measures.push(("giant_recall", robustard::metrics::top_k_recall(&model.rows().noise_variance, &GIANTS)));
        measures.push(("giant_leverage", robustard::metrics::mean(&GIANTS.map(|row| leverage[row]))));
    }
    measures.push((LAST_MEASURE, start.elapsed().as_secs_f64()));
    Ok(measures)
}
