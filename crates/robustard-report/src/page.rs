//! The page. Every value from the data goes through maud's escaping, or as JSON into a block that is not run; a content
//! security policy forbids the network and every script but the two that are part of this program.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use robustard::FeatureSummary;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Report;
use crate::chart::Chart;
use crate::rows::RowList;
use crate::sections::{Detail, Section};
use crate::words::{counted, short};

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
    let charts = report.sections.iter().flat_map(|section| &section.charts).collect();
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
    page.into_string()
}

/// JSON without any `<`, so that nothing in it can end the block.
fn inert_json(data: &impl Serialize) -> String {
    // Numbers and text always have a JSON form.
    serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c").replace("\u{2028}", "\\u2028")
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
            p.answer { (section.answer) }
            @if !section.tiles.is_empty() {
                div.tiles { @for tile in &section.tiles { div.tile { strong { (tile.value) } span { (tile.label) } } } }
            }
            @if matches!(section.detail, Detail::Rows) { (render_rows(rows)) }
            div.charts { @for chart in &section.charts { (render_chart(chart)) } }
            @match &section.detail {
                Detail::Features { kept, more, left_out, intercept } => (render_features(kept, *more, left_out, *intercept)),
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

fn render_chart(chart: &Chart) -> Markup {
    html! {
        figure {
            h3 { (chart.title) }
            div.chart id={ "chart-" (chart.id) } data-chart=(chart.id) role="img" aria-label=(chart.title) {}
            figcaption { (chart.explanation) }
        }
    }
}

fn render_features(kept: &[FeatureSummary], more: usize, left_out: &[String], intercept: Option<f64>) -> Markup {
    // The square root, as on the terminal: a weak feature should still be seen.
    let width = |relevance: f64| format!("width:{:.1}rem", 7.0 * relevance.sqrt().clamp(0.02, 1.0));
    html! {
        @if !kept.is_empty() {
            div.scroll {
                table.features {
                    thead { tr { th { "feature" } th.number { "coefficient" } th.number { "± s.e." } th { "relevance" } } }
                    tbody {
                        @for feature in kept {
                            tr {
                                td { (feature.name) }
                                td.number { (short(feature.coefficient)) }
                                td.number { (short(feature.standard_error)) }
                                td { span.bar style=(width(feature.relevance)) {} }
                            }
                        }
                        @if let Some(intercept) = intercept {
                            tr { td { "(intercept)" } td.number { (short(intercept)) } td {} td {} }
                        }
                    }
                }
            }
        }
        @if more > 0 { p.note { "and " (more) " more, of less relevance" } }
        @if !left_out.is_empty() {
            details { summary { "Left out: " (counted(left_out.len(), "feature")) } p.note { (left_out.join(", ")) } }
        }
    }
}

fn render_rows(rows: &RowList) -> Markup {
    html! {
        div.controls {
            label { input #flagged type="checkbox" checked[rows.flagged > 0]; " flagged only" }
            label { "at least " input #threshold type="number" min="0" step="0.5" value="0"; " standard deviations off" }
            label { "containing " input #search type="search" placeholder="text"; }
            button #download type="button" { "Download as CSV" }
            span #count aria-live="polite" {}
        }
        div.scroll { table #suspicious { thead {} tbody {} } }
        button #more type="button" hidden { "Show more" }
        @if rows.original.len() < rows.flagged {
            p.note { "Original values are kept for the first " (rows.original.len()) " rows only, to keep this page small." }
        }
        @if rows.is_sample() {
            p.note { "The table holds every flagged row and a sample of the others: " (rows.row.len()) " of " (rows.total) "." }
        }
    }
}
