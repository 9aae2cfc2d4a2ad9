//! The page: a single file without network requests.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    figures::{Figure, Table, distinct},
    format::digits,
    results::{Results, Set},
    svg::LOOK,
    tables::Tables,
};
use crate::compare::timed::record::Machine;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

const SINGLE_RUNS: &str = "In sets of single runs each variant runs by itself: the result is checked \
    against the CPU's, the kernel warms up, and then device events stand around each run, on inputs \
    rotated past the L2 cache. Medians are shown, with the fastest and the slowest run. The time between \
    two events includes all launches of a reduction and what launching costs. Where two kernels are held \
    against each other, look at times that were taken in turns.";

pub(super) fn page(results: &Results, figures: &[Figure]) -> String {
    let on = results.gpu().map(|gpu| format!(" on {gpu}")).unwrap_or_default();
    let mut tables = Tables::default();
    let sections: Vec<Markup> = figures.iter().map(|figure| section(figure, &mut tables)).collect();
    let sets = sets(results, &mut tables);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { "warpfold" (on) }
                style { (PreEscaped(LOOK)) (PreEscaped(CSS)) (PreEscaped(tables.css)) }
            }
            body {
                a.skip href="#pictures" { "Skip to the pictures" }
                header {
                    h1 { "warpfold" (on) }
                    p.under { "GPU reduction kernels in Rust, beside CUDA C, CUB and PyTorch." }
                    @if results.wrong > 0 {
                        p.notice { (results.wrong) " results were wrong and are not shown." }
                    }
                    (machine(results))
                    (contents(figures))
                }
                main #pictures {
                    @for section in sections { (section) }
                    section #method { h2 { "Method" } (method(results)) (sets) }
                }
                footer {
                    p {
                        "In the pictures point at a value, or focus a picture and use the arrow keys. Made by "
                        code { "cargo xtask report" } "."
                    }
                }
                div #tip role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn contents(figures: &[Figure]) -> Markup {
    html! {
        nav aria-label="Pictures" {
            ul {
                @for figure in figures { li { a href={ "#" (figure.id) } { (figure.title) } } }
                li { a href="#method" { "Method" } }
            }
        }
    }
}

fn section(figure: &Figure, all: &mut Tables) -> Markup {
    let Figure { id, title, lead, pictures, tables, sources } = figure;
    html! {
        section id=(id) data-chart=(id) {
            h2 { (title) }
            p { (lead) }
            @if let Some(pictures) = pictures {
                figure { @for picture in pictures { (PreEscaped(picture)) } }
            }
            p.source { "From " (sources.join("; ")) "." }
            @for table in tables { (all.html(table)) }
        }
    }
}

fn machine(results: &Results) -> Markup {
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
    let known: Vec<_> = facts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
    html! {
        @if !known.is_empty() {
            dl.machine { @for (name, value) in known { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn method(results: &Results) -> Markup {
    let compared = results.sets.iter().filter(|set| set.compared);
    let largest = compared.max_by_key(|set| set.points.len()).and_then(|set| {
        let method = set.machine.as_ref().map(|machine| machine.method.as_str());
        method.filter(|method| !method.is_empty()).map(|method| format!("{}: {method}", set.file))
    });
    let single = results.sets.iter().any(|set| set.points.iter().any(|point| point.single));
    let paragraphs = largest.into_iter().chain(single.then(|| SINGLE_RUNS.to_owned()));
    html! { @for paragraph in paragraphs { p { (paragraph) } } }
}

fn sets(results: &Results, all: &mut Tables) -> Markup {
    let mut table =
        Table { open: true, ..Table::new("Sets", &["file", "measured", "command", "lines"], 3) };
    for set in &results.sets {
        let command = set.machine.as_ref().map(|machine| machine.command.clone()).unwrap_or_default();
        table.push([
            set.file.clone(),
            set.date().unwrap_or("–").replace('T', " "),
            command,
            set.lines().to_string(),
        ]);
    }
    all.html(&table)
}
