//! `cargo xtask embed-ptx`: the reducer's PTX into `warpfold/ptx/`, from where the library embeds it.
//!
//! The library is built where no kernel can be compiled, so its PTX is kept as text. What only tools
//! read is left out: line tables, comments, the labels that go with them. Labels that code jumps to are
//! numbered anew, because the compiler counts them over all kernels: a change of another kernel would
//! otherwise change every file.

use std::{collections::HashMap, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use warpfold_suite::{Arch, say};

use crate::{
    build_ptx::{self, Choice, Request},
    doctor::Machine,
    failure::Failure,
    files, suite,
    workspace::Workspace,
};

/// The architectures that are embedded: the oldest that the kernels run on, and the oldest that has bulk
/// copies. A driver compiles either for newer GPUs.
const ARCHS: [Arch; 2] = [Arch::OLDEST, Arch::HOPPER];

/// Where the library has its PTX, below the root.
const FOLDER: &str = "warpfold/ptx";

/// What the names of the reducer's files begin with.
const PREFIX: &str = "reducer_";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write nothing, and fail when the files are not what the kernels would give
    #[arg(long)]
    pub check: bool,
}

/// A file's name and its text.
type File = (String, String);

/// The command.
///
/// # Errors
/// Those of [`build_ptx::ensure`], of writing, and with `--check` a line per architecture that is stale.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    if args.check {
        return check(&workspace);
    }
    for arch in ARCHS {
        let files = made(&workspace, arch)?;
        let folder = workspace.root.join(FOLDER).join(arch.to_string());
        write(&folder, &files).with_context(|| format!("{} cannot be written", folder.display()))?;
        say!("{}: {} files", workspace.show(&folder), files.len());
    }
    Ok(())
}

/// Compares what the library embeds with what the kernels give now.
///
/// # Errors
/// Those of [`build_ptx::ensure`], and a line per architecture that is stale.
pub fn check(workspace: &Workspace) -> Result<()> {
    let mut stale = Vec::new();
    for arch in ARCHS {
        let folder = workspace.root.join(FOLDER).join(arch.to_string());
        let differing = differing(&folder, &made(workspace, arch)?);
        if let Some(first) = differing.first() {
            stale.push(format!(
                "{}: {} files are not what the kernels give now, {first} first; write them with \
                 `cargo xtask embed-ptx`",
                workspace.show(&folder),
                differing.len()
            ));
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(Failure::new(stale).into()) }
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
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let reducers = built.files.iter().filter(|path| name(path).starts_with(PREFIX));
    let files: Vec<File> = reducers
        .map(|path| {
            let text = fs::read_to_string(path)?;
            let stripped = stripped(&text).with_context(|| workspace.show(path))?;
            Ok((name(path), stripped))
        })
        .collect::<Result<_>>()?;
    ensure!(!files.is_empty(), "{} has no PTX of the reducer", workspace.show(&built.folder));
    Ok(files)
}

/// Names of the files that are missing, differ, or should not be there.
fn differing(folder: &Path, files: &[File]) -> Vec<String> {
    let mut names: Vec<String> = files
        .iter()
        .filter(|(name, text)| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name.clone())
        .collect();
    names.extend(present(folder).into_iter().filter(|name| !files.iter().any(|(kept, _)| kept == name)));
    names
}

fn present(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn write(folder: &Path, files: &[File]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for name in differing(folder, files) {
        match files.iter().find(|(kept, _)| *kept == name) {
            Some((_, text)) => files::replace(&folder.join(name), text)?,
            None => fs::remove_file(folder.join(name))?,
        }
    }
    Ok(())
}

/// PTX with what code needs and nothing else, under a line that says what compiled it.
fn stripped(ptx: &str) -> Result<String> {
    let compiler = ptx.lines().find_map(|line| line.strip_prefix("// compiler: "));
    let compiler = compiler.context("the file does not say what compiled it")?;
    let mut text = format!("// {compiler}, `cargo xtask embed-ptx`\n");
    let mut functions = HashMap::new();
    for line in ptx.lines() {
        let code = line.split_once("//").map_or(line, |(code, _)| code).trim_end();
        let directive = code.trim_start();
        if directive.starts_with(".section") || directive.contains("/*") {
            bail!("`{directive}` is more than a line of code; teach embed-ptx to leave it out");
        }
        let of_tools = [".loc", ".file"].iter().any(|of_tools| directive.starts_with(of_tools));
        if directive.is_empty() || of_tools || is_debug_label(directive) {
            continue;
        }
        text.push_str(&with_own_labels(code, &mut functions));
        text.push('\n');
    }
    // A label that was left out but is named somewhere would be no PTX.
    ensure!(
        !DEBUG_LABELS.iter().any(|label| text.contains(label)),
        "code names a label of a line table"
    );
    Ok(text)
}

/// How the labels begin that only line tables name.
const DEBUG_LABELS: [&str; 3] = ["$L__tmp", "$L__func_begin", "$L__func_end"];

fn is_debug_label(line: &str) -> bool {
    line.ends_with(':') && DEBUG_LABELS.iter().any(|label| line.starts_with(label))
}

/// A line whose labels `$L__BB<function>_<block>` have the number of the function in this file.
fn with_own_labels(line: &str, functions: &mut HashMap<String, usize>) -> String {
    const LABEL: &str = "$L__BB";
    let mut parts = line.split(LABEL);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (function, rest) = part.split_at(digits);
        let next = functions.len();
        let number = *functions.entry(function.to_owned()).or_insert(next);
        text.push_str(&format!("{LABEL}{number}{rest}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = "// warpfold ptx 2\n// compiler: rustc 1.95.0 / LLVM 22.1.2\n.version 8.0\n\
        .target sm_90\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)  // @k\n{\n$L__func_begin328:\n\
        \t.loc\t1 91 0  // src/gpu/llvm.rs:91:0\n// %bb.0:\n\tsetp.eq.b32 \t%p1, %r1, 0;\n$L__tmp7:\n\
        \t@%p1 bra \t$L__BB328_2;\n\tbra.uni \t$L__BB328_1;\n$L__BB328_1:\n$L__BB328_2:\n\tret;\n\
        $L__func_end328:\n  // -- End function\n}\n\
        .visible .entry l()\n{\n$L__BB9_1:\n\tbra \t$L__BB9_1;\n}\n\
        .file\t1 \"device/src/gpu/llvm.rs\"\n";

    #[test]
    fn code_alone_is_kept_with_labels_of_its_own() {
        let expected = "// rustc 1.95.0 / LLVM 22.1.2, `cargo xtask embed-ptx`\n.version 8.0\n\
            .target sm_90\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n\
            \tsetp.eq.b32 \t%p1, %r1, 0;\n\
            \t@%p1 bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_1:\n$L__BB0_2:\n\tret;\n}\n\
            .visible .entry l()\n{\n$L__BB1_1:\n\tbra \t$L__BB1_1;\n}\n";
        assert_eq!(stripped(BUILT).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_left_out_line_by_line_is_refused() {
        let refused = |from: &str, to: &str| {
            let changed = BUILT.replacen(from, to, 1);
            assert_ne!(changed, BUILT);
            stripped(&changed).unwrap_err().to_string()
        };
        assert!(refused(".file", ".section .debug_info\n{").contains(".section"));
        assert!(refused("\tret;", "\tret; /* the end */").contains("/*"));
        assert!(refused("bra.uni \t$L__BB328_1", "bra.uni \t$L__tmp7").contains("label"));
        assert!(refused("// compiler", "// other").contains("what compiled"));
    }

    #[test]
    fn files_that_differ_lack_or_linger_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let files = [file("a.ptx", "a"), file("b.ptx", "b"), file("c.ptx", "c")];
        write(folder.path(), &files).unwrap();
        assert_eq!(differing(folder.path(), &files), [""; 0]);
        fs::write(folder.path().join("a.ptx"), "A").unwrap();
        fs::remove_file(folder.path().join("b.ptx")).unwrap();
        fs::write(folder.path().join("d.ptx"), "d").unwrap();
        assert_eq!(differing(folder.path(), &files), ["a.ptx", "b.ptx", "d.ptx"]);
        write(folder.path(), &files).unwrap();
        assert_eq!(present(folder.path()), ["a.ptx", "b.ptx", "c.ptx"]);
        assert_eq!(fs::read_to_string(folder.path().join("a.ptx")).unwrap(), "a");
    }
}
