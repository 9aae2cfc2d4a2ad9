//! Formats of numbers and texts in the page and the tables.

pub(super) fn count(n: u64) -> String {
    match n {
        n if n.is_power_of_two() && n >= 1024 => power(n.ilog2()),
        n => thousands(&n.to_string()),
    }
}

pub(super) fn power(exponent: u32) -> String {
    let raised = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32('⁰' as u32 + digit as u32 - '0' as u32).unwrap_or(digit),
    };
    format!("2{}", exponent.to_string().chars().map(raised).collect::<String>())
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

pub(super) fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

pub(super) fn tick(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    thousands(&rounded.to_string())
}

/// Groups digits in threes, with narrow no-break spaces.
fn thousands(digits: &str) -> String {
    let (whole, rest) = digits.split_once('.').map_or((digits, ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && whole.len() > 3 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// Shortens a name to at most `most` characters.
///
/// Names come from results files, which may have been written by anybody.
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
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '`' | '|' | '<' | '>' | '[' | ']' | '*' | '&') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Formats text as inline code in Markdown, where only a backtick has a meaning.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown = [0.934, 9.994, 9.996, 93.14, 99.96, 931.4, 9310.2, 1_234_567.0].map(digits);
        assert_eq!(
            shown,
            ["0.93", "9.99", "10.0", "93.1", "100", "931", "9\u{202f}310", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!([1 << 10, 1 << 22, 1 << 30].map(count), ["2¹⁰", "2²²", "2³⁰"]);
        assert_eq!([512, 1_000_003].map(count), ["512", "1\u{202f}000\u{202f}003"]);
        assert_eq!([0.1, 0.95, 1000.0, 20.0].map(tick), ["0.1", "0.95", "1\u{202f}000", "20"]);
    }

    #[test]
    fn of_a_long_name_its_beginning_is_shown() {
        assert_eq!(["ééé", "éééé"].map(|name| shortened(name, 3)), ["ééé", "éé…"]);
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
        assert_eq!(markdown("<b>|`x`|[y](z)*&"), r"\<b\>\|\`x\`\|\[y\](z)\*\&");
        assert_eq!(code("a`b"), "`a'b`");
    }
}
