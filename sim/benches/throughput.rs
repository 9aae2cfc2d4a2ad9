//! Warp instructions per second on one core.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warpfold_sim::{Args, Config, Gpu, Launch, Module};

/// A launch that can be repeated, and what it takes.
struct Case {
    name: &'static str,
    gpu: Gpu,
    module: Module,
    launch: Launch,
    args: Args,
}

impl Case {
    /// A kernel with parameters (input, length, output).
    fn new(name: &'static str, ptx: &str, launch: Launch, length: u64) -> Self {
        let module = Module::parse(ptx).expect("benchmark kernel parses");
        let gpu = Gpu::new(Config { threads: Some(1), ..Config::default() });
        let input = gpu.alloc(length * 4).expect("input fits");
        let ones: Vec<u8> = 1_u32.to_le_bytes().repeat(length as usize);
        gpu.write(input, &ones).expect("input is live");
        let output = gpu.alloc(u64::from(launch.grid[0]) * 4).expect("output fits");
        let args = Args::new().ptr(input).u64(length).ptr(output);
        Self { name, gpu, module, launch, args }
    }

    fn run(&self) -> u64 {
        let entry = self.module.entries().next().expect("one entry").name();
        let stats = self.gpu.launch(&self.module, entry, &self.launch, &self.args);
        stats.expect("benchmark kernel runs").warp_instructions
    }
}

fn throughput(criterion: &mut Criterion) {
    let cases = [Case::new(
        "sequential",
        include_str!("../tests/ptx/sequential_llvm.ptx"),
        Launch::linear(256, 256).with_dynamic_shared(1024),
        256 * 256,
    )];
    let mut group = criterion.benchmark_group("warp instructions");
    group.measurement_time(Duration::from_secs(3)).sample_size(20);
    for case in &cases {
        group.throughput(Throughput::Elements(case.run()));
        group.bench_function(case.name, |bencher| bencher.iter(|| black_box(case.run())));
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
