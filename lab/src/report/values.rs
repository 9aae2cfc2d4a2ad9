//! Numbers within sentences: between `<!-- value: EXPRESSION -->` and `<!-- /value -->`.
//!
//! An expression is a measure, the variants that it is of, and a number of elements:
//!
//! | measure | of | gives |
//! |---|---|---|
//! | `us`, `ms` | a variant | its time, with the unit |
//! | `copies` | a transfer | the time of its copies alone, in µs |
//! | `gbps` | a variant | its bandwidth, with the unit |
//! | `percent` | a variant | its part of the memory's peak |
//! | `times` | two variants | how many times the second one's time the first one takes |
//! | `more` | two variants | by how many percent the first one takes longer than the second |
//! | `less` | two variants | by how many percent the first one takes less time than the second |

use anyhow::{Context, Result, bail};

use super::{blocks::plain, figures::sums::is_sum, lines::Point, results::Results};

const START: &str = "<!-- value:";
const END: &str = "<!-- /value -->";

/// Returns a Markdown text with its numbers updated. Numbers without a measurement are unchanged.
///
/// # Errors
/// An invalid expression, or one without an end.
pub(super) fn renew(text: &str, results: &Results) -> Result<String> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(START) {
        let (before, value) = rest.split_at(at);
        let (marker, after) = value.split_once("-->").context("a value's marker without -->")?;
        let expression = marker[START.len()..].trim();
        let inside = after.find(START).unwrap_or(after.len());
        let (old, _) = after[..inside]
            .split_once(END)
            .with_context(|| format!("value `{expression}` has no {END}"))?;
        let new = value_of(expression, results).with_context(|| format!("value `{expression}`"))?;
        done += &format!("{before}{marker}-->{}{END}", new.as_deref().unwrap_or(old));
        rest = &after[old.len() + END.len()..];
    }
    if rest.contains(END) {
        bail!("{END} without a beginning");
    }
    Ok(done + rest)
}

/// Returns the expressions whose values differ between two versions of a text.
pub(super) fn stale(old: &str, new: &str) -> Vec<String> {
    let values = |text: &str| -> Vec<String> {
        text.split(START)
            .skip(1)
            .map(|rest| rest.split(END).next().unwrap_or_default().to_owned())
            .collect()
    };
    let named = |value: &String| value.split("-->").next().unwrap_or_default().trim().to_owned();
    let pairs = values(old).into_iter().zip(values(new));
    pairs.filter(|(old, new)| old != new).map(|(old, _)| named(&old)).collect()
}

fn value_of(expression: &str, results: &Results) -> Result<Option<String>> {
    let words: Vec<&str> = expression.split_whitespace().collect();
    let [measure, variants @ .., n] = words.as_slice() else {
        bail!("is no measure, variants and a number of elements")
    };
    let n = elements(n)?;
    let points: Option<Vec<&Point>> = variants.iter().map(|id| point(results, id, n)).collect();
    let Some(points) = points else { return Ok(None) };
    let text = match (*measure, points.as_slice()) {
        ("us", [one]) => Some(format!("{} µs", plain(one.median))),
        ("ms", [one]) => Some(format!("{} ms", plain(one.median / 1e3))),
        ("copies", [one]) => one.copy_us.map(|copies| format!("{} µs", plain(copies))),
        ("gbps", [one]) => one.gbps.map(|gbps| format!("{} GB/s", plain(gbps))),
        ("percent", [one]) => one.percent.map(|percent| format!("{percent:.0} %")),
        ("times", [one, other]) => Some(format!("{} times", plain(one.median / other.median))),
        ("more", [one, other]) => Some(format!("{:.0} %", 100.0 * (one.median / other.median - 1.0))),
        ("less", [one, other]) => Some(format!("{:.0} %", 100.0 * (1.0 - one.median / other.median))),
        _ => bail!("no `{measure}` of {} variants; report/values.rs lists the measures", points.len()),
    };
    Ok(text)
}

/// Parses a number of elements: 1000003, or 2^28.
fn elements(text: &str) -> Result<u64> {
    let n = match text.split_once('^') {
        Some(("2", exponent)) => exponent.parse().ok().and_then(|exponent| 1u64.checked_shl(exponent)),
        _ => text.parse().ok(),
    };
    n.with_context(|| format!("`{text}` is no number of elements"))
}

/// Returns a sum or a move of f32, from the ladder's table or else from times taken in turns.
fn point<'a>(results: &'a Results, id: &str, n: u64) -> Option<&'a Point> {
    let is_it = |p: &Point| {
        let usual = is_sum(p) || p.op.is_none() && p.dtype == "f32";
        p.variant == id && p.n == n && usual && !p.graph && !p.is_nvvm() && p.peer != "cuda-c"
    };
    let alone = results.choose_runs(is_it).points;
    alone.first().or(results.choose(is_it).points.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::results::Set;

    fn results() -> Results {
        let point = |variant: &str, n, median| Point {
            variant: variant.to_owned(),
            peer: "rust-llvm".to_owned(),
            op: Some("sum".to_owned()),
            dtype: "f32".to_owned(),
            n,
            single: true,
            median,
            gbps: Some(2550.0),
            percent: Some(53.2),
            copy_us: Some(4846.7),
            ..Point::default()
        };
        let points = vec![
            point("serial", 1_000_003, 34_420.0),
            point("cluster", 1 << 28, 780.0),
            point("redux", 1 << 28, 420.0),
        ];
        let file = "runs.jsonl".to_owned();
        let set = Set { file, points, ..Set::default() };
        Results { sets: vec![set], tables: None, groups: None, wrong: 0 }
    }

    #[test]
    fn sentences_have_the_numbers_of_the_results() {
        for (expression, value) in [
            ("ms serial 1000003", "34.4 ms"),
            ("us serial 1000003", "34420 µs"),
            ("copies cluster 2^28", "4847 µs"),
            ("gbps cluster 2^28", "2550 GB/s"),
            ("percent cluster 2^28", "53 %"),
        ] {
            let text = format!("It takes <!-- value: {expression} -->old<!-- /value --> here.");
            let new = format!("It takes <!-- value: {expression} -->{value}<!-- /value --> here.");
            assert_eq!(renew(&text, &results()).unwrap(), new);
            assert_eq!(stale(&text, &new), [expression]);
            assert_eq!(stale(&new, &new), [""; 0]);
        }
        // Values without a measurement are unchanged.
        let text = "<!-- value: us serial 2^30 -->34 s<!-- /value -->";
        assert_eq!(renew(text, &results()).unwrap(), text);
    }

    #[test]
    fn two_variants_are_held_against_each_other() {
        // redux has only i32, whose sum stands for the variant.
        let mut results = results();
        results.sets[0].points[2].dtype = "i32".to_owned();
        for (expression, value) in [("times", "1.86 times"), ("more", "86 %")] {
            let text = format!("<!-- value: {expression} cluster redux 2^28 --><!-- /value -->");
            let new = renew(&text, &results).unwrap();
            assert!(new.contains(&format!("-->{value}<!--")), "{new}");
        }
        let new = renew("<!-- value: less redux cluster 2^28 --><!-- /value -->", &results).unwrap();
        assert!(new.contains("-->46 %<!--"), "{new}");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for (text, part) in [
            ("<!-- value: us serial 2^28 -->1", "`us serial 2^28` has no <!-- /value -->"),
            ("<!-- value: us serial", "without -->"),
            ("1<!-- /value -->", "without a beginning"),
            ("<!-- value: us serial many --><!-- /value -->", "`many` is no number of elements"),
            ("<!-- value: years serial 1000003 --><!-- /value -->", "no `years` of 1 variants"),
            ("<!-- value: us --><!-- /value -->", "is no measure, variants and a number"),
        ] {
            let error = format!("{:#}", renew(text, &results()).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
