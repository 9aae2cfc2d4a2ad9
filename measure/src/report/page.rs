//! The page: a single file without network requests.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    figure::Figure,
    format::{digits, distinct},
    results::{Results, Set},
    svg::LOOK,
    table::Table,
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
    let sets = Table::of("Sets", &results.sets).columns(&[
        ("<file", &|set| set.file.clone()),
        ("<measured", &|set| set.date().unwrap_or("–").replace('T', " ")),
        ("<command", &|set| set.command().to_owned()),
        ("lines", &|set| set.lines().to_string()),
    ]);
    let sets = sets.opened();
    let tables = figures.iter().flat_map(|figure| &figure.tables).chain([&sets]);
    let tables = tables.enumerate().map(|(at, table)| table.html(&format!("table-{}", at + 1)));
    let (tables, heads): (Vec<Markup>, Vec<String>) = tables.unzip();
    let mut tables = tables.into_iter();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { "warpfold" (on) }
                style {
                    (PreEscaped(LOOK)) (PreEscaped(CSS))
                    "@media(max-width:700px){" (PreEscaped(heads.concat())) "}"
                }
            }
            body {
                a.skip href="#pictures" { "Skip to the pictures" }
                header {
                    h1 { "warpfold" (on) }
                    p.under { "GPU reduction kernels in Rust, beside CUDA C, CUB and PyTorch." }
                    @if results.wrong() > 0 {
                        p.notice { (results.wrong()) " results were wrong and are not shown." }
                    }
                    (machine(results))
                    nav aria-label="Pictures" {
                        ul {
                            @for figure in figures { li { a href={ "#" (figure.id) } { (figure.title) } } }
                            li { a href="#method" { "Method" } }
                        }
                    }
                }
                main #pictures {
                    @for Figure { id, title, lead, pictures, tables: own, sources } in figures {
                        section id=(id) data-chart=(id) {
                            h2 { (title) }
                            p { (lead) }
                            @if let Some(pictures) = pictures {
                                figure { @for picture in pictures { (PreEscaped(picture)) } }
                            }
                            p.source { "From " (sources.join("; ")) "." }
                            @for table in tables.by_ref().take(own.len()) { (table) }
                        }
                    }
                    section #method {
                        h2 { "Method" }
                        (method(results))
                        @for table in tables { (table) }
                    }
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

fn machine(results: &Results) -> Markup {
    let newest = |of: fn(&Machine) -> Option<String>| results.newest(of);
    let number = |n: u64, unit: &str| (n > 0).then(|| format!("{n}{unit}"));
    let days = distinct(results.sets.iter().filter_map(Set::day));
    let measured = days.first().zip(days.last()).map(|(first, last)| match first == last {
        true => (*first).to_owned(),
        false => format!("{first} to {last}"),
    });
    let facts: [(&str, Option<String>); 13] = [
        ("GPU", results.gpu().map(str::to_owned)),
        ("Multiprocessors", results.newest(|m| number(m.multiprocessors.into(), ""))),
        ("L2 cache", results.newest(|m| number(m.l2_bytes >> 20, " MiB"))),
        ("Theoretical bandwidth", results.peak().map(|peak| format!("{} GB/s", digits(peak)))),
        ("Driver", newest(|m| m.driver.clone())),
        ("CUDA of the driver", newest(|m| m.cuda.clone())),
        ("CPU", newest(|m| Some(m.cpu.clone()).filter(|cpu| !cpu.is_empty()))),
        ("Rust compiler", newest(|m| m.rustc.clone())),
        ("rust-cuda", newest(|m| m.nvvm.clone())),
        ("CUDA C compiler", newest(|m| m.nvcc.clone())),
        ("CUB", newest(|m| m.cub.clone())),
        ("PyTorch", newest(|m| m.torch.clone())),
        ("Measured", measured),
    ];
    let known: Vec<_> = facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    html! {
        @if !known.is_empty() {
            dl.machine { @for (name, value) in known { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// Describes the method of the largest comparison, and the method of single runs.
fn method(results: &Results) -> Markup {
    let is_buffer =
        |set: &&Set| set.points.iter().filter(|p| !p.is_of_rows() && p.inputs.is_none()).count();
    let largest = results.sets.iter().filter(|set| set.compared).max_by_key(is_buffer);
    let method = largest.and_then(|set| Some((set, &set.machine.as_ref()?.method)));
    let method = method.filter(|(_, method)| !method.is_empty());
    html! {
        @if let Some((set, method)) = method { p { (set.file) ": " (method) } }
        @if results.sets.iter().any(|set| set.points.iter().any(|p| p.single)) { p { (SINGLE_RUNS) } }
    }
}
