use anyhow::bail;
use clap::Parser;

use super::{Elements, Program, Setting, cpu};
use crate::{
    Codegen, DeviceInfo, Dtype, Error, Record, Reducer, Tuning,
    catalogue::Variant,
    parse_name,
    reducer::{
        Choice, MAX_ELEMENTS, Measured,
        tuning::{Blocks, KernelKind},
    },
};

/// Runs the reducer, checks it and, on a GPU, times it.
#[derive(Parser, Debug)]
#[command(version)]
pub(super) struct Arguments {
    #[command(flatten)]
    elements: Elements,
    /// Kernel to run, grid or bulk [default: the tuning's; with --block or --grid, grid]
    #[arg(long, value_parser = parse_name::<KernelKind>)]
    kernel: Option<KernelKind>,
    /// Threads per block: 128, 256, 512 or 1024; for the bulk kernel 256 or 512 [default: the tuning's;
    /// with --kernel or --grid, a generic choice]
    #[arg(long)]
    block: Option<u32>,
    /// Maximum number of blocks; fewer run if fewer fit on the device or have elements [default: the
    /// tuning's; with --kernel or --block, a generic choice]
    #[arg(long)]
    grid: Option<u32>,
    /// Also time the CPU on the same elements, and show the speed-up
    #[arg(long)]
    cpu: bool,
    #[command(flatten)]
    setting: Setting,
}

impl Program for Arguments {
    fn json(&self) -> bool {
        self.setting.json
    }

    fn run(&self, variant: &'static Variant) -> anyhow::Result<Vec<Record>> {
        if self.setting.codegen == Some(Codegen::CudaC) {
            bail!("{} has no CUDA C twin; leave --codegen cuda-c out", variant.id);
        }
        let op = self.elements.op.op();
        let file = self.elements.file()?;
        let (dtype, n) = self.elements.extent(variant, file.as_ref());
        let device = self.setting.device()?;
        let store = self.setting.store()?;
        // Refuse invalid requests before time is spent on elements and their reference.
        variant.require(op, dtype)?;
        let bytes = require_elements(n, dtype)?;
        device.require_memory(bytes)?;
        let choice = self.choice(bytes, device.info());
        let reducer = match choice {
            Some(choice) => Reducer::with(&device, &store, Tuning::fixed(choice)?)?,
            None => super::reducer(&device, &store)?,
        };
        reducer.prepare(op, dtype)?;

        let (data, expected) = self.elements.make(variant, file, (dtype, n))?;
        if choice.is_some() && n > 0 {
            // Without this check, another kernel would run if the requested one is not available.
            Measured::new(&reducer, (op, dtype, n), choice, expected)?;
        }
        let options = self.setting.options();
        let mut records = vec![Record::of_reducer(&reducer, &store, op, &data, &expected, options)?];
        if self.cpu {
            records.extend(cpu::baselines(op, &data, &expected, options)?);
        }
        Ok(records.into_iter().map(|record| record.finish(self.elements.op)).collect())
    }
}

impl Arguments {
    /// Returns the requested launch; `None` if no option requests one.
    fn choice(&self, bytes: u64, info: &DeviceInfo) -> Option<Choice> {
        let Self { kernel, block, grid, .. } = *self;
        kernel.map(drop).or(block.map(drop)).or(grid.map(drop))?;
        // The generic choice for the kernel supplies the options that the user omits.
        let kernel = kernel.unwrap_or(KernelKind::Grid);
        let generic = match Choice::generic(bytes, info.arch) {
            choice if choice.kernel == kernel => choice,
            _ => Choice { kernel, block: 512, blocks: Blocks::PerMultiprocessor(2) },
        };
        let blocks = grid.map_or(generic.blocks, Blocks::Total);
        Some(Choice { kernel, block: block.unwrap_or(generic.block), blocks })
    }
}

fn require_elements(n: u64, dtype: Dtype) -> Result<u64, Error> {
    if n > MAX_ELEMENTS {
        return Err(Error::TooManyElements { n, most: MAX_ELEMENTS });
    }
    Ok(n * dtype.size() as u64)
}
