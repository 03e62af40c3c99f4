//! What is chosen when nothing is given.

mod common;

use common::{Rows, choose, coefficient, flagged, kind, normal, selection, waves};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use robustard::faer::Mat;
use robustard::{Choice, Compared, Control, Noise, Reason, Recipe, Regression, TargetTransform, fit};

fn chosen(regression: &Regression) -> &Compared {
    let chosen: Vec<&Compared> = selection(regression).compared.iter().filter(|compared| compared.chosen).collect();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    chosen[0]
}

fn is_curve(regression: &Regression) -> bool {
    assert_eq!(regression.features(), chosen(regression).features);
    regression.features() == kind("smooth")
}

/// Linear when that is as good, a curve when there is one; robust when rows are wrong, shared noise for all rows otherwise.
#[test]
fn features_and_noise_are_chosen() {
    for (curve, wrong) in [(0.0, 0), (0.0, 20), (2.0, 0), (2.0, 20)] {
        let regression = choose(&waves(200, curve, wrong));
        let selection = selection(&regression);
        let chosen = chosen(&regression);
        assert_eq!(is_curve(&regression), curve > 0.0, "{curve} {wrong}: {selection:?}");
        let is_robust = chosen.noise != Noise::Shared || chosen.set_aside > 0;
        assert_eq!(is_robust, wrong > 0, "{curve} {wrong}: {selection:?}");
        assert!(selection.compared.len() >= 4 && !selection.reasons.is_empty());
        let flagged = flagged(&regression);
        assert_eq!(flagged.iter().filter(|row| **row < wrong).count(), wrong, "{curve} {wrong}: {flagged:?}");
    }
}

#[test]
fn a_choice_does_not_depend_on_the_run() {
    let rows = waves(200, 2.0, 20);
    let (regression, again) = (choose(&rows), choose(&rows));
    assert_eq!(regression.set_aside(), again.set_aside());
    assert_eq!(regression.model().coefficients(), again.model().coefficients());
    assert_eq!(regression.set_aside(), (0..20).collect::<Vec<_>>());
}

/// As in the data of Hawkins, Bradu and Kass: a cluster far out, half of it on the plane and half off it.
#[test]
fn a_far_cluster_off_the_plane_is_set_aside_and_one_on_it_is_kept() {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let rows = Rows::of((0..80).map(|i| {
        let far = if i < 12 { 12.0 } else { 0.0 };
        let [a, b, c] = [1.3, 2.9, 4.7].map(|k| far + 1.5 * wave(i, k));
        let lift = if i < 8 { 10.0 } else { 0.0 };
        ([a, b, c], 0.5 * a - 0.2 * b + lift + 0.4 * wave(i * i, 0.77))
    }));
    let regression = choose(&rows);
    assert!(!is_curve(&regression), "{:?}", regression.selection());
    assert_eq!(flagged(&regression), (0..8).collect::<Vec<_>>(), "{:?}", regression.selection());
    let [a, b] = [0, 1].map(|input| coefficient(&regression, input));
    assert!((a - 0.5).abs() < 0.1 && (b + 0.2).abs() < 0.1, "{:?}", regression.feature_summaries());
}

/// Nothing that can be fitted at all makes the choice fail.
#[test]
fn small_and_odd_tables_are_fitted() {
    let of = |rows: &[[f64; 2]]| Rows::of(rows.iter().map(|[x, y]| ([*x], *y)));
    let wide = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, 3.0, 1.0, 5.0, 3.0, 7.0], [5.0, 3.0, 2.0, 1.0, 4.0, 9.0]];
    for rows in [
        of(&[[1.0, 2.0], [2.0, 3.0]]),
        of(&[[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0]]),
        of(&[[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [2.0, 4.0]]),
        of(&[[0.0, 1e150], [1.0, 2e150], [2.0, 3.5e150], [3.0, 4e150], [4.0, 5e150]]),
        of(&[[1e-200, 1.0], [2e-200, 2.0], [3e-200, 3.0], [5e-200, 4.0]]),
        of(&[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
        Rows::of(wide.iter().map(|[a, b, c, d, e, y]| ([*a, *b, *c, *d, *e], *y))),
    ] {
        let regression = choose(&rows);
        assert!(regression.model().coefficients().iter().all(|weight| weight.is_finite()), "{rows:?}");
    }
}

/// 30% of the targets moved to the same side: more than a fit that starts from all rows finds.
#[test]
fn wrong_rows_that_err_to_one_side_are_found() {
    let regression = choose(&Rows::of((0..200).map(|i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let error = if i < 60 { 12.0 } else { 0.0 };
        ([x, z], x - z + 0.3 * ((i * i) as f64 * 0.37).sin() + error)
    })));
    assert_eq!(flagged(&regression), (0..60).collect::<Vec<_>>(), "{:?}", regression.selection());
    let [x, z] = [0, 1].map(|input| coefficient(&regression, input));
    assert!((x - 1.0).abs() < 0.05 && (z + 1.0).abs() < 0.1, "{x} {z}");
}

/// Copies of rows, or the same weight for all, say nothing about noise: a straight table stays straight, a curve the same.
#[test]
fn copies_and_equal_weights_do_not_pass_for_precision() {
    let with_copies = |curve: f64, copied: usize| {
        let rows = waves(150, curve, 0);
        let row = |i: usize| ([rows.inputs[(i, 0)], rows.inputs[(i, 1)]], rows.target[i]);
        Rows::of((0..150).chain(0..copied).map(row))
    };
    assert!(!is_curve(&choose(&with_copies(0.0, 40))));
    let rows = with_copies(2.0, 0);
    let plain = choose(&rows);
    let weighted = rows.dataset().with_weights(vec![2.0; 150]).unwrap();
    let weighted = fit(&weighted, &Recipe::default(), &Control::new()).unwrap();
    for other in [choose(&with_copies(2.0, 40)), weighted] {
        assert!(is_curve(&other));
        let (quality, plain) = (other.quality(), plain.quality());
        assert!((quality.loo_rmse / plain.loo_rmse - 1.0).abs() < 0.15, "{quality:?}");
    }
}

/// Two values of a target are no inliers and outliers.
#[test]
fn two_valued_targets_lose_no_rows() {
    let regression = choose(&Rows::of((0..300).map(|i| {
        let (x, z) = ((i as f64 * 0.7).sin() * 2.0, (i as f64 * 1.9).cos());
        let chance = 0.5 + 0.5 * ((i * i) as f64 * 0.37).sin();
        ([x, z], f64::from(u8::from(1.0 / (1.0 + (-2.0 * x).exp()) > chance)))
    })));
    let is_shared = regression.noise() == Noise::Shared && regression.model().noise().is_shared();
    assert!(regression.set_aside().is_empty() && is_shared, "{:?}", regression.selection());
    let quality = regression.quality();
    assert!(quality.loo_r2 > 0.2 && quality.loo_r2 < 0.9, "{quality:?}");
}

/// Rows that come by turns, with little noise and with much: which of them are looked at must not decide.
#[test]
fn rows_that_come_by_turns_are_no_pattern() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let rows = Rows::of((0..4002).map(|i| {
        let x = 3.0 * normal(&mut rng);
        ([x], (2.0 * x).sin() + if i % 2 == 0 { 0.05 } else { 1.0 } * normal(&mut rng))
    }));
    let regression = rows.fit(&Recipe::default());
    assert!(!regression.design().is_linear(), "{:?}", regression.selection());
}

/// Thirty-two inputs of which two matter, together only, and one row in ten is wrong: few rows do not show it, all of them do.
#[test]
fn two_inputs_of_many_are_found() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let draw = |wrong: bool, rng: &mut ChaCha8Rng| {
        let x: [f64; 32] = std::array::from_fn(|_| normal(rng));
        let truth = x[3] * x[20].tanh();
        let shift = if wrong && rng.random::<f64>() < 0.1 { 4.0 } else { 0.0 };
        (x, truth, truth + 0.3 * normal(rng) + shift)
    };
    let rows = Rows::of((0..2500).map(|_| draw(true, &mut rng)).map(|(x, _, y)| (x, y)));
    let regression = rows.fit(&Recipe::default());
    assert!(!regression.design().is_linear(), "{:?}", regression.selection());
    let new: Vec<_> = (0..500).map(|_| draw(false, &mut rng)).collect();
    let inputs = Mat::from_fn(500, 32, |i, j| new[i].0[j]);
    let mean = regression.predict_mean(inputs.as_ref()).unwrap();
    let square: f64 = mean.iter().zip(&new).map(|(mean, (_, truth, _))| (mean - truth).powi(2)).sum();
    // The truth has a standard deviation of 0.6.
    assert!((square / 500.0).sqrt() < 0.2, "{}", (square / 500.0).sqrt());
}

/// Root mean square of what predictions miss of the truth.
fn error_against<const P: usize>(regression: &Regression, truth: &[([f64; P], f64)]) -> f64 {
    let inputs = Mat::from_fn(truth.len(), P, |i, j| truth[i].0[j]);
    let mean = regression.predict_mean(inputs.as_ref()).unwrap();
    let square: f64 = mean.iter().zip(truth).map(|(mean, (_, truth))| (mean - truth).powi(2)).sum();
    (square / truth.len() as f64).sqrt()
}

/// Labels that have changed places are errors inside the target's range: no gap sets them apart, and a fit that gives in to them
/// predicts them better.
#[test]
fn exchanged_labels_are_set_aside() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let clean: Vec<([f64; 3], f64)> = (0..1200)
        .map(|_| {
            let x: [f64; 3] = std::array::from_fn(|_| 2.0 * normal(&mut rng));
            (x, x[0].sin() + 0.5 * x[1] + 0.3 * (x[2] * x[0]).tanh())
        })
        .collect();
    let (training, new) = clean.split_at(600);
    let mut rows = Rows::of(training.iter().map(|(x, truth)| (*x, truth + 0.25 * normal(&mut rng))));
    let right = choose(&rows);
    // Every seventh row has the target of the one before it in their list.
    let exchanged: Vec<usize> = (0..600).step_by(7).collect();
    let last = rows.target[exchanged[exchanged.len() - 1]];
    exchanged.windows(2).rev().for_each(|pair| rows.target[pair[1]] = rows.target[pair[0]]);
    rows.target[0] = last;
    let regression = choose(&rows);
    let [right, with] = [&right, &regression].map(|regression| error_against(regression, new));
    assert!(with < 1.4 * right, "{with} against {right}: {:?}", regression.selection());
    // Rows that were set aside are flagged, however far off they are.
    let diagnostics = regression.diagnostics();
    let beyond = diagnostics.z.iter().filter(|z| z.abs() > diagnostics.threshold).count();
    assert_eq!(diagnostics.flagged_rows().len(), beyond + diagnostics.flagged_within());
    let flagged = flagged(&regression);
    let wrong = flagged.iter().filter(|row| *row % 7 == 0).count();
    assert!(2 * wrong > exchanged.len() && 10 * (flagged.len() - wrong) < flagged.len(), "{flagged:?}");
}

/// Half of the targets are zero, the others skewed, and one in ten is wrong: the zeros are not the only right ones.
#[test]
fn a_value_that_many_rows_share_is_not_all_that_counts() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let rows = Rows::of((0..600).map(|i| {
        let x: [f64; 2] = std::array::from_fn(|_| normal(&mut rng));
        let size = (0.5 * x[0] + 0.5 * normal(&mut rng)).exp();
        let target = if x[1] + 0.5 * normal(&mut rng) > 0.05 { size } else { 0.0 };
        (x, if i % 10 == 0 { 20.0 + target } else { target })
    }));
    let zeros = rows.target.iter().filter(|target| **target == 0.0).count();
    assert!((250..300).contains(&zeros), "{zeros}");
    let regression = choose(&rows);
    assert!(flagged(&regression).len() < 120, "{:?}", regression.selection());
    let interval = regression.predict(rows.inputs.as_ref()).unwrap().interval(0.95).unwrap();
    let right = (0..600).filter(|i| i % 10 != 0);
    let inside = right.filter(|&i| interval.lower[i] <= rows.target[i] && rows.target[i] <= interval.upper[i]).count();
    assert!(inside > 480, "{inside} of 540");
}

/// Whether rows are wrong is a matter of all rows together: with twenty of them a quarter of a nat each is overwhelming.
#[test]
fn wrong_rows_of_small_tables_are_found() {
    let wave = |i: usize, k: f64| ((i + 1) as f64 * k).sin();
    let regression = choose(&Rows::of((0..21).map(|i| {
        let (a, b) = (2.0 * wave(i, 1.3), wave(i, 2.9));
        let off = if [2, 17].contains(&i) { 2.5 } else { 0.0 };
        ([a, b], 1.0 + a - 0.5 * b + 0.3 * wave(i * i, 0.77) + off)
    })));
    assert_eq!(flagged(&regression), [2, 17], "{:?}", regression.selection());
}

/// One row nine standard deviations off, and noise that grows: the line is not drawn to it.
#[test]
fn one_wrong_row_beside_growing_noise_does_not_draw_the_line() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let regression = choose(&Rows::of((0..60).map(|i| {
        let x = i as f64 / 10.0;
        let noise = (0.2 + 0.15 * x) * normal(&mut rng);
        ([x], 2.0 + x + if i == 58 { 9.0 } else { noise })
    })));
    assert!(flagged(&regression).contains(&58), "{:?}", regression.selection());
    assert!((coefficient(&regression, 0) - 1.0).abs() < 0.08, "{}", coefficient(&regression, 0));
}

/// Of a large table some rows decide about features and noise, and all rows are fitted; threads change nothing.
#[test]
fn large_tables_are_chosen_from_some_rows_and_fitted_to_all() {
    for (curve, wrong) in [(0.0, 1200), (2.0, 1200), (0.0, 0)] {
        let rows = waves(12_000, curve, wrong);
        let [one, two] = [1, 2].map(|threads| {
            let control = Control::new().with_threads(threads).unwrap();
            fit(&rows.dataset(), &Recipe::default(), &control).unwrap()
        });
        assert_eq!(one.model().coefficients(), two.model().coefficients());
        assert_eq!(one.row_count(), 12_000);
        assert_eq!(is_curve(&one), curve > 0.0, "{:?}", one.selection());
        assert_eq!(flagged(&one), (0..wrong).collect::<Vec<_>>(), "{:?}", selection(&one).reasons);
        let compared = &selection(&one).compared;
        let (chosen, others) = (chosen(&one), compared.iter().filter(|compared| !compared.chosen));
        assert!(chosen.learnt_from.is_none() && others.into_iter().all(|other| other.learnt_from.is_some()));
        if curve > 0.0 {
            assert_eq!(chosen.set_aside, wrong);
        }
    }
}

/// One value of an input or of the target with its decimal point in the wrong place does not squeeze the others together.
#[test]
fn a_typing_error_does_no_harm() {
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let clean: Vec<([f64; 2], f64)> = (0..800)
        .map(|_| {
            let x: [f64; 2] = std::array::from_fn(|_| 2.0 * normal(&mut rng));
            (x, (1.5 * x[0]).sin() + 0.5 * x[1])
        })
        .collect();
    let straight: Vec<([f64; 2], f64)> = clean.iter().map(|(x, _)| (*x, x[0] + 0.5 * x[1])).collect();
    for table in [clean, straight] {
        let (training, new) = table.split_at(400);
        let mut rows = Rows::of(training.iter().map(|(x, truth)| (*x, truth + 0.2 * normal(&mut rng))));
        let right = error_against(&choose(&rows), new);
        let right_target = rows.target[17];
        for typed in [1e5, -1e9] {
            rows.target[17] = typed;
            let regression = choose(&rows);
            let error = error_against(&regression, new);
            assert!(error < 1.1 * right, "{typed}: {error} against {right}, {:?}", regression.selection());
            assert!(flagged(&regression).contains(&17), "{:?}", regression.selection());
        }
        rows.target[17] = right_target;
        for typed in [1e4, -1e7, 1e40] {
            rows.inputs[(17, 0)] = typed;
            let regression = choose(&rows);
            let error = error_against(&regression, new);
            assert!(error < 1.2 * right, "{typed}: {error} against {right}, {:?}", regression.selection());
        }
    }
}

/// A gross error that is not among the rows that decide does no harm either.
#[test]
fn rare_gross_errors_of_large_tables_are_set_aside() {
    for (count, curve) in [(3000, 2.0), (30_000, 0.0), (30_000, 2.0)] {
        let rows = waves(count, curve, 0);
        let right = choose(&rows);
        for (wrong, target) in [(7, 2e4), (count - 5, -2e4)] {
            let mut rows = rows.clone();
            rows.target[wrong] = target;
            let regression = choose(&rows);
            let [right, with] = [&right, &regression].map(|fit| fit.predict_mean(rows.inputs.as_ref()).unwrap());
            let square: f64 = right.iter().zip(&with).map(|(a, b)| (a - b).powi(2)).sum();
            let off = (square / count as f64).sqrt();
            assert!(off < 0.1, "{count} {curve} {target}: {off}, {:?}", regression.selection());
            assert!(flagged(&regression).contains(&wrong), "{:?}", regression.selection());
        }
    }
}

/// A far cluster off the plane does not draw the lines of a large table either, and one on it is kept.
#[test]
fn a_far_cluster_of_a_large_table_is_judged_by_the_others() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (lift, aside) in [(15.0, 0..200), (0.0, 0..0)] {
        let rows = Rows::of((0..20_000).map(|i| {
            let far = if i < 200 { 15.0 } else { 0.0 };
            let [a, b, c] = std::array::from_fn(|_| far + normal(&mut rng));
            let lift = if i < 200 { lift } else { 0.0 };
            ([a, b, c], 0.5 * a - 0.2 * b + lift + 0.5 * normal(&mut rng))
        }));
        let recipe = Recipe::new(Choice::Given(kind("linear")), Choice::Auto).unwrap();
        let regression = rows.fit(&recipe);
        let found = flagged(&regression).into_iter().filter(|row| *row < 200).count();
        assert_eq!(found, aside.len(), "{:?}", regression.selection());
        let [a, b] = [0, 1].map(|input| coefficient(&regression, input));
        assert!((a - 0.5).abs() < 0.02 && (b + 0.2).abs() < 0.02, "{:?}", regression.feature_summaries());
    }
}

/// Targets cut off at two limits are not rounded, weights may make a rounded target's steps huge, and without an intercept a target may
/// be far from zero: none of these has a floor of noise, or ends badly.
#[test]
fn limits_and_offsets_are_no_rounding() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let rows = Rows::of((0..300).map(|_| {
        let x = 2.0 * normal(&mut rng);
        ([x], (2.0 * x.sin() + 0.05 * normal(&mut rng)).clamp(-1.0, 1.0))
    }));
    let regression = choose(&rows);
    assert!(regression.quality().loo_rmse < 0.08, "{}", regression.quality().loo_rmse);
    let two = Rows::of((0..160).map(|i| ([normal(&mut rng)], f64::from(u8::from(i >= 100)))));
    let weights: Vec<f64> = (0..160).map(|i| if i < 100 { 1e6 } else { 1e-3 }).collect();
    let dataset = two.dataset().with_weights(weights).unwrap();
    assert!(fit(&dataset, &Recipe::default(), &Control::new()).is_ok());
    let far = Rows::of((0..200).map(|_| {
        let x = normal(&mut rng);
        ([x], 1e6 + 2.0 * (2.0 * x).sin() + 0.1 * normal(&mut rng))
    }));
    let recipe = Recipe::new(Choice::Given(kind("smooth")), Choice::Auto).unwrap().with_intercept(false);
    assert!(far.fit(&recipe).set_aside().len() < 20);
}

/// The choice is the same in any unit of the target.
#[test]
fn units_do_not_decide() {
    let mut rows = waves(200, 0.0, 20);
    let plain = choose(&rows);
    for unit in [1e170, 1e-170] {
        rows.target = waves(200, 0.0, 20).target.iter().map(|target| unit * target).collect();
        assert_eq!(choose(&rows).noise(), plain.noise(), "{unit}");
    }
}

/// Prices: products of what matters, with errors in proportion, a few of them wrong. Their logarithm is a line.
#[test]
fn errors_that_grow_with_the_target_make_a_logarithm() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let clean: Vec<([f64; 3], f64)> = (0..900)
        .map(|_| {
            let x: [f64; 3] = std::array::from_fn(|_| rng.random_range(-1.5..1.5));
            (x, 100.0 * (x[0] + 0.4 * x[1]).exp())
        })
        .collect();
    let (training, new) = clean.split_at(400);
    let noisy = |rng: &mut ChaCha8Rng, truth: f64| truth * (0.3 * normal(rng)).exp();
    for wrong in [usize::MAX, 12] {
        let rows = Rows::of(training.iter().enumerate().map(|(i, (x, truth))| {
            let error = if (i + 1).is_multiple_of(wrong) { 10.0 } else { 1.0 };
            (*x, error * noisy(&mut rng, *truth))
        }));
        let regression = choose(&rows);
        let plain = rows.fit(&Recipe::default().with_target_transform(Choice::Given(TargetTransform::None)));
        let why = selection(&regression);
        assert_eq!(regression.design().target().transform(), TargetTransform::Asinh, "{why:?}");
        assert_eq!(chosen(&regression).target_transform, TargetTransform::Asinh);
        assert!(why.reasons.iter().any(|reason| matches!(reason, Reason::TargetTransformed { .. })));
        // Means are those of the target: its errors are skewed.
        let bias = (0.5f64 * 0.3 * 0.3).exp();
        let truth: Vec<([f64; 3], f64)> = new.iter().map(|(x, truth)| (*x, bias * truth)).collect();
        let [own, other] = [&regression, &plain].map(|regression| error_against(regression, &truth));
        assert!(own < 0.8 * other, "{own} against {other}");
        // And so are intervals, of small targets and of large ones.
        let inputs = Mat::from_fn(new.len(), 3, |i, j| new[i].0[j]);
        let prediction = regression.predict(inputs.as_ref()).unwrap();
        let interval = prediction.interval(0.95).unwrap();
        let mut inside = [[0.0, 0.0]; 2];
        for (i, (_, truth)) in new.iter().enumerate() {
            let y = noisy(&mut rng, *truth);
            let counts = &mut inside[usize::from(*truth > 100.0)];
            counts[0] += f64::from(u8::from((interval.lower[i]..interval.upper[i]).contains(&y)));
            counts[1] += 1.0;
        }
        inside.iter().for_each(|[inside, all]| assert!((0.91..0.99).contains(&(inside / all)), "{inside} of {all}"));
        let medians = prediction.median.iter().zip(&prediction.mean);
        assert!(medians.clone().all(|(median, mean)| median < mean), "{:?}", medians.take(3).collect::<Vec<_>>());
        // Left-out rows, diagnosed and predicted, are in the target's units.
        let diagnostics = regression.diagnostics();
        assert!(diagnostics.actual.iter().zip(&rows.target).all(|(own, given)| (own / given - 1.0).abs() < 1e-9));
    }
    // A target whose errors do not grow is left alone.
    let rows = Rows::of(training.iter().map(|(x, truth)| (*x, truth + 30.0 * normal(&mut rng))));
    assert_eq!(choose(&rows).design().target().transform(), TargetTransform::None);
}

/// Sizes over two orders of magnitude: the few largest look wrong on a scale that does not suit. Without those that it sets aside, the
/// density of the target itself is no worse than that of its logarithm.
#[test]
fn a_scale_on_which_fewer_rows_look_wrong_is_taken() {
    let skewed = |rng: &mut ChaCha8Rng, n: usize| -> Vec<([f64; 3], f64)> {
        let row = |_| {
            let x: [f64; 3] = std::array::from_fn(|_| normal(rng).abs());
            (x, 20.0 * (0.8 * x[0] + 0.6 * x[1] + 0.4 * x[2] + 0.4 * normal(rng)).exp())
        };
        (0..n).map(row).collect()
    };
    for seed in [5, 6, 16, 22] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rows = Rows::of(skewed(&mut rng, 160).into_iter());
        let new = skewed(&mut rng, 400);
        let regression = choose(&rows);
        let plain = rows.fit(&Recipe::default().with_target_transform(Choice::Given(TargetTransform::None)));
        let reason = selection(&regression).reasons[0];
        let Reason::FewerRowsWrongWhenTransformed { plain: wrong, transformed: 0, .. } = reason else {
            panic!("{seed}: {reason:?}")
        };
        assert!(wrong >= 5 && regression.set_aside().is_empty(), "{seed}: {reason:?}");
        let [own, other] = [&regression, &plain].map(|regression| error_against(regression, &new));
        assert!(own < other, "{seed}: {own} against {other}");
    }
}

/// A logarithm that was asked for is taken, or refused with the row.
#[test]
fn a_logarithm_can_be_asked_for() {
    let mut rows = Rows::of((0..60).map(|i| ([f64::from(i)], (0.1 * f64::from(i)).exp())));
    let recipe = Recipe::default().with_target_transform(Choice::Given(TargetTransform::Log));
    let regression = rows.fit(&recipe);
    let mean = regression.predict_mean(rows.inputs.as_ref()).unwrap();
    assert!(mean.iter().zip(&rows.target).all(|(mean, y)| (mean / y - 1.0).abs() < 1e-3));
    assert!((coefficient(&regression, 0) - 0.1).abs() < 1e-4);
    rows.target[6] = 0.0;
    let error = fit(&rows.dataset(), &recipe, &Control::new()).unwrap_err().to_string();
    assert!(error.contains("row 7") && error.contains("asinh"), "{error}");
}

/// A group of wrong rows far out in an input: a curve bends to it there, and nowhere else.
#[test]
fn a_far_group_does_not_bend_a_curve_where_the_others_are() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let truth = |x: [f64; 2]| (2.0 * x[0]).sin() + 0.5 * x[1];
    let clean: Vec<([f64; 2], f64)> = (0..270)
        .map(|_| {
            let x: [f64; 2] = std::array::from_fn(|_| rng.random_range(-2.0..2.0));
            (x, truth(x) + 0.2 * normal(&mut rng))
        })
        .collect();
    let group = (0..30).map(|_| ([9.0 + 0.3 * normal(&mut rng), 0.3 * normal(&mut rng)], 8.0 + 0.2 * normal(&mut rng)));
    let group: Vec<([f64; 2], f64)> = group.collect();
    let new: Vec<([f64; 2], f64)> = clean.iter().map(|(x, _)| (*x, truth(*x))).collect();
    let [own, without] = [[clean.clone(), group].concat(), clean].map(|rows| {
        let regression = choose(&Rows::of(rows.into_iter()));
        assert!(is_curve(&regression), "{:?}", regression.selection());
        error_against(&regression, &new)
    });
    assert!(own < 1.3 * without, "{own} against {without}");
}

/// Counts that are mostly 0: a curve that is 0 everywhere would be exact if all other rows were wrong.
#[test]
fn counts_that_are_mostly_zero_are_not_taken_for_right_alone() {
    for seed in [2, 5, 6] {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rows = Rows::of((0..850).map(|_| {
            let x: [f64; 9] = std::array::from_fn(|_| normal(&mut rng));
            let mean = 0.1 * (0.8 * normal(&mut rng) + 0.4 * x[0] + 0.4 * x[1] + 0.2 * x[5]).exp();
            let mut product = rng.random::<f64>();
            let mut count = 0.0;
            while product > (-mean).exp() {
                product *= rng.random::<f64>();
                count += 1.0;
            }
            (x, count)
        }));
        let zeros = rows.target.iter().filter(|y| **y == 0.0).count();
        let regression = choose(&rows);
        assert!(4 * zeros > 3 * 850 && regression.set_aside().is_empty(), "{seed}: {:?}", selection(&regression));
        let quality = regression.quality();
        assert!(quality.loo_rmse > 0.2, "{seed}: {quality:?}");
    }
}

/// A column that is nearly always 0: what is not lies so far out that a rough curve holds all of it at one value and a smooth one does not.
#[test]
fn columns_with_few_far_values_are_fitted() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let rows = Rows::of((0..600).map(|i| {
        let x = [normal(&mut rng), normal(&mut rng), if i % 120 == 0 { 12.0 + f64::from(i) / 240.0 } else { 0.0 }];
        (x, (2.0 * x[0]).sin() * x[1] + 0.02 * x[2] + 0.1 * normal(&mut rng))
    }));
    let regression = choose(&rows);
    assert!(is_curve(&regression) && regression.quality().loo_r2 > 0.9, "{:?}", regression.quality());
}
