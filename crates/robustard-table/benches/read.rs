//! Time to read a table of 1,000,000 × 20, as CSV and as Parquet, beside polars in the same run: one of numbers, and one with
//! counts, categories, quoted text and truth values among them.
//!
//! `cargo xtask bench read` runs it with a Python that has polars in `ROBUSTARD_POLARS_PYTHON`. Every measurement is a new process that reads
//! the file three times; the table shows the first reading and the best one, the medians of all processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use robustard_table::{ReadOptions, Table, read, write};

const ROWS: usize = 1_000_000;
const COLUMNS: usize = 20;
const READINGS: usize = 3;
const PROCESSES: usize = 7;

const POLARS: &str = "
import sys, time
import polars
read = polars.read_csv if sys.argv[1].endswith('.csv') else polars.read_parquet
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    table = read(sys.argv[1])
    print(time.perf_counter() - start)
    assert table.shape == (1000000, 20)
    del table
";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "--child") {
        return child(Path::new(&arguments[place + 1]));
    }
    let folder = std::env::temp_dir().join("robustard-read-bench");
    std::fs::create_dir_all(&folder).expect("a folder for the tables");
    let (numbers, mixed) = (table(0), table(6));
    let tables =
        [("numbers.csv", &numbers), ("numbers.parquet", &numbers), ("mixed.csv", &mixed), ("mixed.parquet", &mixed)];
    let files = tables.map(|(name, table)| {
        let path = folder.join(name);
        write(table, &path).expect("the table is written");
        path
    });
    println!("{ROWS} x {COLUMNS}; seconds of the first reading and of the best of {READINGS} in a process,");
    println!("medians of {PROCESSES} processes each, in turns");
    println!("{:<16} {:>10} {:>10} {:>10} {:>10} {:>14}", "", "ours", "polars", "ours", "polars", "ratio");
    println!("{:<16} {:>10} {:>10} {:>10} {:>10} {:>14}", "", "first", "first", "best", "best", "first / best");
    for file in &files {
        let python = std::env::var_os("ROBUSTARD_POLARS_PYTHON").map(PathBuf::from);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            let own = std::env::current_exe().expect("this program has a path");
            ours.push(timings(Command::new(own).arg("--child").arg(file)));
            if let Some(python) = &python {
                theirs.push(timings(Command::new(python).args(["-c", POLARS]).arg(file).arg(READINGS.to_string())));
            }
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let first = |all: &[Vec<f64>]| median(all.iter().map(|readings| readings[0]));
        let best =
            |all: &[Vec<f64>]| median(all.iter().map(|readings| readings.iter().copied().fold(f64::MAX, f64::min)));
        if theirs.is_empty() {
            println!("{name:<16} {:>10.3} {:>10} {:>10.3}   (no polars)", first(&ours), "", best(&ours));
        } else {
            let ratios = format!("{:.2} / {:.2}", first(&ours) / first(&theirs), best(&ours) / best(&theirs));
            println!(
                "{name:<16} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {ratios:>14}",
                first(&ours),
                first(&theirs),
                best(&ours),
                best(&theirs)
            );
        }
    }
}

fn child(file: &Path) {
    for _ in 0..READINGS {
        let start = Instant::now();
        let table = read(file, &ReadOptions::default()).expect("the table is read");
        println!("{}", start.elapsed().as_secs_f64());
        assert_eq!((table.row_count(), table.names().len()), (ROWS, COLUMNS));
    }
}

fn timings(command: &mut Command) -> Vec<f64> {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line.parse().expect("a number")).collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Numbers of six digits or so, as measurements have; the last `other` columns hold other things.
fn table(other: usize) -> Table {
    const CITIES: [&str; 5] = ["Berlin", "Paris", "Rome", "Lima", "Oslo"];
    const QUOTED: [&str; 3] = ["New York, NY", "Washington, DC", "a \"quoted\" word"];
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut columns = Vec::new();
    for k in 0..COLUMNS {
        let values: Vec<f64> = (0..ROWS).map(|_| uniform()).collect();
        let choose = |words: &[&str]| {
            let pick = |v: &f64| Some(words[(v * words.len() as f64) as usize].to_owned());
            Table::text_column(values.iter().map(pick).collect::<Vec<_>>())
        };
        let column = match (k + other).checked_sub(COLUMNS) {
            None => Table::number_column(values.iter().map(|v| (2e6 * v - 1e6).round() / 1e5)),
            Some(0 | 1) => Table::count_column(values.iter().map(|v| (1e5 * v) as usize)),
            Some(2 | 3) => choose(&CITIES),
            Some(4) => choose(&QUOTED),
            Some(_) => Table::boolean_column(values.iter().map(|v| *v < 0.5)),
        };
        columns.push((format!("column{k}"), column));
    }
    Table::from_columns(columns)
}
