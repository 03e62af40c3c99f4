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

/// Times such as "12 ms in all", and the column of seconds, become "[time]".
fn without_times(text: &str) -> String {
    let is_time = |word: &str| word.split_once('.').is_some_and(|(_, digits)| digits.len() == 2);
    let mut seconds_column = false;
    let mut out = String::new();
    for line in text.lines() {
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
    insta::assert_snapshot!("fit", shown(&folder, &all));
    insta::assert_snapshot!("fit-leaves-out", shown(&folder, &["fit", "houses.csv", "--target", "price"]));
    insta::assert_snapshot!("fit-rows-to-stdout", {
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
    insta::assert_snapshot!(
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
                "linear"
            ],
        )
    );
}

#[test]
fn predict_and_diagnose() {
    let folder = folder("snap-predict");
    assert!(
        folder.run(&["fit", "houses.csv", "--target", "price", "--id", "name", "-o", "m", "--quiet"]).status.success()
    );
    folder.file("new.csv", "junk,age,colour,area,name\n0,20,red,60,a\n0.5,40,blue,30,b\n");
    // Three digits are enough to look at, and the same everywhere.
    let rounded = |text: String| {
        let field = |field: &str| match field.parse::<f64>() {
            Ok(value) if field.contains('.') => format!("{value:.3}"),
            _ => field.to_owned(),
        };
        let line = |line: &str| line.split(',').map(field).collect::<Vec<_>>().join(",");
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("predict", rounded(shown(&folder, &["predict", "m", "new.csv"])));
    insta::assert_snapshot!(
        "predict-only",
        rounded(shown(&folder, &["predict", "m", "new.csv", "--only", "--level", "0.8"]))
    );
    let rows = rounded(shown(&folder, &["diagnose", "m", "houses.csv"]));
    insta::assert_snapshot!("diagnose", rows.lines().take(9).collect::<Vec<_>>().join("\n"));
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
fn compare() {
    let folder = folder("snap-compare");
    insta::assert_snapshot!(
        "compare",
        shown(&folder, &["compare", "houses.csv", "--target", "price", "--exclude", "name", "--folds", "5"])
    );
}

#[test]
fn help() {
    let folder = Folder::new("snap-help");
    for command in ["fit", "predict", "diagnose", "report", "compare", "demo", "completions"] {
        insta::assert_snapshot!(format!("help-{command}"), shown(&folder, &[command, "--help"]));
    }
    insta::assert_snapshot!("help", shown(&folder, &["--help"]));
}

#[test]
fn demo() {
    let folder = Folder::new("snap-demo");
    insta::assert_snapshot!("demo", shown(&folder, &["demo"]));
    assert_eq!(folder.names(), ["robustard-demo.html"]);
    let completions = text(&folder.run(&["completions", "zsh"]).stdout);
    insta::assert_snapshot!("completions", completions.lines().next().unwrap());
}
