//! Bar charts: one row per item, with bars or marks on a common axis.

use super::{
    format::{digits, shortened},
    scale::{Scale, Steps},
    svg::{Canvas, Picture, Shape, Width},
};

#[derive(Debug, Clone, Default)]
pub(super) struct Bars {
    pub(super) x: &'static str,
    /// The scale of the axis; by default from 0 to the maximum.
    pub(super) scale: Option<Scale>,
    /// Vertical lines with their names.
    pub(super) rules: Vec<(f64, String)>,
    pub(super) legend: Vec<((&'static str, Shape), String)>,
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

#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    pub(super) series: String,
    pub(super) class: &'static str,
    /// The shape of a mark; `None` draws a bar from the left.
    pub(super) shape: Option<Shape>,
    pub(super) at: f64,
    /// Index of the mark's line within the row, from 0.
    pub(super) line: usize,
    pub(super) whisker: Option<(f64, f64)>,
    pub(super) tip: String,
}

const HEADING: f64 = 30.0;

/// Maximum width of a digit in the figures' fonts.
const DIGIT: f64 = 7.7;

/// With this many rows the axis is also drawn above them, because the lower axis is off the screen.
const MANY: usize = 12;

/// Limit on the characters of a row's name, which leaves two thirds of the width to the bars.
const MOST: usize = 40;

struct Layout {
    width: Width,
    scale: Scale,
    left: f64,
    right: f64,
    thick: f64,
    gap: f64,
}

impl Picture for Bars {
    fn draw(&self, title: &str, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let y = canvas.lines(&self.legend);
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
        canvas.finish(title, bottom + 40.0)
    }
}

impl Bars {
    fn is_long(&self) -> bool {
        self.rows.len() >= MANY
    }

    fn layout(&self, width: Width) -> Layout {
        let marks = || self.rows.iter().flat_map(|row| &row.marks);
        let longest = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(MOST);
        let values = if self.rows.iter().any(|row| !row.value.is_empty()) { 92.0 } else { 0.0 };
        let notes = if self.rows.iter().any(|row| !row.note.is_empty()) { 86.0 } else { 0.0 };
        let has_bars = marks().any(|mark| mark.shape.is_none());
        let values_drawn = marks().map(|mark| mark.at).chain(self.rules.iter().map(|(value, _)| *value));
        Layout {
            width,
            scale: self.scale.unwrap_or_else(|| Scale::new(Steps::Linear, values_drawn)),
            left: width.pick(20.0 + 6.7 * longest as f64, 8.0),
            right: width.units() - width.pick(14.0 + values + notes, 16.0),
            thick: if has_bars { width.pick(13.0, 10.0) } else { 9.0 },
            gap: if self.dense { 6.0 } else { width.pick(8.0, 9.0) },
        }
    }

    fn axis(&self, canvas: &mut Canvas, layout: &Layout, top: f64, bottom: f64) {
        let ticks = layout.scale.ticks(layout.width.pick(8, 4));
        for (value, _) in &ticks {
            let x = layout.x(*value);
            canvas.path("grid", [[x, top], [x, bottom]]);
        }
        let middle = (layout.left + layout.right) / 2.0;
        let above = self.is_long().then_some((top - 26.0, top - 43.0));
        for (numbers, title) in [(bottom + 16.0, bottom + 33.0)].into_iter().chain(above) {
            canvas.open("axis-numbers", self.x);
            for (value, label) in &ticks {
                canvas.text("dim mid", [layout.x(*value), numbers], label);
            }
            canvas.text("dim mid", [middle, title], self.x);
            canvas.close();
        }
        for (value, name) in &self.rules {
            let x = layout.x(*value);
            canvas.open("limit", name);
            canvas.path("rule", [[x, top - 4.0], [x, layout.width.pick(bottom, top)]]);
            // At the right edge a centred name would leave the figure.
            let class = if x > layout.width.units() - 60.0 { "end" } else { "mid" };
            canvas.text(class, [x, top - 9.0], name);
            canvas.close();
        }
    }

    fn row(&self, canvas: &mut Canvas, layout: &Layout, row: &Row, mut y: f64) {
        let Layout { width, left, thick, .. } = *layout;
        if let Some(heading) = &row.heading {
            canvas.text("head halo", [8.0, y + HEADING - 9.0], heading);
            y += HEADING;
        }
        let (height, right) = (thick * row.lines(), width.units() - 4.0);
        let name = shortened(&row.name, MOST);
        let base = y + height / 2.0 + 4.0;
        if width == Width::Wide {
            canvas.text("end", [left - 10.0, base], &name);
            canvas.text(if row.strong { "end head" } else { "end dim" }, [right, base], &row.note);
        } else {
            let between = if row.value.is_empty() || row.note.is_empty() { "" } else { " · " };
            canvas.text("halo", [left, y + 11.0], &name);
            let texts = format!("{}{between}{}", row.value, row.note);
            canvas.text("end dim halo", [right, y + 11.0], &texts);
            y += 16.0;
            // The vertical lines are interrupted here, so that they do not cross the texts.
            for (value, _) in &self.rules {
                let x = layout.x(*value);
                canvas.path("rule", [[x, y], [x, y + height]]);
            }
        }
        let ends = row.marks.iter().map(|mark| layout.mark(canvas, mark, y + thick * mark.line as f64));
        let furthest = ends.fold(left, f64::max);
        if width == Width::Wide {
            canvas.text("halo", [self.beside(layout, furthest, &row.value), base], &row.value);
        }
    }

    /// Returns the position of a text after a bar, shifted past any line that would cross it.
    fn beside(&self, layout: &Layout, bar: f64, text: &str) -> f64 {
        let mut lines: Vec<f64> = self.rules.iter().map(|(at, _)| layout.x(*at)).collect();
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
    fn x(&self, value: f64) -> f64 {
        self.left + self.scale.at(value) * (self.right - self.left)
    }

    fn height(&self, row: &Row) -> f64 {
        let heading = if row.heading.is_some() { HEADING } else { 0.0 };
        heading + self.width.pick(0.0, 16.0) + self.thick * row.lines() + self.gap
    }

    /// Draws a mark and returns its right end.
    fn mark(&self, canvas: &mut Canvas, mark: &Mark, y: f64) -> f64 {
        let inside = |value: f64| self.x(value).clamp(self.left, self.right);
        let (x, middle, part) = (inside(mark.at), y + self.thick / 2.0, self.scale.at(mark.at));
        canvas.open(mark.class, &mark.series);
        match mark.shape {
            None => {
                // rust-cuda's bars are hollow, like its marks, so that they differ not only by colour.
                let class = if mark.class == "nvvm" { "bar hollow" } else { "bar" };
                let bar = [self.left, y, f64::max(x - self.left, 1.0), self.thick - 2.0];
                canvas.bar(class, bar, 1.5, &mark.tip);
            }
            Some(shape) if (0.0..=1.0).contains(&part) => {
                if let Some((from, to)) = mark.whisker {
                    canvas.path("whisker", [[inside(from), middle], [inside(to), middle]]);
                }
                canvas.mark(shape, [x, middle], &mark.tip);
            }
            Some(_) => {
                let (shape, class, beside) = match part < 0.0 {
                    true => (Shape::LEFT, "small", x + 11.0),
                    false => (Shape::RIGHT, "small end", x - 11.0),
                };
                canvas.mark(shape, [x, middle], &mark.tip);
                canvas.text(class, [beside, middle + 3.5], &digits(mark.at));
            }
        }
        canvas.close();
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_bars_and_values_have_room() {
        let bars = |name: &str, count: usize| {
            let marks = vec![Mark { class: "rust", at: 90.0, ..Mark::default() }];
            let row = Row { name: name.to_owned(), marks, ..Row::default() };
            let rules = vec![(100.0, "peak".to_owned())];
            Bars { x: "GB/s", rules, rows: vec![row; count], ..Bars::default() }
        };
        for width in [Width::Wide, Width::Narrow] {
            let long = bars(&"n".repeat(3000), 1);
            let layout = long.layout(width);
            assert!(layout.right - layout.left > width.units() / 2.0);
            assert!(!long.draw("", width).contains(&"n".repeat(MOST)));
            // With many rows, the axis is also drawn above them.
            let axes = |count: usize| bars("", count).draw("", width).matches("axis-numbers").count();
            assert_eq!([MANY - 1, MANY].map(axes), [1, 2]);
        }
        // A value that a line would cross is moved past the line.
        let (bars, layout) = (bars("", 1), bars("", 1).layout(Width::Wide));
        let line = layout.x(100.0);
        let beside = [-100.0, -20.0, 20.0].map(|at| bars.beside(&layout, line + at, "4 574"));
        assert_eq!(beside, [line - 92.0, line + 6.0, line + 28.0]);
    }
}
