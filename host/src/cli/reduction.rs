use clap::Parser;

use super::{Elements, Program, Setting, cpu};
use crate::{
    Plan, Record, Reduction, Request,
    catalogue::{Preset, Variant},
    plan,
};

/// Runs, checks and, on a GPU, times one variant.
#[derive(Parser, Debug)]
#[command(version)]
pub(super) struct Arguments {
    #[command(flatten)]
    elements: Elements,
    /// Threads per block, a power of two from 32 to 1024 [default: 256]
    #[arg(long)]
    block: Option<u32>,
    /// Blocks in the first launch, for grid-stride variants [default: enough to fill the device]
    #[arg(long)]
    grid: Option<u64>,
    /// Named set of options, such as seed-d of atomic_blocks; other options override it
    #[arg(long, value_name = "NAME", conflicts_with = "input")]
    preset: Option<String>,
    /// Also time the CPU on the same elements, and show the speed-up; implied by --preset
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
        let preset = self.preset.as_deref().map(|name| variant.preset(name)).transpose()?;
        let file = self.elements.file()?;
        let (dtype, n) = self.elements.extent(variant, file.as_ref());
        let request = Request {
            variant,
            op: self.elements.op.op(),
            dtype: self.elements.dtype.or(preset.map(|preset| preset.dtype)).unwrap_or(dtype),
            n: self.elements.n.or(preset.map(|preset| preset.n)).unwrap_or(n),
            block: self.block.or(preset.map(|preset| preset.block)).unwrap_or(plan::DEFAULT_BLOCK),
            grid: self.grid.or(preset.map(|preset| preset.grid)),
        };
        let elements = self.with_preset(preset);
        let mut options = self.setting.options();
        options.iterations =
            self.setting.iters.or(preset.map(|p| p.iterations)).unwrap_or(options.iterations);

        let device = self.setting.device()?;
        // Refuse invalid requests before time is spent on elements and their reference.
        let plan = Plan::new(&request, device.info())?;
        let bytes = request.n.saturating_mul(request.dtype.size() as u64);
        device.require_memory(bytes.saturating_add(plan.workspace_bytes()))?;
        let reduction = Reduction::new(&device, &self.setting.store()?, &request)?;

        let (data, expected) = elements.make(request.variant, file, (request.dtype, request.n))?;
        let mut records = vec![Record::of(&reduction, &data, &expected, options)?];
        if self.cpu || preset.is_some() {
            records.extend(cpu::baselines(request.op, &data, &expected, options)?);
        }
        Ok(records.into_iter().map(|record| record.finish(self.elements.op)).collect())
    }
}

impl Arguments {
    fn with_preset(&self, preset: Option<&Preset>) -> Elements {
        let below = self.elements.below.or(preset.map(|preset| preset.below));
        Elements { below, input: None, ..self.elements }
    }
}
