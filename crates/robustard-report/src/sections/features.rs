//! What matters?

use robustard::FeatureSummary;
use robustard::features::FeatureMap;
use robustard_table::ColumnKind;

use super::{Detail, Section};
use crate::chart::{Axis, Chart, Layer, Mark, Tone};
use crate::words::{clipped, counted, short};
use crate::{LONGEST_NAME, View};

/// Features drawn.
const MOST_DRAWN: usize = 30;
/// Features listed.
const MOST_LISTED: usize = 200;
/// A normal variable is within so many standard deviations 95 times of 100.
const NORMAL_95: f64 = 1.959_963_984_540_054;

pub fn section(view: &View<'_>) -> Section {
    let design = view.regression.design();
    let summaries = view.regression.feature_summaries().into_iter().map(|mut feature| {
        feature.name = clipped(&feature.name, LONGEST_NAME);
        feature
    });
    let (mut kept, left_out): (Vec<FeatureSummary>, Vec<FeatureSummary>) = summaries.partition(|feature| feature.kept);
    let all = kept.len() + left_out.len();
    let unit = match design.map() {
        FeatureMap::Linear(_) => "The table has the coefficients in the units of the data.",
        map if map.bends().is_some() => {
            "The fit is a curve: lines, whose coefficients are in the units of the data, and bends. Relevance is the mean \
             squared slope of both along a column."
        }
        _ => "Coefficients are per feature, not per column: predictions say more than they do.",
    };
    // A level of a category stands against the intercept and the other levels: its own error says little.
    let levels: Vec<String> = category_levels(view);
    let is_clear = |feature: &&FeatureSummary| {
        feature.coefficient.abs() > NORMAL_95 * feature.standard_error && !levels.contains(&feature.name)
    };
    let categories = if kept.iter().any(|feature| levels.contains(&feature.name)) {
        " Levels of a category are to be compared with each other; their errors hold that of the intercept."
    } else {
        ""
    };
    // The line of a curve is only a part of its effect: the most relevant are named instead.
    let most: Vec<&str> = kept.iter().take(3).map(|feature| feature.name.as_str()).collect();
    let clear = kept.iter().filter(is_clear).count();
    let first: Vec<&str> = kept.iter().filter(is_clear).take(3).map(|feature| feature.name.as_str()).collect();
    let answer = if kept.is_empty() {
        "None of the features: the best prediction is one number for all rows.".to_owned()
    } else {
        let rest = match left_out.len() {
            0 => String::new(),
            1 => " One does not matter and is left out.".to_owned(),
            count => format!(" {count} do not matter and are left out."),
        };
        let clear = match clear {
            _ if design.map().bends().is_some() => format!("most relevant: {}", most.join(", ")),
            0 => "none has an effect that is clearly not zero".to_owned(),
            1 => format!("one has an effect that is clearly not zero: {}", first.join(", ")),
            count if count <= first.len() => {
                format!("{count} have an effect that is clearly not zero: {}", first.join(", "))
            }
            count => format!("{count} have an effect that is clearly not zero, first of all {}", first.join(", ")),
        };
        let are = if all == 1 { "is" } else { "are" };
        format!("{} of {} {are} kept; {clear}.{rest} {unit}{categories}", kept.len(), counted(all, "feature"))
    };
    let count = kept.len();
    let charts = if count == 0 { Vec::new() } else { vec![effects(view, count)] };
    let more = count.saturating_sub(MOST_LISTED);
    kept.truncate(MOST_LISTED);
    let left_out = left_out.into_iter().map(|feature| feature.name).collect();
    let intercept = (design.is_linear() && design.has_intercept()).then(|| view.regression.intercept());
    Section {
        id: "features",
        question: "What matters?",
        answer,
        tiles: Vec::new(),
        charts,
        detail: Detail::Features { kept, more, left_out, intercept },
    }
}

/// Names of the columns that stand for levels of categories.
fn category_levels(view: &View<'_>) -> Vec<String> {
    let columns = &view.model.encoder().columns;
    let levels = columns.iter().filter_map(|column| match &column.kind {
        ColumnKind::Category { levels } => Some(levels.iter().map(|level| format!("{}={level}", column.name))),
        _ => None,
    });
    levels.flatten().map(|name| clipped(&name, LONGEST_NAME)).collect()
}

/// Effects of one standard deviation of each feature, so that features of different units can be compared.
fn effects(view: &View<'_>, kept: usize) -> Chart {
    let regression = view.regression;
    let target = regression.design().target().formula(&view.target);
    let names = &view.features;
    let (design, model) = (regression.design(), regression.model());
    let is_active = model.is_active();
    let mut columns: Vec<usize> =
        (0..design.telling_features()).filter(|&j| design.of_features(&is_active)[j]).collect();
    let relevances = regression.relevances();
    columns.sort_by(|&a, &b| relevances[b].total_cmp(&relevances[a]));
    columns.truncate(MOST_DRAWN);
    // The first is drawn at the top.
    columns.reverse();
    let is_linear = design.map().bends().is_none();
    let [effects, errors] = [model.coefficients(), model.standard_errors()].map(|values| design.per_deviation(values));
    let (effect, error) = (|j: usize| effects[j], |j: usize| NORMAL_95 * errors[j]);
    let text = columns.iter().map(|&j| format!("{}: {} ± {}", names[j], short(effect(j)), short(error(j)))).collect();
    let categories: Vec<String> = columns.iter().map(|&j| names[j].clone()).collect();
    let per = if regression.recipe().standardize() { "per standard deviation" } else { "per unit" };
    let cut =
        if kept > MOST_DRAWN { format!(" The {MOST_DRAWN} most relevant of {kept} are drawn.") } else { String::new() };
    let places = || (0..columns.len()).map(|place| place as f64);
    let [bottom, top] = [-0.5, columns.len() as f64 - 0.5];
    Chart {
        id: "features",
        title: if is_linear { "Effect of each feature" } else { "Linear part of the effect of each feature" }
            .to_owned(),
        explanation: format!(
            "Change of {target} {per} of the feature, others held fixed, with 95% intervals; most relevant at the top. \
             An interval that holds 0 means the sign is not certain.{cut}"
        ),
        x: Axis::new(format!("effect on {target}")),
        y: Axis::categories("", categories),
        layers: vec![
            Layer::guide(None, [0.0, 0.0], [bottom, top]),
            Layer {
                name: None,
                tone: Tone::Model,
                mark: Mark::Intervals {
                    x: columns.iter().map(|&j| effect(j)).collect(),
                    error: columns.iter().map(|&j| error(j)).collect(),
                    y: places().collect(),
                    text,
                },
            },
        ],
    }
}
