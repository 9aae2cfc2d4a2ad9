//! Reduces elements that are never in memory all at once, such as those of a file larger than memory.
//!
//! Each piece is generated here. `source::File` reads a file instead, `source::reader` any reader, and a
//! slice is itself a source.

use warpfold::{Device, Reducer, Selection, op, source};

const PIECES: i32 = 100;
const LENGTH: i32 = 20_000;

fn main() -> Result<(), warpfold::Error> {
    let device = Device::open(Selection::Auto)?;
    let reducer = Reducer::new(&device)?;

    let pieces = (0..PIECES).map(|piece| Ok((0..LENGTH).map(|i| piece + i % 10).collect::<Vec<i32>>()));
    // The elements occupy only two buffers of 64 KiB, on the host and on the device.
    let streamed = reducer.stream(source::pieces(pieces)).buffers(2, 64 << 10);
    let sum = streamed.reduce(op::Sum)?;

    println!("{sum} of {} elements on {}", PIECES * LENGTH, device.info().name);
    Ok(())
}
