//! The paper's experiments in a few minutes: what it found holds, and nothing is run twice. Data are in `ROBUSTARD_DATA`; without
//! it these tests say so and pass.

use std::path::Path;
use std::process::{Command, Output};

use robustard_lab::results::Results;

mod common;

use common::{Folder, text};

fn reproduce(arguments: &[&str]) -> Option<Output> {
    if std::env::var_os("ROBUSTARD_DATA").is_none() {
        eprintln!("no data (set ROBUSTARD_DATA), skipped");
        return None;
    }
    Some(Command::new(env!("CARGO_BIN_EXE_robustard")).arg("reproduce").args(arguments).output().unwrap())
}

#[test]
fn what_the_paper_found_holds() {
    let folder = Folder::new("reproduce");
    let results = folder.path("paper");
    let arguments = ["all", "--quick", "--results", &results];
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
    let document = folder.read("paper.md");
    for wanted in [
        "## Tabular regression",
        "## Kernel regression",
        "(the paper's Table 2)",
        "paper/figures/stars.svg",
        "| huber |",
    ] {
        assert!(document.contains(wanted), "{wanted}\n{document}");
    }
    let figure = folder.read("paper/figures/kernel-rmse.svg");
    assert!(figure.starts_with("<svg") && figure.contains("sparse GP"));
    let tabular = Results::read(Path::new(&folder.path("paper/tabular.csv"))).unwrap().text();
    assert!(tabular.starts_with("dataset,condition,method,trial,measure,value\n"));
    assert!(tabular.contains("yacht,contamination=0.1,em,1,rmse,"));

    // All of it is there: nothing is run again, and the same document comes out.
    let runs = folder.read("paper/runs.csv");
    assert_eq!(runs.lines().count(), 8, "{runs}");
    assert!(reproduce(&arguments).unwrap().status.success());
    assert_eq!(folder.read("paper/runs.csv"), runs);
    assert_eq!(folder.read("paper.md"), document);
}

#[test]
fn unknown_names_are_told() {
    let folder = Folder::new("reproduce-names");
    let results = folder.path("paper");
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
    assert!(folder.names().iter().all(|name| name != "paper.md"), "{:?}", folder.names());
}
