//! Runs every command of the ladder's pages in the simulator, and checks every number that they claim.
//!
//! Proves that the numbers are those of the kernels as rustc's NVPTX target compiles them for sm_90;
//! another compiler may give other numbers.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
    sync::OnceLock,
};

use tempfile::TempDir;
use warpfold_measure::ladder::{
    self,
    commands::{self, Claim, Program, Unit},
};
use warpfold_suite::catalogue::VARIANTS;
use warpfold_suite_build::{
    build_ptx::{self, Built, Choice, Kernels, Request},
    machine::Machine,
    suite,
    workspace::Workspace,
};
use warpfold_tests::{program, root};

fn ptx_root() -> &'static Path {
    static ROOT: OnceLock<TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let built = built().unwrap_or_else(|error| panic!("{error:#}"));
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("llvm")).unwrap();
        symlink(built.folder, root.path().join("llvm/sm_90")).unwrap();
        root
    });
    root.path()
}

fn built() -> anyhow::Result<Built> {
    let workspace = Workspace::locate()?;
    let request = Request {
        codegen: Choice::Llvm,
        arch: Some("sm_90".parse()?),
        detect_arch: &|| None,
        variants: &suite::variants(),
        kernels: Kernels::Suite,
        machine: &Machine::this(&workspace),
        verbose: false,
    };
    build_ptx::ensure(&workspace, &request)
}

struct Run {
    page: &'static str,
    command: commands::Command,
    id: &'static str,
}

fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for (page, text) in ladder::read(root()).unwrap() {
        let all = commands::commands(&text).unwrap_or_else(|error| panic!("{page}: {error:#}"));
        runs.extend(all.into_iter().filter_map(|command| match command.program {
            Program::Variant(id) if !command.needs_gpu => Some(Run { page, command, id }),
            _ => None,
        }));
    }
    runs
}

fn output(command: &commands::Command, id: &str) -> Output {
    let mut run = Command::new(program(id));
    run.args(&command.arguments)
        .env("WARPFOLD_PTX_DIR", ptx_root())
        .env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1");
    run.output().unwrap()
}

/// Returns a run's numbers with units, and the active lanes, which follow from two of them.
fn printed(stdout: &str) -> Vec<Claim> {
    let (mut claims, _) = commands::claims(stdout);
    let of = |unit| claims.iter().find(|claim| claim.unit == unit)?.number.parse::<f64>().ok();
    if let Some((threads, warps)) = of(Unit::ThreadInstructions).zip(of(Unit::WarpInstructions)) {
        claims.push(Claim { number: format!("{:.1}", threads / warps), unit: Unit::Lanes });
    }
    claims
}

fn wrong(Run { page, command, id }: &Run) -> Option<String> {
    let output = output(command, id);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = format!("{page}: `{}` ({id} {})", command.text, command.arguments.join(" "));
    let expected = if command.refused { 2 } else { 0 };
    if output.status.code() != Some(expected) {
        return Some(format!("{said}: {}, not {expected}: {stdout}{stderr}", output.status));
    }
    let printed = printed(&stdout);
    let lacks: Vec<String> = command
        .claims
        .iter()
        .filter(|claim| !printed.contains(claim))
        .map(ToString::to_string)
        .collect();
    let result = command.result.as_ref().filter(|result| {
        let shown = format!("result    {result} (");
        !stdout.contains(&shown)
    });
    let lacks: Vec<&String> = result.into_iter().chain(&lacks).collect();
    (!lacks.is_empty()).then(|| format!("{said} does not print {lacks:?}, but\n{stdout}"))
}

#[test]
fn runs_print_the_numbers_of_the_ladder() {
    let wrong: Vec<String> = runs().iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_variant_is_run() {
    let runs = runs();
    for variant in VARIANTS {
        assert!(runs.iter().any(|run| run.id == variant.id), "no page runs {}", variant.id);
    }
    let claims: usize = runs.iter().map(|run| run.command.claims.len()).sum();
    assert!(claims >= runs.len() / 2, "{claims} numbers of {} runs", runs.len());
}
