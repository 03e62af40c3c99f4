//! What a user of the command sees.

use std::process::{Command, Output};

fn robustard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robustard")).args(arguments).output().expect("the command starts")
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
        let output = robustard(&["demo", "--seed", seed]);
        assert!(output.status.success());
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let output = text(&output.stdout);
        assert!(output.lines().all(|line| line.chars().count() <= 80), "{output}");
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
    assert_eq!(robustard(&["demo"]).stdout, robustard(&["demo", "--seed", "2"]).stdout);
    assert_ne!(robustard(&["demo"]).stdout, robustard(&["demo", "--seed", "3"]).stdout);
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
