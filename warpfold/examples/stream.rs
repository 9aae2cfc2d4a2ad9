//! Reduces elements that are never in memory all at once, as a file larger than memory is not.
//!
//! Each piece is made here, where another program would read it. `source::File` takes a file in their
//! place, `source::reader` whatever can be read, and a slice is a source as it is.

use warpfold::{Device, Reducer, Selection, op, source};

/// Pieces, and elements of each.
const PIECES: i32 = 100;
const LENGTH: i32 = 20_000;

fn main() -> Result<(), warpfold::Error> {
    let device = Device::open(Selection::Auto)?;
    let reducer = Reducer::new(&device)?;

    let pieces = (0..PIECES).map(|piece| Ok((0..LENGTH).map(|i| piece + i % 10).collect::<Vec<i32>>()));
    // Two buffers of 64 KiB are all that the elements take, on the host and on the device.
    let streamed = reducer.stream(source::pieces(pieces)).buffers(2, 64 << 10);
    let sum = streamed.reduce(op::Sum)?;

    println!("{sum} of {} elements on {}", PIECES * LENGTH, device.info().name);
    Ok(())
}
