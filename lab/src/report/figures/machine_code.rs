//! Machine code of Rust kernels and their twins; for the reducer, which has no twin, of the two Rust
//! code generators.

use std::collections::BTreeMap;

use warpfold_suite::catalogue;

use super::{Figure, Table, peer_name};
use crate::report::{format::or_dash, lines::Code, results::Results};

/// Ratio above which a number is marked.
pub(super) const MARK: f64 = 1.10;

const TWIN: &str = "cuda-c";
const LLVM: &str = "rust-llvm";

/// A cell with two numbers shows Rust's and the other's; one number stands for both.
const HEAD: [&str; 14] = [
    "variant",
    "op",
    "type",
    "Rust | beside",
    "registers",
    "ratio",
    "SASS length",
    "ratio",
    "PTX run, ratio",
    "shared bytes",
    "spill bytes",
    "loads ×bits",
    "LDS + STS",
    "BAR",
];

pub(super) fn tables(results: &Results) -> Option<Figure> {
    // A folder may have sets for several architectures; the last one by name is shown.
    let set = results.sets.iter().rev().find(|set| !set.codes.is_empty())?;
    let pairs = pairs(&set.codes);
    let (first, _) = pairs.first()?;
    let usual = |code: &Code| {
        let has_f32 =
            pairs.iter().any(|(other, _)| other.variant == code.variant && other.dtype == "f32");
        let dtype = if has_f32 { "f32" } else { "i32" };
        code.dtype == dtype && code.op.as_deref().is_none_or(|op| op == "sum")
    };
    let mut short = Table { open: true, ..Table::new("Sums of f32, copies and transposes", &HEAD, 4) };
    let mut long = Table::new("All operations and types", &HEAD, 4);
    for (rust, twin) in &pairs {
        push(&mut long, rust, twin);
        if usual(rust) {
            push(&mut short, rust, twin);
        }
    }
    let lead = format!(
        "What a launch takes and what the code consists of, assembled for {} by {}; no GPU takes part. \
         {} Those that need more are marked. Registers are handed out by eights, and an instruction counts \
         once, however often a loop runs it; instructions run are those of the PTX, counted by the simulator.",
        first.arch,
        first.tools,
        told(&pairs),
    );
    for table in [&mut short, &mut long] {
        table.drop_empty();
    }
    Some(Figure {
        id: "machine-code".to_owned(),
        title: "Machine code".to_owned(),
        lead,
        pictures: None,
        tables: vec![short, long],
        sources: vec![set.name()],
    })
}

fn pairs(codes: &[Code]) -> Vec<(&Code, &Code)> {
    let by = |compiler: &str| -> BTreeMap<&str, &Code> {
        let mine = codes.iter().filter(|code| code.compiler == compiler);
        mine.map(|code| (code.entry.as_str(), code)).collect()
    };
    let (twins, llvm) = (by(TWIN), by(LLVM));
    let beside = |code: &Code| {
        let other = llvm.get(code.entry.as_str()).filter(|_| code.compiler != LLVM);
        twins.get(code.entry.as_str()).or(other).copied()
    };
    let rust = codes.iter().filter(|code| code.compiler != TWIN);
    let mut pairs: Vec<(&Code, &Code)> = rust.filter_map(|code| Some((code, beside(code)?))).collect();
    let place = |code: &Code| catalogue::ids().position(|id| id == code.variant).unwrap_or(usize::MAX);
    pairs.sort_by_key(|(rust, _)| place(rust));
    pairs
}

pub(in crate::report) fn summary(results: &Results) -> Option<String> {
    let set = results.sets.iter().rev().find(|set| !set.codes.is_empty())?;
    let pairs = pairs(&set.codes);
    (!pairs.is_empty()).then(|| told(&pairs))
}

fn told(pairs: &[(&Code, &Code)]) -> String {
    let over = pairs.iter().filter(|(rust, twin)| ratios(rust, twin).iter().any(|ratio| *ratio > MARK));
    let spills = pairs.iter().flat_map(|(rust, twin)| [rust, twin]).any(|code| spill(code) != "–");
    format!(
        "{} of {} entries need over {:.0} % more registers or instructions in Rust than their CUDA C twin, or by \
         rust-cuda than by rustc where there is no twin{}.",
        over.count(),
        pairs.len(),
        (MARK - 1.0) * 100.0,
        if spills { "" } else { "; none spills a register" }
    )
}

fn ratios(rust: &Code, twin: &Code) -> [f64; 2] {
    let ratio = |of: fn(&Code) -> u64| of(rust) as f64 / of(twin).max(1) as f64;
    [ratio(|code| code.resources.registers), ratio(|code| code.instructions.total)]
}

fn push(table: &mut Table, rust: &Code, twin: &Code) {
    let [registers, instructions] = ratios(rust, twin);
    let executed =
        |code: &Code| code.executed.as_ref().map(|executed| executed.warp_instructions as f64);
    let executed = executed(rust).zip(executed(twin)).map(|(rust, twin)| rust / twin.max(1.0));
    let both = |of: fn(&Code) -> String| {
        let (rust, twin) = (of(rust), of(twin));
        if rust == twin { rust } else { format!("{rust} | {twin}") }
    };
    let two = |value: f64| format!("{value:.2}");
    let row = table.push([
        rust.kernel.as_ref().map_or(rust.variant.clone(), |kernel| format!("{} {kernel}", rust.variant)),
        rust.op.clone().unwrap_or_else(|| "–".to_owned()),
        rust.dtype.clone(),
        both(compiler),
        both(|code| code.resources.registers.to_string()),
        two(registers),
        both(|code| code.instructions.total.to_string()),
        two(instructions),
        or_dash(executed, two),
        both(|code| code.resources.static_shared_bytes.to_string()),
        both(spill),
        both(|code| widths(&code.instructions.global_loads)),
        both(|code| {
            let of = |accesses: &BTreeMap<String, u64>| accesses.values().sum::<u64>();
            format!("{} + {}", of(&code.instructions.shared_loads), of(&code.instructions.shared_stores))
        }),
        both(|code| code.instructions.block_barriers.to_string()),
    ]);
    let over = [(5, registers), (7, instructions)].into_iter().filter(|(_, ratio)| *ratio > MARK);
    row.marked = over.map(|(column, _)| column).collect();
}

/// Formats spilled bytes; a dash for none, so that a column without spills is left out.
fn spill(code: &Code) -> String {
    let bytes = code.resources.spill_store_bytes + code.resources.spill_load_bytes;
    or_dash(Some(bytes).filter(|bytes| *bytes > 0), |bytes| bytes.to_string())
}

fn compiler(code: &Code) -> String {
    peer_name(&code.compiler).trim_start_matches("Rust, ").replace("Rust", "rustc")
}

fn widths(accesses: &BTreeMap<String, u64>) -> String {
    let mut by_bits: Vec<(u64, u64)> =
        accesses.iter().map(|(bits, times)| (bits.parse().unwrap_or(0), *times)).collect();
    by_bits.sort_unstable();
    let all: Vec<String> = by_bits.iter().map(|(bits, times)| format!("{times}×{bits}")).collect();
    if all.is_empty() { "0".to_owned() } else { all.join(" ") }
}
