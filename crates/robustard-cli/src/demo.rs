//! `robustard demo`: the paper's first figure as a table.

use std::fmt::Write;
use std::io::Write as _;

use clap::Args;
use rand::seq::SliceRandom;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use robustard::faer::{Mat, MatRef};
use robustard::features::{Polynomial, Standardizer};
use robustard::metrics::{nll, rmse};
use robustard::{FittedModel, Preset, Problem, Settings, fit};

use crate::{Ending, Outcome};

/// Head acceleration in a simulated motorcycle crash (Silverman, 1985).
const MCYCLE: &str = include_str!("../data/mcycle.csv");
const DEGREE: usize = 12;
const WRONG_ROWS: usize = 6;
/// Wrong targets are moved by ±SHIFT·N(1, SPREAD²) standard deviations, as in the paper's tabular experiments.
const SHIFT: f64 = 3.0;
const SPREAD: f64 = 0.25;
const FOLDS: usize = 10;

/// Options of the demonstration.
#[derive(Args)]
pub struct Demo {
    /// Decides which rows are made wrong, and the folds of the cross-validation
    #[arg(long, default_value_t = 2)]
    seed: u64,
}

/// One of the fits compared.
struct Method {
    name: &'static str,
    settings: Settings,
}

fn methods() -> [Method; 3] {
    let default = Settings::default();
    [
        Method { name: "model-only ARD (one noise for all rows)", settings: default.clone().with_shared_noise() },
        Method { name: "joint ARD (each row its own noise)", settings: default },
        Method { name: "joint ARD, the paper's recipe", settings: Settings::preset(Preset::Paper) },
    ]
}

/// The data with some targets made wrong.
struct Motorcycle {
    times: Vec<f64>,
    original: Vec<f64>,
    target: Vec<f64>,
    wrong: Vec<usize>,
}

impl Motorcycle {
    fn new(seed: u64) -> Outcome<Self> {
        let mut times = Vec::new();
        let mut original = Vec::new();
        for line in MCYCLE.lines().skip(1) {
            let (time, acceleration) = line.split_once(',').ok_or("the embedded data is damaged")?;
            times.push(time.parse()?);
            original.push(acceleration.parse()?);
        }
        let scale = Scale::of(&original).deviation;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut wrong = sample(&mut rng, times.len(), WRONG_ROWS).into_vec();
        wrong.sort_unstable();
        let mut target = original.clone();
        for &row in &wrong {
            let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
            target[row] += sign * SHIFT * scale * (1.0 + SPREAD * rng.sample::<f64, _>(StandardNormal));
        }
        Ok(Self { times, original, target, wrong })
    }
}

/// Mean and standard deviation of a target.
#[derive(Clone, Copy)]
struct Scale {
    mean: f64,
    deviation: f64,
}

impl Scale {
    fn of(values: &[f64]) -> Self {
        let standard = Standardizer::fit(MatRef::from_column_major_slice(values, values.len(), 1));
        Self { mean: standard.mean[0], deviation: standard.scale[0] }
    }
}

/// Times to design rows: an intercept and the standardized powers of time, scaled to −1…1 on the training rows.
struct Design {
    low: f64,
    high: f64,
    powers: Standardizer,
}

impl Design {
    fn new(times: &[f64]) -> Self {
        let low = times.iter().copied().fold(f64::INFINITY, f64::min);
        let high = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers = Standardizer::fit(Self::raw_powers(low, high, times).as_ref());
        Self { low, high, powers }
    }

    fn raw_powers(low: f64, high: f64, times: &[f64]) -> Mat<f64> {
        let scaled = Mat::from_fn(times.len(), 1, |i, _| 2.0 * (times[i] - low) / (high - low) - 1.0);
        Polynomial { degree: DEGREE }.transform(scaled.as_ref())
    }

    /// Column 0 is the intercept, column k the k-th power.
    fn rows(&self, times: &[f64]) -> Outcome<Mat<f64>> {
        let powers = self.powers.transform(Self::raw_powers(self.low, self.high, times).as_ref())?;
        Ok(Mat::from_fn(times.len(), DEGREE + 1, |i, j| if j == 0 { 1.0 } else { powers[(i, j - 1)] }))
    }
}

/// A fit with the scaling of its features and target.
struct Fit {
    design: Design,
    target: Scale,
    model: FittedModel,
}

impl Fit {
    fn new(times: &[f64], target: &[f64], settings: &Settings) -> Outcome<Self> {
        let design = Design::new(times);
        let scale = Scale::of(target);
        let y: Vec<f64> = target.iter().map(|y| (y - scale.mean) / scale.deviation).collect();
        let problem = Problem::new(design.rows(times)?.as_ref(), &y)?.with_unshrunk(0)?;
        Ok(Self { model: fit(&problem, settings)?, design, target: scale })
    }

    fn original_units(&self, value: f64) -> f64 {
        self.target.mean + self.target.deviation * value
    }
}

/// Errors of one method on rows it has not seen.
struct Score {
    rmse: f64,
    nll: f64,
}

/// Trains on nine tenths of the rows with their wrong targets, tests on the original targets of the rest. The first and the
/// last row are always trained on: beyond the rows it has seen, a polynomial of this degree can be anywhere.
fn cross_validate(data: &Motorcycle, settings: &Settings, seed: u64) -> Outcome<Score> {
    let n = data.times.len();
    let mut order: Vec<usize> = (1..n - 1).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let (mut actual, mut predicted, mut deviation) = (Vec::new(), Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let test: Vec<usize> = order.iter().copied().skip(fold).step_by(FOLDS).collect();
        let train: Vec<usize> = (0..n).filter(|row| !test.contains(row)).collect();
        let pick = |rows: &[usize], values: &[f64]| -> Vec<f64> { rows.iter().map(|&row| values[row]).collect() };
        let fit = Fit::new(&pick(&train, &data.times), &pick(&train, &data.target), settings)?;
        let prediction = fit.model.predict(fit.design.rows(&pick(&test, &data.times))?.as_ref())?;
        actual.extend(pick(&test, &data.original));
        predicted.extend(prediction.mean.iter().map(|m| fit.original_units(*m)));
        deviation.extend(prediction.std.iter().map(|s| s * fit.target.deviation));
    }
    Ok(Score { rmse: rmse(&actual, &predicted), nll: nll(&actual, &predicted, &deviation) })
}

impl Demo {
    /// Fits and prints.
    pub fn run(&self) -> Outcome<Ending> {
        std::io::stdout().lock().write_all(self.text()?.as_bytes())?;
        Ok(Ending::Done)
    }

    fn text(&self) -> Outcome<String> {
        let data = Motorcycle::new(self.seed)?;
        let mut out = String::new();
        let n = data.times.len();
        writeln!(out, "Motorcycle crash data (Silverman 1985): {n} rows, acceleration of the head (g)")?;
        writeln!(out, "against time (ms). Features: powers 1 to {DEGREE} of time, which is scaled to −1…1,")?;
        writeln!(out, "each standardized.")?;
        writeln!(out)?;
        writeln!(
            out,
            "Made wrong on purpose: {WRONG_ROWS} random rows (seed {}), each target moved up or down by",
            self.seed
        )?;
        writeln!(out, "{SHIFT}·N(1, {SPREAD}²) standard deviations:")?;
        for &row in &data.wrong {
            let (before, after) = (data.original[row], data.target[row]);
            writeln!(out, "  row {:>3}  time {:>5.1}  {before:>7.1} → {after:>7.1}", row + 1, data.times[row])?;
        }

        let methods = methods();
        let fits: Vec<Fit> =
            methods.iter().map(|m| Fit::new(&data.times, &data.target, &m.settings)).collect::<Outcome<_>>()?;
        writeln!(out, "\nFits of all rows (rows in use: effective share, by the entropy of 1/variance)")?;
        writeln!(out, "  {:<40} {:>8} {:>6} {:>6} {:>11}", "", "powers", "rows", "iter-", "how it")?;
        writeln!(out, "  {:<40} {:>8} {:>6} {:>6} {:>11}", "", "kept", "in use", "ations", "ended")?;
        for (method, fit) in methods.iter().zip(&fits) {
            let model = &fit.model;
            writeln!(
                out,
                "  {:<40} {:>8} {:>5.0}% {:>6} {:>11}",
                method.name,
                format!("{} of {DEGREE}", kept_powers(model).len()),
                100.0 * model.effective_rows(),
                model.iterations(),
                status(model),
            )?;
        }

        writeln!(out, "  The paper's recipe damps every step and is stopped after 1000 of them.")?;

        features(&mut out, &fits[1])?;
        flagged_rows(&mut out, &data, &fits[1])?;

        writeln!(out, "\n{FOLDS}-fold cross-validation, trained on wrong rows too, tested on original targets")?;
        writeln!(out, "(the first and the last row are always trained on)")?;
        writeln!(out, "  {:<40} {:>8} {:>8}", "", "RMSE", "NLL")?;
        for method in &methods {
            let score = cross_validate(&data, &method.settings, self.seed)?;
            writeln!(out, "  {:<40} {:>8.1} {:>8.2}", method.name, score.rmse, score.nll)?;
        }
        writeln!(out, "  The paper reports, for six outliers of its own, RMSE 24.6 and NLL 4.67 for")?;
        writeln!(out, "  model-only, 23.6 and 4.61 for joint ARD.")?;
        Ok(out)
    }
}

/// Powers that matter: at least a thousandth as relevant as the most relevant one.
fn kept_powers(model: &FittedModel) -> Vec<usize> {
    model.relevant_columns(1e-3)
}

fn status(model: &FittedModel) -> &'static str {
    match model.status() {
        robustard::Status::Converged => "converged",
        robustard::Status::IterationLimit => "stopped",
        robustard::Status::Interrupted => "interrupted",
        robustard::Status::NumericalTrouble => "trouble",
    }
}

fn features(out: &mut String, fit: &Fit) -> std::fmt::Result {
    let model = &fit.model;
    let kept = kept_powers(model);
    writeln!(out, "\nJoint ARD: the powers that matter (weight ± standard error, standardized)")?;
    for &j in &kept {
        let name = format!("time^{j}");
        writeln!(out, "  {name:<8} {:>8.2} ± {:.2}", model.coefficients[j], model.standard_errors[j])?;
    }
    let left_out: Vec<String> = (1..=DEGREE).filter(|j| !kept.contains(j)).map(|j| j.to_string()).collect();
    if left_out.is_empty() {
        writeln!(out, "  left out: none")
    } else {
        writeln!(out, "  left out: powers {}", left_out.join(", "))
    }
}

fn flagged_rows(out: &mut String, data: &Motorcycle, fit: &Fit) -> std::fmt::Result {
    const MOST_SHOWN: usize = 10;
    let diagnostics = fit.model.diagnose();
    let flagged = diagnostics.flagged_rows();
    let hits = flagged.iter().filter(|row| data.wrong.contains(row)).count();
    let threshold = diagnostics.threshold;
    writeln!(out, "\nJoint ARD: rows to look at, more than {threshold:.1} standard deviations off what the other")?;
    writeln!(out, "rows predict: {}; {hits} of the {WRONG_ROWS} wrong ones are among them.", flagged.len())?;
    writeln!(out, "  {:>5} {:>6} {:>8} {:>10} {:>6}", "row", "time", "actual", "predicted", "off")?;
    for &row in flagged.iter().take(MOST_SHOWN) {
        let predicted = fit.original_units(fit.model.rows.target[row] - diagnostics.loo_residual[row]);
        let (time, actual, off) = (data.times[row], data.target[row], diagnostics.z[row]);
        let mark = if data.wrong.contains(&row) { "  made wrong" } else { "  as measured" };
        writeln!(out, "  {:>5} {time:>6.1} {actual:>8.1} {predicted:>10.1} {off:>6.1}{mark}", row + 1)?;
    }
    let rest = flagged.len().saturating_sub(MOST_SHOWN);
    if rest > 0 {
        writeln!(out, "  and {rest} more")?;
    }
    Ok(())
}
