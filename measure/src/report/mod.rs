//! `cargo xtask report`: renders a machine's results as one page of figures and tables, and as figures
//! and tables for the docs.
//!
//! `results` reads files of `record`s. Each figure of the page and each block of the docs is a function
//! in one of the files `groups`, `host`, `library`, `machine_code`, `matrix`, `memory`, `ratios`,
//! `reducer` and `sums`. It fills a `table`, and `curves`, `bars` or a `heat` map.

mod bars;
mod benches;
mod curves;
mod docs;
mod figure;
mod format;
mod groups;
mod heat;
mod host;
mod library;
mod machine_code;
mod matrix;
mod memory;
mod page;
mod ratios;
mod record;
mod reducer;
mod results;
mod scale;
mod sums;
mod svg;
mod table;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use warpfold_suite::say;

use crate::{files, ladder::snippets, process, workspace::Workspace};
use figure::Figure;
use results::Results;

/// Pages of docs/ with generated blocks, besides README.md.
const PAGES: [&str; 8] =
    ["codegen", "ladder", "hopper", "scale", "reducer", "movements", "performance", "results"];

const PLOTS: &str = "docs/plots";

/// Figures that are also written as files. The others are only in the page.
const PLOTTED: [&str; 9] =
    ["bandwidth", "latency", "ladder", "ratio", "reducer", "scaling", "strides", "times", "transposes"];

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of one machine's results, or a folder that contains only that one [default: docs/results]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Output page [default: target/report/index.html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,
    /// Also update docs/plots, and the tables, values and snippets in README.md and the pages of docs/
    #[arg(long)]
    pub readme: bool,
    /// Write nothing; exit 1 if docs/plots, a table, a value or a snippet is stale
    #[arg(long, conflicts_with_all = ["readme", "open", "out"])]
    pub check: bool,
}

/// A file with its new text; `None` if it is to be removed.
type File = (PathBuf, Option<String>);

/// Runs the command. Exits 1 with `--check` if a file is stale.
///
/// With `--readme` the tables of docs/scale.md are updated first. All other texts are generated before
/// any of them is written, so that an error in the results leaves their files unchanged.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    let is_current = !(args.readme || args.check) || crate::scale::update(&workspace, args.check)?;
    let code = run_in(&workspace, args)?;
    Ok(if is_current { code } else { ExitCode::FAILURE })
}

/// Runs the command in a given workspace.
pub fn run_in(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let folder = args.results.clone().unwrap_or_else(|| workspace.root.join("docs/results"));
    let results = Results::read(&folder, &workspace.show(&folder))?;
    if args.check {
        return check(workspace, results);
    }
    let figures = figures(&results);
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join("report/index.html"));
    let mut files = vec![(out.clone(), Some(page::page(&results, &figures)))];
    if args.readme {
        files.extend(derived(workspace, results)?);
    }
    files.iter().try_for_each(put)?;
    say!("{} pictures and tables: {}", figures.len(), workspace.show(&out));
    if args.open {
        open(&out)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn page_of(folder: &Path) -> Result<String> {
    let results = Results::read(folder, &folder.display().to_string())?;
    Ok(page::page(&results, &figures(&results)))
}

/// Returns the benches of the library that a folder of results may contain as `library/<bench>.jsonl`.
pub fn library_benches() -> impl Iterator<Item = &'static str> {
    benches::BENCHES.iter().map(|bench| bench.stem)
}

/// Returns the figures of the page in their order. A figure without data is omitted.
fn figures(results: &Results) -> Vec<Figure> {
    let first = [
        reducer::speed_up(results),
        reducer::times(results),
        reducer::by_type(results),
        sums::bandwidth(results),
        sums::latency(results, false),
        sums::latency(results, true),
        sums::ladder(results),
        ratios::sums(results),
        ratios::others(results),
        memory::strides(results),
        memory::transposes(results),
    ];
    let figures = first.into_iter().flatten().chain(host::transfers(results)).chain(host::cpu(results));
    let figures = figures.chain(groups::scaling(results)).chain(matrix::figure(results));
    figures.chain(library::figures(results)).chain(machine_code::figure(results)).collect()
}

/// Generates the docs' files from the results that have a date.
fn derived(workspace: &Workspace, results: Results) -> Result<Vec<File>> {
    let results = results.dated();
    let figures = figures(&results);
    let text = |(name, to_docs): (String, &str)| -> Result<File> {
        let path = workspace.root.join(&name);
        let renewed = || {
            let old = fs::read_to_string(&path).context("it cannot be read")?;
            let text = docs::renewed(&old, &results, &figures, to_docs)?;
            snippets::renew(&text, &workspace.root)
        };
        let text = renewed().context(name)?;
        Ok((path, Some(text)))
    };
    let plot = |id: &str| -> Result<File> {
        let figure = figures.iter().find(|figure| figure.id == id);
        let text = figure
            .and_then(|figure| Some(svg::standalone(&figure.pictures.as_ref()?[0], &figure.title)));
        Ok((workspace.root.join(PLOTS).join(id).with_extension("svg"), text))
    };
    let readme = ("README.md".to_owned(), "docs/");
    let texts = [readme].into_iter().chain(PAGES.map(|page| (format!("docs/{page}.md"), "")));
    texts.map(text).chain(PLOTTED.iter().map(|id| plot(id))).collect()
}

fn check(workspace: &Workspace, results: Results) -> Result<ExitCode> {
    let stale = derived(workspace, results)?.into_iter().filter_map(|(path, new)| {
        let (old, new) = (fs::read_to_string(&path).unwrap_or_default(), new.unwrap_or_default());
        let line = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count() + 1;
        (old != new).then(|| format!("{} from line {line}", workspace.show(&path)))
    });
    let stale: Vec<String> = stale.collect();
    if stale.is_empty() {
        say!(
            "README.md, {PLOTS} and the blocks of {} in docs/ are what the results give",
            PAGES.join(", ")
        );
        return Ok(ExitCode::SUCCESS);
    }
    say!("stale: {}; `cargo xtask report --readme` renews it", stale.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Writes or removes a file atomically, if it is not up to date.
fn put((path, text): &File) -> Result<()> {
    let failed = || format!("{} cannot be written", path.display());
    match text {
        None if path.exists() => fs::remove_file(path).with_context(failed),
        Some(text) if !fs::read(path).is_ok_and(|old| old == text.as_bytes()) => {
            path.parent().map_or(Ok(()), fs::create_dir_all).with_context(failed)?;
            files::replace(path, text)
        }
        _ => Ok(()),
    }
}

fn open(page: &Path) -> Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let path = env::var_os("PATH");
    let is_there = path.iter().flat_map(env::split_paths).any(|folder| folder.join(opener).is_file());
    ensure!(is_there, "no {opener} on the PATH to open {} with", page.display());
    let said = process::run(Command::new(opener).arg(page), Duration::from_secs(30))?;
    ensure!(said.status.success(), "{opener} could not open {}", page.display());
    Ok(())
}
