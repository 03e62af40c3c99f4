//! A fitted regression as one self-contained page, and its charts as figures.
//!
//! A [`Report`] answers five questions in order: How good is it? What matters? Which rows look wrong? Can I trust the error
//! bars? What happened during the fit? Each has a file of its own under `sections`, which writes the answer and describes the
//! charts; [`Report::html`] puts them on a page and [`Report::figures`] draws them as SVG.

pub mod chart;
mod page;
mod rows;
mod sections;
mod svg;
mod words;

use robustard::Diagnostics;
use robustard_table::{Regression, RegressionError, Table};

use rows::RowList;
use sections::Section;
pub use words::{clipped, counted, noise_words, short, status_words};

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
    pub name: &'static str,
    /// The drawing.
    pub svg: String,
}

/// Draws a chart that does not refer to rows of a report as SVG.
pub fn draw(chart: &chart::Chart) -> String {
    svg::draw(chart, &RowList::default())
}

/// What the sections are written from.
struct View<'a> {
    regression: &'a Regression,
    table: &'a Table,
    diagnostics: Diagnostics,
    rows: RowList,
    /// The target's name.
    target: String,
    /// The features' names, in the order of the model's columns.
    features: Vec<String>,
}

impl Report {
    /// `table` must be the one that `regression` was fitted to; `source` is what the page calls it.
    pub fn new(regression: &Regression, table: &Table, source: &str) -> Result<Self, RegressionError> {
        let diagnostics = regression.diagnose();
        let rows = RowList::new(regression, table, &diagnostics)?;
        let name = |name: &String| clipped(name, LONGEST_NAME);
        let features = regression.features.names(&regression.encoder.names()).iter().map(name).collect();
        let view = View { regression, table, diagnostics, rows, target: name(&regression.encoder.target), features };
        let sections = sections::all(&view)?;
        let encoder = &regression.encoder;
        let status = regression.model.status();
        Ok(Self {
            title: format!("{} in {}", view.target, clipped(source, LONGEST_NAME)),
            subtitle: format!(
                "{} fitted, {} used, {} kept of {}",
                counted(regression.rows.len(), "row"),
                counted(encoder.columns.len(), "column"),
                counted(regression.feature_summaries().iter().filter(|feature| feature.kept).count(), "feature"),
                regression.telling_features(),
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
        let charts = self.sections.iter().flat_map(|section| &section.charts);
        charts.map(|chart| Figure { name: chart.id, svg: svg::draw(chart, &self.rows) }).collect()
    }
}
