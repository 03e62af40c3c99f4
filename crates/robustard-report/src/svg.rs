//! Charts as SVG, for papers and slides.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;

use crate::chart::{Axis, Chart, Layer, Mark, Tone};
use crate::rows::RowList;
use crate::words::{clipped, short};

const SIZE: (u32, u32) = (720, 480);
/// Height of a line of a chart with named places, and of all that is around the lines.
const CATEGORY_HEIGHT: u32 = 22;
const FRAME_HEIGHT: u32 = 100;
const FONT: &str = "sans-serif";
/// Share of the range left free on either side.
const MARGIN: f64 = 0.03;
/// Pixels of a letter, about, to make room for names.
const LETTER: u32 = 7;
const LONGEST_NAME: usize = 40;
const LEGEND_HEIGHT: u32 = 18;
const LEGEND_LEFT: i32 = 84;

type Failure = Box<dyn std::error::Error>;

/// Draws a chart; `rows` are those it may refer to.
pub fn draw(chart: &Chart, rows: &RowList) -> String {
    let names = chart.y.categories.len() as u32;
    let height = if names > 0 { SIZE.1.min(FRAME_HEIGHT + CATEGORY_HEIGHT * names.max(3)).max(220) } else { SIZE.1 };
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, (SIZE.0, height)).into_drawing_area();
    // Writing to a string does not fail, and a chart without points is still a chart.
    let drawn = draw_on(&root, chart, rows);
    drop(root);
    debug_assert!(drawn.is_ok(), "{drawn:?}");
    text
}

/// Places on an axis: the value, or its logarithm; none where it cannot be drawn.
fn place(axis: &Axis, value: f64) -> Option<f64> {
    let value = if axis.log { value.log10() } else { value };
    value.is_finite().then_some(value)
}

/// Points as drawn.
fn points(chart: &Chart, x: &[f64], y: &[f64]) -> Vec<Option<(f64, f64)>> {
    x.iter().zip(y).map(|(&x, &y)| Some((place(&chart.x, x)?, place(&chart.y, y)?))).collect()
}

/// All points of a layer, for the ranges of the axes.
fn extent(chart: &Chart, layer: &Layer, rows: &RowList) -> Vec<(f64, f64)> {
    let found = match &layer.mark {
        Mark::Rows { x, y } => points(chart, rows.field(*x), rows.field(*y)),
        Mark::Line { x, y, .. } => points(chart, &x.0, &y.0),
        Mark::Band { x, lower, upper } => [points(chart, &x.0, &lower.0), points(chart, &x.0, &upper.0)].concat(),
        Mark::Rug { x, y } => points(chart, &x.0, &vec![*y; x.0.len()]),
        Mark::Intervals { x, error, y, .. } => {
            let end = |sign: f64| -> Vec<f64> { x.0.iter().zip(&error.0).map(|(x, e)| x + sign * e).collect() };
            [points(chart, &end(-1.0), &y.0), points(chart, &end(1.0), &y.0)].concat()
        }
    };
    found.into_iter().flatten().collect()
}

fn padded(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let [low, high] = [values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max)];
    if low > high {
        return 0.0..1.0;
    }
    // Half first: a range of two huge numbers may not be finite.
    let half = (0.5 * high - 0.5 * low).max(1e-9 * (1.0 + low.abs().min(high.abs())));
    let (low, high) = (low - 2.0 * MARGIN * half, high + 2.0 * MARGIN * half);
    if low < high && (high - low).is_finite() { low..high } else { 0.0..1.0 }
}

fn colour(tone: Tone) -> RGBColor {
    match tone {
        Tone::Model => RGBColor(31, 98, 173),
        Tone::Other => RGBColor(217, 119, 6),
        Tone::Flagged => RGBColor(200, 30, 60),
        Tone::Muted => RGBColor(150, 158, 170),
        Tone::Guide => RGBColor(90, 98, 110),
    }
}

/// An entry of the legend.
struct Entry<'a> {
    name: &'a str,
    colour: RGBColor,
    is_line: bool,
}

fn legend<'a>(chart: &'a Chart, rows: &RowList) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for layer in &chart.layers {
        match (&layer.mark, &layer.name) {
            (Mark::Rows { .. }, _) if rows.flagged > 0 => {
                entries.push(Entry { name: "flagged", colour: colour(Tone::Flagged), is_line: false });
                entries.push(Entry { name: "not flagged", colour: colour(Tone::Model), is_line: false });
            }
            (mark, Some(name)) => {
                let is_line = matches!(mark, Mark::Line { .. });
                entries.push(Entry { name, colour: colour(layer.tone), is_line });
            }
            _ => {}
        }
    }
    entries
}

fn draw_legend(area: &DrawingArea<SVGBackend<'_>, Shift>, entries: &[Entry<'_>]) -> Result<(), Failure> {
    let mut left = LEGEND_LEFT;
    for entry in entries {
        let middle = 8;
        if entry.is_line {
            area.draw(&PathElement::new(vec![(left, middle), (left + 18, middle)], entry.colour.stroke_width(2)))?;
        } else {
            area.draw(&Circle::new((left + 9, middle), 4, entry.colour.filled()))?;
        }
        area.draw(&Text::new(entry.name.to_owned(), (left + 24, 2), (FONT, 12)))?;
        left += 44 + (LETTER * entry.name.chars().count() as u32) as i32;
    }
    Ok(())
}

/// Round numbers for the labels of an axis: places and what stands there.
fn ticks(axis: &Axis, range: &std::ops::Range<f64>) -> Vec<f64> {
    const WANTED: f64 = 7.0;
    let span = range.end - range.start;
    if !axis.categories.is_empty() {
        return (0..axis.categories.len()).map(|place| place as f64).collect();
    }
    if axis.log && span < WANTED {
        // Few decades: 1, 2 and 5 of each; else the decades alone.
        let digits: &[f64] = if span < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = range.start.floor() as i32..=range.end.ceil() as i32;
        let places: Vec<f64> =
            decades.flat_map(|decade| digits.iter().map(move |digit| f64::from(decade) + digit.log10())).collect();
        let inside: Vec<f64> = places.into_iter().filter(|place| range.contains(place)).collect();
        if inside.len() > 1 {
            return inside;
        }
    }
    let raw = span / WANTED;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * unit).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    // Whole decades only.
    let step = if axis.log { step.ceil() } else { step };
    let first = (range.start / step).ceil();
    (0..2 * WANTED as usize).map(|k| (first + k as f64) * step).take_while(|place| *place <= range.end).collect()
}

fn label(axis: &Axis, place: f64) -> String {
    match axis.categories.get(place.round().max(0.0) as usize) {
        Some(name) => clipped(name, LONGEST_NAME),
        None if axis.log => short(10f64.powf(place)),
        // A step of 0.1 leaves 0.30000000000000004, and something next to 0 where 0 should be.
        None => short(if place.abs() < 1e-12 { 0.0 } else { place }),
    }
}

/// An axis as plotters takes it.
#[derive(Clone)]
struct Scale {
    range: std::ops::Range<f64>,
    ticks: Vec<f64>,
    axis: Axis,
}

impl Scale {
    fn new(axis: &Axis, range: std::ops::Range<f64>) -> Self {
        Self { ticks: ticks(axis, &range), axis: axis.clone(), range }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (place - self.range.start) / (self.range.end - self.range.start);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, place: &f64) -> String {
        label(&self.axis, *place)
    }
}

fn draw_on(root: &DrawingArea<SVGBackend<'_>, Shift>, chart: &Chart, rows: &RowList) -> Result<(), Failure> {
    root.fill(&WHITE)?;
    let area = root.titled(&chart.title, (FONT, 18))?;
    let entries = legend(chart, rows);
    let (above, area) = area.split_vertically(if entries.is_empty() { 0 } else { LEGEND_HEIGHT });
    draw_legend(&above, &entries)?;

    let all: Vec<(f64, f64)> = chart.layers.iter().flat_map(|layer| extent(chart, layer, rows)).collect();
    let x_range = padded(all.iter().map(|point| point.0));
    let names = &chart.y.categories;
    let y_range =
        if names.is_empty() { padded(all.iter().map(|point| point.1)) } else { -0.5..names.len() as f64 - 0.5 };
    let longest = names.iter().map(|name| name.chars().count().min(LONGEST_NAME)).max().unwrap_or(0) as u32;
    let mut context = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(if names.is_empty() { 70 } else { 20 + LETTER * longest })
        .build_cartesian_2d(Scale::new(&chart.x, x_range), Scale::new(&chart.y, y_range))?;
    context
        .configure_mesh()
        .x_desc(clipped(&chart.x.label, LONGEST_NAME))
        .y_desc(clipped(&chart.y.label, LONGEST_NAME))
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(228, 231, 236))
        .axis_style(RGBColor(120, 128, 140))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;

    for layer in &chart.layers {
        let ink = colour(layer.tone);
        match &layer.mark {
            Mark::Rows { x, y } => {
                let all = points(chart, rows.field(*x), rows.field(*y));
                let (flagged, others) = all.split_at(rows.flagged.min(all.len()));
                let dots = |part: &[Option<(f64, f64)>], size: i32, style: ShapeStyle| -> Vec<_> {
                    part.iter().flatten().map(|&point| Circle::new(point, size, style)).collect()
                };
                context.draw_series(dots(others, 2, colour(Tone::Model).mix(0.45).filled()))?;
                let flagged = &flagged[..rows.flagged_drawn.min(flagged.len())];
                context.draw_series(dots(flagged, 3, colour(Tone::Flagged).filled()))?;
            }
            Mark::Line { x, y, dashed, .. } => {
                let style = ink.stroke_width(if layer.tone == Tone::Muted { 1 } else { 2 });
                for part in points(chart, &x.0, &y.0).split(Option::is_none).filter(|part| !part.is_empty()) {
                    let part: Vec<(f64, f64)> = part.iter().flatten().copied().collect();
                    if *dashed {
                        context.draw_series(DashedLineSeries::new(part, 5, 4, ink.stroke_width(1)))?;
                    } else if part.len() == 1 {
                        context.draw_series([Circle::new(part[0], 2, ink.filled())])?;
                    } else {
                        context.draw_series(LineSeries::new(part, style))?;
                    }
                }
            }
            Mark::Band { x, lower, upper } => {
                let below: Vec<(f64, f64)> = points(chart, &x.0, &lower.0).into_iter().flatten().collect();
                let above = points(chart, &x.0, &upper.0).into_iter().flatten();
                let outline: Vec<(f64, f64)> = above.chain(below.into_iter().rev()).collect();
                context.draw_series([Polygon::new(outline, ink.mix(0.16).filled())])?;
            }
            Mark::Rug { x, y } => {
                let ticks = points(chart, &x.0, &vec![*y; x.0.len()]).into_iter().flatten();
                context.draw_series(ticks.map(|point| Circle::new(point, 1, ink.mix(0.5).filled())))?;
            }
            Mark::Intervals { x, error, y, .. } => {
                for ((&x, &error), &y) in x.0.iter().zip(&error.0).zip(&y.0) {
                    if x.is_finite() && error.is_finite() {
                        let bar = vec![(x - error, y), (x + error, y)];
                        context.draw_series([PathElement::new(bar, ink.stroke_width(2))])?;
                        context.draw_series([Circle::new((x, y), 4, ink.filled())])?;
                    }
                }
            }
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_round_numbers() {
        let linear = Axis::new("");
        let of = |axis: &Axis, range: std::ops::Range<f64>| -> Vec<String> {
            ticks(axis, &range).into_iter().map(|place| label(axis, place)).collect()
        };
        assert_eq!(of(&linear, -0.13..0.62), ["0", "0.2", "0.4", "0.6"]);
        assert_eq!(of(&linear, -1e150..1e150).len(), 5);
        assert_eq!(of(&Axis::log(""), -0.1..1.1), ["1", "2", "5", "10"]);
        assert_eq!(of(&Axis::log(""), -4.1..0.2), ["0.0001", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(of(&Axis::log(""), -30.0..0.2).len(), 7);
        let names = Axis::categories("", vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(of(&names, -0.5..1.5), ["a", "b"]);
    }
}
