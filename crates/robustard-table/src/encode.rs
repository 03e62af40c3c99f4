//! Columns of a table to numbers for a model, the same way for new tables.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use robustard::faer::ColRef;
use robustard::{Column as Numbers, Dataset, InputColumn, InputKind};
use serde::{Deserialize, Serialize};

use crate::error::TableError;
use crate::facts::{ColumnFacts, level_texts, median};
use crate::limits::Limits;
use crate::table::Table;

/// What levels are called that the training table does not have.
const OTHER_LEVEL: &str = "(other)";
/// The level of rows whose category is missing, when missing values are filled in.
pub(crate) const MISSING_LEVEL: &str = "missing";

/// What to do about missing values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Refuse them.
    Error,
    /// Leave those rows out.
    Drop,
    /// Fill in the median and add a column that says so; a category of its own for text.
    Impute,
}

impl FromStr for Missing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "drop" => Ok(Self::Drop),
            "impute" => Ok(Self::Impute),
            _ => Err(format!("'{text}' is not one of error, drop, impute")),
        }
    }
}

/// Which columns are used, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EncodeOptions {
    /// The column to predict.
    pub target: String,
    /// If not empty, only these are inputs.
    pub include: Vec<String>,
    /// These are not inputs.
    pub exclude: Vec<String>,
    /// These are categories even if they hold numbers or many values.
    pub categorical: Vec<String>,
    /// How often each row counts.
    pub weights: Option<String>,
    /// Names the rows in outputs.
    pub id: Option<String>,
    /// Missing values.
    pub missing: Missing,
    /// Refuse columns that cannot be used instead of leaving them out.
    pub strict: bool,
    /// Keep columns of numbers that have one value only.
    #[serde(default)]
    pub keep_constant: bool,
    /// The most that is fitted.
    #[serde(default)]
    pub limits: Limits,
}

impl EncodeOptions {
    /// Everything else as a user would want it.
    pub fn new(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            include: Vec::new(),
            exclude: Vec::new(),
            categorical: Vec::new(),
            weights: None,
            id: None,
            missing: Missing::Error,
            strict: false,
            keep_constant: false,
            limits: Limits::default(),
        }
    }
}

impl EncodeOptions {
    /// Whether the columns that are named are there, and the target is not an input.
    pub(crate) fn check(&self, table: &Table) -> Result<(), TableError> {
        let roles = [&self.target].into_iter().chain(&self.weights).chain(&self.id);
        for name in roles.chain(&self.include).chain(&self.exclude).chain(&self.categorical) {
            table.column(name)?;
        }
        if self.include.contains(&self.target) {
            return Err(TableError::TargetAsInput { column: self.target.clone() });
        }
        Ok(())
    }

    /// Whether a column is target, weights or id.
    pub(crate) fn has_role(&self, name: &String) -> bool {
        *name == self.target || Some(name) == self.weights.as_ref() || Some(name) == self.id.as_ref()
    }

    /// Whether a column without a role may be an input.
    pub(crate) fn is_wanted(&self, name: &String) -> bool {
        (self.include.is_empty() || self.include.contains(name)) && !self.exclude.contains(name)
    }

    /// Whether a column is a category whatever it holds.
    pub(crate) fn is_forced(&self, name: &String) -> bool {
        self.categorical.contains(name)
    }
}

/// How a column becomes numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ColumnKind {
    /// As it is.
    Number,
    /// As it is, with the median where it is missing.
    ImputedNumber {
        /// Median of the rows that have a value.
        median: f64,
        /// Whether a second column says where it was missing: if it was anywhere in the training table.
        indicator: bool,
    },
    /// One column for each level, 1 in the rows that have it, and one for levels that the training table does not have: nothing is known
    /// of its effect but the size that effects of levels have.
    Category {
        /// The levels, in order.
        levels: Vec<String>,
    },
}

/// An input column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// How it becomes numbers.
    #[serde(flatten)]
    pub kind: ColumnKind,
}

/// A column that is not used, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// The reason, as a phrase.
    pub reason: String,
}

/// The schema of a model: which columns it uses and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    /// The column to predict.
    pub target: String,
    /// The inputs.
    pub columns: Vec<Column>,
    /// Row weights.
    pub weights: Option<String>,
    /// Row names.
    pub id: Option<String>,
    /// Missing values.
    pub missing: Missing,
    /// Columns of the training table that are not used.
    pub left_out: Vec<LeftOut>,
}

/// A table as numbers.
#[derive(Debug, Clone)]
pub struct Encoded<'t> {
    /// One column per name, of the kept rows; the table's own memory where that is possible.
    pub columns: Vec<Numbers<'t>>,
    /// Indices of the kept rows in the table.
    pub rows: Vec<usize>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// One input column's values, before rows are dropped.
struct Values<'t> {
    /// One list per encoded column; NaN where missing.
    encoded: Vec<Cow<'t, [f64]>>,
    /// Where it is missing; none if it is nowhere.
    missing: Option<Vec<bool>>,
    note: Option<String>,
}

impl Encoder {
    /// For a table of numbers alone, all of which are used.
    pub fn of_numbers(names: Vec<String>, target: String, weights: Option<String>, missing: Missing) -> Self {
        let columns = names.into_iter().map(|name| Column { name, kind: ColumnKind::Number }).collect();
        Self { target, columns, weights, id: None, missing, left_out: Vec::new() }
    }

    /// Whether every input is a column of numbers as it is.
    pub fn is_numeric(&self) -> bool {
        self.columns.iter().all(|column| column.kind == ColumnKind::Number)
    }

    /// Decides, for each column of a training table, how it is used.
    pub fn fit(table: &Table, options: &EncodeOptions) -> Result<Self, TableError> {
        options.check(table)?;
        let facts = |name: &String| ColumnFacts::of(table, name, options.is_forced(name));
        let median = |name: &String| table.numbers(name).ok().flatten().map_or(0.0, |values| median(&values));
        Self::of_facts(&table.names(), facts, median, options)
    }

    /// The same by what is known of the columns, and by the medians of those with numbers.
    pub(crate) fn of_facts(
        names: &[String],
        facts: impl Fn(&String) -> Result<ColumnFacts, TableError>,
        median: impl Fn(&String) -> f64,
        options: &EncodeOptions,
    ) -> Result<Self, TableError> {
        let mut encoder = Self {
            target: options.target.clone(),
            columns: Vec::new(),
            weights: options.weights.clone(),
            id: options.id.clone(),
            missing: options.missing,
            left_out: Vec::new(),
        };
        let mut missing = Vec::new();
        for name in names.iter().filter(|name| !options.has_role(name)) {
            if !options.is_wanted(name) {
                encoder.left_out.push(LeftOut { name: name.clone(), reason: "not asked for".to_owned() });
                continue;
            }
            let facts = facts(name)?;
            if options.is_forced(name) {
                facts.check_levels(name, options.limits.levels)?;
            }
            match facts.kind(options.is_forced(name), options, || median(name)) {
                Ok(kind) => {
                    if facts.missing > 0 && options.missing == Missing::Error {
                        missing.push((name.clone(), facts.missing));
                    }
                    encoder.columns.push(Column { name: name.clone(), kind });
                }
                Err(reason) if options.strict => {
                    return Err(TableError::Unusable { column: name.clone(), reason });
                }
                Err(reason) => encoder.left_out.push(LeftOut { name: name.clone(), reason }),
            }
        }
        if !missing.is_empty() {
            return Err(TableError::Missing { columns: missing });
        }
        if encoder.columns.is_empty() {
            let reasons = encoder.left_out.iter().map(|left| format!("'{}' is left out: {}", left.name, left.reason));
            return Err(TableError::NothingLeft { reasons: reasons.collect() });
        }
        Ok(encoder)
    }

    /// The columns that are categories.
    pub(crate) fn categories(&self) -> Vec<String> {
        let categories = self.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Category { .. }));
        categories.map(|column| column.name.clone()).collect()
    }

    /// The level of rows whose category is missing, if missing values are filled in.
    pub(crate) fn missing_level(levels: &[String]) -> Option<usize> {
        levels.iter().position(|level| level == MISSING_LEVEL)
    }

    /// A table of rows that were encoded, with their names; levels that the encoder does not know are missing in it.
    pub(crate) fn decode(&self, rows: &Dataset<'_>, names: &[String]) -> Table {
        let encoded: Vec<ColRef<'_, f64>> = rows.columns().collect();
        let mut next = encoded.iter();
        let mut columns = Vec::new();
        if let Some(id) = &self.id {
            columns.push((id.clone(), Table::text_column(names.iter().cloned().map(Some))));
        }
        for Column { name, kind } in &self.columns {
            let mut take = || next.next().expect("the rows are of this encoder");
            let values = match kind {
                ColumnKind::Number => Table::number_column(take().iter().copied()),
                ColumnKind::ImputedNumber { indicator, .. } => {
                    let (values, absent) = (take(), indicator.then(&mut take));
                    let is_absent = |row: usize| absent.is_some_and(|absent| absent[row] == 1.0);
                    let value = |row: usize| if is_absent(row) { f64::NAN } else { values[row] };
                    Table::number_column((0..values.nrows()).map(value))
                }
                ColumnKind::Category { levels } => {
                    let of_levels: Vec<&ColRef<'_, f64>> = levels.iter().map(|_| take()).collect();
                    take();
                    let level = |row: usize| of_levels.iter().position(|level| level[row] == 1.0);
                    Table::text_column((0..rows.row_count()).map(|row| level(row).map(|level| levels[level].clone())))
                }
            };
            columns.push((name.clone(), values));
        }
        columns.push((self.target.clone(), Table::number_column(rows.target().iter().copied())));
        if let Some(weights) = &self.weights {
            let weights_of = rows.weights().map_or_else(|| vec![1.0; rows.row_count()], <[f64]>::to_vec);
            columns.push((weights.clone(), Table::number_column(weights_of)));
        }
        Table::from_columns(columns)
    }

    /// Names of the encoded columns: `area`, `city=Paris`, `area (missing)`.
    pub fn names(&self) -> Vec<String> {
        self.columns
            .iter()
            .flat_map(|Column { name, kind }| match kind {
                ColumnKind::Number => vec![name.clone()],
                ColumnKind::ImputedNumber { indicator: true, .. } => vec![name.clone(), format!("{name} (missing)")],
                ColumnKind::ImputedNumber { .. } => vec![name.clone()],
                ColumnKind::Category { levels } => {
                    let levels = levels.iter().map(String::as_str).chain([OTHER_LEVEL]);
                    levels.map(|level| format!("{name}={level}")).collect()
                }
            })
            .collect()
    }

    /// Number of encoded columns.
    pub(crate) fn width(&self) -> usize {
        let width = |column: &Column| match &column.kind {
            ColumnKind::Number | ColumnKind::ImputedNumber { indicator: false, .. } => 1,
            ColumnKind::ImputedNumber { .. } => 2,
            ColumnKind::Category { levels } => levels.len() + 1,
        };
        self.columns.iter().map(width).sum()
    }

    /// For each encoded column the group it shares a precision with: the levels of a category are one group.
    pub fn groups(&self) -> Vec<usize> {
        let mut labels = Vec::new();
        let mut next = 0;
        for column in &self.columns {
            match &column.kind {
                ColumnKind::Number | ColumnKind::ImputedNumber { indicator: false, .. } => labels.push(next),
                ColumnKind::ImputedNumber { .. } => {
                    labels.extend([next, next + 1]);
                    next += 1;
                }
                ColumnKind::Category { levels } => labels.extend(std::iter::repeat_n(next, levels.len() + 1)),
            }
            next += 1;
        }
        labels
    }

    /// The columns, with the encoded columns that stand for each.
    pub fn input_columns(&self) -> Vec<InputColumn> {
        let mut next = 0;
        let column = |Column { name, kind }: &Column| {
            let (kind, count) = match kind {
                ColumnKind::ImputedNumber { median, indicator: true } => {
                    (InputKind::NumberOrMissing { filled: *median }, 2)
                }
                ColumnKind::Number | ColumnKind::ImputedNumber { .. } => (InputKind::Number, 1),
                ColumnKind::Category { levels } => (InputKind::Category { levels: levels.clone() }, levels.len() + 1),
            };
            next += count;
            InputColumn::new(name, (next - count..next).collect(), kind)
        };
        self.columns.iter().map(column).collect()
    }

    /// Encodes the inputs of a table. Rows of `required` (target, weights) that are NaN count as missing, too.
    pub fn encode<'t>(&self, table: &'t Table, required: &[&[f64]]) -> Result<Encoded<'t>, TableError> {
        let mut values = Vec::new();
        for column in &self.columns {
            if !table.has(&column.name) {
                return Err(TableError::ModelColumn { column: column.name.clone(), known: table.names() });
            }
            values.push(self.values(table, column)?);
        }
        let n = table.row_count();
        let mut is_missing = vec![false; n];
        for missing in values.iter().filter_map(|values| values.missing.as_ref()) {
            is_missing.iter_mut().zip(missing).for_each(|(any, missing)| *any |= missing);
        }
        for column in required {
            is_missing.iter_mut().zip(*column).for_each(|(any, value)| *any |= value.is_nan());
        }
        let rows: Vec<usize> = (0..n).filter(|&row| !is_missing[row]).collect();
        if rows.len() < n && self.missing != Missing::Drop {
            let count = |missing: &Vec<bool>| missing.iter().filter(|missing| **missing).count();
            let counts = self.columns.iter().zip(&values).filter_map(|(column, values)| {
                values.missing.as_ref().map(|missing| (column.name.clone(), count(missing)))
            });
            return Err(TableError::ModelMissing { columns: counts.collect() });
        }
        let mut notes: Vec<String> = values.iter().filter_map(|values| values.note.clone()).collect();
        if rows.len() < n {
            notes.push(format!("{} rows with missing values are left out", n - rows.len()));
        }
        let columns = values.into_iter().flat_map(|values| values.encoded).map(|values| match values {
            values if rows.len() < n => Numbers::Owned(rows.iter().map(|&row| values[row]).collect()),
            Cow::Borrowed(values) => Numbers::Borrowed(ColRef::from_slice(values)),
            Cow::Owned(values) => Numbers::Owned(values),
        });
        Ok(Encoded { columns: columns.collect(), rows, notes })
    }

    fn values<'t>(&self, table: &'t Table, column: &Column) -> Result<Values<'t>, TableError> {
        let numbers = |values: Cow<'t, [f64]>| {
            let has_missing = values.iter().any(|value| value.is_nan());
            let missing = has_missing.then(|| values.iter().map(|value| value.is_nan()).collect());
            (values, missing)
        };
        match &column.kind {
            ColumnKind::Number => {
                let (values, missing) = numbers(number_values(table, &column.name)?);
                Ok(Values { encoded: vec![values], missing, note: None })
            }
            ColumnKind::ImputedNumber { median, indicator } => {
                let (values, missing) = numbers(number_values(table, &column.name)?);
                let is_missing = |row: usize| missing.as_ref().is_some_and(|missing: &Vec<bool>| missing[row]);
                let mut encoded = vec![match &missing {
                    Some(_) => values.iter().map(|value| if value.is_nan() { *median } else { *value }).collect(),
                    None => values.clone(),
                }];
                if *indicator {
                    encoded.push((0..values.len()).map(|row| f64::from(u8::from(is_missing(row)))).collect());
                }
                Ok(Values { encoded, missing: None, note: None })
            }
            ColumnKind::Category { levels } => {
                Ok(self.category_values(level_texts(table, &column.name)?, &column.name, levels))
            }
        }
    }

    fn category_values(&self, texts: Vec<Option<String>>, name: &str, levels: &[String]) -> Values<'static> {
        let mut encoded = vec![vec![0.0; texts.len()]; levels.len() + 1];
        let mut missing = vec![false; texts.len()];
        let mut unseen = BTreeSet::new();
        let mut unseen_rows = 0;
        for (row, text) in texts.into_iter().enumerate() {
            let level = match text {
                Some(text) => text,
                None if self.missing == Missing::Impute => MISSING_LEVEL.to_owned(),
                None => {
                    missing[row] = true;
                    continue;
                }
            };
            match levels.binary_search(&level) {
                Ok(k) => encoded[k][row] = 1.0,
                Err(_) => {
                    encoded[levels.len()][row] = 1.0;
                    unseen_rows += 1;
                    unseen.insert(level);
                }
            }
        }
        let note = (unseen_rows > 0).then(|| {
            let shown: Vec<String> = unseen.iter().take(3).map(|level| format!("'{level}'")).collect();
            let more = if unseen.len() > 3 { ", …" } else { "" };
            let rows = if unseen_rows == 1 {
                "1 row has a value".to_owned()
            } else {
                format!("{unseen_rows} rows have values")
            };
            format!(
                "{rows} of '{name}' that the model has not seen ({}{more}): they are predicted as an average level, with wider \
                 intervals",
                shown.join(", ")
            )
        });
        let missing = missing.contains(&true).then_some(missing);
        Values { encoded: encoded.into_iter().map(Cow::Owned).collect(), missing, note }
    }
}

/// A numeric column that a model or a role needs; infinite values are named.
fn number_values<'t>(table: &'t Table, name: &str) -> Result<Cow<'t, [f64]>, TableError> {
    let Some(values) = table.numbers(name)? else {
        let texts = table.texts(name)?;
        let is_wrong = |text: &Option<String>| text.as_ref().is_some_and(|text| text.parse::<f64>().is_err());
        return match texts.iter().position(is_wrong) {
            Some(row) => {
                let value = texts[row].clone().unwrap_or_default();
                Err(TableError::ExpectedNumber { column: name.to_owned(), row, value })
            }
            None => {
                Ok(texts.iter().map(|text| text.as_ref().and_then(|t| t.parse().ok()).unwrap_or(f64::NAN)).collect())
            }
        };
    };
    match values.iter().position(|value| value.is_infinite()) {
        Some(row) => Err(TableError::NotFinite { column: name.to_owned(), row, value: values[row] }),
        None => Ok(values),
    }
}

impl Table {
    /// A column of weights; NaN where missing.
    pub(crate) fn weights(&self, name: &str) -> Result<Cow<'_, [f64]>, TableError> {
        let weights = self.role(name, "weights")?;
        match weights.iter().position(|weight| *weight < 0.0) {
            Some(row) => Err(TableError::NegativeWeight { column: name.to_owned(), row, value: weights[row] }),
            None => Ok(weights),
        }
    }

    /// A column that has to be numbers, such as the target; NaN where missing.
    pub fn role(&self, name: &str, role: &'static str) -> Result<Cow<'_, [f64]>, TableError> {
        match self.numbers(name)? {
            None => Err(TableError::NotNumeric { column: name.to_owned(), found: description(self, name)?, role }),
            Some(values) => match values.iter().position(|value| value.is_infinite()) {
                Some(row) => Err(TableError::NotFinite { column: name.to_owned(), row, value: values[row] }),
                None => Ok(values),
            },
        }
    }
}

fn description(table: &Table, name: &str) -> Result<String, TableError> {
    let data_type = table.column(name)?.data_type();
    if data_type.is_temporal() {
        return Ok("dates".to_owned());
    }
    if table.column(name)?.null_count() == table.row_count() {
        return Ok("no values".to_owned());
    }
    let texts = table.texts(name).unwrap_or_default();
    let example = texts.into_iter().flatten().find(|text| text.parse::<f64>().is_err());
    Ok(example.map_or("other things".to_owned(), |text| format!("text ('{text}')")))
}
