//! Runs the catalogue's variants and returns a record of each run.

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use warpfold_suite::{
    Data, Device, Dtype, Kind, Op, PtxStore, Record, Reducer, Reduction, Request,
    catalogue::{self, Access, Geometry, Variant, Work},
    cpu::CpuReduction,
    measure::Options,
    memory::{self, Movement, Pattern, STRIDES},
    reference::Expected,
    transfer::{Transfer, TransferRequest},
};

use warpfold_suite_build::parallel;

use super::Args;

/// Limit on the elements of a single-threaded variant in the simulator.
pub(crate) const SERIAL: u64 = 100_003;

pub(super) struct Runs<'a> {
    pub(super) args: &'a Args,
    pub(super) device: &'a Device,
    pub(super) store: &'a PtxStore,
    pub(super) reducer: &'a Reducer,
    pub(super) variants: Vec<&'static Variant>,
}

fn wanted<T: PartialEq>(chosen: &[T], one: &T) -> bool {
    chosen.is_empty() || chosen.contains(one)
}

impl Runs<'_> {
    /// Removes the variants that need a newer device or PTX and, if twins are run, the variants without
    /// a twin. Returns a line for each removed variant.
    pub(super) fn skip(&mut self) -> Vec<String> {
        let arch = self.device.info().arch;
        let arch = self.store.arch().map_or(arch, |built| built.min(arch));
        let mut skipped = Vec::new();
        self.variants.retain(|variant| {
            let reason = if self.args.twins && variant.work == Work::Reducer {
                Some("has no CUDA C twin".to_owned())
            } else if variant.has_ptx() && variant.min_arch > arch {
                Some(format!("needs {}, this is {arch}", variant.min_arch))
            } else {
                None
            };
            skipped.extend(reason.iter().map(|reason| format!("skipped: {} {reason}", variant.id)));
            reason.is_none()
        });
        skipped
    }

    pub(super) fn all(&self, progress: &ProgressBar) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for &dtype in Dtype::ALL.iter().filter(|dtype| wanted(&self.args.dtypes, dtype)) {
            self.values(dtype, progress, &mut records)?;
            for variant in self.takers(dtype).filter(|variant| variant.ops.is_empty()) {
                progress.set_message(variant.entry(None, dtype));
                records.extend(self.movements(variant, dtype)?);
                progress.inc(1);
            }
        }
        let order = |record: &Record| catalogue::ids().position(|id| id == record.variant);
        records.sort_by_key(|record| (order(record), record.dtype, record.op));
        Ok(records)
    }

    pub(super) fn count(&self) -> usize {
        let runs = |(op, dtype): &(Option<Op>, Dtype)| {
            wanted(&self.args.dtypes, dtype) && op.is_none_or(|op| wanted(&self.args.ops, &op))
        };
        self.variants.iter().map(|variant| variant.cases().filter(runs).count()).sum()
    }

    /// Runs the reductions. All variants share the elements and expected results of a type and size.
    fn values(&self, dtype: Dtype, progress: &ProgressBar, records: &mut Vec<Record>) -> Result<()> {
        let takers = || self.takers(dtype).filter(|variant| !variant.ops.is_empty());
        let mut sizes: Vec<_> = takers().map(|variant| self.size(variant)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for n in sizes {
            self.device.require_memory(n.saturating_mul(dtype.size() as u64))?;
            let n = usize::try_from(n)?;
            let mut drawn: Option<(Op, Data)> = None;
            for &op in Op::ALL.iter().filter(|op| wanted(&self.args.ops, op)) {
                let has =
                    |variant: &&Variant| variant.ops.contains(&op) && self.size(variant) == n as u64;
                if !takers().any(|variant| has(&variant)) {
                    continue;
                }
                drawn = drawn.filter(|(of, _)| Data::drawn_alike(dtype, *of, op));
                let draw = || (op, Data::drawn(op, dtype, n, self.args.seed));
                let data = &mut drawn.get_or_insert_with(draw).1;
                let ordinary = n.checked_sub(1).map(|last| (last, data.get(last)));
                let expected = Expected::mark(op, data, n)?;
                let run = |variant: &&'static Variant| {
                    let entry = variant.entry(Some(op), dtype);
                    progress.set_message(entry.clone());
                    let record = self.value(variant, op, data, &expected).context(entry);
                    progress.inc(1);
                    record
                };
                // In the simulator only the times of variants on the CPU are real.
                let (untimed, timed): (Vec<_>, Vec<_>) = takers().filter(has).partition(|variant| {
                    self.on_simulator() && !matches!(variant.work, Work::Cpu { .. })
                });
                parallel::in_order(&untimed, run, |_, record| records.push(record))?;
                for variant in &timed {
                    records.push(run(variant)?);
                }
                if let Some((last, element)) = ordinary {
                    data.set(last, element);
                }
            }
        }
        Ok(())
    }

    fn takers(&self, dtype: Dtype) -> impl Iterator<Item = &'static Variant> {
        self.variants.iter().copied().filter(move |variant| variant.dtypes.contains(&dtype))
    }

    fn on_simulator(&self) -> bool {
        self.device.info().kind == Kind::Sim
    }

    /// Returns the number of elements for a variant. In the simulator a single-threaded variant gets
    /// fewer, which the table shows.
    fn size(&self, variant: &Variant) -> u64 {
        match variant.shape().map(|shape| shape.geometry) {
            Some(Geometry::SingleThread) if self.on_simulator() => self.args.n.min(SERIAL),
            _ => self.args.n,
        }
    }

    fn options(&self) -> Options {
        Options { iterations: self.args.iters, ..Options::default() }
    }

    fn value(
        &self,
        variant: &'static Variant,
        op: Op,
        data: &Data,
        expected: &Expected,
    ) -> Result<Record> {
        let (dtype, n) = (data.dtype(), data.len() as u64);
        let record = match variant.work {
            Work::Transfer { path } => {
                let request = TransferRequest { variant, path, op, dtype, n, chunk: None };
                let mut transfer = Transfer::new(self.device, self.store, &request, data)?;
                Record::of_transfer(&mut transfer, self.device, data, expected, self.options())?
            }
            Work::Reducer => {
                Record::of_reducer(self.reducer, self.store, op, data, expected, self.options())?
            }
            Work::Cpu { parallel } => {
                let reduction = CpuReduction::new(variant, op, parallel, None)?;
                Record::of_cpu(&reduction, data, expected, self.options())?
            }
            _ => {
                let request = Request { block: self.args.block, ..Request::new(variant, op, data) };
                let reduction = Reduction::new(self.device, self.store, &request)?;
                Record::of(&reduction, data, expected, self.options())?
            }
        };
        Ok(record)
    }

    fn movements(&self, variant: &'static Variant, dtype: Dtype) -> Result<Vec<Record>> {
        let strided = variant.work == Work::Copy { access: Access::Strided };
        let strides: &[u64] = if strided { &STRIDES } else { &[1] };
        // On the simulator the output is 64 times smaller: the input of the largest stride is 64 times
        // the output, too much to generate for every run.
        let n = if strided && self.on_simulator() { self.args.n.div_ceil(64) } else { self.args.n };
        let record = |&stride: &u64| {
            let pattern = Pattern::of(variant, n.max(1), stride, self.args.seed)?;
            let movement =
                Movement::new(self.device, self.store, variant, dtype, pattern, memory::DEFAULT_BLOCK)?;
            self.device.require_memory(pattern.input_len().saturating_mul(dtype.size() as u64))?;
            let data = Data::random(dtype, usize::try_from(pattern.input_len())?, self.args.seed);
            Ok(Record::of_movement(&movement, &data, self.options())?)
        };
        let entry = variant.entry(None, dtype);
        strides.iter().map(record).collect::<Result<_>>().context(entry)
    }
}
