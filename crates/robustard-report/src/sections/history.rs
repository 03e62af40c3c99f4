//! What happened during the fit?

use std::time::Duration;

use robustard::Status;
use robustard::engine::solver::Path;

use super::{Detail, Section};
use crate::chart::{Axis, Chart, Layer, Mark, Numbers, Tone};
use crate::words::{clipped, compared_words, counted, noise_words, reason_words, short, status_words, time_words};
use crate::{LONGEST_NAME, View};

pub fn section(view: &View<'_>) -> Section {
    let regression = view.regression;
    let model = regression.model();
    let (outcome, encoder) = (model.outcome(), view.model.encoder());
    let ending = match regression.status() {
        Status::Converged => "The fit converged".to_owned(),
        status => format!("The fit was {}; it ended", status_words(status)),
    };
    let answer = format!(
        "{ending} after {}, with {}.",
        counted(model.iterations(), "iteration"),
        noise_words(regression.noise()),
    );
    let times = times(view);
    let mut charts = Vec::new();
    if model.iterations() > 0 {
        charts.push(objective(view));
    }
    if !regression.paths().iterations.is_empty() {
        charts.push(feature_paths(view));
        if !regression.paths().rows.is_empty() {
            charts.push(row_paths(view));
        }
    }
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("log evidence", short(regression.log_evidence()));
    fact("posteriors computed", outcome.evaluations.to_string());
    fact("features in use (entropy of 1/γ)", format!("{:.1}%", 100.0 * model.effective_weights()));
    fact("rows in use (entropy of 1/λ)", format!("{:.1}%", 100.0 * model.effective_rows()));
    fact(
        "columns used",
        encoder.columns.iter().map(|column| clipped(&column.name, LONGEST_NAME)).collect::<Vec<_>>().join(", "),
    );
    for left_out in &encoder.left_out {
        let name = clipped(&left_out.name, LONGEST_NAME);
        let hint = if left_out.may_be_category() { format!("; --categorical {name} uses it") } else { String::new() };
        fact("column left out", format!("{name} ({}{hint})", left_out.reason));
    }
    let dropped = view.table.row_count() - view.model.rows().len();
    if dropped > 0 {
        fact("rows left out for missing values", dropped.to_string());
    }
    fact("features", regression.features().to_string());
    fact("what is fitted", regression.design().target().formula(&view.target));
    if let Some(selection) = regression.selection() {
        fact("chosen, because", selection.reasons.iter().map(reason_words).collect::<Vec<_>>().join("; "));
        for compared in &selection.compared {
            let mark = if compared.chosen { " (chosen)" } else { "" };
            fact(
                &format!("compared: {}{mark}", compared_words(compared)),
                format!(
                    "bound {:.3} nats per row, left-out RMSE {}, log density {:.3}",
                    compared.bound,
                    short(compared.loo_rmse),
                    compared.loo_log_density
                ),
            );
        }
    }
    if let Ok(serde_json::Value::Object(counts)) = serde_json::to_value(outcome.interventions) {
        counts
            .iter()
            .for_each(|(name, count)| fact(&format!("interventions: {}", name.replace('_', " ")), count.to_string()));
    }
    if let Ok(serde_json::Value::Object(settings)) = serde_json::to_value(regression.settings()) {
        for (name, value) in settings {
            let text = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            fact(&format!("setting {name}"), text);
        }
    }
    fact("data fingerprint (XXH3)", view.model.fingerprint().xxh3.clone());
    Section {
        id: "history",
        question: "What happened during the fit?",
        answer: vec![answer.into(), times.into()],
        tiles: Vec::new(),
        charts: Vec::new(),
        more: charts,
        detail: Detail::Facts(facts),
    }
}

/// Where the time went.
fn times(view: &View<'_>) -> String {
    let [choosing, fitting] = [view.regression.choosing_time(), view.regression.fitting_time()];
    let page = view.started.elapsed();
    let reading = view.source.reading;
    let read = reading.map_or(String::new(), |reading| format!("{} reading, ", time_words(reading)));
    // Of a model that was saved, they are not known.
    let known = |time: Duration, what: &str| match time.is_zero() {
        true => String::new(),
        false => format!("{} {what}, ", time_words(time)),
    };
    let fitted = known(choosing, "choosing features and noise") + &known(fitting, "fitting");
    format!(
        "Time: {} in all, of which {read}{fitted}{} effects, explanations and this page.",
        time_words(reading.unwrap_or_default() + choosing + fitting + page),
        time_words(page),
    )
}

fn objective(view: &View<'_>) -> Chart {
    let trace = &view.regression.model().outcome().trace;
    let least = trace.iter().map(|record| record.objective).fold(f64::INFINITY, f64::min);
    // Above its minimum, on a log scale, the last steps can be seen as well as the first.
    let above: Vec<f64> = trace.iter().map(|record| record.objective - least).collect();
    let iterations = || trace.iter().map(|record| record.iteration as f64);
    Chart {
        id: "objective".to_owned(),
        title: "Objective".to_owned(),
        explanation:
            "How far the objective (negative log evidence plus prior) was above its least value. The last point, at \
                      0, cannot be drawn on this scale."
                .to_owned(),
        x: Axis::new("iteration"),
        y: Axis::log("objective above its minimum"),
        is_small: false,
        layers: vec![Layer::line(None, Tone::Model, iterations(), above)],
    }
}

/// The paper's Figure 2, features.
fn feature_paths(view: &View<'_>) -> Chart {
    let regression = view.regression;
    let names = &view.features;
    let (design, is_active) = (regression.design(), regression.model().is_active());
    let groups = design.feature_groups();
    let active = design.of_features(&is_active).iter().zip(&groups);
    let kept: Vec<usize> = active.filter(|(is_active, _)| **is_active).map(|(_, group)| *group).collect();
    let name = |group: usize| {
        let members: Vec<&str> =
            names.iter().zip(&groups).filter(|(_, g)| **g == group).map(|(name, _)| name.as_str()).collect();
        members.first().map_or(String::new(), |first| match members.len() {
            1 => (*first).to_owned(),
            count => format!("{first} and {} more of its group", count - 1),
        })
    };
    let iterations = &regression.paths().iterations;
    let (in_use, left_out): (Vec<&Path>, Vec<&Path>) =
        regression.paths().groups.iter().partition(|path| kept.contains(&path.index));
    Chart {
        id: "feature-paths".to_owned(),
        title: "Relevance of the features over the iterations".to_owned(),
        explanation: format!(
            "1/γ of {} (the most relevant at the end; a category's levels share one). Features that do not matter fall away; \
             a line that stops is a feature that was left out.",
            counted(regression.paths().groups.len(), "feature")
        ),
        x: Axis::new("iteration"),
        y: Axis::log("relevance 1/γ"),
        is_small: false,
        layers: vec![
            paths("left out", Tone::Muted, iterations, &left_out, &name),
            paths("kept", Tone::Model, iterations, &in_use, &name),
        ],
    }
}

/// The paper's Figure 2, rows.
fn row_paths(view: &View<'_>) -> Chart {
    let regression = view.regression;
    let label = |row: usize| format!("row {}", view.model.row_number(view.model.rows()[row]));
    let (flagged, others): (Vec<&Path>, Vec<&Path>) =
        regression.paths().rows.iter().partition(|path| view.diagnostics.flagged[path.index]);
    let iterations = &regression.paths().iterations;
    Chart {
        id: "row-paths".to_owned(),
        title: "Relevance of the rows over the iterations".to_owned(),
        explanation: format!(
            "1/λ of {}: the most suspicious ones, and of the others every so many. Rows that the others contradict lose \
             their say.",
            counted(regression.paths().rows.len(), "row")
        ),
        x: Axis::new("iteration"),
        y: Axis::log("relevance 1/λ"),
        is_small: false,
        layers: vec![
            paths("not flagged", Tone::Muted, iterations, &others, &label),
            paths("flagged", Tone::Flagged, iterations, &flagged, &label),
        ],
    }
}

fn paths(name: &str, tone: Tone, iterations: &[usize], paths: &[&Path], label: &dyn Fn(usize) -> String) -> Layer {
    let (mut x, mut y, mut text) = (Numbers::default(), Numbers::default(), Vec::new());
    for path in paths {
        for (&iteration, &relevance) in iterations.iter().zip(&path.relevance) {
            x.0.push(iteration as f64);
            y.0.push(if relevance > 0.0 { relevance } else { f64::NAN });
            text.push(label(path.index));
        }
        // A gap ends the line.
        x.0.push(f64::NAN);
        y.0.push(f64::NAN);
        text.push(String::new());
    }
    Layer { name: Some(name.to_owned()), tone, mark: Mark::Line { x, y, dashed: false, text } }
}
