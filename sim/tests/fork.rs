//! A simulated GPU in a child of a process that has already used one.
#![cfg(unix)]

#[path = "../../driver/tests/child/mod.rs"]
mod child;
#[path = "simulator/common/mod.rs"]
mod common;

use child::in_child;
use common::{device, module, read_u32s, u32s};
use warpfold_sim::{Args, Config, Gpu, Launch};

const TEXT: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pointer)\n\
                    { .reg .b64 %rd<1>; ld.param.u64 %rd0, [pointer]; red.global.add.u32 [%rd0], 1; ret; }\n";

/// Blocks run on a thread pool, whose threads exist in the parent only.
#[test]
fn a_child_runs_blocks_without_its_parents_threads() {
    let module = module(TEXT);
    for threads in [None, Some(3)] {
        let (gpu, shape) = (Gpu::new(Config { threads, ..device() }), Launch::linear(200, 32));
        let word = u32s(&gpu, &[0]);
        let count = || {
            gpu.launch(&module, "k", &shape, &Args::new().ptr(word)).map(|_| read_u32s(&gpu, word, 1)[0])
        };
        assert_eq!(count(), Ok(6400));
        assert_eq!(in_child(|| (count() == Ok(12_800)).into()), Some(1));
        let new = || Gpu::new(Config { threads, ..device() });
        let word_of = |gpu: &Gpu| u32s(gpu, &[0]);
        let counted = in_child(|| {
            let gpu = new();
            let word = word_of(&gpu);
            let ran = gpu.launch(&module, "k", &shape, &Args::new().ptr(word)).is_ok();
            (ran && read_u32s(&gpu, word, 1) == [6400]).into()
        });
        assert_eq!(counted, Some(1));
    }
}
