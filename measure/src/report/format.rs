//! Formats of numbers and texts, and lists without repetition.

use crate::compare::timed::sizes::show;

pub(super) fn count(n: u64) -> String {
    match n {
        n if n.is_power_of_two() && n >= 1024 => power(n.ilog2()),
        n => thousands(&n.to_string()),
    }
}

/// Formats a number of elements for Markdown: 2^28.
pub(super) fn shown(n: u64) -> String {
    if n.is_power_of_two() { show(n) } else { count(n) }
}

pub(super) fn power(exponent: u32) -> String {
    let raised = |digit: char| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10)? as usize);
    format!("2{}", exponent.to_string().chars().filter_map(raised).collect::<String>())
}

/// Formats with three or more digits: 0.93, 9.31, 93.1, 931, 9 310.
pub(super) fn digits(value: f64) -> String {
    // The limits account for rounding, so that 9.996 is 10.0 and not 10.00.
    match value.abs() {
        value if value >= 99.95 => thousands(&format!("{value:.0}")),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Formats like [`digits`], without narrow spaces, so that a number can be searched for.
pub(super) fn plain(value: f64) -> String {
    digits(value).replace('\u{202f}', "")
}

pub(super) fn fixed<const DECIMALS: usize>(value: f64) -> String {
    format!("{value:.DECIMALS$}")
}

pub(super) fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

pub(super) fn or_empty<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(String::new, show)
}

pub(super) fn marked(cell: String, is_marked: bool) -> String {
    if is_marked { format!("**{cell}**") } else { cell }
}

pub(super) fn tick(value: f64) -> String {
    thousands(&((value * 1000.0).round() / 1000.0).to_string())
}

/// Groups digits in threes, with narrow no-break spaces.
fn thousands(digits: &str) -> String {
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut grouped = digits.to_owned();
    (1..whole)
        .rev()
        .filter(|at| (whole - at).is_multiple_of(3))
        .for_each(|at| grouped.insert(at, '\u{202f}'));
    grouped
}

/// Shortens a name to at most `most` characters. Names come from results files, which are not trusted.
pub(super) fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn markdown(text: &str) -> String {
    let escaped = |c: char| r"\`|<>[]*&".contains(c).then_some('\\').into_iter().chain([c]);
    text.chars().flat_map(escaped).collect()
}

/// Formats text as inline code in Markdown, where only a backtick has a meaning.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

pub(super) fn join(texts: impl IntoIterator<Item = String>, between: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(between)
}

pub(super) fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    values.into_iter().collect::<std::collections::BTreeSet<T>>().into_iter().collect()
}

/// Returns the distinct values in order of first appearance.
pub(super) fn in_order<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown = [0.934, 9.994, 9.996, 93.14, 99.96, 931.4, 9310.2, 1_234_567.0].map(plain);
        assert_eq!(shown, ["0.93", "9.99", "10.0", "93.1", "100", "931", "9310", "1234567"]);
        assert_eq!(
            [1 << 10, 1 << 22, 512, 1_000_003].map(count),
            ["2¹⁰", "2²²", "512", "1\u{202f}000\u{202f}003"]
        );
        assert_eq!([0.1, 0.95, 1000.0, 20.0].map(tick), ["0.1", "0.95", "1\u{202f}000", "20"]);
        assert_eq!(["ééé", "éééé"].map(|name| shortened(name, 3)), ["ééé", "éé…"]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
        assert_eq!(markdown("<b>|`x`|[y](z)*&"), r"\<b\>\|\`x\`\|\[y\](z)\*\&");
        assert_eq!(code("a`b"), "`a'b`");
    }
}
