//! SVG figures, written by hand: plotters and charming fix colours and sizes in the file, so that a
//! figure could not adapt to light and dark or to wide and narrow screens, nor show values on hover.
//!
//! Every figure is drawn twice, for a wide screen and for a phone, and the page shows one of the two.
//! Colours are variables of `look.css`, which is included once in the page and once in each file.

use std::fmt::Write;

use super::format::escape;

pub(super) const LOOK: &str = include_str!("look.css");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    pub(super) const fn units(self) -> f64 {
        match self {
            Self::Wide => 880.0,
            Self::Narrow => 340.0,
        }
    }

    pub(super) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}

/// Shapes of marks, so that series differ not only by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Shape {
    #[default]
    Dot,
    Circle,
    Square,
    Diamond,
    Triangle,
    Ring,
    /// A hollow square.
    Frame,
    /// A hollow diamond.
    Lozenge,
    /// An arrow to a value beyond the left end of the axis.
    Left,
    /// An arrow to a value beyond the right end of the axis.
    Right,
    Corner,
}

pub(super) struct Canvas {
    body: String,
    width: Width,
}

/// Coordinates have one decimal: a tenth of a pixel.
macro_rules! put {
    ($canvas:expr, $($arguments:tt)*) => {
        write!($canvas.body, $($arguments)*).expect("a String takes all")
    };
}

impl Canvas {
    pub(super) fn new(width: Width) -> Self {
        Self { body: String::new(), width }
    }

    pub(super) fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        put!(self, r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#);
    }

    pub(super) fn polyline(&mut self, class: &str, points: impl IntoIterator<Item = [f64; 2]>) {
        let mut path = String::new();
        for (at, [x, y]) in points.into_iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            write!(path, "{command}{x:.1} {y:.1}").expect("a String takes all");
        }
        put!(self, r#"<path class="{class}" d="{path}"/>"#);
    }

    /// Draws a text with its baseline at `y`, unless it is empty.
    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], text: &str) {
        if text.is_empty() {
            return;
        }
        let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
        put!(self, r#"<text{class} x="{x:.1}" y="{y:.1}">{}</text>"#, escape(text));
    }

    pub(super) fn open(&mut self, class: &str, series: &str) {
        put!(self, r#"<g class="{class}" data-series="{}">"#, escape(series));
    }

    pub(super) fn close(&mut self) {
        self.body.push_str("</g>");
    }

    /// Draws a value with its tooltip; only a sign if the tip is empty.
    pub(super) fn mark(&mut self, shape: Shape, [x, y]: [f64; 2], tip: &str) {
        let (hollow, outline) = outline(shape, x, y);
        let title = title(tip);
        put!(self, r#"<path class="k{hollow}" d="{outline}">{title}</path>"#);
    }

    pub(super) fn bar(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], tip: &str) {
        let (width, tip) = (width.max(1.0), escape(tip));
        put!(
            self,
            r#"<rect class="k bar{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="1.5"><title>{tip}</title></rect>"#
        );
    }

    pub(super) fn cell(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], tip: &str) {
        let title = title(tip);
        put!(
            self,
            r#"<rect class="k {class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2">{title}</rect>"#
        );
    }

    pub(super) fn finish(self, title: &str, height: f64) -> String {
        let class = self.width.pick("wide", "narrow");
        let (across, title, body) = (self.width.units(), escape(title), self.body);
        format!(
            r#"<svg class="chart {class}" viewBox="0 0 {across} {height:.0}" role="group" aria-roledescription="chart" aria-label="{title}" tabindex="0" xmlns="http://www.w3.org/2000/svg">{body}</svg>"#
        )
    }
}

fn title(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escape(tip)) }
}

fn outline(shape: Shape, x: f64, y: f64) -> (&'static str, String) {
    let circle = |r: f64| {
        format!("M{:.1} {y:.1}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0z", x - r, 2.0 * r, 2.0 * r)
    };
    let path = match shape {
        Shape::Dot => circle(1.6),
        Shape::Circle => circle(4.0),
        Shape::Ring => circle(3.6),
        Shape::Square => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
        Shape::Frame => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        Shape::Diamond => format!("M{x:.1} {:.1}l4.8 4.8l-4.8 4.8l-4.8 -4.8z", y - 4.8),
        Shape::Lozenge => format!("M{x:.1} {:.1}l4.3 4.3l-4.3 4.3l-4.3 -4.3z", y - 4.3),
        Shape::Left => format!("M{x:.1} {y:.1}l8 -4.6v9.2z"),
        Shape::Right => format!("M{x:.1} {y:.1}l-8 -4.6v9.2z"),
        Shape::Corner => format!("M{x:.1} {y:.1}v8l-8 -8z"),
        Shape::Triangle => format!("M{x:.1} {:.1}l4.8 8.2h-9.6z", y - 5.0),
    };
    let hollow = matches!(shape, Shape::Ring | Shape::Frame | Shape::Lozenge);
    (if hollow { " hollow" } else { "" }, path)
}

pub(super) fn standalone(svg: &str, title: &str) -> String {
    let (across, rest) = svg
        .split_once(r#"viewBox="0 0 "#)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(extent, _)| extent.split_once(' ').unwrap_or((extent, extent)))
        .unwrap_or(("0", "0"));
    let style = format!(
        r#"<title>{}</title><style>{}</style><rect class="back" width="{across}" height="{rest}" rx="6"/>"#,
        escape(title),
        style()
    );
    let open = format!(r#"<svg width="{across}" height="{rest}" "#);
    let svg = svg.replacen("<svg ", &open, 1).replacen(" tabindex=\"0\"", "", 1);
    let svg = svg.replacen(r#"role="group" aria-roledescription="chart""#, r#"role="img""#, 1);
    let end_of_tag = svg.find('>').map_or(0, |at| at + 1);
    let (tag, body) = svg.split_at(end_of_tag);
    format!("{tag}{style}{body}\n")
}

/// Returns the style of a file: that of the page, with values in place of its variables, which librsvg
/// and other renderers do not know. Values for dark screens follow, for renderers that ask.
fn style() -> String {
    let look = LOOK.replace("--c:", "color:").replace("var(--c)", "currentColor");
    let (light, rest) = look.split_once('\n').unwrap_or_default();
    let (dark, rules) = rest.split_once('\n').unwrap_or_default();
    let (light, dark) = (variables(light), variables(dark));
    let (mut style, mut in_the_dark) = (String::new(), String::new());
    for rule in rules.split_inclusive('}') {
        style += &resolved(rule, &light);
        if rule.contains("var(") {
            in_the_dark += &resolved(rule, &dark);
        }
    }
    format!("{}@media(prefers-color-scheme:dark){{{}}}", style.trim(), in_the_dark.trim())
}

/// Returns the variables of a line of CSS, with their values.
fn variables(css: &str) -> Vec<(&str, &str)> {
    let declarations = css.split(['{', ';', '}']).filter(|declaration| declaration.starts_with("--"));
    declarations.filter_map(|declaration| declaration.split_once(':')).collect()
}

fn resolved(css: &str, variables: &[(&str, &str)]) -> String {
    let resolve =
        |css: String, (name, value): &(&str, &str)| css.replace(&format!("var({name})"), value);
    variables.iter().fold(css.to_owned(), resolve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_colours_for_renderers_without_variables() {
        let mut canvas = Canvas::new(Width::Wide);
        canvas.open("rust", "rust");
        canvas.line("line", [0.0, 0.0], [1.0, 1.0]);
        canvas.close();
        let file = standalone(&canvas.finish("a title", 20.0), "a title");
        assert!(!file.contains("var(") && !file.contains("--"), "{file}");
        let (light, dark) = file.split_once("@media(prefers-color-scheme:dark)").unwrap();
        for (style, rust, panel) in [(light, "#bf3f0b", "#ffffff"), (dark, "#ff9460", "#141a21")] {
            assert!(style.contains(&format!(".rust{{color:{rust}}}")), "{style}");
            assert!(style.contains(&format!(".chart .back{{fill:{panel}}}")), "{style}");
        }
        assert!(light.contains(".chart .line{fill:none;stroke:currentColor;"), "{light}");
    }
}
