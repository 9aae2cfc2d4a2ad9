//! Runs as text: a table of the whole, and each kernel's source with the counters beside its lines.

use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

use warpfold_sim::Tally;

use super::{Explained, attribution::Attribution, facts};

/// Lines without counters between two with some, up to which all are shown.
const GAP: u32 = 6;
/// Heads of the columns beside the source.
const HEAD: [&str; 2] = [
    "    warp   mean   div.   bar-  |    shared memory     |      global memory       |",
    "  instr.  lanes    br.  riers  |    req.   wavef. way |    req.    sect.   used  | atomics",
];
const LEGEND: &str = "\
warp instr.  instructions, once per warp           lanes  lanes of 32 whose predicate held, in the mean
div. br.     branches whose lanes part ways        barriers  arrivals of warps at block barriers
req.         requests: loads and stores of a warp  wavef.  passes over the banks; way: worst conflict
sect.        sectors of 32 bytes; used: the part   atomics  operations on global memory
             of their bytes that was asked for     inclusive: a call's line holds what it calls";

/// The table of the whole, runs side by side.
pub(super) fn summary(all: &[Explained]) -> String {
    let runs: Vec<_> = all.iter().map(|one| (&one.run, &one.facts)).collect();
    let sections = facts::sections(&runs);
    let titles = || all.iter().map(|one| one.title().chars().count());
    let cells = sections.iter().flat_map(|section| &section.rows);
    let widths: Vec<usize> = titles()
        .enumerate()
        .map(|(column, title)| {
            cells.clone().map(|(_, values)| values[column].len()).max().unwrap_or(0).max(title)
        })
        .collect();
    let label = cells.clone().map(|(label, _)| label.len() + 2).max().unwrap_or(0);
    let mut text = String::new();
    let mut row = |label_text: &str, values: &mut dyn Iterator<Item = String>| {
        let mut line = format!("{label_text:label$}");
        for (value, width) in values.zip(&widths) {
            let _ = write!(line, "  {value:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row("", &mut all.iter().map(Explained::title));
    for section in &sections {
        row(section.title, &mut std::iter::empty());
        for (label, values) in &section.rows {
            let dashed = |value: &String| if value.is_empty() { "-".to_owned() } else { value.clone() };
            row(&format!("  {label}"), &mut values.iter().map(dashed));
        }
    }
    text
}

/// The sources of a run with their counters, the kernel's own file first.
pub(super) fn sources(one: &Explained, root: &Path) -> String {
    let all = &one.attribution;
    let own = one.run.own_file();
    let others = all.files.keys().filter(|file| **file != own);
    let mut text = String::new();
    for file in std::iter::once(&own).chain(others) {
        let Some(lines) = all.files.get(file) else { continue };
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let _ = writeln!(text, "{file}\n{}\n{}   line  source", HEAD[0], HEAD[1]);
        text.push_str(&listing(&source, lines));
        if *file == own && all.elsewhere.warp_instructions > 0 {
            let _ = writeln!(text, "{}         (of no line of this file)", columns(&all.elsewhere));
        }
        text.push('\n');
    }
    text
}

/// What the columns mean.
pub(super) fn legend() -> &'static str {
    LEGEND
}

/// The lines of all shown files with the most warp instructions.
pub(super) fn hottest(one: &Explained, root: &Path, most: usize) -> String {
    let Attribution { innermost, total, .. } = &one.attribution;
    let mut lines: Vec<_> = innermost.iter().collect();
    lines.sort_by_key(|(place, tally)| (std::cmp::Reverse(tally.warp_instructions), (*place).clone()));
    let mut text = format!("hottest lines of {}\n{}\n{}   share\n", one.title(), HEAD[0], HEAD[1]);
    for (place, tally) in lines.into_iter().take(most) {
        let source = fs::read_to_string(root.join(&place.file)).unwrap_or_default();
        let source = source.lines().nth(place.line as usize - 1).unwrap_or_default().trim();
        let share = tally.warp_instructions as f64 * 100.0 / total.warp_instructions.max(1) as f64;
        let _ =
            writeln!(text, "{} {share:5.1} %  {}:{}  {source}", columns(tally), place.file, place.line);
    }
    text
}

/// The source around the lines that have counters.
fn listing(source: &str, lines: &BTreeMap<u32, Tally>) -> String {
    let mut text = String::new();
    let mut last: Option<u32> = None;
    for &line in lines.keys() {
        let from = match last {
            Some(last) if line <= last + GAP => last + 1,
            _ => {
                if last.is_some() {
                    let _ = writeln!(text, "{:>width$}", "...", width = HEAD[1].len() + 7);
                }
                line.saturating_sub(1).max(1)
            }
        };
        for shown in from..=line {
            let of_line = lines.get(&shown).map_or_else(|| " ".repeat(HEAD[1].len()), columns);
            let code = source.lines().nth(shown as usize - 1).unwrap_or_default();
            let _ = writeln!(text, "{}", format!("{of_line}{shown:>7}  {code}").trim_end());
        }
        last = Some(line);
    }
    text
}

/// A line's counters, as wide as the head.
fn columns(tally: &Tally) -> String {
    let number = |value: u64| if value == 0 { String::new() } else { value.to_string() };
    let (shared, global) = (tally.shared(), tally.global());
    let lanes = tally.mean_lanes().map_or(String::new(), |lanes| format!("{lanes:.2}"));
    let way = number(shared.degree.into());
    let used = global.efficiency().map_or(String::new(), |used| format!("{:.1}%", used * 100.0));
    let text = format!(
        "{:>8} {lanes:>6} {:>6} {:>6}  |{:>8} {:>8} {way:>3} |{:>8} {:>8} {used:>6}  |{:>8}",
        number(tally.warp_instructions),
        number(tally.divergent_branches),
        number(tally.block_barriers),
        number(shared.requests),
        number(shared.wavefronts),
        number(global.requests),
        number(global.sectors),
        number(tally.global_atomics.operations),
    );
    format!("{text:width$}", width = HEAD[1].len())
}
