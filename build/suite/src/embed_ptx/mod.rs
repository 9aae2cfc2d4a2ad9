//! `cargo xtask embed-ptx`: writes the reducer's PTX to `warpfold/ptx/`, which the library embeds.
//!
//! Users of the library cannot compile kernels, so its PTX is committed, as archives that `--text`
//! unpacks. A file next to the kernels records hashes of the archives' inputs, by which a check finds
//! stale archives without many minutes of compilation.

mod pack;
mod strip;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use warpfold::internal::archive::{ARCH, ARCHIVES, archive_of, for_oldest};
use warpfold_suite::{Arch, catalogue, say};

use crate::{
    build_ptx::{self, Choice, Kernels, Request, Variant, fingerprint::Fingerprint},
    failure::Failure,
    files,
    machine::Machine,
    rust_src, suite,
    toolchain::Toolchain,
    workspace::Workspace,
};

const FOLDER: &str = "warpfold/ptx";

/// The file with the hashes of the archives and of their inputs.
const RECORD: &str = "kernels/embedded.lock";

const RECORD_HEAD: &str = "# What the archives of warpfold/ptx were made of. `cargo xtask embed-ptx` writes this, \
                           and its --check reads it.\n";

const MAKERS: [&str; 3] =
    ["build/src/split.rs", "build/suite/src/embed_ptx/pack.rs", "build/suite/src/embed_ptx/strip.rs"];

/// The arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write nothing; fail if the archives were built from other sources or by another compiler
    #[arg(long, conflicts_with = "text")]
    pub check: bool,
    /// With --check, also compile all kernels; fail if an embedded PTX file differs
    #[arg(long, requires = "check")]
    pub compile: bool,
    /// Compile nothing; rewrite the archives from the PTX that they contain
    #[arg(long, conflicts_with_all = ["check", "text"])]
    pub repack: bool,
    /// Compile nothing; unpack the embedded PTX to a new or empty folder, as
    /// FOLDER/sm_90/reducer_sum_f32.ptx and so on
    #[arg(long, value_name = "FOLDER")]
    pub text: Option<PathBuf>,
}

type File = (String, String);

pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    if let Some(folder) = &args.text {
        return write_texts(&workspace, folder);
    }
    if args.check {
        check(&workspace)?;
        return if args.compile { check_texts(&workspace) } else { Ok(()) };
    }
    let recorded = || -> Result<Fingerprint> {
        Ok(Fingerprint::from_text(&fs::read_to_string(workspace.root.join(RECORD))?))
    };
    let (mut sources, files) = match args.repack {
        true => (recorded()?, kept(&workspace)?),
        false => (sources(&workspace)?, made(&workspace, Kernels::All)?),
    };
    let (text, mut packed) = (files.iter().map(|(_, text)| text.len()).sum::<usize>(), 0);
    let count = files.len();
    for (path, files) in places(&workspace).into_iter().zip(by_archive(files)) {
        let archive = pack::pack(&files, &fs::read(&path).unwrap_or_default())?;
        files::replace(&path, &archive)?;
        packed += archive.len();
    }
    // `--repack` does not change the PTX, so the hashes of the sources that determine it stay.
    add_makers(&workspace, &mut sources, &["build/suite/src/embed_ptx/pack.rs"]);
    let record = RECORD_HEAD.to_owned() + &with_archives(&workspace, sources).to_text();
    files::replace(&workspace.root.join(RECORD), record)?;
    say!("{FOLDER}: {count} texts, {text} bytes in {packed}");
    Ok(())
}

/// Checks that the archives were made from the current kernels, by the compiler that is now pinned.
pub fn check(workspace: &Workspace) -> Result<()> {
    let record = fs::read_to_string(workspace.root.join(RECORD)).unwrap_or_default();
    match change(workspace, &record)? {
        None => Ok(()),
        Some(change) => Err(stale(&change)),
    }
}

fn change(workspace: &Workspace, record: &str) -> Result<Option<String>> {
    let now = with_archives(workspace, sources(workspace)?);
    Ok(now.difference(&Fingerprint::from_text(record)))
}

fn stale(why: &str) -> anyhow::Error {
    Failure::new([format!("{FOLDER} is stale: {why}; write it with `cargo xtask embed-ptx`")]).into()
}

fn sources(workspace: &Workspace) -> Result<Fingerprint> {
    let (machine, variants) = (Machine::this(workspace), suite::variants());
    let mut sources = Fingerprint::default();
    add_makers(workspace, &mut sources, &MAKERS);
    sources.extend(&build_ptx::inputs(workspace, &request(Kernels::All, &machine, &variants))?);
    Ok(sources)
}

fn add_makers(workspace: &Workspace, sources: &mut Fingerprint, makers: &[&str]) {
    for maker in makers {
        sources.add(maker, fs::read(workspace.root.join(maker)).ok());
    }
}

fn with_archives(workspace: &Workspace, mut sources: Fingerprint) -> Fingerprint {
    for path in places(workspace) {
        sources.add(&workspace.show(&path), fs::read(&path).ok());
    }
    sources
}

fn check_texts(workspace: &Workspace) -> Result<()> {
    compare(kept(workspace), &made(workspace, Kernels::All)?)
}

/// Compares the embedded PTX of the suite's operations with that of the current kernels. The suite's
/// kernels compile within a minute.
pub fn check_suite(workspace: &Workspace) -> Result<()> {
    let files = made(workspace, Kernels::Suite)?;
    let mut kept = kept(workspace)?;
    kept.retain(|(name, _)| files.iter().any(|(made, _)| made == name));
    compare(Ok(kept), &files)
}

fn compare(kept: Result<Vec<File>>, files: &[File]) -> Result<()> {
    match reason(kept, files) {
        None => Ok(()),
        Some(reason) => Err(stale(&reason)),
    }
}

fn places(workspace: &Workspace) -> Vec<PathBuf> {
    let path = |name: &&str| workspace.root.join(FOLDER).join(format!("{name}.ptx.zst"));
    ARCHIVES.iter().map(path).collect()
}

fn by_archive(files: Vec<File>) -> Vec<Vec<File>> {
    let mut each = vec![Vec::new(); ARCHIVES.len()];
    files.into_iter().for_each(|file| each[archive_of(&file.0)].push(file));
    each
}

fn kept(workspace: &Workspace) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in places(workspace) {
        files.extend(read(&path).with_context(|| workspace.show(&path))?);
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<File>> {
    pack::unpack(&fs::read(path).context("cannot be read")?)
}

/// Returns how the embedded PTX differs from these files; `None` if it is the same.
fn reason(kept: Result<Vec<File>>, files: &[File]) -> Option<String> {
    let differing = match kept {
        Ok(kept) => differing(&kept, files),
        Err(error) => return Some(format!("{error:#}")),
    };
    let first = differing.first()?;
    Some(format!(
        "{} texts differ from those of the current kernels, the first is {first}",
        differing.len()
    ))
}

fn differing(kept: &[File], files: &[File]) -> Vec<String> {
    let (kept, files): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (kept.iter().cloned().collect(), files.iter().cloned().collect());
    let names: BTreeSet<&String> = kept.keys().chain(files.keys()).collect();
    names.into_iter().filter(|name| kept.get(*name) != files.get(*name)).cloned().collect()
}

fn write_texts(workspace: &Workspace, folder: &Path) -> Result<()> {
    let files = kept(workspace)?;
    let shown = folder.display();
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    ensure!(is_empty, "{shown} is not empty; give `--text` a new folder");
    for arch in [Arch::OLDEST, ARCH] {
        let folder = folder.join(arch.to_string());
        fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
        for (name, text) in &files {
            let text = if arch == ARCH { Cow::from(text) } else { for_oldest(text).into() };
            files::replace(&folder.join(name).with_extension("ptx"), &*text)?;
        }
    }
    say!("{}: {} files for each architecture", workspace.show(folder), files.len());
    Ok(())
}

/// Returns a request for `llvm`, because every machine has it, and driver and simulator accept its PTX.
fn request<'a>(kernels: Kernels, machine: &'a Machine, variants: &'a [Variant]) -> Request<'a> {
    Request {
        codegen: Choice::Llvm,
        arch: Some(ARCH),
        detect_arch: &|| None,
        variants,
        kernels,
        machine,
        verbose: false,
    }
}

/// Returns the text of each embedded PTX file, by the file's name.
pub fn texts(workspace: &Workspace) -> Result<BTreeMap<String, String>> {
    Ok(kept(workspace)?.into_iter().collect())
}

/// Builds the PTX of the current kernels if it is out of date, and returns the reducer's files.
fn made(workspace: &Workspace, kernels: Kernels) -> Result<Vec<File>> {
    // rust-src is installed here once, before several compilations need it.
    rust_src::ensure(&Toolchain::pinned(workspace)?)?;
    let (machine, variants) = (Machine::this(workspace), suite::variants());
    let built = build_ptx::ensure(workspace, &request(kernels, &machine, &variants))?;
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let reducers = built.files.iter().filter(|path| catalogue::reducer_files().contains(&name(path)));
    let mut files: Vec<File> = reducers
        .map(|path| {
            let text = fs::read_to_string(path)?;
            let stripped = strip::stripped(&text).with_context(|| workspace.show(path))?;
            Ok((name(path), stripped))
        })
        .collect::<Result<_>>()?;
    ensure!(!files.is_empty(), "{} has no PTX of the reducer", workspace.show(&built.folder));
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<File> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn changed_missing_and_extra_texts_are_reported() {
        let made = files(&[("a", "a"), ("b", "b"), ("c", "c")]);
        assert_eq!(reason(Ok(made.clone()), &made), None);
        let kept = files(&[("a", "A"), ("c", "c"), ("d", "d")]);
        assert_eq!(differing(&kept, &made), ["a", "b", "d"]);
        let said = reason(Ok(kept), &made).unwrap();
        assert_eq!(said, "3 texts differ from those of the current kernels, the first is a");
    }

    #[test]
    fn an_archive_that_cannot_be_read_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        let said = reason(read(&path), &[]).unwrap();
        assert!(said.starts_with("cannot be read: No such file"), "{said}");
        fs::write(&path, "text").unwrap();
        let said = reason(read(&path), &[]).unwrap();
        assert!(said.starts_with("the archive is damaged: it does not begin"), "{said}");
        fs::write(&path, pack::pack(&files(&[("a", "a")]), &[]).unwrap()).unwrap();
        assert_eq!(reason(read(&path), &files(&[("a", "a")])), None);
    }

    #[test]
    fn changed_sources_are_named() {
        let workspace = Workspace::locate().unwrap();
        let now = with_archives(&workspace, sources(&workspace).unwrap()).to_text();
        assert_eq!(change(&workspace, &now).unwrap(), None);
        let without = |name: &str| {
            let others: Vec<&str> = now.lines().filter(|line| !line.starts_with(name)).collect();
            assert_eq!(others.len() + 1, now.lines().count(), "{name}");
            others.join("\n")
        };
        for name in [
            "warpfold/ptx/reducer.ptx.zst",
            "warpfold/ptx/reducer_rows.ptx.zst",
            "compiler",
            "flags for sm_90",
            "kernels/src/reduce/reducer/item.rs",
            "device/src/reduction/rows.rs",
            "abi/src/reducer.rs",
            "kernels/Cargo.lock",
            "build/suite/src/embed_ptx/strip.rs",
        ] {
            let said = change(&workspace, &without(&format!("{name} = "))).unwrap();
            assert_eq!(said, Some(format!("{name} changed")));
        }
        let more = now.clone() + "kernels/src/gone.rs = 0\n";
        assert_eq!(change(&workspace, &more).unwrap().unwrap(), "kernels/src/gone.rs is gone");
        assert!(change(&workspace, "").unwrap().is_some());
    }

    #[test]
    fn texts_are_written_only_to_an_empty_folder() {
        let (workspace, folder) = (Workspace::locate().unwrap(), tempfile::tempdir().unwrap());
        let full = folder.path().join("full");
        fs::create_dir_all(&full).unwrap();
        fs::write(full.join("mine"), "").unwrap();
        let said = write_texts(&workspace, &full).unwrap_err().to_string();
        assert!(said.ends_with("full is not empty; give `--text` a new folder"), "{said}");
        assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

        let new = folder.path().join("new");
        write_texts(&workspace, &new).unwrap();
        for (name, text) in texts(&workspace).unwrap() {
            let written =
                |arch: &str| fs::read_to_string(new.join(arch).join(format!("{name}.ptx"))).unwrap();
            assert_eq!(written("sm_90"), text);
            assert_eq!(written("sm_80"), for_oldest(&text));
        }
    }
}
