//! A regression on a table: the schema and the fitted regression together, so that a new table with the same columns is all that
//! prediction needs.

use std::borrow::Cow;

use robustard::faer::Mat;
use robustard::{
    Beyond, Column, Control, Dataset, DatasetError, Explanation, Means, Prediction, Recipe, Regression, SimilarRow,
    StreamError,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use crate::encode::{EncodeOptions, Encoded, Encoder, Missing};
use crate::error::TableError;
use crate::table::Table;

/// Why a model could not be fitted or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The regression.
    #[error(transparent)]
    Regression(#[from] robustard::Error),
}

impl ModelError {
    /// The same where rows are counted from one further down.
    #[must_use]
    pub fn after(self, rows: usize) -> Self {
        match self {
            Self::Table(error) => Self::Table(error.after(rows)),
            error => error,
        }
    }
}

impl From<DatasetError> for ModelError {
    fn from(error: DatasetError) -> Self {
        Self::Regression(error.into())
    }
}

impl From<StreamError<TableError>> for ModelError {
    fn from(error: StreamError<TableError>) -> Self {
        match error {
            StreamError::Rows(error) => Self::Table(error),
            StreamError::Fit(error) => Self::Regression(error),
        }
    }
}

/// A fitted regression on a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableModel {
    encoder: Encoder,
    regression: Regression,
    /// The rows of the training table that were fitted, and how many there were.
    rows: Vec<usize>,
    table_rows: usize,
    fingerprint: Fingerprint,
    /// What the model was made by, if it is to come back as that.
    estimator: Option<String>,
    /// What the suspicious rows of a table that was fitted by passes are called: their ids, or their numbers counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suspicious: Vec<String>,
    /// What the rows are called that explanations may refer to, if rows have ids: their numbers in the training table, in order, and ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ids: Vec<(usize, String)>,
    /// The numbers in the training table of the rows of this one, if it is the table of the rows that a model keeps.
    #[serde(skip)]
    numbers: Vec<usize>,
}

/// Tells a table from others by the numbers that went into the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Rows fitted.
    pub rows: usize,
    /// Inputs, after categories and indicators became columns.
    pub inputs: usize,
    /// XXH3 of 128 bits of inputs and target, as doubles, in hexadecimal digits.
    pub xxh3: String,
}

impl Fingerprint {
    fn of(dataset: &Dataset<'_>) -> Self {
        let mut hasher = Xxh3::new();
        dataset.blocks(|_, block| {
            for row in block.row_iter().filter_map(|row| row.try_as_row_major()) {
                hasher.update(bytemuck::cast_slice(row.as_slice()));
            }
        });
        hasher.update(bytemuck::cast_slice(dataset.target()));
        let xxh3 = format!("{:032x}", hasher.digest128());
        Self { rows: dataset.row_count(), inputs: dataset.input_count(), xxh3 }
    }
}

/// A model with what should be said about its fit.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// The model.
    pub model: TableModel,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// Predictions for the rows of a table that have all inputs, in the target's units.
#[derive(Debug, Clone)]
pub struct TablePrediction {
    /// The rows of the table that were predicted.
    pub rows: Vec<usize>,
    /// Their predictions.
    pub values: Prediction,
    /// What should be said about values that the model has not seen.
    pub unseen: Vec<String>,
    /// Rows without a prediction, because values are missing.
    pub left_out: usize,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// Why the rows of a table that have all inputs are predicted as they are.
#[derive(Debug, Clone)]
pub struct TableExplanation {
    /// The rows of the table that were predicted.
    pub rows: Vec<usize>,
    /// Their explanations.
    pub values: Vec<Explanation>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// What a prediction of one row rests on.
#[derive(Debug, Clone)]
pub struct RowGrounds {
    /// Which row of the table.
    pub row: usize,
    /// What each column contributes.
    pub explanation: Explanation,
    /// Rows of the training table, of those that the model keeps, whose targets have most weight in the prediction.
    pub similar: Vec<SimilarRow>,
    /// How unusual the value of each column is: the standard deviations beyond which two normal tails hold as many rows as are as far out, or
    /// have a level as rare.
    pub unusual: Vec<f64>,
}

/// Expected values for the rows of a table that have all inputs, in the target's units.
#[derive(Debug, Clone)]
pub struct TableMeans {
    /// The rows of the table that were predicted.
    pub rows: Vec<usize>,
    /// Expected values.
    pub mean: Vec<f64>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// The rows of a table that can be fitted.
pub struct TableData<'t> {
    /// Their numbers.
    pub dataset: Dataset<'t>,
    /// Which rows they are.
    pub rows: Vec<usize>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// Inputs as one matrix.
struct Matrix {
    inputs: Mat<f64>,
    rows: Vec<usize>,
    notes: Vec<String>,
}

impl Encoder {
    /// The rows of a training table that have target, weight and inputs.
    pub fn data<'t>(&self, table: &'t Table) -> Result<TableData<'t>, ModelError> {
        let target = table.role(&self.target, "the target")?;
        self.require(&self.target, &target, "target")?;
        let weights = self.weights.as_ref().map(|name| {
            let weights = table.weights(name)?;
            self.require(name, &weights, "weight")?;
            Ok::<_, TableError>(weights)
        });
        let weights = weights.transpose()?;
        let required: Vec<&[f64]> = [Some(&target), weights.as_ref()].into_iter().flatten().map(|v| &**v).collect();
        let Encoded { mut columns, mut rows, mut notes } = self.encode(table, &required)?;
        if let Some(weights) = weights.as_ref().filter(|weights| rows.iter().any(|&row| weights[row] == 0.0)) {
            let counting: Vec<usize> = (0..rows.len()).filter(|&k| weights[rows[k]] != 0.0).collect();
            if counting.is_empty() {
                return Err(TableError::NoWeight { column: self.weights.clone().unwrap_or_default() }.into());
            }
            notes.push(format!("{} rows of weight 0 are left out", rows.len() - counting.len()));
            let take = |column: &Column<'_>| Column::Owned(counting.iter().map(|&k| column.values()[k]).collect());
            columns = columns.iter().map(take).collect();
            rows = counting.iter().map(|&k| rows[k]).collect();
        }
        if rows.is_empty() {
            return Err(TableError::AllDropped.into());
        }
        let is_whole = rows.len() == table.row_count();
        let kept = |values: Cow<'t, [f64]>| -> Cow<'t, [f64]> {
            if is_whole { values } else { rows.iter().map(|&row| values[row]).collect() }
        };
        let mut dataset = Dataset::from_columns(columns, kept(target))?;
        dataset =
            dataset.with_names(self.names())?.with_groups(&self.groups())?.with_input_columns(self.input_columns())?;
        if let Some(weights) = weights {
            dataset = dataset.with_weights(kept(weights))?;
        }
        Ok(TableData { dataset, rows, notes })
    }

    /// The inputs of a table as one matrix, and the rows that have all of them.
    pub fn inputs(&self, table: &Table) -> Result<(Mat<f64>, Vec<usize>), TableError> {
        self.matrix(table).map(|Matrix { inputs, rows, .. }| (inputs, rows))
    }

    /// The same, and what should be said.
    fn matrix(&self, table: &Table) -> Result<Matrix, TableError> {
        let Encoded { columns, rows, notes } = self.encode(table, &[])?;
        let mut inputs = Mat::zeros(rows.len(), columns.len());
        for (j, column) in columns.iter().enumerate() {
            inputs.col_as_slice_mut(j).iter_mut().zip(column.values().iter()).for_each(|(to, from)| *to = *from);
        }
        Ok(Matrix { inputs, rows, notes })
    }

    /// Missing targets or weights can only be dropped.
    fn require(&self, name: &str, values: &[f64], role: &'static str) -> Result<(), TableError> {
        match values.iter().position(|value| value.is_nan()) {
            Some(row) if self.missing != Missing::Drop => {
                Err(TableError::MissingRole { column: name.to_owned(), row, role })
            }
            _ => Ok(()),
        }
    }
}

impl TableModel {
    /// Fits a table.
    pub fn fit(
        table: &Table,
        columns: &EncodeOptions,
        recipe: &Recipe,
        control: &Control,
    ) -> Result<Fitted, ModelError> {
        let encoder = Encoder::fit(table, columns)?;
        columns.limits.check_fit(table.row_count(), encoder.width())?;
        let TableData { dataset, rows, notes } = encoder.data(table)?;
        let mut model = Self::fit_data(encoder, &dataset, recipe, control)?;
        (model.rows, model.table_rows) = (rows, table.row_count());
        if let Some(id) = &model.encoder.id {
            let ids = table.texts(id)?;
            model = model.with_ids(|_, row| ids[row].clone());
        }
        Ok(Fitted { model, notes })
    }

    /// Fits numbers, which are those of a table that the encoder describes: every row of it.
    pub fn fit_data(
        encoder: Encoder,
        dataset: &Dataset<'_>,
        recipe: &Recipe,
        control: &Control,
    ) -> Result<Self, ModelError> {
        let regression = robustard::fit(dataset, recipe, control)?;
        let fingerprint = Fingerprint::of(dataset);
        let table_rows = dataset.row_count();
        let rows = (0..table_rows).collect();
        Ok(Self {
            encoder,
            regression,
            rows,
            table_rows,
            fingerprint,
            estimator: None,
            suspicious: Vec::new(),
            ids: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// A model of files that were fitted by passes over their rows, of which it keeps some.
    pub(crate) fn of_stream(
        encoder: Encoder,
        regression: Regression,
        rows: Vec<usize>,
        table_rows: usize,
        fingerprint: Fingerprint,
        suspicious: Vec<String>,
    ) -> Self {
        Self {
            encoder,
            regression,
            rows,
            table_rows,
            fingerprint,
            estimator: None,
            suspicious,
            ids: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// What the rows of [`robustard::Whole::suspicious`] are called: their ids, or their numbers in the table, counted from 1.
    pub fn suspicious(&self) -> &[String] {
        &self.suspicious
    }

    /// With the ids of the rows that explanations may refer to, by their places among the rows that the model keeps and their numbers in the
    /// table.
    pub(crate) fn with_ids(mut self, id: impl Fn(usize, usize) -> Option<String>) -> Self {
        if self.encoder.id.is_some() {
            let own = |&place: &usize| Some((self.rows[place], id(place, self.rows[place])?));
            self.ids = self.regression.explaining_rows().iter().filter_map(own).collect();
            self.ids.sort_unstable();
        }
        self
    }

    /// The id of a row of the training table that an explanation refers to, if rows have ids.
    pub fn id_of(&self, row: usize) -> Option<&str> {
        let place = self.ids.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        Some(&self.ids[place].1)
    }

    /// The same as a model of the table of the rows that it keeps.
    #[must_use]
    pub fn of_kept_rows(&self) -> Self {
        let rows = self.rows.len();
        Self { rows: (0..rows).collect(), table_rows: rows, numbers: self.rows.clone(), ..self.clone() }
    }

    /// The number of a row of the table, counted from 1, as the user knows it.
    pub fn row_number(&self, row: usize) -> usize {
        self.numbers.get(row).copied().unwrap_or(row) + 1
    }

    /// What the model was made by, so that it comes back as that.
    #[must_use]
    pub fn with_estimator(self, name: &str) -> Self {
        Self { estimator: Some(name.to_owned()), ..self }
    }

    /// What the model was made by.
    pub fn estimator(&self) -> Option<&str> {
        self.estimator.as_deref()
    }

    /// The schema.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The regression.
    pub fn regression(&self) -> &Regression {
        &self.regression
    }

    /// The rows of the training table that were fitted.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Number of rows of the training table.
    pub fn table_rows(&self) -> usize {
        self.table_rows
    }

    /// What the table was.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Whether this is the table that the model was fitted to.
    pub fn was_fitted_to(&self, table: &Table) -> Result<bool, ModelError> {
        let TableData { dataset, rows, .. } = self.encoder.data(table)?;
        Ok(rows == self.rows && self.was_fitted_to_data(&dataset))
    }

    /// Whether these are the numbers that the model was fitted to.
    pub fn was_fitted_to_data(&self, dataset: &Dataset<'_>) -> bool {
        Fingerprint::of(dataset) == self.fingerprint
    }

    /// Predicts the rows of a table that have all inputs.
    pub fn predict(&self, table: &Table, control: &Control) -> Result<TablePrediction, ModelError> {
        let Matrix { inputs, rows, mut notes } = self.encoder.matrix(table)?;
        let values = self.regression.predict_under(inputs.as_ref(), control)?;
        let left_out = table.row_count() - rows.len();
        let unseen = notes[..notes.len() - usize::from(left_out > 0)].to_vec();
        notes.extend(self.note_beyond(&values.beyond));
        Ok(TablePrediction { rows, values, unseen, left_out, notes })
    }

    /// The expected values alone, which takes less time.
    pub fn predict_mean(&self, table: &Table, control: &Control) -> Result<TableMeans, ModelError> {
        let Matrix { inputs, rows, mut notes } = self.encoder.matrix(table)?;
        let Means { mean, beyond } = self.regression.predict_mean_under(inputs.as_ref(), control)?;
        notes.extend(self.note_beyond(&beyond));
        Ok(TableMeans { rows, mean, notes })
    }

    /// Explains the predictions of the rows of a table that have all inputs.
    pub fn explain(&self, table: &Table) -> Result<TableExplanation, ModelError> {
        let Matrix { inputs, rows, notes } = self.encoder.matrix(table)?;
        let values = self.regression.explain(inputs.as_ref())?;
        Ok(TableExplanation { rows, values, notes })
    }

    /// What the predictions of some rows of a table rest on, of those that have all inputs; `most` similar rows are listed for each.
    pub fn grounds(&self, table: &Table, rows: &[usize], most: usize) -> Result<Vec<RowGrounds>, ModelError> {
        let Matrix { inputs, rows: present, .. } = self.encoder.matrix(&table.take(rows))?;
        let inputs = inputs.as_ref();
        let explanations = self.regression.explain(inputs)?;
        let similar = self.regression.similar_rows(inputs, most)?;
        let unusual = self.regression.unusual(inputs)?;
        let place = |similar: SimilarRow| SimilarRow { row: self.rows[similar.row], ..similar };
        let parts = present.into_iter().zip(explanations).zip(similar).zip(unusual);
        let grounds = parts.map(|(((row, explanation), similar), unusual)| RowGrounds {
            row: rows[row],
            explanation,
            similar: similar.into_iter().map(place).collect(),
            unusual,
        });
        Ok(grounds.collect())
    }

    /// Covariance of the predicted means of the rows of a table that have all inputs, without noise, in squared target units.
    pub fn latent_covariance(&self, table: &Table, control: &Control) -> Result<Mat<f64>, ModelError> {
        Ok(self.regression.latent_covariance_under(self.encoder.matrix(table)?.inputs.as_ref(), control)?)
    }

    /// What should be said about inputs out of range.
    pub fn note_beyond(&self, beyond: &[Beyond]) -> Option<String> {
        let columns: Vec<String> =
            beyond.iter().map(|Beyond { name, rows, .. }| format!("'{name}' ({rows})")).collect();
        (!columns.is_empty()).then(|| {
            format!(
                "rows outside the range of the training rows (or six standard deviations) in {}: the curve stays as at the \
                 border{}",
                columns.join(", "),
                if self.regression.design().map().bends().is_some() { ", with wider error bars" } else { "" }
            )
        })
    }

    /// Whether all parts fit together, as they do in every fitted model but perhaps not in a file.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.regression.check()?;
        let agree = self.encoder.names().len() == self.regression.design().input_names().len()
            && self.rows.len() == self.regression.row_count()
            && self.rows.iter().all(|&row| row < self.table_rows)
            && self.suspicious.len() == self.regression.whole().map_or(0, |whole| whole.suspicious.len());
        if agree { Ok(()) } else { Err("its parts are of different sizes".to_owned()) }
    }
}
