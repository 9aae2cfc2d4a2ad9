//! Line charts.

use super::{
    figures::in_order,
    scale::Scale,
    svg::{Canvas, Shape, Width},
};

#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) name: String,
    /// Colour and dashes; `ghost` and `twins` are the background.
    pub(super) class: &'static str,
    pub(super) shape: Shape,
    pub(super) points: Vec<Place>,
}

#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The quartiles of the runs, if drawn.
    pub(super) half: Option<(f64, f64)>,
    pub(super) tip: String,
}

#[derive(Debug, Clone)]
pub(super) struct Curves {
    pub(super) title: String,
    pub(super) x: (String, Scale),
    pub(super) y: (String, Scale),
    pub(super) rules: Vec<(f64, String)>,
    pub(super) curves: Vec<Curve>,
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

struct Label {
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
            let (class, place) = self.beside_rule(&frame, y, name);
            canvas.text(class, place, name);
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

    /// Returns the place of a horizontal line's name: above or below it, at its left or right end,
    /// wherever no curve crosses the name; above at the left if curves cross everywhere.
    fn beside_rule(&self, frame: &Frame, y: f64, name: &str) -> (&'static str, [f64; 2]) {
        let across = 7.2 * name.chars().count() as f64;
        let places = [
            ("halo", [frame.left + 6.0, y - 5.0]),
            ("halo end", [frame.right - 6.0, y - 5.0]),
            ("halo", [frame.left + 6.0, y + 15.0]),
            ("halo end", [frame.right - 6.0, y + 15.0]),
        ];
        let is_free = |(class, [x, base]): &(&str, [f64; 2])| {
            let left = if class.ends_with("end") { x - across } else { *x };
            let shown = |at: &Place| [frame.x(self.x.1, at.x), frame.y(self.y.1, at.y)];
            let text = ([left, base - 12.0], [left + across, base + 4.0]);
            self.curves.iter().all(|curve| {
                let places: Vec<[f64; 2]> = curve.points.iter().map(shown).collect();
                places.windows(2).all(|line| !goes_through(line[0], line[1], text))
            })
        };
        places.into_iter().find(is_free).unwrap_or(places[0])
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
            if let Some((least, most)) = place.half {
                let ends = [least, most].map(|y| at(&Place { y, ..place.clone() }));
                canvas.line("whisker", ends[0], ends[1]);
            }
            canvas.mark(curve.shape, at(place), &place.tip);
        }
        canvas.close();
    }

    /// Draws names above the chart, for the foreground lines of narrow charts. Returns the height.
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

fn goes_through(from: [f64; 2], to: [f64; 2], (least, most): ([f64; 2], [f64; 2])) -> bool {
    // The interval of the line, from 0 to 1, that is inside in both dimensions.
    let mut part = (0.0f64, 1.0f64);
    for axis in 0..2 {
        let along = to[axis] - from[axis];
        let (enter, leave) = ((least[axis] - from[axis]) / along, (most[axis] - from[axis]) / along);
        let inside = (least[axis]..=most[axis]).contains(&from[axis]);
        match along == 0.0 {
            true if inside => {}
            true => return false,
            false => part = (part.0.max(enter.min(leave)), part.1.min(enter.max(leave))),
        }
    }
    part.0 <= part.1
}

fn column(canvas: &mut Canvas, labels: &[Label], x: f64) {
    for label in labels {
        canvas.line("lead", [label.end + 5.0, label.wanted], [x + 18.0, label.y]);
        canvas.open(label.class, &label.text);
        canvas.text("name halo", [x + 22.0, label.y + 4.0], &label.text);
        canvas.close();
    }
}

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
    fn a_line_goes_through_a_box_or_past_it() {
        let text = ([10.0, 10.0], [30.0, 20.0]);
        for (from, to, through) in [
            ([0.0, 15.0], [40.0, 15.0], true),
            ([15.0, 12.0], [16.0, 13.0], true),
            ([20.0, 0.0], [20.0, 40.0], true),
            ([0.0, 5.0], [40.0, 5.0], false),
            ([5.0, 0.0], [5.0, 40.0], false),
            ([0.0, 0.0], [8.0, 40.0], false),
            ([0.0, 25.0], [25.0, 0.0], true),
            ([0.0, 15.0], [9.0, 15.0], false),
        ] {
            assert_eq!(goes_through(from, to, text), through, "{from:?} {to:?}");
            assert_eq!(goes_through(to, from, text), through, "{to:?} {from:?}");
        }
    }

    #[test]
    fn a_rules_name_keeps_out_of_the_curves_way() {
        let place = |x: f64, y: f64| Place { x, y, half: None, tip: String::new() };
        let curve = |points: Vec<Place>| Curve {
            name: "curve".to_owned(),
            class: "rust",
            shape: Shape::Dot,
            points,
        };
        let drawn = |points: Vec<Place>| {
            let picture = Curves {
                title: String::new(),
                x: ("n".to_owned(), Scale::doubling([1.0, 1024.0])),
                y: ("times".to_owned(), Scale::from_zero([2.0])),
                rules: vec![(1.0, "as fast".to_owned())],
                curves: vec![curve(points)],
            };
            let frame = Frame { left: 0.0, right: 600.0, top: 0.0, bottom: 300.0 };
            let y = frame.y(picture.y.1, 1.0);
            let (class, [_, base]) = picture.beside_rule(&frame, y, "as fast");
            (class, base < y)
        };
        assert_eq!(drawn(vec![place(1.0, 2.0), place(1024.0, 2.0)]), ("halo", true));
        // The curve begins above the line on the left and ends far above: the right end is free.
        assert_eq!(drawn(vec![place(1.0, 1.05), place(1024.0, 2.0)]), ("halo end", true));
        assert_eq!(drawn(vec![place(1.0, 1.05), place(1024.0, 1.05)]), ("halo", false));
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
