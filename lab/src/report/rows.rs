//! Bar charts: one row per item, with bars or marks on a common axis.

use super::{
    curves::put_key,
    format::{digits, shortened},
    scale::Scale,
    svg::{Canvas, Shape, Width},
};

#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) title: String,
    pub(super) x: (String, Scale),
    pub(super) rules: Vec<(f64, String)>,
    pub(super) legend: Vec<(&'static str, Shape, String)>,
    pub(super) rows: Vec<Row>,
    pub(super) dense: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) heading: Option<String>,
    pub(super) name: String,
    pub(super) marks: Vec<Mark>,
    pub(super) value: String,
    pub(super) note: String,
    pub(super) strong: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) series: String,
    pub(super) class: &'static str,
    /// `None` for a bar from the left.
    pub(super) shape: Option<Shape>,
    pub(super) at: f64,
    /// The line within the row, from 0.
    pub(super) line: usize,
    /// A range drawn through the mark.
    pub(super) whisker: Option<(f64, f64)>,
    pub(super) tip: String,
}

const HEADING: f64 = 30.0;

/// Maximum width of a digit in the figures' fonts.
const DIGIT: f64 = 7.7;

/// Number of rows from which on the axis is also drawn above them, because the lower end is on another
/// screen.
const MANY: usize = 12;

/// Limit on the characters of a row's name, which leaves two thirds of the width to the bars.
const MOST: usize = 40;

struct Layout {
    width: Width,
    left: f64,
    right: f64,
    thick: f64,
    gap: f64,
}

impl Rows {
    pub(super) fn draw(&self, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let y = self.legend(&mut canvas, width);
        let layout = self.layout(width);
        let axis = if self.is_long() { 40.0 } else { 0.0 };
        let top = y + axis + if self.rules.is_empty() { 6.0 } else { 22.0 };
        let bottom = top + self.rows.iter().map(|row| layout.height(row)).sum::<f64>() + 4.0;
        self.axis(&mut canvas, &layout, top, bottom);
        let mut y = top;
        for row in &self.rows {
            self.row(&mut canvas, &layout, row, y);
            y += layout.height(row);
        }
        canvas.finish(&self.title, bottom + 40.0)
    }

    fn is_long(&self) -> bool {
        self.rows.len() >= MANY
    }

    fn layout(&self, width: Width) -> Layout {
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(MOST);
        let values = self.rows.iter().any(|row| !row.value.is_empty());
        let notes = self.rows.iter().any(|row| !row.note.is_empty());
        let bars = self.rows.iter().flat_map(|row| &row.marks).any(|mark| mark.shape.is_none());
        let behind = 14.0 + if values { 92.0 } else { 0.0 } + if notes { 86.0 } else { 0.0 };
        Layout {
            width,
            left: width.pick(20.0 + 6.7 * longest as f64, 8.0),
            right: width.units() - width.pick(behind, 16.0),
            thick: match bars {
                true => width.pick(13.0, 10.0),
                false => width.pick(9.0, 9.0),
            },
            gap: if self.dense { 6.0 } else { width.pick(8.0, 9.0) },
        }
    }

    fn legend(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let (mut x, mut y) = (8.0, 14.0);
        for (class, shape, name) in &self.legend {
            let across = 32.0 + 6.6 * name.chars().count() as f64;
            if x > 8.0 && x + across > width.units() {
                (x, y) = (8.0, y + 18.0);
            }
            put_key(canvas, class, *shape, name, [x, y]);
            x += across + 10.0;
        }
        if self.legend.is_empty() { 4.0 } else { y + 10.0 }
    }

    fn axis(&self, canvas: &mut Canvas, layout: &Layout, top: f64, bottom: f64) {
        let ticks = self.x.1.ticks(layout.width.pick(8, 4));
        for (value, _) in &ticks {
            let x = layout.x(self.x.1, *value);
            canvas.line("grid", [x, top], [x, bottom]);
        }
        let middle = (layout.left + layout.right) / 2.0;
        let above = self.is_long().then_some((top - 26.0, top - 43.0));
        for (numbers, title) in [(bottom + 16.0, bottom + 33.0)].into_iter().chain(above) {
            canvas.open("axis-numbers", &self.x.0);
            for (value, label) in &ticks {
                canvas.text("dim mid", [layout.x(self.x.1, *value), numbers], label);
            }
            canvas.text("dim mid", [middle, title], &self.x.0);
            canvas.close();
        }
        for (value, name) in &self.rules {
            let x = layout.x(self.x.1, *value);
            canvas.open("limit", name);
            canvas.line("rule", [x, top - 4.0], [x, layout.width.pick(bottom, top)]);
            // At the right edge a centred name would leave the figure.
            let class = if x > layout.width.units() - 60.0 { "end" } else { "mid" };
            canvas.text(class, [x, top - 9.0], name);
            canvas.close();
        }
    }

    fn row(&self, canvas: &mut Canvas, layout: &Layout, row: &Row, mut y: f64) {
        if let Some(heading) = &row.heading {
            canvas.text("head halo", [layout.width.pick(8.0, 8.0), y + HEADING - 9.0], heading);
            y += HEADING;
        }
        let height = layout.thick * row.lines();
        let end = match layout.width {
            Width::Wide => {
                let base = y + height / 2.0 + 4.0;
                canvas.text("end", [layout.left - 10.0, base], &shortened(&row.name, MOST));
                let class = if row.strong { "end head" } else { "end dim" };
                canvas.text(class, [layout.width.units() - 4.0, base], &row.note);
                base
            }
            Width::Narrow => {
                let both = [row.value.as_str(), row.note.as_str()];
                let said: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
                canvas.text("halo", [layout.left, y + 11.0], &shortened(&row.name, MOST));
                canvas.text("end dim halo", [layout.width.units() - 4.0, y + 11.0], &said.join(" · "));
                y += 16.0;
                // The lines do not cross the texts.
                for (value, _) in &self.rules {
                    let x = layout.x(self.x.1, *value);
                    canvas.line("rule", [x, y], [x, y + height]);
                }
                0.0
            }
        };
        let mut furthest = layout.left;
        for mark in &row.marks {
            let x = layout.mark(canvas, self.x.1, mark, y + layout.thick * mark.line as f64);
            furthest = furthest.max(x);
        }
        if layout.width == Width::Wide && !row.value.is_empty() {
            canvas.text("halo", [self.beside(layout, furthest, &row.value), end], &row.value);
        }
    }

    /// Returns the position of a text after a bar, shifted past any line that would cross it.
    fn beside(&self, layout: &Layout, bar: f64, text: &str) -> f64 {
        let mut lines: Vec<f64> = self.rules.iter().map(|(at, _)| layout.x(self.x.1, *at)).collect();
        lines.sort_by(f64::total_cmp);
        lines.into_iter().fold(bar + 8.0, |x, line| {
            let end = x + DIGIT * text.chars().count() as f64;
            if (x - 2.0..end + 2.0).contains(&line) { line + 6.0 } else { x }
        })
    }
}

impl Row {
    fn lines(&self) -> f64 {
        self.marks.iter().map(|mark| mark.line + 1).max().unwrap_or(1) as f64
    }
}

impl Layout {
    fn x(&self, scale: Scale, value: f64) -> f64 {
        self.left + scale.at(value) * (self.right - self.left)
    }

    fn height(&self, row: &Row) -> f64 {
        let heading = if row.heading.is_some() { HEADING } else { 0.0 };
        let name = self.width.pick(0.0, 16.0);
        heading + name + self.thick * row.lines() + self.gap
    }

    /// Returns the mark's right end.
    fn mark(&self, canvas: &mut Canvas, scale: Scale, mark: &Mark, y: f64) -> f64 {
        let inside = |value: f64| self.x(scale, value).clamp(self.left, self.right);
        let x = inside(mark.at);
        let middle = y + self.thick / 2.0;
        canvas.open(mark.class, &mark.series);
        match (mark.shape, scale.at(mark.at)) {
            (None, _) => {
                // rust-cuda's bars are hollow like its marks, so that they differ not only by colour.
                let hollow = if mark.class == "nvvm" { " hollow" } else { "" };
                canvas.bar(hollow, [self.left, y], [x - self.left, self.thick - 2.0], &mark.tip);
            }
            (Some(_), part) if !(0.0..=1.0).contains(&part) => {
                let (shape, class, beside) = match part < 0.0 {
                    true => (Shape::Left, "small", x + 11.0),
                    false => (Shape::Right, "small end", x - 11.0),
                };
                canvas.mark(shape, [x, middle], &mark.tip);
                canvas.text(class, [beside, middle + 3.5], &digits(mark.at));
            }
            (Some(shape), _) => {
                if let Some((from, to)) = mark.whisker {
                    canvas.line("whisker", [inside(from), middle], [inside(to), middle]);
                }
                canvas.mark(shape, [x, middle], &mark.tip);
            }
        }
        canvas.close();
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Rows {
        let mark = |at| Mark {
            series: String::new(),
            class: "rust",
            shape: None,
            at,
            line: 0,
            whisker: None,
            tip: String::new(),
        };
        let row = |at: usize| Row { marks: vec![mark(90.0 + at as f64)], ..Row::default() };
        Rows {
            title: String::new(),
            x: ("GB/s".to_owned(), Scale::from_zero([100.0])),
            rules: vec![(100.0, "peak".to_owned())],
            legend: Vec::new(),
            rows: (0..count).map(row).collect(),
            dense: false,
        }
    }

    #[test]
    fn a_long_name_leaves_the_bars_their_room() {
        for width in [Width::Wide, Width::Narrow] {
            let named = |characters: usize| {
                let mut rows = rows(1);
                rows.rows[0].name = "n".repeat(characters);
                rows.layout(width)
            };
            assert_eq!(named(MOST).left, named(3000).left);
            assert!(named(3000).right - named(3000).left > width.units() / 2.0);
        }
        let mut long = rows(1);
        long.rows[0].name = "n".repeat(3000);
        assert!(!long.draw(Width::Wide).contains(&"n".repeat(MOST)));
    }

    #[test]
    fn many_rows_have_the_numbers_of_the_axis_above_them_too() {
        for width in [Width::Wide, Width::Narrow] {
            let axes = |count: usize| rows(count).draw(width).matches("axis-numbers").count();
            assert_eq!([MANY - 1, MANY].map(axes), [1, 2]);
        }
    }

    #[test]
    fn a_value_stands_beside_the_line_that_would_cross_it() {
        let rows = rows(1);
        let layout = rows.layout(Width::Wide);
        let line = layout.x(rows.x.1, 100.0);
        assert_eq!(rows.beside(&layout, line - 100.0, "4 574"), line - 92.0);
        assert_eq!(rows.beside(&layout, line - 20.0, "4 574"), line + 6.0);
        assert_eq!(rows.beside(&layout, line + 20.0, "4 574"), line + 28.0);
    }
}
