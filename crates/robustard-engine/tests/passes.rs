//! Passes over the rows end where EM ends, whoever makes them.

mod common;

use std::convert::Infallible;
use std::time::Duration;

use common::Synthetic;
use robustard_engine::faer::Par;
use robustard_engine::passes::{Broadcast, InMemory, Known, Learner, Partition, Plan, RowPass, Step, Sums};
use robustard_engine::{BaseNoise, Course, Degrees, FittedModel, Noise, Problem, Settings, SolverKind, Status, fit};

const NOISES: [&str; 5] = ["shared", "student-t:4", "student-t:learned", "contaminated", "contaminated-t:5"];

fn problem() -> Problem<'static> {
    Synthetic { rows: 3000, columns: 24, support: 8, contamination: 0.05, ..Synthetic::PAPER }.problem(3)
}

fn plan(problem: &Problem<'_>, noise: Noise) -> Plan {
    let (settings, units) = (Settings::default(), problem.natural_units());
    let [low, high] = settings.weight_precision_bounds;
    Plan {
        groups: problem.groups().clone(),
        weight_precision_bounds: units.weight_precision.iter().map(|unit| [low * unit, high * unit]).collect(),
        weight_precision: units.weight_precision.clone(),
        start: None,
        noise,
        noise_variance_bounds: settings.noise_variance_bounds.map(|bound| bound * units.noise_variance),
        most_passes: 100,
    }
}

/// Learns to the end; gives back the last broadcast.
fn learn(plan: Plan, mut pass: impl FnMut(&Broadcast) -> Sums) -> (Broadcast, usize) {
    let mut learner = Learner::new(plan, Par::Seq);
    loop {
        match learner.learn(&pass(&learner.broadcast())).unwrap() {
            Step::Pass => {}
            Step::Converged => return (learner.broadcast(), learner.passes()),
            Step::PassLimit => panic!("{} passes", learner.passes()),
        }
    }
}

fn in_memory(problem: &Problem<'_>, noise: Noise, par: Par) -> (Broadcast, usize) {
    let mut rows = InMemory::new(problem, par);
    learn(plan(problem, noise), |broadcast| rows.pass(broadcast).unwrap_or_else(|error: Infallible| match error {}))
}

#[test]
fn passes_end_where_em_ends() {
    let problem = problem();
    for noise in NOISES {
        let noise: Noise = noise.parse().unwrap();
        let settings =
            Settings { noise, tolerance: 1e-13, patience: 50, max_iterations: 50_000, ..Settings::default() };
        let em = fit(&problem, &settings).unwrap();
        let (end, passes) = in_memory(&problem, noise, Par::Seq);
        assert!(passes <= 30, "{noise}: {passes}");
        let mean = end.belief.unwrap().mean;
        let all: Vec<f64> = (0..24).map(|j| end.columns.binary_search(&j).map_or(0.0, |place| mean[place])).collect();
        for (j, (found, expected)) in all.iter().zip(em.coefficients()).enumerate() {
            let off = (found - expected).abs() / em.standard_errors()[j].max(1e-3);
            // Degrees of freedom are learnt to a thousandth of themselves.
            let most = if matches!(noise, Noise::StudentT(Degrees::Learned)) { 1e-2 } else { 1e-3 };
            assert!(off < most, "{noise}, column {j}: {found} {expected}");
        }
        // The solver of that name goes on to the same tolerance.
        let solved = fit(&problem, &Settings { solver: SolverKind::Passes, ..settings }).unwrap();
        let (own, other) = (solved.outcome().objective, em.outcome().objective);
        assert!((own - other).abs() < 1e-6 * other.abs(), "{noise}: {own} {other}");
    }
}

#[test]
fn threads_do_not_change_a_byte() {
    let problem = problem();
    let noise = "contaminated-t:5".parse().unwrap();
    let alone = in_memory(&problem, noise, Par::Seq).0.to_bytes();
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert!(pool.install(|| in_memory(&problem, noise, Par::rayon(0))).0.to_bytes() == alone, "{threads}");
    }
}

/// As on a cluster: broadcasts and sums are bytes, parts come in any order and are added in theirs, one comes twice.
#[test]
fn parts_elsewhere_are_as_good() {
    const PART: usize = 700;
    let problem = problem();
    let noise: Noise = "student-t:4".parse().unwrap();
    let rows = problem.rows();
    let pass = |broadcast: &Broadcast| {
        let bytes = broadcast.to_bytes();
        let mut parts: Vec<(usize, Vec<u8>)> = (0..problem.row_count())
            .step_by(PART)
            .rev()
            .map(|start| {
                let known = Known::new(&Broadcast::from_bytes(&bytes).unwrap());
                let range = start..(start + PART).min(problem.row_count());
                let mut part = Partition::new(&known);
                let (target, weight) = (&problem.target()[range.clone()], &problem.row_weight()[range.clone()]);
                part.add(rows.subcols(start, range.len()), target, weight);
                (start, part.finish().to_bytes())
            })
            .collect();
        parts.push(parts[2].clone());
        parts.sort();
        parts.dedup_by_key(|part| part.0);
        let mut sums = Sums::zero(broadcast.columns.len());
        parts.iter().for_each(|(_, bytes)| sums.merge(&Sums::from_bytes(bytes).unwrap()));
        sums
    };
    let (found, _) = learn(plan(&problem, noise), pass);
    let (expected, _) = in_memory(&problem, noise, Par::Seq);
    assert_eq!(found.columns, expected.columns);
    let (found, expected) = (found.belief.unwrap().mean, expected.belief.unwrap().mean);
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
}

/// Another learner that goes on after any pass ends with the same bytes; damaged bytes are refused.
#[test]
fn learners_go_on() {
    let problem = problem();
    let noise: Noise = "contaminated".parse().unwrap();
    let mut rows = InMemory::new(&problem, Par::Seq);
    let mut pass = |broadcast: &Broadcast| rows.pass(broadcast).unwrap_or_else(|error: Infallible| match error {});
    let (whole, _) = learn(plan(&problem, noise), &mut pass);
    let mut learner = Learner::new(plan(&problem, noise), Par::Seq);
    loop {
        let bytes = learner.to_bytes();
        assert!(
            (0..bytes.len())
                .step_by(97)
                .all(|length| Learner::new(plan(&problem, noise), Par::Seq).go_on(&bytes[..length]).is_err())
        );
        learner = Learner::new(plan(&problem, noise), Par::Seq);
        learner.go_on(&bytes).unwrap();
        let sums = pass(&learner.broadcast());
        if learner.learn(&sums).unwrap() != Step::Pass {
            break;
        }
    }
    assert!(learner.broadcast() == whole);
}

/// The model of passes is the model of the solver.
#[test]
fn passes_end_with_a_model() {
    let problem = problem();
    for noise in NOISES.map(|noise| noise.parse::<Noise>().unwrap()) {
        let mut rows = InMemory::new(&problem, Par::Seq);
        let mut learner = Learner::new(plan(&problem, noise), Par::Seq);
        let (sums, broadcast) = loop {
            let broadcast = learner.broadcast();
            let sums = rows.pass(&broadcast).unwrap_or_else(|error: Infallible| match error {});
            if learner.learn(&sums).unwrap() != Step::Pass {
                break (sums, broadcast);
            }
        };
        let end = learner.end(&sums, &broadcast.columns).unwrap().unwrap();
        let whole = fit(&problem, &Settings { noise, solver: SolverKind::Passes, ..Settings::default() }).unwrap();
        let (own, other) = (end.objective, whole.outcome().objective);
        assert!((own - other).abs() < 1e-6 * (3000.0 + own.abs()), "{noise}: {own} {other}");
        let (own, other) = (end.neg_log_evidence, whole.neg_log_evidence());
        assert!((own - other).abs() < 1e-4 * (3000.0 + own.abs()), "{noise}: {own} {other}");
        let course = Course { status: Status::Converged, trace: Vec::new(), rejected: 0, elapsed: Duration::ZERO };
        let model = FittedModel::from_passes(&end, &problem, BaseNoise::LeftOut, course);
        let spread = |model: &FittedModel| model.standard_errors().iter().sum::<f64>();
        assert!((spread(&model) / spread(&whole) - 1.0).abs() < 1e-2, "{noise}");
        let [own, other] = [&model, &whole].map(FittedModel::diagnose);
        let off = own.z.iter().zip(&other.z).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 0.05, "{noise}: {off}");
        // What is derived from the model is what it was made of.
        let again = model.row_rule().unwrap().of(problem.rows(), problem.target(), problem.row_weight());
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart(&again.latent_variance, &model.rows().latent_variance) < 1e-9, "{noise}");
        assert!(apart(&again.noise_variance, &model.rows().noise_variance) < 1e-6, "{noise}");
    }
}
