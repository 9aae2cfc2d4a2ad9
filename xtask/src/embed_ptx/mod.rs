//! `cargo xtask embed-ptx`: the reducer's PTX into `warpfold/ptx/`, from where the library embeds it.
//!
//! The library is built where no kernel can be compiled, so its PTX is kept, in an archive for each
//! architecture, which `--text` makes files of again.

mod pack;
mod strip;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use warpfold_suite::{Arch, catalogue, say};

use crate::{
    build_ptx::{self, Choice, Request},
    doctor::Machine,
    failure::Failure,
    files, rust_src, suite,
    toolchain::Toolchain,
    workspace::Workspace,
};

/// The architectures that are embedded: the oldest that the kernels run on, and the oldest that has bulk
/// copies. A driver compiles either for newer GPUs.
const ARCHS: [Arch; 2] = [Arch::OLDEST, Arch::HOPPER];

/// Where the library has its PTX, below the root.
const FOLDER: &str = "warpfold/ptx";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write nothing, and fail when the texts are not what the kernels would give
    #[arg(long, conflicts_with = "text")]
    pub check: bool,
    /// Build nothing, and write the texts that the library embeds as FOLDER/sm_90/reducer_sum_f32.ptx …
    #[arg(long, value_name = "FOLDER")]
    pub text: Option<PathBuf>,
}

/// A file's name, without what follows the dot, and its text.
type File = (String, String);

/// The command.
///
/// # Errors
/// Those of [`build_ptx::ensure`], of writing; with `--check` a line per architecture that is stale,
/// with `--text` a folder that has something in it.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    if let Some(folder) = &args.text {
        return write_texts(&workspace, folder);
    }
    if args.check {
        return check(&workspace);
    }
    for (arch, files) in all_made(&workspace)? {
        let (path, archive) = (place(&workspace, arch), pack::pack(&files)?);
        files::replace(&path, &archive)?;
        let text: usize = files.iter().map(|(_, text)| text.len()).sum();
        say!("{}: {} texts, {text} bytes in {}", workspace.show(&path), files.len(), archive.len());
    }
    Ok(())
}

/// Compares what the library embeds with what the kernels give now, text by text.
///
/// # Errors
/// Those of [`build_ptx::ensure`], and a line per archive that is stale or does not belong there.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut stale = strays(&workspace.root.join(FOLDER))?;
    for (arch, files) in all_made(workspace)? {
        let path = place(workspace, arch);
        if let Some(reason) = reason(kept(&path), &files) {
            let shown = workspace.show(&path);
            stale.push(format!("{shown}: {reason}; write it with `cargo xtask embed-ptx`"));
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(Failure::new(stale).into()) }
}

/// The archive of an architecture.
fn place(workspace: &Workspace, arch: Arch) -> PathBuf {
    workspace.root.join(FOLDER).join(archive_name(arch))
}

fn archive_name(arch: Arch) -> String {
    format!("{arch}.ptx.zst")
}

/// The files of an archive.
fn kept(path: &Path) -> Result<Vec<File>> {
    pack::unpack(&fs::read(path).context("cannot be read")?)
}

/// A line for each thing in a folder that is no archive of this command's: the library would embed it.
fn strays(folder: &Path) -> Result<Vec<String>> {
    let known = ARCHS.map(archive_name);
    let stray =
        |path: &Path| path.file_name().is_none_or(|name| known.iter().all(|known| name != &**known));
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    let line = |path: &PathBuf| format!("{} does not belong there; remove it", path.display());
    Ok(paths.iter().filter(|path| stray(path)).map(line).collect())
}

/// Why an archive is not of these files, if it is not.
fn reason(kept: Result<Vec<File>>, files: &[File]) -> Option<String> {
    let differing = match kept {
        Ok(kept) => differing(&kept, files),
        Err(error) => return Some(format!("{error:#}")),
    };
    let first = differing.first()?;
    Some(format!("{} texts are not what the kernels give now, {first} first", differing.len()))
}

/// Names that only one of two lists has, or that have another text in each.
fn differing(kept: &[File], files: &[File]) -> Vec<String> {
    let (kept, files): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (kept.iter().cloned().collect(), files.iter().cloned().collect());
    let names: BTreeSet<&String> = kept.keys().chain(files.keys()).collect();
    names.into_iter().filter(|name| kept.get(*name) != files.get(*name)).cloned().collect()
}

/// Makes files of what the library embeds, in a folder for each architecture, which is made.
fn write_texts(workspace: &Workspace, folder: &Path) -> Result<()> {
    let archives = ARCHS
        .map(|arch| {
            let path = place(workspace, arch);
            let files = kept(&path).with_context(|| workspace.show(&path))?;
            Ok((folder.join(arch.to_string()), files))
        })
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    // Nothing is written where one of them cannot be.
    for (folder, _) in &archives {
        let shown = folder.display();
        let is_empty = match fs::read_dir(folder) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        };
        ensure!(is_empty, "{shown} has something in it; give `--text` a new folder");
    }
    for (folder, files) in &archives {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        for (name, text) in files {
            files::replace(&folder.join(name).with_extension("ptx"), text)?;
        }
        say!("{}: {} files", workspace.show(folder), files.len());
    }
    Ok(())
}

/// The files of every architecture. They are compiled side by side, because a compiler of kernels has
/// one thread.
fn all_made(workspace: &Workspace) -> Result<Vec<(Arch, Vec<File>)>> {
    // What both need is installed once.
    rust_src::ensure(&Toolchain::pinned(workspace)?)?;
    ARCHS.into_par_iter().map(|arch| Ok((arch, made(workspace, arch)?))).collect()
}

/// The files of an architecture, from PTX that is built first where it is out of date.
fn made(workspace: &Workspace, arch: Arch) -> Result<Vec<File>> {
    let request = Request {
        // The code generator that every machine has, and whose PTX both the driver and the simulator
        // take.
        codegen: Choice::Llvm,
        arch: Some(arch),
        detect_arch: &|| None,
        variants: &suite::variants(),
        machine: &Machine::this(workspace),
        verbose: false,
    };
    let built = build_ptx::ensure(workspace, &request)?;
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
    fn texts_that_differ_lack_or_linger_are_named() {
        let made = files(&[("a", "a"), ("b", "b"), ("c", "c")]);
        assert_eq!(reason(Ok(made.clone()), &made), None);
        let kept = files(&[("a", "A"), ("c", "c"), ("d", "d")]);
        assert_eq!(differing(&kept, &made), ["a", "b", "d"]);
        let said = reason(Ok(kept), &made).unwrap();
        assert_eq!(said, "3 texts are not what the kernels give now, a first");
    }

    #[test]
    fn an_archive_that_cannot_be_read_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sm_80.ptx.zst");
        let said = reason(kept(&path), &[]).unwrap();
        assert!(said.starts_with("cannot be read: No such file"), "{said}");
        fs::write(&path, "text").unwrap();
        let said = reason(kept(&path), &[]).unwrap();
        assert!(said.starts_with("the archive is damaged: it does not begin"), "{said}");
        fs::write(&path, pack::pack(&files(&[("a", "a")])).unwrap()).unwrap();
        assert_eq!(reason(kept(&path), &files(&[("a", "a")])), None);
    }

    #[test]
    fn what_else_the_library_would_embed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ARCHS.map(archive_name) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(strays(folder.path()).unwrap(), [""; 0]);
        fs::write(folder.path().join("sm_70.ptx.zst"), "").unwrap();
        let said = strays(folder.path()).unwrap();
        assert!(said.len() == 1 && said[0].ends_with("sm_70.ptx.zst does not belong there; remove it"));
        assert!(strays(&folder.path().join("none")).is_err());
    }

    #[test]
    fn texts_become_files_where_nothing_is_and_nowhere_else() {
        let (workspace, folder) = (Workspace::locate().unwrap(), tempfile::tempdir().unwrap());
        let (full, last) = (folder.path().join("full"), ARCHS[ARCHS.len() - 1].to_string());
        fs::create_dir_all(full.join(&last)).unwrap();
        fs::write(full.join(&last).join("mine"), "").unwrap();
        let said = write_texts(&workspace, &full).unwrap_err().to_string();
        assert!(
            said.ends_with(&format!("{last} has something in it; give `--text` a new folder")),
            "{said}"
        );
        // Nor is anything written for those before it.
        assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

        let new = folder.path().join("new");
        write_texts(&workspace, &new).unwrap();
        for arch in ARCHS {
            let files = kept(&place(&workspace, arch)).unwrap();
            let folder = new.join(arch.to_string());
            assert_eq!(fs::read_dir(&folder).unwrap().count(), files.len());
            for (name, text) in files {
                assert_eq!(fs::read_to_string(folder.join(name + ".ptx")).unwrap(), text);
            }
        }
    }
}
