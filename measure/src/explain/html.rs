//! Runs as one self-contained HTML page: the table, block 0 step by step, the sources.

use std::{collections::BTreeMap, fs, path::Path};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use warpfold_sim::{Profile, Tally, WarpStep};

use super::{Explained, facts};

const MOST_STEPS: usize = 40;
/// Context lines around lines with counters.
const AROUND: u32 = 2;
const SIDE: usize = 7;
const PITCH: usize = 8;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2430;--dim:#6b7686;--line:#d5dbe3;--page:#fff;--store:#1f6feb;\
--load:#9ec5fe;--off:#eceff3;--bad:#d1242f}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#97a1b0;--line:#343c48;--page:#12161c;\
--store:#58a6ff;--load:#2a4d7a;--off:#222933;--bad:#ff7b72}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:2rem auto;\
max-width:110rem;padding:0 1.5rem}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}h3{font-size:1rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.15rem .6rem;text-align:right;vertical-align:top}\
td:first-child,th:first-child{text-align:left}\
th{border-bottom:1px solid var(--line)}tr.head td{font-weight:600;padding-top:.8rem}\
.wide{overflow-x:auto}.dim{color:var(--dim)}.bad{color:var(--bad);font-weight:600}\
.code td{font:13px/1.35 ui-monospace,monospace;padding:0 .5rem;white-space:pre}\
.code td:last-child,.code th:last-child{text-align:left}\
.heat{background:linear-gradient(90deg,var(--load) var(--share),transparent 0)}\
svg{display:block}.s{fill:var(--store)}.l{fill:var(--load)}.o{fill:var(--off)}.b{fill:var(--bad)}\
.steps td{padding:.25rem .5rem}.steps td:first-child{white-space:nowrap}p{max-width:60rem}";

pub(super) fn page(all: &[Explained], root: &Path) -> String {
    let names = all.iter().map(Explained::title).collect::<Vec<_>>().join(", ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width";
            title { (names) }
            style { (PreEscaped(STYLE)) }
            h1 { (names) }
            p.dim {
                "Counted on the simulator, which runs the kernels' PTX; no times. What each counter means is in \
                 docs/counters.md."
            }
            (table(all))
            @for one in all {
                h2 { (one.title()) }
                @if let Some(launch) = one.run.launches.first() { (timeline(&launch.profile)) }
                (sources(one, root))
            }
        }
    };
    page.into_string()
}

fn table(all: &[Explained]) -> Markup {
    let runs: Vec<_> = all.iter().map(|one| (&one.run, &one.facts)).collect();
    html! {
        div.wide {
            table {
                tr { th {} @for one in all { th { (one.title()) } } }
                @for section in facts::sections(&runs) {
                    tr.head { td { (section.title) } }
                    @for (label, values) in section.rows {
                        tr {
                            td { (label.replace("  ", "\u{2003}")) }
                            @for value in values {
                                td { @if value.is_empty() { "–" } @else { (value) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn timeline(profile: &Profile) -> Markup {
    let steps = &profile.timeline.steps;
    let warps = steps.first().map_or(0, Vec::len);
    let active = |step: &[WarpStep]| step.iter().filter(|warp| warp.stored != 0).count();
    html! {
        h3 { "Block 0, step by step" }
        p.dim {
            "A step lies between two block barriers. Upper row: the 32 lanes of a warp, " b { "dark" }
            " where a lane stored to shared memory, light where it only loaded. Lower row: the 32 banks, by how \
             many words one pass asked of each; red from two on, which is a conflict. Beside them the warp's \
             instructions and its passes over the banks."
        }
        div.wide {
            table.steps {
                tr { th { "step" } @for warp in 0..warps { th { "warp " (warp) } } }
                @for (number, step) in steps.iter().enumerate().take(MOST_STEPS) {
                    tr {
                        td { (number) br; span.dim { (active(step)) " active" } }
                        @for warp in step { (cell(warp)) }
                    }
                }
            }
        }
        @if steps.len() > MOST_STEPS {
            p.dim { (steps.len() - MOST_STEPS) " more steps are not shown." }
        }
    }
}

fn cell(warp: &WarpStep) -> Markup {
    let WarpStep { warp_instructions, stored, loaded, banks, wavefronts } = warp;
    let lane = |lane: usize| match (stored >> lane & 1, loaded >> lane & 1) {
        (1, _) => "s",
        (0, 1) => "l",
        _ => "o",
    };
    let bank = |bank: usize| match banks[bank] {
        0 => "o",
        1 => "l",
        _ => "b",
    };
    let ways = banks.iter().max().copied().unwrap_or(0);
    html! {
        td {
            @if *warp_instructions > 0 {
                svg width=(32 * PITCH) height=(2 * PITCH + 2) { (squares(0, lane)) (squares(PITCH + 2, bank)) }
                span.dim { (warp_instructions) " instr., " (wavefronts) " passes" }
                @if ways > 1 { " " span.bad { (ways) "-way" } }
            }
        }
    }
}

/// Draws a row of 32 squares by class. Adjacent squares of the same class become one rectangle, because
/// a page has thousands of squares.
fn squares(y: usize, class: impl Fn(usize) -> &'static str) -> Markup {
    let classes: Vec<(usize, &str)> = (0..32).map(|at| (at, class(at))).collect();
    html! {
        @for alike in classes.chunk_by(|a, b| a.1 == b.1) {
            rect class=(alike[0].1) x=(alike[0].0 * PITCH) y=(y)
                width=(alike.len() * PITCH - (PITCH - SIDE)) height=(SIDE) {}
        }
    }
}

const HEADS: [&str; 13] = [
    "warp instr.",
    "lanes",
    "div.",
    "barriers",
    "shared req.",
    "wavefronts",
    "way",
    "global req.",
    "sectors",
    "used",
    "atomics",
    "line",
    "source",
];

fn sources(one: &Explained, root: &Path) -> Markup {
    let own = one.run.own_file();
    let all = &one.attribution;
    let hottest = all.files.values().flat_map(|lines| lines.values());
    let most = hottest.map(|tally| tally.warp_instructions).max().unwrap_or(1).max(1);
    let files = std::iter::once(&own).chain(all.files.keys().filter(|file| **file != own));
    html! {
        @for (file, lines) in files.filter_map(|file| Some((file, all.files.get(file)?))) {
            h3 { (file) }
            div.wide {
                table.code {
                    tr { @for head in HEADS { th { (head) } } }
                    @for line in near(&fs::read_to_string(root.join(file)).unwrap_or_default(), lines) {
                        @match line {
                            Some((line, code)) => (source_line(lines.get(&line), line, &code, most)),
                            None => tr { td.dim colspan=(HEADS.len()) { "…" } },
                        }
                    }
                }
            }
        }
    }
}

/// Returns the numbered lines with counters and their context, and `None` for each gap.
fn near(source: &str, lines: &BTreeMap<u32, Tally>) -> Vec<Option<(u32, String)>> {
    let mut shown = Vec::new();
    let mut skipped = false;
    for (line, code) in (1_u32..).zip(source.lines()) {
        let around = line.saturating_sub(AROUND)..=line + AROUND;
        if lines.range(around).next().is_none() {
            skipped = true;
            continue;
        }
        shown.extend(std::mem::take(&mut skipped).then_some(None));
        shown.push(Some((line, code.to_owned())));
    }
    shown
}

fn source_line(tally: Option<&Tally>, line: u32, code: &str, most: u64) -> Markup {
    html! {
        tr {
            @if let Some(tally) = tally { (counters(tally, most)) }
            @else { @for _ in 2..HEADS.len() { td {} } }
            td.dim { (line) }
            td { (code) }
        }
    }
}

fn counters(tally: &Tally, most: u64) -> Markup {
    let number = |value: u64| if value == 0 { String::new() } else { value.to_string() };
    let (shared, global) = (tally.shared(), tally.global());
    let share = tally.warp_instructions * 100 / most;
    html! {
        td.heat style={ "--share:" (share) "%" } { (number(tally.warp_instructions)) }
        td { (tally.mean_lanes().map_or(String::new(), |lanes| format!("{lanes:.2}"))) }
        td { (number(tally.divergent_branches)) }
        td { (number(tally.block_barriers)) }
        td { (number(shared.requests)) }
        td { (number(shared.wavefronts)) }
        td class=[(shared.degree > 1).then_some("bad")] { (number(shared.degree.into())) }
        td { (number(global.requests)) }
        td { (number(global.sectors)) }
        td { (global.efficiency().map_or(String::new(), |used| format!("{:.1}%", used * 100.0))) }
        td { (number(tally.global_atomics.operations)) }
    }
}
