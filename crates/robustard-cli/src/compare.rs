//! `robustard compare`: the same folds for every method.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use robustard::features::FeatureKind;
use robustard::{
    Choice, Control, Fold, Options, Preset, Recipe, Scores, Settings, Standardizer, Stop, TargetScale, folds, validate,
};
use robustard_baselines::Baseline;
use robustard_table::{EncodeOptions, Encoder, Missing, Table, TableData, TableModel, read};
use serde_json::json;

use crate::args::{FitArguments, TableArguments};
use crate::colour::say;
use crate::progress::{Bar, stopped_by_interrupt};
use crate::{Ending, Outcome, Usage, output};

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

struct Method {
    name: String,
    fitter: Fitter,
}

enum Fitter {
    Ard(Box<Recipe>),
    /// On the same columns, encoded and standardized.
    Baseline(Baseline),
}

impl Compare {
    /// Cross-validates and prints.
    pub fn run(&self) -> Outcome<Ending> {
        self.fitting.limit_threads()?;
        let (recipe, columns) = (self.fitting.recipe()?, self.fitting.columns());
        let table = read(&self.table, &self.reading.options(&self.fitting.id))?;
        columns.limits.check_fit(table.row_count(), table.names().len())?;
        let mut methods = self.recipes(&recipe)?;
        let folds = self.folds(&table, &columns)?;
        methods.extend(self.baselines(table.row_count())?);
        let mut results = Vec::new();
        let mut bar = Bar::new(self.quiet);
        let stop = stopped_by_interrupt()?;
        let count = methods.len();
        for method in &methods {
            let mut show = |fold: usize| {
                let done = results.len() as f64 + fold as f64 / folds.len() as f64;
                let fold = fold + 1;
                bar.show(done / count as f64, || format!("{}, fold {fold} of {}", method.name, folds.len()));
            };
            let scores = cross_validate(&table, &columns, method, &folds, &stop, &mut show)?;
            // What was not finished is not compared.
            let Some(scores) = scores else { break };
            results.push((method.name.as_str(), scores));
        }
        drop(bar);
        if results.is_empty() {
            say("interrupted before the first method was done");
            return Ok(Ending::Interrupted);
        }
        let text = if self.json { as_json(&results)? } else { as_text(&results, &columns.target, folds.len())? };
        output::print(&text)?;
        if !self.quiet && !self.json {
            if columns.weights.is_some() && !self.baselines.iter().any(|name| name == "none") {
                say("note: ols, ridge, huber, student_t and gp take no row weights");
            }
            say("note: targets of test rows may be wrong too; RMSE counts those most, MAE less");
        }
        Ok(if stop.is_raised() { Ending::Interrupted } else { Ending::Done })
    }

    /// What was asked for, and the same features with other noise: nothing is chosen for those, whose features are linear unless
    /// given.
    fn recipes(&self, recipe: &Recipe) -> Outcome<Vec<Method>> {
        let features = Choice::Given(recipe.features().given().unwrap_or(FeatureKind::linear()));
        let plain = |settings: Settings| -> Outcome<Recipe> {
            let noise = Some(Choice::Given(settings.noise));
            let options = Options { features: Some(features), noise, ..recipe.options() };
            Ok(options.recipe()?.with_settings(settings)?)
        };
        let ard = |name: &str, recipe| Method { name: name.to_owned(), fitter: Fitter::Ard(Box::new(recipe)) };
        let default = plain(Settings::default())?;
        let mut methods = vec![
            ard("joint ARD, Student-t", default.clone()),
            ard("joint ARD, paper", plain(Settings::preset(Preset::Paper))?),
            ard("model-only ARD", plain(Settings::default().with_shared_noise())?),
        ];
        // "as given" is worth a line only if something was given.
        if *recipe != default {
            let is_auto = recipe.features().is_auto() || recipe.noise().is_auto();
            methods.insert(0, ard(if is_auto { "default" } else { "as given" }, recipe.clone()));
        }
        Ok(methods)
    }

    /// Folds of the rows that have a target.
    fn folds(&self, table: &Table, columns: &EncodeOptions) -> Outcome<Vec<Fold>> {
        let count = usize::from(self.folds);
        let target = table.role(&columns.target, "the target")?;
        let rows: Vec<usize> = (0..target.len()).filter(|&row| !target[row].is_nan()).collect();
        if rows.len() < target.len() && columns.missing != Missing::Drop {
            return Err(format!("{} rows have no target; use --missing drop", target.len() - rows.len()).into());
        }
        if rows.len() < 2 * count {
            let fewer = (rows.len() / 2).max(2);
            return Err(format!("{} rows are too few for {count} folds; use --folds {fewer}", rows.len()).into());
        }
        Ok(folds(rows, count, self.fitting.seed))
    }
}

impl Compare {
    fn baselines(&self, rows: usize) -> Outcome<Vec<Method>> {
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
            methods.push(Method { name: name.clone(), fitter: Fitter::Baseline(baseline) });
        }
        Ok(methods)
    }
}

/// The scores of a method, none if it was stopped.
fn cross_validate(
    table: &Table,
    columns: &EncodeOptions,
    method: &Method,
    folds: &[Fold],
    stop: &Stop,
    show: &mut dyn FnMut(usize),
) -> Outcome<Option<Scores>> {
    let target = table.role(&columns.target, "the target")?;
    let control = Control::new().with_stop(stop.clone());
    let mut done = 0;
    let scores = validate(folds, &control, |Fold { train, test }, scores| -> Outcome<()> {
        show(done);
        done += 1;
        let (train, test_rows) = (table.take(train), table.take(test));
        let of = |rows: &[usize]| -> Vec<f64> { rows.iter().map(|&row| target[test[row]]).collect() };
        match &method.fitter {
            Fitter::Ard(recipe) => {
                let fitted = scores.timed(|| TableModel::fit(&train, columns, recipe, &control))?;
                let prediction = fitted.model.predict(&test_rows, &control)?;
                scores.add(&of(&prediction.rows), &prediction.values)?;
            }
            Fitter::Baseline(baseline) => {
                let (rows, mean, std) = scores.timed(|| predict_baseline(*baseline, columns, &train, &test_rows))?;
                let predicted = of(&rows).into_iter().zip(mean).zip(std);
                predicted.for_each(|((actual, mean), std)| scores.add_normal(actual, mean, std));
            }
        }
        Ok(())
    });
    match scores {
        Err(_) if stop.is_raised() => Ok(None),
        scores => scores.map(Some),
    }
}

/// The test rows predicted, their means and standard deviations.
fn predict_baseline(
    baseline: Baseline,
    columns: &EncodeOptions,
    train: &Table,
    test: &Table,
) -> Outcome<(Vec<usize>, Vec<f64>, Vec<f64>)> {
    let encoder = Encoder::fit(train, columns)?;
    let TableData { dataset, .. } = encoder.data(train)?;
    let inputs = dataset.inputs();
    let scale = Standardizer::fit(inputs.as_ref());
    let target = TargetScale::of_values(dataset.target());
    let fitted = baseline.fit(scale.transform(inputs.as_ref()).as_ref(), &target.standardize(dataset.target()), 0)?;
    let (new, rows) = encoder.inputs(test)?;
    let prediction = fitted.predict(scale.transform(new.as_ref()).as_ref())?;
    let mean = prediction.mean.iter().map(|mean| target.unscaled(*mean)).collect();
    let std = prediction.variance.iter().map(|variance| target.difference(variance.max(1e-18).sqrt())).collect();
    Ok((rows, mean, std))
}

fn as_text(results: &[(&str, Scores)], target: &str, folds: usize) -> Outcome<String> {
    let mut out = String::new();
    let rows = results.first().map_or(0, |(_, scores)| scores.actual.len());
    writeln!(out, "{folds}-fold cross-validation of {target}, {rows} rows, the same folds for all")?;
    writeln!(out, "{:<22} {:>11} {:>11} {:>8} {:>9} {:>8}", "", "RMSE", "MAE", "NLL", "95% hold", "seconds")?;
    for (name, scores) in results {
        let [rmse, mae, nll] = [scores.rmse(), scores.mae(), scores.nll()].map(robustard_report::short);
        let (covered, seconds) = (100.0 * scores.coverage_95(), scores.elapsed.as_secs_f64());
        writeln!(out, "{name:<22} {rmse:>11} {mae:>11} {nll:>8} {covered:>8.1}% {seconds:>8.2}")?;
    }
    if results.len() > 1 {
        let best = results.iter().min_by(|a, b| a.1.mae().total_cmp(&b.1.mae()));
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
            json!({
                "method": name,
                "rmse": scores.rmse(),
                "mae": scores.mae(),
                "nll": scores.nll(),
                "coverage_95": scores.coverage_95(),
                "seconds": scores.elapsed.as_secs_f64(),
            })
        })
        .collect();
    Ok(format!("{:#}\n", json!({ "methods": lines })))
}
