//! The page: one file, which asks nothing of any network.

use std::fmt::Write;

use super::{
    figures::{Figure, Table, distinct},
    format::{digits, escape},
    results::{Results, Set},
    svg::LOOK,
    tables::Tables,
};
use crate::compare::timed::record::Machine;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How single runs are timed, for sets without a description of their own.
const SINGLE_RUNS: &str = "In sets of single runs each variant runs by itself: the result is checked \
    against the CPU's, the kernel warms up, and then device events stand around each run, on inputs \
    rotated past the L2 cache. Medians are shown, with the fastest and the slowest run. The time between \
    two events includes all launches of a reduction and what launching costs. Where two kernels are held \
    against each other, look at times that were taken in turns.";

/// The report.
pub(super) fn page(results: &Results, figures: &[Figure]) -> String {
    let on = results.gpu().map(|gpu| format!(" on {}", escape(&gpu))).unwrap_or_default();
    let links: String = figures
        .iter()
        .map(|figure| format!("<li><a href=\"#{}\">{}</a></li>", figure.id, escape(&figure.title)))
        .collect();
    let mut tables = Tables::default();
    let sections: String = figures.iter().map(|figure| section(figure, &mut tables)).collect();
    let wrong = match results.wrong {
        0 => String::new(),
        wrong => format!("<p class=\"notice\">{wrong} results were wrong and are not shown.</p>"),
    };
    let machine = machine(results);
    let method = method(results);
    let sets = sets(results, &mut tables);
    let stacks = tables.css;
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>warpfold{on}</title>\n<style>\n{LOOK}{CSS}{stacks}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#pictures\">Skip to the pictures</a>\n\
         <header>\n<h1>warpfold{on}</h1>\n\
         <p class=\"under\">GPU reduction kernels in Rust, beside CUDA C, CUB and PyTorch.</p>\n\
         {wrong}{machine}<nav aria-label=\"Pictures\"><ul>{links}<li><a href=\"#method\">Method</a></li></ul></nav>\n\
         </header>\n<main id=\"pictures\">\n{sections}{method}{sets}</main>\n\
         <footer><p>In the pictures point at a value, or focus a picture and use the arrow keys. Made by \
         <code>cargo xtask report</code>.</p></footer>\n\
         <div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn section(figure: &Figure, all: &mut Tables) -> String {
    let Figure { id, title, lead, pictures, tables, sources } = figure;
    let mut html = format!(
        "<section id=\"{id}\" data-chart=\"{id}\">\n<h2>{}</h2>\n<p>{}</p>\n",
        escape(title),
        escape(lead)
    );
    if let Some(pictures) = pictures {
        write!(html, "<figure>\n{}\n</figure>\n", pictures.join("\n")).expect("a String takes all");
    }
    let sources = escape(&sources.join("; "));
    writeln!(html, "<p class=\"source\">From {sources}.</p>").expect("a String takes all");
    html.extend(tables.iter().map(|table| all.html(table)));
    html + "</section>\n"
}

/// What is known of the machine.
fn machine(results: &Results) -> String {
    let newest = |of: fn(&Machine) -> Option<String>| results.newest(of);
    let there = |text: &String| (!text.is_empty()).then(|| text.clone());
    let number = |n: u64, unit: &str| (n > 0).then(|| format!("{n}{unit}"));
    let days =
        distinct(results.sets.iter().filter_map(Set::date).filter_map(|date| date.split('T').next()));
    let measured = days.first().zip(days.last()).map(|(first, last)| match first == last {
        true => (*first).to_owned(),
        false => format!("{first} to {last}"),
    });
    let facts: [(&str, Option<String>); 13] = [
        ("GPU", results.gpu()),
        ("Multiprocessors", results.newest(|m| number(m.multiprocessors.into(), ""))),
        ("L2 cache", results.newest(|m| number(m.l2_bytes >> 20, " MiB"))),
        ("Theoretical bandwidth", results.peak().map(|peak| format!("{} GB/s", digits(peak)))),
        ("Driver", newest(|m| m.driver.clone())),
        ("CUDA of the driver", newest(|m| m.cuda.clone())),
        ("CPU", results.newest(|m| there(&m.cpu))),
        ("Rust compiler", newest(|m| m.rustc.clone())),
        ("rust-cuda", newest(|m| m.nvvm.clone())),
        ("CUDA C compiler", newest(|m| m.nvcc.clone())),
        ("CUB", newest(|m| m.cub.clone())),
        ("PyTorch", newest(|m| m.torch.clone())),
        ("Measured", measured),
    ];
    let known = facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let items: String = known
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value)))
        .collect();
    if items.is_empty() {
        return items;
    }
    format!("<dl class=\"machine\">{items}</dl>\n")
}

/// How it was measured.
fn method(results: &Results) -> String {
    let compared = results.sets.iter().filter(|set| set.compared);
    let largest = compared.max_by_key(|set| set.points.len()).and_then(|set| {
        let method = set.machine.as_ref().map(|machine| machine.method.as_str());
        method.filter(|method| !method.is_empty()).map(|method| format!("{}: {method}", set.file))
    });
    let single = results.sets.iter().any(|set| set.points.iter().any(|point| point.single));
    let paragraphs = largest.into_iter().chain(single.then(|| SINGLE_RUNS.to_owned()));
    let text: String = paragraphs.map(|text| format!("<p>{}</p>\n", escape(&text))).collect();
    format!("<section id=\"method\">\n<h2>Method</h2>\n{text}")
}

/// The files, and how each was made.
fn sets(results: &Results, all: &mut Tables) -> String {
    let mut table =
        Table { open: true, ..Table::new("Sets", &["file", "measured", "command", "lines"], 3) };
    for set in &results.sets {
        let command = set.machine.as_ref().map(|machine| machine.command.clone()).unwrap_or_default();
        table.push([
            set.file.clone(),
            set.date().unwrap_or("–").replace('T', " "),
            command,
            (set.points.len() + set.codes.len()).to_string(),
        ]);
    }
    all.html(&table) + "</section>\n"
}
