use super::{
    format::in_order,
    scale::{Scale, Steps},
    svg::{Canvas, Picture, Shape, Width},
};

/// A line chart over a doubling axis.
#[derive(Debug, Clone)]
pub(super) struct Curves {
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) steps: Steps,
    /// Horizontal lines with their names.
    pub(super) rules: Vec<(f64, String)>,
    pub(super) curves: Vec<Curve>,
}

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

impl Curves {
    pub(super) fn new(x: &'static str, y: &'static str, steps: Steps, mut curves: Vec<Curve>) -> Self {
        curves.retain(|curve| !curve.points.is_empty());
        Self { x, y, steps, rules: Vec::new(), curves }
    }
}

impl Place {
    pub(super) fn new(x: u64, y: f64, tip: String) -> Self {
        Self { x: x as f64, y, half: None, tip }
    }
}

const LINE: f64 = 15.0;

/// A text beside the end of a curve. `y` moves if other labels are at the same height.
struct Label {
    end: [f64; 2],
    y: f64,
    class: &'static str,
    text: String,
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    scales: [Scale; 2],
}

impl Frame {
    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [across, up] = [self.scales[0].at(x), self.scales[1].at(y)];
        [self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)]
    }

    fn place(&self, place: &Place) -> [f64; 2] {
        self.at([place.x, place.y])
    }
}

impl Picture for Curves {
    fn draw(&self, title: &str, width: Width) -> String {
        let mut canvas = Canvas::new(width);
        let places = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = Scale::new(Steps::Doubling, places().map(|place| place.x));
        let rules = self.rules.iter().map(|(value, _)| *value);
        let y = Scale::new(self.steps, places().map(|place| place.y).chain(rules));
        let longest = y.ticks(6).iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let top = match width {
            Width::Wide => 30.0,
            Width::Narrow => 30.0 + canvas.lines(&self.keys()),
        };
        let frame = Frame {
            left: 14.0 + 7.0 * longest as f64,
            right: width.units() - width.pick(188.0, 14.0),
            top,
            bottom: top + width.pick(380.0, 270.0),
            scales: [x, y],
        };
        self.axes(&mut canvas, &frame);
        for (value, name) in &self.rules {
            canvas.open("limit", name);
            canvas.path("rule", [x.from, x.to].map(|x| frame.at([x, *value])));
            canvas.close();
        }
        for curve in &self.curves {
            canvas.open(curve.class, &curve.name);
            canvas.path("line", curve.points.iter().map(|place| frame.place(place)));
            for place in &curve.points {
                if let Some((least, most)) = place.half {
                    canvas.path("whisker", [least, most].map(|y| frame.at([place.x, y])));
                }
                canvas.mark(curve.shape, frame.place(place), &place.tip);
            }
            canvas.close();
        }
        if width == Width::Wide {
            self.names(&mut canvas, &frame);
        }
        canvas.finish(title, frame.bottom + 40.0)
    }
}

impl Curves {
    fn axes(&self, canvas: &mut Canvas, frame: &Frame) {
        let Frame { left, right, top, bottom, scales: [horizontal, vertical] } = *frame;
        for (value, label) in vertical.ticks(6) {
            let [_, y] = frame.at([horizontal.from, value]);
            canvas.path("grid", [[left, y], [right, y]]);
            canvas.text("dim end", [left - 7.0, y + 4.0], &label);
        }
        for (value, label) in horizontal.ticks(canvas.width.pick(12, 6)) {
            let [x, _] = frame.at([value, vertical.from]);
            canvas.path("grid", [[x, top], [x, bottom]]);
            canvas.text("dim mid", [x, bottom + 17.0], &label);
        }
        canvas.path("axis", [[left, bottom], [right, bottom]]);
        let rules = self.rules.iter().map(|(_, name)| format!(", dotted: {name}"));
        canvas.text("dim", [4.0, top - 13.0], &format!("{}{}", self.y, rules.collect::<String>()));
        canvas.text("dim mid", [(left + right) / 2.0, bottom + 34.0], self.x);
    }

    /// Returns the keys of the foreground lines, for the legend of narrow charts.
    fn keys(&self) -> Vec<((&'static str, Shape), String)> {
        let is_grey = |curve: &&Curve| matches!(curve.class, "ghost" | "twins");
        let named = self.curves.iter().filter(|curve| !is_grey(curve));
        let named = named.map(|curve| ((curve.class, curve.shape), curve.name.clone()));
        let others = (("ghost", Shape::DOT), "grey: all other variants".to_owned());
        named.chain(self.curves.iter().find(is_grey).map(|_| others)).collect()
    }

    /// Draws the curves' names beside their ends: in a column at the right edge, or at the end of a
    /// shorter curve.
    fn names(&self, canvas: &mut Canvas, frame: &Frame) {
        let named = || self.curves.iter().filter(|curve| curve.class != "twins");
        let ends = in_order(named().filter_map(|curve| curve.points.last()).map(|place| place.x));
        let mut columns: Vec<(f64, Vec<Label>)> = vec![(frame.right, Vec::new())];
        for end in ends {
            let here = named().filter_map(|curve| {
                let end = frame.place(curve.points.last().filter(|place| place.x == end)?);
                Some(Label { end, y: end[1], class: curve.class, text: curve.name.clone() })
            });
            let labels = together(here.collect());
            let [x, _] = frame.at([end, frame.scales[1].from]);
            let longest = labels.iter().map(|label| label.text.chars().count()).max().unwrap_or(0);
            match x + 22.0 + 7.0 * longest as f64 > frame.right {
                true => columns[0].1.extend(labels),
                false => columns.push((x, labels)),
            }
        }
        for (x, mut labels) in columns {
            apart(&mut labels, frame.top, frame.bottom);
            for Label { end, y, class, text } in &labels {
                canvas.path("lead", [[end[0] + 5.0, end[1]], [x + 18.0, *y]]);
                canvas.open(class, text);
                canvas.text("name halo", [x + 22.0, y + 4.0], text);
                canvas.close();
            }
        }
    }
}

/// Merges overlapping labels of background curves into one, such as `name +2`.
fn together(labels: Vec<Label>) -> Vec<Label> {
    let (mut ghosts, mut named): (Vec<_>, Vec<_>) =
        labels.into_iter().partition(|label| label.class == "ghost");
    ghosts.sort_by(|a, b| a.y.total_cmp(&b.y));
    while let Some(first) = ghosts.first() {
        let near = ghosts.iter().take_while(|label| label.y - first.y < 11.0).count();
        let group: Vec<Label> = ghosts.drain(..near).collect();
        let y = (group[0].y + group[near - 1].y) / 2.0;
        let more = if near > 1 { format!(" +{}", near - 1) } else { String::new() };
        let [x, _] = group[0].end;
        named.push(Label { end: [x, y], y, class: "ghost", text: format!("{}{more}", group[0].text) });
    }
    named
}

fn apart(labels: &mut [Label], top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.end[1].total_cmp(&b.end[1]));
    let mut free = top - LINE;
    for label in labels.iter_mut() {
        label.y = label.end[1].max(free);
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

    fn label((y, class, text): (f64, &'static str, &str)) -> Label {
        Label { end: [0.0, y], y, class, text: text.to_owned() }
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut labels: Vec<Label> =
            [90.0, 91.0, 92.0, 10.0, 99.0].map(|y| label((y, "rust", ""))).into();
        apart(&mut labels, 0.0, 100.0);
        let places: Vec<f64> = labels.iter().map(|label| label.y).collect();
        assert_eq!(places[0], 10.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LINE), "{places:?}");
        assert!(places[4] <= 104.0);
        let labels =
            [(50.0, "ghost", "a"), (10.0, "rust", "b"), (52.0, "ghost", "c"), (90.0, "ghost", "d")];
        let texts: Vec<String> =
            together(labels.map(label).into()).into_iter().map(|label| label.text).collect();
        assert_eq!(texts, ["b", "a +1", "d"]);
    }
}
