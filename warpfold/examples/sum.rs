//! Sums numbers on the GPU, or in the simulator if there is no GPU.

use warpfold::{Device, Reducer, Selection};

fn main() -> Result<(), warpfold::Error> {
    let values: Vec<f32> = (0..1_000_000).map(|i| i as f32 / 1e6).collect();
    let device = Device::open(Selection::Auto)?;
    let buffer = device.upload(&values)?;
    let sum = Reducer::new(&device)?.sum(&buffer)?;
    println!("{sum} on {}", device.info().name);
    Ok(())
}
