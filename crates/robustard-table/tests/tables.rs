//! Reading, writing and encoding of tables.

use std::path::Path;

use robustard_table::{
    ColumnKind, Compression, EncodeOptions, Encoded, Encoder, Format, Header, Kind, Missing, ReadOptions, Table,
    TableError, read_bytes, write,
};

fn read_text(text: &str) -> Result<Table, TableError> {
    read_bytes(text.as_bytes().to_vec(), "test.csv", &ReadOptions::default())
}

fn value(encoded: &Encoded<'_>, row: usize, column: usize) -> f64 {
    encoded.columns[column].values()[row]
}

const HOUSES: &str = "\
id,area,city,garden,built,price
a1,50,Paris,true,2001-02-03,100.5
a2,60.5,Lyon,false,1999-01-01,90
a3,70,Paris,true,2010-10-10,150
a4,80,Lyon,true,2011-11-11,140
a5,90,Paris,false,2012-12-12,200
a6,95,Lyon,false,2013-01-13,210
";

fn compression_ending(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "",
        Compression::Gzip => ".gz",
        Compression::Zstd => ".zst",
    }
}

#[test]
fn every_format_round_trips() {
    let table = read_text(HOUSES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for kind in [Kind::Csv, Kind::Tsv, Kind::Parquet, Kind::Arrow, Kind::JsonLines] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            if compression != Compression::None && !kind.is_text() {
                continue;
            }
            let name = format!(
                "t.{}{}",
                kind.name().to_lowercase().replace("json lines", "jsonl"),
                compression_ending(compression)
            );
            let path = folder.path().join(name);
            write(&table, &path).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            // Found out from the content alone, and from a name.
            for options in [ReadOptions::default(), ReadOptions { kind: Some(kind), ..ReadOptions::default() }] {
                let back = read_bytes(bytes.clone(), "test", &options).unwrap();
                let mut names = back.names();
                names.sort_unstable(); // JSON has no order of fields
                assert_eq!(names, ["area", "built", "city", "garden", "id", "price"], "{kind:?} {compression:?}");
                assert_eq!(back.numbers("price").unwrap(), table.numbers("price").unwrap(), "{kind:?}");
                assert_eq!(back.numbers("area").unwrap(), table.numbers("area").unwrap(), "{kind:?}");
                assert_eq!(back.texts("city").unwrap(), table.texts("city").unwrap(), "{kind:?}");
                assert_eq!(*back.numbers("garden").unwrap().unwrap(), [1.0, 0.0, 1.0, 1.0, 0.0, 0.0], "{kind:?}");
            }
        }
    }
}

#[test]
fn formats_are_told_by_names() {
    for (name, kind, compression) in [
        ("x.csv", Kind::Csv, Compression::None),
        ("a/x.CSV.GZ", Kind::Csv, Compression::Gzip),
        ("x.tsv.zst", Kind::Tsv, Compression::Zstd),
        ("x.parquet", Kind::Parquet, Compression::None),
        ("x.feather", Kind::Arrow, Compression::None),
        ("x.jsonl", Kind::JsonLines, Compression::None),
    ] {
        assert_eq!(Format::of_path(Path::new(name)), Some(Format { kind, compression }), "{name}");
    }
    assert_eq!(Format::of_path(Path::new("-")), None);
    assert_eq!(Format::of_path(Path::new("x.xlsx")), None);
}

#[test]
fn text_is_understood_as_people_write_it() {
    // Semicolons, a byte order mark, words for missing values, a column that turns to text late, Windows line ends.
    let table = read_text("\u{feff}x;y\r\n1;NA\r\n2;3.5\r\n;4\r\n").unwrap();
    assert_eq!(table.names(), ["x", "y"]);
    let y = table.numbers("y").unwrap().unwrap();
    assert!(y[0].is_nan() && y[1] == 3.5);
    assert!(table.numbers("x").unwrap().unwrap()[2].is_nan());

    let mut text = "x,y\n".to_owned();
    (0..3000).for_each(|i| text += &format!("{i},{}\n", if i == 2500 { "?".to_owned() } else { format!("{i}.25") }));
    let table = read_text(&text).unwrap();
    let y = table.numbers("y").unwrap().unwrap();
    assert!(y[2500].is_nan() && y[2999] == 2999.25);

    let table = read_text("1,2\n3,4\n").unwrap();
    assert_eq!(table.names(), ["c1", "c2"]);
    let options = ReadOptions { header: Header::Yes, ..ReadOptions::default() };
    assert_eq!(read_bytes(b"1,2\n3,4\n".to_vec(), "t", &options).unwrap().names(), ["1", "2"]);

    // A number too long for 64 bits is a number all the same.
    let table = read_text("x,y\n99999999999999999999999,1\n2,3\n").unwrap();
    assert_eq!(table.numbers("x").unwrap().unwrap()[0], 1e23);
}

#[test]
fn bad_files_are_told_apart() {
    let message = |bytes: &[u8], name: &str| {
        read_bytes(bytes.to_vec(), name, &ReadOptions::default()).map(|_| ()).unwrap_err().to_string()
    };
    assert!(message(b"", "e.csv").contains("is empty"));
    assert!(message(b" \n\n", "e.csv").contains("is empty"));
    assert!(message(b"a,b\n", "e.csv").contains("no rows"));
    assert!(message(b"a,b\n1,2,3\n", "e.csv").contains("line"), "{}", message(b"a,b\n1,2,3\n", "e.csv"));
    assert!(message(b"a,a\n1,2\n", "e.csv").contains("two columns named 'a'"));
    assert!(message(b"\x1f\x8b\x08nonsense", "e.csv.gz").contains("gzip"));
    assert!(message(b"\x28\xb5\x2f\xfdnonsense", "e.csv.zst").contains("zstd"));
    assert!(message(b"PAR1 nonsense", "e.parquet").contains("Parquet"));
    assert!(message(b"ARROW1 nonsense", "e.arrow").contains("Arrow"));
    assert!(message(b"{\"a\": 1}\n{broken\n", "e.jsonl").contains("JSON lines"));
    let missing = robustard_table::read(Path::new("/no/such/file.csv"), &ReadOptions::default()).unwrap_err();
    assert!(missing.to_string().contains("no such file"), "{missing}");
}

#[test]
fn columns_are_used_by_what_they_hold() {
    let table = read_text(HOUSES).unwrap();
    let encoder = Encoder::fit(&table, &EncodeOptions::new("price")).unwrap();
    assert_eq!(encoder.names(), ["area", "city=Lyon", "city=Paris", "city=(other)", "garden"]);
    assert_eq!(encoder.groups(), [0, 1, 1, 1, 2]);
    let reasons: Vec<(&str, &str)> = encoder.left_out.iter().map(|l| (l.name.as_str(), l.reason.as_str())).collect();
    assert_eq!(reasons, [("id", "is text with 6 different values"), ("built", "holds dates")]);
    let encoded = encoder.encode(&table, &[]).unwrap();
    let row: Vec<f64> = (0..4).map(|j| value(&encoded, 1, j)).collect();
    assert_eq!(row, [60.5, 1.0, 0.0, 0.0]);

    let strict = EncodeOptions { strict: true, ..EncodeOptions::new("price") };
    assert!(Encoder::fit(&table, &strict).unwrap_err().to_string().contains("'id'"));
    let with = EncodeOptions { id: Some("id".into()), exclude: vec!["built".into()], ..strict };
    assert_eq!(Encoder::fit(&table, &with).unwrap().columns.len(), 3);
    let only = EncodeOptions { include: vec!["area".into()], ..EncodeOptions::new("price") };
    assert_eq!(Encoder::fit(&table, &only).unwrap().names(), ["area"]);
    let forced = EncodeOptions { categorical: vec!["area".into()], ..only };
    assert_eq!(Encoder::fit(&table, &forced).unwrap().names().len(), 7);
}

#[test]
fn wrong_columns_are_named() {
    let table = read_text(HOUSES).unwrap();
    let message = |options: &EncodeOptions| Encoder::fit(&table, options).unwrap_err().to_string();
    assert!(message(&EncodeOptions::new("prize")).contains("did you mean 'price'"));
    let options = EncodeOptions { exclude: vec!["nope".into()], ..EncodeOptions::new("price") };
    assert!(message(&options).contains("'nope'"));
    let options = EncodeOptions { include: vec!["built".into()], ..EncodeOptions::new("price") };
    assert!(message(&options).contains("no columns are left"));
    assert!(table.role("city", "the target").unwrap_err().to_string().contains("text ('Paris')"));
    let infinite = read_text("x,y\n1,inf\n2,3\n").unwrap();
    assert!(infinite.role("y", "the target").unwrap_err().to_string().contains("row 1"));
}

#[test]
fn missing_values_are_refused_dropped_or_filled_in() {
    let table = read_text("x,c,y\n1,a,1\n,a,2\n3,,3\n5,b,4\n7,b,5\n").unwrap();
    let with = |missing| EncodeOptions { missing, ..EncodeOptions::new("y") };
    let message = Encoder::fit(&table, &with(Missing::Error)).unwrap_err().to_string();
    assert!(message.contains("'x' (1 row)") && message.contains("--missing drop"), "{message}");

    let dropping = Encoder::fit(&table, &with(Missing::Drop)).unwrap();
    let encoded = dropping.encode(&table, &[]).unwrap();
    assert_eq!(encoded.rows, [0, 3, 4]);
    assert_eq!(encoded.notes, ["2 rows with missing values are left out"]);

    let filling = Encoder::fit(&table, &with(Missing::Impute)).unwrap();
    assert_eq!(filling.names(), ["x", "x (missing)", "c=a", "c=b", "c=missing", "c=(other)"]);
    assert_eq!(filling.groups(), [0, 1, 2, 2, 2, 2]);
    assert_eq!(filling.columns[0].kind, ColumnKind::ImputedNumber { median: 5.0, indicator: true });
    let encoded = filling.encode(&table, &[]).unwrap();
    let row = |i: usize| -> Vec<f64> { (0..5).map(|j| value(&encoded, i, j)).collect() };
    assert_eq!(row(1), [5.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(row(2), [3.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn new_tables_are_encoded_like_the_old_one() {
    let encoder = Encoder::fit(&read_text(HOUSES).unwrap(), &EncodeOptions::new("price")).unwrap();
    // Another order, an extra column, no target, a city never seen.
    let new = read_text("garden,city,other,area\ntrue,Nice,x,10\nfalse,Paris,y,20\n").unwrap();
    let encoded = encoder.encode(&new, &[]).unwrap();
    let row = |i: usize| -> Vec<f64> { (0..4).map(|j| value(&encoded, i, j)).collect() };
    assert_eq!(row(0), [10.0, 0.0, 0.0, 1.0]);
    assert_eq!(row(1), [20.0, 0.0, 1.0, 0.0]);
    assert!(encoded.notes[0].contains("'Nice'") && encoded.notes[0].contains("not seen"), "{:?}", encoded.notes);
    let message = encoder.encode(&read_text("area,city\n1,Paris\n").unwrap(), &[]).unwrap_err().to_string();
    assert!(message.contains("'garden'"), "{message}");
    let message =
        encoder.encode(&read_text("area,city,garden\nbig,Paris,true\n").unwrap(), &[]).unwrap_err().to_string();
    assert!(message.contains("'big'") && message.contains("row 1"), "{message}");
}

/// Names, numbers and dates as people and programs write them.
#[test]
fn columns_mean_what_they_say() {
    let pandas = read_text(",x,y\n0,1.5,2\n1,2.5,3\n").unwrap();
    assert_eq!(pandas.names(), ["c1", "x", "y"]);
    let comma = read_text("x;y\n1,5;2\n-0,25;3\n").unwrap();
    assert_eq!(*comma.numbers("x").unwrap().unwrap(), [1.5, -0.25]);
    let options = ReadOptions { text_columns: vec!["id".to_owned()], ..ReadOptions::default() };
    let ids = read_bytes(b"id,y\n007,1\n1152921504606846981,2\n1.50,3\n".to_vec(), "t", &options).unwrap();
    assert_eq!(
        ids.texts("id").unwrap().into_iter().flatten().collect::<Vec<_>>(),
        ["007", "1152921504606846981", "1.50"]
    );

    let dates = read_text("d,x,y\n01/02/2024,1,2\n02/02/2024,2,3\n01/02/2024,3,4\n02/02/2024,4,5\n").unwrap();
    let encoder = Encoder::fit(&dates, &EncodeOptions::new("y")).unwrap();
    assert_eq!(encoder.left_out[0].reason, "holds dates");

    // A number is the same level however it is written.
    let numbers = read_text("g,y\n1,2\n2,3\n1,4\n2,5\n").unwrap();
    let options = EncodeOptions { categorical: vec!["g".to_owned()], ..EncodeOptions::new("y") };
    let encoder = Encoder::fit(&numbers, &options).unwrap();
    let new = read_text("g\n1.0\n2.0\n").unwrap();
    let encoded = encoder.encode(&new, &[]).unwrap();
    assert_eq!((value(&encoded, 0, 0), value(&encoded, 1, 1), encoded.notes.len()), (1.0, 1.0, 0));

    // A model that fills in does so in every column, also where the training table had no holes.
    let holes = read_text("x,z,y\n1,1,2\n,2,3\n3,5,4\n").unwrap();
    let encoder = Encoder::fit(&holes, &EncodeOptions { missing: Missing::Impute, ..EncodeOptions::new("y") }).unwrap();
    assert_eq!(encoder.names(), ["x", "x (missing)", "z"]);
    let new = read_text("x,z\n,1\n1,\n").unwrap();
    let encoded = encoder.encode(&new, &[]).unwrap();
    assert_eq!((value(&encoded, 0, 1), value(&encoded, 1, 2)), (1.0, 2.0));
}

/// Text comes in several shapes from other programs.
#[test]
fn text_of_any_arrow_type_is_text() {
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, LargeStringArray, RecordBatch, StringViewArray};
    let words = ["a", "b", "a", "b"];
    let columns: [(&str, ArrayRef); 4] = [
        ("large", std::sync::Arc::new(LargeStringArray::from_iter_values(words))),
        ("view", std::sync::Arc::new(StringViewArray::from_iter_values(words))),
        ("dictionary", std::sync::Arc::new(words.into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("y", Table::number_column([1.0, 2.0, 1.5, 2.5])),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, batch.schema_ref()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let table = read_bytes(bytes, "t.arrow", &ReadOptions::default()).unwrap();
    let encoder = Encoder::fit(&table, &EncodeOptions::new("y")).unwrap();
    let names =
        ["large", "view", "dictionary"].map(|name| ["a", "b", "(other)"].map(|level| format!("{name}={level}")));
    assert_eq!(encoder.names(), names.concat());
}
