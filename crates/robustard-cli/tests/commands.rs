//! `fit`, `predict` and `diagnose` as a user meets them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

mod common;

use common::{Folder, houses, text};

fn robustard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robustard")).args(arguments).output().unwrap()
}

#[test]
fn a_table_becomes_a_summary_a_model_and_rows() {
    let folder = Folder::new("summary");
    let table = folder.file("houses.csv", houses());
    let (model, rows) = (folder.path("houses.model"), folder.path("rows.csv"));
    let output = robustard(&["fit", &table, "--target", "price", "--id", "name", "-o", &model, "--rows", &rows]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.is_empty(), "{err}");
    for wanted in [
        "100 rows, 5 columns",
        "predicting price from 3 columns",
        "converged",
        "Quality",
        "area",
        "1 outlier flagged",
        "h7",
    ] {
        assert!(out.contains(wanted), "{wanted} is not in\n{out}");
    }
    let width = out
        .lines()
        .filter(|line| !line.contains(&table) && !line.contains("Wrote"))
        .map(|line| line.chars().count())
        .max();
    assert!(width <= Some(80), "{out}");
    assert!(!out.contains('\u{1b}'), "colours only on a terminal");
    let rows = folder.read("rows.csv");
    let lines: Vec<&str> = rows.lines().collect();
    assert_eq!(
        lines[0],
        "name,actual,predicted,loo_residual,noise_variance,relevance,leverage,cooks_distance,dffits,z,flagged,set_aside"
    );
    assert!(lines[1].starts_with("h7,") && lines[1].ends_with("true,false"), "{}", lines[1]);
    assert_eq!(lines.len(), 101);

    // Nothing is overwritten unasked.
    let again = robustard(&["fit", &table, "--target", "price", "-o", &model]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"));
    assert!(robustard(&["fit", &table, "--target", "price", "-o", &model, "--force"]).status.success());
    // No temporary files are left.
    assert_eq!(folder.names(), ["houses.csv", "houses.model", "rows.csv"]);
}

#[test]
fn models_predict_tables_in_any_order_and_format() {
    let folder = Folder::new("predict");
    let table = folder.file("houses.csv", houses());
    let model = folder.path("m");
    assert!(
        robustard(&["fit", &table, "--target", "price", "--exclude", "name", "-o", &model, "--quiet"]).status.success()
    );
    let new = folder.file("new.csv", "junk,age,colour,area\n0,20,red,60\n0.5,40,blue,30\n");
    let output = robustard(&["predict", &model, &new]);
    let out = text(&output.stdout);
    assert!(out.starts_with("junk,age,colour,area,prediction,std,lower,upper\n"), "{out}");
    assert!(text(&output.stderr).contains("colour"), "{}", text(&output.stderr));
    let numbers: Vec<f64> = out.lines().nth(1).unwrap().split(',').skip(4).map(|v| v.parse().unwrap()).collect();
    assert!((numbers[0] - 160.0).abs() < 1.0 && numbers[2] < numbers[0] && numbers[0] < numbers[3], "{out}");
    for name in ["out.parquet", "out.arrow", "out.jsonl", "out.tsv.gz", "out.csv.zst"] {
        let path = folder.path(name);
        assert!(robustard(&["predict", &model, &new, "--only", "-o", &path]).status.success(), "{name}");
        let back = robustard_table::read(Path::new(&path), &Default::default()).unwrap();
        assert!((back.numbers("prediction").unwrap().unwrap()[0] - numbers[0]).abs() < 1e-9, "{name}");
    }
    let missing = folder.file("missing.csv", "age,area\n1,2\n");
    let output = robustard(&["predict", &model, &missing]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("'junk'"), "{}", text(&output.stderr));

    let diagnosed = text(&robustard(&["diagnose", &model, &table]).stdout);
    assert!(diagnosed.lines().nth(1).unwrap().starts_with("8,"), "{diagnosed}");
    let other = robustard(&["diagnose", &model, &folder.file("other.csv", "area,age,junk,price\n1,2,3,4\n")]);
    assert!(text(&other.stderr).contains("not the table"), "{}", text(&other.stderr));
}

#[test]
fn tables_come_through_pipes_and_results_as_json() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_robustard"))
        .args([
            "fit",
            "-",
            "--target",
            "price",
            "--exclude",
            "name",
            "--json",
            "--noise",
            "contaminated",
            "--solver",
            "mackay",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(houses().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["status"], "converged");
    assert_eq!(value["flagged_rows"][0]["row"], 8);
    assert_eq!(value["noise_variance"].as_array().unwrap().len(), 100);
    for key in ["fitted", "seconds", "times", "evidence", "iterations", "features", "quality"] {
        assert!(!value[key].is_null(), "{key}");
    }
}

/// A row is not among those that are like it, which have their ids whatever table is given.
#[test]
fn similar_rows_are_others_and_have_ids() {
    let folder = Folder::new("similar");
    folder.file("houses.csv", houses());
    let fit = ["fit", "houses.csv", "--target", "price", "--id", "name", "-o", "m", "--quiet"];
    assert!(folder.run(&fit).status.success());
    folder.file("new.csv", "name,area,age,junk\na,60,20,0\n");
    for (table, row) in [("houses.csv", "h1"), ("houses.csv", "h50"), ("new.csv", "a")] {
        let output = folder.run(&["explain", "m", table, "--row", row, "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let similar = value["similar_rows"].as_array().unwrap();
        assert_eq!(similar.len(), 5);
        for other in similar {
            let id = other["id"].as_str().unwrap();
            assert!(id.starts_with('h') && id != row, "{row}: {id}");
        }
        let [lower, mean, upper] = ["lower", "prediction", "upper"].map(|key| value[key].as_f64().unwrap());
        assert!(lower < mean && mean < upper, "{lower} {mean} {upper}");
    }
}

#[test]
fn methods_are_compared_on_the_same_folds() {
    let folder = Folder::new("compare");
    let table = folder.file("houses.csv", houses());
    let common = ["compare", &table, "--target", "price", "--exclude", "name", "--folds", "5"];
    let output = robustard(&common);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for wanted in
        ["5-fold", "100 rows", "joint ARD, Student-t", "joint ARD, paper", "model-only ARD", "RMSE", "MAE", "NLL"]
    {
        assert!(out.contains(wanted), "{wanted} is not in\n{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let json = robustard(&[&common[..], &["--json", "--noise", "contaminated"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let methods = value["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 9);
    let mae = |name: &str| methods.iter().find(|m| m["method"] == name).unwrap()["mae"].as_f64().unwrap();
    assert!(mae("joint ARD, Student-t") < mae("model-only ARD"), "{value}");
    assert!(mae("huber") < mae("ols") && mae("gp") > 0.0 && mae("ridge_loo") > 0.0, "{value}");
    let alone = robustard(&[&common[..], &["--json", "--baselines", "none"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(value["methods"].as_array().unwrap().len(), 4);
    let unknown = robustard(&[&common[..], &["--baselines", "huber,lasso"]].concat());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("sparse_gp"), "{}", text(&unknown.stderr));
    let few = robustard(&[&common[..6], &["--folds", "80"]].concat());
    assert_eq!(few.status.code(), Some(1));
    assert!(text(&few.stderr).contains("--folds 50"), "{}", text(&few.stderr));
}

#[test]
fn completions_and_versions_are_printed() {
    assert!(text(&robustard(&["completions", "bash"]).stdout).contains("_robustard"));
    assert!(text(&robustard(&["--version"]).stdout).starts_with("robustard "));
    for command in ["fit", "predict", "diagnose", "report", "compare", "demo"] {
        assert!(text(&robustard(&[command, "--help"]).stdout).contains("Example"), "{command}");
    }
}
