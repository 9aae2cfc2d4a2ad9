//! `cargo xtask explain --validate`: compares the simulator's counters with a GPU's.
//!
//! `scripts/gpu/validate.sh` writes Nsight Compute's counts, one JSON object per run and launch. The
//! same launches then run in the simulator. The output is Markdown, to be stored with other results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Error, Result, ensure};
use serde::Deserialize;
use warpfold_sim::Tally;
use warpfold_suite::{Dtype, PtxStore, catalogue, cli, input, say};

use super::{case::Case, recorder};

/// The relation of a hardware metric to the simulator's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The hardware's and the simulator's values must be equal in every run.
    Equal,
    /// The hardware metric varies. The simulator's value should be within its range over the runs.
    Noisy,
    /// The hardware counts machine instructions instead of PTX instructions: shown, not compared.
    Shown,
}

/// A metric of Nsight Compute and the corresponding counter.
pub struct Metric {
    pub name: &'static str,
    /// Head of the column.
    pub label: &'static str,
    pub relation: Relation,
    value: fn(&Tally) -> u64,
}

use Relation::{Equal, Noisy, Shown};

const fn metric(
    name: &'static str,
    label: &'static str,
    relation: Relation,
    value: fn(&Tally) -> u64,
) -> Metric {
    Metric { name, label, relation, value }
}

/// All metrics. `atom` and `red` are one counter here, because the assembler converts an `atom` to a
/// `red` if the old value is unused.
pub const METRICS: &[Metric] = &[
    metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "load requests", Equal, |t| {
        t.global_loads.requests
    }),
    metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "load sectors", Equal, |t| {
        t.global_loads.sectors
    }),
    metric("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "store requests", Equal, |t| {
        t.global_stores.requests
    }),
    metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "store sectors", Equal, |t| {
        t.global_stores.sectors
    }),
    metric(ATOMS, "atomic requests", Equal, |t| t.global_atomics.requests),
    metric(REDS, "", Equal, |_| 0),
    metric("sm__sass_inst_executed_op_shared_ld.sum", "shared loads", Equal, |t| {
        t.shared_loads.requests
    }),
    metric("sm__sass_inst_executed_op_shared_st.sum", "shared stores", Equal, |t| {
        t.shared_stores.requests
    }),
    metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "load wavefronts", Noisy, |t| {
        t.shared_loads.wavefronts
    }),
    metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "store wavefronts", Noisy, |t| {
        t.shared_stores.wavefronts
    }),
    metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "load conflicts", Noisy, |t| {
        t.shared_loads.conflicts()
    }),
    metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "store conflicts", Noisy, |t| {
        t.shared_stores.conflicts()
    }),
    metric("smsp__inst_executed.sum", "warp instructions", Shown, |t| t.warp_instructions),
    metric("smsp__thread_inst_executed_pred_on.sum", "thread instructions", Shown, |t| {
        t.thread_instructions
    }),
    metric("smsp__sass_branch_targets_threads_divergent.sum", "divergent branches", Shown, |t| {
        t.divergent_branches
    }),
];

const ATOMS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum";
const REDS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum";

#[derive(Debug, Deserialize)]
struct Line {
    variant: String,
    dtype: String,
    n: u64,
    grid: Option<u64>,
    stride: Option<u64>,
    run: u32,
    launch: usize,
    kernel: String,
    metrics: BTreeMap<String, f64>,
}

/// The fields that identify a launch: variant, type, n, grid and stride.
type Key = (String, String, u64, Option<u64>, Option<u64>);

struct Compared {
    label: String,
    simulated: Tally,
    hardware: BTreeMap<&'static str, Vec<u64>>,
}

impl Compared {
    /// Returns the simulator's value and the hardware's minimum and maximum of a metric, with `atom` and
    /// `red` added; `None` without a hardware value.
    fn sides(&self, metric: &Metric) -> Option<(u64, u64, u64)> {
        let mut values = self.hardware.get(metric.name)?.clone();
        if metric.name == ATOMS
            && let Some(reds) = self.hardware.get(REDS)
        {
            values.iter_mut().zip(reds).for_each(|(sum, reds)| *sum += reds);
        }
        let (least, most) = (values.iter().min()?, values.iter().max()?);
        Some(((metric.value)(&self.simulated), *least, *most))
    }

    fn agrees(&self, metric: &Metric) -> bool {
        // `red` is compared together with `atom`.
        metric.name == REDS
            || self.sides(metric).is_none_or(|(simulated, least, most)| match metric.relation {
                Equal => least == most && simulated == least,
                Noisy => (least..=most).contains(&simulated),
                Shown => true,
            })
    }
}

/// Compares a file of Nsight Compute's counts with the simulator. Exits 1 when a value that must be
/// equal differs.
pub fn run(path: &Path, store: &PtxStore, root: &Path) -> Result<ExitCode> {
    let text = input::text(path, input::MAX_TEXT).map_err(Error::msg);
    let text = text.with_context(|| format!("{} cannot be read", path.display()))?;
    let parse = |(number, line): (usize, &str)| -> Result<Line> {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), number + 1))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains("\"metrics\""));
    let lines = lines.map(parse).collect::<Result<Vec<Line>>>()?;
    ensure!(!lines.is_empty(), "{} has no line with metrics", path.display());
    let mut keys: Vec<Key> = Vec::new();
    for line in &lines {
        if !keys.contains(&line.key()) {
            keys.push(line.key());
        }
    }
    let mut all = Vec::new();
    for key in &keys {
        let of_key: Vec<&Line> = lines.iter().filter(|line| line.key() == *key).collect();
        all.extend(compare(key, &of_key, store, root)?);
    }
    write!(cli::stdout(), "{}", markdown(&all))?;
    let wrong = METRICS.iter().filter(|metric| metric.relation == Equal);
    let wrong = wrong.flat_map(|metric| all.iter().filter(|one| !one.agrees(metric))).count();
    say!("{} launches compared, {wrong} numbers differ that should be equal", all.len());
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

impl Line {
    fn key(&self) -> Key {
        (self.variant.clone(), self.dtype.clone(), self.n, self.grid, self.stride)
    }
}

fn compare(key: &Key, lines: &[&Line], store: &PtxStore, root: &Path) -> Result<Vec<Compared>> {
    let (variant, dtype, n, grid, stride) = key;
    let case = Case {
        dtype: dtype.parse::<Dtype>()?,
        grid: *grid,
        stride: stride.unwrap_or(1),
        ..Case::new(catalogue::find(variant)?, *n)?
    };
    let run = recorder::count(&case, store, root)?;
    let launches: BTreeSet<usize> = lines.iter().map(|line| line.launch).collect();
    ensure!(
        launches.len() == run.launches.len(),
        "{variant}: {} launches were profiled, but the simulator has {}",
        launches.len(),
        run.launches.len()
    );
    let compared = |(number, launch): (usize, &recorder::Launched)| {
        let mut of_launch: Vec<_> = lines.iter().filter(|line| line.launch == number).collect();
        of_launch.sort_by_key(|line| line.run);
        let named = of_launch.iter().all(|line| line.kernel.starts_with(&launch.entry));
        ensure!(named, "{variant}: launch {number} was not profiled on the kernel {}", launch.entry);
        let values = |metric: &Metric| {
            let value = |line: &&&Line| line.metrics.get(metric.name).map(|&value| value as u64);
            of_launch.iter().map(value).collect::<Option<Vec<u64>>>().map(|values| (metric.name, values))
        };
        let stride = stride.map_or(String::new(), |stride| format!(", stride {stride}"));
        Ok(Compared {
            label: format!("`{variant}`{stride} {}", number + 1),
            simulated: launch.profile.total(),
            hardware: METRICS.iter().filter_map(values).collect(),
        })
    };
    run.launches.iter().enumerate().map(compared).collect()
}

fn markdown(all: &[Compared]) -> String {
    let tables = [
        (Equal, "## Equal\n\nOne number where both sides agree, else simulator / GPU."),
        (Noisy, "## With noise\n\nSimulator / GPU, least to most of the runs where they differ."),
        (Shown, "## Not the same thing\n\nPTX instructions / machine instructions."),
    ];
    let mut text = String::new();
    for (relation, title) in tables {
        let metrics: Vec<&Metric> =
            METRICS.iter().filter(|m| m.relation == relation && !m.label.is_empty()).collect();
        let labels: Vec<&str> = metrics.iter().map(|metric| metric.label).collect();
        let _ = writeln!(text, "{title}\n\n| launch | {} |", labels.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(metrics.len()));
        for one in all {
            let cell = |metric: &&Metric| match one.sides(metric) {
                None => "–".to_owned(),
                Some((simulated, least, most)) if simulated == least && least == most => {
                    simulated.to_string()
                }
                Some((simulated, least, most)) => {
                    let hardware =
                        if least == most { least.to_string() } else { format!("{least}–{most}") };
                    let mark = if one.agrees(metric) { "" } else { " **!**" };
                    format!("{simulated} / {hardware}{mark}")
                }
            };
            let cells: Vec<String> = metrics.iter().map(cell).collect();
            let _ = writeln!(text, "| {} | {} |", one.label, cells.join(" | "));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(loads: u64, hardware: &[u64]) -> Compared {
        let mut simulated = Tally::default();
        simulated.global_loads.requests = loads;
        simulated.shared_loads.wavefronts = loads;
        let of = |index: usize| (METRICS[index].name, hardware.to_vec());
        Compared { label: "`x` 1".to_owned(), simulated, hardware: [of(0), of(8)].into_iter().collect() }
    }

    #[test]
    fn equal_metrics_match_every_run_noisy_ones_the_range() {
        assert_eq!((METRICS[0].relation, METRICS[8].relation), (Equal, Noisy));
        for (hardware, equal, noisy) in
            [(&[7, 7, 7][..], true, true), (&[7, 8, 7], false, true), (&[8, 9, 9], false, false)]
        {
            let one = compared(7, hardware);
            assert_eq!(
                (one.agrees(&METRICS[0]), one.agrees(&METRICS[8])),
                (equal, noisy),
                "{hardware:?}"
            );
        }
        assert!(compared(7, &[7]).agrees(&METRICS[1]), "what was not measured is not judged");
    }

    #[test]
    fn atomics_of_both_kinds_are_one_number() {
        let mut one = compared(0, &[0]);
        one.simulated.global_atomics.requests = 5;
        one.hardware.insert(ATOMS, vec![2, 2]);
        one.hardware.insert(REDS, vec![3, 3]);
        let atomics = METRICS.iter().find(|metric| metric.name == ATOMS).unwrap();
        assert_eq!(one.sides(atomics), Some((5, 5, 5)));
        assert!(one.agrees(METRICS.iter().find(|metric| metric.name == REDS).unwrap()));
    }

    #[test]
    fn tables_show_both_sides_where_they_differ() {
        let text = markdown(&[compared(7, &[7, 9])]);
        assert!(text.contains("| `x` 1 | 7 / 7–9 **!** | – |"), "{text}");
        assert!(text.contains("| `x` 1 | 7 / 7–9 | – |"), "{text}");
    }
}
