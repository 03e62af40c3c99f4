//! The variational posterior, the motorcycle data and the stars.

use std::ops::ControlFlow;

use robustard::engine::solver::PathRecorder;
use robustard::engine::{Iteration, Problem, fit_observed};
use robustard_report::chart::{Axis, Chart, Layer, Tone};
use robustard_table::samples::GIANTS;
use robustard_table::samples::motorcycle::{DEGREE, Motorcycle};

use super::Section;
use super::figures::dots;
use super::tables::{beside, brief, table};
use crate::experiment::POWERS;
use crate::method::{Basis, Method, RowNoise, Solver};
use crate::paper;
use crate::results::Results;
use crate::stars::Stars;
use crate::trial::with_intercept;
use crate::{LabError, mcycle};

/// The seed of the motorcycle figures, the demonstration's.
const SEED: u64 = 2;

pub(super) fn blr(document: &mut Section, results: &Results) {
    let methods = results.methods();
    if methods.is_empty() {
        return;
    }
    document.say("## A variational posterior (the paper's Table 2)");
    document.say(
        "EM with the exact posterior, and with a normal posterior of independent weights learnt by the Bayesian learning rule (IVON: \
         natural gradients at perturbed weights), on Boston through 256 Fourier features. The paper's in brackets.",
    );
    let columns = ["RMSE, clean", "NLL, clean", "RMSE, 10% wrong", "NLL, 10% wrong"].map(str::to_owned);
    document.say(table(&methods, &columns, |method, column| {
        let (share, measure) = [(0.0, "rmse"), (0.0, "nll"), (0.1, "rmse"), (0.1, "nll")][column];
        let ours = results.summary("boston", &format!("contamination={share}"), method, measure);
        beside(ours, paper::blr(measure, share, method))
    }));
}

pub(super) fn mcycle(document: &mut Section, results: &Results) -> Result<(), LabError> {
    let methods = results.methods();
    if methods.is_empty() {
        return Ok(());
    }
    document.say("## The motorcycle data (the paper's Figures 1 and 2)");
    document.say(
        "Powers 1 to 12 of time, six targets made wrong, 10-fold cross-validation tested on original targets; mean ± standard deviation \
         over choices of the wrong rows, the paper's (for its own six) in brackets. The first and the last row are always trained on; the \
         default sees time itself, not its powers.",
    );
    let columns = ["RMSE", "NLL", "ESS(y) in %", "ESS(θ) in %", "wrong rows found"].map(str::to_owned);
    document.say(table(&methods, &columns, |method, column| {
        let measure = ["rmse", "nll", "ess_rows", "ess_weights", "recall"][column];
        let own = beside(results.summary("mcycle", "wrong=6", method, measure), None);
        match paper::mcycle(method).filter(|_| column < 2) {
            Some(reported) => format!("{own} ({})", reported[column]),
            None => own,
        }
    }));

    let data = Motorcycle::new(SEED);
    let n = data.times.len();
    let all: Vec<usize> = (0..n).collect();
    let [first, last] = [data.times[0], data.times[n - 1]];
    let grid: Vec<f64> = (0..=200).map(|k| first + (last - first) * f64::from(k) / 200.0).collect();
    let sample = mcycle::sample(&data, &all, &grid, vec![0.0; grid.len()]);
    let wrong = |row: &usize| data.wrong.contains(row);
    let points = |is_wrong: bool| {
        let rows: Vec<usize> = (0..n).filter(|row| wrong(row) == is_wrong).collect();
        rows.into_iter().map(|row| (data.times[row], data.target[row])).collect::<Vec<_>>()
    };
    let mut layers = vec![
        dots("rows", Tone::Muted, points(false).into_iter()),
        dots("made wrong", Tone::Flagged, points(true).into_iter()),
    ];
    for (method, name, tone) in [
        (Method::shared(Solver::Em), "model-only ARD", Tone::Other),
        (Method::per_row(Solver::Em), "joint ARD", Tone::Model),
    ] {
        let (mean, _) = sample.predictions(method, SEED)?;
        layers.push(Layer::line(Some(name), tone, grid.iter().copied(), mean));
    }
    let chart = Chart {
        id: "mcycle".to_owned(),
        title: "Motorcycle data, six rows made wrong".to_owned(),
        explanation: String::new(),
        x: Axis::new("time (ms)"),
        y: Axis::new("acceleration (g)"),
        is_small: false,
        layers,
    };
    document.show("mcycle-fit", &chart.title, robustard_report::draw(&chart));

    let problem = Problem::new(with_intercept(&sample.design[0]).as_ref(), &sample.target)?.with_unshrunk(0)?;
    let mut paths = PathRecorder::new(problem.groups().count(), n);
    let mut record = |iteration: &Iteration<'_>| {
        paths.record(iteration);
        ControlFlow::Continue(())
    };
    let model = fit_observed(&problem, &Solver::Em.settings(RowNoise::PerRow, Basis::Features), &mut record)?;
    let paths = paths.paths(&(1..=DEGREE).collect::<Vec<_>>(), &all);
    let iterations: Vec<f64> = paths.iterations.iter().map(|iteration| *iteration as f64).collect();
    let line = |name: Option<&str>, tone: Tone, relevance: &[f64]| {
        Layer::line(name, tone, iterations.iter().copied(), relevance.iter().copied())
    };
    let of_features = paths.groups.iter().map(|path| line(None, Tone::Model, &path.relevance)).collect();
    let (wrong_paths, others): (Vec<_>, Vec<_>) = paths.rows.iter().partition(|path| wrong(&path.index));
    let mut of_rows: Vec<Layer> = others.iter().map(|path| line(None, Tone::Muted, &path.relevance)).collect();
    of_rows.extend(
        wrong_paths
            .iter()
            .enumerate()
            .map(|(k, path)| line((k == 0).then_some("made wrong"), Tone::Flagged, &path.relevance)),
    );
    for (name, title, label, layers) in [
        ("mcycle-feature-paths", "Relevance of the powers while EM runs", "1/γ", of_features),
        ("mcycle-row-paths", "Relevance of the rows while EM runs", "1/λ", of_rows),
    ] {
        let chart = Chart {
            id: "paths".to_owned(),
            title: title.to_owned(),
            explanation: String::new(),
            x: Axis::new("iteration"),
            y: Axis::log(label),
            is_small: false,
            layers,
        };
        document.show(name, title, robustard_report::draw(&chart));
    }
    let diagnostics = model.diagnose();
    let point = |row: usize| (diagnostics.loo_residual[row].powi(2), model.rows().noise_variance[row]);
    let part =
        |is_wrong: bool| all.iter().filter(|row| wrong(row) == is_wrong).map(|row| point(*row)).collect::<Vec<_>>();
    let chart = Chart {
        id: "loo".to_owned(),
        title: "Learnt noise against squared leave-one-out residuals".to_owned(),
        explanation: String::new(),
        x: Axis::log("squared leave-one-out residual"),
        y: Axis::log("λ"),
        is_small: false,
        layers: vec![
            dots("rows", Tone::Model, part(false).into_iter()),
            dots("made wrong", Tone::Flagged, part(true).into_iter()),
        ],
    };
    document.show("mcycle-noise", &chart.title, robustard_report::draw(&chart));
    let leverage = |is_wrong: bool| {
        let values: Vec<f64> =
            all.iter().filter(|row| wrong(row) == is_wrong).map(|row| diagnostics.leverage[*row]).collect();
        brief(robustard::metrics::mean(&values))
    };
    document.say(format!("Mean leverage of the wrong rows {}, of the others {}.", leverage(true), leverage(false)));
    Ok(())
}

pub(super) fn stars(document: &mut Section, results: &Results) -> Result<(), LabError> {
    if results.methods().is_empty() {
        return Ok(());
    }
    document.say("## The stars (the paper's Figure 7)");
    document.say(
        "Logarithms of light against temperature of 47 stars; four giants of high leverage turn the line. EM with the paper's recipe, \
         3000 iterations, neither weight shrunk. The studentized update is λᵢ ← rᵢ²/(1 − hᵢ)ᵖ.",
    );
    let lines = ["with the giants", "without them"].map(str::to_owned).to_vec();
    let columns: Vec<String> = POWERS
        .iter()
        .map(|power| if *power == 0.0 { "slope, plain".to_owned() } else { format!("slope, p = {power}") })
        .collect();
    document.say(table(&lines, &columns, |line, column| {
        let giants = if line == lines[0] { 4 } else { 0 };
        let condition = format!("giants={giants};power={}", POWERS[column]);
        results.mean("stars", &condition, "em", "slope").map_or(String::new(), brief)
    }));
    let recall = |power: f64| results.mean("stars", &format!("giants=4;power={power}"), "em", "giant_recall");
    if let (Some(plain), Some(studentized)) = (recall(0.0), recall(2.0)) {
        document.say(format!(
            "Of the four giants {:.0} are among the four rows of largest λ with the plain update, {:.0} with p = 2.",
            4.0 * plain,
            4.0 * studentized
        ));
    }
    let all = Stars::new(true)?;
    let part = |is_giant: bool| {
        let rows = (0..all.raw.len()).filter(move |row| GIANTS.contains(row) == is_giant);
        rows.map(|row| all.raw[row]).collect::<Vec<_>>()
    };
    let ends = [3.4, 4.7];
    let without = Stars::new(false)?;
    let mut layers = vec![
        dots("stars", Tone::Muted, part(false).into_iter()),
        dots("giants", Tone::Flagged, part(true).into_iter()),
    ];
    for (stars, power, name, tone) in [
        (&all, None, "plain", Tone::Other),
        (&all, Some(2.0), "studentized, p = 2", Tone::Model),
        (&without, None, "without the giants", Tone::Guide),
    ] {
        let (slope, intercept) = stars.line(&stars.fit(power)?);
        layers.push(Layer::line(Some(name), tone, ends, ends.map(|x| intercept + slope * x)));
    }
    let chart = Chart {
        id: "stars".to_owned(),
        title: "Stars of the cluster CYG OB1".to_owned(),
        explanation: String::new(),
        x: Axis::new("log temperature"),
        y: Axis::new("log light"),
        is_small: false,
        layers,
    };
    document.show("stars", &chart.title, robustard_report::draw(&chart));
    Ok(())
}
