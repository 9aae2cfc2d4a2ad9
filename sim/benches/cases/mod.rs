//! Launches that the benchmarks time.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use warpfold_sim::{Args, Config, Counter, Gpu, Hazards, Launch, Module, Observer, Profiler};

const SEQUENTIAL: &str = include_str!("../../tests/ptx/sequential_llvm.ptx");
const NVCC: &str = include_str!("../../tests/ptx/reduce_nvcc.ptx");
const MATRIX: &str = include_str!("../../tests/ptx/matrix_nvcc.ptx");
pub(crate) const FLOW: &str = include_str!("../../tests/ptx/flow.ptx");
const GRID: &str = include_str!("../../tests/ptx/grid.ptx");

/// The worst case for observers: every access in its own sector or bank.
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

pub(crate) struct Case {
    pub(crate) name: &'static str,
    gpu: Gpu,
    module: Module,
    entry: &'static str,
    launch: Launch,
    args: Args,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    Plain,
    Observed,
    Counted,
    Checked,
}

impl Watch {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Observed, Self::Counted, Self::Checked];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Observed => "observed",
            Self::Counted => "counted",
            Self::Checked => "checked",
        }
    }
}

impl Case {
    pub(crate) fn run(&self, watch: Watch) -> u64 {
        match watch {
            Watch::Plain => {
                let stats = self.gpu.launch(&self.module, self.entry, &self.launch, &self.args);
                stats.expect("the kernel runs").warp_instructions
            }
            Watch::Observed => self.observed(&Counter::new()),
            Watch::Counted => self.observed(&Profiler::new()),
            Watch::Checked => self.observed(&Hazards::new().launch()),
        }
    }

    fn observed(&self, observer: &impl Observer) -> u64 {
        let Self { gpu, module, entry, launch, args, .. } = self;
        let stats = gpu.launch_observed(module, entry, launch, args, observer);
        stats.expect("the kernel runs").warp_instructions
    }
}

fn ones(gpu: &Gpu, words: u64) -> u64 {
    let memory = gpu.alloc(words * 4).expect("memory");
    gpu.write(memory, &1_u32.to_le_bytes().repeat(words as usize)).expect("live memory");
    memory
}

pub(crate) struct Cases {
    pub(crate) threads: usize,
}

impl Cases {
    fn case(
        &self,
        name: &'static str,
        (ptx, entry): (&str, &'static str),
        launch: Launch,
        args: impl Fn(&Gpu) -> Args,
    ) -> Case {
        let gpu = Gpu::new(Config { threads: Some(self.threads), ..Config::default() });
        let module = Module::parse(ptx).expect("the kernel parses");
        let args = args(&gpu);
        Case { name, gpu, module, entry, launch, args }
    }

    fn product(&self, name: &'static str, entry: &'static str, block: [u32; 3], tile: u32) -> Case {
        let side = 128;
        let launch = Launch::new([side / tile, side / tile, 1], block);
        self.case(name, (MATRIX, entry), launch, |gpu| {
            let matrix = || ones(gpu, u64::from(side * side));
            Args::new().ptr(matrix()).ptr(matrix()).ptr(matrix()).i32(side as i32)
        })
    }

    pub(crate) fn steady(&self) -> Vec<Case> {
        let length = 256 * 256_u64;
        let shared = Launch::linear(256, 256).with_dynamic_shared(1024);
        let stride = (NVCC, "_Z6stridePKfPfi");
        let sum = |length: u64| {
            move |gpu: &Gpu| Args::new().ptr(ones(gpu, length)).ptr(ones(gpu, 64)).i32(length as i32)
        };
        vec![
            self.case("sequential", (SEQUENTIAL, "sequential_sum_u32"), shared, |gpu| {
                Args::new().ptr(ones(gpu, length)).u64(length).ptr(ones(gpu, 256))
            }),
            self.case("stride and shuffle", stride, Launch::linear(64, 256), sum(length)),
            self.case("long stride", stride, Launch::linear(64, 256), sum(16 * length)),
            self.product("matrix, tile of 32", "product_32", [32, 32, 1], 32),
            self.product("matrix, tile of 16", "product_16", [16, 16, 1], 16),
            self.product("matrix, blocked", "product_blocked", [256, 1, 1], 64),
            self.case("scattered", (SCATTERED, "scattered"), Launch::linear(16, 256), |gpu| {
                Args::new().ptr(ones(gpu, length))
            }),
        ]
    }

    pub(crate) fn divergent(&self) -> Vec<Case> {
        vec![
            self.case("divergent loop", (FLOW, "collatz"), Launch::linear(1, 256), |gpu| {
                Args::new().ptr(ones(gpu, 2048))
            }),
            self.case("spin lock", (GRID, "spin_lock"), Launch::linear(64, 128), |gpu| {
                let zeroed = || gpu.alloc(4).expect("memory");
                Args::new().ptr(zeroed()).ptr(zeroed())
            }),
        ]
    }
}
