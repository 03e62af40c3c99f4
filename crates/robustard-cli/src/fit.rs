//! `robustard fit`.

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use robustard::{Status, TargetTransform};
use robustard_report::{
    Source, counted, noise_words, reason_words, short, solver_name, status_words, three_digits, time_words,
};
use robustard_table::{Fitted, Table, TableModel, read, save_model, write};

use crate::args::{FitArguments, TableArguments};
use crate::colour::{self, say};
use crate::diagnose::row_table;
use crate::effects::what_matters;
use crate::json::Summary;
use crate::progress::control;
use crate::report::{Pages, refuse_figures, source_name};
use crate::text::{clipped, padded, wrapped};
use crate::{Ending, Outcome, Usage, refuse_to_overwrite};

/// Rows shown in the summary.
const MOST_ROWS: usize = 10;

/// Options of `fit`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard fit houses.csv --target price
  robustard fit houses.csv --target price --save houses
  robustard fit sensors.parquet --target load --id time --missing drop --features rff:256
  cat houses.csv | robustard fit - --target price --json | jq .effects.columns")]
pub struct Fit {
    /// The table: CSV, TSV, Parquet, Arrow or JSON lines, gzipped or not; - for standard input
    table: PathBuf,
    #[command(flatten)]
    reading: TableArguments,
    #[command(flatten)]
    fitting: FitArguments,
    /// Write everything: the model to NAME.model, the rows to NAME-rows.csv and the page to NAME.html
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    save: Option<PathBuf>,
    /// Write the model to this file
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write the diagnosis of all rows to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    rows: Option<PathBuf>,
    /// Write a page about the fit to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Write the charts of that page as SVG files into this folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    figures: Option<PathBuf>,
    /// Print one JSON object instead of the summary
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print errors only
    #[arg(long, help_heading = "Output")]
    quiet: bool,
    /// Overwrite existing files
    #[arg(long, help_heading = "Output")]
    force: bool,
}

impl Fit {
    /// Fits, writes the files and prints the summary.
    pub fn run(mut self) -> Outcome<Ending> {
        if let Some(stem) = &self.save {
            let with = |end: &str| {
                let mut name = stem.clone().into_os_string();
                name.push(end);
                Some(PathBuf::from(name))
            };
            self.output = self.output.or(with(".model"));
            self.rows = self.rows.or(with("-rows.csv"));
            self.report = self.report.or(with(".html"));
        }
        self.run_with_outputs()
    }

    fn run_with_outputs(&self) -> Outcome<Ending> {
        self.check_outputs()?;
        self.fitting.limit_threads()?;
        let recipe = self.fitting.recipe()?;
        let started = Instant::now();
        let table = read(&self.table, &self.reading.options(&self.fitting.id))?;
        let (name, reading) = (source_name(&self.table), Some(started.elapsed()));
        let control = control(self.quiet, recipe.settings().tolerance)?;
        let Fitted { model, notes } = TableModel::fit(&table, &self.fitting.columns(), &recipe, &control)?;
        if let Some(path) = &self.output {
            save_model(&model, path)?;
        }
        if let Some(path) = &self.rows {
            write(&row_table(&model, &table)?, path)?;
        }
        let pages = Pages { page: self.report.as_deref(), figures: self.figures.as_deref() };
        let written = pages.write(&model, &table, Source { name: &name, reading }, &control)?;
        drop(control);
        if !self.quiet {
            notes.iter().for_each(|note| say(&format!("note: {note}")));
        }
        let text = if self.json {
            format!("{}\n", serde_json::to_string_pretty(&Summary::new(&model, &table)?)?)
        } else if self.quiet {
            String::new()
        } else {
            self.summary(&model, &table, &written)?
        };
        let ending = match model.regression().status() {
            Status::Converged => Ending::Done,
            _ if self.fitting.strict => Ending::NotConverged,
            _ => Ending::Done,
        };
        if self.writes_to_stdout() {
            // Data and words do not mix.
            say(text.trim_end());
        } else if self.json {
            std::io::stdout().lock().write_all(text.as_bytes())?;
        } else {
            colour::print(&text)?;
        }
        Ok(ending)
    }

    fn writes_to_stdout(&self) -> bool {
        [&self.rows, &self.report].into_iter().flatten().any(|path| path == Path::new("-"))
    }

    /// Refuses before any work what would fail or lose something after it.
    fn check_outputs(&self) -> Outcome<()> {
        let paths: Vec<&PathBuf> = [&self.output, &self.rows, &self.report].into_iter().flatten().collect();
        if self.output.as_deref() == Some(Path::new("-")) {
            return Err(Usage("a model is not text; give -o a file name".to_owned()).into());
        }
        if self.json && self.writes_to_stdout() {
            return Err(Usage("--json takes standard output; give --rows and --report file names".to_owned()).into());
        }
        if let Some(folder) = &self.figures {
            refuse_figures(folder, self.force)?;
        }
        for (k, path) in paths.iter().enumerate() {
            refuse_to_overwrite(path, self.force)?;
            if paths[..k].contains(path) {
                return Err(Usage(format!("two outputs go to {}; give each a name of its own", path.display())).into());
            }
            if **path == self.table && self.table != Path::new("-") {
                return Err(Usage(format!("{} is the table; give the output another name", path.display())).into());
            }
        }
        Ok(())
    }

    fn summary(&self, model: &TableModel, table: &Table, pages: &[String]) -> Outcome<String> {
        let mut out = String::new();
        data(&mut out, &self.table, model, table)?;
        let regression = model.regression();
        let (solver, noise) = (solver_name(regression.settings().solver), noise_words(regression.noise()));
        writeln!(out, "Fit      {solver}, {noise}")?;
        let scale = regression.design().target();
        if scale.transform() != TargetTransform::None {
            let formula = scale.formula(&model.encoder().target);
            let said = format!("of {formula}, which coefficients are of; predictions are of the target itself");
            wrapped(&said, 69).iter().try_for_each(|line| writeln!(out, "         {line}"))?;
        }
        writeln!(
            out,
            "         {}, {} in all, {}",
            counted(regression.model().iterations(), "iteration"),
            time_words(regression.elapsed()),
            status_words(regression.status())
        )?;
        if let Some(selection) = regression.selection() {
            writeln!(out, "         {} features, chosen:", regression.features())?;
            for reason in &selection.reasons {
                wrapped(&reason_words(reason), 69).iter().try_for_each(|line| writeln!(out, "           {line}"))?;
            }
        }
        let quality = regression.quality();
        let aside = match regression.set_aside().len() {
            0 => String::new(),
            count => format!(", {} excluded", counted(count, "outlier")),
        };
        writeln!(out, "Quality  each row predicted from the others{aside}:")?;
        writeln!(out, "         RMSE {}, median error {}", short(quality.loo_rmse), short(quality.loo_median_error))?;
        writeln!(
            out,
            "         R² {:.3}, {:.1}% of rows in their 95% interval",
            quality.loo_r2,
            100.0 * quality.coverage_95
        )?;
        if regression.quality_is_optimistic() {
            writeln!(
                out,
                "         (optimistic: {} learnt from {} rows; see robustard compare)",
                counted(regression.learnt_relevances(), "hyperparameter"),
                regression.row_count()
            )?;
        }
        for third in regression.coverage_by_third(0.95).iter().filter(|third| third.miscoverage().is_some()) {
            let (from, to) = (three_digits(third.from), three_digits(third.to));
            let share = 100.0 * third.covered;
            writeln!(out, "         but {share:.1}% where predictions are {from} to {to}")?;
        }
        what_matters(&mut out, model)?;
        rows(&mut out, model, table)?;
        let files = [("model", &self.output), ("all rows", &self.rows)];
        let files = files.iter().filter_map(|(what, path)| Some(format!("{what} to {}", path.as_ref()?.display())));
        let all: Vec<String> = files.chain(pages.iter().cloned()).collect();
        for written in &all {
            writeln!(out, "Wrote    {written}")?;
        }
        if all.is_empty() {
            writeln!(out, "Next     --save NAME keeps the model, the rows and a page about them")?;
        }
        Ok(out)
    }
}

fn data(out: &mut String, path: &Path, model: &TableModel, table: &Table) -> Outcome<()> {
    let encoder = model.encoder();
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let (rows, columns) = (counted(table.row_count(), "row"), counted(table.names().len(), "column"));
    writeln!(out, "Data     {}: {rows}, {columns}", clipped(&name, 40))?;
    if model.rows().len() < table.row_count() {
        writeln!(out, "         {} rows fitted", model.rows().len())?;
    }
    let features = model.regression().design().feature_count();
    let (columns, features) = (counted(encoder.columns.len(), "column"), counted(features, "feature"));
    writeln!(out, "         predicting {} from {columns} ({features})", clipped(&encoder.target, 28))?;
    for left_out in &encoder.left_out {
        writeln!(out, "         left out: {} ({})", clipped(&left_out.name, 20), clipped(&left_out.reason, 38))?;
    }
    Ok(())
}

fn rows(out: &mut String, model: &TableModel, table: &Table) -> Outcome<()> {
    let diagnostics = model.regression().diagnostics();
    let flagged = diagnostics.flagged_rows();
    if flagged.is_empty() {
        let by = match diagnostics.outlier_probability {
            Some(_) => "more likely a gross error than not".to_owned(),
            None => format!("beyond {:.1} standard deviations", diagnostics.threshold),
        };
        writeln!(out, "Rows     no outliers flagged ({by})")?;
        return Ok(());
    }
    writeln!(out, "Rows     {} flagged; actual and predicted from the other rows:", counted(flagged.len(), "outlier"))?;
    let ids = model.encoder().id.as_ref().map(|id| table.texts(id)).transpose()?;
    writeln!(
        out,
        "         {:<20} {:>12} {:>12} {:>8}",
        if ids.is_some() { "id" } else { "row" },
        "actual",
        "predicted",
        "s.d. off"
    )?;
    for &row in flagged.iter().take(MOST_ROWS) {
        let place = model.rows()[row];
        let id = ids.as_ref().map_or((place + 1).to_string(), |ids| ids[place].clone().unwrap_or_default());
        let (actual, predicted) = (diagnostics.actual[row], diagnostics.predicted[row]);
        let off = diagnostics.z[row];
        writeln!(out, "         {} {:>12} {:>12} {off:>8.1}", padded(&id, 20), short(actual), short(predicted))?;
    }
    if flagged.len() > MOST_ROWS {
        writeln!(out, "         and {} more: --rows FILE writes them all", flagged.len() - MOST_ROWS)?;
    }
    Ok(())
}
