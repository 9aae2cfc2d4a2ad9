//! Compares a device's floating-point arithmetic with the simulator's, bit for bit, on the kernels and
//! operands of the simulator's own test. `WARPFOLD_TEST_DEVICE` selects the device.
//!
//! Writes a JSON line about the machine, then one for each instruction. Exits 1 if a result is outside
//! the manual's bounds.

#[path = "../../../../sim/tests/simulator/float/cases/mod.rs"]
mod cases;
mod tally;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use rayon::prelude::*;
use serde_json::json;
use warpfold_sim::{Args, Config, Gpu, Launch, Module};
use warpfold_suite::device::Geometry;
use warpfold_tests::{device, probing};

use cases::instruction::Instruction;
use cases::{catalogue, kernel, operands::Source};
use tally::Tally;

/// Compare a device's float arithmetic with the simulator's.
#[derive(Debug, Parser)]
struct Options {
    /// Number of random cases of all instructions together, besides about 20 million systematic ones.
    #[arg(long, default_value_t = 2_000_000)]
    cases: u64,
    /// Test only instructions whose text starts with this, such as `cvt.` or `add.rn.f32`.
    #[arg(long, default_value = "")]
    only: String,
    /// Output file for the JSON lines.
    #[arg(long)]
    out: PathBuf,
}

/// Operands of a launch: all first ones, then all second ones, then all third ones.
struct Batch {
    cases: Vec<[u64; 3]>,
    flat: Vec<u64>,
}

impl Batch {
    fn new(instruction: &Instruction, random: u64) -> Self {
        let source = Source::new(instruction);
        let count = source.systematic() + random;
        let cases: Vec<[u64; 3]> = (0..count).into_par_iter().map(|index| source.case(index)).collect();
        let flat = (0..instruction.arity).flat_map(|k| cases.iter().map(move |case| case[k])).collect();
        Self { cases, flat }
    }

    fn blocks(&self) -> u32 {
        (self.cases.len() as u32).div_ceil(kernel::THREADS)
    }

    fn on_device(&self, ptx: &str) -> warpfold_suite::Result<Vec<u64>> {
        let (operands, results) =
            (probing::memory(&self.flat), probing::poisoned::<u64>(self.cases.len()));
        let arguments = [operands.address(), results.address(), self.cases.len() as u64];
        let geometry = Geometry::linear(self.blocks(), kernel::THREADS, 0);
        probing::run(Path::new("float.ptx"), ptx, kernel::ENTRY, geometry, arguments)?;
        Ok(probing::values(&results))
    }

    fn in_simulator(&self, gpu: &Gpu, ptx: &str) -> anyhow::Result<Vec<u64>> {
        let module = Module::parse(ptx)?;
        let (operands, results) =
            (gpu.alloc(8 * self.flat.len() as u64)?, gpu.alloc(8 * self.cases.len() as u64)?);
        gpu.write(operands, bytemuck::cast_slice(&self.flat))?;
        let arguments = Args::new().ptr(operands).ptr(results).u64(self.cases.len() as u64);
        gpu.launch(&module, kernel::ENTRY, &Launch::linear(self.blocks(), kernel::THREADS), &arguments)?;
        let mut values = vec![0; self.cases.len()];
        gpu.read(results, bytemuck::cast_slice_mut(&mut values))?;
        gpu.free(operands)?;
        gpu.free(results)?;
        gpu.unload(&module);
        Ok(values)
    }
}

fn compare(gpu: &Gpu, instruction: &Instruction, random: u64) -> anyhow::Result<Result<Tally, String>> {
    let ptx = kernel::ptx(instruction);
    let batch = Batch::new(instruction, random);
    let expected = batch.in_simulator(gpu, &ptx)?;
    let got = match batch.on_device(&ptx) {
        Ok(got) => got,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let rows = batch.cases.par_iter().zip(&expected).zip(&got);
    let tally = rows.fold(Tally::default, |mut tally, ((&operands, &expected), &got)| {
        tally.count(instruction, operands, expected, got);
        tally
    });
    Ok(Ok(tally.reduce(Tally::default, Tally::merge)))
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let mut instructions = catalogue::instructions();
    instructions.retain(|instruction| instruction.text.starts_with(&options.only));
    anyhow::ensure!(!instructions.is_empty(), "no instruction starts with {:?}", options.only);
    let random = options.cases.div_ceil(instructions.len() as u64);
    let file = File::create(&options.out).with_context(|| format!("{}", options.out.display()))?;
    let mut lines = BufWriter::new(file);
    let info = device().info();
    let (name, driver) = (&info.name, info.driver);
    writeln!(
        lines,
        "{}",
        json!({"kind": "machine", "device": name, "driver": driver, "cases": options.cases})
    )?;
    let start = Instant::now();
    let gpu = Gpu::new(Config::default());
    let (mut total, mut refused) = (Tally::default(), 0);
    for instruction in &instructions {
        let text = &instruction.text;
        let line = match compare(&gpu, instruction, random).with_context(|| text.clone())? {
            Ok(tally) => {
                if let Some(worst) = tally.first_wrong() {
                    println!("{text}: {} of {} wrong, {worst}", tally.wrong, tally.cases);
                }
                let line = tally.line(instruction);
                total = total.merge(tally);
                line
            }
            Err(reason) => {
                println!("{text}: refused, {reason}");
                refused += 1;
                json!({"instruction": text, "refused": reason})
            }
        };
        writeln!(lines, "{line}")?;
    }
    lines.flush()?;
    println!(
        "{} cases of {} instructions on {name} in {:.1} s: {} the same bits, {} otherwise as the manual \
         allows ({} of them only another NaN), {} wrong ({} of them only another NaN), {refused} \
         instructions refused",
        total.cases,
        instructions.len(),
        start.elapsed().as_secs_f64(),
        total.equal,
        total.allowed,
        total.allowed_nan,
        total.wrong,
        total.wrong_nan,
    );
    Ok(if total.wrong == 0 && refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
