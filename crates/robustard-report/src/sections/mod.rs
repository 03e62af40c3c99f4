//! The parts of the report, one file each.

pub mod features;
mod history;
mod intervals;
mod quality;
mod suspicious;

use robustard_table::ModelError;

use crate::View;
use crate::chart::Chart;

/// A question and its answer.
#[derive(Debug)]
pub struct Section {
    /// Its name in the page.
    pub id: &'static str,
    /// The question.
    pub question: &'static str,
    /// The answer in a few sentences, each a paragraph of its own.
    pub answer: Vec<Paragraph>,
    /// Numbers to see at a glance.
    pub tiles: Vec<Tile>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Further charts, which are shown when they are asked for.
    pub more: Vec<Chart>,
    /// What comes below them.
    pub detail: Detail,
}

impl Section {
    /// All charts, shown or not.
    pub fn all_charts(&self) -> impl Iterator<Item = &Chart> {
        self.charts.iter().chain(&self.more)
    }
}

/// A paragraph, perhaps with a label before it.
#[derive(Debug)]
pub struct Paragraph {
    /// What it is about.
    pub label: Option<&'static str>,
    /// What it says.
    pub text: String,
}

impl Paragraph {
    fn labelled(label: &'static str, text: String) -> Self {
        Self { label: Some(label), text }
    }
}

impl From<String> for Paragraph {
    fn from(text: String) -> Self {
        Self { label: None, text }
    }
}

/// A number to see at a glance.
#[derive(Debug)]
pub struct Tile {
    /// The number.
    pub value: String,
    /// What it is.
    pub label: String,
}

/// What a section shows beside charts.
#[derive(Debug)]
pub enum Detail {
    /// Nothing.
    None,
    /// The columns.
    Columns(features::Columns),
    /// The suspicious rows as a table.
    Rows,
    /// Names and values.
    Facts(Vec<(String, String)>),
}

/// All sections in order.
pub fn all(view: &View<'_>) -> Result<Vec<Section>, ModelError> {
    Ok(vec![
        quality::section(view)?,
        suspicious::section(view),
        features::section(view),
        intervals::section(view),
        history::section(view),
    ])
}

fn tile(value: impl Into<String>, label: impl Into<String>) -> Tile {
    Tile { value: value.into(), label: label.into() }
}

/// Smallest and largest finite value; [0, 1] of nothing.
fn range(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    let finite = values.filter(|value| value.is_finite());
    let low = finite.clone().fold(f64::INFINITY, f64::min);
    let high = finite.fold(f64::NEG_INFINITY, f64::max);
    if low <= high { [low, high] } else { [0.0, 1.0] }
}
