//! Overhead of the simulated driver: the same launches and copies through it, and by `Gpu` directly.

use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::ptr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warpfold_driver::sys::*;
use warpfold_sim::{Args, Config, Gpu, Launch, Module};
use warpfold_sim_driver::driver;

/// An empty kernel, and a grid-stride sum of words.
const KERNELS: &str = ".version 7.8
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b) { ret; }
.visible .entry sum(.param .u64 from, .param .u64 to) {
    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [from]; ld.param.u64 %rd1, [to];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r0, %r1, %r2, %r0;
    mov.u32 %r3, %nctaid.x; mul.lo.u32 %r3, %r3, %r2; mov.u32 %r4, 0;
L:  mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd2, %rd0; ld.global.u32 %r5, [%rd2];
    add.u32 %r4, %r4, %r5; add.u32 %r0, %r0, %r3; setp.lt.u32 %p, %r0, 1048576; @%p bra L;
    red.global.add.u32 [%rd1], %r4; ret;
}";
const BYTES: usize = 4 << 20;
const LAUNCHES: u32 = 10_000;

macro_rules! ok {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the arguments meet the contract of the driver's function.
        assert_eq!(unsafe { (driver().api().$name)($($argument),*) }, 0, stringify!($name))
    };
}

struct Sim {
    sum: CUfunction,
    nothing: CUfunction,
    stream: CUstream,
    from: u64,
    to: u64,
}

impl Sim {
    fn new() -> Self {
        let (mut context, mut module, mut stream) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let (mut from, mut to) = (0, 0);
        ok!(cuInit(0));
        ok!(cuCtxCreate_v2(&mut context, 0, 0));
        let text = CString::new(KERNELS).expect("no zero");
        ok!(cuModuleLoadData(&mut module, text.as_ptr().cast()));
        ok!(cuStreamCreate(&mut stream, CU_STREAM_NON_BLOCKING));
        ok!(cuMemAlloc_v2(&mut from, BYTES));
        ok!(cuMemAlloc_v2(&mut to, 4));
        let function = |name: &str| {
            let (mut function, name) = (ptr::null_mut(), CString::new(name).expect("no zero"));
            ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
            function
        };
        Self { sum: function("sum"), nothing: function("nothing"), stream, from, to }
    }

    fn launch(&self, function: CUfunction, grid: u32, block: u32) {
        let mut pointers: [*mut c_void; 2] =
            [(&raw const self.from).cast_mut().cast(), (&raw const self.to).cast_mut().cast()];
        let (params, none) = (pointers.as_mut_ptr(), ptr::null_mut());
        ok!(cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, self.stream, params, none));
    }

    fn synchronize(&self) {
        ok!(cuStreamSynchronize(self.stream));
    }
}

struct Alone {
    gpu: Gpu,
    module: Module,
    from: u64,
    args: Args,
}

impl Alone {
    fn new() -> Self {
        let gpu = Gpu::new(Config { sm_count: 8, ..Config::default() });
        let module = Module::parse(KERNELS).expect("the kernels parse");
        let (from, to) = (gpu.alloc(BYTES as u64).expect("room"), gpu.alloc(4).expect("room"));
        Self { gpu, module, from, args: Args::new().ptr(from).ptr(to) }
    }

    fn launch(&self, entry: &str, shape: Launch) {
        black_box(self.gpu.launch(&self.module, entry, &shape, &self.args)).expect("it runs");
    }
}

fn empty_launches(criterion: &mut Criterion) {
    let (sim, alone) = (Sim::new(), Alone::new());
    let mut group = criterion.benchmark_group("empty launches");
    group.sample_size(10).throughput(Throughput::Elements(LAUNCHES.into()));
    group.bench_function("simulator alone", |bencher| {
        bencher.iter(|| (0..LAUNCHES).for_each(|_| alone.launch("nothing", Launch::linear(1, 32))));
    });
    group.bench_function("driver", |bencher| {
        bencher.iter(|| {
            (0..LAUNCHES).for_each(|_| sim.launch(sim.nothing, 1, 32));
            sim.synchronize();
        });
    });
    group.finish();
}

fn upload_and_sum(criterion: &mut Criterion) {
    let (sim, alone) = (Sim::new(), Alone::new());
    let data = vec![1_u8; BYTES];
    let mut group = criterion.benchmark_group("upload and sum of 4 MiB");
    group.sample_size(20).throughput(Throughput::Bytes(BYTES as u64));
    group.bench_function("simulator alone", |bencher| {
        bencher.iter(|| {
            alone.gpu.write(alone.from, &data).expect("live");
            alone.launch("sum", Launch::linear(16, 256));
        });
    });
    group.bench_function("driver", |bencher| {
        bencher.iter(|| {
            ok!(cuMemcpyHtoDAsync_v2(sim.from, data.as_ptr().cast(), BYTES, sim.stream));
            sim.launch(sim.sum, 16, 256);
            sim.synchronize();
        });
    });
    group.finish();
}

criterion_group!(benches, empty_launches, upload_and_sum);
criterion_main!(benches);
