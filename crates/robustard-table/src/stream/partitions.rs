//! Rows that lie in other processes or on other machines: what is asked travels to them as bytes, and what they add up to comes back.
//!
//! One object, [`PartitionRows`], does all the work where the rows are, and one function, [`fit_partitions`], asks for it. Whoever holds
//! the partitions only has to call the first on each of them whenever the second asks, and to bring the answers back in their order.

use std::collections::HashMap;

use arrow_array::RecordBatch;

use robustard::engine::passes::{Broadcast, Sums};
use robustard::{
    Column as Numbers, Control, Dataset, Diagnostics, Moments, Progress, Recipe, Regression, RowMaker, RowPasses,
    RowSummary, SAMPLE_ROWS, Stage, StreamTask, SuspiciousRow, fit_passes,
};
use self_cell::self_cell;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::checkpoint::Checkpoint;
use super::pieces::{BATCHES_NAME, Batches, table_of};
use super::{StreamOptions, StreamedFit};
use crate::encode::{EncodeOptions, Encoder, Missing};
use crate::error::TableError;
use crate::facts::{ColumnFacts, median, most_levels};
use crate::file::{pack, unpack};
use crate::files;
use crate::format::Kind;
use crate::model::{Fingerprint, ModelError, TableData, TableModel};
use crate::read::malformed;
use crate::table::Table;

const TASK: &str = "robustard task";
const ANSWER: &str = "robustard answer";
/// Rows are drawn by a hash of what they are and where; so many more than wanted are expected, so that there are hardly ever fewer.
const DRAWN: f64 = 1.1;

/// Work on one partition.
#[derive(Serialize, Deserialize)]
enum Task {
    /// What the columns hold; those in `text` are text whatever it looks like.
    Scan { options: EncodeOptions, text: Vec<String> },
    /// Which rows can be fitted, their moments, and a share of them drawn at random.
    Look { encoder: Encoder, text: Vec<String>, share: f64, seed: u64 },
    /// Sums under the broadcast that follows.
    Pass { encoder: Encoder, text: Vec<String>, maker: Box<RowMaker> },
    /// What the rows are under a fit.
    Summary { text: Vec<String>, model: Box<TableModel> },
}

/// What comes back.
#[derive(Serialize, Deserialize)]
enum Answer {
    Scan(PartOfTable),
    Look(PartOfRows),
    /// The sums follow.
    Pass,
    Summary {
        rows: Option<RowSummary>,
        /// Of the suspicious rows.
        labels: Vec<Label>,
    },
}

#[derive(Serialize, Deserialize)]
struct PartOfTable {
    rows: u64,
    names: Vec<String>,
    /// What the inputs hold; none of columns with other roles.
    facts: Vec<Option<ColumnFacts>>,
    /// The medians of columns of numbers.
    medians: Vec<Option<f64>>,
}

#[derive(Serialize, Deserialize, Default)]
struct PartOfRows {
    /// Rows that are fitted.
    rows: u64,
    with_missing: u64,
    without_weight: u64,
    moments: Option<Moments>,
    /// In hexadecimal digits.
    hash: String,
    drawn: Vec<Drawn>,
    /// Inputs of the rows drawn, column by column.
    inputs: Vec<Vec<f64>>,
    target: Vec<f64>,
    weights: Option<Vec<f64>>,
}

/// A row that was drawn.
#[derive(Serialize, Deserialize, Clone)]
struct Drawn {
    hash: u64,
    /// Its number among the rows of the partition.
    of_table: u64,
    id: Option<String>,
}

/// What a row is called: its id, or its number among the rows of the partition.
#[derive(Serialize, Deserialize)]
enum Label {
    Id(String),
    Row(u64),
}

/// A description, and bytes that follow it.
fn framed(format: &str, description: &impl Serialize, more: &[u8]) -> Result<Vec<u8>, TableError> {
    let packed = pack(format, description).map_err(|reason| TableError::Message { reason })?;
    Ok([&(packed.len() as u64).to_le_bytes(), packed.as_slice(), more].concat())
}

/// The inverse of [`framed`].
fn unframed<'b, T: serde::de::DeserializeOwned>(format: &str, bytes: &'b [u8]) -> Result<(T, &'b [u8]), TableError> {
    let bad = |reason: String| TableError::Message { reason };
    let parts = bytes.split_first_chunk().and_then(|(length, rest)| {
        usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|length| rest.split_at_checked(length))
    });
    let (packed, more) = parts.ok_or_else(|| bad(format!("they are no {format}, or are cut short")))?;
    let description = unpack(format, packed, "these bytes").map_err(|error| bad(error.to_string()))?;
    Ok((description, more))
}

fn message_error(error: impl std::fmt::Display) -> TableError {
    TableError::Message { reason: error.to_string() }
}

self_cell! {
    /// A table and its numbers, as far as they can be fitted; they share memory.
    struct TableAndNumbers {
        owner: Table,
        #[not_covariant]
        dependent: FittedRows,
    }
}

/// The rows of a table that can be fitted, if there are any.
type FittedRows<'t> = Option<TableData<'t>>;

/// The rows of one partition, where they are. What one task has made of them serves the next.
pub struct PartitionRows {
    batches: Vec<RecordBatch>,
    /// Their numbers, as an encoder has made them, and which columns are text.
    numbers: Option<(Encoder, Vec<String>, TableAndNumbers)>,
}

impl PartitionRows {
    /// Takes the rows.
    pub fn new(batches: Batches) -> Result<Self, TableError> {
        let read = batches.map(|batch| batch.map_err(|error| malformed(BATCHES_NAME, Kind::Arrow, &error)));
        Ok(Self { batches: read.collect::<Result<_, _>>()?, numbers: None })
    }

    /// Does what [`fit_partitions`] asks: the answer, as bytes.
    pub fn answer(&mut self, task: &[u8]) -> Result<Vec<u8>, ModelError> {
        let (task, more): (Task, &[u8]) = unframed(TASK, task)?;
        let answer = match &task {
            Task::Scan { options, text } => Answer::Scan(scan(self.table(text)?.as_ref(), options, text)?),
            Task::Look { encoder, text, share, seed } => {
                Answer::Look(self.with_numbers(encoder, text, |table, data| look(table, data, encoder, *share, *seed))?)
            }
            Task::Pass { encoder, text, maker } => {
                let broadcast = Broadcast::from_bytes(more).map_err(message_error)?;
                let sums = self.with_numbers(encoder, text, |_, data| {
                    let sums = data.map(|data| maker.sums(&data.dataset, &broadcast));
                    Ok(sums.unwrap_or_else(|| Sums::zero(broadcast.columns.len())))
                })?;
                return Ok(framed(ANSWER, &Answer::Pass, &sums.to_bytes())?);
            }
            Task::Summary { text, model } => {
                self.with_numbers(model.encoder(), text, |table, data| summary(table, data, model))?
            }
        };
        Ok(framed(ANSWER, &answer, &[])?)
    }

    /// The rows as a table in which the columns in `text` are text; none if there are no rows.
    fn table(&self, text: &[String]) -> Result<Option<Table>, TableError> {
        table_of(Box::new(self.batches.clone().into_iter().map(Ok)), text)
    }

    /// Works with the rows that are fitted.
    fn with_numbers<T>(
        &mut self,
        encoder: &Encoder,
        text: &[String],
        work: impl FnOnce(Option<&Table>, Option<&TableData<'_>>) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        if self.numbers.as_ref().is_none_or(|(known, known_text, _)| known != encoder || known_text != text) {
            let Some(table) = self.table(text)? else { return work(None, None) };
            let numbers = TableAndNumbers::try_new(table, |table| fitted_rows(table, encoder))?;
            self.numbers = Some((encoder.clone(), text.to_vec(), numbers));
        }
        match &self.numbers {
            Some((_, _, numbers)) => numbers.with_dependent(|table, data| work(Some(table), data.as_ref())),
            None => work(None, None),
        }
    }
}

/// What the rows of a partition come to, under what [`fit_partitions`] has asked. Who keeps [`PartitionRows`] reads them only once.
pub fn partial_sums(batches: Batches, task: &[u8]) -> Result<Vec<u8>, ModelError> {
    PartitionRows::new(batches)?.answer(task)
}

/// The diagnosis of some of the rows that a model was fitted to by passes: the places of those that are fitted, and what is known of them.
/// None if none of them are.
pub fn diagnose_batches(model: &TableModel, batches: Batches) -> Result<Option<(Vec<usize>, Diagnostics)>, ModelError> {
    let Some(table) = table_of(batches, &[])? else { return Ok(None) };
    let Some(TableData { dataset, rows, .. }) = fitted_rows(&table, model.encoder())? else { return Ok(None) };
    let in_memory = || message_error("the model was fitted in memory; diagnose it with the rows that it was fitted to");
    let diagnostics = model.regression().diagnosis_of(&dataset).ok_or_else(in_memory)?;
    Ok(Some((rows, diagnostics)))
}

fn scan(table: Option<&Table>, options: &EncodeOptions, text: &[String]) -> Result<PartOfTable, TableError> {
    let Some(table) = table else {
        return Ok(PartOfTable { rows: 0, names: Vec::new(), facts: Vec::new(), medians: Vec::new() });
    };
    options.check(table)?;
    let names = table.names();
    let (mut facts, mut medians) = (Vec::new(), Vec::new());
    for name in &names {
        if options.has_role(name) || !options.is_wanted(name) {
            facts.push(None);
            medians.push(None);
            continue;
        }
        let is_forced = options.is_forced(name);
        let of_column = match text.contains(name) && !is_forced {
            true => ColumnFacts::of_texts(&table.texts(name)?),
            false => ColumnFacts::of(table, name, is_forced)?,
        };
        let mut capped = ColumnFacts::none();
        let _ = capped.merge(of_column, most_levels(is_forced));
        facts.push(Some(capped));
        let wants_median = options.missing == Missing::Impute;
        medians.push(if wants_median { table.numbers(name)?.map(|values| median(&values)) } else { None });
    }
    Ok(PartOfTable { rows: table.row_count() as u64, names, facts, medians })
}

/// The rows that are fitted; none if there are none.
fn fitted_rows<'t>(table: &'t Table, encoder: &Encoder) -> Result<FittedRows<'t>, ModelError> {
    match encoder.data(table) {
        Err(ModelError::Table(TableError::AllDropped | TableError::NoWeight { .. })) => Ok(None),
        data => data.map(Some),
    }
}

fn look(
    table: Option<&Table>,
    data: Option<&TableData<'_>>,
    encoder: &Encoder,
    share: f64,
    seed: u64,
) -> Result<PartOfRows, ModelError> {
    let Some(table) = table else { return Ok(PartOfRows::default()) };
    let of_table = table.row_count() as u64;
    let without_weight = match &encoder.weights {
        Some(weights) => table.weights(weights)?.iter().filter(|weight| **weight == 0.0).count() as u64,
        None => 0,
    };
    let Some(TableData { dataset, rows, .. }) = data else {
        let with_missing = of_table - without_weight;
        return Ok(PartOfRows { with_missing, without_weight, ..PartOfRows::default() });
    };
    let hashes = hashes_of(dataset);
    let whole = hashes.iter().fold(0u128, |sum, hash| sum.wrapping_add(*hash));
    let place = |row: usize| xxh3_128_with_seed(&hashes[row].to_le_bytes(), seed.wrapping_add(row as u64)) as u64;
    let limit = if share >= 1.0 { u64::MAX } else { (share * u64::MAX as f64) as u64 };
    let places: Vec<usize> = (0..rows.len()).filter(|&row| place(row) <= limit).collect();
    let sample = if places.is_empty() { None } else { Some(dataset.take(&places)) };
    let ids = encoder.id.as_ref().map(|id| table.texts(id)).transpose()?;
    let drawn = places.iter().map(|&row| Drawn {
        hash: place(row),
        of_table: rows[row] as u64,
        id: ids.as_ref().map(|ids| ids[rows[row]].clone().unwrap_or_default()),
    });
    let inputs = sample.iter().flat_map(Dataset::columns).map(|column| column.iter().copied().collect());
    Ok(PartOfRows {
        rows: rows.len() as u64,
        with_missing: (of_table - rows.len() as u64).saturating_sub(without_weight),
        without_weight,
        moments: Some(Moments::of(dataset)),
        hash: format!("{whole:032x}"),
        drawn: drawn.collect(),
        inputs: inputs.collect(),
        target: sample.as_ref().map_or_else(Vec::new, |sample| sample.target().to_vec()),
        weights: sample.as_ref().and_then(|sample| sample.weights().map(<[f64]>::to_vec)),
    })
}

/// A hash of each row, wherever it stands.
pub(super) fn hashes_of(rows: &Dataset<'_>) -> Vec<u128> {
    let mut hashes = Vec::with_capacity(rows.row_count());
    let mut row_and_target = vec![0.0; rows.input_count() + 1];
    rows.blocks(|start, block| {
        for (i, row) in block.row_iter().enumerate() {
            row_and_target.iter_mut().zip(row.iter()).for_each(|(to, from)| *to = *from);
            row_and_target[rows.input_count()] = rows.target()[start + i];
            hashes.push(xxh3_128_with_seed(bytemuck::cast_slice(&row_and_target), 0));
        }
    });
    hashes
}

fn summary(table: Option<&Table>, data: Option<&TableData<'_>>, model: &TableModel) -> Result<Answer, ModelError> {
    let encoder = model.encoder();
    let Some(TableData { dataset, rows, .. }) = data else {
        return Ok(Answer::Summary { rows: None, labels: Vec::new() });
    };
    let summary = model.regression().summary(dataset);
    let ids = match (&encoder.id, table) {
        (Some(id), Some(table)) => Some(table.texts(id)?),
        _ => None,
    };
    let label = |row: u64| {
        let of_table = rows[row as usize];
        ids.as_ref().map_or(Label::Row(of_table as u64), |ids| Label::Id(ids[of_table].clone().unwrap_or_default()))
    };
    let labels = summary.iter().flat_map(RowSummary::suspicious).map(|row| label(row.row)).collect();
    Ok(Answer::Summary { rows: summary, labels })
}

/// Sends a task to all partitions and brings back their answers, in the order of the partitions.
pub type Run<'r> = dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>, TableError> + Send + 'r;

/// All partitions, as far as they are known.
struct Partitions<'r, 'f> {
    run: &'f mut Run<'r>,
    /// Rows of each that are fitted.
    rows: Vec<u64>,
    /// Rows of the table before each.
    first_rows: Vec<u64>,
    encoder: Encoder,
    text: Vec<String>,
    fingerprint: Fingerprint,
    /// What suspicious rows are called, by their numbers among all that are fitted.
    labels: HashMap<u64, String>,
}

/// The answers of all partitions.
fn ask(run: &mut Run<'_>, task: &Task, more: &[u8]) -> Result<Vec<(Answer, Vec<u8>)>, TableError> {
    let answers = run(&framed(TASK, task, more)?)?;
    let read = |bytes: &Vec<u8>| unframed::<Answer>(ANSWER, bytes).map(|(answer, more)| (answer, more.to_vec()));
    answers.iter().map(read).collect()
}

fn other_answer<T>() -> Result<T, TableError> {
    Err(TableError::Message { reason: "they answer another task".to_owned() })
}

/// The partitions are not what they were.
fn changed(partition: usize) -> TableError {
    TableError::SourceChanged { path: format!("partition {}", partition + 1) }
}

impl RowPasses for Partitions<'_, '_> {
    type Error = TableError;

    fn row_count(&self) -> u64 {
        self.rows.iter().sum()
    }

    fn sums(
        &mut self,
        maker: &RowMaker,
        broadcast: &Broadcast,
        control: &Control,
        take: &mut dyn FnMut(&Sums),
    ) -> Result<bool, TableError> {
        if control.is_stopped() {
            return Ok(false);
        }
        let maker = Box::new(maker.clone());
        let task = Task::Pass { encoder: self.encoder.clone(), text: self.text.clone(), maker };
        let answers = ask(self.run, &task, &broadcast.to_bytes())?;
        if answers.len() != self.rows.len() {
            return Err(changed(answers.len().min(self.rows.len())));
        }
        for (partition, (answer, more)) in answers.iter().enumerate() {
            let Answer::Pass = answer else { return other_answer() };
            let sums = Sums::from_bytes(more).map_err(message_error)?;
            if sums.rows != self.rows[partition] || sums.projection.len() != broadcast.columns.len() {
                return Err(changed(partition));
            }
            take(&sums);
        }
        Ok(true)
    }

    fn summaries(
        &mut self,
        regression: &Regression,
        control: &Control,
        take: &mut dyn FnMut(&RowSummary),
    ) -> Result<bool, TableError> {
        if control.is_stopped() {
            return Ok(false);
        }
        let (encoder, fingerprint) = (self.encoder.clone(), self.fingerprint.clone());
        let model = TableModel::of_stream(encoder, regression.clone(), Vec::new(), 0, fingerprint, Vec::new());
        let task = Task::Summary { text: self.text.clone(), model: Box::new(model) };
        let mut before = 0;
        for (partition, (answer, _)) in ask(self.run, &task, &[])?.into_iter().enumerate() {
            let Answer::Summary { rows, labels } = answer else { return other_answer() };
            let rows = rows.unwrap_or_default();
            if self.rows.get(partition) != Some(&rows.rows()) {
                return Err(changed(partition));
            }
            for (row, label) in rows.suspicious().iter().zip(labels) {
                let label = match label {
                    Label::Id(id) => id,
                    Label::Row(row) => (self.first_rows[partition] + row + 1).to_string(),
                };
                self.labels.insert(before + row.row, label);
            }
            before += rows.rows();
            take(&rows);
        }
        Ok(true)
    }
}

/// Fits the rows of partitions that lie elsewhere: `run` calls [`partial_sums`] on each of them whenever it is asked to.
pub fn fit_partitions(
    run: &mut Run<'_>,
    columns: &EncodeOptions,
    recipe: &Recipe,
    control: &Control,
    options: &StreamOptions,
) -> Result<StreamedFit, ModelError> {
    control.tell(Progress::Stage(&Stage::Reading));
    let Scanned { encoder, names, text, rows_of_parts } = scan_all(run, columns)?;
    let share = DRAWN * SAMPLE_ROWS as f64 / rows_of_parts.iter().sum::<u64>().max(1) as f64;
    let task = Task::Look { encoder: encoder.clone(), text: text.clone(), share, seed: recipe.seed() };
    let mut parts = Vec::new();
    for (partition, (answer, _)) in ask(run, &task, &[])?.into_iter().enumerate() {
        let Answer::Look(part) = answer else { return Ok(other_answer()?) };
        let is_new = |column: &Vec<f64>| column.len() != part.target.len();
        if partition >= rows_of_parts.len() || part.inputs.iter().any(is_new) {
            return Err(changed(partition).into());
        }
        parts.push(part);
    }
    let first_rows: Vec<u64> =
        rows_of_parts.iter().scan(0, |sum, rows| Some(std::mem::replace(sum, *sum + rows))).collect();
    let total = |of: fn(&PartOfRows) -> u64| parts.iter().map(of).sum::<u64>();
    let (rows, with_missing, without_weight) =
        (total(|part| part.rows), total(|part| part.with_missing), total(|part| part.without_weight));
    if rows == 0 {
        let column = columns.weights.clone().unwrap_or_default();
        return Err(if without_weight > 0 { TableError::NoWeight { column } } else { TableError::AllDropped }.into());
    }
    let mut notes = Vec::new();
    if with_missing > 0 {
        notes.push(format!("{with_missing} rows with missing values are left out"));
    }
    if without_weight > 0 {
        notes.push(format!("{without_weight} rows of weight 0 are left out"));
    }
    let mut moments = Moments::none(encoder.names().len());
    parts.iter().filter_map(|part| part.moments.as_ref()).for_each(|part| moments.merge(part));
    let hash = parts.iter().filter_map(|part| u128::from_str_radix(&part.hash, 16).ok()).fold(0, u128::wrapping_add);
    let fingerprint = Fingerprint {
        rows: usize::try_from(rows).unwrap_or(usize::MAX),
        inputs: encoder.names().len(),
        xxh3: format!("{hash:032x}"),
    };
    let (sample, kept, ids) = sample_of(&parts, &encoder, &first_rows)?;
    let settings = serde_json::to_string(recipe).unwrap_or_default();
    let what = serde_json::to_string(&(columns, &fingerprint, &rows_of_parts)).unwrap_or_default();
    let mut checkpoint =
        options.checkpoint.as_deref().map(|path| Checkpoint::open(path, &what, &settings)).transpose()?;
    let last = checkpoint.as_ref().and_then(|checkpoint| checkpoint.last.clone());
    let mut keep = |bytes: &[u8]| checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.write(bytes));
    let mut partitions = Partitions {
        run,
        rows: parts.iter().map(|part| part.rows).collect(),
        first_rows,
        encoder: encoder.clone(),
        text,
        fingerprint: fingerprint.clone(),
        labels: HashMap::new(),
    };
    drop(parts);
    let task = StreamTask {
        sample: &sample,
        moments: &moments,
        recipe,
        control,
        resume: last.as_deref(),
        keep: Some(&mut keep),
    };
    let regression = fit_passes(&mut partitions, task)?;
    if let Some(path) = options.checkpoint.as_ref().filter(|_| !control.is_stopped()) {
        // There is nothing to go on with.
        let _ = files::remove(path);
    }
    let label = |row: &SuspiciousRow| partitions.labels.get(&row.row).cloned().unwrap_or_default();
    let suspicious = regression.whole().map_or_else(Vec::new, |whole| whole.suspicious.iter().map(label).collect());
    let table_rows = usize::try_from(rows_of_parts.iter().sum::<u64>()).unwrap_or(usize::MAX);
    let table = encoder.decode(&sample, &ids);
    let model = TableModel::of_stream(encoder, regression, kept, table_rows, fingerprint, suspicious);
    let model = model.with_ids(|place, _| ids.get(place).cloned());
    Ok(StreamedFit { model, sample: table, names, notes })
}

/// What a first look at all partitions has found.
struct Scanned {
    encoder: Encoder,
    names: Vec<String>,
    text: Vec<String>,
    rows_of_parts: Vec<u64>,
}

fn scan_all(run: &mut Run<'_>, columns: &EncodeOptions) -> Result<Scanned, TableError> {
    let mut text: Vec<String> = Vec::new();
    'look: loop {
        let answers = ask(run, &Task::Scan { options: columns.clone(), text: text.clone() }, &[])?;
        let (mut names, mut known, mut medians) = (Vec::new(), Vec::<Option<ColumnFacts>>::new(), Vec::new());
        let mut rows_of_parts = Vec::with_capacity(answers.len());
        for (partition, (answer, _)) in answers.into_iter().enumerate() {
            let Answer::Scan(part) = answer else { return other_answer() };
            rows_of_parts.push(part.rows);
            if part.rows == 0 {
                continue;
            }
            if names.is_empty() {
                (names, known, medians) = (part.names, part.facts, part.medians);
                continue;
            }
            for (k, name) in names.iter().enumerate() {
                let Some(facts) = &mut known[k] else { continue };
                let place = part.names.iter().position(|other| other == name);
                let more = place.and_then(|place| part.facts.get(place).cloned().flatten());
                let Some(more) = more else {
                    let path = format!("partition {}", partition + 1);
                    return Err(TableError::FileColumn { path, column: name.clone() });
                };
                if !facts.merge(more, most_levels(columns.is_forced(name))) {
                    if text.contains(name) {
                        let reason = format!("the column '{name}' holds numbers in some partitions and text in others");
                        return Err(TableError::Message { reason });
                    }
                    text.push(name.clone());
                    continue 'look;
                }
                medians[k] = medians[k].or_else(|| part.medians.get(place.unwrap_or(k)).copied().flatten());
            }
        }
        if names.is_empty() {
            return Err(TableError::NoRows { path: BATCHES_NAME.to_owned() });
        }
        let place = |name: &String| names.iter().position(|other| other == name);
        let facts = |name: &String| {
            let missing = || TableError::NoSuchColumn { column: name.clone(), known: names.clone() };
            place(name).and_then(|place| known[place].clone()).ok_or_else(missing)
        };
        let median = |name: &String| place(name).and_then(|place| medians[place]).unwrap_or(0.0);
        let encoder = Encoder::of_facts(&names, facts, median, columns)?;
        return Ok(Scanned { encoder, names, text, rows_of_parts });
    }
}

/// The rows that were drawn: as data, their numbers in the table, and what they are called.
fn sample_of(
    parts: &[PartOfRows],
    encoder: &Encoder,
    first_rows: &[u64],
) -> Result<(Dataset<'static>, Vec<usize>, Vec<String>), ModelError> {
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for (partition, part) in parts.iter().enumerate() {
        all.extend(part.drawn.iter().enumerate().map(|(place, drawn)| (drawn.hash, partition, place)));
    }
    all.sort_unstable();
    all.truncate(SAMPLE_ROWS);
    all.sort_unstable_by_key(|&(_, partition, place)| (partition, place));
    let pick = |values: fn(&PartOfRows) -> &[f64]| -> Vec<f64> {
        all.iter().map(|&(_, partition, place)| values(&parts[partition])[place]).collect()
    };
    let columns = (0..encoder.names().len()).map(|column| {
        Numbers::Owned(all.iter().map(|&(_, partition, place)| parts[partition].inputs[column][place]).collect())
    });
    let sample = Dataset::from_columns(columns.collect(), pick(|part| &part.target))?
        .with_names(encoder.names())?
        .with_groups(&encoder.groups())?
        .with_input_columns(encoder.input_columns())?;
    let sample = match &encoder.weights {
        Some(_) => sample.with_weights(pick(|part| part.weights.as_deref().unwrap_or_default()))?,
        None => sample,
    };
    let number = |partition: usize, place: usize| first_rows[partition] + parts[partition].drawn[place].of_table;
    let kept = all.iter().map(|&(_, partition, place)| usize::try_from(number(partition, place)).unwrap_or(usize::MAX));
    let id = |partition: usize, place: usize| parts[partition].drawn[place].id.clone();
    let ids = all.iter().map(|&(_, partition, place)| {
        id(partition, place).unwrap_or_else(|| (number(partition, place) + 1).to_string())
    });
    Ok((sample, kept.collect(), ids.collect()))
}
