//! The page. Every value from the data goes through maud's escaping, or as JSON into a block that is not run; a content
//! security policy forbids the network and every script but the two that are part of this program.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Report;
use crate::chart::Chart;
use crate::rows::RowList;
use crate::sections::features::{Columns, Pair};
use crate::sections::{Detail, Section};
use crate::visible::{visible, visible_json};
use crate::words::short;

const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");
/// plotly.js 4.1.1, its basic bundle (plotly.js-basic-dist-min), gzipped, MIT licence; see `assets/plotly-LICENSE`.
const PLOTLY_GZIPPED: &[u8] = include_bytes!("../assets/plotly-basic.min.js.gz");

fn plotly() -> String {
    let mut script = String::new();
    let read = GzDecoder::new(PLOTLY_GZIPPED).read_to_string(&mut script);
    read.expect("the script is part of this program");
    script
}

/// What the script draws from.
#[derive(Serialize)]
struct Data<'a> {
    rows: &'a RowList,
    charts: Vec<&'a Chart>,
}

/// The whole page.
pub fn render(report: &Report) -> String {
    let charts = report.sections.iter().flat_map(Section::all_charts).collect();
    let data = Data { rows: &report.rows, charts };
    let plotly = plotly();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy(&plotly));
                meta name="color-scheme" content="light dark";
                title { (report.title) " · robustard" }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.brand { "robustard" button #theme type="button" title="light or dark" { "◐" } }
                    h1 { (report.title) }
                    p.subtitle { (report.subtitle) }
                    @if let Some(warning) = &report.warning { p.warning role="alert" { (warning) } }
                    nav {
                        @for section in &report.sections { a href={ "#" (section.id) } { (section.question) } }
                    }
                }
                main { @for section in &report.sections { (render_section(section, &report.rows)) } }
                footer { p { "Made by robustard " (env!("CARGO_PKG_VERSION")) ". This page is complete in itself; it loads nothing." } }
                noscript { p.warning { "Charts and the table of rows need JavaScript." } }
                script #data type="application/json" { (PreEscaped(inert_json(&data))) }
                script { (PreEscaped(&plotly)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    let page = page.into_string();
    // The scripts after the data stay as they are: the page's policy knows them by their content.
    let scripts = page.find(DATA).and_then(|data| Some(data + page[data..].find("</script>")?));
    let (shown, scripts) = page.split_at(scripts.unwrap_or(page.len()));
    visible(shown) + scripts
}

/// How the block of data begins.
const DATA: &str = "<script id=\"data\"";

/// JSON without any `<`, so that nothing in it can end the block.
fn inert_json(data: &impl Serialize) -> String {
    // Numbers and text always have a JSON form.
    visible_json(&serde_json::to_string(data).unwrap_or_default()).replace('<', "\\u003c")
}

fn policy(plotly: &str) -> String {
    let hash = |script: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script.as_bytes())));
    format!(
        "default-src 'none'; script-src {} {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        hash(plotly),
        hash(SCRIPT)
    )
}

fn render_section(section: &Section, rows: &RowList) -> Markup {
    html! {
        section id=(section.id) {
            h2 { (section.question) }
            @for answer in &section.answer {
                p.answer { @if let Some(label) = answer.label { strong { (label) ": " } } (answer.text) }
            }
            @if !section.tiles.is_empty() {
                div.tiles { @for tile in &section.tiles { div.tile { strong { (tile.value) } span { (tile.label) } } } }
            }
            @if matches!(section.detail, Detail::Rows) { (render_rows(rows)) }
            @if let Detail::Columns(columns) = &section.detail { (render_columns(columns)) }
            (render_charts(&section.charts))
            @if let Detail::Columns(columns) = &section.detail {
                div.pairs { @for pair in &columns.pairs { (render_pair(pair)) } }
            }
            @if !section.more.is_empty() {
                details.more { summary { (more_words(section)) } (render_charts(&section.more)) }
            }
            @match &section.detail {
                Detail::Columns(columns) => (render_coefficients(columns)),
                Detail::Facts(facts) => {
                    details {
                        summary { "Settings and numbers of the fit" }
                        table.facts { @for (name, value) in facts { tr { th scope="row" { (name) } td { (value) } } } }
                    }
                }
                Detail::None | Detail::Rows => {}
            }
        }
    }
}

/// What the summary of further charts says.
fn more_words(section: &Section) -> String {
    let titles: Vec<&str> = section.more.iter().map(|chart| chart.title.as_str()).collect();
    let words = match titles.len() {
        0..=3 => titles.join(", "),
        count => format!("{} and {} more", titles[..2].join(", "), count - 2),
    };
    if matches!(section.detail, Detail::Columns(_)) { format!("Effects of {words}") } else { words }
}

fn render_charts(charts: &[Chart]) -> Markup {
    let is_small = !charts.is_empty() && charts.iter().all(|chart| chart.is_small);
    html! {
        @if !charts.is_empty() {
            div.charts.small[is_small] { @for chart in charts { (render_chart(chart)) } }
        }
    }
}

fn render_chart(chart: &Chart) -> Markup {
    let described = format!("{}. {}", chart.title, chart.explanation);
    html! {
        figure {
            h3 { (chart.title) }
            div.chart id={ "chart-" (chart.id) } data-chart=(chart.id) role="img" aria-label=(described) {}
            figcaption { (chart.explanation) }
        }
    }
}

fn render_columns(columns: &Columns) -> Markup {
    let largest = columns.listed.iter().map(|line| line.importance).fold(f64::MIN_POSITIVE, f64::max);
    let width = |importance: f64| format!("width:{:.1}rem", (7.0 * importance / largest).max(0.1));
    html! {
        @if !columns.listed.is_empty() {
            div.scroll {
                table.features {
                    thead { tr { th { "column" } th { "importance" } th.number { "R² lost without it (by chance)" } th { "effect" } } }
                    tbody {
                        @for line in &columns.listed {
                            tr.unclear[!line.is_clear] {
                                td { (line.name) }
                                td.bars { span.share { (format!("{:.1}%", 100.0 * line.importance)) } span.bar style=(width(line.importance)) {} }
                                td.number { (format!("{:.3} ({:.3})", line.loss[0], line.loss[1])) }
                                td { (line.words) @if !line.is_clear { " (not clear)" } }
                            }
                        }
                    }
                }
            }
        }
        @if columns.more > 0 { p.note { "and " (columns.more) " more that clearly matter" } }
        @if columns.unclear > 0 { p.note { "and " (columns.unclear) " whose effect is not clear" } }
        @if !columns.dropped.is_empty() {
            p.note { "No effect at all: " (columns.dropped.join(", ")) }
        }
    }
}

/// A heat map as a table: what two columns add together.
fn render_pair(pair: &Pair) -> Markup {
    let largest = pair.effect.iter().flatten().map(|value| value.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let colour = |value: f64| {
        let tone = if value > 0.0 { "model" } else { "other" };
        format!("background:color-mix(in srgb, var(--{tone}) {:.0}%, transparent)", 75.0 * value.abs() / largest)
    };
    let [first, second] = &pair.names;
    html! {
        figure.pair {
            h3 { (first) " and " (second) (format!(" (importance {:.1}%, part of both)", 100.0 * pair.share)) }
            div.scroll {
                table.heat {
                    thead { tr { th { (first) " \\ " (second) } @for value in &pair.values[1] { th.number { (value) } } } }
                    tbody {
                        @for (value, row) in pair.values[0].iter().zip(&pair.effect) {
                            tr { th.number scope="row" { (value) } @for effect in row { td.number style=(colour(*effect)) { (two_digits(*effect)) } } }
                        }
                    }
                }
            }
            figcaption { "What the two add together, beyond what each does by itself, in units of the target." }
        }
    }
}

fn two_digits(value: f64) -> String {
    format!("{value:.1e}").parse().map_or_else(|_| value.to_string(), short)
}

fn render_coefficients(columns: &Columns) -> Markup {
    html! {
        @if !columns.coefficients.is_empty() {
            details {
                summary { "Coefficients, in the units of the data" }
                div.scroll {
                    table.coefficients {
                        thead { tr { th { "feature" } th.number { "coefficient" } th.number { "± s.e." } } }
                        tbody {
                            @for feature in &columns.coefficients {
                                tr {
                                    td { (feature.name) }
                                    td.number { (short(feature.coefficient)) }
                                    td.number { (short(feature.standard_error)) }
                                }
                            }
                            @if let Some(intercept) = columns.intercept {
                                tr { td { "(intercept)" } td.number { (short(intercept)) } td {} }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn render_rows(rows: &RowList) -> Markup {
    html! {
        div.controls {
            label { input #flagged type="checkbox" checked[rows.flagged > 0]; " flagged only" }
            label { "at least " input #threshold type="number" min="0" step="0.5" value="0"; " standard deviations" }
            label { "containing " input #search type="search" placeholder="text"; }
            label { input #everything type="checkbox"; " all columns" }
            button #download type="button" { "Download as CSV" }
            span #count aria-live="polite" {}
        }
        div.scroll { table #suspicious { thead {} tbody {} } }
        button #more type="button" hidden { "Show more" }
        @if rows.original.len() < rows.flagged {
            p.note { "Original values are kept for the first " (rows.original.len()) " rows only, to keep this page small." }
        }
        @if rows.is_sample() {
            @let which = if rows.is_of_kept { "the rows that the model keeps" } else { "all" };
            p.note {
                "Of " (which) ", the table holds every flagged row and a sample of the others: " (rows.row.len()) " of " (rows.total) "."
            }
        }
    }
}
