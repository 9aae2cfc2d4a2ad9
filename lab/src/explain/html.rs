//! Runs as one HTML page that needs nothing else: the table, block 0 step by step, the sources.

use std::{fmt::Write, fs, path::Path};

use warpfold_sim::{Profile, Tally, WarpStep};

use super::{Explained, facts};

/// Steps of a block that are drawn, at most.
const MOST_STEPS: usize = 40;
/// Lines of source around those with counters.
const AROUND: usize = 2;
/// Side of a lane's square, and of the gap between two.
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

/// The page of some runs.
pub(super) fn page(all: &[Explained], root: &Path) -> String {
    let names: Vec<String> = all.iter().map(Explained::title).collect();
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style>\n\
         <h1>{0}</h1>\n<p class=\"dim\">Counted on the simulator, which runs the kernels' PTX; no times. \
         What each counter means is in docs/counters.md.</p>\n",
        escape(&names.join(", "))
    );
    text.push_str(&table(all));
    for one in all {
        let _ = writeln!(text, "<h2>{}</h2>", escape(&one.title()));
        if let Some(launch) = one.run.launches.first() {
            text.push_str(&timeline(&launch.profile));
        }
        text.push_str(&sources(one, root));
    }
    text.push_str("</html>\n");
    text
}

fn table(all: &[Explained]) -> String {
    let runs: Vec<_> = all.iter().map(|one| (&one.run, &one.facts)).collect();
    let mut text = "<div class=\"wide\"><table><tr><th></th>".to_owned();
    for one in all {
        let _ = write!(text, "<th>{}</th>", escape(&one.title()));
    }
    text.push_str("</tr>\n");
    for section in facts::sections(&runs) {
        let _ = writeln!(text, "<tr class=\"head\"><td>{}</td></tr>", section.title);
        for (label, values) in section.rows {
            let _ = write!(text, "<tr><td>{}</td>", label.replace("  ", "&emsp;"));
            for value in values {
                let _ = write!(text, "<td>{}</td>", if value.is_empty() { "–" } else { value.as_str() });
            }
            text.push_str("</tr>\n");
        }
    }
    text.push_str("</table></div>\n");
    text
}

/// Block 0: a row for each step, a column for each warp.
fn timeline(profile: &Profile) -> String {
    let steps = &profile.timeline.steps;
    let warps = steps.first().map_or(0, Vec::len);
    let mut text = format!(
        "<h3>Block 0, step by step</h3>\n<p class=\"dim\">A step lies between two block barriers. Upper row: \
         the 32 lanes of a warp, <b>dark</b> where a lane stored to shared memory, light where it only \
         loaded. Lower row: the 32 banks, by how many words one pass asked of each; red from two on, which \
         is a conflict. Beside them the warp's instructions and its passes over the banks.</p>\n\
         <div class=\"wide\"><table class=\"steps\"><tr><th>step</th>{}</tr>\n",
        (0..warps).map(|warp| format!("<th>warp {warp}</th>")).collect::<String>()
    );
    for (number, step) in steps.iter().enumerate().take(MOST_STEPS) {
        let active = step.iter().filter(|warp| warp.stored != 0).count();
        let _ = write!(text, "<tr><td>{number}<br><span class=\"dim\">{active} active</span></td>");
        step.iter().for_each(|warp| text.push_str(&cell(warp)));
        text.push_str("</tr>\n");
    }
    text.push_str("</table></div>\n");
    if steps.len() > MOST_STEPS {
        let _ = writeln!(
            text,
            "<p class=\"dim\">{} more steps are not shown.</p>",
            steps.len() - MOST_STEPS
        );
    }
    text
}

/// A warp in a step.
fn cell(warp: &WarpStep) -> String {
    let WarpStep { warp_instructions, stored, loaded, banks, wavefronts } = warp;
    if *warp_instructions == 0 {
        return "<td></td>".to_owned();
    }
    let mut text = format!("<td><svg width=\"{}\" height=\"{}\">", 32 * PITCH, 2 * PITCH + 2);
    // Neighbours that look alike are one rectangle: a page has thousands.
    let mut row = |y: usize, class: &dyn Fn(usize) -> &'static str| {
        let mut from = 0;
        for lane in 1..=32 {
            if lane == 32 || class(lane) != class(from) {
                let (x, width) = (from * PITCH, (lane - from) * PITCH - (PITCH - SIDE));
                let _ = write!(
                    text,
                    "<rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{SIDE}\"/>",
                    class(from)
                );
                from = lane;
            }
        }
    };
    row(0, &|lane| match (stored >> lane & 1, loaded >> lane & 1) {
        (1, _) => "s",
        (0, 1) => "l",
        _ => "o",
    });
    row(PITCH + 2, &|bank| match banks[bank] {
        0 => "o",
        1 => "l",
        _ => "b",
    });
    let ways = banks.iter().max().copied().unwrap_or(0);
    let conflict =
        if ways > 1 { format!(" <span class=\"bad\">{ways}-way</span>") } else { String::new() };
    let _ = write!(
        text,
        "</svg><span class=\"dim\">{warp_instructions} instr., {wavefronts} passes</span>{conflict}</td>"
    );
    text
}

/// The sources with their counters, the kernel's own file first.
fn sources(one: &Explained, root: &Path) -> String {
    let own = one.run.own_file();
    let all = &one.attribution;
    let hottest = all.files.values().flat_map(|lines| lines.values());
    let most = hottest.map(|tally| tally.warp_instructions).max().unwrap_or(1).max(1);
    let mut text = String::new();
    for file in std::iter::once(&own).chain(all.files.keys().filter(|file| **file != own)) {
        let Some(lines) = all.files.get(file) else { continue };
        let _ = writeln!(
            text,
            "<h3>{}</h3>\n<div class=\"wide\"><table class=\"code\"><tr><th>warp instr.</th><th>lanes</th>\
             <th>div.</th><th>barriers</th><th>shared req.</th><th>wavefronts</th><th>way</th>\
             <th>global req.</th><th>sectors</th><th>used</th><th>atomics</th><th>line</th><th>source</th></tr>",
            escape(file)
        );
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let mut skipped = false;
        for (index, code) in source.lines().enumerate() {
            let line = index as u32 + 1;
            let near = line.saturating_sub(AROUND as u32)..=line + AROUND as u32;
            if lines.range(near).next().is_none() {
                skipped = true;
                continue;
            }
            if std::mem::take(&mut skipped) {
                let _ = writeln!(text, "<tr><td colspan=\"13\" class=\"dim\">…</td></tr>");
            }
            text.push_str(&source_line(lines.get(&line), line, code, most));
        }
        text.push_str("</table></div>\n");
    }
    text
}

fn source_line(tally: Option<&Tally>, line: u32, code: &str, most: u64) -> String {
    let code = escape(code);
    let Some(tally) = tally else {
        return format!(
            "<tr>{}<td class=\"dim\">{line}</td><td>{code}</td></tr>\n",
            "<td></td>".repeat(11)
        );
    };
    let number = |value: u64| if value == 0 { String::new() } else { value.to_string() };
    let (shared, global) = (tally.shared(), tally.global());
    let share = tally.warp_instructions * 100 / most;
    let conflict = if shared.degree > 1 { " class=\"bad\"" } else { "" };
    format!(
        "<tr><td class=\"heat\" style=\"--share:{share}%\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td{conflict}>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td class=\"dim\">{line}</td><td>{code}</td></tr>\n",
        number(tally.warp_instructions),
        tally.mean_lanes().map_or(String::new(), |lanes| format!("{lanes:.2}")),
        number(tally.divergent_branches),
        number(tally.block_barriers),
        number(shared.requests),
        number(shared.wavefronts),
        number(shared.degree.into()),
        number(global.requests),
        number(global.sectors),
        global.efficiency().map_or(String::new(), |used| format!("{:.1}%", used * 100.0)),
        number(tally.global_atomics.operations),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
