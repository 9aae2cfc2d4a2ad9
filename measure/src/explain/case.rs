//! A run to observe in the simulator: a variant with its type, size and geometry.

use anyhow::{Result, bail};
use warpfold_suite::{
    Data, Device, Dtype, Op, PtxStore, Reducer, Reduction, Request, Tuning,
    catalogue::{self, Variant, Work},
    memory::{Movement, Pattern},
    plan,
    reducer::{
        Choice,
        tuning::{Blocks, KernelKind},
    },
};

#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub variant: &'static Variant,
    pub op: Option<Op>,
    pub dtype: Dtype,
    /// Number of input elements.
    pub n: u64,
    pub block: u32,
    /// Blocks of the first launch, for grid-stride variants; for the reducer an upper bound.
    pub grid: Option<u64>,
    /// The reducer's kernel.
    pub kernel: KernelKind,
    pub stride: u64,
}

impl Case {
    /// Creates a case with the variant's first operation on floats, or on its first type, in the default
    /// geometry. Fails for a variant that has no kernel.
    pub fn new(variant: &'static Variant, n: u64) -> Result<Self> {
        if !variant.has_ptx() {
            bail!(
                "{} has no kernel of its own; `cargo xtask run --list` lists the family of each variant",
                variant.id
            );
        }
        let float = variant.dtypes.contains(&Dtype::F32);
        Ok(Self {
            variant,
            op: variant.ops.first().copied(),
            dtype: if float { Dtype::F32 } else { variant.dtypes[0] },
            n,
            block: plan::DEFAULT_BLOCK,
            grid: None,
            kernel: KernelKind::Grid,
            stride: 1,
        })
    }

    /// Returns the name of the first launch's PTX entry.
    pub fn entry(&self) -> String {
        let entry = self.variant.entry(self.op, self.dtype);
        if self.is_reducer() { format!("{entry}_{}", self.kernel.name()) } else { entry }
    }

    pub fn ptx(&self) -> String {
        match self.op {
            Some(op) if self.is_reducer() => catalogue::reducer_ptx(op, self.dtype),
            _ => self.variant.id.to_owned(),
        }
    }

    fn is_reducer(&self) -> bool {
        self.variant.work == Work::Reducer
    }

    fn pattern(&self) -> Result<Pattern> {
        Ok(Pattern::of(self.variant, self.n, self.stride, SEED)?)
    }

    /// Runs the case. The result is not checked; tests do that.
    pub fn run(&self, device: &Device, store: &PtxStore) -> Result<()> {
        let Some(op) = self.op else { return self.move_elements(device, store) };
        if self.is_reducer() {
            return self.reduce(op, device, store);
        }
        let Self { variant, dtype, n, block, grid, .. } = *self;
        if let Some(shape) = variant.shape()
            && shape.geometry != warpfold_suite::catalogue::Geometry::GridStride
            && grid.is_some()
        {
            bail!("{}'s grid follows from n and the block; leave --grid out", variant.id);
        }
        self.require_memory(device, n)?;
        let data = Data::random(dtype, usize::try_from(n)?, SEED);
        let request = Request { variant, op, dtype, n, block, grid };
        let reduction = Reduction::new(device, store, &request)?;
        let input = device.upload(&data)?;
        reduction.run(&input, &mut reduction.workspace()?)?;
        Ok(())
    }

    fn reduce(&self, op: Op, device: &Device, store: &PtxStore) -> Result<()> {
        let Self { dtype, n, block, grid, kernel, .. } = *self;
        let blocks = match grid {
            Some(grid) => Blocks::Total(u32::try_from(grid)?),
            None => Blocks::PerMultiprocessor(2),
        };
        self.require_memory(device, n)?;
        let data = Data::random(dtype, usize::try_from(n)?, SEED);
        let reducer = Reducer::with(device, store, Tuning::fixed(Choice { kernel, block, blocks })?)?;
        let buffer = device.upload(&data)?;
        if let Some(launch) = reducer.plan(op, &buffer)?
            && launch.kernel != kernel
        {
            bail!("the PTX has no {}; build it with `cargo xtask build-ptx --arch sm_90`", self.entry());
        }
        reducer.reduce(op, &buffer)?;
        Ok(())
    }

    fn move_elements(&self, device: &Device, store: &PtxStore) -> Result<()> {
        let pattern = self.pattern()?;
        self.require_memory(device, pattern.input_len().saturating_add(pattern.output_len()))?;
        let movement = Movement::new(device, store, self.variant, self.dtype, pattern, self.block)?;
        let data = Data::random(self.dtype, usize::try_from(pattern.input_len())?, SEED);
        movement.run(&device.upload(&data)?)?;
        Ok(())
    }

    /// Checks the memory before the elements are generated.
    fn require_memory(&self, device: &Device, elements: u64) -> Result<()> {
        Ok(device.require_memory(elements.saturating_mul(self.dtype.size() as u64))?)
    }

    /// Returns whether the variant is a transpose or copy.
    pub fn moves(&self) -> bool {
        matches!(self.variant.work, Work::Copy { .. } | Work::Transpose)
    }
}

const SEED: u64 = 1;
