//! Every variant, operation and type of the catalogue, over sizes and blocks, against the reference.
//!
//! Proves that the compiled PTX gives the right result for sizes around warp and block boundaries, on
//! outputs that were poisoned first; with floats whose sums are exact in any order, where nothing but
//! equality passes, and with random ones within the rounding bound. It does not prove the absence of
//! races: on the simulator one schedule is seen, on a GPU whichever came.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use warpfold::{
    Data, Dtype, Op, Reduction, Request,
    catalogue::{VARIANTS, Variant},
    reference::Expected,
};
use warpfold_tests::{device, small_integers, store};

const SIZES: [usize; 12] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 65_537, 300_001];
const BLOCKS: [u32; 3] = [32, 128, 1024];

fn main() -> ExitCode {
    let trials = VARIANTS.iter().flat_map(|variant| {
        variant.cases().map(move |(op, dtype)| {
            Trial::test(variant.entry(op, dtype), move || sizes_and_blocks(variant, op, dtype))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn sizes_and_blocks(variant: &'static Variant, op: Op, dtype: Dtype) -> Result<(), Failed> {
    for n in SIZES.into_iter().filter(|&n| n > 0 || op == Op::Sum) {
        for (kind, data) in [
            ("random", Data::random(dtype, n, n as u64)),
            ("exact", small_integers(dtype, n, 7 + n as u64)),
        ] {
            let expected = Expected::of(op, &data)?;
            for block in BLOCKS {
                let request = Request { block, ..Request::new(variant, op, &data) };
                check(&request, &data, &expected)
                    .map_err(|error| format!("n {n}, block {block}, {kind} elements: {error}"))?;
            }
        }
    }
    Ok(())
}

fn check(request: &Request, data: &Data, expected: &Expected) -> Result<(), String> {
    let describe = |error: warpfold::Error| error.to_string();
    let reduction = Reduction::new(device(), store(), request).map_err(describe)?;
    let input = device().upload(data).map_err(describe)?;
    let mut workspace = reduction.workspace().map_err(describe)?;
    for poison in [0xac, 0x55] {
        workspace.poison(poison).map_err(describe)?;
        let value = reduction.run(&input, &mut workspace).map_err(describe)?.value;
        let check = expected.check(value, reduction.plan().depth);
        if !check.ok {
            return Err(format!(
                "got {value}, expected {} (off by {}, allowed {})",
                expected.value, check.error, check.allowed
            ));
        }
    }
    Ok(())
}
