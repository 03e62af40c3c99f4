//! A chart as data: what is drawn, not how. The page draws it with plotly.js, [`crate::draw`] as a figure for papers.

use serde::{Serialize, Serializer};

/// A chart.
#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// Its name in the page and on disk.
    pub id: String,
    /// Heading.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub explanation: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn, first at the bottom.
    pub layers: Vec<Layer>,
    /// Whether it is one of many, drawn small.
    pub is_small: bool,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub struct Axis {
    /// Its label.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// If not empty, names for the places 0, 1, 2, …
    pub categories: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), log: false, categories: Vec::new() }
    }

    /// A logarithmic axis; values of 0 or less are not drawn.
    pub fn log(label: impl Into<String>) -> Self {
        Self { log: true, ..Self::new(label) }
    }

    /// An axis of names, the first at place 0.
    pub fn categories(label: impl Into<String>, categories: Vec<String>) -> Self {
        Self { categories, ..Self::new(label) }
    }
}

/// What a layer means; the page and the figures choose the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tone {
    /// What the model says.
    Model,
    /// The other model.
    Other,
    /// Something suspicious.
    Flagged,
    /// Background.
    Muted,
    /// A line to compare with.
    Guide,
}

/// One thing drawn.
#[derive(Debug, Clone, Serialize)]
pub struct Layer {
    /// What the legend calls it; none for what explains itself.
    pub name: Option<String>,
    /// What it means.
    pub tone: Tone,
    /// Its shape.
    #[serde(flatten)]
    pub mark: Mark,
}

/// Shapes.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "mark", rename_all = "kebab-case")]
pub enum Mark {
    /// The rows of the page's row list, the flagged ones in a colour of their own.
    Rows {
        /// Horizontal place.
        x: RowField,
        /// Vertical place.
        y: RowField,
    },
    /// Lines; a NaN ends one and begins the next.
    Line {
        /// Horizontal places.
        x: Numbers,
        /// Vertical places.
        y: Numbers,
        /// Whether it is dashed.
        dashed: bool,
        /// What hovering shows for each point; may be empty.
        text: Vec<String>,
    },
    /// The area between two curves.
    Band {
        /// Horizontal places.
        x: Numbers,
        /// Lower curve.
        lower: Numbers,
        /// Upper curve.
        upper: Numbers,
    },
    /// Values along the horizontal axis, at its foot.
    Rug {
        /// The values.
        x: Numbers,
        /// Where the foot is.
        y: f64,
    },
    /// Points with horizontal error bars.
    Intervals {
        /// Points.
        x: Numbers,
        /// Half the width of the bars.
        error: Numbers,
        /// Vertical places.
        y: Numbers,
        /// What hovering shows.
        text: Vec<String>,
    },
}

/// A column of the page's row list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowField {
    /// The target.
    Actual,
    /// Its leave-one-out prediction.
    Predicted,
    /// Standard deviations off.
    Z,
    /// Leverage.
    Leverage,
    /// λ.
    NoiseVariance,
    /// Place in the order of λ.
    NoiseRank,
    /// Where z would be if it were normal.
    Quantile,
    /// The input, if there is only one.
    Input,
}

/// Numbers with nine digits; what is not finite becomes `null`, a gap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Numbers(pub Vec<f64>);

impl FromIterator<f64> for Numbers {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|&value| value.is_finite().then(|| rounded(value))))
    }
}

/// To nine significant digits: more than a chart can show, but prices and populations stay whole.
fn rounded(value: f64) -> f64 {
    format!("{value:.8e}").parse().unwrap_or(value)
}

impl Layer {
    /// The rows by two of their fields.
    pub fn rows(x: RowField, y: RowField) -> Self {
        Self { name: None, tone: Tone::Model, mark: Mark::Rows { x, y } }
    }

    /// A line.
    pub fn line(
        name: Option<&str>,
        tone: Tone,
        x: impl IntoIterator<Item = f64>,
        y: impl IntoIterator<Item = f64>,
    ) -> Self {
        let mark =
            Mark::Line { x: x.into_iter().collect(), y: y.into_iter().collect(), dashed: false, text: Vec::new() };
        Self { name: name.map(str::to_owned), tone, mark }
    }

    /// A dashed line to compare with.
    pub fn guide(name: Option<&str>, x: [f64; 2], y: [f64; 2]) -> Self {
        let mark = Mark::Line { x: Numbers(x.to_vec()), y: Numbers(y.to_vec()), dashed: true, text: Vec::new() };
        Self { name: name.map(str::to_owned), tone: Tone::Guide, mark }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_gaps_are_null() {
        let numbers = Numbers(vec![1.0 / 3.0, f64::NAN, 1e-300, -123456789.0, f64::INFINITY]);
        assert_eq!(serde_json::to_string(&numbers).unwrap(), "[0.333333333,null,1e-300,-123456789.0,null]");
    }
}
