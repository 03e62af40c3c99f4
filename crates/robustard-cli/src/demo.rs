//! `robustard demo`: the paper's first figure as a table.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use robustard::features::FeatureKind;
use robustard::metrics::{nll, rmse};
use robustard::{Choice, Control, Preset, Recipe, Regression, Settings, Status};
use robustard_report::Source;
use robustard_table::samples::motorcycle::{DEGREE, FOLDS, Fold, Motorcycle, WRONG_ROWS};
use robustard_table::samples::{SHIFT, SPREAD};
use robustard_table::{EncodeOptions, Table, TableModel, is_stream, publish};

use crate::output::{Plan, check_figures, existing, print};
use crate::report::{Pages, Written};
use crate::{Ending, Outcome};

const INPUT: &str = "time";
const TARGET: &str = "acceleration";
/// The place of the default joint fit among the methods.
const JOINT: usize = 1;

/// Options of the demonstration.
#[derive(Args)]
pub struct Demo {
    /// Decides which rows are made wrong, and the folds of the cross-validation
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// Where to write the page about the joint fit
    #[arg(long, value_name = "FILE", default_value = "robustard-demo.html")]
    report: PathBuf,
    /// Write the charts of that page as SVG files into this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
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

fn table(data: &Motorcycle, rows: &[usize]) -> Table {
    let column = |values: &[f64]| Table::number_column(rows.iter().map(|&row| values[row]));
    Table::from_columns(vec![(INPUT.to_owned(), column(&data.times)), (TARGET.to_owned(), column(&data.target))])
}

/// Fits all powers of time.
fn fit(table: &Table, settings: &Settings) -> Outcome<TableModel> {
    let features = Choice::Given(FeatureKind::polynomial(DEGREE)?);
    let recipe = Recipe::new(features, Choice::Given(settings.noise))?.with_settings(settings.clone())?;
    Ok(TableModel::fit(table, &EncodeOptions::new(TARGET), &recipe, &Control::new())?.model)
}

/// Errors of one method on rows it has not seen.
struct Score {
    rmse: f64,
    nll: f64,
}

/// Trains on nine tenths of the rows with their wrong targets, tests on the original targets of the rest.
fn cross_validate(data: &Motorcycle, settings: &Settings, seed: u64) -> Outcome<Score> {
    let (mut actual, mut predicted, mut deviation) = (Vec::new(), Vec::new(), Vec::new());
    for Fold { train, test } in data.folds(seed) {
        let prediction = fit(&table(data, &train), settings)?.predict(&table(data, &test), &Control::new())?.values;
        actual.extend(test.iter().map(|&row| data.original[row]));
        predicted.extend(&prediction.mean);
        deviation.extend(&prediction.std);
    }
    Ok(Score { rmse: rmse(&actual, &predicted), nll: nll(&actual, &predicted, &deviation) })
}

impl Demo {
    /// Fits, prints and writes the page.
    pub fn run(&self) -> Outcome<Ending> {
        if let Some(folder) = &self.figures {
            check_figures(folder, self.force)?;
        }
        let is_kept = self.report.exists() && !self.force && !is_stream(&self.report);
        if !is_kept {
            Plan::new(self.force).writes([&self.report]).check()?;
        }
        let data = Motorcycle::new(self.seed);
        let table = table(&data, &(0..data.times.len()).collect::<Vec<_>>());
        let methods = methods();
        let fits: Vec<TableModel> =
            methods.iter().map(|method| fit(&table, &method.settings)).collect::<Outcome<_>>()?;
        let mut text = self.text(&data, &methods, &fits)?;
        let pages =
            Pages { page: Some(&self.report), figures: self.figures.as_deref(), existing: existing(self.force) };
        if is_kept {
            writeln!(text, "\n{} exists and is left as it is; --force writes it anew.", self.report.display())?;
        } else {
            let source = Source { name: "the motorcycle data, six rows made wrong", reading: None };
            let Written { words, files } = pages.write(&fits[JOINT], &table, source, &Control::new())?;
            publish(files)?;
            writeln!(text, "\nWrote the {}: open it in a browser.", words.join(" and the "))?;
        }
        print(&text)?;
        Ok(Ending::Done)
    }

    fn text(&self, data: &Motorcycle, methods: &[Method], fits: &[TableModel]) -> Outcome<String> {
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

        writeln!(out, "\nFits of all rows (rows in use: effective share, by the entropy of 1/variance)")?;
        writeln!(out, "  {:<40} {:>8} {:>6} {:>6} {:>11}", "", "powers", "rows", "iter-", "how it")?;
        writeln!(out, "  {:<40} {:>8} {:>6} {:>6} {:>11}", "", "kept", "in use", "ations", "ended")?;
        for (method, fit) in methods.iter().zip(fits) {
            let regression = fit.regression();
            writeln!(
                out,
                "  {:<40} {:>8} {:>5.0}% {:>6} {:>11}",
                method.name,
                format!("{} of {DEGREE}", kept_count(regression)),
                100.0 * regression.model().effective_rows(),
                regression.model().iterations(),
                status(regression),
            )?;
        }

        writeln!(out, "  The paper's recipe damps every step and is stopped after 1000 of them.")?;

        features(&mut out, fits[JOINT].regression())?;
        flagged_rows(&mut out, data, fits[JOINT].regression())?;

        writeln!(out, "\n{FOLDS}-fold cross-validation, trained on wrong rows too, tested on original targets")?;
        writeln!(out, "(the first and the last row are always trained on)")?;
        writeln!(out, "  {:<40} {:>8} {:>8}", "", "RMSE", "NLL")?;
        for method in methods {
            let score = cross_validate(data, &method.settings, self.seed)?;
            writeln!(out, "  {:<40} {:>8.1} {:>8.2}", method.name, score.rmse, score.nll)?;
        }
        writeln!(out, "  The paper reports, for six outliers of its own, RMSE 24.6 and NLL 4.67 for")?;
        writeln!(out, "  model-only, 23.6 and 4.61 for joint ARD.")?;
        Ok(out)
    }
}

fn kept_count(fit: &Regression) -> usize {
    fit.feature_summaries().iter().filter(|feature| feature.kept).count()
}

fn status(regression: &Regression) -> &'static str {
    match regression.status() {
        Status::Converged => "converged",
        Status::IterationLimit => "stopped",
        Status::Interrupted => "interrupted",
        _ => "trouble",
    }
}

fn features(out: &mut String, fit: &Regression) -> std::fmt::Result {
    let (kept, left_out): (Vec<_>, Vec<_>) = fit.feature_summaries().into_iter().partition(|feature| feature.kept);
    writeln!(out, "\nJoint ARD: the powers that matter (weight of the standardized power ± s.e.)")?;
    for feature in &kept {
        writeln!(out, "  {:<8} {:>8.1} ± {:.1}", feature.name, feature.coefficient, feature.standard_error)?;
    }
    let names: Vec<String> = left_out.into_iter().map(|feature| feature.name).collect();
    writeln!(out, "  left out: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

fn flagged_rows(out: &mut String, data: &Motorcycle, fit: &Regression) -> std::fmt::Result {
    const MOST_SHOWN: usize = 10;
    let diagnostics = fit.diagnostics();
    let flagged = diagnostics.flagged_rows();
    let hits = flagged.iter().filter(|row| data.wrong.contains(row)).count();
    let threshold = diagnostics.threshold;
    writeln!(out, "\nJoint ARD: rows to look at, more than {threshold:.1} standard deviations off what the other")?;
    writeln!(out, "rows predict: {}; {hits} of the {WRONG_ROWS} wrong ones are among them.", flagged.len())?;
    writeln!(out, "  {:>5} {:>6} {:>8} {:>10} {:>6}", "row", "time", "actual", "predicted", "off")?;
    for &row in flagged.iter().take(MOST_SHOWN) {
        let (time, actual) = (data.times[row], data.target[row]);
        let (predicted, off) = (diagnostics.predicted[row], diagnostics.z[row]);
        let mark = if data.wrong.contains(&row) { "  made wrong" } else { "  as measured" };
        writeln!(out, "  {:>5} {time:>6.1} {actual:>8.1} {predicted:>10.1} {off:>6.1}{mark}", row + 1)?;
    }
    let rest = flagged.len().saturating_sub(MOST_SHOWN);
    if rest > 0 {
        writeln!(out, "  and {rest} more")?;
    }
    Ok(())
}
