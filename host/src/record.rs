//! One checked run as a record: what the binaries print and `cargo xtask run` tabulates.

use serde::Serialize;

use crate::{
    Arch, Codegen, Data, Dtype, Op, Result, Timing, Value,
    device::{Counters, Kind},
    measure::{self, Options},
    reduction::Reduction,
    reference::Expected,
};

/// A checked and, on a GPU, timed run. Serialises to one JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The variant's id.
    pub variant: &'static str,
    /// Operation.
    pub op: Op,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Number of elements.
    pub n: u64,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the first launch.
    pub grid: u32,
    /// Kind of device.
    pub device: Kind,
    /// Name of the device.
    pub device_name: String,
    /// What compiled the kernel.
    pub codegen: Codegen,
    /// What it was compiled for.
    pub arch: Arch,
    /// What came out.
    pub result: Value,
    /// What should have.
    pub expected: Value,
    /// Whether the result is right.
    pub ok: bool,
    /// Distance of the two; for float sums rounding may make up for it.
    pub error: f64,
    /// Times in microseconds; none from the simulator.
    pub time_us: Option<Timing>,
    /// Input bytes over the median time, in 10^9 bytes per second.
    pub bandwidth_gbps: Option<f64>,
    /// That, as a part of the memory's theoretical peak.
    pub percent_of_peak: Option<f64>,
    /// What the simulator counted; none from a GPU.
    pub counters: Option<Counters>,
}

impl Record {
    /// Runs a reduction on poisoned memory, checks the result and, on a GPU where it is right, times
    /// it and checks the last timed run as well.
    ///
    /// # Errors
    /// Those of [`Reduction::run`] and of [`measure`](mod@crate::measure). A wrong result is a record, not an error.
    pub fn of(
        reduction: &Reduction,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let device = reduction.device();
        let depth = reduction.plan().depth;
        let outcome = {
            let input = device.upload(data)?;
            let mut workspace = reduction.workspace()?;
            workspace.poison(POISON)?;
            reduction.run(&input, &mut workspace)?
        };
        let mut record = Self::untimed(reduction, expected, outcome.value);
        record.counters = outcome.counters;
        if record.ok
            && let Some((timing, last)) = measure::measure(reduction, data, options)?
        {
            let check = expected.check(last.value, depth);
            (record.result, record.ok, record.error) = (last.value, check.ok, check.error);
            let bandwidth = timing.gigabytes_per_second(data.as_bytes().len() as u64);
            record.time_us = Some(timing);
            record.bandwidth_gbps = Some(bandwidth);
            record.percent_of_peak =
                device.info().peak_bandwidth.map(|peak| bandwidth * 1e9 / peak * 100.0);
        }
        Ok(record)
    }

    fn untimed(reduction: &Reduction, expected: &Expected, result: Value) -> Self {
        let (request, info) = (reduction.request(), reduction.device().info());
        let check = expected.check(result, reduction.plan().depth);
        Self {
            variant: request.variant.id,
            op: request.op,
            dtype: request.dtype,
            n: request.n,
            block: request.block,
            grid: reduction.plan().grid(),
            device: info.kind,
            device_name: info.name.clone(),
            codegen: reduction.ptx().codegen,
            arch: reduction.ptx().arch,
            result,
            expected: expected.value,
            ok: check.ok,
            error: check.error,
            time_us: None,
            bandwidth_gbps: None,
            percent_of_peak: None,
            counters: None,
        }
    }
}

/// Fills outputs before a run. As an i32 it is -1 397 969 748, as an f32 -4.9e-12: no result of random
/// data.
const POISON: u8 = 0xac;
