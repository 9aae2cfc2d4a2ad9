//! Reduces elements that are distributed over several GPUs to one result.
//!
//! The arguments name the devices, such as `cuda:0 cuda:1`. Without a GPU, `WARPFOLD_SIM_DEVICES=2`
//! makes the simulator provide two devices, `sim:0 sim:1`.

use std::{env, error::Error};

use warpfold::{Group, Selection, op};

fn main() -> Result<(), Box<dyn Error>> {
    let named: Result<Vec<Selection>, _> = env::args().skip(1).map(|name| name.parse()).collect();
    let mut devices = named?;
    if devices.is_empty() {
        devices.push(Selection::Auto);
    }
    let group = Group::open(&devices)?;

    // Splits the elements about evenly between the devices.
    let values: Vec<i32> = (0..100_000).map(|i| i * 7 % 10_007).collect();
    let parts = group.upload(&values)?;
    let sum = group.reduce(op::Sum, &parts)?;
    println!("sum {sum}");
    // The index counts from the first element of the first device.
    if let Some(largest) = group.reduce(op::ArgMax, &parts)? {
        println!("largest {} at {}", largest.value, largest.index);
    }
    println!("{} devices, by {:?}", devices.len(), group.way());
    Ok(())
}
