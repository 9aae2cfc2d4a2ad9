//! Numbers formatted as by C's `printf`: the digits of floats are rounded once, half to even.

/// Digits of a float after the decimal point if a conversion gives no precision.
const DIGITS: usize = 6;

struct How {
    left: bool,
    zeros: bool,
    alternate: bool,
    sign: &'static str,
    width: usize,
    precision: Option<usize>,
}

impl How {
    fn of(how: &str) -> Self {
        let (set, rest) = flags(how);
        let (width, precision) = rest.split_once('.').map_or((rest, None), |(w, p)| (w, Some(p)));
        // A width or precision without digits is 0.
        let number = |digits: &str| digits.parse().unwrap_or(0);
        let sign = if set.contains('+') {
            "+"
        } else if set.contains(' ') {
            " "
        } else {
            ""
        };
        Self {
            left: set.contains('-'),
            zeros: set.contains('0'),
            alternate: set.contains('#'),
            sign,
            width: number(width),
            precision: precision.map(number),
        }
    }

    /// Fills a text up to the width, with zeros after `prefix` if the flags say so and `zeros` is set.
    fn padded(&self, prefix: &str, text: &str, zeros: bool) -> String {
        let fill = self.width.saturating_sub(prefix.len() + text.len());
        if self.left {
            format!("{prefix}{text}{}", " ".repeat(fill))
        } else if self.zeros && zeros {
            format!("{prefix}{}{text}", "0".repeat(fill))
        } else {
            format!("{}{prefix}{text}", " ".repeat(fill))
        }
    }
}

pub(super) fn flags(how: &str) -> (&str, &str) {
    let behind = how.trim_start_matches(['-', '+', ' ', '#', '0']);
    how.split_at(how.len() - behind.len())
}

/// Formats an integer, whose sign and magnitude these are, by `%d`, `%u`, `%x`, `%X` or `%o`.
pub(super) fn integer_text(how: &str, letter: char, is_negative: bool, magnitude: u64) -> String {
    let how = How::of(how);
    let mut digits = match letter {
        'x' => format!("{magnitude:x}"),
        'X' => format!("{magnitude:X}"),
        'o' => format!("{magnitude:o}"),
        _ => magnitude.to_string(),
    };
    if let Some(least) = how.precision {
        digits = if magnitude == 0 { String::new() } else { digits };
        digits.insert_str(0, &"0".repeat(least.saturating_sub(digits.len())));
    }
    let prefix = match letter {
        'd' | 'i' => {
            if is_negative {
                "-"
            } else {
                how.sign
            }
        }
        'x' if how.alternate && magnitude != 0 => "0x",
        'X' if how.alternate && magnitude != 0 => "0X",
        'o' if how.alternate && !digits.starts_with('0') => "0",
        _ => "",
    };
    how.padded(prefix, &digits, how.precision.is_none())
}

/// Formats a number by `%f`, `%e`, `%g` or their upper-case forms. Neither width nor precision may
/// exceed 2^15.
pub(super) fn float_text(how: &str, letter: char, value: f64) -> String {
    let how = How::of(how);
    let sign = if value.is_sign_negative() { "-" } else { how.sign };
    let (magnitude, precision) = (value.abs(), how.precision.unwrap_or(DIGITS));
    let mut text = if !value.is_finite() {
        if value.is_nan() { "nan" } else { "inf" }.to_owned()
    } else {
        match letter.to_ascii_lowercase() {
            'e' => with_exponent(magnitude, precision, how.alternate),
            'g' => shortest(magnitude, precision.max(1), how.alternate),
            _ => fixed(magnitude, precision, how.alternate),
        }
    };
    if letter.is_ascii_uppercase() {
        text.make_ascii_uppercase();
    }
    how.padded(sign, &text, value.is_finite())
}

fn fixed(magnitude: f64, precision: usize, alternate: bool) -> String {
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{magnitude:.precision$}{point}")
}

fn with_exponent(magnitude: f64, precision: usize, alternate: bool) -> String {
    let (digits, exponent) = in_digits(magnitude, precision);
    let point = if alternate && precision == 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}{point}e{sign}{:02}", exponent.abs())
}

/// Formats by `%g`: fixed or with an exponent, depending on the exponent's value; without trailing zeros
/// unless `alternate` is set.
fn shortest(magnitude: f64, precision: usize, alternate: bool) -> String {
    let (_, exponent) = in_digits(magnitude, precision - 1);
    let is_fixed = usize::try_from(exponent).map_or(exponent >= -4, |exponent| exponent < precision);
    // The precision of `%g` counts significant digits.
    let behind = (precision as i64 - 1 - i64::from(exponent)).max(0) as usize;
    let text = if is_fixed {
        fixed(magnitude, behind, alternate)
    } else {
        with_exponent(magnitude, precision - 1, alternate)
    };
    if alternate {
        return text;
    }
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{exponent}")
}

/// Returns the digits, with the point after the first one, and the decimal exponent.
fn in_digits(magnitude: f64, precision: usize) -> (String, i32) {
    let text = format!("{magnitude:.precision$e}");
    let (digits, exponent) = text.split_once('e').expect("Rust writes an exponent");
    (digits.to_owned(), exponent.parse().expect("and it is a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are the output of glibc.
    #[test]
    fn integers_are_written_as_c_does() {
        for (how, letter, value, expected) in [
            (".10", 'd', 3, "0000000003"),
            (".3", 'd', -3, "-003"),
            (".0", 'd', 0, ""),
            (".", 'x', 0, ""),
            ("8.3", 'd', 5, "     005"),
            ("-8.3", 'd', 5, "005     "),
            ("+.3", 'd', 5, "+005"),
            (".3", 'x', 10, "00a"),
            ("#.4", 'x', 10, "0x000a"),
            (".3", 'u', 7, "007"),
            ("05", 'd', 42, "00042"),
            ("+05", 'd', 3, "+0003"),
            ("-05", 'd', 3, "3    "),
            (" 05", 'd', 7, " 0007"),
            ("08.3", 'd', -7, "    -007"),
            (".3", 'o', 8, "010"),
            ("#", 'o', 8, "010"),
            ("#.3", 'o', 8, "010"),
            ("#.0", 'o', 0, "0"),
            ("#", 'x', 0, "0"),
            ("#", 'X', 255, "0XFF"),
            ("#08", 'x', 255, "0x0000ff"),
            ("-+6", 'd', 7, "+7    "),
            ("+", 'u', 7, "7"),
            ("", 'i', i64::MIN, "-9223372036854775808"),
        ] {
            let found = integer_text(how, letter, value < 0, value.unsigned_abs());
            assert_eq!(found, expected, "%{how}{letter} of {value}");
        }
    }

    /// The expected texts are the output of glibc.
    #[test]
    fn floats_are_written_as_c_does() {
        for (how, letter, value, expected) in [
            ("", 'g', 0.0, "0"),
            ("", 'g', -0.0, "-0"),
            ("10", 'g', 0.0, "         0"),
            ("-10", 'g', -2.5, "-2.5      "),
            ("010", 'g', -2.5, "-0000002.5"),
            ("+", 'g', 0.1, "+0.1"),
            (" ", 'g', 0.1, " 0.1"),
            ("", 'g', 9.999_999_9, "10"),
            ("", 'g', 999_999.5, "1e+06"),
            ("", 'g', 123_456.0, "123456"),
            ("", 'g', 1_234_567.0, "1.23457e+06"),
            ("", 'g', 1e-4, "0.0001"),
            ("", 'g', 1.5e-5, "1.5e-05"),
            ("", 'G', 1e100, "1E+100"),
            (".3", 'g', 99_999.95, "1e+05"),
            (".0", 'g', 0.000_123_456_78, "0.0001"),
            (".10", 'g', 123_456_789.123, "123456789.1"),
            ("#", 'g', 1.0, "1.00000"),
            ("#.3", 'g', 1e5, "1.00e+05"),
            ("", 'e', 0.0, "0.000000e+00"),
            ("", 'e', 9.999_999_9, "1.000000e+01"),
            ("12.3", 'E', -0.0, "  -0.000E+00"),
            ("#.0", 'e', 100.0, "1.e+02"),
            ("", 'f', 9.999_999_9, "10.000000"),
            (".0", 'f', -2.5, "-2"),
            (".0", 'f', 3.5, "4"),
            ("#.0", 'f', 0.5, "0."),
            ("+8.2", 'f', 0.125, "   +0.12"),
            ("08.3", 'f', -2.5, "-002.500"),
            ("08", 'f', f64::INFINITY, "     inf"),
            ("", 'F', f64::NEG_INFINITY, "-INF"),
            ("", 'e', f64::NAN, "nan"),
        ] {
            assert_eq!(float_text(how, letter, value), expected, "%{how}{letter} of {value}");
        }
        let large = "10000000000000000159028911097599180468360808563945281389781327557747838772170381060813469985856815104";
        assert_eq!(float_text(".0", 'f', 1e100), large);
    }
}
