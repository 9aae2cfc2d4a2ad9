//! Checks a kernel for hazards, runs it under several seeds, and shows its fault on one element too
//! many.
//!
//! ```text
//! cargo run --package warpfold-sim --example reduce
//! ```

use warpfold_sim::Sim;

const PTX: &str = include_str!("../tests/ptx/sequential_llvm.ptx");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sim = Sim::load(PTX)?;
    let values: Vec<u32> = (0..1000).collect();
    let mut sums = [0_u32; 4];
    let ran = sim
        .kernel("sequential_sum_u32")
        .grid(4)
        .block(256)
        .shared(1024)
        .named("values", &values)
        .arg(1000_u64)
        .named("sums", &mut sums)
        .checked()
        .seeds(8)
        .run()?;
    println!(
        "{} from {sums:?}, in {} instructions",
        sums.iter().sum::<u32>(),
        ran.stats.warp_instructions
    );
    assert_eq!(sums.iter().sum::<u32>(), values.iter().sum());

    let too_far = sim.kernel("sequential_sum_u32").grid(4).block(256).shared(1024);
    let refused = too_far.named("values", &values).arg(1001_u64).named("sums", &mut sums).run();
    println!("{}", refused.expect_err("there are 1000"));
    Ok(())
}
