//! Passes over the rows end where EM ends, whoever makes them.

mod common;

use std::convert::Infallible;

use common::Synthetic;
use robustard_engine::faer::Par;
use robustard_engine::passes::{Broadcast, InMemory, Known, Learner, Partition, Plan, RowPass, Step, Sums};
use robustard_engine::{Degrees, Noise, Problem, Settings, SolverKind, fit};

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
