//! `cargo xtask check`: finds the kernels' hazards in the simulator: races, reads of uninitialised
//! memory, accesses out of bounds, divergent barriers, missing lanes.

pub mod watch;

use std::{io::Write, process::ExitCode};

use anyhow::{Result, bail};
use warpfold_suite::{
    Device, Dtype, Op, PtxStore, Selection,
    catalogue::{self, Access, Geometry, VARIANTS, Variant, Work},
    cli,
    reducer::tuning::KernelKind,
    say,
};

use crate::{Builder, builder::CodegenArg, explain::case::Case, options, suite, workspace::Workspace};
use watch::{Hazard, Place, hazards};

/// Sizes with a partly empty block, with full blocks, and with several launches.
const SIZES: [u64; 4] = [1, 1000, 4096, 20_003];
/// A block size of two warps, and the default one.
const BLOCKS: [u32; 2] = [64, 256];
/// Block sizes that are checked with one number of elements only.
const OTHER_BLOCKS: [u32; 4] = [32, 128, 512, 1024];
/// Maximum grids of the reducer. With several blocks, the last one waits for the others.
const GRIDS: [u64; 3] = [1, 2, 40];
/// Enough elements to wrap around the tile ring of the reducer's bulk kernel.
const RING: u64 = 70_001;
const STRIDES: [u64; 2] = [1, 33];

/// The arguments of the command.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Kernels to check, separated by commas; test kernels with deliberate errors are allowed
    #[arg(
        long = "variant",
        value_name = "ID",
        value_delimiter = ',',
        value_parser = options::variant_by(find), hide_possible_values = true,
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub variants: Vec<&'static Variant>,
    /// Check all kernels of the catalogue
    #[arg(long)]
    pub all: bool,
    /// Only these element types, separated by commas [default: one of 4 and one of 8 bytes]
    #[arg(long = "dtype", value_name = "TYPE", value_delimiter = ',', value_parser = options::dtype(), hide_possible_values = true)]
    pub dtypes: Vec<Dtype>,
    /// The code generator of the kernels.
    #[command(flatten)]
    pub codegen: CodegenArg,
    /// Check the CUDA C twins instead of the Rust kernels
    #[arg(long, conflicts_with = "codegen")]
    pub twins: bool,
    /// Print one JSON object per hazard
    #[arg(long)]
    pub json: bool,
    /// Run the same launches on the GPU without checks, for use under compute-sanitizer
    #[arg(long, conflicts_with = "json")]
    pub on_gpu: bool,
}

fn find(id: &str) -> Result<&'static Variant, warpfold_suite::Error> {
    // SAFETY: the simulator detects these kernels' faults; a GPU runs them only if the user named them.
    let testing = unsafe { catalogue::testing() };
    testing.iter().find(|variant| variant.id == id).map_or_else(|| catalogue::find(id), Ok)
}

/// Runs the command. Exits 1 when a kernel has a hazard.
pub fn run(args: &Args, builder: &dyn Builder) -> Result<ExitCode> {
    let all = || VARIANTS.iter().filter(|row| if args.twins { row.has_kernel() } else { row.has_ptx() });
    let variants: Vec<_> = if args.all { all().collect() } else { args.variants.clone() };
    let cases =
        variants.iter().map(|variant| cases(variant, &args.dtypes)).collect::<Result<Vec<_>>>()?;
    let workspace = Workspace::locate()?;
    let store = suite::chosen_store(builder, args.twins, args.codegen)?;
    if args.on_gpu {
        let device = Device::open(Selection::Cuda)?;
        cases.iter().flatten().try_for_each(|case| case.run(&device, &store))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut out, mut bad) = (cli::stdout(), 0);
    for (variant, cases) in variants.iter().zip(&cases) {
        let found = check(cases, &store, &workspace)?;
        bad += usize::from(!found.is_empty());
        if args.json {
            for hazard in &found {
                writeln!(out, "{}", serde_json::to_string(hazard)?)?;
            }
        } else {
            let verdict =
                if found.is_empty() { "clean".to_owned() } else { format!("{} hazards", found.len()) };
            writeln!(out, "{:24} {:3} runs: {verdict}", variant.id, cases.len())?;
            found.iter().try_for_each(|hazard| write!(out, "{}", text(hazard)))?;
        }
    }
    say!("{} of {} kernels clean", variants.len() - bad, variants.len());
    Ok(ExitCode::from(u8::from(bad > 0)))
}

/// Returns the hazards of several runs of one kernel, merged by kind and source lines.
pub fn check(cases: &[Case], store: &PtxStore, workspace: &Workspace) -> Result<Vec<Hazard>> {
    let mut found: Vec<Hazard> = Vec::new();
    let lines =
        |hazard: &Hazard| hazard.places.iter().map(|place| place.source.clone()).collect::<Vec<_>>();
    for case in cases {
        for hazard in hazards(case, store, &workspace.root)? {
            let known = found
                .iter_mut()
                .find(|known| known.kind == hazard.kind && lines(known) == lines(&hazard));
            match known {
                Some(known) => known.count += hazard.count,
                None => found.push(hazard),
            }
        }
    }
    Ok(found)
}

/// Returns the runs that check a kernel. They are small, because a grid of a few blocks already shows a
/// kernel's faults. Fails if the variant has no kernel or does not support these types.
pub fn cases(variant: &'static Variant, dtypes: &[Dtype]) -> Result<Vec<Case>> {
    let plain = Case::new(variant, 1)?;
    for &dtype in dtypes {
        variant.require_dtype(dtype)?;
    }
    let of_size =
        |bytes| variant.dtypes.iter().copied().filter(move |dtype| dtype.size() == bytes).take(1);
    let dtypes =
        if dtypes.is_empty() { of_size(4).chain(of_size(8)).collect() } else { dtypes.to_vec() };
    if dtypes.is_empty() {
        bail!("{} has no element type of 4 or 8 bytes; name one of its types with --dtype", variant.id);
    }
    if variant.work == Work::Reducer {
        return Ok(reducer_cases(plain, &dtypes));
    }
    let transposes = variant.work == Work::Transpose;
    let strided = variant.work == (Work::Copy { access: Access::Strided });
    let blocks = if transposes { &BLOCKS[1..] } else { &BLOCKS[..] };
    let strides = if strided { &STRIDES[..] } else { &STRIDES[..1] };
    let mut cases = Vec::new();
    for &dtype in &dtypes {
        for n in SIZES {
            for &block in blocks {
                let with = |&stride: &u64| Case { dtype, n, block, stride, ..plain };
                cases.extend(strides.iter().map(with));
            }
        }
        // Other block sizes, for code that is specific to one; and a small grid, in which grid-stride
        // loops iterate many times.
        if let Some(shape) = variant.shape() {
            cases.extend(OTHER_BLOCKS.map(|block| Case { dtype, n: 4096, block, ..plain }));
            if shape.geometry == Geometry::GridStride {
                let grid = Some(shape.cluster.max(2).into());
                cases.push(Case { dtype, n: 50_001, grid, ..plain });
            }
        }
    }
    Ok(cases)
}

fn reducer_cases(plain: Case, dtypes: &[Dtype]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (&dtype, op) in dtypes.iter().flat_map(|dtype| [(dtype, Op::Sum), (dtype, Op::ArgMin)]) {
        let plain = Case { dtype, op: Some(op), ..plain };
        for (at, n) in SIZES.into_iter().enumerate() {
            let sizes = KernelKind::Grid.block_sizes();
            let block = sizes[at % sizes.len()];
            cases.extend(GRIDS.map(|grid| Case { n, block, grid: Some(grid), ..plain }));
        }
        for &block in KernelKind::Bulk.block_sizes() {
            let bulk = Case { kernel: KernelKind::Bulk, block, ..plain };
            cases.extend([(1000, 1), (20_003, 40), (RING, 2)].map(|(n, grid)| Case {
                n,
                grid: Some(grid),
                ..bulk
            }));
        }
    }
    cases
}

fn text(hazard: &Hazard) -> String {
    let times = if hazard.count > 1 { format!(", {} times", hazard.count) } else { String::new() };
    let mut text = format!("  {}: {}{times} (in {})\n", hazard.kind, hazard.what, hazard.entry);
    for (number, place) in hazard.places.iter().enumerate() {
        let Place { source, code, ptx_line, instruction, block, thread } = place;
        let lead = if number == 0 { "at     " } else { "against" };
        let source =
            if source.is_empty() { "unknown source".to_owned() } else { source.join(", called at ") };
        let triple = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        text.push_str(&format!("    {lead} {source}\n            {code}\n"));
        text.push_str(&format!(
            "            block {}, thread {}: ptx line {ptx_line}, `{instruction}`\n",
            triple(*block),
            triple(*thread)
        ));
    }
    text
}
