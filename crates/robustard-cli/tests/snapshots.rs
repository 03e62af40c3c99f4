//! What users see of each command: output, messages and exit code. `cargo insta review`, or `INSTA_UPDATE=always cargo test`,
//! takes over a wanted change.

mod common;

use common::{Folder, houses, text};

/// The command, its exit code and what it printed, times taken out.
fn shown(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(arguments);
    let mut out = format!("$ robustard {}\nexit code {}\n", arguments.join(" "), output.status.code().unwrap());
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            out += &format!("──── {name}\n{}", without_times(&text(bytes)));
        }
    }
    out
}

/// Times such as "12 ms in all", the line of times and the column of seconds become "[time]".
fn without_times(text: &str) -> String {
    let is_time = |word: &str| word.split_once('.').is_some_and(|(_, digits)| digits.len() == 2);
    let mut seconds_column = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.starts_with("Time ") {
            out += "Time     [times]\n";
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let place = match words.last() {
            Some(last) if seconds_column && is_time(last) => Some(words.len() - 1),
            _ => words.windows(4).position(|words| words[2..] == ["in", "all,"]),
        };
        let is_unit = |word: &str| ["s", "ms"].contains(&word);
        let kept = words.iter().enumerate().filter_map(|(k, word)| match place {
            Some(place) if k == place => Some("[time]"),
            Some(place) if k == place + 1 && is_unit(word) => None,
            _ => Some(*word),
        });
        out += &kept.collect::<Vec<_>>().join(" ");
        out.push('\n');
        seconds_column |= line.trim_end().ends_with("seconds");
    }
    out
}

/// Figures that follow from the same computation on another processor: sums are taken in another order there, and a fit may stop a step
/// earlier or later.
const ALIKE: f64 = 0.01;

/// The snapshot, up to the last digits of figures.
fn assert_shown(name: &str, text: String) {
    insta::assert_snapshot!(name, or_stored(name, text));
}

/// The stored snapshot where `text` differs from it in the last digits of figures only, else `text`.
fn or_stored(name: &str, text: String) -> String {
    let path = format!("{}/tests/snapshots/snapshots__{name}.snap", env!("CARGO_MANIFEST_DIR"));
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    let stored = stored.splitn(3, "---\n").nth(2).unwrap_or_default();
    if is_alike(stored, &text) { stored.to_owned() } else { text }
}

/// The same lines of the same words, figures with decimals within [`ALIKE`] of each other or one apart in the last digit.
fn is_alike(one: &str, other: &str) -> bool {
    let figure = |word: &str| word.trim_end_matches('%').parse::<f64>().ok().filter(|_| word.contains('.'));
    let last_digit = |word: &str| {
        let decimals = word.trim_end_matches('%').split_once('.').map_or(0, |(_, decimals)| decimals.len());
        10f64.powi(-(decimals as i32))
    };
    let word = |(a, b): (&str, &str)| match (figure(a), figure(b)) {
        (Some(x), Some(y)) => (x - y).abs() <= ALIKE * x.abs().max(y.abs()) + 1.01 * last_digit(a).min(last_digit(b)),
        _ => a == b,
    };
    let line = |(a, b): (&str, &str)| {
        let [a, b] = [a, b].map(|line| line.split([' ', ',']).filter(|word| !word.is_empty()).collect::<Vec<_>>());
        a.len() == b.len() && a.into_iter().zip(b).all(word)
    };
    one.lines().count() == other.lines().count() && one.lines().zip(other.lines()).all(line)
}

#[test]
fn figures_may_differ_in_their_last_digits() {
    let one = "default  7.9511  96.0%\n3 rows";
    assert!(is_alike(one, "default 7.9513     96.1%\n3 rows\n"));
    for other in [
        "default 8.1 96.0%\n3 rows",
        "default 7.9511 96.0%\n4 rows",
        "default 7.9511 96.0%",
        "ols 7.9511 96.0%\n3 rows",
    ] {
        assert!(!is_alike(one, other), "{other}");
    }
}

/// Three digits are enough to look at.
fn rounded(text: String) -> String {
    let field = |field: &str| match field.parse::<f64>() {
        Ok(value) if field.contains('.') => format!("{value:.3}"),
        _ => field.to_owned(),
    };
    let line = |line: &str| line.split(',').map(field).collect::<Vec<_>>().join(",");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file("houses.csv", houses());
    folder
}

#[test]
fn fit() {
    let folder = folder("snap-fit");
    let files = ["-o", "houses.model", "--rows", "rows.csv", "--report", "houses.html", "--figures", "figures"];
    let all = [&["fit", "houses.csv", "--target", "price", "--id", "name"][..], &files].concat();
    assert_shown("fit", shown(&folder, &all));
    assert_shown("fit-leaves-out", shown(&folder, &["fit", "houses.csv", "--target", "price"]));
    assert_shown("fit-rows-to-stdout", {
        let out = shown(&folder, &["fit", "houses.csv", "--target", "price", "--id", "name", "--rows", "-"]);
        // The first rows tell enough.
        let (rows, words) = out.split_once("──── stderr").unwrap();
        format!(
            "{}\n…\n──── stderr{words}",
            rows.lines()
                .take(5)
                .map(|l| l.split(',').take(2).collect::<Vec<_>>().join(","))
                .collect::<Vec<_>>()
                .join("\n")
        )
    });
    assert_shown(
        "fit-not-converged",
        shown(
            &folder,
            &[
                "fit",
                "houses.csv",
                "--target",
                "price",
                "--exclude",
                "name",
                "--strict",
                "--set",
                "max_iterations=2",
                "--features",
                "linear",
            ],
        ),
    );
}

#[test]
fn predict_and_diagnose() {
    let folder = folder("snap-predict");
    assert!(
        folder.run(&["fit", "houses.csv", "--target", "price", "--id", "name", "-o", "m", "--quiet"]).status.success()
    );
    folder.file("new.csv", "junk,age,colour,area,name\n0,20,red,60,a\n0.5,40,blue,30,b\n");
    assert_shown("predict", rounded(shown(&folder, &["predict", "m", "new.csv"])));
    assert_shown("predict-only", rounded(shown(&folder, &["predict", "m", "new.csv", "--only", "--level", "0.8"])));
    let rows = rounded(shown(&folder, &["diagnose", "m", "houses.csv"]));
    assert_shown("diagnose", rows.lines().take(9).collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!(
        "report",
        shown(&folder, &["report", "m", "houses.csv", "-o", "page.html", "--figures", "figures"])
    );
    assert!(folder.read("page.html").starts_with("<!DOCTYPE html>"));
    assert!(folder.read("figures/coverage.svg").starts_with("<svg"));
    insta::assert_snapshot!("report-exists", shown(&folder, &["report", "m", "houses.csv", "-o", "page.html"]));
    insta::assert_snapshot!("report-other-table", shown(&folder, &["report", "m", "new.csv"]));
}

#[test]
fn effects_and_explain() {
    let folder = folder("snap-effects");
    let output = folder.run(&["fit", "houses.csv", "--target", "price", "--id", "name", "-o", "m", "--quiet"]);
    assert!(output.status.success());
    assert_shown("effects-columns", rounded(shown(&folder, &["effects", "m", "--of", "columns"])));
    let values = rounded(shown(&folder, &["effects", "m", "--column", "age"]));
    assert_shown("effects-values", values.lines().take(7).collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!("effects-no-column", shown(&folder, &["effects", "m", "--column", "garden"]));
    assert_shown("explain", shown(&folder, &["explain", "m", "houses.csv", "--row", "h7"]));
    insta::assert_snapshot!("explain-no-row", shown(&folder, &["explain", "m", "houses.csv", "--row", "100"]));
    folder.file("new.csv", "name,area,age,junk\na,60,20,0\n");
    let explained = ["predict", "m", "new.csv", "--only", "--explain"];
    assert_shown("predict-explain", rounded(shown(&folder, &explained)));
}

#[test]
fn compare() {
    let folder = folder("snap-compare");
    assert_shown(
        "compare",
        shown(&folder, &["compare", "houses.csv", "--target", "price", "--exclude", "name", "--folds", "5"]),
    );
}

#[test]
fn help() {
    let folder = Folder::new("snap-help");
    for command in ["fit", "predict", "effects", "explain", "diagnose", "report", "compare", "demo", "completions"] {
        insta::assert_snapshot!(format!("help-{command}"), shown(&folder, &[command, "--help"]));
    }
    insta::assert_snapshot!("help", shown(&folder, &["--help"]));
}

#[test]
fn demo() {
    let folder = Folder::new("snap-demo");
    assert_shown("demo", shown(&folder, &["demo"]));
    assert_eq!(folder.names(), ["robustard-demo.html"]);
    let completions = text(&folder.run(&["completions", "zsh"]).stdout);
    insta::assert_snapshot!("completions", completions.lines().next().unwrap());
}
