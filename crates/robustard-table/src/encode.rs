//! Columns of a table to numbers for a model, the same way for new tables.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use arrow_schema::DataType;
use robustard::faer::ColRef;
use robustard::{Column as Numbers, InputColumn, InputKind};
use serde::{Deserialize, Serialize};

use crate::error::TableError;
use crate::table::Table;

/// Text columns with more values than this are not categories.
const MOST_LEVELS: usize = 50;
/// Nor are those in which a value occurs less often than this on average.
const LEAST_ROWS_PER_LEVEL: usize = 2;
/// What levels are called that the training table does not have.
const OTHER_LEVEL: &str = "(other)";
/// The level of rows whose category is missing, when missing values are filled in.
const MISSING_LEVEL: &str = "missing";

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
        }
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
        for name in [&options.target].into_iter().chain(&options.weights).chain(&options.id) {
            table.column(name)?;
        }
        for name in options.include.iter().chain(&options.exclude).chain(&options.categorical) {
            table.column(name)?;
        }
        if options.include.contains(&options.target) {
            return Err(TableError::TargetAsInput { column: options.target.clone() });
        }
        let mut encoder = Self {
            target: options.target.clone(),
            columns: Vec::new(),
            weights: options.weights.clone(),
            id: options.id.clone(),
            missing: options.missing,
            left_out: Vec::new(),
        };
        let has_role = |name: &String| {
            *name == options.target || Some(name) == options.weights.as_ref() || Some(name) == options.id.as_ref()
        };
        let is_wanted = |name: &String| {
            (options.include.is_empty() || options.include.contains(name)) && !options.exclude.contains(name)
        };
        let mut missing = Vec::new();
        for name in table.names().into_iter().filter(|name| !has_role(name)) {
            if !is_wanted(&name) {
                encoder.left_out.push(LeftOut { name, reason: "not asked for".to_owned() });
                continue;
            }
            match kind_of(table, &name, options)? {
                Ok(kind) => {
                    let absent = table.column(&name)?.null_count() + nan_count(table, &name)?;
                    if absent > 0 && options.missing == Missing::Error {
                        missing.push((name.clone(), absent));
                    }
                    encoder.columns.push(Column { name, kind });
                }
                Err(reason) if options.strict => return Err(TableError::Unusable { column: name, reason }),
                Err(reason) => encoder.left_out.push(LeftOut { name, reason }),
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
        let known = table.names();
        let mut values = Vec::new();
        for column in &self.columns {
            if !known.contains(&column.name) {
                return Err(TableError::ModelColumn { column: column.name.clone(), known });
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
    let texts = table.texts(name).unwrap_or_default();
    let example = texts.into_iter().flatten().find(|text| text.parse::<f64>().is_err());
    Ok(example.map_or("other things".to_owned(), |text| format!("text ('{text}')")))
}

fn nan_count(table: &Table, name: &str) -> Result<usize, TableError> {
    let column = table.column(name)?;
    if !column.data_type().is_floating() {
        return Ok(0);
    }
    let missing = table.numbers(name)?.map_or(0, |values| values.iter().filter(|value| value.is_nan()).count());
    Ok(missing - column.null_count().min(missing))
}

/// How a column is used, or why it is not.
fn kind_of(table: &Table, name: &str, options: &EncodeOptions) -> Result<Result<ColumnKind, String>, TableError> {
    let data_type = table.column(name)?.data_type().clone();
    let is_forced = options.categorical.iter().any(|column| column == name);
    if !is_forced {
        if data_type.is_temporal() {
            return Ok(Err("holds dates".to_owned()));
        }
        if let Some(values) = table.numbers(name)? {
            return Ok(number_kind(&values, options));
        }
        if data_type != DataType::Utf8 {
            return Ok(Err(format!("holds {data_type}, which is neither numbers nor text")));
        }
    }
    let texts = level_texts(table, name)?;
    let has_text = texts.iter().flatten().next().is_some();
    if !is_forced && has_text && texts.iter().flatten().all(|text| looks_like_date(text)) {
        return Ok(Err("holds dates".to_owned()));
    }
    let has_missing = texts.iter().any(Option::is_none);
    let mut levels: BTreeSet<String> = texts.iter().flatten().cloned().collect();
    let enough = levels.len() <= MOST_LEVELS && levels.len() * LEAST_ROWS_PER_LEVEL <= texts.len();
    if !is_forced && !enough {
        return Ok(Err(format!("is text with {} different values", levels.len())));
    }
    if has_missing && options.missing == Missing::Impute {
        levels.insert(MISSING_LEVEL.to_owned());
    }
    if levels.len() < 2 {
        let few = if levels.is_empty() { "has no values" } else { "has one value only" };
        return Ok(Err(few.to_owned()));
    }
    Ok(Ok(ColumnKind::Category { levels: levels.into_iter().collect() }))
}

/// The levels of a category: a number is the same level however it is written (1, 1.0).
fn level_texts(table: &Table, name: &str) -> Result<Vec<Option<String>>, TableError> {
    let is_boolean = *table.column(name)?.data_type() == DataType::Boolean;
    match table.numbers(name)?.filter(|_| !is_boolean) {
        Some(values) => Ok(values.iter().map(|value| (!value.is_nan()).then(|| value.to_string())).collect()),
        None => table.texts(name),
    }
}

/// Dates and times as people write them: 31/12/2024, 2024-12, 10:30:00, 1 Jan 2024.
fn looks_like_date(text: &str) -> bool {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let parts: Vec<&str> =
        text.split(['/', '.', '-', ':', ' ', ',', 'T', 'Z']).filter(|part| !part.is_empty()).collect();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_month = |part: &&str| {
        let start: String = part.chars().take(3).flat_map(char::to_lowercase).collect();
        MONTHS.contains(&start.as_str())
    };
    let (numbers, words): (Vec<&str>, Vec<&str>) = parts.iter().partition(|part| is_number(part));
    let has_sizes = numbers.iter().all(|part| part.len() <= 2 || part.len() == 4);
    match (numbers.len(), words.as_slice()) {
        (3.., []) => has_sizes,
        (2, []) => has_sizes && numbers[0].len() == 4,
        (1.., [word]) => has_sizes && is_month(word),
        _ => false,
    }
}

fn number_kind(values: &[f64], options: &EncodeOptions) -> Result<ColumnKind, String> {
    let present = || values.iter().copied().filter(|value| !value.is_nan());
    let Some(first) = present().next() else { return Err("has no values".to_owned()) };
    let has_missing = values.iter().any(|value| value.is_nan());
    let tells = options.keep_constant || (has_missing && options.missing == Missing::Impute);
    if !tells && present().all(|value| value == first) {
        return Err("has one value only".to_owned());
    }
    if options.missing == Missing::Impute {
        let mut sorted: Vec<f64> = present().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        return Ok(ColumnKind::ImputedNumber { median: sorted[sorted.len() / 2], indicator: has_missing });
    }
    Ok(ColumnKind::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_known_by_their_looks() {
        for date in
            ["01/02/2024", "2.1.2024", "2024/01/02", "2024-01-02 10:00", "2024-01", "10:01:00", "1 Jan 2024", "Dec 24"]
        {
            assert!(looks_like_date(date), "{date}");
        }
        for other in ["10-20", "red", "A-1", "555-1234", "v1.2", "May flower 3 x", "", "3"] {
            assert!(!looks_like_date(other), "{other}");
        }
    }
}
