//! `cargo xtask explain`: counts in the simulator why a kernel is fast or slow, by source line.

pub mod attribution;
pub mod case;
pub mod facts;
mod html;
mod json;
pub mod lines;
pub mod occupancy;
pub mod recorder;
mod text;
pub mod validate;

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use warpfold_suite::{
    Dtype, Op, PtxStore,
    catalogue::{Access, Variant, Work},
    cli, plan, say, visible,
};

use crate::{
    Builder, builder::CodegenArg, compare::machine_code::Assembler, files, machine::Machine, options,
    suite, workspace::Workspace,
};
use attribution::Attribution;
use case::Case;
use facts::Facts;
use recorder::Run;

/// The arguments of the command.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Kernels to explain, separated by commas; the summary shows several side by side
    #[arg(
        long = "variant",
        value_name = "ID",
        value_delimiter = ',',
        value_parser = options::variant(), hide_possible_values = true,
        required_unless_present_any = ["validate", "metrics"]
    )]
    pub variants: Vec<&'static Variant>,
    /// Number of elements: 65536, 4Ki, 2^16
    #[arg(long, default_value = "2^16", value_parser = cli::parse_count)]
    pub n: u64,
    /// Type of the elements [default: f32, else the variant's first]
    #[arg(long, value_name = "TYPE", value_parser = options::dtype(), hide_possible_values = true)]
    pub dtype: Option<Dtype>,
    /// Operation, for reductions [default: sum]
    #[arg(long, value_parser = options::op(), hide_possible_values = true)]
    pub op: Option<Op>,
    /// Threads per block, a power of two from 32 to 1024
    #[arg(long, default_value_t = plan::DEFAULT_BLOCK)]
    pub block: u32,
    /// Blocks in the first launch, for grid-stride variants [default: enough to fill the simulator]
    #[arg(long)]
    pub grid: Option<u64>,
    /// Distance between the elements that copy_strided reads [default: 1]
    #[arg(long, value_parser = cli::parse_count)]
    pub stride: Option<u64>,
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// Explain the CUDA C twins instead of the Rust kernels
    #[arg(long, conflicts_with = "codegen")]
    pub twins: bool,
    /// Show only the N hottest lines
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Print one JSON object per kernel
    #[arg(long, conflicts_with_all = ["top", "html"])]
    pub json: bool,
    /// Write an HTML page that shows block 0 step by step for each warp
    #[arg(long, value_name = "FILE", conflicts_with = "top")]
    pub html: Option<PathBuf>,
    /// Compare with Nsight Compute's counts, from a file that scripts/gpu/validate.sh has written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["variants", "metrics"])]
    pub validate: Option<PathBuf>,
    /// Print the names of the Nsight Compute metrics that --validate compares
    #[arg(long, conflicts_with = "variants")]
    pub metrics: bool,
}

pub struct Explained {
    pub run: Run,
    pub facts: Facts,
    pub attribution: Attribution,
}

impl Explained {
    /// Runs a case and analyses it. Without `assembler` the number of registers is assumed.
    pub fn of(
        case: &Case,
        store: &PtxStore,
        workspace: &Workspace,
        assembler: Option<&Assembler>,
    ) -> Result<Self> {
        let run = recorder::count(case, store, &workspace.root)?;
        let facts = Facts::of(&run, assembler.and_then(|assembler| registers(&run, assembler)));
        let attribution = Attribution::of(&run);
        Ok(Self { run, facts, attribution })
    }

    fn title(&self) -> String {
        let Case { variant, stride, .. } = self.run.case;
        if variant.work == (Work::Copy { access: Access::Strided }) {
            return format!("{} x{stride}", variant.id);
        }
        variant.id.to_owned()
    }
}

fn registers(run: &Run, assembler: &Assembler) -> Option<u32> {
    let arch = run.ptx.lines().find_map(|line| line.strip_prefix("// arch: "))?.parse().ok()?;
    let label = format!("explain-{}", run.case.variant.id);
    let code = assembler.machine_code(&label, &run.ptx, arch).ok()?;
    Some(code.get(&run.launches.first()?.entry)?.resources.registers)
}

/// Runs the command. Exits 1 when a validation finds a difference.
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    if args.metrics {
        let names: Vec<&str> = validate::METRICS.iter().map(|metric| metric.name).collect();
        writeln!(cli::stdout(), "{}", names.join(","))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.validate {
        let store = suite::chosen_store(builder, args.twins, args.codegen)?;
        return validate::run(path, &store, &Workspace::locate()?.root);
    }
    explain(args, builder).map(|()| ExitCode::SUCCESS)
}

fn explain(args: &Args, builder: &dyn Builder) -> Result<()> {
    let cases = args.variants.iter().map(|variant| args.case(variant)).collect::<Result<Vec<_>>>()?;
    let workspace = Workspace::locate()?;
    let store = suite::chosen_store(builder, args.twins, args.codegen)?;
    let assembler = Assembler::find(&workspace, &Machine::this(&workspace));
    if let Err(missing) = &assembler {
        say!("registers are an estimate: {missing:#}");
    }
    let explained = |case: &Case| Explained::of(case, &store, &workspace, assembler.as_ref().ok());
    let all = cases.iter().map(explained).collect::<Result<Vec<_>>>()?;
    let mut out = cli::stdout();
    if args.json {
        return Ok(all.iter().try_for_each(|one| writeln!(out, "{}", json::object(one)))?);
    }
    if let Some(path) = &args.html {
        files::replace(path, html::page(&all, &workspace.root))?;
        return Ok(writeln!(out, "{}", visible(&path.display().to_string()))?);
    }
    writeln!(out, "{}", text::summary(&all))?;
    for one in &all {
        match args.top {
            Some(most) => writeln!(out, "{}", text::hottest(one, &workspace.root, most))?,
            None => write!(out, "{}", text::sources(one, &workspace.root))?,
        }
    }
    Ok(writeln!(out, "{}", warpfold_sim_report::LEGEND)?)
}

impl Args {
    fn case(&self, variant: &'static Variant) -> Result<Case> {
        let case = Case::new(variant, self.n)?;
        let dtype = self.dtype.unwrap_or(case.dtype);
        let op = match (case.op, self.op) {
            (None, Some(op)) => bail!("{} has no operation; leave --op {op} out", variant.id),
            (own, given) => given.or(own),
        };
        match op {
            Some(op) => variant.require(op, dtype)?,
            None => variant.require_dtype(dtype)?,
        }
        if self.stride.is_some() && variant.work != (Work::Copy { access: Access::Strided }) {
            bail!("{} has no stride; leave --stride out", variant.id);
        }
        let stride = self.stride.unwrap_or(case.stride);
        Ok(Case { dtype, op, stride, block: self.block, grid: self.grid, ..case })
    }
}
