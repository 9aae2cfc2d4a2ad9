//! Validation of results files: no text that a page, a table or a terminal would interpret, and no
//! number that cannot be a measurement.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::lines::{Code, Point};

const MOST: f64 = 1e15;

/// Checks that no string has control characters.
///
/// # Errors
/// Names the field.
pub(super) fn require_text(value: &Value) -> Result<()> {
    // The JSON parser limits the depth of recursion.
    match value {
        Value::String(text) if text.contains(char::is_control) => {
            bail!("has control characters: {}", warpfold_suite::visible(text))
        }
        Value::Array(items) => items.iter().try_for_each(require_text),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            ensure!(!name.contains(char::is_control), "has control characters in the name of a field");
            require_text(value)
        }),
        _ => Ok(()),
    }
}

/// Checks a point's names and times.
///
/// # Errors
/// An invalid name or time.
pub(super) fn require_point(point: &Point) -> Result<()> {
    for name in [Some(&point.variant), Some(&point.peer), point.op.as_ref(), Some(&point.dtype)] {
        name.map_or(Ok(()), |name| require_name(name))?;
    }
    let of_pair =
        |pair: Option<(f64, f64)>| pair.map_or([None; 2], |(low, high)| [Some(low), Some(high)]);
    let ratio = |ratio: Option<warpfold_bench::Ratio>| {
        ratio.map_or([None; 3], |ratio| [ratio.median, ratio.q1, ratio.q3].map(Some))
    };
    let times = [Some(point.median), Some(point.fastest), point.copy_us, point.reduce_us]
        .into_iter()
        .chain(of_pair(Some(point.spread)))
        .chain(of_pair(point.copy_spread))
        .chain([point.gbps, point.percent, point.over_limit, point.over_empty])
        .chain([point.over_cuda_c, point.over_llvm, point.over_cub].into_iter().flat_map(ratio));
    times.flatten().try_for_each(require_measured)
}

/// Checks a time, a rate or a ratio.
///
/// # Errors
/// A number that cannot be a measurement.
pub(super) fn require_measured(number: f64) -> Result<()> {
    ensure!(
        number > 0.0 && number <= MOST,
        "has {number} where a time or a rate must be above 0, up to {MOST:e}"
    );
    Ok(())
}

/// Checks the names of machine code like [`require_point`].
///
/// # Errors
/// An invalid name.
pub(super) fn require_code(code: &Code) -> Result<()> {
    for name in [&code.entry, &code.variant, &code.dtype, &code.compiler, &code.arch] {
        require_name(name)?;
    }
    [&code.op, &code.kernel].into_iter().flatten().try_for_each(|name| require_name(name))
}

fn require_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    ensure!(!name.is_empty() && name.chars().all(is_plain), "has `{name}` where a name must be");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_wherever_they_are() {
        let is_taken = |text: &str| require_text(&serde_json::from_str(text).unwrap()).is_ok();
        assert!(is_taken(r#"{"gpu": "NVIDIA H200", "n": [1, "µs"]}"#));
        for text in [r#"{"gpu": "a\nb"}"#, r#"[[{"x": "\u001b[2J"}]]"#, r#"{"a\u009b": 1}"#] {
            assert!(!is_taken(text), "{text}");
        }
    }

    #[test]
    fn times_and_names_that_cannot_be_are_refused() {
        let point = || Point {
            variant: "sequential".into(),
            peer: "rust-llvm".into(),
            dtype: "f32".into(),
            median: 1.0,
            fastest: 1.0,
            spread: (1.0, 1.0),
            ..Point::default()
        };
        require_point(&point()).unwrap();
        let wrong = [
            Point { median: 0.0, ..point() },
            Point { median: -1.0, ..point() },
            Point { spread: (1.0, 1e300), ..point() },
            Point { gbps: Some(f64::INFINITY), ..point() },
            Point { percent: Some(f64::NAN), ..point() },
            Point { variant: "<script>".into(), ..point() },
            Point { op: Some(String::new()), ..point() },
            Point { peer: "a|b".into(), ..point() },
        ];
        for point in wrong {
            assert!(require_point(&point).is_err(), "{point:?}");
        }
    }
}
