//! Tables of the tabular, kernel and neural experiments: ours beside the paper's.

use std::fmt::Write;

use robustard_report::chart::{Axis, Chart, Layer, Tone};

use super::Section;
use super::figures::band;
use crate::experiment::{EMBEDDINGS, KERNEL_CONTAMINATIONS, REMOVED};
use crate::findings::{self, Agreement, CellAbove, change};
use crate::paper::{self, Reported};
use crate::protocol::DATA_SETS;
use crate::results::{Results, Summary};

const CONTAMINATIONS: [f64; 2] = [0.0, 0.1];

/// A number with three digits or so.
pub(super) fn brief(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 1e-9 {
        return "0".to_owned();
    }
    let digits = if magnitude >= 100.0 {
        0
    } else if magnitude >= 10.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else if magnitude >= 0.1 {
        3
    } else {
        5
    };
    format!("{value:.digits$}")
}

/// Mean ± standard deviation; the mean alone of a single trial.
pub(super) fn spread(ours: &Summary) -> String {
    if ours.trials > 1 { format!("{} ± {}", brief(ours.mean), brief(ours.deviation)) } else { brief(ours.mean) }
}

/// Ours, and the paper's in brackets: = where they agree within two standard errors, < or > where ours is smaller or larger.
pub(super) fn beside(ours: Option<Summary>, paper: Option<Reported>) -> String {
    let Some(ours) = ours else { return String::new() };
    let own = spread(&ours);
    match paper {
        None => own,
        Some(paper) => {
            let sign = if paper.agrees(&ours) {
                "="
            } else if ours.mean < paper.mean {
                "<"
            } else {
                ">"
            };
            format!("{own} ({sign} {})", brief(paper.mean))
        }
    }
}

/// A table with a line per method and a column per name.
pub(super) fn table(methods: &[String], columns: &[String], cell: impl Fn(&str, usize) -> String) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for method in methods {
        let cells: Vec<String> = (0..columns.len()).map(|column| cell(method, column)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            let _ = writeln!(text, "| {method} | {} |", cells.join(" | "));
        }
    }
    text.trim_end().to_owned()
}

/// Methods in the paper's order, then what the paper does not have.
fn ordered(results: &Results) -> Vec<String> {
    const ORDER: [&str; 12] = [
        "ols",
        "ridge",
        "gp",
        "sparse_gp",
        "student_t",
        "huber",
        "em",
        "mackay",
        "irls_l2",
        "irls_l1",
        "gradient_primal",
        "gradient_dual",
    ];
    let known = results.methods();
    let has = |name: &&str| known.iter().any(|method| method == name);
    let mut methods: Vec<String> = ORDER.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect();
    methods.extend(known.into_iter().filter(|method| !ORDER.contains(&method.as_str())));
    methods
}

/// How many trials there are, in a sentence.
pub(super) fn trials(results: &Results) -> String {
    let by_method: Vec<(String, (usize, usize))> = ordered(results)
        .into_iter()
        .filter_map(|method| Some((method.clone(), results.trial_range(&method)?)))
        .collect();
    let words = |(low, high): (usize, usize)| if low == high { low.to_string() } else { format!("{low}–{high}") };
    let mut kinds: Vec<(usize, usize)> = by_method.iter().map(|(_, range)| *range).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let parts = kinds.iter().rev().map(|kind| {
        let names: Vec<&str> =
            by_method.iter().filter(|(_, range)| range == kind).map(|(name, _)| name.as_str()).collect();
        format!("{} ({})", words(*kind), names.join(", "))
    });
    format!("Trials in each cell: {}.", parts.collect::<Vec<_>>().join("; "))
}

pub(super) fn tabular(document: &mut Section, results: &Results) {
    let datasets = results.datasets();
    let sets: Vec<&str> =
        DATA_SETS.iter().map(|set| set.name).filter(|name| datasets.iter().any(|known| known == name)).collect();
    if sets.is_empty() {
        return;
    }
    let names: Vec<String> = sets.iter().map(|name| (*name).to_owned()).collect();
    let (shared, methods): (Vec<String>, Vec<String>) =
        ordered(results).into_iter().partition(|method| method.ends_with("_shared"));
    document.say("## Tabular regression (the paper's Tables 3 and 6–10)");
    document.say(
        "256 random Fourier features (Gaussian processes and the default see the inputs themselves). RMSE on clean test rows, mean ± \
         standard deviation over trials; the paper's in brackets: = where the two agree within two standard errors of the \
         difference and the paper's rounding, < where ours is smaller, > where it is larger.",
    );
    document.say(trials(results));
    for share in CONTAMINATIONS {
        let condition = format!("contamination={share}");
        document.say(format!("### {:.0}% of the training rows wrong", 100.0 * share));
        document.say(table(&methods, &names, |method, column| {
            let ours = results.summary(sets[column], &condition, method, "rmse");
            beside(ours, paper::tabular_rmse(sets[column], share, method))
        }));
        document.say(
            "The same solvers with shared noise, stopped at the same iteration; in brackets what the paper's change against shared \
             noise implies for its own:",
        );
        document.say(table(&shared, &names, |method, column| {
            let Some(ours) = results.summary(sets[column], &condition, method, "rmse") else { return String::new() };
            let solver = method.strip_suffix("_shared").unwrap_or(method);
            let implied = paper::tabular_line(sets[column], share, solver).and_then(|line| line.shared_rmse());
            implied.map_or(spread(&ours), |implied| format!("{} ({})", spread(&ours), brief(implied)))
        }));
        document.say("Change of the RMSE by noise per row against shared noise, in percent, and the paper's:");
        let solvers: Vec<String> =
            shared.iter().filter_map(|name| Some(name.strip_suffix("_shared")?.to_owned())).collect();
        document.say(table(&solvers, &names, |method, column| {
            let Some(ours) = change(results, sets[column], &condition, method) else { return String::new() };
            let paper = paper::tabular_line(sets[column], share, method).and_then(|line| line.change);
            paper.map_or(format!("{ours:+.0}"), |paper| format!("{ours:+.0} ({paper:+.0})"))
        }));
        let measure = |name: &str, digits: usize, percent: bool| {
            table(&methods, &names, |method, column| {
                let mean = results.mean(sets[column], &condition, method, name);
                mean.map_or(String::new(), |value| format!("{:.digits$}", if percent { 100.0 * value } else { value }))
            })
        };
        document.say("Negative log density of test targets (the paper has none in its tables):");
        document.say(measure("nll", 2, false));
        for (name, title, place) in [("ess_weights", "ESS(θ)", 0), ("ess_rows", "ESS(y)", 1)] {
            document.say(format!("{title} in percent, and the paper's:"));
            document.say(table(&methods, &names, |method, column| {
                let Some(ours) = results.mean(sets[column], &condition, method, name) else { return String::new() };
                let paper = paper::tabular_line(sets[column], share, method).and_then(|line| line.ess[place]);
                paper.map_or(format!("{ours:.0}"), |paper| format!("{ours:.0} ({paper:.0})"))
            }));
        }
        if share > 0.0 {
            document.say("Wrong rows among as many of the most doubted ones, in percent:");
            document.say(measure("recall", 0, true));
        }
        document.say("Iterations (evaluations of the evidence for Gaussian processes):");
        document.say(measure("iterations", 0, false));
        document.say("Seconds of a fit on one core, beside another fit and sometimes other work:");
        document.say(measure("seconds", 1, false));
    }
    document.say(
        "The damped solvers stop at the iterations given below, long before convergence, with noise per row and shared: that keeps \
         per-row noise from interpolating rows. `shared_converged` is model-only ARD run to convergence with the engine's own \
         settings; the findings above have the change against it, too, which is what noise per row itself brings or costs.",
    );
    document.say(trials_seconds(results));
    agreement(document, results);
}

/// How long all of it took.
pub(super) fn trials_seconds(results: &Results) -> String {
    let total = results.total("seconds");
    format!("All trials together took {:.0} minutes of one core.", total / 60.0)
}

fn agreement(document: &mut Section, results: &Results) {
    let Agreement { cells, run, strict, above } = findings::agreement(results);
    document.say("### Cells above the paper's");
    let percent = |count: usize| 100.0 * count as f64 / cells as f64;
    document.say(format!(
        "The paper has {cells} cells of sparse Bayesian methods with noise per row; {run} of them were run. {} ({:.0}% of all) have an \
         RMSE of at most the paper's plus two standard errors of the difference and the paper's rounding, {strict} ({:.0}%) of at \
         most the paper's plus two standard errors of the paper's mean alone. Above by the first measure are:",
        run - above.len(),
        percent(run - above.len()),
        percent(strict)
    ));
    let line = |CellAbove { line, ours, ridge }: &CellAbove| {
        let reason = match ridge {
            Some(ridge) if *ridge > 1.0 => {
                format!(
                    "Ridge, which has no settings, is {ridge:.0}% above the paper's there, too: our splits are harder"
                )
            }
            _ if line.method == "irls_l1" => {
                "the inner problem is solved to 1e-5 in at most 200 steps and γ hardly moves in 150 iterations"
                    .to_owned()
            }
            _ => "the solver is stopped after few damped steps, and the paper's own settings are not known".to_owned(),
        };
        format!(
            "- {}, {:.0}% wrong rows, {}: {} against {} ({reason})",
            line.dataset,
            100.0 * line.contamination,
            line.method,
            brief(*ours),
            brief(line.rmse.mean)
        )
    };
    document.say(if above.is_empty() {
        "- none".to_owned()
    } else {
        above.iter().map(line).collect::<Vec<_>>().join("\n")
    });
}

pub(super) fn kernel(document: &mut Section, results: &Results) {
    let methods = ordered(results);
    if methods.is_empty() {
        return;
    }
    document.say("## Kernel regression on Boston (the paper's Figure 4 and Tables 4–5)");
    document.say(
        "One kernel function on every training row, exp(−‖x − xⱼ‖²/13) of standardized inputs; Gaussian processes learn their \
         lengthscale. Mean ± standard deviation over trials, the paper's in brackets.",
    );
    document.say(trials(results));
    let columns: Vec<String> = KERNEL_CONTAMINATIONS.iter().map(|share| format!("{:.0}%", 100.0 * share)).collect();
    for (measure, title) in [("rmse", "RMSE"), ("nll", "NLL")] {
        let condition = |column: usize| format!("contamination={}", KERNEL_CONTAMINATIONS[column]);
        document.say(format!("{title}:"));
        document.say(table(&methods, &columns, |method, column| {
            let ours = results.summary("boston", &condition(column), method, measure);
            beside(ours, paper::kernel(measure, KERNEL_CONTAMINATIONS[column], method))
        }));
        let shown = [
            ("irls_l2", "RVM (ℓ2-IRLS)", Tone::Model),
            ("gp", "GP", Tone::Other),
            ("sparse_gp", "sparse GP", Tone::Muted),
            ("huber", "Huber", Tone::Guide),
            ("student_t", "Student-t", Tone::Flagged),
        ];
        let x: Vec<f64> = KERNEL_CONTAMINATIONS.iter().map(|share| 100.0 * share).collect();
        let layers = shown.iter().flat_map(|(method, name, tone)| {
            let of = |column: usize| results.summary("boston", &condition(column), method, measure);
            band(name, *tone, &x, &(0..x.len()).map(of).collect::<Vec<_>>(), *method == "irls_l2")
        });
        let chart = Chart {
            id: "kernel".to_owned(),
            title: format!("Kernel regression on Boston: {title}"),
            explanation: String::new(),
            x: Axis::new("training rows made wrong (%)"),
            y: Axis::new(title),
            is_small: false,
            layers: layers.collect(),
        };
        document.show(&format!("kernel-{measure}"), &chart.title, robustard_report::draw(&chart));
    }
    kernel_support(document, results, &methods, &columns);
    document.say(trials_seconds(results));
}

/// ESS of the kernel experiment.
fn kernel_support(document: &mut Section, results: &Results, methods: &[String], columns: &[String]) {
    for (measure, title) in [("ess_weights", "ESS(θ)"), ("ess_rows", "ESS(y)")] {
        document.say(format!("{title} in percent:"));
        document.say(table(methods, columns, |method, column| {
            let condition = format!("contamination={}", KERNEL_CONTAMINATIONS[column]);
            results.mean("boston", &condition, method, measure).map_or(String::new(), |value| format!("{value:.0}"))
        }));
    }
}

pub(super) fn neural(document: &mut Section, results: &Results) {
    let methods = ordered(results);
    if methods.is_empty() {
        return;
    }
    const SET: &str = EMBEDDINGS;
    document.say("## A linear layer on image embeddings (the paper's Figures 5 and 8)");
    document.say(
        "log(1 + count) of people in 716 images, half of the 40% most crowded training images with noise of 0.45 on the log count. Rows \
         are removed in the order of a ranking (what the method doubts in the fit of all rows: λ, or the size of the error \
         for OLS and Ridge; the truly wrong ones first; at random) and the rest is fitted again. Mean absolute error of log counts \
         of clean test images, mean ± standard deviation over trials:",
    );
    document.say(trials(results));
    let columns: Vec<String> = REMOVED.iter().map(|share| format!("{:.0}% removed", 100.0 * share)).collect();
    let rankings = ["doubted first", "wrong first (oracle)", "at random"];
    let condition = |ranking: usize, column: usize| format!("ranking={ranking};removed={}", REMOVED[column]);
    let block = |measure: &'static str, factor: f64, digits: usize, rankings_shown: std::ops::Range<usize>| {
        let lines: Vec<String> = methods
            .iter()
            .flat_map(|method| rankings_shown.clone().map(move |ranking| format!("{method}, {}", rankings[ranking])))
            .collect();
        table(&lines, &columns, |line, column| {
            let (method, ranking) = line.split_once(", ").unwrap_or((line, ""));
            let ranking = rankings.iter().position(|name| *name == ranking).unwrap_or(0);
            results.summary(SET, &condition(ranking, column), method, measure).map_or(String::new(), |ours| {
                format!("{:.digits$} ± {:.digits$}", factor * ours.mean, factor * ours.deviation)
            })
        })
    };
    document.say(block("mae", 1.0, 3, 0..3));
    document.say("Of the removed rows so many percent are wrong (the oracle: all, until there are none left):");
    document.say(block("removed_wrong", 100.0, 0, 0..3));
    document.say("Wrong rows still there that are among as many of the most doubted ones of the new fit, in percent (by λ; by the size of the error for OLS and Ridge):");
    document.say(block("recall", 100.0, 0, 0..1));
    document.say("ESS(y) and ESS(θ) in percent:");
    document.say(block("ess_rows", 1.0, 0, 0..1));
    document.say(block("ess_weights", 1.0, 1, 0..1));
    document.say(trials_seconds(results));
    let x: Vec<f64> = REMOVED.iter().map(|share| 100.0 * share).collect();
    let layers: Vec<Layer> = [(0, Tone::Model), (1, Tone::Other), (2, Tone::Muted)]
        .into_iter()
        .flat_map(|(ranking, tone)| {
            let of = |column: usize| results.summary(SET, &condition(ranking, column), "em", "mae");
            band(rankings[ranking], tone, &x, &(0..x.len()).map(of).collect::<Vec<_>>(), true)
        })
        .collect();
    let chart = Chart {
        id: "neural".to_owned(),
        title: "Counts of people, EM refitted without rows".to_owned(),
        explanation: String::new(),
        x: Axis::new("training rows removed (%)"),
        y: Axis::new("mean absolute error of log counts"),
        is_small: false,
        layers,
    };
    document.show("neural-mae", &chart.title, robustard_report::draw(&chart));
    let shown = [
        ("em", "EM", Tone::Model),
        ("mackay", "MacKay", Tone::Other),
        ("ridge", "Ridge", Tone::Guide),
        ("ols", "OLS", Tone::Muted),
    ];
    let layers = shown.iter().flat_map(|(method, name, tone)| {
        let of = |column: usize| results.summary(SET, &condition(0, column), method, "recall");
        band(name, *tone, &x, &(0..x.len()).map(of).collect::<Vec<_>>(), *method == "em")
    });
    let chart = Chart {
        id: "neural-recall".to_owned(),
        title: "Wrong rows found among those still there".to_owned(),
        explanation: String::new(),
        x: Axis::new("training rows removed (%)"),
        y: Axis::new("recall"),
        is_small: false,
        layers: layers.collect(),
    };
    document.show("neural-recall", &chart.title, robustard_report::draw(&chart));
}
