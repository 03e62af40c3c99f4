//! The rows in a cache as a model takes them.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use robustard::{Column as Numbers, Control, Dataset, InputColumn, Moments, Progress, RowStream, SAMPLE_ROWS};

use super::cache::{Cache, CacheBlock};
use super::partitions::hashes_of;
use super::scan::Scan;
use crate::encode::{ColumnKind, Encoder, Missing};
use crate::error::TableError;
use crate::model::{Fingerprint, ModelError};

/// How an input is made of a column of the cache.
enum Made {
    Number {
        filled: Option<f64>,
        indicator: bool,
    },
    /// For each code in the cache the place among the levels, and that of a missing value.
    Levels {
        places: Vec<usize>,
        count: usize,
        missing: Option<usize>,
    },
}

/// The rows of a cache that can be fitted.
pub(super) struct CachedRows {
    cache: Cache,
    inputs: Vec<(usize, Made)>,
    target: usize,
    weights: Option<usize>,
    drops: bool,
    names: Vec<String>,
    groups: Vec<usize>,
    input_columns: Vec<InputColumn>,
    /// Blocks with rows to fit, and how many these have.
    blocks: Vec<(usize, usize)>,
    /// The number in the table of the first row of each partition's block.
    first_rows: Vec<u64>,
    rows: u64,
}

/// What a look at all rows to fit has found.
pub(super) struct Looked {
    pub moments: Moments,
    pub sample: Dataset<'static>,
    /// Which rows the sample is.
    pub drawn: Vec<Drawn>,
    pub fingerprint: Fingerprint,
    pub without_weight: u64,
    pub with_missing: u64,
}

/// A row that was drawn.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    /// Its number among the rows that are fitted.
    pub fitted: u64,
    /// Its number among those of the table.
    pub of_table: usize,
}

/// Why each row of a block is not fitted.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Kept,
    Missing,
    NoWeight,
}

impl CachedRows {
    pub fn new(cache: Cache, scan: &Scan, encoder: &Encoder) -> Self {
        let inputs = encoder.columns.iter().map(|column| {
            let place = scan.columns.iter().position(|scanned| scanned.name == column.name);
            let place = place.expect("the encoder was made of these columns");
            let made = match &column.kind {
                ColumnKind::Number => Made::Number { filled: None, indicator: false },
                ColumnKind::ImputedNumber { median, indicator } => {
                    Made::Number { filled: Some(*median), indicator: *indicator }
                }
                ColumnKind::Category { levels } => {
                    let place_of = |text: &String| levels.binary_search(text).unwrap_or(levels.len());
                    let missing =
                        (encoder.missing == Missing::Impute).then(|| Encoder::missing_level(levels)).flatten();
                    let places = scan.columns[place].codes.iter().map(place_of).collect();
                    Made::Levels { places, count: levels.len() + 1, missing }
                }
            };
            (place, made)
        });
        Self {
            inputs: inputs.collect(),
            target: scan.target,
            weights: scan.weights,
            drops: encoder.missing == Missing::Drop,
            names: encoder.names(),
            groups: encoder.groups(),
            input_columns: encoder.input_columns(),
            blocks: Vec::new(),
            first_rows: Vec::new(),
            rows: 0,
            cache,
        }
    }

    /// Looks at all rows: which can be fitted, their moments, a sample of them.
    pub fn look(&mut self, encoder: &Encoder, seed: u64, control: &Control) -> Result<Looked, ModelError> {
        let blocks: Vec<usize> = (0..self.cache.block_count()).collect();
        // First which rows, then what they are: the sample is drawn by their number.
        let counted: Vec<Result<[u64; 4], TableError>> = blocks
            .par_iter()
            .map(|&block| self.cache.read(block).and_then(|rows| self.count(&rows, encoder)))
            .collect();
        let (mut firsts, mut without_weight, mut with_missing, mut all) = (Vec::new(), 0, 0, 0usize);
        for (block, counts) in counted.into_iter().enumerate() {
            let [kept, missing, weightless, rows] = counts.map_err(|error| error.after(all))?;
            if kept > 0 {
                self.blocks.push((block, kept as usize));
                firsts.push((self.rows, all));
                self.first_rows.push(all as u64);
            }
            self.rows += kept;
            (with_missing, without_weight) = (with_missing + missing, without_weight + weightless);
            all += rows as usize;
        }
        if self.rows == 0 {
            let column = encoder.weights.clone().unwrap_or_default();
            return Err(
                if without_weight > 0 { TableError::NoWeight { column } } else { TableError::AllDropped }.into()
            );
        }
        let count = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let mut wanted = sample(&mut ChaCha8Rng::seed_from_u64(seed), count, SAMPLE_ROWS.min(count)).into_vec();
        wanted.sort_unstable();
        let mut looked = (Moments::none(self.names.len()), 0u128);
        let (mut columns, mut target, mut weights) = (vec![Vec::new(); self.names.len()], Vec::new(), Vec::new());
        let mut drawn = Vec::new();
        let partitions: Vec<usize> = (0..self.blocks.len()).collect();
        for some in partitions.chunks(4 * rayon::current_num_threads()) {
            if control.is_stopped() {
                return Err(robustard::Error::Stopped.into());
            }
            let parts: Vec<Result<_, TableError>> = some
                .par_iter()
                .map(|&partition| {
                    let rows = self.read(partition)?;
                    let (first, first_of_all) = firsts[partition];
                    let range = first as usize..first as usize + rows.row_count();
                    let own = wanted.partition_point(|&row| row < range.start)
                        ..wanted.partition_point(|&row| row < range.end);
                    let places: Vec<usize> = wanted[own].iter().map(|row| row - range.start).collect();
                    let kept = if places.is_empty() { Vec::new() } else { self.kept(partition)? };
                    let of_all = places
                        .iter()
                        .map(|&place| Drawn { fitted: first + place as u64, of_table: first_of_all + kept[place] });
                    let of_all: Vec<Drawn> = of_all.collect();
                    Ok((Moments::of(&rows), hash_of(&rows), rows.take(&places), of_all))
                })
                .collect();
            for part in parts {
                let (moments, hash, rows, of_all) = part?;
                looked.0.merge(&moments);
                looked.1 = looked.1.wrapping_add(hash);
                columns
                    .iter_mut()
                    .zip(rows.columns())
                    .for_each(|(own, more): (&mut Vec<f64>, _)| own.extend(more.iter()));
                target.extend_from_slice(rows.target());
                if self.weights.is_some() {
                    weights.extend(rows.weights().map_or_else(|| vec![1.0; of_all.len()], <[f64]>::to_vec));
                }
                drawn.extend(of_all);
            }
            control.tell(Progress::Share(looked.0.rows() as f64 / self.rows as f64));
        }
        let columns = columns.into_iter().map(Numbers::Owned).collect();
        let sample = self.described(Dataset::from_columns(columns, target)?)?;
        let sample = if self.weights.is_some() { sample.with_weights(weights)? } else { sample };
        let xxh3 = format!("{:032x}", looked.1);
        let fingerprint = Fingerprint { rows: count, inputs: self.names.len(), xxh3 };
        Ok(Looked { moments: looked.0, sample, drawn, fingerprint, without_weight, with_missing })
    }

    fn described<'d>(&self, dataset: Dataset<'d>) -> Result<Dataset<'d>, ModelError> {
        Ok(dataset
            .with_names(self.names.iter().cloned())?
            .with_groups(&self.groups)?
            .with_input_columns(self.input_columns.clone())?)
    }

    /// What happens to each row of a block.
    fn fates(&self, rows: &CacheBlock) -> Vec<Fate> {
        let mut fates = vec![Fate::Kept; rows.rows()];
        let mut drop_missing = |column: usize| {
            fates
                .iter_mut()
                .zip(rows.numbers(column))
                .filter(|(_, value)| value.is_nan())
                .for_each(|(fate, _)| *fate = Fate::Missing);
        };
        drop_missing(self.target);
        self.weights.into_iter().for_each(&mut drop_missing);
        if self.drops {
            self.inputs.iter().for_each(|(column, _)| drop_missing(*column));
        }
        if let Some(weights) = self.weights {
            let weights = fates.iter_mut().zip(rows.numbers(weights));
            weights
                .filter(|(fate, weight)| **fate == Fate::Kept && **weight == 0.0)
                .for_each(|(fate, _)| *fate = Fate::NoWeight);
        }
        fates
    }

    /// How many rows of a block are kept, have missing values, weigh nothing; and all.
    fn count(&self, rows: &CacheBlock, encoder: &Encoder) -> Result<[u64; 4], TableError> {
        let roles =
            [(Some(self.target), Some(&encoder.target), "target"), (self.weights, encoder.weights.as_ref(), "weight")];
        for (column, name, role) in roles {
            let missing = column.and_then(|column| rows.numbers(column).iter().position(|value| value.is_nan()));
            if let (Some(row), Some(name), false) = (missing, name, self.drops) {
                return Err(TableError::MissingRole { column: name.clone(), row, role });
            }
        }
        let fates = self.fates(rows);
        let count = |wanted: Fate| fates.iter().filter(|fate| **fate == wanted).count() as u64;
        Ok([count(Fate::Kept), count(Fate::Missing), count(Fate::NoWeight), fates.len() as u64])
    }

    /// The places in its block of the rows of a partition.
    pub fn kept(&self, partition: usize) -> Result<Vec<usize>, TableError> {
        let fates = self.fates(&self.cache.read(self.blocks[partition].0)?);
        Ok((0..fates.len()).filter(|&row| fates[row] == Fate::Kept).collect())
    }

    /// What the rows of a partition are called: their ids, or their numbers in the table, counted from 1.
    pub fn labels(&self, partition: usize) -> Result<Vec<String>, TableError> {
        let (block, kept) = self.blocks[partition];
        let first = self.first_rows[partition] + 1;
        if !self.cache.has_texts() {
            if kept == self.rows_of_block(partition) {
                return Ok((first..first + kept as u64).map(|row| row.to_string()).collect());
            }
            return Ok(self.kept(partition)?.into_iter().map(|place| (first + place as u64).to_string()).collect());
        }
        let rows = self.cache.read(block)?;
        let fates = self.fates(&rows);
        let texts = rows.texts().into_iter().flat_map(|texts| texts.iter());
        let kept = texts.zip(fates).filter(|(_, fate)| *fate == Fate::Kept);
        Ok(kept.map(|(text, _)| text.unwrap_or_default().to_owned()).collect())
    }

    /// Rows of a partition's block, kept or not; 0 of the last one.
    fn rows_of_block(&self, partition: usize) -> usize {
        let next = self.first_rows.get(partition + 1).copied().unwrap_or(self.first_rows[partition]);
        let adjacent = self.blocks.get(partition + 1).is_some_and(|next| next.0 == self.blocks[partition].0 + 1);
        if adjacent { (next - self.first_rows[partition]) as usize } else { 0 }
    }

    /// What some rows are called, by their numbers among those that are fitted.
    pub fn labels_of(&self, rows: &[u64]) -> Result<Vec<String>, TableError> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&place| rows[place]);
        let mut labels = vec![String::new(); rows.len()];
        let (mut next, mut first) = (order.into_iter().peekable(), 0);
        for (partition, &(_, kept)) in self.blocks.iter().enumerate() {
            let end = first + kept as u64;
            if next.peek().is_some_and(|&place| rows[place] < end) {
                let own = self.labels(partition)?;
                while let Some(place) = next.next_if(|&place| rows[place] < end) {
                    labels[place].clone_from(&own[(rows[place] - first) as usize]);
                }
            }
            first = end;
        }
        Ok(labels)
    }
}

/// A sum over rows of hashes: the same however rows are parted.
fn hash_of(rows: &Dataset<'_>) -> u128 {
    hashes_of(rows).into_iter().fold(0, u128::wrapping_add)
}

impl RowStream for CachedRows {
    type Error = TableError;

    fn row_count(&self) -> u64 {
        self.rows
    }

    fn partition_count(&self) -> usize {
        self.blocks.len()
    }

    fn read(&self, partition: usize) -> Result<Dataset<'_>, TableError> {
        let (block, kept) = self.blocks[partition];
        let rows = self.cache.read(block)?;
        let places: Option<Vec<usize>> = (kept < rows.rows()).then(|| {
            let fates = self.fates(&rows);
            (0..fates.len()).filter(|&row| fates[row] == Fate::Kept).collect()
        });
        let taken = |column: usize| -> Vec<f64> {
            let values = rows.numbers(column);
            match &places {
                Some(places) => places.iter().map(|&place| values[place]).collect(),
                None => values.to_vec(),
            }
        };
        let mut columns = Vec::with_capacity(self.names.len());
        for (column, made) in &self.inputs {
            let mut values = taken(*column);
            match made {
                Made::Number { filled, indicator } => {
                    let absent =
                        indicator.then(|| values.iter().map(|value| f64::from(u8::from(value.is_nan()))).collect());
                    if let Some(filled) = filled {
                        values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = *filled);
                    }
                    columns.push(Numbers::Owned(values));
                    columns.extend(absent.map(Numbers::Owned));
                }
                Made::Levels { places, count, missing } => {
                    let mut levels = vec![vec![0.0; values.len()]; *count];
                    for (row, code) in values.iter().enumerate() {
                        let place = if code.is_nan() { *missing } else { places.get(*code as usize).copied() };
                        levels[place.unwrap_or(count - 1)][row] = 1.0;
                    }
                    columns.extend(levels.into_iter().map(Numbers::Owned));
                }
            }
        }
        let damaged =
            |error: robustard::DatasetError| TableError::Cache { path: self.cache.name(), reason: error.to_string() };
        let dataset = Dataset::from_columns(columns, taken(self.target)).map_err(damaged)?;
        match self.weights {
            Some(weights) => dataset.with_weights(taken(weights)).map_err(damaged),
            None => Ok(dataset),
        }
    }
}
