//! Tests that wrong kernels would be detected at every size that a command or script compares or runs.
//!
//! Large inputs are not generated: known bounds on their expected results suffice.

use crate::contest::cub_depth;
use warpfold_suite::{
    Data, Device, DeviceInfo, Dtype, Op, Plan, Request, Selection, Tuning,
    catalogue::{Variant, Work},
    cpu::CpuReduction,
    memory::Pattern,
    plan::DEFAULT_BLOCK,
    reducer::depth_on,
    reference::POISONS,
    transfer::{self, TransferRequest},
};

use super::{
    cases::{Task, Wanted},
    sizes::Sizes,
};
use crate::{elements::assert_tells, workspace::Workspace};

/// Returns the simulator and a device of the size of an H200.
fn devices() -> [DeviceInfo; 2] {
    let sim = Device::open(Selection::Sim).unwrap().info().clone();
    let large = DeviceInfo {
        multiprocessors: 132,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        ..sim.clone()
    };
    [sim, large]
}

/// Returns the largest number of additions between an element and the result, in the default geometry.
fn depth(variant: &'static Variant, op: Op, dtype: Dtype, n: u64, info: &DeviceInfo) -> u64 {
    match variant.work {
        Work::Reducer => {
            let choice = Tuning::of(info).choice(op, dtype, n * dtype.size() as u64, info);
            depth_on(choice, n, dtype, info)
        }
        Work::Cpu { parallel } => CpuReduction::new(variant, op, parallel, None).unwrap().depth(n),
        Work::Transfer { path } => {
            let request = TransferRequest { variant, path, op, dtype, n, chunk: None };
            transfer::depth(&request, info).unwrap()
        }
        _ => {
            let request = Request { variant, op, dtype, n, block: DEFAULT_BLOCK, grid: None };
            Plan::new(&request, info).unwrap().depth
        }
    }
}

fn script_sizes() -> Vec<Sizes> {
    let folder = Workspace::locate().unwrap().root.join("scripts/gpu");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "sh") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines().filter(|line| !line.contains("refused")) {
            let listed = line.split_once("for n in ").map(|(_, rest)| rest.split(';').next().unwrap());
            let named = line.split("--n ").skip(1).map(|rest| rest.split_whitespace().next().unwrap());
            let words = listed.into_iter().flat_map(str::split_whitespace).chain(named);
            found.extend(
                words.filter(|word| !word.contains('$')).map(|word| word.parse::<Sizes>().unwrap()),
            );
        }
    }
    found
}

#[test]
fn the_scripts_sizes_are_found() {
    let all: Vec<u64> = script_sizes().into_iter().flat_map(|sizes| sizes.0).collect();
    for n in [1 << 10, 1 << 16, 1_000_003, 1 << 22, 1 << 26, 1 << 28, 1 << 32] {
        assert!(all.contains(&n), "{n} of {all:?}");
    }
}

#[test]
fn wrong_kernels_show_at_every_size_that_is_compared() {
    let mut sizes = vec![Sizes::standard(), Sizes::quick()];
    sizes.extend(script_sizes());
    let mut all: Vec<u64> = sizes.into_iter().flat_map(|sizes| sizes.0).collect();
    all.sort_unstable();
    all.dedup();
    let sizes = Sizes(all);
    let wanted = Wanted { variants: &[], dtypes: Dtype::ALL, ops: Op::ALL, sizes: &sizes, moves: true };
    let mut seen = 0;
    for case in wanted.cases().unwrap().0 {
        let Task::Reduce { op, n } = case.work else { continue };
        let mut depths = vec![cub_depth(n)];
        for info in &devices() {
            depths.extend(case.variants.iter().map(|variant| depth(variant, op, case.dtype, n, info)));
        }
        assert_tells(op, case.dtype, n, &depths, "compare");
        seen += case.variants.len();
    }
    assert!(seen > 5000, "{seen}");
}

/// Covers the CPU and the transfers, which only `run` includes.
#[test]
fn wrong_kernels_show_at_every_size_that_is_run() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: crate::run::Args,
    }
    let Line { args } = clap::Parser::parse_from(["run"]);
    let sizes = [args.n, crate::run::SERIAL, 1 << 10, 1 << 16, 1 << 22, 1 << 26];
    for variant in warpfold_suite::catalogue::VARIANTS {
        for (op, dtype) in variant.cases().filter_map(|(op, dtype)| Some((op?, dtype))) {
            let alone = variant.id == "serial";
            for n in sizes.into_iter().filter(|&n| !alone || n <= args.n) {
                let depths: Vec<u64> =
                    devices().iter().map(|info| depth(variant, op, dtype, n, info)).collect();
                assert_tells(op, dtype, n, &depths, variant.id);
            }
        }
    }
}

/// Moved elements are compared exactly, so that only a last element equal to the poison could hide a
/// wrong kernel.
#[test]
fn wrong_movements_show_at_every_size() {
    for dtype in [Dtype::F32, Dtype::F64] {
        for n in [1 << 10, 1 << 16, 1_000_003_u64] {
            for pattern in [Pattern::Strided { n, stride: 2 }, Pattern::Random { n, seed: 1 }] {
                let input = Data::random(dtype, pattern.input_len() as usize, 1);
                let expected = pattern.expected(&input);
                let last = expected.get(expected.len() - 1);
                let poisons = POISONS.map(|byte| warpfold_suite::Value::from_bytes(dtype, &[byte; 8]));
                assert!(!poisons.contains(&last) && last.to_f64().is_finite(), "{last}");
            }
        }
    }
}
