//! Pieces of figures.

use std::fmt::Write;

use robustard_report::chart::{Layer, Mark, Numbers, Tone};

use crate::results::Summary;

/// A curve of means with, if wanted, a band of one standard deviation.
pub(super) fn band(name: &str, tone: Tone, x: &[f64], y: &[Option<Summary>], with_band: bool) -> Vec<Layer> {
    let there: Vec<(f64, Summary)> = x.iter().zip(y).filter_map(|(x, y)| Some((*x, (*y)?))).collect();
    if there.is_empty() {
        return Vec::new();
    }
    let end = |sign: f64| -> Numbers { there.iter().map(|(_, y)| y.mean + sign * y.deviation).collect() };
    let x: Vec<f64> = there.iter().map(|(x, _)| *x).collect();
    let line = Layer::line(Some(name), tone, x.iter().copied(), there.iter().map(|(_, y)| y.mean));
    let mark = Mark::Band { x: Numbers(x), lower: end(-1.0), upper: end(1.0) };
    let band = Layer { name: None, tone, mark };
    if with_band { vec![band, line] } else { vec![line] }
}

/// Points.
pub(super) fn dots(name: &str, tone: Tone, points: impl Iterator<Item = (f64, f64)>) -> Layer {
    // A line that ends after every point.
    let apart: Vec<(f64, f64)> = points.flat_map(|point| [point, (f64::NAN, f64::NAN)]).collect();
    Layer::line(Some(name), tone, apart.iter().map(|point| point.0), apart.iter().map(|point| point.1))
}

/// A table of colours: values from 0 (white) to 1 (blue), with the value in each cell.
pub(super) fn heatmap(
    title: &str,
    [x_label, y_label]: [&str; 2],
    x: &[String],
    y: &[String],
    value: impl Fn(usize, usize) -> Option<f64>,
) -> String {
    const CELL: usize = 56;
    const LEFT: usize = 90;
    const TOP: usize = 40;
    let (width, height) = (LEFT + CELL * x.len() + 20, TOP + CELL * y.len() + 60);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"13\" text-anchor=\"middle\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{}\" y=\"24\" font-size=\"16\">{title}</text>\n",
        width / 2
    );
    for (row, name) in y.iter().enumerate() {
        let top = TOP + CELL * row;
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", LEFT - 28, top + CELL / 2 + 5);
        for column in 0..x.len() {
            let Some(value) = value(column, row) else { continue };
            let share = value.clamp(0.0, 1.0);
            let shade = |full: f64| (255.0 + share * (full - 255.0)).round();
            let ink = if share > 0.6 { "white" } else { "black" };
            let left = LEFT + CELL * column;
            let _ = writeln!(
                svg,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"rgb({},{},{})\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{}\" fill=\"{ink}\">{value:.2}</text>",
                shade(31.0),
                shade(98.0),
                shade(173.0),
                left + CELL / 2,
                top + CELL / 2 + 5
            );
        }
    }
    let bottom = TOP + CELL * y.len();
    for (column, name) in x.iter().enumerate() {
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", LEFT + CELL * column + CELL / 2, bottom + 20);
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{x_label}</text>", LEFT + CELL * x.len() / 2, bottom + 44);
    let middle = TOP + CELL * y.len() / 2;
    let _ =
        writeln!(svg, "<text x=\"18\" y=\"{middle}\" transform=\"rotate(-90 18 {middle})\">{y_label}</text>\n</svg>");
    svg
}
