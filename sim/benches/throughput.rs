//! Warp instructions per second on one core, and the time to parse a module.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warpfold_sim::{Args, Config, Counter, Gpu, Hazards, Launch, Module, Observer, Profiler};

const SEQUENTIAL: &str = include_str!("../tests/ptx/sequential_llvm.ptx");
const NVCC: &str = include_str!("../tests/ptx/reduce_nvcc.ptx");
const FLOW: &str = include_str!("../tests/ptx/flow.ptx");
const GRID: &str = include_str!("../tests/ptx/grid.ptx");

/// What is dearest to observe: every access in a sector or on one bank of its own.
const SCATTERED: &str = ".version 7.8 .target sm_80 .address_size 64
.visible .entry scattered(.param .u64 data) {
    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<3>; .shared .align 4 .b8 cells[32768];
    ld.param.u64 %rd0, [data];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 0;
    mov.u32 %r6, cells;
LOOP:
    mad.lo.u32 %r2, %r0, 2657, %r1;
    and.b32 %r2, %r2, 0xffff;
    mul.wide.u32 %rd1, %r2, 4;
    add.s64 %rd1, %rd0, %rd1;
    ld.global.u32 %r3, [%rd1];
    shl.b32 %r4, %r0, 7;
    add.u32 %r4, %r4, %r6;
    st.shared.u32 [%r4], %r3;
    ld.shared.u32 %r5, [%r4];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 64;
    @%p bra LOOP;
    ret;
}";

/// A launch that can be repeated.
struct Case {
    name: &'static str,
    gpu: Gpu,
    module: Module,
    entry: &'static str,
    launch: Launch,
    args: Args,
}

impl Case {
    fn new(
        name: &'static str,
        ptx: &str,
        entry: &'static str,
        launch: Launch,
        args: impl Fn(&Gpu) -> Args,
    ) -> Self {
        let gpu = Gpu::new(Config { threads: Some(1), ..Config::default() });
        let module = Module::parse(ptx).expect("the kernel parses");
        let args = args(&gpu);
        Self { name, gpu, module, entry, launch, args }
    }

    fn run(&self) -> u64 {
        let stats = self.gpu.launch(&self.module, self.entry, &self.launch, &self.args);
        stats.expect("the kernel runs").warp_instructions
    }

    fn run_observed(&self, observer: &impl Observer) -> u64 {
        let stats =
            self.gpu.launch_observed(&self.module, self.entry, &self.launch, &self.args, observer);
        stats.expect("the kernel runs").warp_instructions
    }
}

/// `words` words of ones.
fn ones(gpu: &Gpu, words: u64) -> u64 {
    let memory = gpu.alloc(words * 4).expect("memory");
    gpu.write(memory, &1_u32.to_le_bytes().repeat(words as usize)).expect("live memory");
    memory
}

/// Kernels from those with long runs of arithmetic to those that wait.
fn cases() -> Vec<Case> {
    let length = 256 * 256_u64;
    let shared = Launch::linear(256, 256).with_dynamic_shared(1024);
    vec![
        Case::new("sequential", SEQUENTIAL, "sequential_sum_u32", shared, |gpu| {
            Args::new().ptr(ones(gpu, length)).u64(length).ptr(ones(gpu, 256))
        }),
        Case::new("stride and shuffle", NVCC, "_Z6stridePKfPfi", Launch::linear(64, 256), |gpu| {
            Args::new().ptr(ones(gpu, length)).ptr(ones(gpu, 64)).i32(length as i32)
        }),
        Case::new("scattered", SCATTERED, "scattered", Launch::linear(16, 256), |gpu| {
            Args::new().ptr(ones(gpu, length))
        }),
        Case::new("divergent loop", FLOW, "collatz", Launch::linear(1, 256), |gpu| {
            Args::new().ptr(ones(gpu, 2048))
        }),
        Case::new("spin lock", GRID, "spin_lock", Launch::linear(64, 128), |gpu| {
            let zeroed = || gpu.alloc(4).expect("memory");
            Args::new().ptr(zeroed()).ptr(zeroed())
        }),
    ]
}

fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("warp instructions");
    group.measurement_time(Duration::from_secs(3)).sample_size(20);
    for case in cases() {
        group.throughput(Throughput::Elements(case.run()));
        group.bench_function(case.name, |bencher| bencher.iter(|| black_box(case.run())));
    }
    for case in &cases()[..3] {
        group.throughput(Throughput::Elements(case.run()));
        group.bench_function(format!("{}, observed", case.name), |bencher| {
            bencher.iter(|| black_box(case.run_observed(&Counter::new())));
        });
        group.bench_function(format!("{}, counted", case.name), |bencher| {
            bencher.iter(|| black_box(case.run_observed(&Profiler::new())));
        });
        group.bench_function(format!("{}, checked", case.name), |bencher| {
            bencher.iter(|| black_box(case.run_observed(&Hazards::new().launch())));
        });
    }
    group.finish();
}

fn parsing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("module");
    group.throughput(Throughput::Bytes(FLOW.len() as u64));
    group.bench_function("parse", |bencher| bencher.iter(|| Module::parse(black_box(FLOW))));
    group.finish();
}

criterion_group!(benches, throughput, parsing);
criterion_main!(benches);
