//! Heat maps: one or more panels, each with a number per row and column.

use super::{
    format::shortened,
    svg::{Canvas, Picture, Shape, Width},
};

#[derive(Debug, Clone)]
pub(super) struct Heat {
    pub(super) columns: Vec<String>,
    pub(super) panels: Vec<Panel>,
    /// Values at which the next shade begins. Values below the first one have their own shade.
    pub(super) steps: [f64; 5],
    /// The legend's text for cells with a marked corner.
    pub(super) corner: &'static str,
}

/// A panel's name, and the names and cells of its rows.
pub(super) type Panel = (String, Vec<(String, Vec<Option<Cell>>)>);

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) value: f64,
    pub(super) cornered: bool,
    pub(super) tip: String,
}

const HEAD: f64 = 40.0;
const GAP: f64 = 14.0;

/// Shade of the legend's example of a marked corner.
const CORNERED: usize = 1;

impl Picture for Heat {
    fn draw(&self, title: &str, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let top = self.legend(&mut canvas);
        let panels = width.pick(3, 2);
        let (mut y, mut bottom) = (top, top);
        for row in self.panels.chunks(panels) {
            for (at, panel) in row.iter().enumerate() {
                let across = width.units() / panels as f64;
                bottom =
                    f64::max(bottom, self.panel(&mut canvas, across, panel, [at as f64 * across, y]));
            }
            y = bottom + GAP;
        }
        canvas.finish(title, bottom + 4.0)
    }
}

impl Heat {
    fn rows(&self) -> impl Iterator<Item = &(String, Vec<Option<Cell>>)> {
        self.panels.iter().flat_map(|(_, rows)| rows)
    }

    /// Draws the shades with their meanings above the panels. Returns the height.
    fn legend(&self, canvas: &mut Canvas) -> f64 {
        let from = self.steps.iter().map(|step| format!("from {step}"));
        let names = [format!("below {}", self.steps[0])].into_iter().chain(from);
        let mut keys: Vec<(usize, String)> = names.enumerate().collect();
        let is_cornered = self.rows().flat_map(|(_, cells)| cells).flatten().any(|cell| cell.cornered);
        keys.extend(is_cornered.then(|| (CORNERED, self.corner.to_owned())));
        canvas.legend(&keys, |canvas, shade, name, [x, y]| {
            canvas.open("heat", name);
            canvas.bar(&format!("heat-{shade}"), [x, y - 11.0, 14.0, 14.0], 2.0, "");
            if name == self.corner {
                canvas.mark(Shape::CORNER, [x + 14.0, y - 11.0], "");
            }
            canvas.text("", [x + 19.0, y], name);
        })
    }

    /// Draws a panel of this width. Returns its lower end.
    fn panel(&self, canvas: &mut Canvas, width: f64, (name, rows): &Panel, [x, y]: [f64; 2]) -> f64 {
        let most = canvas.width.pick(20, 10);
        let longest = self.rows().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(most);
        let names = 10.0 + 6.4 * longest as f64;
        let left = x + names;
        let across = (width - names - canvas.width.pick(GAP, 4.0)) / self.columns.len().max(1) as f64;
        let down = canvas.width.pick(22.0, 20.0);
        canvas.text("head", [left, y + 15.0], name);
        for (at, column) in self.columns.iter().enumerate() {
            canvas.text("dim mid", [left + (at as f64 + 0.5) * across, y + HEAD - 6.0], column);
        }
        let mut y = y + HEAD;
        for (row, cells) in rows {
            canvas.text("end", [left - 6.0, y + down / 2.0 + 4.0], &shortened(row, most));
            canvas.open("heat", &format!("{name} {row}"));
            for (at, cell) in cells.iter().enumerate() {
                let Some(Cell { value, cornered, tip }) = cell else { continue };
                let x = left + at as f64 * across;
                // NaN compares false, and gets the lowest shade.
                let shade = self.steps.iter().filter(|step| value >= *step).count();
                canvas.bar(&format!("heat-{shade}"), [x, y, across - 2.0, down - 2.0], 2.0, tip);
                let place = [x + across / 2.0 - 1.0, y + down / 2.0 + 3.0];
                canvas.text(&format!("mid on-{shade}"), place, &format!("{value:.2}"));
                if *cornered {
                    canvas.mark(Shape::CORNER, [x + across - 2.0, y], "");
                }
            }
            canvas.close();
            y += down;
        }
        y
    }
}
