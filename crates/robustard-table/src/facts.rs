//! What the columns of a table hold, as far as it decides how a model uses them; found part by part, and put together.

use std::collections::BTreeSet;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use crate::encode::{ColumnKind, EncodeOptions, LeftOut, MISSING_LEVEL, Missing};
use crate::error::TableError;
use crate::table::Table;

/// Text columns with more values than this are not categories.
const MOST_LEVELS: usize = 50;
/// Levels of a column that is said to be a category, in tables seen part by part: each is a column of the model.
const MOST_FORCED_LEVELS: usize = 10_000;
/// Nor are those in which a value occurs less often than this on average.
const LEAST_ROWS_PER_LEVEL: usize = 2;
/// How the reason begins if a column is text with too many levels to be a category unless that is asked for.
const MANY_LEVELS: &str = "is text with ";
/// The same if there are more than any category may have.
const TOO_MANY_LEVELS: &str = "is text with more than ";

/// Levels that are remembered of a column.
pub(crate) fn most_levels(is_forced: bool) -> usize {
    if is_forced { MOST_FORCED_LEVELS } else { MOST_LEVELS }
}

impl LeftOut {
    /// Whether it would be used if it were asked for as a category.
    pub fn may_be_category(&self) -> bool {
        self.reason.starts_with(MANY_LEVELS) && !self.reason.starts_with(TOO_MANY_LEVELS)
    }
}

/// What a column holds, as far as it decides how it is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Facts {
    /// Numbers or truth values.
    Numbers {
        /// The first value, if there is any.
        first: Option<f64>,
        /// Whether all others are the same.
        is_constant: bool,
    },
    /// Text, or what is to be a category.
    Texts {
        levels: BTreeSet<String>,
        /// Whether there are more levels than those.
        has_more: bool,
        /// Whether all look like dates.
        are_dates: bool,
        /// The first that is no number, with its row, if most are numbers.
        odd: Option<(usize, String)>,
    },
    /// What cannot be used, and why.
    Other(String),
}

/// What is known of a column: what it holds, and how many rows have no value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnFacts {
    pub facts: Facts,
    pub rows: usize,
    pub missing: usize,
}

impl ColumnFacts {
    /// Of a column of a table.
    pub(crate) fn of(table: &Table, name: &str, is_forced: bool) -> Result<Self, TableError> {
        let rows = table.row_count();
        let data_type = table.column(name)?.data_type();
        if !is_forced {
            let other = |reason: String| {
                let missing = table.column(name).map_or(0, |column| column.null_count());
                Ok(Self { facts: Facts::Other(reason), rows, missing })
            };
            if data_type.is_temporal() {
                return other("holds dates".to_owned());
            }
            if let Some(values) = table.numbers(name)? {
                return Ok(Self::of_numbers(&values));
            }
            if *data_type != DataType::Utf8 {
                return other(format!("holds {data_type}, which is neither numbers nor text"));
            }
        }
        Ok(Self::of_texts(&level_texts(table, name)?))
    }

    pub(crate) fn of_numbers(values: &[f64]) -> Self {
        let present = || values.iter().copied().filter(|value| !value.is_nan());
        let first = present().next();
        let is_constant = first.is_none_or(|first| present().all(|value| value == first));
        let missing = values.len() - present().count();
        Self { facts: Facts::Numbers { first, is_constant }, rows: values.len(), missing }
    }

    pub(crate) fn of_texts(texts: &[Option<String>]) -> Self {
        let present = || texts.iter().flatten();
        let levels: BTreeSet<String> = present().cloned().collect();
        let are_dates = levels.iter().all(|text| looks_like_date(text));
        let count = present().count();
        let is_number = |text: &String| text.trim().parse::<f64>().is_ok();
        let odd = texts.iter().position(|text| text.as_ref().is_some_and(|text| !is_number(text)));
        let odd = odd.filter(|_| 2 * present().filter(|text| is_number(text)).count() > count);
        let odd = odd.and_then(|row| Some((row, texts[row].clone()?)));
        let facts = Facts::Texts { levels, has_more: false, are_dates, odd };
        Self { facts, rows: texts.len(), missing: texts.len() - count }
    }

    /// Of no rows.
    pub(crate) fn none() -> Self {
        Self { facts: Facts::Numbers { first: None, is_constant: true }, rows: 0, missing: 0 }
    }

    /// Adds rows that come after these; false if these are numbers and those are text, or the other way round. With more levels than
    /// `most`, the rest of them is not remembered.
    #[must_use]
    pub(crate) fn merge(&mut self, more: Self, most: usize) -> bool {
        let (before, had_values) = (self.rows, self.missing < self.rows);
        let has_values = more.missing < more.rows;
        self.rows += more.rows;
        self.missing += more.missing;
        if !has_values {
            return true;
        }
        match (&mut self.facts, more.facts) {
            (Facts::Other(_), _) => {}
            (own, other @ Facts::Other(_)) => *own = other,
            (Facts::Numbers { first, is_constant }, Facts::Numbers { first: other, is_constant: others }) => {
                *is_constant = *is_constant && others && (first.is_none() || *first == other);
                *first = first.or(other);
            }
            (own @ Facts::Numbers { .. }, mut texts @ Facts::Texts { .. }) if !had_values => {
                if let Facts::Texts { odd: Some((row, _)), .. } = &mut texts {
                    *row += before;
                }
                *own = texts;
            }
            (
                Facts::Texts { levels, has_more, are_dates, odd },
                Facts::Texts { levels: other, has_more: others, are_dates: other_dates, odd: other_odd },
            ) => {
                levels.extend(other);
                *has_more = *has_more || others;
                *are_dates = *are_dates && other_dates;
                *odd = odd.take().or_else(|| other_odd.map(|(row, text)| (before + row, text)));
            }
            _ => return false,
        }
        if let Facts::Texts { levels, has_more, .. } = &mut self.facts {
            while levels.len() > most {
                *has_more = true;
                levels.pop_last();
            }
        }
        true
    }

    /// Refuses a category of too many levels.
    pub(crate) fn check_levels(&self, name: &str, most: usize) -> Result<(), TableError> {
        match &self.facts {
            Facts::Texts { levels, has_more, .. } if *has_more || levels.len() > most => {
                let (column, levels, has_more) = (name.to_owned(), levels.len(), *has_more);
                Err(TableError::TooManyLevels { column, levels, has_more, most: most.min(MOST_FORCED_LEVELS) })
            }
            _ => Ok(()),
        }
    }

    /// How the column is used, or why it is not. The median is that of its numbers.
    pub(crate) fn kind(
        &self,
        is_forced: bool,
        options: &EncodeOptions,
        median: impl FnOnce() -> f64,
    ) -> Result<ColumnKind, String> {
        let impute = options.missing == Missing::Impute;
        let has_missing = self.missing > 0;
        match &self.facts {
            Facts::Other(reason) => Err(reason.clone()),
            Facts::Numbers { first: None, .. } => Err("has no values".to_owned()),
            Facts::Numbers { is_constant, .. } => {
                let tells = options.keep_constant || (has_missing && impute);
                match (tells, is_constant) {
                    (false, true) => Err("has one value only".to_owned()),
                    _ if impute => Ok(ColumnKind::ImputedNumber { median: median(), indicator: has_missing }),
                    _ => Ok(ColumnKind::Number),
                }
            }
            Facts::Texts { levels, has_more, are_dates, odd } => {
                if !is_forced && !levels.is_empty() && *are_dates {
                    return Err("holds dates".to_owned());
                }
                let enough = levels.len() <= MOST_LEVELS && levels.len() * LEAST_ROWS_PER_LEVEL <= self.rows;
                if *has_more || (!is_forced && !enough) {
                    let begin = if *has_more { TOO_MANY_LEVELS } else { MANY_LEVELS };
                    let odd = odd.as_ref().map_or_else(String::new, |(row, text)| {
                        format!(", most of them numbers: row {} is '{}'", row + 1, shortened(text))
                    });
                    return Err(format!("{begin}{} different values{odd}", levels.len()));
                }
                let mut levels = levels.clone();
                if has_missing && impute {
                    levels.insert(MISSING_LEVEL.to_owned());
                }
                match levels.len() {
                    0 => Err("has no values".to_owned()),
                    1 => Err("has one value only".to_owned()),
                    _ => Ok(ColumnKind::Category { levels: levels.into_iter().collect() }),
                }
            }
        }
    }
}

/// The beginning of a long text.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 30;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The middle one of the numbers of a column that are not missing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The levels of a category: a number is the same level however it is written (1, 1.0).
pub(crate) fn level_texts(table: &Table, name: &str) -> Result<Vec<Option<String>>, TableError> {
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
