//! `robustard fit`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use robustard::{Control, Diagnostics, Part, PartCoverage, Recipe, Regression, Status, TargetTransform, Whole};
use robustard_report::{
    Source, counted, noise_words, reason_words, short, solver_name, status_words, three_digits, time_words,
};
use robustard_table::{
    EncodeOptions, Fitted, Input, ModelError, ReadOptions, Sealed, StreamedFit, Table, TableError, TableModel,
    TableWriter, fit_stream, is_pipe, is_stdout, model_to_bytes, publish, read, read_sources, row_table, rows_of,
    sealed, sources,
};

use crate::args::{FitArguments, StreamArguments, TableArguments};
use crate::colour::say;
use crate::effects::what_matters;
use crate::json::Summary;
use crate::output::{self, Plan, check_figures, existing};
use crate::progress::{begin_what_is_not_kept, begin_writing, control};
use crate::report::{Pages, Written, source_name};
use crate::text::{clipped, padded, wrapped};
use crate::{Ending, NOTHING_WRITTEN, Outcome, Usage};

/// Rows shown in the summary.
const MOST_ROWS: usize = 10;

/// Options of `fit`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard fit houses.csv --target price
  robustard fit houses.csv --target price --save houses
  robustard fit 'readings/*.parquet' --target load --memory 2GB --save load
  robustard fit sensors.parquet --target load --id time --missing drop --features rff:256
  cat houses.csv | robustard fit - --target price --json | jq .effects.columns")]
pub struct Fit {
    /// The table: CSV, TSV, Parquet, Arrow or JSON lines, gzipped or not; several files, folders or patterns ('data/*.parquet') are
    /// one table; - for standard input
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<PathBuf>,
    #[command(flatten)]
    reading: TableArguments,
    #[command(flatten)]
    fitting: FitArguments,
    #[command(flatten)]
    streaming: StreamArguments,
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
    /// Write the files also when Ctrl-C has ended the fit: the model so far (the exit code is 130 all the same)
    #[arg(long, help_heading = "Output")]
    save_interrupted: bool,
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
        let mut reading = self.reading.options(&self.fitting.id);
        reading.limits.memory = self.streaming.memory();
        let sources = self.sources()?;
        let table = match &sources {
            Some(sources) if self.streaming.options().streams(sources) => None,
            Some(sources) => match read_sources(sources, &reading) {
                // It was packed smaller than it looked.
                Err(TableError::TooLarge { .. }) => None,
                table => Some(table?),
            },
            None => Some(read(&self.tables[0], &reading)?),
        };
        let time = started.elapsed();
        // Until here Ctrl-C ends everything at once.
        let control = control(self.quiet, recipe.settings().tolerance)?;
        if !self.save_interrupted {
            begin_what_is_not_kept();
        }
        let fitted = table.map(|table| self.fit_table(table, time, &recipe, &control));
        let mut done = match (fitted, &sources) {
            // It takes more than the sizes of the files let expect.
            (None | Some(Err(ModelError::Table(TableError::Memory { .. }))), Some(sources)) => {
                self.stream(sources, &reading, &recipe, &control)?
            }
            (Some(fitted), _) => fitted?,
            (None, None) => return Err("there is no table".into()),
        };
        let outputs = self.write(&mut done, &control)?;
        drop(control);
        if !self.quiet {
            done.notes.iter().for_each(|note| say(&format!("note: {note}")));
        }
        let text = match self.json {
            true if outputs.are_written => format!("{}\n", serde_json::to_string_pretty(&Summary::new(&done)?)?),
            false if !self.quiet => self.summary(&done, &outputs)?,
            _ => String::new(),
        };
        let ending = match done.model.regression().status() {
            _ if outputs.is_interrupted => Ending::Interrupted,
            Status::Converged => Ending::Done,
            _ if self.fitting.strict => Ending::NotConverged,
            _ => Ending::Done,
        };
        if self.writes_to_stdout() {
            // Data and words do not mix.
            say(text.trim_end());
        } else if self.json {
            output::print(&text)?;
        } else {
            output::print_summary(&text)?;
        }
        if !outputs.are_written {
            say(&format!("{NOTHING_WRITTEN}; --save-interrupted writes the model so far"));
        }
        Ok(ending)
    }

    /// Writes what is asked for: all of it or, if something fails or Ctrl-C has ended the fit, nothing.
    fn write(&self, done: &mut Done, control: &Control) -> Outcome<Outputs> {
        if !self.quiet {
            // The summary needs them: what takes long comes before anything is written.
            done.model.regression().effects();
        }
        let is_over = || control.is_stopped() && !self.save_interrupted;
        let name = source_name(Path::new(&self.name()));
        let source = Source { name: &name, reading: done.reading };
        let started = Instant::now();
        let pages = self.pages();
        let report =
            if is_over() { Written::default() } else { pages.write(&done.model, &done.table, source, control)? };
        begin_writing();
        let page = (!report.words.is_empty()).then(|| started.elapsed());
        let mut files = report.files;
        if !is_over() {
            files.extend(self.row_file(done)?);
        }
        // Last: who finds a new model finds all that belongs to it.
        if let Some(path) = self.output.as_ref().filter(|_| !is_over()) {
            files.push(sealed(path, &model_to_bytes(&done.model)?, existing(self.force))?);
        }
        let (is_interrupted, are_written) = (control.is_stopped(), !is_over());
        if are_written {
            publish(files)?;
        }
        Ok(Outputs { pages: report.words, page, is_interrupted, are_written })
    }

    /// What the table is called.
    fn name(&self) -> String {
        match self.tables.as_slice() {
            [one] if one == Path::new("-") => "standard input".to_owned(),
            [one] => one.display().to_string(),
            [first, ..] => format!("{} and {} more", first.display(), self.tables.len() - 1),
            [] => String::new(),
        }
    }

    /// The files of the table; none if it comes from standard input.
    fn sources(&self) -> Outcome<Option<Vec<robustard_table::Source>>> {
        let is_stdin = |path: &PathBuf| path == Path::new("-");
        match self.tables.iter().any(is_stdin) {
            true if self.tables.len() > 1 => {
                Err(Usage("standard input cannot be one of several tables; write it to a file first".to_owned()).into())
            }
            true => Ok(None),
            // A pipe is read once, and at once.
            false if self.tables.len() == 1 && is_pipe(&self.tables[0]) => Ok(None),
            false => Ok(Some(sources(&self.tables)?)),
        }
    }

    /// What is fitted, and how much memory that may take.
    fn columns(&self) -> EncodeOptions {
        let mut columns = self.fitting.columns();
        columns.limits.memory = self.streaming.memory();
        columns
    }

    /// Fits a table in memory.
    fn fit_table(
        &self,
        table: Table,
        reading: Duration,
        recipe: &Recipe,
        control: &Control,
    ) -> Result<Done, ModelError> {
        let Fitted { model, notes } = TableModel::fit(&table, &self.columns(), recipe, control)?;
        let (rows, columns) = (table.row_count(), table.names().len());
        Ok(Done { model, table, rows, columns, notes, reading: Some(reading), row_file: None })
    }

    /// Fits by passes over a cache, and writes the rows in the last one.
    fn stream(
        &self,
        sources: &[robustard_table::Source],
        reading: &ReadOptions,
        recipe: &Recipe,
        control: &Control,
    ) -> Outcome<Done> {
        if !self.quiet {
            say(
                "note: the table is read in pieces and fitted by passes over a cache on disk (--memory SIZE allows more memory)",
            );
        }
        let create = |path| TableWriter::create(path, existing(self.force));
        begin_writing();
        let mut rows = self.rows.as_deref().map(create).transpose()?;
        let id = self.fitting.id.as_deref();
        let mut write_rows = |labels: &[String], diagnostics: &Diagnostics| match &mut rows {
            Some(rows) => rows.write(&rows_of(id, labels.to_vec(), diagnostics, None)),
            None => Ok(()),
        };
        let options = self.streaming.options();
        let columns = self.columns();
        let fit =
            fit_stream(Input::Files(sources), reading, &columns, recipe, control, &options, Some(&mut write_rows))?;
        let row_file = rows.map(TableWriter::seal).transpose()?;
        let StreamedFit { model, sample, names, notes } = fit;
        let (rows, columns) = (model.table_rows(), names.len());
        Ok(Done { model, table: sample, rows, columns, notes, reading: None, row_file })
    }

    fn pages(&self) -> Pages<'_> {
        let (page, figures) = (self.report.as_deref(), self.figures.as_deref());
        Pages { page, figures, existing: existing(self.force) }
    }

    /// The rows on the disk, if they are asked for; those of a fit by passes have been written.
    fn row_file(&self, done: &mut Done) -> Outcome<Option<Sealed>> {
        let Some(path) = self.rows.as_ref().filter(|_| !done.is_streamed()) else { return Ok(done.row_file.take()) };
        let mut writer = TableWriter::create(path, existing(self.force))?;
        writer.write(&row_table(&done.model, &done.table)?)?;
        Ok(Some(writer.seal()?))
    }

    fn writes_to_stdout(&self) -> bool {
        [&self.rows, &self.report].into_iter().flatten().any(|path| is_stdout(path))
    }

    /// Refuses before any work what would fail or lose something after it.
    fn check_outputs(&self) -> Outcome<()> {
        if self.output.as_ref().is_some_and(|path| is_stdout(path)) {
            return Err(Usage("a model is not text; give -o a file name".to_owned()).into());
        }
        if self.json && self.writes_to_stdout() {
            return Err(Usage("--json takes standard output; give --rows and --report file names".to_owned()).into());
        }
        if let Some(folder) = &self.figures {
            check_figures(folder, self.force)?;
        }
        Plan::new(self.force)
            .writes([&self.output, &self.rows, &self.report].into_iter().flatten())
            .keeps("the file of settings", self.fitting.settings())
            .keeps("the checkpoint", self.streaming.checkpoint())
            .reads_table(&self.tables)
            .check()
    }

    fn summary(&self, done: &Done, outputs: &Outputs) -> Outcome<String> {
        let mut out = String::new();
        let model = &done.model;
        data(&mut out, &self.name(), done)?;
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
            match regression.whole() {
                Some(whole) if whole.passes != 1 => format!("{} passes over the rows", whole.passes),
                Some(_) => "one pass over the rows".to_owned(),
                None => counted(regression.model().iterations(), "iteration"),
            },
            time_words(regression.elapsed()),
            status_words(regression.status())
        )?;
        if let Some(selection) = regression.selection() {
            let on =
                regression.whole().map_or_else(String::new, |whole| format!(" on {}", counted(whole.chosen_on, "row")));
            writeln!(out, "         {} features, chosen{on}:", regression.features())?;
            for reason in &selection.reasons {
                wrapped(&reason_words(reason), 69).iter().try_for_each(|line| writeln!(out, "           {line}"))?;
            }
        }
        let quality = regression.quality();
        let aside = match regression.whole().map_or(regression.set_aside().len(), |whole| whole.set_aside as usize) {
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
        let checks = regression.coverage_checks();
        let named = [0.95, 0.5].map(|level| PartCoverage::worst(&checks, level));
        // That of all rows at 95% stands above.
        for check in named.into_iter().flatten().filter(|check| check.part != Part::All || check.level < 0.95) {
            let (from, to) = (three_digits(check.from), three_digits(check.to));
            let (share, level) = (100.0 * check.covered, 100.0 * check.level);
            let place =
                if check.part == Part::All { String::new() } else { format!(" where predictions are {from} to {to}") };
            writeln!(out, "         but {share:.1}% in their {level:.0}% interval{place}")?;
        }
        what_matters(&mut out, model)?;
        match regression.whole() {
            Some(whole) => rows_of_stream(&mut out, model, whole)?,
            None => rows(&mut out, model, &done.table)?,
        }
        writeln!(out, "Time     {}", Times { reading: done.reading, page: outputs.page }.words(regression))?;
        let files = [("model", &self.output), ("all rows", &self.rows)];
        let files = files.iter().filter_map(|(what, path)| Some(format!("{what} to {}", path.as_ref()?.display())));
        if !outputs.are_written {
            return Ok(out);
        }
        let all: Vec<String> = files.chain(outputs.pages.iter().cloned()).collect();
        for written in &all {
            writeln!(out, "Wrote    {written}")?;
        }
        if all.is_empty() {
            writeln!(out, "Next     --save NAME keeps the model, the rows and a page about them")?;
        }
        Ok(out)
    }
}

/// What became of the outputs.
struct Outputs {
    /// Page and figures, in words.
    pages: Vec<String>,
    /// The time that they took.
    page: Option<Duration>,
    is_interrupted: bool,
    /// False if Ctrl-C has ended the fit.
    are_written: bool,
}

/// Times besides those of the fit.
#[derive(Clone, Copy)]
struct Times {
    reading: Option<Duration>,
    /// Page and figures, if there are any.
    page: Option<Duration>,
}

impl Times {
    fn words(self, regression: &Regression) -> String {
        let fitting = Some(regression.fitting_time());
        let choosing = regression.selection().map(|_| regression.choosing_time());
        let parts = [("reading", self.reading), ("choosing", choosing), ("fitting", fitting), ("report", self.page)];
        let part = |(what, time): (&str, Option<Duration>)| Some(format!("{what} {}", time_words(time?)));
        parts.into_iter().filter_map(part).collect::<Vec<_>>().join(", ")
    }
}

/// A fit with what is said about it.
pub struct Done {
    /// The model.
    pub model: TableModel,
    /// The table; of a streamed fit, the rows that the model keeps.
    pub table: Table,
    /// Rows and columns of the whole table.
    pub rows: usize,
    /// See `rows`.
    pub columns: usize,
    notes: Vec<String>,
    /// The rows of a fit by passes, on the disk.
    row_file: Option<Sealed>,
    /// The time that reading took, if the fit did not read.
    pub reading: Option<Duration>,
}

impl Done {
    /// Whether the table was fitted by passes, so that `table` is some of its rows.
    pub fn is_streamed(&self) -> bool {
        self.model.regression().whole().is_some()
    }
}

fn data(out: &mut String, name: &str, done: &Done) -> Outcome<()> {
    let model = &done.model;
    let encoder = model.encoder();
    let (rows, columns) = (counted(done.rows, "row"), counted(done.columns, "column"));
    writeln!(out, "Data     {}: {rows}, {columns}", clipped(name, 40))?;
    let fitted = model.regression().fitted_rows();
    if fitted < done.rows as u64 {
        writeln!(out, "         {fitted} rows fitted")?;
    }
    let features = model.regression().design().feature_count();
    let (columns, features) = (counted(encoder.columns.len(), "column"), counted(features, "feature"));
    writeln!(out, "         predicting {} from {columns} ({features})", clipped(&encoder.target, 28))?;
    for left_out in &encoder.left_out {
        let name = clipped(&left_out.name, 20);
        let hint = if left_out.may_be_category() { format!("; --categorical {name} uses it") } else { String::new() };
        let words = format!("left out: {name} ({}{hint})", left_out.reason);
        wrapped(&words, 69).iter().try_for_each(|line| writeln!(out, "         {line}"))?;
    }
    Ok(())
}

/// The rows to look at of a streamed fit.
fn rows_of_stream(out: &mut String, model: &TableModel, whole: &Whole) -> Outcome<()> {
    if whole.flagged == 0 {
        writeln!(out, "Rows     no outliers flagged")?;
        return Ok(());
    }
    let flagged = counted(usize::try_from(whole.flagged)?, "outlier");
    writeln!(out, "Rows     {flagged} flagged; actual and predicted from the other rows:")?;
    let label = if model.encoder().id.is_some() { "id" } else { "row" };
    writeln!(out, "         {label:<20} {:>12} {:>12} {:>8}", "actual", "predicted", "s.d. off")?;
    for (row, label) in whole.suspicious.iter().zip(model.suspicious()).take(MOST_ROWS) {
        let (actual, predicted) = (short(row.actual), short(row.predicted));
        writeln!(out, "         {} {actual:>12} {predicted:>12} {:>8.1}", padded(label, 20), row.z)?;
    }
    let rest = (whole.flagged as usize).saturating_sub(MOST_ROWS);
    if rest > 0 {
        writeln!(out, "         and {rest} more: --rows FILE writes them all")?;
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
    let within = diagnostics.flagged_within();
    if within > 0 && diagnostics.outlier_probability.is_none() {
        let (beyond, threshold) = (flagged.len() - within, diagnostics.threshold);
        let words = format!(
            "{beyond} beyond {threshold:.1} standard deviations, {within} less far off but excluded as gross errors when the noise was \
             chosen"
        );
        wrapped(&words, 69).iter().try_for_each(|line| writeln!(out, "         {line}"))?;
    }
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
