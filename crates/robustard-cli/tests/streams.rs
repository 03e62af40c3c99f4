//! Tables larger than memory, as a user meets them.

use std::time::{Duration, Instant};

mod common;

use common::{Folder, text};

/// y = 10 + 2a − b + 3 in Nice + noise; every fiftieth row is off by 15.
fn rows(from: usize, to: usize) -> String {
    let mut lines = "name,a,b,junk,city,y\n".to_owned();
    for i in from..to {
        let wave = |k: usize| ((i * (2 * k + 3)) as f64 * 0.611).sin() * 2.0 + ((i * i) as f64 * 0.37 * k as f64).cos();
        let (a, b, junk) = (wave(1), 5.0 + wave(2), wave(4));
        let city = ["Paris", "Lyon", "Nice"][i * 7 % 11 % 3];
        let noise = 0.5 * ((i * i) as f64 * 0.61).sin() + 0.3 * ((i * i) as f64 * 1.37).cos();
        let error = if i % 50 == 7 { 15.0 } else { 0.0 };
        let y = 10.0 + 2.0 * a - b + if city == "Nice" { 3.0 } else { 0.0 } + noise + error;
        lines += &format!("r{i},{a:.4},{b:.4},{junk:.4},{city},{y:.4}\n");
    }
    lines
}

/// Runs a fit; gives its JSON.
fn fit(folder: &Folder, arguments: &[&str]) -> serde_json::Value {
    let whole = [&["fit", "--target", "y", "--id", "name", "--json", "--features", "linear"], arguments].concat();
    let output = folder.run(&whole);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &serde_json::Value, path: &str) -> f64 {
    value.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

/// The coefficients by name.
fn coefficients(fit: &serde_json::Value) -> Vec<(String, f64)> {
    let mut features: Vec<(String, f64)> = fit["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|feature| (feature["name"].as_str().unwrap().to_owned(), number(feature, "/coefficient")))
        .collect();
    features.sort_by(|a, b| a.0.cmp(&b.0));
    features
}

#[test]
fn files_in_pieces_are_fitted_as_one_table_in_memory() {
    let folder = Folder::new("stream-fit");
    folder.file("all.csv", rows(0, 12_000));
    std::fs::create_dir(folder.path("parts")).unwrap();
    for (name, from, to) in [("a.csv", 0, 5000), ("b.csv", 5000, 5001), ("c.csv", 5001, 12_000)] {
        folder.file(&format!("parts/{name}"), rows(from, to));
    }
    let memory = fit(&folder, &["all.csv", "--noise", "contaminated"]);
    let stream = fit(&folder, &["all.csv", "--noise", "contaminated", "--memory", "1KB", "-o", "one.model"]);
    assert!(memory.get("whole").is_none());
    assert_eq!(number(&stream, "/whole/rows"), 12_000.0);
    assert_eq!(number(&stream, "/rows"), 12_000.0);
    for ((name, own), (_, other)) in coefficients(&stream).iter().zip(coefficients(&memory)) {
        assert!((own - other).abs() < 1e-4, "{name}: {own} {other}");
    }
    assert!((number(&stream, "/quality/loo_rmse") - number(&memory, "/quality/loo_rmse")).abs() < 1e-3);
    let ids = |fit: &serde_json::Value| -> Vec<String> {
        let rows = fit["flagged_rows"].as_array().unwrap().iter().take(100);
        let mut ids: Vec<String> = rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&stream).len(), 100);
    assert!(ids(&stream).iter().all(|id| id[1..].parse::<usize>().unwrap() % 50 == 7));
    // The same rows in several files, found by a folder or a pattern: the same bytes, with any number of threads.
    for (name, table, threads) in [("folder.model", "parts", "1"), ("pattern.model", "parts/?.csv", "2")] {
        fit(&folder, &[table, "--noise", "contaminated", "--memory", "1KB", "-o", name, "--threads", threads]);
        assert!(folder.bytes(name) == folder.bytes("one.model"), "{name}");
    }
    // Enough memory: several files are one table.
    let joined = fit(&folder, &["parts/a.csv", "parts/b.csv", "parts/c.csv", "--noise", "contaminated"]);
    assert!((number(&joined, "/evidence") - number(&memory, "/evidence")).abs() < 1e-6);
    // Nothing is left behind.
    let left: Vec<String> = folder.names().into_iter().filter(|name| name.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_default_says_what_it_was_chosen_on() {
    let folder = Folder::new("stream-default");
    folder.file("all.csv", rows(0, 11_000));
    let arguments = [
        "fit", "all.csv", "--target", "y", "--id", "name", "--memory", "1KB", "--rows", "rows.csv", "--report",
        "p.html",
    ];
    let output = folder.run(&arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    for wanted in
        ["11000 rows, 6 columns", "chosen on 10000 rows", "passes over the rows", "220 outliers flagged", "a "]
    {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert!(err.contains("read in pieces"), "{err}");
    let written = folder.read("rows.csv");
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 11_001);
    // In the order of the table.
    assert!(lines[1].starts_with("r0,") && lines[8].starts_with("r7,") && lines[8].contains("true"), "{}", lines[8]);
    let page = folder.read("p.html");
    for wanted in
        ["11,000 rows in passes", "11000 rows fitted", "220 of 11000 rows", "The most suspicious of all rows: r"]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
}

/// Rows of the page are called as in the table, not as in the sample of it.
#[test]
fn the_page_of_a_sample_has_the_numbers_of_the_table() {
    let folder = Folder::new("stream-numbers");
    folder.file("all.csv", rows(0, 11_000));
    let arguments =
        ["fit", "all.csv", "--target", "y", "--exclude", "name", "--memory", "1KB", "--json", "--report", "p.html"];
    let output = folder.run(&[&arguments[..], &["--features", "linear", "--noise", "contaminated"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let fit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let worst = number(&fit, "/flagged_rows/0/row");
    assert_eq!(worst % 50.0, 8.0);
    let page = folder.read("p.html");
    assert!(page.contains(&format!("Check row {worst} first")), "{worst}");
    let rows = page.split_once("\"row\":[").unwrap().1.split_once(']').unwrap().0;
    let flagged = number(&fit, "/whole/flagged") as usize * 10_000 / 11_000;
    let wrong = rows.split(',').take(flagged - 20).filter(|row| row.parse::<usize>().unwrap() % 50 != 8).count();
    assert_eq!(wrong, 0, "{rows:.200}");
}

#[test]
fn errors_name_the_file_and_its_row() {
    let folder = Folder::new("stream-files");
    folder.file("a.csv", rows(0, 3000));
    let good = rows(3000, 6000);
    let (line, a) = good.lines().nth(8).map(|line| (line, line.split(',').nth(1).unwrap())).unwrap();
    folder.file("b.csv", good.replacen(line, &line.replacen(a, "inf", 1), 1));
    let message = |arguments: &[&str]| {
        let output = folder
            .run(&[&["fit", "a.csv", "b.csv", "--target", "y", "--id", "name", "--memory", "1KB"], arguments].concat());
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr).to_owned()
    };
    let said = message(&[]);
    assert!(said.contains("b.csv: column '"), "{said}");
    let odd = rows(0, 3000).replacen("r17,", "r17,oops", 1);
    folder.file("odd.csv", &odd);
    let output = folder.run(&["fit", "odd.csv", "--target", "y", "--id", "name", "--memory", "1KB"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let said = format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("most of them numbers: row 18 is 'oops"), "{out}{err}");
}

#[test]
fn rows_are_diagnosed_and_predicted_in_pieces() {
    let folder = Folder::new("stream-diagnose");
    folder.file("all.csv", rows(0, 9000));
    fit(&folder, &["all.csv", "--memory", "1KB", "-o", "m", "--rows", "rows.csv"]);
    let output = folder.run(&["diagnose", "m", "all.csv", "-o", "again.csv"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let numbers = |name: &str| -> Vec<Vec<String>> {
        folder.read(name).lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    for (own, other) in numbers("again.csv").iter().zip(numbers("rows.csv")).skip(1) {
        assert_eq!((&own[0], &own[10]), (&other[0], &other[10]));
        let [a, b] = [&own[9], &other[9]].map(|z| z.parse::<f64>().unwrap());
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    folder.file("other.csv", rows(1, 9001));
    let output = folder.run(&["diagnose", "m", "other.csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not the table"), "{}", text(&output.stderr));
    let output = folder.run(&["report", "m", "all.csv"]);
    assert!(text(&output.stderr).contains("needs a model of a table in memory"), "{}", text(&output.stderr));
    // Predictions of two files are those of each.
    folder.file("new1.csv", rows(20_000, 20_100));
    folder.file("new2.csv", rows(20_100, 20_150));
    assert!(folder.run(&["predict", "m", "new1.csv", "new2.csv", "-o", "both.csv"]).status.success());
    assert!(folder.run(&["predict", "m", "new2.csv", "-o", "second.csv"]).status.success());
    let (both, second) = (folder.read("both.csv"), folder.read("second.csv"));
    assert_eq!(both.lines().count(), 151);
    assert_eq!(both.lines().last(), second.lines().last());
}

#[test]
fn missing_values_weights_and_types_that_change_late() {
    let folder = Folder::new("stream-types");
    // A column of numbers whose last value is text is a category with too many levels; a weight of 0 is left out.
    let mut table = "id,a,late,w,y\n".to_owned();
    for i in 0..4000 {
        let a = (i as f64 * 0.7).sin();
        let late = if i == 3999 { "x".to_owned() } else { i.to_string() };
        let a_text = if i % 100 == 3 { "NA".to_owned() } else { format!("{a:.4}") };
        table += &format!("i{i},{a_text},{late},{},{:.4}\n", u8::from(i % 10 != 4), 3.0 * a + (i as f64 * 1.9).cos());
    }
    folder.file("t.csv", table);
    let base =
        ["fit", "t.csv", "--target", "y", "--id", "id", "--weights", "w", "--noise", "shared", "--features", "linear"];
    let run = |more: &[&str]| folder.run(&[&base, more].concat());
    let refused = run(&["--memory", "1KB"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("'a' (40 rows)"), "{}", text(&refused.stderr));
    for missing in ["drop", "impute"] {
        let memory = run(&["--missing", missing, "--json"]);
        let stream = run(&["--missing", missing, "--json", "--memory", "1KB", "--rows", "-"]);
        assert_eq!(stream.status.code(), Some(2));
        let stream = run(&["--missing", missing, "--json", "--memory", "1KB", "--rows", &format!("{missing}.csv")]);
        assert!(stream.status.success(), "{}", text(&stream.stderr));
        let [memory, stream]: [serde_json::Value; 2] =
            [memory, stream].map(|output| serde_json::from_slice(&output.stdout).unwrap());
        assert_eq!(number(&stream, "/rows"), number(&memory, "/rows"), "{missing}");
        for ((name, own), (_, other)) in coefficients(&stream).iter().zip(coefficients(&memory)) {
            assert!((own - other).abs() < 2e-3, "{missing} {name}: {own} {other}");
        }
        assert!(stream["left_out"].to_string().contains("late"), "{}", stream["left_out"]);
    }
    let rows = folder.read("drop.csv");
    // Rows 3 (missing) and 4 (no weight) are not there.
    let ids: Vec<&str> = rows.lines().skip(1).map(|line| line.split(',').next().unwrap()).take(4).collect();
    assert_eq!(ids, ["i0", "i1", "i2", "i5"]);
}

#[test]
fn wrong_files_are_named() {
    let folder = Folder::new("stream-errors");
    folder.file("a.csv", rows(0, 3000));
    folder.file("b.csv", "name,a,b,city,y\nr,1,2,Lyon,3\n");
    folder.file("c.csv", rows(0, 30).replace("-", "inf").replace("r5,", "r5,inf"));
    let message = |tables: &[&str], more: &[&str]| {
        let output = folder.run(&[&["fit", "--target", "y", "--id", "name", "--memory", "1KB"], tables, more].concat());
        assert_ne!(output.status.code(), Some(0), "{tables:?}");
        text(&output.stderr)
    };
    assert!(message(&["a.csv", "b.csv"], &[]).contains("b.csv has no column 'junk'"));
    assert!(message(&["nothing-*.csv"], &[]).contains("matches no file"));
    assert!(message(&["a.csv", "-"], &[]).contains("standard input"));
    let size = folder.run(&["fit", "a.csv", "--target", "y", "--memory", "much"]);
    assert!(text(&size.stderr).contains("2GB"), "{}", text(&size.stderr));
    assert!(message(&["a.csv"], &["--checkpoint", "a.csv"]).contains("checkpoint a.csv"));
    let target = folder.run(&["fit", "a.csv", "--target", "price", "--memory", "1KB"]);
    assert!(text(&target.stderr).contains("there is no column 'price'"), "{}", text(&target.stderr));
    // A kept cache that was changed.
    assert!(
        folder.run(&["fit", "a.csv", "--target", "y", "--id", "name", "--cache", "cache", "--quiet"]).status.success()
    );
    let cache = std::fs::read_dir(folder.path("cache")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&cache).unwrap();
    let before = message_of(&folder);
    assert!(before.is_empty(), "{before}");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&cache, &bytes).unwrap();
    assert!(message_of(&folder).contains("has changed since it was written"), "{}", message_of(&folder));
    std::fs::write(&cache, &bytes[..middle]).unwrap();
    assert!(message_of(&folder).contains("cut short"), "{}", message_of(&folder));
    // A file that changes makes another cache.
    folder.file("a.csv", rows(0, 3001));
    assert_eq!(message_of(&folder), "");
}

fn message_of(folder: &Folder) -> String {
    let output = folder.run(&["fit", "a.csv", "--target", "y", "--id", "name", "--cache", "cache", "--quiet"]);
    text(&output.stderr)
}

/// Killed at many moments, a fit with a checkpoint goes on and ends with the bytes of one that was not.
#[test]
fn killed_fits_go_on() {
    const KILLS: u32 = 20;
    let folder = Folder::new("stream-kill");
    folder.file("all.csv", rows(0, 12_000));
    let arguments = |output: &'static str| {
        [
            "fit",
            "all.csv",
            "--target",
            "y",
            "--id",
            "name",
            "--features",
            "rff:100",
            "--noise",
            "student-t:4",
            "--lengthscale",
            "usual",
            "--quiet",
            "--force",
            "--checkpoint",
            "fit.checkpoint",
            "--cache",
            "cache",
            "-o",
            output,
        ]
    };
    let started = Instant::now();
    assert!(folder.run(&arguments("whole.model")).status.success());
    let whole = started.elapsed();
    assert!(!folder.names().contains(&"fit.checkpoint".to_owned()), "a fit that ended leaves no checkpoint");
    std::fs::remove_dir_all(folder.path("cache")).unwrap();
    let mut kills = 0;
    while kills < KILLS {
        // At moments that are spread over the whole fit.
        let moment = whole.mul_f64(0.05 + 0.85 * f64::from(kills * 7 % KILLS) / f64::from(KILLS));
        let mut child = folder.command(&arguments("killed.model")).spawn().unwrap();
        std::thread::sleep(moment.max(Duration::from_millis(20)));
        let _ = child.kill();
        let status = child.wait().unwrap();
        kills += 1;
        if status.success() {
            assert!(folder.bytes("killed.model") == folder.bytes("whole.model"));
            std::fs::remove_file(folder.path("killed.model")).unwrap();
        } else {
            assert!(!folder.names().contains(&"killed.model".to_owned()), "half a model");
        }
    }
    assert!(folder.run(&arguments("killed.model")).status.success());
    assert!(folder.bytes("killed.model") == folder.bytes("whole.model"));
    let left: Vec<String> = std::fs::read_dir(folder.path("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
