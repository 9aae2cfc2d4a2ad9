//! `cargo xtask report`: renders a machine's results as one page of figures and tables, and as figures
//! and tables for the docs.

mod blocks;
mod curves;
mod figures;
mod format;
mod groups;
mod library;
mod lines;
mod page;
mod panels;
mod prose;
mod results;
mod rows;
mod scale;
mod svg;
mod tables;
mod trusted;
mod values;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};
use warpfold_suite::say;

use anyhow::{Context, Result, bail};

use crate::{files, ladder::snippets, process, workspace::Workspace};
use figures::Figure;
use results::Results;

/// Texts with generated blocks, and the path from each to docs/.
const TEXTS: [(&str, &str); 9] = [
    ("README.md", "docs/"),
    ("docs/codegen.md", ""),
    ("docs/ladder.md", ""),
    ("docs/hopper.md", ""),
    ("docs/scale.md", ""),
    ("docs/reducer.md", ""),
    ("docs/movements.md", ""),
    ("docs/performance.md", ""),
    ("docs/results.md", ""),
];

const PLOTS: &str = "docs/plots";

/// Figures that are also written as files; the others are only in the page.
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

struct File {
    path: PathBuf,
    text: Option<String>,
}

/// Runs the command. Exits 1 when it checks and a file is stale.
///
/// # Errors
/// Results that are missing, mixed or damaged, or files that cannot be written. All texts are generated
/// before the first file is written, so that an error leaves all files unchanged.
pub fn run(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::locate()?;
    run_in(&workspace, args)
}

/// Runs the command in a given workspace.
///
/// # Errors
/// As [`run`].
pub fn run_in(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let folder = args.results.clone().unwrap_or_else(|| workspace.root.join("docs/results"));
    let results = Results::read(&folder, &workspace.show(&folder))?;
    if args.check {
        return check(workspace, &results);
    }
    let figures = figures::all(&results);
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join("report/index.html"));
    let mut files = vec![File { path: out.clone(), text: Some(page::page(&results, &figures)) }];
    if args.readme {
        files.extend(derived(workspace, &results)?);
    }
    for file in &files {
        file.put()?;
    }
    say!("{} pictures and tables: {}", figures.len(), workspace.show(&out));
    if args.open {
        open(&out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the page of a folder of results.
///
/// # Errors
/// Results that are missing, mixed or damaged.
pub fn page_of(folder: &Path) -> Result<String> {
    let results = Results::read(folder, &folder.display().to_string())?;
    Ok(page::page(&results, &figures::all(&results)))
}

/// Returns the benches of the library that a folder of results may have as `library/<bench>.jsonl`.
pub fn library_benches() -> impl Iterator<Item = &'static str> {
    library::stems()
}

fn check(workspace: &Workspace, results: &Results) -> Result<ExitCode> {
    let mut stale = Vec::new();
    for file in derived(workspace, results)? {
        let old = fs::read_to_string(&file.path).ok();
        let shown = workspace.show(&file.path);
        match (&old, &file.text) {
            (old, new) if old == new => {}
            (Some(old), Some(new)) if !shown.ends_with(".svg") => {
                stale
                    .extend(blocks::stale(old, new).into_iter().map(|name| format!("{shown} ({name})")));
                let values = values::stale(old, new);
                stale.extend(values.into_iter().map(|value| format!("{shown} (value {value})")));
                let snippets = snippets::stale(old, new);
                stale.extend(snippets.into_iter().map(|name| format!("{shown} (snippet {name})")));
            }
            _ => stale.push(shown),
        }
    }
    if stale.is_empty() {
        let texts = TEXTS.map(|(name, _)| name).join(", ");
        say!("{texts} and {PLOTS} are what the results give");
        return Ok(ExitCode::SUCCESS);
    }
    say!("stale: {}; `cargo xtask report --readme` renews it", stale.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Generates the docs' files from those results that have a date.
fn derived(workspace: &Workspace, results: &Results) -> Result<Vec<File>> {
    let results = results.dated();
    let figures = figures::all(&results);
    let mut files = Vec::new();
    for (name, to_docs) in TEXTS {
        let path = workspace.root.join(name);
        let old = fs::read_to_string(&path).with_context(|| format!("{name} cannot be read"))?;
        let text = blocks::renew(&old, &results, &figures, to_docs).with_context(|| name.to_owned())?;
        let text = values::renew(&text, &results).with_context(|| name.to_owned())?;
        let text = snippets::renew(&text, &workspace.root).with_context(|| name.to_owned())?;
        files.push(File { path, text: Some(text) });
    }
    for id in PLOTTED {
        let figure = figures.iter().find(|figure| figure.id == id);
        let text = figure.and_then(plot);
        files.push(File { path: workspace.root.join(PLOTS).join(id).with_extension("svg"), text });
    }
    Ok(files)
}

fn plot(figure: &Figure) -> Option<String> {
    let [wide, _] = figure.pictures.as_ref()?;
    Some(svg::standalone(wide, &figure.title))
}

impl File {
    /// Writes or removes the file atomically, if it is not up to date.
    fn put(&self) -> Result<()> {
        let failed = || format!("{} cannot be written", self.path.display());
        let Some(text) = &self.text else {
            return match self.path.exists() {
                true => fs::remove_file(&self.path).with_context(failed),
                false => Ok(()),
            };
        };
        if fs::read(&self.path).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(failed)?;
        }
        files::replace(&self.path, text)
    }
}

fn open(page: &Path) -> Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let path = env::var_os("PATH");
    let found = path.iter().flat_map(env::split_paths).any(|folder| folder.join(opener).is_file());
    if !found {
        bail!("no {opener} on the PATH to open {} with", page.display());
    }
    let limit = std::time::Duration::from_secs(30);
    let said = process::run(Command::new(opener).arg(page), limit)?;
    match said.status.success() {
        true => Ok(()),
        false => bail!("{opener} could not open {}", page.display()),
    }
}
