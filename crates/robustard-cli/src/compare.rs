//! `robustard compare`: the same folds for every method.

use std::fmt::Write;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use robustard::features::Standardizer;
use robustard::metrics::{coverage, mae, mean, rmse, standard_deviation};
use robustard::{Iteration, Preset, Settings};
use robustard_baselines::Baseline;
use robustard_table::{Auto, EncodeOptions, Encoder, Missing, Regression, RegressionOptions, Table, read};
use serde_json::json;

use crate::args::{FitArguments, TableArguments};
use crate::colour::say;
use crate::progress::Bar;
use crate::{Ending, Outcome, Usage};

/// Options of `compare`.
#[derive(Args)]
#[command(after_help = "Example:
  robustard compare houses.csv --target price --folds 5")]
pub struct Compare {
    /// The table
    table: PathBuf,
    #[command(flatten)]
    reading: TableArguments,
    #[command(flatten)]
    fitting: FitArguments,
    /// Other methods: ols, ridge, ridge_loo, huber, student_t, gp, gp_per_input, sparse_gp; or none
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = BASELINES.map(str::to_owned))]
    baselines: Vec<String>,
    /// Number of folds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..))]
    folds: u16,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Say nothing but the result and errors
    #[arg(long)]
    quiet: bool,
}

/// What is compared with unless other names are given.
const BASELINES: [&str; 5] = ["ols", "ridge_loo", "huber", "student_t", "gp"];
/// An exact Gaussian process of more rows takes minutes.
const MOST_PROCESS_ROWS: usize = 2000;
const LEVEL: f64 = 0.95;
/// Standard deviations of a normal variable that hold it with that probability.
const NORMAL_HALF_WIDTH: f64 = 1.959_963_984_540_054;

struct Method {
    name: String,
    fitter: Fitter,
}

enum Fitter {
    Ard(Box<RegressionOptions>),
    /// On the same columns, encoded and standardized.
    Baseline(Baseline, EncodeOptions),
}

/// Out-of-fold predictions of one method.
#[derive(Default)]
struct Scores {
    actual: Vec<f64>,
    predicted: Vec<f64>,
    log_density: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    seconds: f64,
}

impl Compare {
    /// Cross-validates and prints.
    pub fn run(&self) -> Outcome<Ending> {
        self.fitting.limit_threads()?;
        let options = self.fitting.options()?;
        let table = read(&self.table, &self.reading.options(&self.fitting.id))?;
        let threads = options.settings.threads;
        // Nothing is chosen for the others, whose features are linear unless given.
        let plain = |settings: Settings| RegressionOptions {
            settings: Settings { threads, ..settings },
            auto: Auto::default(),
            ..options.clone()
        };
        let is_auto = options.auto != Auto::default();
        let ard = |name: &str, options| Method { name: name.to_owned(), fitter: Fitter::Ard(Box::new(options)) };
        let mut methods = vec![
            ard("joint ARD, Student-t", plain(Settings::default())),
            ard("joint ARD, paper", plain(Settings::preset(Preset::Paper))),
            ard("model-only ARD", plain(Settings::default().with_shared_noise())),
        ];
        // "as given" is worth a line only if something was given.
        if options != plain(Settings::default()) {
            methods.insert(0, ard(if is_auto { "default" } else { "as given" }, options.clone()));
        }
        let folds = folds(&table, &options, usize::from(self.folds), self.fitting.seed)?;
        methods.extend(self.baselines(&options.encode, table.row_count())?);
        let mut results = Vec::new();
        let mut bar = Bar::new(self.quiet);
        let count = methods.len();
        for method in &methods {
            let mut show = |fold: usize| {
                let done = results.len() as f64 + fold as f64 / folds.len() as f64;
                let fold = fold + 1;
                bar.show(done / count as f64, || format!("{}, fold {fold} of {}", method.name, folds.len()));
            };
            let scores = cross_validate(&table, &options.encode.target, method, &folds, &mut show)?;
            results.push((method.name.as_str(), scores));
        }
        drop(bar);
        let text = if self.json { as_json(&results)? } else { as_text(&results, &options.encode.target, folds.len())? };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        if !self.quiet && !self.json {
            if options.encode.weights.is_some() && !self.baselines.iter().any(|name| name == "none") {
                say("note: ols, ridge, huber, student_t and gp take no row weights");
            }
            say("note: targets of test rows may be wrong too; RMSE counts those most, MAE less");
        }
        Ok(Ending::Done)
    }
}

impl Compare {
    fn baselines(&self, encode: &EncodeOptions, rows: usize) -> Outcome<Vec<Method>> {
        let mut methods = Vec::new();
        for name in self.baselines.iter().filter(|name| *name != "none") {
            let Ok(baseline) = name.parse() else {
                let known = Baseline::NAMES.join(", ");
                return Err(Usage(format!("'{name}' is no method to compare with; they are {known}, or none")).into());
            };
            if matches!(baseline, Baseline::Gp { .. }) && rows > MOST_PROCESS_ROWS {
                if !self.quiet {
                    say(&format!("note: no {name} for more than {MOST_PROCESS_ROWS} rows; sparse_gp takes more"));
                }
                continue;
            }
            methods.push(Method { name: name.clone(), fitter: Fitter::Baseline(baseline, encode.clone()) });
        }
        Ok(methods)
    }
}

/// Test rows of each fold, among the rows that have a target.
fn folds(table: &Table, options: &RegressionOptions, count: usize, seed: u64) -> Outcome<Vec<Vec<usize>>> {
    let target = table.role(&options.encode.target, "the target")?;
    let mut rows: Vec<usize> = (0..target.len()).filter(|&row| !target[row].is_nan()).collect();
    if rows.len() < target.len() && options.encode.missing != Missing::Drop {
        return Err(format!("{} rows have no target; use --missing drop", target.len() - rows.len()).into());
    }
    if rows.len() < 2 * count {
        return Err(format!(
            "{} rows are too few for {count} folds; use --folds {}",
            rows.len(),
            (rows.len() / 2).max(2)
        )
        .into());
    }
    rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    Ok((0..count).map(|fold| rows.iter().copied().skip(fold).step_by(count).collect()).collect())
}

fn cross_validate(
    table: &Table,
    target: &str,
    method: &Method,
    folds: &[Vec<usize>],
    show: &mut dyn FnMut(usize),
) -> Outcome<Scores> {
    let target = table.role(target, "the target")?;
    let mut scores = Scores::default();
    for (fold, test) in folds.iter().enumerate() {
        show(fold);
        let train: Vec<usize> =
            folds.iter().enumerate().filter(|(k, _)| *k != fold).flat_map(|(_, rows)| rows).copied().collect();
        let (train, test_rows) = (table.take(&train), table.take(test));
        let of = |rows: &[usize]| -> Vec<f64> { rows.iter().map(|&row| target[test[row]]).collect() };
        let start = Instant::now();
        match &method.fitter {
            Fitter::Ard(options) => {
                let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
                let fitted = Regression::fit(&train, options, &mut silent)?;
                scores.seconds += start.elapsed().as_secs_f64();
                let prediction = fitted.regression.predict(&test_rows, LEVEL)?;
                let actual = of(&prediction.rows);
                scores.log_density.extend(prediction.log_density(&actual));
                scores.actual.extend(actual);
                scores.predicted.extend(prediction.mean);
                scores.lower.extend(prediction.lower);
                scores.upper.extend(prediction.upper);
            }
            Fitter::Baseline(baseline, options) => {
                let (rows, mean, std) = predict_baseline(*baseline, options, &train, &test_rows)?;
                scores.seconds += start.elapsed().as_secs_f64();
                for ((actual, mean), std) in of(&rows).into_iter().zip(mean).zip(std) {
                    let z = (actual - mean) / std;
                    scores.log_density.push(-0.5 * (z * z + (std::f64::consts::TAU * std * std).ln()));
                    scores.actual.push(actual);
                    scores.predicted.push(mean);
                    scores.lower.push(mean - NORMAL_HALF_WIDTH * std);
                    scores.upper.push(mean + NORMAL_HALF_WIDTH * std);
                }
            }
        }
    }
    Ok(scores)
}

/// The test rows predicted, their means and standard deviations.
fn predict_baseline(
    baseline: Baseline,
    options: &EncodeOptions,
    train: &Table,
    test: &Table,
) -> Outcome<(Vec<usize>, Vec<f64>, Vec<f64>)> {
    let encoder = Encoder::fit(train, options)?;
    let target = train.role(&options.target, "the target")?;
    let [train, test] = [encoder.encode(train, &[&target])?, encoder.encode(test, &[])?];
    let scale = Standardizer::fit(train.inputs.as_ref());
    let known: Vec<f64> = train.rows.iter().map(|&row| target[row]).collect();
    let (centre, deviation) = (mean(&known), standard_deviation(&known));
    let deviation = if deviation > 0.0 { deviation } else { 1.0 };
    let standard: Vec<f64> = known.iter().map(|y| (y - centre) / deviation).collect();
    let fitted = baseline.fit(scale.transform(train.inputs.as_ref())?.as_ref(), &standard, 0)?;
    let prediction = fitted.predict(scale.transform(test.inputs.as_ref())?.as_ref())?;
    let mean = prediction.mean.iter().map(|mean| centre + deviation * mean).collect();
    let std = prediction.variance.iter().map(|variance| deviation * variance.max(1e-18).sqrt()).collect();
    Ok((test.rows, mean, std))
}

impl Scores {
    /// RMSE, MAE, NLL (of the distribution that each method predicts), coverage.
    fn measures(&self) -> [f64; 4] {
        let Self { actual, predicted, log_density, lower, upper, .. } = self;
        [rmse(actual, predicted), mae(actual, predicted), -mean(log_density), coverage(actual, lower, upper)]
    }
}

fn as_text(results: &[(&str, Scores)], target: &str, folds: usize) -> Outcome<String> {
    let mut out = String::new();
    let rows = results.first().map_or(0, |(_, scores)| scores.actual.len());
    writeln!(out, "{folds}-fold cross-validation of {target}, {rows} rows, the same folds for all")?;
    writeln!(out, "{:<22} {:>11} {:>11} {:>8} {:>9} {:>8}", "", "RMSE", "MAE", "NLL", "95% hold", "seconds")?;
    for (name, scores) in results {
        let [rmse, mae, nll, covered] = scores.measures();
        let [rmse, mae, nll] = [rmse, mae, nll].map(robustard_report::short);
        writeln!(out, "{name:<22} {rmse:>11} {mae:>11} {nll:>8} {:>8.1}% {:>8.2}", 100.0 * covered, scores.seconds)?;
    }
    if results.len() > 1 {
        let best = results.iter().min_by(|a, b| a.1.measures()[1].total_cmp(&b.1.measures()[1]));
        if let Some((name, _)) = best {
            writeln!(out, "Smallest mean absolute error: {name}.")?;
        }
    }
    Ok(out)
}

fn as_json(results: &[(&str, Scores)]) -> Outcome<String> {
    let lines: Vec<serde_json::Value> = results
        .iter()
        .map(|(name, scores)| {
            let [rmse, mae, nll, coverage] = scores.measures();
            json!({"method": name, "rmse": rmse, "mae": mae, "nll": nll, "coverage_95": coverage, "seconds": scores.seconds})
        })
        .collect();
    Ok(format!("{:#}\n", json!({ "methods": lines })))
}
