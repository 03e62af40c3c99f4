//! `docs/settings.md` is made from the options themselves, and the table beside the engine's settings agrees with them.
//! `ROBUSTARD_UPDATE=1 cargo test -p robustard --test settings_document` writes the document anew.

use std::path::Path;

use robustard::engine::{Preset, Settings};
use robustard::{Options, Recipe};
use serde_json::{Map, Value};

/// What each option means and which values it takes.
const MEANINGS: [(&str, &str, &str); 31] = [
    (
        "features",
        "what is made of the inputs",
        "auto, linear, poly:DEGREE (2 to 30), rff[:COUNT] (1 to 100000), smooth[:CENTRES] (1 to 10000), rbf[:all]",
    ),
    (
        "noise",
        "noise of the rows",
        "auto, shared, flat, inverse-gamma:A,B, student-t[:NU] (0.1 to 1000), student-t:learned, contaminated, contaminated-t[:NU]",
    ),
    (
        "target_transform",
        "what is fitted instead of the target; auto is asinh if errors grow with the target and it predicts better, where features \
         and noise are chosen, too, else none",
        "auto, none, log (targets above 0), asinh (nearly log where targets are large, of any sign)",
    ),
    (
        "interval_rows",
        "which new rows intervals are for, where the noise is chosen: right ones, or all, if as many are wrong as of the training rows",
        "right, all",
    ),
    (
        "lengthscale",
        "lengthscales of rff and rbf, in standardized inputs",
        "each, one (both learnt), usual (√(inputs/2)) or a number above 0",
    ),
    ("intercept", "whether there is an intercept, which is not shrunk", "true, false"),
    ("standardize", "whether inputs are standardized inside", "true, false"),
    ("seed", "seed of everything random", "0 and up"),
    ("preset", "the settings to start from", "default, paper"),
    (
        "studentized_power",
        "power of 1 − leverage that squared residuals are divided by in the noise update",
        "none, or 0 to 10",
    ),
    ("solver", "how the evidence is maximized", "em, mackay, irls-l2, irls-l1, gradient, growing, passes"),
    ("damping_weights", "share of a step of the weight precisions that is taken", "above 0, to 1 (undamped)"),
    ("damping_noise", "share of a step of the noise variances that is taken", "above 0, to 1 (undamped)"),
    ("units", "units of bounds and initial values", "relative (to the data's own scale), absolute"),
    ("weight_precision_bounds", "range of weight precisions", "two numbers above 0, the smaller first"),
    ("noise_variance_bounds", "range of noise variances", "two numbers above 0, the smaller first"),
    ("initial_weight_precision", "weight precision at the start", "within its bounds"),
    ("initial_noise_variance", "noise variance at the start", "within its bounds"),
    ("noise_start", "iterations before the noise first moves", "0 and up"),
    ("noise_every", "the noise moves in every so many iterations", "1 and up"),
    ("max_iterations", "most iterations", "1 and up"),
    ("tolerance", "largest relative change in log space of a converged iteration", "above 0"),
    ("patience", "iterations in a row that must be converged", "1 and up"),
    ("acceleration", "extrapolation of the iterations", "auto, none, anderson"),
    ("acceleration_memory", "iterations that the extrapolation looks back", "1 to 50"),
    ("pruning", "whether irrelevant columns leave the work", "true, false"),
    ("route", "where the linear algebra is done", "auto, weight-space, sample-space"),
    ("learning_rate", "step of the gradient solver", "above 0"),
    ("inner_tolerance", "relative tolerance of the inner problem of irls-l1", "above 0"),
    ("inner_max_iterations", "iterations of that problem", "1 and up"),
    ("base_noise", "the noise that predictions of new rows carry", "mean, trimmed, inlier, left-out"),
];

/// What the names are in Python, where they differ.
const IN_PYTHON: [(&str, &str); 4] =
    [("intercept", "fit_intercept"), ("seed", "random_state"), ("max_iterations", "max_iter"), ("tolerance", "tol")];

fn object(value: impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(value).unwrap() {
        Value::Object(fields) => fields,
        other => panic!("{other} has no names"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Number(number) => match number.as_f64() {
            Some(value) if value != 0.0 && !(1e-3..1e4).contains(&value.abs()) => format!("{value:e}"),
            Some(value) => value.to_string(),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn recipe(preset: Preset) -> Map<String, Value> {
    let recipe = Options { preset: Some(preset), ..Options::default() }.recipe().unwrap();
    let mut all = object(recipe.settings());
    all.extend(object(&recipe).into_iter().filter(|(name, _)| name != "settings"));
    let name = if preset == Preset::Paper { "paper" } else { "default" };
    all.insert("preset".to_owned(), Value::String(name.to_owned()));
    all
}

fn document() -> String {
    let [default, paper] = [Preset::Default, Preset::Paper].map(recipe);
    let mut lines = vec![
        "# Every option".to_owned(),
        String::new(),
        "Options have one name in Rust (`robustard::Options`), on the command line (`--set name=value`, or a TOML file with \
         `--settings`; the first few have flags of their own) and in Python (as keywords, with scikit-learn's names where it has \
         them). What is not given has the default of its preset."
            .to_owned(),
        String::new(),
        "| name | meaning | default | paper | values |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for (name, meaning, values) in MEANINGS {
        let python = IN_PYTHON.iter().find(|(own, _)| *own == name);
        let also = python.map_or(String::new(), |(_, python)| format!(" (Python: `{python}`)"));
        let [default, paper] = [&default, &paper].map(|all| text(&all[name]));
        lines.push(format!("| `{name}`{also} | {meaning} | {default} | {paper} | {values} |"));
    }
    lines.push(String::new());
    lines.push("This file is written by a test, `crates/robustard/tests/settings_document.rs`.".to_owned());
    lines.join("\n") + "\n"
}

#[test]
fn the_document_has_every_option_as_it_is() {
    let names: Vec<&str> = MEANINGS.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(names, Options::names());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    if std::env::var_os("ROBUSTARD_UPDATE").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document(), "docs/settings.md is out of date: ROBUSTARD_UPDATE=1 cargo test writes it anew");
    assert_eq!(Options::default().recipe().unwrap(), Recipe::default());
}

/// The table in the documentation of `Settings`.
#[test]
fn the_engines_own_table_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../robustard-engine/src/solver/settings.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let lines = source.lines().filter_map(|line| line.strip_prefix("/// | `")?.split_once("` |"));
    let table: Vec<(&str, Vec<&str>)> =
        lines.map(|(name, rest)| (name, rest.split('|').map(str::trim).collect())).collect();
    let [default, paper] = [Preset::Default, Preset::Paper].map(|preset| object(Settings::preset(preset)));
    let mut names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let mut known: Vec<&str> = default.keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(names, known);
    for (name, cells) in table {
        assert_eq!(cells[0], text(&default[name]), "{name}");
        assert_eq!(cells[1], text(&paper[name]), "{name}");
    }
}
