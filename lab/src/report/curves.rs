//! Curves: values against something that grows.

use super::{
    figures::in_order,
    scale::Scale,
    svg::{Canvas, Shape, Width},
};

/// A curve with its name.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Colour and dashes; `ghost` and `twins` are the background.
    pub(super) class: &'static str,
    pub(super) shape: Shape,
    pub(super) points: Vec<Place>,
}

/// A value of a curve.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    /// What it tells on hover.
    pub(super) tip: String,
}

/// A picture of curves.
#[derive(Debug, Clone)]
pub(super) struct Curves {
    pub(super) title: String,
    pub(super) x: (String, Scale),
    pub(super) y: (String, Scale),
    /// Horizontal lines with their names.
    pub(super) rules: Vec<(f64, String)>,
    /// Those in the background first.
    pub(super) curves: Vec<Curve>,
}

/// The area between the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A name beside the end of a curve.
struct Label {
    /// Where the curve ends.
    end: f64,
    wanted: f64,
    y: f64,
    class: &'static str,
    text: String,
}

const LINE: f64 = 15.0;

impl Curve {
    fn is_background(&self) -> bool {
        matches!(self.class, "ghost" | "twins")
    }

    fn end(&self) -> Option<&Place> {
        self.points.last()
    }
}

impl Curves {
    pub(super) fn draw(&self, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let legend = width.pick(0.0, self.legend(&mut canvas, width));
        let top = 30.0 + legend;
        let ticks = self.y.1.ticks(6);
        let longest = ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let frame = Frame {
            left: 14.0 + 7.0 * longest as f64,
            right: width.pick(width.units() - 188.0, width.units() - 14.0),
            top,
            bottom: top + width.pick(380.0, 270.0),
        };
        self.axes(&mut canvas, &frame, width);
        for (value, name) in &self.rules {
            let y = frame.y(self.y.1, *value);
            canvas.open("limit", name);
            canvas.line("rule", [frame.left, y], [frame.right, y]);
            canvas.text("halo", [frame.left + 6.0, y - 5.0], name);
            canvas.close();
        }
        for curve in &self.curves {
            self.curve(&mut canvas, &frame, curve);
        }
        if width == Width::Wide {
            self.names(&mut canvas, &frame);
        }
        canvas.finish(&self.title, frame.bottom + 40.0)
    }

    fn axes(&self, canvas: &mut Canvas, frame: &Frame, width: Width) {
        for (value, label) in self.y.1.ticks(6) {
            let y = frame.y(self.y.1, value);
            canvas.line("grid", [frame.left, y], [frame.right, y]);
            canvas.text("dim end", [frame.left - 7.0, y + 4.0], &label);
        }
        for (value, label) in self.x.1.ticks(width.pick(12, 6)) {
            let x = frame.x(self.x.1, value);
            canvas.line("grid", [x, frame.top], [x, frame.bottom]);
            canvas.text("dim mid", [x, frame.bottom + 17.0], &label);
        }
        canvas.line("axis", [frame.left, frame.bottom], [frame.right, frame.bottom]);
        canvas.text("dim", [4.0, frame.top - 13.0], &self.y.0);
        let middle = (frame.left + frame.right) / 2.0;
        canvas.text("dim mid", [middle, frame.bottom + 34.0], &self.x.0);
    }

    fn curve(&self, canvas: &mut Canvas, frame: &Frame, curve: &Curve) {
        let at = |place: &Place| [frame.x(self.x.1, place.x), frame.y(self.y.1, place.y)];
        canvas.open(curve.class, &curve.name);
        canvas.polyline("line", curve.points.iter().map(at));
        for place in &curve.points {
            canvas.mark(curve.shape, at(place), &place.tip);
        }
        canvas.close();
    }

    /// Names above the picture, for those curves that stand out. Gives the height.
    fn legend(&self, canvas: &mut Canvas, width: Width) -> f64 {
        if width == Width::Wide {
            return 0.0;
        }
        let (mut x, mut y) = (4.0, 12.0);
        let grey = self.curves.iter().any(Curve::is_background);
        let named = self.curves.iter().filter(|curve| !curve.is_background());
        let named = named.map(|curve| (curve.class, curve.shape, curve.name.as_str()));
        let rest = grey.then_some(("ghost", Shape::Dot, "grey: all other variants"));
        for (class, shape, name) in named.chain(rest) {
            let across = 30.0 + 6.1 * name.chars().count() as f64;
            if x > 4.0 && x + across > width.units() {
                (x, y) = (4.0, y + 17.0);
            }
            put_key(canvas, class, shape, name, [x, y]);
            x += across + 8.0;
        }
        y + 8.0
    }

    /// Names at the ends of the curves: in a column for those that end at the same place, which is that
    /// on the right where it has no room.
    fn names(&self, canvas: &mut Canvas, frame: &Frame) {
        let mut columns: Vec<(f64, Vec<Label>)> = vec![(frame.right, Vec::new())];
        let named = || self.curves.iter().filter(|curve| curve.class != "twins");
        for end in in_order(named().filter_map(Curve::end).map(|place| place.x)) {
            let x = frame.x(self.x.1, end);
            let here = named().filter_map(|curve| {
                let place = curve.end().filter(|place| place.x == end)?;
                let y = frame.y(self.y.1, place.y);
                Some(Label { end: x, wanted: y, y, class: curve.class, text: curve.name.clone() })
            });
            let labels = together(here.collect());
            let longest = labels.iter().map(|label| label.text.chars().count()).max().unwrap_or(0);
            match x + 22.0 + 7.0 * longest as f64 > frame.right {
                true => columns[0].1.extend(labels),
                false => columns.push((x, labels)),
            }
        }
        for (x, mut labels) in columns {
            apart(&mut labels, frame.top, frame.bottom);
            column(canvas, &labels, x);
        }
    }
}

/// Labels in a column behind this place.
fn column(canvas: &mut Canvas, labels: &[Label], x: f64) {
    for label in labels {
        canvas.line("lead", [label.end + 5.0, label.wanted], [x + 18.0, label.y]);
        canvas.open(label.class, &label.text);
        canvas.text("name halo", [x + 22.0, label.y + 4.0], &label.text);
        canvas.close();
    }
}

/// A mark with its name, as in a legend.
pub(super) fn put_key(canvas: &mut Canvas, class: &str, shape: Shape, name: &str, [x, y]: [f64; 2]) {
    canvas.open(class, name);
    canvas.line("line", [x, y - 4.0], [x + 18.0, y - 4.0]);
    canvas.mark(shape, [x + 9.0, y - 4.0], "");
    canvas.text("name", [x + 23.0, y], name);
    canvas.close();
}

impl Frame {
    fn x(&self, scale: Scale, value: f64) -> f64 {
        self.left + scale.at(value) * (self.right - self.left)
    }

    fn y(&self, scale: Scale, value: f64) -> f64 {
        self.bottom - scale.at(value) * (self.bottom - self.top)
    }
}

/// Makes one label of those in the background that end at about the same place.
fn together(labels: Vec<Label>) -> Vec<Label> {
    let (mut ghosts, mut named): (Vec<Label>, Vec<Label>) =
        labels.into_iter().partition(|label| label.class == "ghost");
    ghosts.sort_by(|a, b| a.wanted.total_cmp(&b.wanted));
    let mut groups: Vec<Vec<Label>> = Vec::new();
    for label in ghosts {
        match groups.last_mut().filter(|group| label.wanted - group[0].wanted < 11.0) {
            Some(group) => group.push(label),
            None => groups.push(vec![label]),
        }
    }
    for group in groups {
        let more = group.len() - 1;
        let middle = (group[0].wanted + group[more].wanted) / 2.0;
        let text = match more {
            0 => group[0].text.clone(),
            _ => format!("{} +{more}", group[0].text),
        };
        named.push(Label { end: group[0].end, wanted: middle, y: middle, class: "ghost", text });
    }
    named
}

/// Moves labels until none covers another.
fn apart(labels: &mut [Label], top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.wanted.total_cmp(&b.wanted));
    let mut free = top - LINE;
    for label in labels.iter_mut() {
        label.y = label.wanted.max(free);
        free = label.y + LINE;
    }
    let mut free = bottom + 4.0;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(free);
        free = label.y - LINE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let label = |wanted| Label { end: 0.0, wanted, y: wanted, class: "rust", text: String::new() };
        let mut labels: Vec<Label> = [90.0, 91.0, 92.0, 10.0, 99.0].map(label).into();
        apart(&mut labels, 0.0, 100.0);
        let places: Vec<f64> = labels.iter().map(|label| label.y).collect();
        assert_eq!(places[0], 10.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LINE), "{places:?}");
        assert!(places[4] <= 104.0);
    }

    #[test]
    fn the_background_shares_labels() {
        let label = |(wanted, class, text): (f64, _, &str)| Label {
            end: 0.0,
            wanted,
            y: wanted,
            class,
            text: text.into(),
        };
        let labels =
            [(50.0, "ghost", "a"), (10.0, "rust", "b"), (52.0, "ghost", "c"), (90.0, "ghost", "d")];
        let texts: Vec<String> =
            together(labels.map(label).into()).into_iter().map(|label| label.text).collect();
        assert_eq!(texts, ["b", "a +1", "d"]);
    }
}
