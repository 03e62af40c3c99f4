//! The first look at all rows: what each column holds, and its values as numbers in a cache.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::cache::CacheWriter;
use super::pieces::{Input, Piece, Pieces};
use crate::encode::EncodeOptions;
use crate::error::TableError;
use crate::facts::{ColumnFacts, Facts, level_texts, most_levels};
use crate::read::ReadOptions;
use crate::table::{Table, meant};

/// What the first look has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scan {
    /// All columns of the table, in order.
    pub names: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    /// What is known of the inputs.
    pub columns: Vec<Scanned>,
    /// The place of the target in the cache, and of the weights.
    pub target: usize,
    pub weights: Option<usize>,
}

/// A column of inputs, whose place in the cache is its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scanned {
    pub name: String,
    pub facts: ColumnFacts,
    /// Texts by the numbers that stand for them in the cache.
    pub codes: Vec<String>,
}

/// A column under way.
struct Column {
    scanned: Scanned,
    numbers: HashMap<String, u32>,
    is_forced: bool,
    /// Whether it is text although its first rows look like numbers.
    is_text: bool,
}

/// Why a look has to begin anew: a column holds numbers at first and text later.
pub(super) struct Mixed(pub String);

impl Column {
    fn new(name: &str, is_forced: bool, is_text: bool) -> Self {
        let scanned = Scanned { name: name.to_owned(), facts: ColumnFacts::none(), codes: Vec::new() };
        Self { scanned, numbers: HashMap::new(), is_forced, is_text }
    }

    /// Adds the values of a piece; gives them as numbers.
    fn add(&mut self, table: &Table) -> Result<Result<Vec<f64>, Mixed>, TableError> {
        let name = self.scanned.name.clone();
        let rows = table.row_count();
        let piece = if self.is_text && !self.is_forced {
            ColumnFacts::of_texts(&self.texts(table)?)
        } else {
            ColumnFacts::of(table, &name, self.is_forced)?
        };
        let has_values = piece.missing < rows;
        if !self.scanned.facts.merge(piece, most_levels(self.is_forced)) {
            return Ok(Err(Mixed(name)));
        }
        let values = match &self.scanned.facts.facts {
            Facts::Other(_) => vec![f64::NAN; rows],
            _ if !has_values => vec![f64::NAN; rows],
            Facts::Texts { .. } => self.codes(table)?,
            Facts::Numbers { .. } => {
                let values = table.numbers(&name)?.unwrap_or_default().into_owned();
                if let Some(row) = values.iter().position(|value| value.is_infinite()) {
                    return Err(TableError::NotFinite { column: name, row, value: values[row] });
                }
                values
            }
        };
        Ok(Ok(values))
    }

    /// The texts of a piece; of numbers in a column of text, as they are written.
    fn texts(&self, table: &Table) -> Result<Vec<Option<String>>, TableError> {
        let name = &self.scanned.name;
        if self.is_forced {
            return level_texts(table, name);
        }
        let texts = table.texts(name)?;
        Ok(if self.is_text {
            texts.into_iter().map(|text| meant(text.as_deref()).map(str::to_owned)).collect()
        } else {
            texts
        })
    }

    /// The texts of a piece as numbers.
    fn codes(&mut self, table: &Table) -> Result<Vec<f64>, TableError> {
        let texts = self.texts(table)?;
        let (most, codes, numbers) = (most_levels(self.is_forced), &mut self.scanned.codes, &mut self.numbers);
        let code = |text: Option<String>| {
            let Some(text) = text else { return f64::NAN };
            if let Some(&number) = numbers.get(&text) {
                return f64::from(number);
            }
            if codes.len() == most {
                return f64::NAN;
            }
            let number = u32::try_from(codes.len()).unwrap_or(u32::MAX);
            numbers.insert(text.clone(), number);
            codes.push(text);
            f64::from(number)
        };
        Ok(texts.into_iter().map(code).collect())
    }
}

/// A look under way.
pub(super) struct Scanner<'o> {
    options: &'o EncodeOptions,
    names: Vec<String>,
    columns: Vec<Column>,
    rows: u64,
    /// The file that is being read, and its rows so far.
    file: (usize, usize),
}

/// Looks at all rows and writes them to a cache, which `open` makes once the columns are known. `tell` is told of each piece.
pub(super) fn scan(
    input: Input<'_>,
    reading: &ReadOptions,
    options: &EncodeOptions,
    text: &[String],
    open: impl FnOnce(&[String], Option<&str>) -> Result<CacheWriter, TableError>,
    mut tell: impl FnMut(u64, usize) -> Result<(), TableError>,
) -> Result<Result<(Scan, CacheWriter), Mixed>, TableError> {
    let reading = ReadOptions { text_columns: [reading.text_columns.as_slice(), text].concat(), ..reading.clone() };
    let mut pieces = Pieces::new(input, &reading);
    let Some(mut piece) = pieces.next()? else { return Err(TableError::NoRows { path: input.name(0) }) };
    let mut scanner = Scanner::new(options, text, &piece.table)?;
    let mut writer = open(&scanner.cached(), options.id.as_deref())?;
    loop {
        let Piece { table, source } = piece;
        let name = input.name(source);
        if scanner.file.0 != source {
            scanner.file = (source, 0);
        }
        let place = |error: TableError| match error {
            error @ TableError::FileColumn { .. } => error,
            error if input.files().len() > 1 => error.in_file(&name),
            error => error,
        };
        match scanner.add(&table, &name).map_err(place)? {
            Ok(numbers) => {
                let ids = options.id.as_ref().map(|id| table.texts(id)).transpose()?;
                writer.add(&numbers, ids)?;
            }
            Err(mixed) => return Ok(Err(mixed)),
        }
        tell(scanner.rows, source)?;
        match pieces.next()? {
            Some(next) => piece = next,
            None => break,
        }
    }
    Ok(Ok((scanner.finish(), writer)))
}

impl<'o> Scanner<'o> {
    fn new(options: &'o EncodeOptions, text: &[String], first: &Table) -> Result<Self, TableError> {
        options.check(first)?;
        let names = first.names();
        let inputs = names.iter().filter(|name| !options.has_role(name) && options.is_wanted(name));
        let column = |name: &String| Column::new(name, options.is_forced(name), text.contains(name));
        let columns = inputs.map(column).collect();
        Ok(Self { options, names, columns, rows: 0, file: (0, 0) })
    }

    /// The columns of numbers in the cache: inputs, target, weights.
    fn cached(&self) -> Vec<String> {
        let inputs = self.columns.iter().map(|column| &column.scanned.name);
        inputs.chain([&self.options.target]).chain(&self.options.weights).cloned().collect()
    }

    fn add(&mut self, table: &Table, path: &str) -> Result<Result<Vec<Vec<f64>>, Mixed>, TableError> {
        let known = table.names();
        if let Some(column) = self.cached().iter().chain(&self.options.id).find(|name| !known.contains(name)) {
            return Err(TableError::FileColumn { path: path.to_owned(), column: column.clone() });
        }
        let first = self.file.1;
        let mut numbers = Vec::with_capacity(self.columns.len() + 2);
        for column in &mut self.columns {
            match column.add(table).map_err(|error| error.after(first))? {
                Ok(values) => numbers.push(values),
                Err(mixed) => return Ok(Err(mixed)),
            }
        }
        let target = table.role(&self.options.target, "the target");
        let weights = self.options.weights.as_ref().map(|name| table.weights(name));
        for values in [Some(target), weights].into_iter().flatten() {
            numbers.push(values.map_err(|error| error.after(first))?.into_owned());
        }
        self.rows += table.row_count() as u64;
        self.file.1 += table.row_count();
        Ok(Ok(numbers))
    }

    fn finish(self) -> Scan {
        let target = self.columns.len();
        Scan {
            names: self.names,
            rows: self.rows,
            columns: self.columns.into_iter().map(|column| column.scanned).collect(),
            target,
            weights: self.options.weights.as_ref().map(|_| target + 1),
        }
    }
}
