//! SVG figures, written by hand. plotters and charming fix colours and sizes in the file, so that a
//! figure could neither adapt to light and dark or to wide and narrow screens, nor show values on hover.
//!
//! Every figure is drawn twice, for a wide screen and for a phone, and the page shows one of the two.
//! Colours are variables of `look.css`, which is included once in the page and once in each file.

use std::fmt::Write;

use super::format::escape;

pub(super) const LOOK: &str = include_str!("look.css");

pub(super) trait Picture {
    fn draw(&self, title: &str, width: Width) -> String;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
}

impl Width {
    pub(super) fn units(self) -> f64 {
        self.pick(880.0, 340.0)
    }

    pub(super) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}

/// The shape of a mark, so that series differ not only by colour: the position of its first point
/// relative to the value, the path from there, and whether it is hollow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape(f64, f64, &'static str, bool);

impl Shape {
    pub(super) const DOT: Self = Self(-1.6, 0.0, "a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0 -3.2 0z", false);
    pub(super) const CIRCLE: Self = Self(-4.0, 0.0, "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", false);
    pub(super) const RING: Self = Self(-3.6, 0.0, "a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z", true);
    pub(super) const SQUARE: Self = Self(-3.5, -3.5, "h7v7h-7z", false);
    pub(super) const FRAME: Self = Self(-3.0, -3.0, "h6v6h-6z", true);
    pub(super) const DIAMOND: Self = Self(0.0, -4.8, "l4.8 4.8l-4.8 4.8l-4.8 -4.8z", false);
    pub(super) const LOZENGE: Self = Self(0.0, -4.3, "l4.3 4.3l-4.3 4.3l-4.3 -4.3z", true);
    pub(super) const TRIANGLE: Self = Self(0.0, -5.0, "l4.8 8.2h-9.6z", false);
    /// Arrows to a value beyond an end of the axis.
    pub(super) const LEFT: Self = Self(0.0, 0.0, "l8 -4.6v9.2z", false);
    pub(super) const RIGHT: Self = Self(0.0, 0.0, "l-8 -4.6v9.2z", false);
    pub(super) const CORNER: Self = Self(0.0, 0.0, "v8l-8 -8z", false);
}

pub(super) struct Canvas {
    body: String,
    pub(super) width: Width,
}

/// Formats coordinates with one decimal: a tenth of a pixel.
macro_rules! put {
    ($canvas:expr, $($arguments:tt)*) => {
        write!($canvas.body, $($arguments)*).expect("a String takes all")
    };
}

impl Canvas {
    pub(super) fn new(width: Width) -> Self {
        Self { body: String::new(), width }
    }

    pub(super) fn path(&mut self, class: &str, points: impl IntoIterator<Item = [f64; 2]>) {
        let points = points.into_iter().map(|[x, y]| format!("{x:.1} {y:.1}")).collect::<Vec<_>>();
        let start = if points.is_empty() { "" } else { "M" };
        put!(self, r#"<path class="{class}" d="{start}{}"/>"#, points.join("L"));
    }

    /// Draws a text with its baseline at `y`, unless it is empty.
    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) };
        if !text.is_empty() {
            put!(self, r#"<text{class} x="{x:.1}" y="{y:.1}">{}</text>"#, escape(text));
        }
    }

    pub(super) fn open(&mut self, class: &str, series: &str) {
        put!(self, r#"<g class="{class}" data-series="{}">"#, escape(series));
    }

    pub(super) fn close(&mut self) {
        self.body.push_str("</g>");
    }

    /// Draws a value with its tooltip; with an empty tip, a legend's mark.
    pub(super) fn mark(&mut self, shape: Shape, [x, y]: [f64; 2], tip: &str) {
        let (Shape(right, down, path, hollow), title) = (shape, title(tip));
        let (x, y, hollow) = (x + right, y + down, if hollow { " hollow" } else { "" });
        put!(self, r#"<path class="k{hollow}" d="M{x:.1} {y:.1}{path}">{title}</path>"#);
    }

    /// Draws a rectangle, given by a corner and its extent, with round corners and a tooltip.
    pub(super) fn bar(&mut self, class: &str, [x, y, across, down]: [f64; 4], round: f64, tip: &str) {
        let (size, title) = (format!(r#"width="{across:.1}" height="{down:.1}""#), title(tip));
        put!(
            self,
            r#"<rect class="k {class}" x="{x:.1}" y="{y:.1}" {size} rx="{round}">{title}</rect>"#
        );
    }

    /// Draws a legend at the top, in as many lines as its keys and their names need. Returns the height.
    pub(super) fn legend<K>(
        &mut self,
        keys: &[(K, String)],
        draw: impl Fn(&mut Self, &K, &str, [f64; 2]),
    ) -> f64 {
        let (mut x, mut y) = (8.0, 14.0);
        for (key, name) in keys {
            let across = 32.0 + 6.6 * name.chars().count() as f64;
            if x > 8.0 && x + across > self.width.units() {
                (x, y) = (8.0, y + 18.0);
            }
            draw(self, key, name, [x, y]);
            self.close();
            x += across + 10.0;
        }
        if keys.is_empty() { 4.0 } else { y + 10.0 }
    }

    /// Draws a legend of lines with their marks. Returns the height.
    pub(super) fn lines(&mut self, keys: &[((&str, Shape), String)]) -> f64 {
        self.legend(keys, |canvas, (class, shape), name, [x, y]| {
            canvas.open(class, name);
            canvas.path("line", [[x, y - 4.0], [x + 18.0, y - 4.0]]);
            canvas.mark(*shape, [x + 9.0, y - 4.0], "");
            canvas.text("name", [x + 23.0, y], name);
        })
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

pub(super) fn standalone(svg: &str, title: &str) -> String {
    let extent = svg.split('"').nth(3).and_then(|view| view.strip_prefix("0 0 ")).unwrap_or_default();
    let (across, down) = extent.split_once(' ').unwrap_or_default();
    let (tag, body) = svg.split_once('>').unwrap_or_default();
    let tag = tag.replacen("<svg ", &format!(r#"<svg width="{across}" height="{down}" "#), 1);
    let tag = tag.replacen(r#" tabindex="0""#, "", 1);
    let tag = tag.replacen(r#"role="group" aria-roledescription="chart""#, r#"role="img""#, 1);
    let (title, style) = (escape(title), style());
    format!(
        r#"{tag}><title>{title}</title><style>{style}</style><rect class="back" width="{across}" height="{down}" rx="6"/>{body}"#
    ) + "\n"
}

/// Returns the style of a file: the style of the page, with values in place of its variables, which
/// librsvg and other renderers do not support. Values for dark screens follow, for renderers with media
/// queries.
fn style() -> String {
    let look = LOOK.replace("--c:", "color:").replace("var(--c)", "currentColor");
    let mut parts = look.splitn(3, '\n');
    let [light, dark, rules] = [(); 3].map(|()| parts.next().unwrap_or_default());
    // A line of CSS with variables, and rules that use them.
    let resolved = |variables: &str, rules: &str| {
        let variables = variables.split(['{', ';', '}']).filter_map(|part| part.split_once(':'));
        let resolve = |css: String, (name, value)| css.replace(&format!("var({name})"), value);
        variables.filter(|(name, _)| name.starts_with("--")).fold(rules.to_owned(), resolve)
    };
    let coloured: String = rules.split_inclusive('}').filter(|rule| rule.contains("var(")).collect();
    let (light, dark) = (resolved(light, rules), resolved(dark, &coloured));
    format!("{}@media(prefers-color-scheme:dark){{{}}}", light.trim(), dark.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_colours_for_renderers_without_variables() {
        let file = standalone(&Canvas::new(Width::Wide).finish("a title", 20.0), "a title");
        assert!(file.starts_with("<svg width=\"880\" height=\"20\" class=\"chart wide\""), "{file}");
        assert!(!file.contains("var(") && !file.contains("--"), "{file}");
        let (light, dark) = file.split_once("@media(prefers-color-scheme:dark)").unwrap();
        for (style, rust, panel) in [(light, "#bf3f0b", "#ffffff"), (dark, "#ff9460", "#141a21")] {
            assert!(style.contains(&format!(".rust{{color:{rust}}}")), "{style}");
            assert!(style.contains(&format!(".chart .back{{fill:{panel}}}")), "{style}");
        }
        assert!(light.contains(".chart .line{fill:none;stroke:currentColor;"), "{light}");
    }
}
