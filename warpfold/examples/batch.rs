//! Reduces every row of a matrix in one launch: to its sum, and to the index of its largest element.

use warpfold::{Device, Reducer, Selection, op};

const LENGTH: usize = 1000;

fn main() -> Result<(), warpfold::Error> {
    let values: Vec<f32> = (0..4 * LENGTH).map(|i| (i * 7 % 1013) as f32).collect();
    let device = Device::open(Selection::Auto)?;
    let reducer = Reducer::new(&device)?;

    // The length of its rows makes the buffer a matrix; nothing is copied.
    let buffer = device.upload(&values)?;
    let matrix = buffer.rows(LENGTH)?;
    let sums = reducer.reduce(op::Sum, &matrix)?;
    let largest = reducer.reduce(op::ArgMax, &matrix)?;

    for (row, (sum, largest)) in sums.iter().zip(&largest).enumerate() {
        println!("row {row}: sum {sum}, largest {} at {}", largest.value, largest.index);
    }
    println!("on {}", device.info().name);
    Ok(())
}
