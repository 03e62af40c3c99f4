//! Damaged files and tables that are too large end in an error that says so, not in a panic or a full memory.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray, types::Int32Type};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use robustard::{Control, Recipe};
use robustard_table::{
    EncodeOptions, Encoder, Limits, PieceReader, ReadOptions, TableError, TableModel, read_bytes, sources,
};

fn batch() -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new((0..200).map(|k| Some(f64::from(k)).filter(|k| *k != 3.0)).collect::<Float64Array>());
    let words: ArrayRef = Arc::new((0..200).map(|k| Some(format!("word {}", k % 7))).collect::<StringArray>());
    let levels: ArrayRef =
        Arc::new((0..200).map(|k| Some(["a", "b", "c"][k % 3])).collect::<DictionaryArray<Int32Type>>());
    RecordBatch::try_from_iter([("number", numbers), ("word", words), ("level", levels)]).unwrap()
}

fn arrow_file(compression: Option<CompressionType>, is_file: bool) -> Vec<u8> {
    let batch = batch();
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    if is_file {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        return writer.into_inner().unwrap();
    }
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn parquet_file() -> Vec<u8> {
    let mut bytes = Vec::new();
    let batch = batch();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Numbers from one to the next, by a multiplication.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

/// A copy with a few bytes changed, or cut short.
fn damaged(bytes: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if draws.next(8) == 0 {
        bytes.truncate(draws.next(bytes.len()));
        return bytes;
    }
    for _ in 0..=draws.next(4) {
        // Most of what decides how a file is read stands at its beginning or end.
        let length = bytes.len();
        let place = match draws.next(3) {
            0 => draws.next(length.min(700)),
            1 => length - 1 - draws.next(length.min(700)),
            _ => draws.next(length),
        };
        bytes[place] = match draws.next(4) {
            0 => 0xff,
            1 => 0,
            2 => 0x7f,
            _ => bytes[place] ^ (1 << draws.next(8)),
        };
    }
    bytes
}

#[test]
fn damaged_files_do_not_panic() {
    let mut draws = Draws(1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let files = [
        arrow_file(None, true),
        arrow_file(None, false),
        arrow_file(Some(CompressionType::ZSTD), true),
        arrow_file(Some(CompressionType::LZ4_FRAME), false),
        parquet_file(),
    ];
    let options =
        ReadOptions { limits: Limits { memory: Some(300_000_000), ..Limits::default() }, ..ReadOptions::default() };
    let mut refused = 0;
    for file in &files {
        for _ in 0..300 {
            let bytes = damaged(file, &mut draws);
            std::fs::write(&path, &bytes).unwrap();
            match read_bytes(bytes, "t", &options) {
                Ok(table) => assert!(table.row_count() > 0),
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
            let files = sources(std::slice::from_ref(&path)).unwrap();
            let mut pieces = PieceReader::new(&files, &options);
            while let Ok(Some(_)) = pieces.read() {}
        }
    }
    assert!(refused > 200, "{refused}");
}

/// A part that says that it unpacks to more than there is memory for.
#[test]
fn parts_that_unpack_to_too_much_are_refused() {
    let numbers: ArrayRef = Arc::new((0..20_000).map(|_| 1.0).collect::<Float64Array>());
    let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), batch.schema_ref(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let mut bytes = writer.into_inner().unwrap();
    let size = (20_000 * 8_u64).to_le_bytes();
    let place = bytes.windows(8).position(|part| part == size).unwrap();
    bytes[place..place + 8].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    let message = read_bytes(bytes, "t", &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("unpacks to") && message.contains("memory"), "{message}");
}

#[test]
fn small_files_that_unpack_to_large_ones_are_refused_before_memory_is_gone() {
    let options =
        ReadOptions { limits: Limits { memory: Some(12_000_000), ..Limits::default() }, ..ReadOptions::default() };
    let text = format!("x,y\n{}", "1,2\n".repeat(1_000_000));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 1).unwrap()] {
        assert!(packed.len() < 50_000);
        let error = read_bytes(packed.clone(), "t.csv.gz", &options).unwrap_err();
        assert!(matches!(error, TableError::TooLarge { most: 1_000_000, .. }), "{error}");
        assert!(error.to_string().contains("t.csv.gz is larger than 1.0 MB"), "{error}");
        assert_eq!(read_bytes(packed, "t.csv.gz", &ReadOptions::default()).unwrap().row_count(), 1_000_000);
    }
}

/// Time for each column does not grow with their number: twice as many took four times as long.
#[test]
fn many_columns_are_read_in_time() {
    let columns = 100_000;
    let row = |value: &dyn Fn(usize) -> String| (0..columns).map(value).collect::<Vec<_>>().join(",");
    let text = format!("{}\n{}\n{}\n", row(&|k| format!("c{k}")), row(&|k| k.to_string()), row(&|k| format!("{k}.5")));
    let started = Instant::now();
    let table = read_bytes(text.clone().into_bytes(), "t", &ReadOptions::default()).unwrap();
    let encoder = Encoder::fit(&table, &EncodeOptions::new("c0")).unwrap();
    encoder.encode(&table, &[]).unwrap();
    assert_eq!(encoder.columns.len(), columns - 1);
    // It took 13 s, and takes a third of a second.
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    let few = ReadOptions { limits: Limits { columns: 1000, ..Limits::default() }, ..ReadOptions::default() };
    let error = read_bytes(text.into_bytes(), "t", &few).unwrap_err();
    assert!(error.to_string().contains("t has 100000 columns, more than the 1000"), "{error}");
}

#[test]
fn categories_of_too_many_levels_are_named() {
    let rows: String = (0..4000).map(|k| format!("l{},{},{}\n", k % 2000, k % 13, k % 7)).collect();
    let table = read_bytes(format!("k,x,y\n{rows}").into_bytes(), "t", &ReadOptions::default()).unwrap();
    let columns = EncodeOptions { categorical: vec!["k".into()], ..EncodeOptions::new("y") };
    let error = Encoder::fit(&table, &columns).unwrap_err();
    assert!(matches!(error, TableError::TooManyLevels { levels: 2000, most: 1000, .. }), "{error}");
    assert!(
        error.to_string().contains("'k' has 2000 levels") && error.to_string().contains("--most-levels"),
        "{error}"
    );
    let limits = Limits { levels: 2000, memory: Some(50_000_000), ..Limits::default() };
    let more = EncodeOptions { limits, ..columns };
    assert_eq!(Encoder::fit(&table, &more).unwrap().names().len(), 2002);
    // There is memory for a table of these levels, but not for the fit.
    let error = TableModel::fit(&table, &more, &Recipe::default(), &Control::new()).unwrap_err();
    assert!(error.to_string().contains("4000 rows and 2002 features"), "{error}");
}
