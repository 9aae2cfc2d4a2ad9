//! Sums numbers on the GPU, or in the simulator where there is none.

use warpfold_suite::{Device, Reducer, Selection};

fn main() -> warpfold_suite::Result<()> {
    let values: Vec<f32> = (0..1_000_000).map(|i| i as f32 / 1e6).collect();
    let device = Device::open(Selection::Auto)?;
    let buffer = device.upload_slice(&values)?;
    let sum = Reducer::new(&device)?.sum(&buffer)?;
    println!("{sum} on {}", device.info().name);
    Ok(())
}
