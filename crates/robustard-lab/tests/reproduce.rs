//! The paper's experiments in a few minutes: what it found holds, and nothing is run twice. Data are in `ROBUSTARD_DATA`; without
//! it these tests say so and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use robustard_lab::results::Results;

fn reproduce(arguments: &[&str]) -> Option<Output> {
    if std::env::var_os("ROBUSTARD_DATA").is_none() {
        eprintln!("no data (set ROBUSTARD_DATA), skipped");
        return None;
    }
    Some(run(arguments))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robustard-lab")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// A folder for one test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn what_the_paper_found_holds() {
    let folder = folder("reproduce");
    let results = folder.join("paper");
    let arguments = ["all", "--quick", "--results", results.to_str().unwrap()];
    let Some(output) = reproduce(&arguments) else { return };
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let count = |words: &str| out.lines().filter(|line| line.starts_with("holds") && line.contains(words)).count();
    for (words, expected) in [
        ("noise per row beats shared noise on every set", 3),
        ("ESS(y) lies within", 3),
        ("is below the Gaussian process'", 3),
        ("Wrong labels are found far more often than by chance", 2),
        ("recovers weights and rows better", 3),
        ("predicts the motorcycle data better", 1),
        ("gives the stars' slope the right sign", 1),
    ] {
        assert_eq!(count(words), expected, "{words}:\n{out}");
    }
    let document = read(folder.join("paper.md"));
    for wanted in [
        "## Tabular regression",
        "## Kernel regression",
        "(the paper's Table 2)",
        "paper/figures/stars.svg",
        "| huber |",
    ] {
        assert!(document.contains(wanted), "{wanted}\n{document}");
    }
    let figure = read(results.join("figures/kernel-rmse.svg"));
    assert!(figure.starts_with("<svg") && figure.contains("sparse GP"));
    let tabular = Results::read(&results.join("tabular.csv")).unwrap().text();
    assert!(tabular.starts_with("dataset,condition,method,trial,measure,value\n"));
    assert!(tabular.contains("yacht,contamination=0.1,em,1,rmse,"));

    // All of it is there: nothing is run again, and the same document comes out.
    let runs = read(results.join("runs.csv"));
    assert_eq!(runs.lines().count(), 8, "{runs}");
    assert!(reproduce(&arguments).unwrap().status.success());
    assert_eq!(read(results.join("runs.csv")), runs);
    assert_eq!(read(folder.join("paper.md")), document);
}

#[test]
fn unknown_names_are_told() {
    let folder = folder("reproduce-names");
    let results = folder.join("paper").display().to_string();
    let Some(output) = reproduce(&["tabular", "--methods", "emm", "--results", &results]) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("irls_l2_shared"), "{}", text(&output.stderr));
    let output = reproduce(&["tabular", "--datasets", "bosten", "--results", &results]).unwrap();
    assert!(text(&output.stderr).contains("boston"), "{}", text(&output.stderr));
    let output = reproduce(&["tabular", "--data", "nowhere", "--datasets", "boston", "--results", &results]).unwrap();
    assert!(text(&output.stderr).contains("--data"), "{}", text(&output.stderr));
    let output = reproduce(&["stars", "--methods", "huber", "--results", &results]).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("its methods are em"), "{}", text(&output.stderr));
    assert!(!folder.join("paper.md").exists());
}

#[test]
fn usage_errors_are_told_apart() {
    for arguments in [&["tabula"][..], &["stars", "--trials", "0"], &[]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("--help"), "{}", text(&output.stderr));
    }
}
