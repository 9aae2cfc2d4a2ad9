//! Blocks of Markdown files that are generated from the results: between `<!-- results: NAME -->` and
//! `<!-- /results -->`.

use anyhow::{Context, Result, bail};
use warpfold_bench::Ratio;
use warpfold_suite::{
    Dtype, Op,
    catalogue::{self, Work},
};

use super::{
    figures::{
        Figure, distinct, in_order, matrix,
        ratios::{JUDGED, LIMIT},
        reducer::{self, Beside},
        scaling, sums, types,
    },
    format::{code, digits, markdown, or_dash},
    lines::Point,
    prose,
    results::{Choice, Results, Set},
};
use crate::compare::timed::{inputs::Inputs, sizes::show};

const END: &str = "<!-- /results -->";
const START: &str = "<!-- results:";

const NAMES: [&str; 15] = [
    "codegen",
    "groups",
    "headline",
    "inputs",
    "ladder",
    "machine-code",
    "plots",
    "reducer",
    "reducer-aims",
    "reducer-graph",
    "reducer-summary",
    "reducer-types",
    "rows",
    "twins",
    "untuned",
];

/// Exponents of the headline's sizes, as far as they were measured.
const ESSENTIAL: [u32; 9] = [10, 16, 20, 22, 24, 26, 28, 30, 32];

const LADDER: [u64; 4] = [1_000_003, 1 << 22, 1 << 26, 1 << 28];

const SHOWN: [&str; 2] = ["bandwidth", "ratio"];

/// Returns a Markdown text with its blocks regenerated.
///
/// `to_docs` leads from the text's folder to docs/.
///
/// # Errors
/// A block that is unknown, or has no end.
pub(super) fn renew(text: &str, results: &Results, figures: &[Figure], to_docs: &str) -> Result<String> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(START) {
        let (before, block) = rest.split_at(at);
        let (marker, after) = block.split_once("-->").context("a results marker without -->")?;
        let name = marker[START.len()..].trim();
        let content = content(name, results, figures, to_docs)?;
        let inside = after.find(START).unwrap_or(after.len());
        let (_, after) = after[..inside]
            .find(END)
            .map(|end| after.split_at(end + END.len()))
            .with_context(|| format!("block `{name}` has no {END}"))?;
        done += &format!("{before}{marker}-->\n{content}{END}");
        rest = after;
    }
    if rest.contains(END) {
        bail!("{END} without a beginning");
    }
    Ok(done + rest)
}

/// Returns the names of the blocks that differ between two versions of a text.
pub(super) fn stale(old: &str, new: &str) -> Vec<String> {
    let blocks = |text: &str| -> Vec<(String, String)> {
        let parts = text.split(START).skip(1).filter_map(|part| part.split_once("-->"));
        parts
            .map(|(name, rest)| {
                let content = rest.split(END).next().unwrap_or_default();
                (name.trim().to_owned(), content.to_owned())
            })
            .collect()
    };
    let pairs = blocks(old).into_iter().zip(blocks(new));
    pairs.filter(|(old, new)| old != new).map(|((name, _), _)| name).collect()
}

fn content(name: &str, results: &Results, figures: &[Figure], to_docs: &str) -> Result<String> {
    let content = match name {
        "codegen" => codegen(results),
        "groups" => groups(results, figures, to_docs),
        "headline" => headline(results),
        "inputs" => inputs(results),
        "ladder" => ladder(results),
        "machine-code" => prose::machine_code(results),
        "plots" => plots(figures, to_docs),
        "reducer" => reducer_sums(results, figures, to_docs),
        "reducer-aims" => prose::reducer_aims(results),
        "reducer-graph" => reducer_graphs(results),
        "reducer-summary" => prose::reducer_summary(results),
        "reducer-types" => reducer_types(results),
        "rows" => rows(results),
        "twins" => prose::twins(results),
        "untuned" => untuned(results),
        _ => bail!("no block is called `{name}`; there are {}", NAMES.join(", ")),
    };
    Ok(content.unwrap_or_default())
}

pub(super) fn source(results: &Results, sets: &[&Set]) -> String {
    let said: Vec<String> = sets
        .iter()
        .map(|set| {
            let command = set.machine.as_ref().map(|machine| machine.command.as_str());
            let command = command.filter(|command| !command.is_empty());
            let command =
                command.map(|command| format!(", {}", code(&short(command)))).unwrap_or_default();
            format!("{}{command}", markdown(&set.name()))
        })
        .collect();
    let driver = results.newest(|machine| machine.driver.clone());
    let driver = driver.map(|driver| format!(", driver {}", markdown(&driver))).unwrap_or_default();
    format!("{}{driver}; {}.", markdown(&results.gpu().unwrap_or_default()), said.join("; "))
}

/// Shortens long lists in a command, which the results file has in full.
fn short(command: &str) -> String {
    let words = command.split(' ').map(|word| match word.split(',').collect::<Vec<_>>().as_slice() {
        [first, .., last] if word.len() > 40 => format!("{first},…,{last}"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Formats a number without narrow spaces, so that it can be searched for.
pub(super) fn plain(value: f64) -> String {
    digits(value).replace('\u{202f}', "")
}

fn headline(results: &Results) -> Option<String> {
    let sum = |p: &Point| p.op.as_deref() == Some("sum") && p.dtype == "f32" && !p.graph && !p.single;
    let choice = results.choose(|p| {
        sum(p) && (sums::is_reduction(p) || p.is_reducer() || matches!(p.peer.as_str(), "cub" | "torch"))
    });
    let has_rust = |n: u64| choice.points.iter().any(|point| point.n == n && point.is_llvm());
    let sizes: Vec<u64> = ESSENTIAL.iter().map(|e| 1 << e).filter(|n| has_rust(*n)).collect();
    let mut rows = String::new();
    for n in &sizes {
        let here: Vec<&Point> = choice.points.iter().filter(|point| point.n == *n).copied().collect();
        rows += &headline_row(&here)?;
    }
    (!rows.is_empty()).then(|| {
        format!(
            "f32 sums, the fastest Rust variant of each size by rustc; microseconds, and how many times as \
             long the others take: the same variant by rust-cuda, its CUDA C twin, CUB, PyTorch.\n\n\
             | n | Rust | µs | GB/s | % of peak | rust-cuda | CUDA C twin | CUB | PyTorch |\n\
             |--:|---|--:|--:|--:|--:|--:|--:|--:|\n{rows}\n{}\n",
            source(results, &choice.sets)
        )
    })
}

fn headline_row(points: &[&Point]) -> Option<String> {
    let best = points.iter().filter(|p| p.is_llvm()).min_by(|a, b| a.median.total_cmp(&b.median))?;
    let nvvm = points.iter().find(|p| p.is_nvvm() && p.variant == best.variant);
    let twin = points.iter().find(|p| p.peer == "cuda-c" && p.variant == best.variant);
    let other = |peer: &str| points.iter().find(|point| point.peer == peer);
    // The ratio of kernels and CUB is taken by round, because they took turns.
    let times = |point: Option<&&Point>, by_round: Option<f64>| {
        or_dash(point, |point| {
            let ratio = by_round.unwrap_or(point.median / best.median);
            format!("{} (×&nbsp;{ratio:.2})", plain(point.median))
        })
    };
    Some(format!(
        "| {} | `{}` | {} | {} | {} | {} | {} | {} | {} |\n",
        show(best.n),
        best.variant,
        plain(best.median),
        or_dash(best.gbps, plain),
        or_dash(best.percent, |percent| format!("{percent:.1}")),
        times(nvvm, nvvm.and_then(|nvvm| nvvm.over_llvm).map(|ratio| ratio.median)),
        times(twin, best.over_cuda_c.map(|ratio| 1.0 / ratio.median)),
        times(other("cub"), best.times_cub()),
        times(other("torch"), None),
    ))
}

fn ladder(results: &Results) -> Option<String> {
    let choice = results.choose_runs(|p| {
        sums::is_sum(p)
            && LADDER.contains(&p.n)
            && (p.is_llvm() || p.peer == "cpu")
            && p.copy_us.is_none()
    });
    let twins = over_twins(results);
    let sizes = distinct(choice.points.iter().map(|point| point.n));
    let ids = catalogue::VARIANTS.iter().filter(|variant| {
        matches!(variant.work, Work::Reduction(_) | Work::Cpu { .. })
            && choice.points.iter().any(|point| point.variant == variant.id)
    });
    let mut rows = String::new();
    for variant in ids {
        let of = |n: u64| choice.points.iter().find(|p| p.variant == variant.id && p.n == n);
        let mut cells: Vec<String> =
            sizes.iter().map(|n| or_dash(of(*n), |point| cell(point))).collect();
        let ratio = |nvvm: bool| {
            let mine = |p: &&&Point| p.variant == variant.id && p.is_nvvm() == nvvm;
            let ratio = twins.points.iter().find(mine).and_then(|point| point.over_cuda_c);
            or_dash(ratio, |ratio| format!("{:.3}", ratio.median))
        };
        cells.extend((!twins.points.is_empty()).then(|| [false, true].map(ratio)).into_iter().flatten());
        let integers = choice.points.iter().any(|p| p.variant == variant.id && p.dtype != "f32");
        let name =
            if integers { format!("`{}` (i32)", variant.id) } else { format!("`{}`", variant.id) };
        rows += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    (!rows.is_empty()).then(|| ladder_text(results, &choice, &twins, &rows))
}

/// Returns ratios to the CUDA C twins by both code generators, at the largest measured size of
/// [`JUDGED`].
fn over_twins(results: &Results) -> Choice<'_> {
    let all = results.choose(|p| {
        sums::is_sum(p)
            && sums::is_reduction(p)
            && p.is_rust()
            && !p.graph
            && p.over_cuda_c.is_some()
            && JUDGED.contains(&p.n)
    });
    let largest = all.points.iter().map(|point| point.n).max().unwrap_or_default();
    results.choose(|p| p.n == largest && all.points.iter().any(|point| std::ptr::eq(*point, p)))
}

fn ladder_text(results: &Results, choice: &Choice<'_>, twins: &Choice<'_>, rows: &str) -> String {
    let sizes = distinct(choice.points.iter().map(|point| point.n));
    let mut heads: Vec<String> = sizes.iter().map(|n| shown(*n)).collect();
    let beside = twins.points.first().map(|point| {
        heads.extend(["llvm / CUDA C", "nvvm / CUDA C"].map(String::from));
        let n = shown(point.n);
        format!(
            " The last two columns are times over the CUDA C twin's at {n}, round by round, by rustc's \
             code generator and by rust-cuda's."
        )
    });
    let sets: Vec<&Set> = choice.sets.iter().chain(&twins.sets).copied().collect();
    format!(
        "Medians in microseconds, and in parentheses the percentage of the memory's peak; kernels \
         compiled by rustc.{}\n\n| variant | {} |\n|---|{}\n{rows}\n{}\n",
        beside.unwrap_or_default(),
        heads.join(" | "),
        "--:|".repeat(heads.len()),
        source(results, &sets)
    )
}

fn cell(point: &Point) -> String {
    let percent = point.percent.map(|percent| format!(" ({percent:.1})")).unwrap_or_default();
    plain(point.median) + &percent
}

pub(super) fn shown(n: u64) -> String {
    if n.is_power_of_two() { show(n) } else { super::format::count(n) }
}

fn reducer_sums(results: &Results, figures: &[Figure], to_docs: &str) -> Option<String> {
    let (choice, all) = reducer::sums(results, false);
    let three = |value: f64| format!("{value:.3}");
    let mut rows = String::new();
    for beside in &all {
        let Beside { own, cub, torch, .. } = beside;
        rows += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            shown(own.n),
            plain(own.median),
            or_dash(own.gbps, plain),
            or_dash(own.percent, |percent| format!("{percent:.1}")),
            or_dash(own.over_limit, three),
            or_dash(*cub, |cub| plain(cub.median)),
            or_dash(beside.over_cub(), three),
            or_dash(*torch, |torch| plain(torch.median)),
            or_dash(beside.over_torch(), three),
            or_dash(beside.nvvm_over_llvm(), three),
            targets(beside)
        );
    }
    let picture = figures.iter().find(|figure| figure.id == reducer::SUMS);
    let picture = picture.map(|figure| image(figure, to_docs) + "\n").unwrap_or_default();
    (!rows.is_empty()).then(|| {
        format!(
            "{picture}f32 sums by the reducer, launched one by one; medians in microseconds. × CUB and × \
             PyTorch: how many times as fast as these. / limit: its time over an empty launch and the bytes \
             at the best bandwidth of the run. nvvm / llvm: its time by rust-cuda over that by rustc, which \
             made all others.\n\n\
             | n | µs | GB/s | % of peak | / limit | CUB µs | × CUB | PyTorch µs | × PyTorch | nvvm / llvm | \
             target |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n{rows}\n{}\n",
            source(results, &choice.sets)
        )
    })
}

fn reducer_graphs(results: &Results) -> Option<String> {
    let (choice, all) = reducer::sums(results, true);
    let mut rows = String::new();
    for beside in &all {
        let Beside { own, cub, empty, .. } = beside;
        rows += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
            shown(own.n),
            plain(own.median),
            or_dash(*empty, |empty| plain(empty.median)),
            or_dash(own.over_empty, |ratio| format!("{ratio:.2}")),
            or_dash(*cub, |cub| plain(cub.median)),
            or_dash(beside.over_cub(), |factor| format!("{factor:.2}")),
            or_dash(beside.nvvm_over_llvm(), |ratio| format!("{ratio:.2}")),
            targets(beside)
        );
    }
    (!rows.is_empty()).then(|| {
        format!(
            "f32 sums by the reducer in a CUDA graph of many, where its launches overlap from sm_90 on; \
             microseconds of one.\n\n\
             | n | µs | empty kernel µs | / empty | CUB µs | × CUB | nvvm / llvm | target |\n\
             |--:|--:|--:|--:|--:|--:|--:|---|\n{rows}\n{}\n",
            source(results, &choice.sets)
        )
    })
}

/// Returns the speed-ups over CUB of every operation and type: a row per type, a column per operation,
/// with the sizes in a cell.
fn reducer_types(results: &Results) -> Option<String> {
    let (choice, all) = types::points(results);
    let pairs = types::pairs(&all);
    let ops = distinct(pairs.iter().map(|(op, _)| *op));
    let dtypes = distinct(pairs.iter().map(|(_, dtype)| *dtype));
    let sizes = distinct(all.iter().map(|beside| beside.own.n));
    if pairs.len() < 2 {
        return None;
    }
    let cell = |op: &Op, dtype: &Dtype| {
        let at = |n: &u64| {
            let factor = types::find(&all, op, dtype, *n).and_then(Beside::over_cub);
            or_dash(factor, |factor| format!("{factor:.2}"))
        };
        sizes.iter().map(at).collect::<Vec<_>>().join("&nbsp;/ ")
    };
    let row = |dtype: &Dtype| {
        let cells: Vec<String> = ops.iter().map(|op| cell(op, dtype)).collect();
        format!("| {dtype} | {} |\n", cells.join(" | "))
    };
    let heads: Vec<&str> = ops.iter().map(|op| op.name()).collect();
    let rows: String = dtypes.iter().map(row).collect();
    let named: Vec<String> = sizes.iter().map(|n| shown(*n)).collect();
    let by_nvvm = types::nvvm_span(&all).map(|span| format!(" {span}")).unwrap_or_default();
    Some(format!(
        "How many times as fast as CUB the reducer is, at {} elements.{by_nvvm}\n\n\
         | type | {} |\n|---|{}\n{rows}\n{}\n",
        named.join(" / "),
        heads.join(" | "),
        "--:|".repeat(ops.len()),
        source(results, &choice.sets)
    ))
}

fn rows(results: &Results) -> Option<String> {
    let (text, set) = matrix::markdown(results)?;
    Some(format!("{text}\n{}\n", source(results, &[set])))
}

const STATES: [Inputs; 3] = [Inputs::Rotated, Inputs::Swept, Inputs::Warm];

fn inputs(results: &Results) -> Option<String> {
    let set = results.sets.iter().filter(|set| !set.inputs.is_empty()).max_by_key(|set| set.date())?;
    let own =
        |point: &&Point| point.is_reducer() && point.is_llvm() && point.op.as_deref() == Some("sum");
    let all: Vec<&Point> = set.inputs.iter().filter(own).collect();
    let mut rows = String::new();
    for (dtype, n) in in_order(all.iter().map(|point| (point.dtype.as_str(), point.n))) {
        let of = |inputs: Inputs| {
            let is_case = |point: &&&Point| (point.dtype.as_str(), point.n) == (dtype, n);
            all.iter().filter(is_case).find(|point| point.inputs.as_deref() == Some(inputs.name()))
        };
        let cells = STATES.map(|inputs| {
            let point = of(inputs);
            let over_cub = point.and_then(|point| point.times_cub());
            let gbps = point.and_then(|point| point.gbps);
            [
                or_dash(point, |p| plain(p.median)),
                or_dash(gbps, plain),
                or_dash(over_cub, |r| format!("{r:.2}")),
            ]
            .join(" | ")
        });
        rows += &format!("| {dtype} | {} | {} |\n", shown(n), cells.join(" | "));
    }
    let heads = STATES.map(|inputs| format!("{} µs | GB/s | × CUB", inputs.name()));
    (!rows.is_empty()).then(|| {
        format!(
            "Sums by the reducer, compiled by rustc, launched one by one; medians. × CUB: how many times as \
             fast as CUB in the same state.\n\n| type | n | {} |\n|---|--:|{}\n{rows}\n{}\n",
            heads.join(" | "),
            "--:|".repeat(3 * heads.len()),
            source(results, &[set])
        )
    })
}

fn groups(results: &Results, figures: &[Figure], to_docs: &str) -> Option<String> {
    let groups = results.groups.as_ref()?;
    let rows = scaling::rows(groups);
    let cells = |row: &scaling::Row| {
        let [torch, nccl, copies, peers] = row.each;
        let [one, all] = row.recorded;
        let times = [peers, nccl, copies, torch, one, all];
        times.map(|time| or_dash(time, |us| format!("{us:.1}"))).join(" | ")
    };
    let lines: String = rows
        .iter()
        .map(|row| format!("| {} | {:.1} | {} |\n", shown(row.n), row.alone, cells(row)))
        .collect();
    let picture = figures.iter().find(|figure| figure.id == scaling::SCALING);
    let picture = picture.map(|figure| image(figure, to_docs) + "\n").unwrap_or_default();
    (!lines.is_empty()).then(|| {
        format!(
            "{picture}f32 sums on {} GPUs of one host, µs: the mean of the rounds' medians. Alone is one GPU's \
             reducer in the same rounds.\n\n\
             | floats a GPU | alone | all by `Peers` | by `Nccl` | by `Copies` | torch.sum and all-reduce | \
             a graph: one | a graph: all by `Peers` |\n|---|--:|--:|--:|--:|--:|--:|--:|\n{lines}\n{}\n",
            groups.devices(),
            source(results, &[&groups.set])
        )
    })
}

/// Returns the reducer's sums without a tuning table, beside those with one, measured alike.
fn untuned(results: &Results) -> Option<String> {
    let tables @ [without, with] = results.tables.as_ref()?;
    let mut rows = String::new();
    let is_sum = |p: &&Point| p.is_reducer() && p.is_llvm() && !p.graph && sums::is_sum(p);
    for tuned in with.points.iter().filter(is_sum) {
        let mut rules = without.points.iter().filter(is_sum);
        let Some(rule) = rules.find(|rule| rule.n == tuned.n) else { continue };
        let (Some(of_rule), Some(of_table)) = (rule.times_cub(), tuned.times_cub()) else { continue };
        rows += &format!(
            "| {} | {} | {of_rule:.3} | {} | {of_table:.3} | {:.3} |\n",
            shown(tuned.n),
            plain(rule.median),
            plain(tuned.median),
            rule.median / tuned.median
        );
    }
    (!rows.is_empty()).then(|| {
        format!(
            "f32 sums by the reducer, compiled by rustc, launched one by one; medians. × CUB: how many times \
             as fast as CUB in the same run. Gain: how many times as fast the table's launch is as the rule's.\n\n\
             | n | without a table: µs | × CUB | with the table: µs | × CUB | gain |\n\
             |--:|--:|--:|--:|--:|--:|\n{rows}\n{}\n",
            source(results, &tables.each_ref())
        )
    })
}

/// Returns every kernel by rust-cuda, with ratios to its CUDA C twin and to rustc's kernel, the worst
/// first.
fn codegen(results: &Results) -> Option<String> {
    let kernels = results.choose(|p| {
        let usual = sums::is_sum(p) && sums::is_reduction(p) || p.op.is_none() && p.dtype == "f32";
        p.is_nvvm() && !p.graph && !p.single && usual
    });
    let reducer = results.choose_reducer(|p| sums::is_sum(p) && p.is_nvvm() && !p.graph);
    let points: Vec<&Point> = kernels.points.iter().chain(&reducer.points).copied().collect();
    let mut rows: Vec<Compared> = in_order(points.iter().map(|point| point.variant.as_str()))
        .into_iter()
        .map(|id| Compared::new(id, points.iter().filter(|p| p.variant == id).copied()))
        .collect();
    rows.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    let twins = rows.iter().filter(|row| row.over_cuda_c.iter().flatten().next().is_some());
    let within = twins.clone().filter(|row| row.worst() <= LIMIT).count();
    let all: String = rows.iter().map(Compared::row).collect();
    let sizes = JUDGED.map(shown);
    let sets: Vec<&Set> = kernels.sets.iter().chain(&reducer.sets).copied().collect();
    (!all.is_empty()).then(|| {
        format!(
            "{within} of {} kernels take by rust-cuda at most {LIMIT:.2} times the time of their CUDA C twin; \
             **bold** is what takes more. f32 sums and moves of f32, medians of the ratios of rounds, the \
             largest of a variant's strides or shapes; the worst first. The reducer has no twin.\n\n\
             | variant | nvvm / CUDA C, {1} | {2} | nvvm / llvm, {1} | {2} |\n|---|--:|--:|--:|--:|\n\
             {all}\n{3}\n",
            twins.count(),
            sizes[0],
            sizes[1],
            source(results, &sets)
        )
    })
}

/// A variant by rust-cuda, at the sizes of [`JUDGED`] or, without any of them, at its largest size.
struct Compared {
    name: String,
    over_cuda_c: [Option<f64>; 2],
    over_llvm: [Option<f64>; 2],
}

impl Compared {
    fn new<'a>(id: &str, points: impl Iterator<Item = &'a Point>) -> Self {
        let points: Vec<&Point> = points.collect();
        let judged = points.iter().any(|point| JUDGED.contains(&point.n));
        let largest = points.iter().map(|point| point.n).max().unwrap_or_default();
        let sizes = if judged { JUDGED.map(Some) } else { [Some(largest), None] };
        let integers = points.iter().any(|point| point.dtype != "f32");
        let worst = |of: fn(&Point) -> Option<Ratio>| {
            sizes.map(|n| {
                let here = points.iter().filter(|point| Some(point.n) == n);
                here.filter_map(|point| of(point)).map(|ratio| ratio.median).reduce(f64::max)
            })
        };
        let mut name = format!("`{id}`");
        name += if integers { " (i32)" } else { "" };
        name += &if judged { String::new() } else { format!(" at {}", shown(largest)) };
        Self {
            name,
            over_cuda_c: worst(|point| point.over_cuda_c),
            over_llvm: worst(|point| point.over_llvm),
        }
    }

    /// Returns the sort key: the ratio to the twin, else to the other code generator.
    fn worst(&self) -> f64 {
        let most = |ratios: &[Option<f64>; 2]| ratios.iter().flatten().copied().reduce(f64::max);
        most(&self.over_cuda_c).or(most(&self.over_llvm)).unwrap_or(0.0)
    }

    fn row(&self) -> String {
        let cell = |ratio: &Option<f64>| {
            or_dash(*ratio, |ratio| match ratio > LIMIT {
                true => format!("**{ratio:.3}**"),
                false => format!("{ratio:.3}"),
            })
        };
        let cells: Vec<String> = self.over_cuda_c.iter().chain(&self.over_llvm).map(cell).collect();
        format!("| {} | {} |\n", self.name, cells.join(" | "))
    }
}

fn targets(beside: &Beside<'_>) -> String {
    let verdict = beside.verdict();
    or_dash(Some(verdict).filter(|verdict| !verdict.is_empty()), |verdict| {
        verdict.replace(">=", "≥").replace("<=", "≤").replace("x cub", "× CUB")
    })
}

fn image(figure: &Figure, to_docs: &str) -> String {
    format!("![{}]({to_docs}plots/{}.svg)\n", figure.title, figure.id)
}

fn plots(figures: &[Figure], to_docs: &str) -> Option<String> {
    let shown = figures.iter().filter(|figure| SHOWN.contains(&figure.id.as_str()));
    let images: Vec<String> = shown.map(|figure| image(figure, to_docs)).collect();
    (!images.is_empty()).then(|| images.join("\n"))
}
