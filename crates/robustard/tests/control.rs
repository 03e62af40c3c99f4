//! Work is shown, timed and stopped.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Rows, friedman, given, kind, waves};
use robustard::features::{FeatureMap, Lengthscale};
use robustard::{
    Choice, Control, Degrees, Error, Noise, Options, Progress, Reason, Recipe, Regression, Stage, Status, Stop, fit,
};

/// What an observer is told, as it can be kept.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Stage(Stage),
    Share(f64),
    Iteration,
}

/// Everything that is told in a fit, and where the flag was raised: as soon as `when` says so.
fn watched(
    rows: &Rows,
    recipe: &Recipe,
    mut when: impl FnMut(&[Told]) -> bool + Send + 'static,
) -> (Regression, Vec<Told>, usize) {
    let told = Arc::new(Mutex::new((Vec::new(), usize::MAX)));
    let (stop, keep) = (Stop::default(), told.clone());
    let control = Control::new().with_stop(stop.clone()).with_observer(move |progress| {
        let (told, raised) = &mut *keep.lock().unwrap();
        told.push(match progress {
            Progress::Stage(stage) => Told::Stage(stage.clone()),
            Progress::Share(share) => Told::Share(share),
            _ => Told::Iteration,
        });
        if *raised == usize::MAX && when(told) {
            *raised = told.len();
            stop.raise();
        }
    });
    let regression = fit(&rows.dataset(), recipe, &control).unwrap();
    let (told, raised) = told.lock().unwrap().clone();
    (regression, told, raised)
}

fn is_learning(told: &Told, features: &str) -> bool {
    matches!(told, Told::Stage(Stage::Learning { features: own, .. }) if own == features)
}

fn is_fitting(told: &Told) -> bool {
    matches!(told, Told::Stage(Stage::Fitting { .. }))
}

fn stages(told: &[Told]) -> Vec<&Stage> {
    told.iter().filter_map(|told| if let Told::Stage(stage) = told { Some(stage) } else { None }).collect()
}

fn reasons(regression: &Regression) -> &[Reason] {
    &regression.selection().unwrap().reasons
}

/// A fit that ended soon after the flag was raised.
fn is_cut_short(regression: &Regression, told: &[Told], raised: usize) {
    assert!(raised < told.len(), "the flag was never raised: {:?}", stages(told));
    assert_eq!(regression.status(), Status::Interrupted);
    let after = &told[raised..];
    let count = |is: &dyn Fn(&Told) -> bool| after.iter().filter(|told| is(told)).count();
    // What has begun may finish its step, and what was learnt so far is still made a model: with shared noise, if it was learnt
    // with another.
    assert!(count(&|told| *told == Told::Iteration) <= 1, "{after:?}");
    assert!(count(&|told| matches!(told, Told::Share(_))) <= 2, "{after:?}");
    assert!(count(&is_fitting) <= 1, "{after:?}");
    assert!(count(&|told| matches!(told, Told::Stage(Stage::Learning { .. }))) <= 2, "{after:?}");
}

fn says_interrupted(regression: &Regression) {
    let reasons = reasons(regression);
    let count = reasons.iter().filter(|reason| **reason == Reason::Interrupted).count();
    assert_eq!(count, 1, "{reasons:?}");
}

fn auto_noise(features: &str) -> Recipe {
    Recipe::new(Choice::Given(kind(features)), Choice::Auto).unwrap()
}

/// In the first iteration of the second candidate, and of the third: what was finished is kept.
#[test]
fn stopped_while_candidates_are_compared() {
    let rows = waves(200, 0.0, 20);
    for recipe in [Recipe::default(), auto_noise("linear")] {
        // Beside a curve, lines of two kinds of noise are compared.
        let cases = if recipe == Recipe::default() { vec![(2, 1)] } else { vec![(2, 1), (3, 2)] };
        for (candidate, compared) in cases {
            let (regression, told, raised) = watched(&rows, &recipe, move |told| {
                told.iter().filter(|told| is_fitting(told)).count() == candidate
                    && told.last() == Some(&Told::Iteration)
            });
            is_cut_short(&regression, &told, raised);
            says_interrupted(&regression);
            assert_eq!(regression.model().status(), Status::Converged);
            let selection = regression.selection().unwrap();
            assert_eq!(selection.compared.len(), compared, "{selection:?}");
            assert!(selection.compared.iter().all(|compared| compared.bound.is_finite()));
        }
    }
}

/// The first candidate of all: there is nothing else, and it says that it is not finished.
#[test]
fn stopped_in_the_first_candidate() {
    let (regression, told, raised) =
        watched(&waves(200, 0.0, 20), &Recipe::default(), |told| told.last() == Some(&Told::Iteration));
    is_cut_short(&regression, &told, raised);
    says_interrupted(&regression);
    assert_eq!(regression.model().status(), Status::Interrupted);
    assert_eq!(regression.model().iterations(), 1);
}

/// While a curve is learnt: the lines are finished, and the curve is compared with nothing.
#[test]
fn stopped_while_a_curve_is_learnt() {
    for rows in [waves(200, 2.0, 0), waves(200, 0.0, 0), friedman(700, 0.05, 1)] {
        let (regression, told, raised) = watched(&rows, &Recipe::default(), |told| {
            matches!(told.last(), Some(Told::Share(_))) && told.iter().any(|told| is_learning(told, "smooth"))
        });
        is_cut_short(&regression, &told, raised);
        says_interrupted(&regression);
        assert_eq!(regression.features(), kind("linear"));
        assert_eq!(regression.model().status(), Status::Converged);
        let is_about_curves = |reason: &Reason| {
            matches!(
                reason,
                Reason::CurveExplainsNoMore { .. } | Reason::CurveGains { .. } | Reason::CurveGainsTooLittle { .. }
            )
        };
        assert!(!reasons(&regression).iter().any(is_about_curves), "{:?}", reasons(&regression));
    }
}

/// While the curve that was asked for is learnt, early or late: it is what there is.
#[test]
fn stopped_while_the_given_curve_is_learnt() {
    for (recipe, learnings) in [
        (given("smooth", Noise::Shared), 1),
        (auto_noise("smooth"), 1),
        (auto_noise("smooth"), 2),
        (auto_noise("smooth"), 3),
        (auto_noise("smooth"), 4),
    ] {
        let (regression, told, raised) = watched(&waves(200, 2.0, 20), &recipe, move |told| {
            let count = told.iter().filter(|told| is_learning(told, "smooth")).count();
            count >= learnings && !is_learning(told.last().unwrap(), "smooth")
        });
        is_cut_short(&regression, &told, raised);
        assert_eq!(regression.features(), kind("smooth"));
        if regression.selection().is_some() {
            says_interrupted(&regression);
        }
    }
}

/// While lengthscales of Fourier features are learnt, with one noise and with noise to be chosen.
#[test]
fn stopped_while_fourier_features_are_learnt() {
    let rows = friedman(300, 0.0, 2);
    for (recipe, learnings) in
        [(given("rff:64", Noise::Shared), 1), (auto_noise("rff:64"), 1), (auto_noise("rff:64"), 2)]
    {
        let (regression, told, raised) = watched(&rows, &recipe, move |told| {
            let count = told.iter().filter(|told| is_learning(told, "rff:64")).count();
            count == learnings && matches!(told.last(), Some(Told::Share(share)) if *share > 0.0)
        });
        is_cut_short(&regression, &told, raised);
        let has_finished = learnings > 1;
        let status = if has_finished { Status::Converged } else { Status::Interrupted };
        assert_eq!(regression.model().status(), status);
        if regression.selection().is_some() {
            says_interrupted(&regression);
        }
    }
}

/// While kernel functions are put where they raise the evidence.
#[test]
fn stopped_while_a_basis_grows() {
    let rows = friedman(700, 0.0, 3);
    let given = given("rbf", Noise::Shared).with_lengthscale(Lengthscale::Given(1.0)).unwrap();
    let functions = |regression: &Regression| match regression.design().map() {
        FeatureMap::Kernel(map) => map.size(),
        other => panic!("{other:?}"),
    };
    let whole = rows.fit(&given);
    let stop = Stop::default();
    let control = Control::new().with_stop(stop.clone());
    let dataset = rows.dataset();
    let part = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(whole.elapsed() / 40);
            stop.raise();
        });
        fit(&dataset, &given, &control).unwrap()
    });
    assert_eq!((whole.status(), part.status()), (Status::Converged, Status::Interrupted));
    assert_eq!(part.model().iterations(), 1);
    assert!(functions(&part) < functions(&whole), "{} of {}", functions(&part), functions(&whole));
    assert!(part.elapsed() < whole.elapsed() / 2, "{:?} of {:?}", part.elapsed(), whole.elapsed());
}

/// Raised before the start, every recipe ends after one iteration of one candidate.
#[test]
fn stopped_before_the_start() {
    let rows = friedman(200, 0.05, 4);
    for features in ["auto", "linear", "poly:3", "smooth", "rff:64", "rbf", "rbf:all"] {
        let options = Options { features: Some(features.parse().unwrap()), ..Options::default() };
        let (regression, told, _) = watched(&rows, &options.recipe().unwrap(), |told| told.len() == 1);
        assert_eq!(regression.status(), Status::Interrupted, "{features}");
        assert_eq!(regression.model().iterations(), 1, "{features}");
        assert_eq!(regression.selection().unwrap().reasons, [Reason::Interrupted], "{features}");
        assert!(told.iter().filter(|told| is_fitting(told)).count() == 1, "{features}: {told:?}");
        // Noise that others lead to is not there yet, but it is what was asked for.
        for noise in [Noise::Contaminated, Noise::ContaminatedT(Degrees::Learned)] {
            let options = Options { noise: Some(Choice::Given(noise)), ..options.clone() };
            let (regression, _, _) = watched(&rows, &options.recipe().unwrap(), |told| told.len() == 1);
            assert_eq!((regression.status(), regression.noise()), (Status::Interrupted, noise), "{features}");
        }
    }
}

#[test]
fn stopped_predictions_have_no_result() {
    let rows = friedman(5000, 0.0, 5);
    let regression = rows.fit(&given("linear", Noise::Shared));
    let control = Control::new();
    let inputs = rows.inputs.as_ref();
    assert!(regression.predict_under(inputs, &control).is_ok());
    control.stop().raise();
    assert_eq!(regression.predict_under(inputs, &control), Err(Error::Stopped));
    assert_eq!(regression.predict_mean_under(inputs, &control), Err(Error::Stopped));

    // Between blocks of rows, too.
    let stop = Stop::default();
    let raise = stop.clone();
    let control = Control::new().with_stop(stop).with_observer(move |progress| {
        if matches!(progress, Progress::Share(_)) {
            raise.raise();
        }
    });
    assert_eq!(regression.predict_under(inputs, &control), Err(Error::Stopped));
}

/// Lines are fitted first, then the curve is learnt and fitted, then the rows are diagnosed.
#[test]
fn stages_are_told_in_order() {
    let (regression, told, _) = watched(&waves(300, 2.0, 0), &Recipe::default(), |_| false);
    assert_eq!(regression.features(), kind("smooth"));
    let stages = stages(&told);
    let name = |stage: &&Stage| match stage {
        Stage::Learning { features, .. } => format!("learning {features}"),
        Stage::Fitting { features, .. } => format!("fitting {features}"),
        other => format!("{other:?}").to_lowercase(),
    };
    let mut names: Vec<String> = stages.iter().map(name).collect();
    names.dedup();
    assert_eq!(names, ["fitting linear", "learning smooth", "fitting smooth", "diagnosing"]);
    let first = Stage::Fitting { features: "linear".to_owned(), noise: Noise::Shared };
    assert_eq!(stages[0], &first);
    let noises: Vec<Noise> = stages
        .iter()
        .filter_map(|stage| match stage {
            Stage::Fitting { features, noise } if features == "linear" => Some(*noise),
            _ => None,
        })
        .collect();
    assert_eq!(noises, [Noise::Shared, Noise::Contaminated]);
    // Each fit shows its iterations.
    for (k, stage) in told.iter().enumerate().filter(|(_, told)| is_fitting(told)) {
        assert_eq!(told.get(k + 1), Some(&Told::Iteration), "{stage:?}");
    }
}

/// While features are learnt, the share that is done grows, from none of it to less than all.
#[test]
fn shares_grow_while_features_are_learnt() {
    let recipes = [
        Recipe::default(),
        given("smooth:100", Noise::Shared),
        given("smooth:100", Noise::Contaminated),
        given("rff:64", Noise::default()),
        given("rbf", Noise::Shared),
    ];
    for recipe in recipes {
        let (_, told, _) = watched(&friedman(550, 0.0, 6), &recipe, |_| false);
        let mut is_learning = false;
        let (mut stages, mut most) = (0, 0.0f64);
        let mut shares: Vec<f64> = Vec::new();
        for told in &told {
            match told {
                Told::Stage(stage) => {
                    shares.clear();
                    is_learning = matches!(stage, Stage::Learning { .. });
                    stages += usize::from(is_learning);
                }
                Told::Share(share) => {
                    assert!(is_learning && (0.0..=1.0).contains(share));
                    let is_more = shares.last().is_none_or(|last| last < share);
                    assert!(is_more, "{:?}: {share} after {shares:?}", recipe.features());
                    shares.push(*share);
                    most = most.max(*share);
                }
                Told::Iteration => assert!(!is_learning),
            }
        }
        assert!(stages > 0 && most > 0.4, "{:?}: {stages} stages, at most {most}", recipe.features());
    }
}

/// The time is that of all candidates, not of the last fit.
#[test]
fn elapsed_time_is_the_whole_time() {
    let rows = waves(300, 2.0, 0);
    let started = std::time::Instant::now();
    let regression = rows.fit(&Recipe::default());
    let whole = started.elapsed();
    let last = regression.model().outcome().elapsed;
    assert_eq!(regression.features(), kind("smooth"));
    assert!(regression.elapsed() >= last.mul_f64(1.5), "{:?} {last:?}", regression.elapsed());
    assert!(regression.elapsed() <= whole);
    assert!(
        regression.elapsed() + Duration::from_millis(50) >= whole.mul_f64(0.8),
        "{:?} {whole:?}",
        regression.elapsed()
    );
    assert_eq!(regression.choosing_time() + regression.fitting_time(), regression.elapsed());
    assert_eq!(regression.fitting_time(), last);
    let given = rows.fit(&given("linear", Noise::Shared));
    assert!(given.elapsed() >= given.model().outcome().elapsed);
    assert!(given.choosing_time().is_zero(), "nothing was chosen");
}
