//! A fitted regression as one self-contained page, and its charts as figures.
//!
//! A [`Report`] says in short how good the fit is, what drives it and how many rows to check, and answers four questions in order:
//! Which rows should I check? What matters? Can I trust the error bars? What happened during the fit? Each has a file of its own
//! under `sections`, which writes the answer and describes the charts; [`Report::html`] puts them on a page and [`Report::figures`] draws them as SVG.

pub mod chart;
mod grounds;
mod page;
mod rows;
mod sections;
mod svg;
mod visible;
mod words;

use std::time::{Duration, Instant};

use robustard::{Control, Diagnostics, Regression};
use robustard_table::{ModelError, Table, TableModel};

use rows::RowList;
use sections::Section;
pub use visible::visible;
pub use words::{
    clipped, compared_words, counted, effect_words, is_unusual, noise_words, reason_words, short, solver_name,
    status_words, three_digits, time_words, unusual_words,
};

/// Longer names are cut on the page.
const LONGEST_NAME: usize = 80;

/// A report about a regression on its training table.
#[derive(Debug)]
pub struct Report {
    title: String,
    subtitle: String,
    warning: Option<String>,
    sections: Vec<Section>,
    rows: RowList,
}

/// A chart on its own.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name, fit for a file.
    pub name: String,
    /// The drawing.
    pub svg: String,
}

/// Draws a chart that does not refer to rows of a report as SVG.
pub fn draw(chart: &chart::Chart) -> String {
    svg::draw(chart, &RowList::default())
}

/// Where the rows come from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What the page calls it.
    pub name: &'a str,
    /// The time that reading it took, if it was read.
    pub reading: Option<Duration>,
}

/// Rows of the table that was fitted, whether the page has them or only a sample of them.
#[derive(Debug, Clone, Copy)]
struct Totals {
    rows: usize,
    flagged: usize,
    excluded: usize,
}

impl Totals {
    fn of(regression: &Regression, rows: &RowList) -> Self {
        match regression.whole() {
            Some(whole) => {
                let [rows, flagged, excluded] =
                    [whole.rows, whole.flagged, whole.set_aside].map(|count| count as usize);
                Self { rows, flagged, excluded }
            }
            None => Self { rows: rows.total, flagged: rows.flagged, excluded: regression.set_aside().len() },
        }
    }
}

/// What the sections are written from.
struct View<'a> {
    model: &'a TableModel,
    regression: &'a Regression,
    table: &'a Table,
    control: &'a Control,
    diagnostics: &'a Diagnostics,
    rows: RowList,
    totals: Totals,
    /// The target's name.
    target: String,
    /// The features' names, in the order of the model's columns.
    features: Vec<String>,
    source: Source<'a>,
    /// When the report was begun.
    started: Instant,
}

impl Report {
    /// `table` must be the one that `model` was fitted to; of a fit by passes, the rows that the model keeps. Stopped, the page has no second
    /// fit to compare with.
    pub fn new(model: &TableModel, table: &Table, source: Source<'_>, control: &Control) -> Result<Self, ModelError> {
        let started = Instant::now();
        let of_kept = model.regression().whole().map(|_| model.of_kept_rows());
        let model = of_kept.as_ref().unwrap_or(model);
        let (encoder, regression) = (model.encoder(), model.regression());
        let diagnostics = regression.diagnostics();
        let rows = RowList::new(model, table)?;
        let name = |name: &String| clipped(name, LONGEST_NAME);
        let features = regression.design().feature_names().iter().map(name).collect();
        let target = name(&encoder.target);
        let totals = Totals::of(regression, &rows);
        let view =
            View { model, regression, table, control, diagnostics, rows, totals, target, features, source, started };
        let sections = sections::all(&view)?;
        let status = regression.status();
        Ok(Self {
            title: format!("{} in {}", view.target, clipped(source.name, LONGEST_NAME)),
            subtitle: format!(
                "{} fitted, {} used",
                counted(totals.rows, "row"),
                counted(encoder.columns.len(), "column"),
            ),
            warning: (status != robustard::Status::Converged).then(|| format!("The fit {}.", status_words(status))),
            sections,
            rows: view.rows,
        })
    }

    /// The page.
    pub fn html(&self) -> String {
        page::render(self)
    }

    /// Every chart as SVG.
    pub fn figures(&self) -> Vec<Figure> {
        let charts = self.sections.iter().flat_map(Section::all_charts);
        charts.map(|chart| Figure { name: chart.id.clone(), svg: visible(&svg::draw(chart, &self.rows)) }).collect()
    }
}
