//! Blocks of Markdown files between `<!-- results: NAME -->` and `<!-- /results -->`, and numbers within
//! sentences between `<!-- value: EXPRESSION -->` and `<!-- /value -->`.
//!
//! An expression consists of a measure, its variants, and a number of elements:
//!
//! | measure | operands | value |
//! |---|---|---|
//! | `us`, `ms` | a variant | its time, with the unit |
//! | `copies` | a transfer | the time of its copies alone, in µs |
//! | `gbps` | a variant | its bandwidth, with the unit |
//! | `percent` | a variant | its bandwidth in percent of the memory's peak |
//! | `times` | two variants | the first one's time as a multiple of the second one's |
//! | `more` | two variants | by how many percent the first one takes longer than the second |
//! | `less` | two variants | by how many percent the first one takes less time than the second |

use anyhow::{Error, Result, bail};
use warpfold_suite::cli::parse_count;

use super::{figure::*, groups, machine_code, matrix, ratios, reducer, sums};
use crate::markers::replace;

const PLOTS: [&str; 2] = ["bandwidth", "ratio"];

fn block<'a>(name: &str, results: &'a Results) -> Result<Block<'a>> {
    let text = |text: Option<String>| Block { text: text.unwrap_or_default(), ..Block::default() };
    Ok(match name {
        "codegen" => ratios::codegen(results),
        "groups" => groups::block(results),
        "headline" => sums::headline(results),
        "inputs" => reducer::inputs(results),
        "ladder" => sums::variants(results),
        "machine-code" => text(machine_code::summary(results)),
        "reducer" => reducer::sums_block(results),
        "reducer-aims" => reducer::aims(results),
        "reducer-graph" => reducer::graphs(results),
        "reducer-summary" => text(reducer::summary(results)),
        "reducer-types" => reducer::types_block(results),
        "rows" => matrix::block(results),
        "twins" => ratios::twins(results),
        "untuned" => reducer::untuned(results),
        _ => bail!("no block is called `{name}`; report/docs.rs lists them"),
    })
}

/// Returns a Markdown text with its blocks and numbers updated. Numbers without a measurement are
/// unchanged. `to_docs` is the relative path from the text's folder to docs/.
pub(super) fn renewed(
    text: &str,
    results: &Results,
    figures: &[Figure],
    to_docs: &str,
) -> Result<String> {
    let images = |ids: &[&str]| -> Vec<String> {
        let figures = figures.iter().filter(|figure| ids.contains(&figure.id.as_str()));
        figures
            .map(|figure| format!("![{}]({to_docs}plots/{}.svg)\n", figure.title, figure.id))
            .collect()
    };
    let text = replace(text, "<!-- results:", "<!-- /results -->", |name, _| {
        if name == "plots" {
            return Ok(format!("\n{}", images(&PLOTS).join("\n")));
        }
        let Block { picture, text, tables, sets } = block(name, results)?;
        if !tables.is_empty() && tables.iter().all(|table| table.rows.is_empty()) {
            return Ok("\n".to_owned());
        }
        let mut parts = images(&[picture]);
        parts.extend((!text.is_empty()).then(|| text + "\n"));
        parts.extend(tables.iter().map(|table| match table.name.as_str() {
            "" => table.markdown(),
            name => format!("{name}:\n\n{}", table.markdown()),
        }));
        parts.extend((!tables.is_empty()).then(|| results.source(&sets)));
        Ok(format!("\n{}", parts.join("\n")))
    })?;
    replace(&text, "<!-- value:", "<!-- /value -->", |expression, old| {
        Ok(value(expression, results)?.unwrap_or_else(|| old.to_owned()))
    })
}

fn value(expression: &str, results: &Results) -> Result<Option<String>> {
    let words: Vec<&str> = expression.split_whitespace().collect();
    let [measure, variants @ .., n] = words.as_slice() else {
        bail!("expected a measure, variants and a number of elements")
    };
    let n = parse_count(n).map_err(Error::msg)?;
    let points: Option<Vec<&Point>> = variants.iter().map(|id| point(results, id, n)).collect();
    let Some(points) = points else { return Ok(None) };
    Ok(match (*measure, points.as_slice()) {
        ("us", [one]) => Some(format!("{} µs", plain(one.median))),
        ("ms", [one]) => Some(format!("{} ms", plain(one.median / 1e3))),
        ("copies", [one]) => one.copy_us.map(|copies| format!("{} µs", plain(copies.median))),
        ("gbps", [one]) => one.gbps.map(|gbps| format!("{} GB/s", plain(gbps))),
        ("percent", [one]) => one.percent.map(|percent| format!("{percent:.0} %")),
        ("times", [one, other]) => Some(format!("{} times", plain(one.median / other.median))),
        ("more", [one, other]) => Some(format!("{:.0} %", 100.0 * (one.median / other.median - 1.0))),
        ("less", [one, other]) => Some(format!("{:.0} %", 100.0 * (1.0 - one.median / other.median))),
        _ => bail!("no `{measure}` of {} variants; report/docs.rs lists the measures", points.len()),
    })
}

/// Returns the result of a sum or move of f32, from the ladder's table or else from a comparison.
fn point<'a>(results: &'a Results, id: &str, n: u64) -> Option<&'a Point> {
    let is_it = |p: &Point| {
        let usual = p.is_sum() || p.op.is_none() && p.dtype == "f32";
        p.variant == id && p.n == n && usual && !p.graph && !p.is_nvvm() && p.peer != "cuda-c"
    };
    let alone = results.choose_runs(is_it).points;
    alone.first().or(results.choose(is_it).points.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_the_numbers_of_the_results() {
        let sample =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../xtask/tests/commands/report/results/sample-gpu");
        let results = Results::read(std::path::Path::new(sample), "sample").unwrap();
        let value = |text: &str| renewed(text, &results, &[], "").map_err(|error| format!("{error:#}"));
        for (expression, expected) in [
            ("us vectorized 2^22", "11.6 µs"),
            ("ms serial 1000003", "1.00 ms"),
            ("copies transfer_pinned 2^22", "336 µs"),
            ("gbps vectorized 2^28", "3594 GB/s"),
            ("percent vectorized 2^28", "90 %"),
            // redux has no f32, so that its sum of i32 represents the variant.
            ("times redux vectorized 2^28", "1.82 times"),
            ("more redux vectorized 2^28", "82 %"),
            ("less vectorized redux 2^28", "45 %"),
            ("us vectorized 2^30", "old"),
        ] {
            let text = format!("It takes <!-- value: {expression} -->old<!-- /value --> here.");
            let new = text.replace("old", expected);
            assert_eq!(value(&text).unwrap(), new);
        }
        for (text, part) in [
            ("<!-- value: us serial 2^28 -->1", "`us serial 2^28` has no <!-- /value -->"),
            ("<!-- value: us serial", "without -->"),
            ("1<!-- /value -->", "without a beginning"),
            ("<!-- value: us serial many --><!-- /value -->", "write a count such as 1000"),
            ("<!-- value: years serial 1000003 --><!-- /value -->", "no `years` of 1 variants"),
            ("<!-- value: us --><!-- /value -->", "expected a measure, variants and a number"),
        ] {
            let error = value(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
