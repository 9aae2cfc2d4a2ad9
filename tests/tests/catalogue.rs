//! Every kernel, operation and type of the catalogue, over sizes and blocks, against the reference; and
//! its CUDA C twin, which must give the same result as the Rust kernel.
//!
//! Proves that the compiled PTX gives the right result for sizes around warp and block boundaries, on
//! outputs that were poisoned first: with floats whose sums are exact in any order, where only equality
//! passes, and with random ones within the rounding bound. It does not prove the absence of races: the
//! simulator runs one schedule, a GPU an arbitrary one.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use warpfold_suite::{
    Data, Dtype, Op, PtxStore, Reducer, Reduction, Request, Tuning, Value,
    catalogue::{self, Access, VARIANTS, Variant, Work},
    memory::{Movement, Pattern, STRIDES},
    reference::{Expected, POISONS},
    transfer::{Transfer, TransferRequest},
};
use warpfold_tests::{
    BLOCKS, SIZES, Sample, TRANSFER_SIZES, TWIN_SIZES, device, exact, samples, store, twins,
};

const EXTENTS: [(u64, u64); 9] =
    [(1, 1), (1, 1000), (1000, 1), (31, 33), (32, 32), (33, 65), (65, 33), (257, 96), (4097, 1023)];

fn main() -> ExitCode {
    let mut trials: Vec<Trial> = VARIANTS.iter().flat_map(trials).collect();
    if twins().is_ok() {
        trials.extend(catalogue::kernels().flat_map(twin_trials));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(variant: &'static Variant) -> Vec<Trial> {
    let trial = |(op, dtype): (Option<Op>, Dtype)| {
        let name = variant.entry(op, dtype);
        match (variant.work, op) {
            (Work::Reduction(_), Some(op)) => {
                Some(Trial::test(name, move || sizes_and_blocks(variant, op, dtype)))
            }
            (Work::Reducer, Some(op)) => {
                Some(Trial::test(name, move || the_reducer_over_sizes(op, dtype)))
            }
            (Work::Transfer { .. }, Some(op)) => {
                Some(Trial::test(name, move || transfers(variant, op, dtype)))
            }
            (Work::Copy { .. } | Work::Transpose, None) => {
                Some(Trial::test(name, move || movements(variant, dtype, store())))
            }
            // The baselines run on the CPU and have their own tests.
            _ => None,
        }
    };
    variant.cases().filter_map(trial).collect()
}

fn twin_trials(variant: &'static Variant) -> Vec<Trial> {
    let trial = |(op, dtype): (Option<Op>, Dtype)| {
        let name = format!("twin_of_{}", variant.entry(op, dtype));
        Trial::test(name, move || match op {
            Some(op) => same_as_twin(variant, op, dtype),
            None => movements(variant, dtype, twins()?),
        })
    };
    variant.cases().map(trial).collect()
}

fn sizes_and_blocks(variant: &'static Variant, op: Op, dtype: Dtype) -> Result<(), Failed> {
    for n in SIZES.into_iter().filter(|&n| n > 0 || op.has_empty_value()) {
        // Large inputs take most of the time, so they have one block size.
        let blocks = if n > 100_000 { &BLOCKS[1..2] } else { &BLOCKS };
        for Sample { kind, data, expected } in samples(op, dtype, n) {
            for &block in blocks {
                let request = Request { block, ..Request::new(variant, op, &data) };
                check(&request, &data, &expected, store())
                    .map_err(|error| format!("n {n}, block {block}, {kind} elements: {error}"))?;
            }
        }
    }
    Ok(())
}

/// Tests the kernel that the reducer chooses for a size. `suite/reducer.rs` tests its other kernels.
fn the_reducer_over_sizes(op: Op, dtype: Dtype) -> Result<(), Failed> {
    let reducer = Reducer::with(device(), store(), Tuning::of(device().info()))?;
    for n in SIZES.into_iter().filter(|&n| n > 0 || op.has_empty_value()) {
        for Sample { kind, data, expected } in samples(op, dtype, n) {
            let buffer = device().upload(&data)?;
            let answer = reducer.reduce(op, &buffer)?.ok_or("no result")?;
            let result = answer.index.map_or(answer.value, Value::U64);
            require(result, &expected, reducer.depth(op, &buffer)?)
                .map_err(|error| format!("n {n}, {kind} elements: {error}"))?;
        }
    }
    Ok(())
}

/// Checks that the twin's result is right, and bitwise equal to that of the Rust kernel if the order of
/// additions does not matter.
fn same_as_twin(variant: &'static Variant, op: Op, dtype: Dtype) -> Result<(), Failed> {
    for n in TWIN_SIZES {
        for Sample { data, expected, .. } in samples(op, dtype, n) {
            let request = Request { block: 128, ..Request::new(variant, op, &data) };
            let describe = |side, error| format!("n {n}, {side}: {error}");
            let rust = check(&request, &data, &expected, store())
                .map_err(|error| describe("Rust kernel", error))?;
            let twin = check(&request, &data, &expected, twins()?)
                .map_err(|error| describe("CUDA C twin", error))?;
            let exact = expected.check(expected.value, 1).allowed == 0.0;
            if exact && rust != twin {
                return Err(format!("n {n}: the Rust kernel gives {rust}, the twin {twin}").into());
            }
        }
    }
    Ok(())
}

/// Runs twice, on memory with different contents each time, and returns the last result.
fn check(
    request: &Request,
    data: &Data,
    expected: &Expected,
    store: &PtxStore,
) -> Result<Value, String> {
    let describe = |error: warpfold_suite::Error| error.to_string();
    let reduction = Reduction::new(device(), store, request).map_err(describe)?;
    let input = device().upload(data).map_err(describe)?;
    let mut workspace = reduction.workspace().map_err(describe)?;
    let mut last = expected.value;
    for poison in POISONS {
        workspace.poison(poison).map_err(describe)?;
        last = reduction.run(&input, &mut workspace).map_err(describe)?.value;
        require(last, expected, reduction.plan().depth)?;
    }
    Ok(last)
}

fn require(value: Value, expected: &Expected, depth: u64) -> Result<(), String> {
    let check = expected.judge(value, depth).map_err(|error| error.to_string())?;
    if check.ok {
        return Ok(());
    }
    Err(format!(
        "got {value}, expected {} (off by {}, allowed {})",
        expected.of_type(value.dtype()).value,
        check.error,
        check.allowed
    ))
}

fn transfers(variant: &'static Variant, op: Op, dtype: Dtype) -> Result<(), Failed> {
    let Work::Transfer { path } = variant.work else { unreachable!("asked for transfers") };
    for n in TRANSFER_SIZES.into_iter().filter(|&n| n > 0 || op.has_empty_value()) {
        let Sample { data, expected, .. } = exact(op, dtype, n, 5);
        for chunk in [None, Some(1000), Some(33)] {
            let chunk = chunk.filter(|&chunk| chunk <= n as u64);
            let request = TransferRequest { variant, path, op, dtype, n: n as u64, chunk };
            let mut transfer = Transfer::new(device(), store(), &request, &data)?;
            for poison in POISONS {
                transfer.poison(poison)?;
                let value = transfer.run()?.value;
                require(value, &expected, transfer.depth())
                    .map_err(|error| format!("n {n}, chunk {chunk:?}: {error}"))?;
            }
        }
    }
    Ok(())
}

fn movements(variant: &'static Variant, dtype: Dtype, store: &PtxStore) -> Result<(), Failed> {
    for pattern in patterns(variant) {
        let data = Data::random(dtype, pattern.input_len() as usize, 11);
        for block in BLOCKS {
            let movement = Movement::new(device(), store, variant, dtype, pattern, block)?;
            let moved = movement.run(&device().upload(&data)?)?;
            if moved.output.as_bytes() != pattern.expected(&data).as_bytes() {
                return Err(format!("{pattern:?}, block {block}: elements are out of place").into());
            }
            if variant.work == Work::Transpose {
                break;
            }
        }
    }
    Ok(())
}

fn patterns(variant: &Variant) -> Vec<Pattern> {
    let sizes = SIZES.iter().map(|&n| n as u64).filter(|n| (1..100_000).contains(n));
    match variant.work {
        Work::Copy { access: Access::Strided } => sizes
            .filter(|&n| n <= 1000)
            .flat_map(|n| STRIDES.map(|stride| Pattern::Strided { n, stride }))
            .collect(),
        Work::Copy { access: Access::Random } => sizes.map(|n| Pattern::Random { n, seed: n }).collect(),
        _ => EXTENTS.iter().map(|&(width, height)| Pattern::Transpose { width, height }).collect(),
    }
}
