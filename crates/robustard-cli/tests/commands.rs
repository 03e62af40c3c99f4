//! `fit`, `predict` and `diagnose` as a user meets them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("robustard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn robustard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robustard")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// price = 20 + 3 area − 2 age + noise, `junk` does not matter, row 8 (h7) is wrong.
fn houses() -> String {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.61).sin();
    let mut text = "name,area,age,junk,price\n".to_owned();
    for i in 0..100 {
        let (area, age, junk) = (50.0 + 20.0 * wave(i, 1), 30.0 + 10.0 * wave(i, 2), wave(i, 3));
        let price = 20.0 + 3.0 * area - 2.0 * age + 0.5 * wave(i, 7) + if i == 7 { 80.0 } else { 0.0 };
        text += &format!("h{i},{area:.3},{age:.3},{junk:.3},{price:.3}\n");
    }
    text
}

#[test]
fn a_table_becomes_a_summary_a_model_and_rows() {
    let folder = Folder::new("summary");
    let table = folder.file("houses.csv", &houses());
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
        "1 row looks wrong",
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
        "name,actual,predicted,loo_residual,noise_variance,relevance,leverage,cooks_distance,dffits,z,flagged"
    );
    assert!(lines[1].starts_with("h7,") && lines[1].ends_with("true"), "{}", lines[1]);
    assert_eq!(lines.len(), 101);

    // Nothing is overwritten unasked.
    let again = robustard(&["fit", &table, "--target", "price", "-o", &model]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"));
    assert!(robustard(&["fit", &table, "--target", "price", "-o", &model, "--force"]).status.success());
    // No temporary files are left.
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 3);
}

#[test]
fn models_predict_tables_in_any_order_and_format() {
    let folder = Folder::new("predict");
    let table = folder.file("houses.csv", &houses());
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
            "--noise-prior",
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
    for key in ["weight_precision", "mean", "evidence", "iterations", "features", "quality"] {
        assert!(!value[key].is_null(), "{key}");
    }
}

/// Every way to go wrong has its own exit code and says what to do.
#[test]
fn bad_input_gets_a_clear_answer() {
    let folder = Folder::new("bad");
    let good = folder.file("good.csv", &houses());
    let file = |name: &str, text: &str| folder.file(name, text);
    let table = |name: &str| folder.path(name);
    file("empty.csv", "");
    file("header.csv", "a,b\n");
    file("ragged.csv", "a,b\n1,2\n3\n");
    file("missing.csv", "x,y\n1,2\n,3\n4,5\n");
    file("words.csv", "x,y\n1,red\n2,blue\n");
    file("constant.csv", "x,y\n1,2\n1,3\n");
    file("infinite.csv", "x,y\n1,2\ninf,3\n2,4\n");
    file("twice.csv", "x,x,y\n1,2,3\n");
    file("dates.csv", "d,y\n2020-01-01,1\n2020-01-02,2\n");
    file("not.model", "this is no model");
    file("settings.toml", "tolerance = \"many\"");
    let fit = |name: &str, rest: &[&str]| {
        let path = table(name);
        let mut arguments = vec!["fit", path.as_str()];
        arguments.extend(rest);
        robustard(&arguments)
    };
    let y = ["--target", "y"];
    let price = ["--target", "price"];
    let settings = table("settings.toml");
    let cases: Vec<(Output, i32, &str)> = vec![
        (fit("nowhere.csv", &y), 1, "no such file"),
        (fit("empty.csv", &y), 1, "is empty"),
        (fit("header.csv", &y), 1, "no rows"),
        (fit("ragged.csv", &["--target", "b"]), 1, "line"),
        (fit("missing.csv", &y), 1, "--missing drop"),
        (fit("words.csv", &y), 1, "'red'"),
        (fit("constant.csv", &y), 1, "one value only"),
        (fit("infinite.csv", &y), 1, "row 2"),
        (fit("twice.csv", &y), 1, "two columns named 'x'"),
        (fit("dates.csv", &y), 1, "dates"),
        (fit("good.csv", &["--target", "prise"]), 1, "did you mean 'price'"),
        (fit("good.csv", &[&price[..], &["--include", "aera"]].concat()), 1, "did you mean 'area'"),
        (fit("good.csv", &[&price[..], &["--weights", "name"]].concat()), 1, "weights must be numbers"),
        (fit("good.csv", &[&price[..], &["--weights", "junk"]].concat()), 1, "weight of row"),
        (fit("good.csv", &[&price[..], &["--strict"]].concat()), 1, "'name'"),
        (fit("good.csv", &[&price[..], &["--solver", "newton"]].concat()), 1, "mackay"),
        (fit("good.csv", &[&price[..], &["--noise-prior", "cauchy"]].concat()), 1, "student-t"),
        (fit("good.csv", &[&price[..], &["--set", "damping_noise=2"]].concat()), 1, "damping_noise"),
        (fit("good.csv", &[&price[..], &["--set", "damping"]].concat()), 1, "KEY=VALUE"),
        (fit("good.csv", &[&price[..], &["--settings", &settings]].concat()), 1, "setting"),
        (fit("good.csv", &[&price[..], &["--settings", "nowhere.toml"]].concat()), 1, "nowhere.toml"),
        (fit("good.csv", &[&price[..], &["--lengthscale", "-1", "--features", "rbf"]].concat()), 2, "-1"),
        (fit("good.csv", &[&price[..], &["--lengthscale=-1", "--features", "rbf"]].concat()), 1, "lengthscale"),
        (fit("good.csv", &[&price[..], &["--features", "cubic"]].concat()), 2, "poly:DEGREE"),
        (fit("good.csv", &[&price[..], &["--missing", "guess"]].concat()), 2, "impute"),
        (fit("good.csv", &[]), 2, "--target"),
        (fit("good.csv", &[&price[..], &["-o", "/no/such/folder/m"]].concat()), 1, "cannot write"),
        (
            fit("good.csv", &[&price[..], &["--exclude", "name", "--strict", "--set", "max_iterations=2"]].concat()),
            3,
            "not converged",
        ),
        (robustard(&["predict", &table("not.model"), &good]), 1, "not a robustard model"),
        (robustard(&["predict", &table("nowhere"), &good]), 1, "cannot read"),
    ];
    for (k, (output, code, message)) in cases.into_iter().enumerate() {
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "case {k}: {err}");
        assert!(err.contains(message), "case {k}: '{message}' is not in: {err}");
        assert!(!err.contains("panicked"), "case {k}: {err}");
        if code != 3 {
            assert!(output.stdout.is_empty(), "case {k}");
        }
    }
}

#[test]
fn methods_are_compared_on_the_same_folds() {
    let folder = Folder::new("compare");
    let table = folder.file("houses.csv", &houses());
    let common = ["compare", &table, "--target", "price", "--exclude", "name", "--folds", "5"];
    let output = robustard(&common);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for wanted in
        ["5-fold", "100 rows", "joint ARD, default", "joint ARD, paper", "model-only ARD", "RMSE", "MAE", "NLL"]
    {
        assert!(out.contains(wanted), "{wanted} is not in\n{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let json = robustard(&[&common[..], &["--json", "--noise-prior", "contaminated"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let methods = value["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 4);
    let mae = |name: &str| methods.iter().find(|m| m["method"] == name).unwrap()["mae"].as_f64().unwrap();
    assert!(mae("joint ARD, default") < mae("model-only ARD"), "{value}");
    let few = robustard(&[&common[..6], &["--folds", "80"]].concat());
    assert_eq!(few.status.code(), Some(1));
    assert!(text(&few.stderr).contains("--folds 50"), "{}", text(&few.stderr));
}

#[test]
fn completions_and_versions_are_printed() {
    assert!(text(&robustard(&["completions", "bash"]).stdout).contains("_robustard"));
    assert!(text(&robustard(&["--version"]).stdout).starts_with("robustard "));
    for command in ["fit", "predict", "diagnose", "compare", "demo"] {
        assert!(text(&robustard(&[command, "--help"]).stdout).contains("Example"), "{command}");
    }
}
