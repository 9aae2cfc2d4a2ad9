use clap::Parser;

use super::{Elements, Program};
use crate::{
    Data, Op, Record, Result,
    catalogue::{VARIANTS, Variant, Work},
    cpu::CpuReduction,
    measure::Options,
    reference::Expected,
};

/// Runs, checks and times one baseline on the CPU.
#[derive(Parser, Debug)]
#[command(version)]
pub(super) struct Arguments {
    #[command(flatten)]
    elements: Elements,
    /// Number of threads, for cpu_parallel [default: one per processor]
    #[arg(long)]
    threads: Option<usize>,
    /// Timed runs; 0 only checks the result
    #[arg(long, default_value_t = Options::default().iterations, value_parser = super::iterations())]
    iters: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Program for Arguments {
    fn json(&self) -> bool {
        self.json
    }

    fn run(&self, variant: &'static Variant) -> anyhow::Result<Vec<Record>> {
        let parallel = matches!(variant.work, Work::Cpu { parallel: true });
        let reduction = CpuReduction::new(variant, self.elements.op.op(), parallel, self.threads)?;
        let file = self.elements.file()?;
        let (dtype, n) = self.elements.extent(variant, file.as_ref());
        variant.require(reduction.op(), dtype)?;
        crate::cpu::require_memory(n.saturating_mul(dtype.size() as u64))?;
        let (data, expected) = self.elements.make(variant, file, (dtype, n))?;
        let options = Options { iterations: self.iters, ..Options::default() };
        let record = Record::of_cpu(&reduction, &data, &expected, options)?;
        Ok(vec![record.finish(self.elements.op)])
    }
}

pub(super) fn baselines(
    op: Op,
    data: &Data,
    expected: &Expected,
    options: Options,
) -> Result<Vec<Record>> {
    let baselines = VARIANTS.iter().filter_map(|variant| match variant.work {
        Work::Cpu { parallel } => Some((variant, parallel)),
        _ => None,
    });
    let record = |(variant, parallel)| {
        let reduction = CpuReduction::new(variant, op, parallel, None)?;
        Record::of_cpu(&reduction, data, expected, options)
    };
    baselines.map(record).collect()
}
