//! Runs as text: a summary table, and each kernel's source with counters beside the lines.

use std::{fmt::Write, fs, path::Path};

use warpfold_sim_report::{HEAD, columns, listing};

use super::{Explained, attribution::Attribution, facts};

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
