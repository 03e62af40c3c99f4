//! The synthetic experiment: heatmaps of recovery.

use super::Section;
use super::figures::heatmap;
use super::tables::{spread, table, trials, trials_seconds};
use crate::experiment::{CONTAMINATIONS, MULTIPLIERS, SIGMAS, SUPPORTS};
use crate::results::Results;
use crate::synthetic::Synthetic;

const SET: &str = "synthetic";

fn condition(support: usize, sigma: f64, contamination: f64, multiplier: f64) -> String {
    format!("support={support};sigma={sigma};contamination={contamination};multiplier={multiplier}")
}

pub(super) fn synthetic(document: &mut Section, results: &Results) {
    let methods = results.methods();
    if methods.is_empty() {
        return;
    }
    let Synthetic { support, sigma, contamination, multiplier, .. } = Synthetic::PAPER;
    let weights = |column: usize, row: usize| condition(SUPPORTS[column], SIGMAS[row], contamination, multiplier);
    let rows = |column: usize, row: usize| condition(support, sigma, CONTAMINATIONS[column], MULTIPLIERS[row]);
    document.say("## Recovery in synthetic data (the paper's Figure 3)");
    document.say(
        "500 rows, 50 features. Recovery of weights is the share of the true support among as many features of largest 1/γ, recovery of \
         rows that of the noisy rows among as many of largest λ; with shared noise rows are found by chance. The oracle weighs \
         rows by their true noise and ranks them by their distance from the true line.",
    );
    document.say(trials(results));
    let words = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>();
    let supports: Vec<String> = SUPPORTS.iter().map(usize::to_string).collect();
    let shown = methods.iter().filter(|method| !method.ends_with("_shared") && *method != "shared_converged");
    for method in shown {
        let of_weights = |x: usize, y: usize| results.mean(SET, &weights(x, y), method, "weight_recovery");
        let of_rows = |x: usize, y: usize| results.mean(SET, &rows(x, y), method, "row_recovery");
        let title = format!("Recovery of weights ({method})");
        let svg = heatmap(&title, ["weights that are not 0", "noise σ"], &supports, &words(&SIGMAS), of_weights);
        document.show(&format!("weights-{method}"), &title, svg);
        let title = format!("Recovery of noisy rows ({method})");
        let axes = ["share of noisy rows ρ", "multiplier m"];
        let svg = heatmap(&title, axes, &words(&CONTAMINATIONS), &words(&MULTIPLIERS), of_rows);
        document.show(&format!("rows-{method}"), &title, svg);
    }
    let average = |method: &str, measure: &str, conditions: &[String]| {
        let values: Vec<f64> =
            conditions.iter().filter_map(|condition| results.mean(SET, condition, method, measure)).collect();
        (!values.is_empty()).then(|| robustard::metrics::mean(&values))
    };
    document.say("Recovery of weights by the number of weights that are not 0, averaged over σ:");
    let columns: Vec<String> = SUPPORTS.iter().map(|s| format!("|S| = {s}")).collect();
    let cell = |value: Option<f64>, digits: usize| value.map_or(String::new(), |value| format!("{value:.digits$}"));
    document.say(table(&methods, &columns, |method, column| {
        let conditions: Vec<String> = (0..SIGMAS.len()).map(|row| weights(column, row)).collect();
        cell(average(method, "weight_recovery", &conditions), 3)
    }));
    document.say("Recovery of rows by the share of noisy rows, averaged over m:");
    let columns: Vec<String> = CONTAMINATIONS.iter().map(|rho| format!("ρ = {rho}")).collect();
    document.say(table(&methods, &columns, |method, column| {
        let conditions: Vec<String> = (0..MULTIPLIERS.len()).map(|row| rows(column, row)).collect();
        cell(average(method, "row_recovery", &conditions), 3)
    }));
    document.say("Gain of noise per row over shared noise, weights (by |S|) and rows (by ρ):");
    let solvers: Vec<String> =
        methods.iter().filter(|method| methods.contains(&format!("{method}_shared"))).cloned().collect();
    let columns: Vec<String> = SUPPORTS
        .iter()
        .map(|s| format!("|S| = {s}"))
        .chain(CONTAMINATIONS.iter().map(|rho| format!("ρ = {rho}")))
        .collect();
    document.say(table(&solvers, &columns, |method, column| {
        let (measure, conditions): (&str, Vec<String>) = if column < SUPPORTS.len() {
            ("weight_recovery", (0..SIGMAS.len()).map(|row| weights(column, row)).collect())
        } else {
            ("row_recovery", (0..MULTIPLIERS.len()).map(|row| rows(column - SUPPORTS.len(), row)).collect())
        };
        let shared = average(&format!("{method}_shared"), measure, &conditions);
        let own = average(method, measure, &conditions);
        own.zip(shared).map_or(String::new(), |(own, shared)| format!("{:+.3}", own - shared))
    }));
    document.say(trials_seconds(results));
    let middle = condition(support, sigma, contamination, multiplier);
    document.say("At |S| = 10, σ = 0.2, ρ = 0.2, m = 10:");
    let columns = ["weight recovery", "row recovery", "root mean square error of the weights"].map(str::to_owned);
    document.say(table(&methods, &columns, |method, column| {
        let measure = ["weight_recovery", "row_recovery", "weight_error"][column];
        let summary = results.summary(SET, &middle, method, measure);
        summary.map_or(String::new(), |ours| spread(&ours))
    }));
}
