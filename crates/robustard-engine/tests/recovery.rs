//! Statistical claims on the paper's synthetic design.

mod common;

use common::{Synthetic, gaussian_matrix, normal, rng};
use rand::RngExt;
use robustard_engine::metrics::{coverage, mean, rmse, top_k_recall};
use robustard_engine::{FittedModel, Noise, Problem, Settings, fit};

struct Score {
    support: f64,
    outliers: f64,
    error: f64,
}

fn score(seed: u64, settings: &Settings) -> Score {
    let data = Synthetic::PAPER.draw(seed);
    let model = fit(&Problem::new(data.x.as_ref(), &data.y).unwrap(), settings).unwrap();
    let relevance: Vec<f64> = model.weight_precision().iter().map(|g| 1.0 / g).collect();
    let new = gaussian_matrix(1000, 50, &mut rng(1000 + seed));
    let truth: Vec<f64> = (0..1000).map(|i| (0..50).map(|j| new[(i, j)] * data.theta[j]).sum()).collect();
    Score {
        support: top_k_recall(&relevance, &data.support),
        outliers: top_k_recall(&model.rows().noise_variance, &data.outliers),
        error: rmse(&truth, &model.predict(new.as_ref()).unwrap().mean),
    }
}

/// n = 500, d = 50, |S| = 10, σ = 0.2, ρ = 0.2, m = 10, ten seeds.
#[test]
fn joint_ard_recovers_features_and_rows() {
    let scores = |settings: &Settings| -> Vec<Score> { (0..10).map(|seed| score(seed, settings)).collect() };
    let average = |scores: &[Score], of: fn(&Score) -> f64| mean(&scores.iter().map(of).collect::<Vec<_>>());
    let joint = scores(&Settings::default());
    let shared = scores(&Settings::default().with_shared_noise());
    let [joint_support, shared_support] = [&joint, &shared].map(|s| average(s, |s| s.support));
    let outliers = average(&joint, |s| s.outliers);
    let [joint_error, shared_error] = [&joint, &shared].map(|s| average(s, |s| s.error));
    println!(
        "support {joint_support:.3} against {shared_support:.3}, outliers {outliers:.3}, error {joint_error:.4} against {shared_error:.4}"
    );
    assert!(joint_support >= 0.95, "{joint_support}");
    assert!(joint_support > shared_support, "{joint_support} {shared_support}");
    assert!(outliers >= 0.80, "{outliers}");
    assert!(joint_error <= 0.45 * shared_error, "{joint_error} {shared_error}");
}

/// On clean data the default costs next to nothing against shared noise.
#[test]
fn clean_data_cost_little() {
    let clean = Synthetic { contamination: 0.0, ..Synthetic::PAPER };
    let (mut joint, mut shared) = (Vec::new(), Vec::new());
    for seed in 0..10 {
        let data = clean.draw(seed);
        let problem = Problem::new(data.x.as_ref(), &data.y).unwrap();
        let error = |settings: &Settings| rmse(&data.theta, fit(&problem, settings).unwrap().coefficients());
        joint.push(error(&Settings::default()));
        shared.push(error(&Settings::default().with_shared_noise()));
    }
    assert!(mean(&joint) < 1.1 * mean(&shared), "{} {}", mean(&joint), mean(&shared));
}

/// Shared noise on normal data: intervals cover what they say.
#[test]
fn intervals_cover() {
    let clean = Synthetic { contamination: 0.0, ..Synthetic::PAPER };
    let (mut covered, mut levels) = (vec![Vec::new(); 3], [0.5, 0.8, 0.95]);
    levels.sort_by(f64::total_cmp);
    for seed in 0..10 {
        let data = clean.draw(seed);
        let problem = Problem::new(data.x.as_ref(), &data.y).unwrap();
        let model: FittedModel = fit(&problem, &Settings { noise: Noise::Shared, ..Settings::default() }).unwrap();
        let mut rng = rng(2000 + seed);
        let new = gaussian_matrix(2000, 50, &mut rng);
        let actual: Vec<f64> = (0..2000)
            .map(|i| (0..50).map(|j| new[(i, j)] * data.theta[j]).sum::<f64>() + 0.2 * normal(&mut rng))
            .collect();
        let prediction = model.predict(new.as_ref()).unwrap();
        for (covered, level) in covered.iter_mut().zip(levels) {
            let interval = prediction.interval(level).unwrap();
            covered.push(coverage(&actual, &interval.lower, &interval.upper));
        }
    }
    for (covered, level) in covered.iter().zip(levels) {
        assert!((mean(covered) - level).abs() < 0.02, "{level}: {}", mean(covered));
    }
}

/// A clean table shows about as many flagged rows as stated, half a row on average, with every noise model.
#[test]
fn clean_tables_flag_few_rows() {
    let clean = Synthetic { contamination: 0.0, ..Synthetic::PAPER };
    for settings in [
        Settings::default().with_shared_noise(),
        Settings::default(),
        Settings { noise: "student-t:learned".parse().unwrap(), ..Settings::default() },
        Settings { noise: "contaminated".parse().unwrap(), ..Settings::default() },
    ] {
        let flagged: usize =
            (0..40).map(|seed| fit(&clean.problem(seed), &settings).unwrap().diagnose().flagged_rows().len()).sum();
        println!("{}: {flagged} in 40 tables", settings.noise);
        // 20 expected, standard deviation 4.5.
        assert!(flagged <= 40, "{}: {flagged} rows flagged in 40 clean tables", settings.noise);
    }
}

/// Standard errors are the spread of the weights over repetitions, also under robust noise, whose posterior is too narrow
/// without its correction.
#[test]
fn standard_errors_are_honest() {
    let t4 = |rng: &mut rand_chacha::ChaCha8Rng| {
        let chi: f64 = (0..4).map(|_| normal(rng).powi(2)).sum();
        normal(rng) / (chi / 4.0).sqrt()
    };
    type Draw<'a> = &'a dyn Fn(&mut rand_chacha::ChaCha8Rng) -> f64;
    let noises: [(&str, Draw<'_>); 3] = [
        ("normal", &normal),
        ("t4", &t4),
        ("contaminated", &|rng| if rng.random::<f64>() < 0.1 { 10.0 * normal(rng) } else { normal(rng) }),
    ];
    let covered = |settings: &Settings, noise: Draw<'_>| -> f64 {
        let mut hits = 0;
        for seed in 0..150 {
            let mut rng = rng(3000 + seed);
            let x = gaussian_matrix(300, 3, &mut rng);
            let truth = [1.0, -2.0, 0.5];
            let y: Vec<f64> =
                (0..300).map(|i| (0..3).map(|j| truth[j] * x[(i, j)]).sum::<f64>() + noise(&mut rng)).collect();
            let mut problem = Problem::new(x.as_ref(), &y).unwrap();
            for j in 0..3 {
                problem = problem.with_unshrunk(j).unwrap();
            }
            let model = fit(&problem, settings).unwrap();
            hits += (0..3)
                .filter(|&j| (model.coefficients()[j] - truth[j]).abs() < 1.96 * model.standard_errors()[j])
                .count();
        }
        hits as f64 / 450.0
    };
    for prior in ["student-t:4", "student-t:learned", "contaminated"] {
        let settings = Settings { noise: prior.parse().unwrap(), ..Settings::default() };
        for (name, noise) in noises {
            let share = covered(&settings, noise);
            println!("{prior} on {name} noise: {share:.3}");
            assert!((0.92..=0.98).contains(&share), "{prior} on {name} noise: {share}");
        }
    }
}

/// The contaminated normal's probabilities find the outliers and leave the others.
#[test]
fn outlier_probabilities_are_right() {
    let design = Synthetic { multiplier: 30.0, contamination: 0.1, ..Synthetic::PAPER };
    let (mut found, mut wrong) = (0, 0);
    for seed in 0..5 {
        let data = design.draw(seed);
        let settings = Settings { noise: "contaminated".parse().unwrap(), ..Settings::default() };
        let model = fit(&Problem::new(data.x.as_ref(), &data.y).unwrap(), &settings).unwrap();
        let diagnostics = model.diagnose();
        found += data.outliers.iter().filter(|&&i| diagnostics.flagged[i]).count();
        wrong += (0..500).filter(|i| diagnostics.flagged[*i] && !data.outliers.contains(i)).count();
    }
    // 250 outliers of 30σ: about 8% lie within 3σ and cannot be told from inliers.
    assert!(found >= 215, "{found} of 250 found");
    assert!(wrong <= 15, "{wrong} of 2250 inliers flagged");
}
