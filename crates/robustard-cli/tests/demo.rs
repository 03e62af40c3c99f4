//! What a user of the command sees.

use std::process::{Command, Output};

fn robustard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robustard")).args(arguments).output().expect("the command starts")
}

/// The demonstration's text; its page goes away.
fn demo(seed: Option<&str>) -> Output {
    let thread = std::thread::current().id();
    let page = std::env::temp_dir().join(format!("robustard-demo-{}-{thread:?}.html", std::process::id()));
    let page_name = page.display().to_string();
    let mut arguments = vec!["demo", "--report", &page_name];
    arguments.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
    let output = robustard(&arguments);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Which rows should I check?"));
    let again = robustard(&arguments);
    assert!(text(&again.stdout).contains("left as it is"), "nothing is overwritten unasked");
    std::fs::remove_file(&page).unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// RMSE and NLL at the end of the line that starts with `name`, after the heading of the cross-validation.
fn scores(output: &str, name: &str) -> [f64; 2] {
    let section = output.split("cross-validation").nth(1).expect("a cross-validation");
    let line = section.lines().find(|line| line.trim_start().starts_with(name)).expect("a line of the method");
    let numbers: Vec<f64> = line.split_whitespace().rev().take(2).map(|word| word.parse().unwrap()).collect();
    [numbers[1], numbers[0]]
}

#[test]
fn demo_finds_the_wrong_rows_and_predicts_better() {
    for seed in ["1", "2", "3"] {
        let output = demo(Some(seed));
        assert!(output.status.success());
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let output = text(&output.stdout);
        assert!(
            output.lines().filter(|line| !line.starts_with("Wrote")).all(|line| line.chars().count() <= 80),
            "{output}"
        );
        assert!(output.contains("Made wrong on purpose: 6 random rows"));
        let found: usize = output.matches("  made wrong").count();
        assert!(found >= 5, "seed {seed}: {found} of 6 found\n{output}");
        let (joint, shared) = (scores(&output, "joint ARD (each"), scores(&output, "model-only"));
        assert!(joint[0] < shared[0] && joint[1] < shared[1], "seed {seed}: {joint:?} {shared:?}");
        assert!(output.contains("23.6") && output.contains("4.67"), "the paper's figures are quoted");
    }
}

#[test]
fn the_same_seed_gives_the_same_output() {
    let before_page = |output: Output| text(&output.stdout).split("Wrote").next().unwrap().to_owned();
    assert_eq!(before_page(demo(None)), before_page(demo(Some("2"))));
    assert_ne!(before_page(demo(None)), before_page(demo(Some("3"))));
}

#[test]
fn usage_errors_are_told_apart() {
    for arguments in [&["dem"][..], &["demo", "--seed", "x"], &[]] {
        let output = robustard(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(text(&output.stderr).contains("--help"), "{arguments:?}: {}", text(&output.stderr));
    }
    let help = robustard(&["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("robustard demo"));
}
