//! Heat maps: a number per row and column, in one panel per third name.

use super::{
    format::shortened,
    svg::{Canvas, Shape, Width},
};

#[derive(Debug, Clone)]
pub(super) struct Panels {
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) panels: Vec<Panel>,
    /// Values at which the next shade begins. Values below the first have a shade of their own.
    pub(super) steps: [f64; 5],
    pub(super) corner: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Panel {
    pub(super) name: String,
    pub(super) rows: Vec<(String, Vec<Option<Cell>>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) value: f64,
    pub(super) text: String,
    pub(super) cornered: bool,
    pub(super) tip: String,
}

const HEAD: f64 = 40.0;

/// Shade of the legend's cell with a corner, that of equal values.
const CORNERED: usize = 1;

const GAP: f64 = 14.0;

struct Layout {
    across: usize,
    most: usize,
    names: f64,
    cell: [f64; 2],
}

impl Panels {
    pub(super) fn draw(&self, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let top = self.legend(&mut canvas, width);
        let layout = self.layout(width);
        let (mut y, mut bottom) = (top, top);
        for panels in self.panels.chunks(layout.across) {
            for (at, panel) in panels.iter().enumerate() {
                let x = at as f64 * (width.units() / layout.across as f64);
                bottom = f64::max(bottom, self.panel(&mut canvas, &layout, panel, [x, y]));
            }
            y = bottom + GAP;
        }
        canvas.finish(&self.title, bottom + 4.0)
    }

    fn layout(&self, width: Width) -> Layout {
        let across = width.pick(3, 2);
        let most = width.pick(20, 10);
        let names =
            self.panels.iter().flat_map(|panel| &panel.rows).map(|(name, _)| name.chars().count());
        let names = 10.0 + 6.4 * names.max().unwrap_or(0).min(most) as f64;
        let room = width.units() / across as f64 - names - width.pick(GAP, 4.0);
        Layout {
            across,
            most,
            names,
            cell: [room / self.columns.len().max(1) as f64, width.pick(22.0, 20.0)],
        }
    }

    /// Draws the shades with their meanings above the panels. Returns the height.
    fn legend(&self, canvas: &mut Canvas, width: Width) -> f64 {
        let below = format!("below {}", self.steps[0]);
        let from = self.steps.iter().map(|step| format!("from {step}"));
        let shades = std::iter::once(below).chain(from).enumerate();
        let mut keys: Vec<(usize, String)> = shades.collect();
        if self.cells().any(|cell| cell.cornered) {
            keys.push((CORNERED, self.corner.to_owned()));
        }
        let (mut x, mut y) = (4.0, 14.0);
        for (shade, name) in &keys {
            let across = 24.0 + 6.6 * name.chars().count() as f64;
            if x > 4.0 && x + across > width.units() {
                (x, y) = (4.0, y + 18.0);
            }
            let cornered = name == self.corner;
            canvas.open("heat", name);
            canvas.cell(&format!("heat-{shade}"), [x, y - 11.0], [14.0, 14.0], "");
            if cornered {
                canvas.mark(Shape::Corner, [x + 14.0, y - 11.0], "");
            }
            canvas.text("", [x + 19.0, y], name);
            canvas.close();
            x += across + 8.0;
        }
        y + 12.0
    }

    /// Returns the panel's lower end.
    fn panel(&self, canvas: &mut Canvas, layout: &Layout, panel: &Panel, [x, y]: [f64; 2]) -> f64 {
        let [across, down] = layout.cell;
        let left = x + layout.names;
        canvas.text("head", [left, y + 15.0], &panel.name);
        for (at, name) in self.columns.iter().enumerate() {
            canvas.text("dim mid", [left + (at as f64 + 0.5) * across, y + HEAD - 6.0], name);
        }
        let mut y = y + HEAD;
        for (name, cells) in &panel.rows {
            canvas.text("end", [left - 6.0, y + down / 2.0 + 4.0], &shortened(name, layout.most));
            canvas.open("heat", &format!("{} {name}", panel.name));
            for (at, cell) in cells.iter().enumerate() {
                let Some(cell) = cell else { continue };
                let ([x, middle], shade) =
                    ([left + at as f64 * across, y + down / 2.0], self.shade(cell.value));
                canvas.cell(&format!("heat-{shade}"), [x, y], [across - 2.0, down - 2.0], &cell.tip);
                let class = format!("mid on-{shade}");
                canvas.text(&class, [x + across / 2.0 - 1.0, middle + 3.0], &cell.text);
                if cell.cornered {
                    canvas.mark(Shape::Corner, [x + across - 2.0, y], "");
                }
            }
            canvas.close();
            y += down;
        }
        y
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.panels.iter().flat_map(|panel| &panel.rows).flat_map(|(_, cells)| cells).flatten()
    }

    /// Returns a value's shade, 0 below all steps. NaN is below all.
    fn shade(&self, value: f64) -> usize {
        self.steps.iter().filter(|step| value >= **step).count()
    }
}
