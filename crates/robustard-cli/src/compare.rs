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
use robustard::metrics::{coverage, mae, mean, rmse};
use robustard::{Iteration, Preset, Settings};
use robustard_table::{Auto, Missing, Regression, RegressionOptions, Table, read};
use serde_json::json;

use crate::args::{FitArguments, TableArguments};
use crate::colour::say;
use crate::progress::Bar;
use crate::{Ending, Outcome};

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

struct Method {
    name: &'static str,
    options: RegressionOptions,
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
        let methods = [
            Method { name: if is_auto { "default" } else { "as given" }, options: options.clone() },
            Method { name: "joint ARD, Student-t", options: plain(Settings::default()) },
            Method { name: "joint ARD, paper", options: plain(Settings::preset(Preset::Paper)) },
            Method { name: "model-only ARD", options: plain(Settings::default().with_shared_noise()) },
        ];
        // "as given" is worth a line only if something was given.
        let is_default = options == methods[1].options;
        let folds = folds(&table, &options, usize::from(self.folds), self.fitting.seed)?;
        let mut results = Vec::new();
        let mut bar = Bar::new(self.quiet);
        let count = methods.len() - usize::from(is_default);
        for method in methods.iter().skip(usize::from(is_default)) {
            let mut show = |fold: usize| {
                let done = results.len() as f64 + fold as f64 / folds.len() as f64;
                let fold = fold + 1;
                bar.show(done / count as f64, || format!("{}, fold {fold} of {}", method.name, folds.len()));
            };
            let scores = cross_validate(&table, &method.options, &folds, &mut show)?;
            results.push((method.name, scores));
        }
        drop(bar);
        let text = if self.json { as_json(&results)? } else { as_text(&results, &options.encode.target, folds.len())? };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        if !self.quiet && !self.json {
            say("note: targets of test rows may be wrong too; RMSE counts those most, MAE less");
        }
        Ok(Ending::Done)
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
    options: &RegressionOptions,
    folds: &[Vec<usize>],
    show: &mut dyn FnMut(usize),
) -> Outcome<Scores> {
    let target = table.role(&options.encode.target, "the target")?;
    let mut scores = Scores::default();
    for (fold, test) in folds.iter().enumerate() {
        show(fold);
        let train: Vec<usize> =
            folds.iter().enumerate().filter(|(k, _)| *k != fold).flat_map(|(_, rows)| rows).copied().collect();
        let start = Instant::now();
        let mut silent = |_: &Iteration<'_>| ControlFlow::Continue(());
        let fitted = Regression::fit(&table.take(&train), options, &mut silent)?;
        scores.seconds += start.elapsed().as_secs_f64();
        let prediction = fitted.regression.predict(&table.take(test), 0.95)?;
        let actual: Vec<f64> = prediction.rows.iter().map(|&row| target[test[row]]).collect();
        scores.log_density.extend(prediction.log_density(&actual));
        scores.actual.extend(actual);
        scores.predicted.extend(prediction.mean);
        scores.lower.extend(prediction.lower);
        scores.upper.extend(prediction.upper);
    }
    Ok(scores)
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
