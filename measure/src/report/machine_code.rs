//! Machine code of Rust kernels and their twins. The reducer, which has no twin, is compared between the
//! two Rust code generators.

use std::collections::BTreeMap;

use super::figure::*;

const MARK: f64 = 1.10;

const TWIN: &str = "cuda-c";
const LLVM: &str = "rust-llvm";

/// A Rust kernel and the code that it is compared with.
type Pair<'a> = (&'a Case, &'a Case);

/// Returns the last set with machine code, and its pairs.
fn pairs(results: &Results) -> Option<(&Set, Vec<Pair<'_>>)> {
    let set = results.sets.iter().rev().find(|set| !set.codes.is_empty())?;
    let by = |compiler| {
        let mine = set.codes.iter().filter(|code| code.name("compiler") == compiler);
        mine.map(|code| (code.name("entry"), code)).collect::<BTreeMap<_, _>>()
    };
    let (twins, llvm) = (by(TWIN), by(LLVM));
    let beside = |code: &Case| {
        let other = llvm.get(code.name("entry")).filter(|_| code.name("compiler") != LLVM);
        twins.get(code.name("entry")).or(other).copied()
    };
    let rust = set.codes.iter().filter(|code| code.name("compiler") != TWIN);
    let mut pairs: Vec<Pair<'_>> = rust.filter_map(|code| Some((code, beside(code)?))).collect();
    pairs.sort_by_key(|(rust, _)| place(rust.name("variant")));
    (!pairs.is_empty()).then_some((set, pairs))
}

pub(super) fn summary(results: &Results) -> Option<String> {
    let (_, pairs) = pairs(results)?;
    let is_over = |pair: &&Pair<'_>| f64::max(registers(pair), length(pair)) > MARK;
    let (over, all, percent) = (pairs.iter().filter(is_over).count(), pairs.len(), 100.0 * (MARK - 1.0));
    let spills = pairs.iter().any(|(rust, twin)| spilled(rust).or(spilled(twin)).is_some());
    let spills = if spills { "" } else { "; none spills a register" };
    Some(format!(
        "{over} of {all} entries need over {percent:.0} % more registers or instructions in Rust than their \
         CUDA C twin, or by rust-cuda than by rustc where there is no twin{spills}."
    ))
}

pub(super) fn figure(results: &Results) -> Option<Figure> {
    let (set, pairs) = pairs(results)?;
    let usual = |(code, _): &Pair<'_>| {
        let mut same = pairs.iter().filter(|(other, _)| other.name("variant") == code.name("variant"));
        let dtype = if same.any(|(other, _)| other.name("dtype") == "f32") { "f32" } else { "i32" };
        code.name("dtype") == dtype && code.text("op").is_none_or(|op| op == "sum")
    };
    let (arch, tools, summary) = (pairs[0].0.name("arch"), pairs[0].0.name("tools"), summary(results)?);
    let lead = format!(
        "What a launch takes and what the code consists of, assembled for {arch} by {tools}; no GPU takes \
         part. {summary} Those that need more are marked. Registers are handed out by eights, and an \
         instruction counts once, however often a loop runs it; instructions run are those of the PTX, \
         counted by the simulator."
    );
    let short: Vec<Pair<'_>> = pairs.iter().copied().filter(usual).collect();
    let short = table("Sums of f32, copies and transposes", &short).opened();
    let tables = vec![short, table("All operations and types", &pairs)];
    Some(Figure::new("machine-code", "Machine code", lead, tables, &[set]))
}

/// Returns a table. A cell shows the numbers of Rust and of the compared code, or one if they are equal.
fn table(name: &str, pairs: &[Pair<'_>]) -> Table {
    let executed = |(rust, twin): &Pair<'_>| {
        let [rust, twin] = [rust, twin].map(|code| code.number("executed/warp_instructions"));
        Some(rust? / twin?.max(1.0))
    };
    let accesses = |code: &Case| {
        let [loads, stores] = ["loads", "stores"].map(|what| {
            by_bits(code, &format!("instructions/shared_{what}")).iter().map(|a| a.1).sum::<u64>()
        });
        format!("{loads} + {stores}")
    };
    let table = Table::of(name, pairs).columns(&[
        ("<variant", &|(rust, _)| {
            join(
                ["variant", "kernel"]
                    .into_iter()
                    .filter_map(|field| rust.text(field))
                    .map(str::to_owned),
                " ",
            )
        }),
        ("<op", &|(rust, _)| rust.text("op").unwrap_or("–").to_owned()),
        ("<type", &|(rust, _)| rust.name("dtype").to_owned()),
        ("<Rust | beside", &|pair| both(pair, compiler)),
        ("registers", &|pair| both(pair, |code| whole(code, "resources/registers").to_string())),
        ("ratio", &|pair| marked(fixed::<2>(registers(pair)), registers(pair) > MARK)),
        ("SASS length", &|pair| both(pair, |code| whole(code, "instructions/total").to_string())),
        ("ratio", &|pair| marked(fixed::<2>(length(pair)), length(pair) > MARK)),
        ("PTX run, ratio", &|pair| or_dash(executed(pair), fixed::<2>)),
        ("shared bytes", &|pair| {
            both(pair, |code| whole(code, "resources/static_shared_bytes").to_string())
        }),
        ("spill bytes", &|pair| both(pair, |code| or_dash(spilled(code), |bytes| bytes.to_string()))),
        ("loads ×bits", &|pair| both(pair, loads)),
        ("LDS + STS", &|pair| both(pair, accesses)),
        ("BAR", &|pair| both(pair, |code| whole(code, "instructions/block_barriers").to_string())),
    ]);
    table.without_empty()
}

fn both((rust, twin): &Pair<'_>, of: impl Fn(&Case) -> String) -> String {
    let (rust, twin) = (of(rust), of(twin));
    if rust == twin { rust } else { format!("{rust} | {twin}") }
}

fn whole(code: &Case, field: &str) -> u64 {
    code.whole(field).unwrap_or_default()
}

fn registers(pair: &Pair<'_>) -> f64 {
    ratio(pair, "resources/registers")
}

fn length(pair: &Pair<'_>) -> f64 {
    ratio(pair, "instructions/total")
}

fn ratio((rust, twin): &Pair<'_>, field: &str) -> f64 {
    whole(rust, field) as f64 / whole(twin, field).max(1) as f64
}

fn spilled(code: &Case) -> Option<u64> {
    let bytes = ["store", "load"].map(|what| whole(code, &format!("resources/spill_{what}_bytes")));
    Some(bytes[0] + bytes[1]).filter(|bytes| *bytes > 0)
}

fn compiler(code: &Case) -> String {
    peer_name(code.name("compiler")).trim_start_matches("Rust, ").replace("Rust", "rustc")
}

/// Returns the numbers of accesses by their widths in bits.
fn by_bits(code: &Case, field: &str) -> BTreeMap<u64, u64> {
    let accesses = code.field(field).and_then(|accesses| accesses.as_object()).into_iter().flatten();
    accesses.filter_map(|(bits, times)| Some((bits.parse().ok()?, times.as_u64()?))).collect()
}

fn loads(code: &Case) -> String {
    let loads = by_bits(code, "instructions/global_loads");
    if loads.is_empty() {
        "0".to_owned()
    } else {
        join(loads.iter().map(|(bits, times)| format!("{times}×{bits}")), " ")
    }
}
