//! Records of checked runs, which the binaries print and `cargo xtask run` tabulates.

mod reduced;

use std::fmt;

use serde::Serialize;

use crate::{
    Arch, Codegen, Data, Device, Dtype, Kind, Op, Result, Spread, Statistic, Value,
    catalogue::{Determinism, Path, Variant},
    cpu::{self, CpuReduction},
    device::Counters,
    measure::{self, Options},
    memory::{Movement, Pattern},
    ptx::PtxFile,
    reducer::tuning::KernelKind,
    reduction::Reduction,
    reference::{Expected, POISON},
    transfer::{Parts, Transfer},
};

/// A checked run, timed on a GPU or CPU. Serialises to one JSON object.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    pub variant: &'static str,
    /// The requested statistic; `None` for variants that only move elements.
    pub op: Option<Statistic>,
    pub dtype: Dtype,
    /// The number of elements; for movements, the number of elements written.
    pub n: u64,
    #[serde(flatten)]
    pub extent: Extent,
    /// Threads of a block; `None` if nothing was launched.
    pub block: Option<u32>,
    /// Blocks of the first launch; `None` if nothing was launched.
    pub grid: Option<u64>,
    pub device: Processor,
    pub device_name: String,
    /// The code generator; `None` on the CPU.
    pub codegen: Option<Codegen>,
    /// The architecture that the kernel was compiled for; `None` on the CPU.
    pub arch: Option<Arch>,
    /// The result; for argmin and argmax the index, for movements the number of correct elements.
    pub result: Value,
    pub expected: Value,
    pub ok: bool,
    /// The difference from the expected result. For float sums it may be due to rounding.
    pub error: f64,
    /// The largest difference that rounding may explain.
    pub allowed: f64,
    /// The fault of a wrong kernel that the check would accept too, because the tolerance is so large;
    /// `None` for elements that the suite has generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blind_to: Option<&'static str>,
    pub determinism: Determinism,
    /// Times in microseconds; `None` on the simulator.
    pub time_us: Option<Spread>,
    /// Useful bytes over the median time, in 10^9 bytes per second. The useful bytes are a reduction's
    /// input, or a movement's reads and writes.
    pub bandwidth_gbps: Option<f64>,
    /// The bandwidth in percent of the memory's theoretical peak; `None` if memory is not the limit.
    pub percent_of_peak: Option<f64>,
    /// The simulator's counters; `None` on a GPU.
    pub counters: Option<Counters>,
}

/// Parameters and measurements that only some families of variants have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Extent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelKind>,
    /// The element at the resulting index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub element: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<usize>,
    /// Time of a transfer's copies alone, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_us: Option<Spread>,
    /// Time of a transfer's reductions alone, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce_us: Option<Spread>,
}

/// Formats the parameters that distinguish runs of the same variant, type and number of elements.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stride) = self.stride {
            write!(f, " stride {stride}")?;
        }
        if let Some((width, height)) = self.width.zip(self.height) {
            write!(f, " {width} x {height}")?;
        }
        if let Some(chunks) = self.chunks {
            write!(f, " {chunks} chunks")?;
        }
        if let Some(threads) = self.threads.filter(|&threads| threads > 1) {
            write!(f, " {threads} threads")?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Processor {
    Cuda,
    Sim,
    Cpu,
}

impl From<Kind> for Processor {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Cuda => Self::Cuda,
            Kind::Sim => Self::Sim,
        }
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cuda => "cuda",
            Self::Sim => "sim",
            Self::Cpu => "cpu",
        })
    }
}

impl Record {
    /// Runs a reduction on poisoned memory and checks the result. On a GPU, times it if it is correct,
    /// and checks the last timed run as well. A wrong result is a record, not an error.
    pub fn of(
        reduction: &Reduction,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let device = reduction.device();
        let (request, depth) = (reduction.request(), reduction.plan().depth);
        let outcome = {
            let input = device.upload(data)?;
            let mut workspace = reduction.workspace()?;
            workspace.poison(POISON)?;
            reduction.run(&input, &mut workspace)?
        };
        let mut record = Self {
            block: Some(request.block),
            grid: Some(reduction.plan().grid().into()),
            counters: outcome.counters,
            ..Self::on_device(request.variant, data, device, reduction.ptx())
        };
        record.judge(request.op, outcome.value, expected, depth)?;
        if record.ok
            && let Some((timing, last)) = measure::measure(reduction, data, options)?
        {
            record.judge(request.op, last, expected, depth)?;
            record.time(timing, data.as_bytes().len() as u64);
            record.of_peak(device);
        }
        Ok(record)
    }

    /// Runs a movement of `data` into poisoned memory and compares every element. On a GPU, times it if
    /// all are correct.
    pub fn of_movement(movement: &Movement, data: &Data, options: Options) -> Result<Self> {
        let (device, pattern) = (movement.device(), movement.pattern());
        let moved = movement.run(&device.upload(data)?)?;
        let expected = pattern.expected(data);
        let size = movement.dtype().size();
        let pairs = moved.output.as_bytes().chunks(size).zip(expected.as_bytes().chunks(size));
        let right = pairs.filter(|(moved, expected)| moved == expected).count();
        let geometry = movement.geometry();
        let mut record = Self {
            n: pattern.output_len(),
            extent: match pattern {
                Pattern::Strided { stride, .. } => Extent { stride: Some(stride), ..Extent::default() },
                Pattern::Random { .. } => Extent::default(),
                Pattern::Transpose { width, height } => {
                    Extent { width: Some(width), height: Some(height), ..Extent::default() }
                }
            },
            block: Some(geometry.block.iter().product()),
            grid: Some(geometry.grid.map(u64::from).iter().product()),
            counters: moved.counters,
            result: Value::U64(right as u64),
            expected: Value::U64(pattern.output_len()),
            ok: right as u64 == pattern.output_len(),
            error: (pattern.output_len() - right as u64) as f64,
            ..Self::on_device(movement.variant(), data, device, movement.ptx())
        };
        let input = data.as_bytes();
        let offset = measure::slot_offset(input);
        let run = |stream: &crate::Stream, address: u64| {
            // SAFETY: every slot of the rotation holds the input, followed by room for the output. The
            // rotation lives until `times` returns, when the stream is idle.
            unsafe { movement.launch(stream, address, address + offset) }.map(drop)
        };
        let room = pattern.output_len() * size as u64;
        if record.ok
            && let Some(timing) = measure::times(device, input, room, options, run)?
        {
            record.time(timing, pattern.useful_bytes(movement.dtype()));
            record.of_peak(device);
        }
        Ok(record)
    }

    /// Runs a transfer and checks the result. On a GPU, times it and its parts if it is correct, by the
    /// host's clock: the time that a caller waits.
    pub fn of_transfer(
        transfer: &mut Transfer<'_>,
        device: &Device,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let request = *transfer.request();
        let (depth, chunks) = (transfer.depth(), transfer.chunks());
        transfer.poison(POISON)?;
        let outcome = transfer.run()?;
        let reduction = transfer.reduction();
        let mut record = Self {
            block: Some(reduction.request().block),
            grid: Some(reduction.plan().grid().into()),
            counters: outcome.counters,
            extent: Extent {
                chunks: (request.path == Path::Overlapped).then_some(chunks),
                ..Extent::default()
            },
            ..Self::on_device(request.variant, data, device, reduction.ptx())
        };
        record.judge(request.op, outcome.value, expected, depth)?;
        if record.ok && device.info().kind == Kind::Cuda {
            let parts = [Parts::Copy, Parts::Reduce, Parts::All];
            let [copy, reduce, whole] = measure::host_times_in_turn(options, |at| match parts[at] {
                // This time includes the read of the result, which a caller waits for too.
                Parts::All => transfer.run().map(drop),
                part => transfer.execute(part).map(drop),
            })?;
            (record.extent.copy_us, record.extent.reduce_us) = (copy, reduce);
            if let Some(timing) = whole {
                record.time(timing, data.as_bytes().len() as u64);
            }
            transfer.poison(POISON)?;
            record.judge(request.op, transfer.run()?.value, expected, depth)?;
        }
        Ok(record)
    }

    /// Runs a reduction on the CPU, checks it and times it by the host's clock.
    pub fn of_cpu(
        reduction: &CpuReduction,
        data: &Data,
        expected: &Expected,
        options: Options,
    ) -> Result<Self> {
        let mut record = Self {
            device: Processor::Cpu,
            device_name: cpu::processor_name(),
            codegen: None,
            arch: None,
            extent: Extent { threads: Some(reduction.threads()), ..Extent::default() },
            ..Self::blank(reduction.variant(), data)
        };
        let mut value = reduction.run(data)?;
        let timing = measure::host_times(options, || {
            value = std::hint::black_box(reduction.run(std::hint::black_box(data))?);
            Ok(())
        })?;
        record.judge(reduction.op(), value, expected, reduction.depth(data.len() as u64))?;
        if let Some(timing) = timing {
            record.time(timing, data.as_bytes().len() as u64);
        }
        Ok(record)
    }

    /// Converts the record of an operation to that of a statistic derived from it.
    #[must_use]
    pub fn finish(mut self, statistic: Statistic) -> Self {
        if self.op != Some(statistic) {
            let expected = self.expected.to_f64();
            self.op = Some(statistic);
            self.result = statistic.finish(self.result, self.n);
            self.expected = statistic.finish(self.expected, self.n);
            self.error = (self.result.to_f64() - self.expected.to_f64()).abs();
            self.allowed =
                statistic.of(expected + self.allowed, self.n) - statistic.of(expected, self.n);
        }
        self
    }

    fn on_device(variant: &'static Variant, data: &Data, device: &Device, ptx: &PtxFile) -> Self {
        Self {
            device: device.info().kind.into(),
            device_name: device.info().name.clone(),
            codegen: Some(ptx.codegen),
            arch: Some(ptx.arch),
            ..Self::blank(variant, data)
        }
    }

    fn blank(variant: &'static Variant, data: &Data) -> Self {
        let nothing = Value::identity(Op::Sum, data.dtype());
        Self {
            variant: variant.id,
            op: None,
            dtype: data.dtype(),
            n: data.len() as u64,
            extent: Extent::default(),
            block: None,
            grid: None,
            device: Processor::Cpu,
            device_name: String::new(),
            codegen: None,
            arch: None,
            result: nothing,
            expected: nothing,
            ok: false,
            error: 0.0,
            allowed: 0.0,
            blind_to: None,
            determinism: variant.determinism,
            time_us: None,
            bandwidth_gbps: None,
            percent_of_peak: None,
            counters: None,
        }
    }

    fn judge(&mut self, op: Op, result: Value, expected: &Expected, depth: u64) -> Result<()> {
        let expected = expected.of_type(result.dtype());
        let check = expected.judge(result, depth)?;
        self.op = Some(op.into());
        (self.result, self.expected) = (result, expected.value);
        (self.ok, self.error, self.allowed) = (check.ok, check.error, check.allowed);
        // If the result must be exact or is not finite, there is no tolerance that could be too large.
        let bounded = check.allowed > 0.0 && expected.value.to_f64().is_finite();
        let blind = expected.blind_to(depth).filter(|_| bounded);
        self.blind_to = blind.map(|planted| planted.what);
        Ok(())
    }

    fn time(&mut self, timing: Spread, useful_bytes: u64) {
        self.time_us = Some(timing);
        self.bandwidth_gbps = Some(timing.gigabytes_per_second(useful_bytes));
    }

    fn of_peak(&mut self, device: &Device) {
        let bandwidth = self.bandwidth_gbps.zip(device.info().peak_bandwidth);
        self.percent_of_peak = bandwidth.map(|(bandwidth, peak)| bandwidth * 1e9 / peak * 100.0);
    }
}
