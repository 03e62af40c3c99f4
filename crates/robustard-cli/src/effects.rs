//! `robustard effects`, and the lines of a summary about columns.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use robustard::{Collinear, ColumnEffect, ColumnValue, Effects, Standing};
use robustard_report::{effect_words, short};
use robustard_table::{Table, TableModel, is_stdout, load_model};

use crate::colour::say;
use crate::output::{Plan, existing, write_table};
use crate::text::{bar, clipped, padded, wrapped};
use crate::{Ending, Outcome, Usage};

/// Columns shown in a summary.
const MOST_COLUMNS: usize = 15;
/// Names in a list.
const MOST_NAMES: usize = 12;
/// Pairs shown in a summary, each with at least this importance.
const MOST_PAIRS: usize = 3;
const LEAST_PAIR: f64 = 0.01;
/// Standard errors of a 95% interval.
const NORMAL_95: f64 = 1.96;

/// Options of `effects`.
#[derive(Args)]
#[command(after_help = "Examples:
  robustard effects houses.model -o effects.csv
  robustard effects houses.model --column area --column city
  robustard effects houses.model --of columns")]
pub struct EffectsCommand {
    /// A model file, written by `robustard fit -o`
    model: PathBuf,
    /// Only this column (repeat for more)
    #[arg(long, value_name = "COL")]
    column: Vec<String>,
    /// What is written: how each value of a column acts, how much each column matters, or what pairs of columns do together
    #[arg(long, value_enum, default_value_t = What::Values)]
    of: What,
    /// Where to write it; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Print errors only
    #[arg(long)]
    quiet: bool,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Values,
    Columns,
    Pairs,
}

impl EffectsCommand {
    /// Works out the effects and writes them.
    pub fn run(&self) -> Outcome<Ending> {
        Plan::new(self.force).writes([&self.output]).keeps("the model", [&self.model]).check()?;
        let model = load_model(&self.model)?;
        let effects = model.regression().effects();
        let names: Vec<&str> = effects.columns.iter().map(|column| column.name.as_str()).collect();
        if let Some(unknown) = self.column.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(Usage(format!("the model has no column '{unknown}'; it has {}", names.join(", "))).into());
        }
        let is_wanted = |column: usize| self.column.is_empty() || self.column.iter().any(|name| name == names[column]);
        let wanted: Vec<usize> = effects.ranking().into_iter().filter(|&column| is_wanted(column)).collect();
        let table = match self.of {
            What::Values => value_table(effects, &wanted),
            What::Columns => column_table(effects, &wanted),
            What::Pairs => pair_table(effects, is_wanted),
        };
        write_table(&table, &self.output, existing(self.force))?;
        if !self.quiet && !is_stdout(&self.output) {
            say(&format!("wrote effects to {}", self.output.display()));
        }
        Ok(Ending::Done)
    }
}

fn value_text(value: &ColumnValue) -> Option<String> {
    match value {
        ColumnValue::Number(number) => Some(number.to_string()),
        ColumnValue::Level(level) => Some(level.clone()),
        ColumnValue::Missing => None,
    }
}

fn column_of_texts<'t>(texts: impl Iterator<Item = &'t str>) -> robustard_table::ArrayRef {
    Table::text_column(texts.map(|text| Some(text.to_owned())))
}

/// One line for each value of each column, most important columns first.
fn value_table(effects: &Effects, wanted: &[usize]) -> Table {
    let points: Vec<_> = wanted
        .iter()
        .flat_map(|&column| effects.columns[column].points.iter().map(move |point| (column, point)))
        .collect();
    let of = |value: &dyn Fn(&robustard::EffectPoint) -> f64| {
        Table::number_column(points.iter().map(|(_, point)| value(point)))
    };
    Table::from_columns(vec![
        ("column".to_owned(), column_of_texts(points.iter().map(|(c, _)| effects.columns[*c].name.as_str()))),
        ("value".to_owned(), Table::settled_column(points.iter().map(|(_, point)| value_text(&point.value)))),
        ("effect".to_owned(), of(&|point| point.effect)),
        ("standard_error".to_owned(), of(&|point| point.error)),
        ("lower".to_owned(), of(&|point| point.effect - NORMAL_95 * point.error)),
        ("upper".to_owned(), of(&|point| point.effect + NORMAL_95 * point.error)),
        ("share_of_rows".to_owned(), of(&|point| point.weight)),
    ])
}

/// One line for each column.
fn column_table(effects: &Effects, wanted: &[usize]) -> Table {
    let columns: Vec<&ColumnEffect> = wanted.iter().map(|&column| &effects.columns[column]).collect();
    let of = |value: fn(&ColumnEffect) -> f64| Table::number_column(columns.iter().map(|column| value(column)));
    Table::from_columns(vec![
        ("column".to_owned(), column_of_texts(columns.iter().map(|column| column.name.as_str()))),
        ("importance".to_owned(), of(|column| column.importance)),
        ("loss".to_owned(), of(|column| column.loss)),
        ("loss_error".to_owned(), of(|column| column.loss_error)),
        ("loss_by_chance".to_owned(), of(|column| column.loss_by_chance)),
        ("interacting".to_owned(), of(|column| column.interacting)),
        ("direction".to_owned(), of(|column| column.direction)),
        ("standing".to_owned(), column_of_texts(columns.iter().map(|column| standing_word(column.standing)))),
    ])
}

fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::Clear => "clear",
        Standing::Unclear => "unclear",
        Standing::Dropped => "dropped",
    }
}

/// One line for each pair of values of the strongest pairs of columns.
fn pair_table(effects: &Effects, is_wanted: impl Fn(usize) -> bool) -> Table {
    let name = |column: usize| effects.columns[column].name.clone();
    let mut lines = Vec::new();
    for pair in effects.interactions.iter().filter(|pair| pair.columns.iter().any(|&column| is_wanted(column))) {
        for (a, row) in pair.effect.iter().enumerate() {
            lines.extend(row.iter().enumerate().map(|(b, effect)| (pair, a, b, *effect)));
        }
    }
    let text = |place: usize| Table::text_column(lines.iter().map(|(pair, ..)| Some(name(pair.columns[place]))));
    let value = |place: usize| {
        let value = |(pair, a, b, _): &(&robustard::Interaction, usize, usize, f64)| {
            value_text(&pair.values[place][if place == 0 { *a } else { *b }])
        };
        Table::settled_column(lines.iter().map(value))
    };
    Table::from_columns(vec![
        ("column".to_owned(), text(0)),
        ("value".to_owned(), value(0)),
        ("other_column".to_owned(), text(1)),
        ("other_value".to_owned(), value(1)),
        ("effect".to_owned(), Table::number_column(lines.iter().map(|(.., effect)| *effect))),
        ("share".to_owned(), Table::number_column(lines.iter().map(|(pair, ..)| pair.share))),
    ])
}

/// What matters, as lines of a summary.
pub fn what_matters(out: &mut String, model: &TableModel) -> Outcome<()> {
    const BAR: usize = 6;
    let regression = model.regression();
    let effects = regression.effects();
    let ranking = effects.ranking();
    let is = |standing: Standing| -> Vec<usize> {
        ranking.iter().copied().filter(|&column| effects.columns[column].standing == standing).collect()
    };
    let (clear, unclear, mut dropped) = (is(Standing::Clear), is(Standing::Unclear), is(Standing::Dropped));
    let all_dropped = dropped.clone();
    // Of collinear columns one may carry the effect of all.
    dropped.retain(|column| !effects.collinear.iter().any(|group| group.columns.contains(column)));
    let columns = effects.columns.len();
    writeln!(out, "Columns  {} of {columns} clearly matter", clear.len())?;
    let is_shown = |column: &usize| !all_dropped.contains(column) && (clear.is_empty() || clear.contains(column));
    let shown: Vec<usize> = ranking.iter().copied().filter(is_shown).take(MOST_COLUMNS).collect();
    if !shown.is_empty() {
        writeln!(out, "         {:<16} importance  R² lost (by chance)      effect", "")?;
    }
    let largest = ranking.first().map_or(0.0, |&first| effects.columns[first].importance);
    for &column in &shown {
        let effect = &effects.columns[column];
        let bar = bar(effect.importance / largest, BAR);
        let (loss, by_chance) = (format!("{:.3}", effect.loss), format!("({:.3})", effect.loss_by_chance));
        let words = match coefficient(model, column) {
            Some([value, error]) => format!("{} ± {}", short(value), two_digits(error)),
            None => effect_words(effect),
        };
        writeln!(
            out,
            "         {} {:>7.1}%  {loss:>7} {by_chance:<9} {} {}",
            padded(&effect.name, 18),
            100.0 * effect.importance,
            padded(&bar, BAR),
            clipped(&words, 23)
        )?;
    }
    if clear.len() > shown.len() && !clear.is_empty() {
        writeln!(out, "         and {} more: robustard effects MODEL --of columns", clear.len() - shown.len())?;
    }
    let design = regression.design();
    if design.is_linear() && design.has_intercept() {
        writeln!(out, "         effects are coefficients, the intercept is {}", short(regression.intercept()))?;
    }
    let names = |columns: &[usize]| -> String {
        let names = columns.iter().map(|&column| clipped(&effects.columns[column].name, 30));
        let names: Vec<String> = names.take(MOST_NAMES).collect();
        let more = columns.len() - names.len();
        names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    };
    for (columns, what) in [(&unclear, "not clear"), (&dropped, "no effect at all")] {
        // Where no column is clear, the others are listed above.
        let is_listed = what == "not clear" && clear.is_empty();
        if !columns.is_empty() && !is_listed {
            let words = format!("{what}: {}", names(columns));
            wrapped(&words, 69).iter().try_for_each(|line| writeln!(out, "         {line}"))?;
        }
    }
    for Collinear { columns, loss, loss_by_chance, .. } in &effects.collinear {
        let words =
            format!("collinear: {}; R² lost without all of them {loss:.3} ({loss_by_chance:.3})", names(columns));
        wrapped(&words, 69).iter().try_for_each(|line| writeln!(out, "         {line}"))?;
    }
    for pair in effects.interactions.iter().filter(|pair| pair.share >= LEAST_PAIR).take(MOST_PAIRS) {
        let [a, b] = pair.columns.map(|column| clipped(&effects.columns[column].name, 22));
        writeln!(out, "         {a} and {b} interact (importance {:.1}%, part of both)", 100.0 * pair.share)?;
    }
    Ok(())
}

/// A standard error: more than two digits of it say nothing.
fn two_digits(value: f64) -> String {
    format!("{value:.1e}").parse().map_or_else(|_| value.to_string(), short)
}

/// Coefficient and standard error of a column, if it is one number in a linear model of the target itself.
fn coefficient(model: &TableModel, column: usize) -> Option<[f64; 2]> {
    let design = model.regression().design();
    let inputs = &model.encoder().input_columns()[column].inputs;
    let &[input] = &inputs[..] else { return None };
    design.is_linear().then(|| {
        let feature = &model.regression().features_in_units()[input];
        [feature.coefficient, feature.standard_error]
    })
}
