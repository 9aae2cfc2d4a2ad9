//! `statistics-host PTX [ELEMENTS]`: reduces with each operation of `statistics-kernels` and compares
//! with a reference.

use std::{env, error::Error, fs, process::ExitCode};

use statistics_host::{BoundingBox, ComplexSum, Known, RunningStatistics, load};
use warpfold::{Device, Reducer, Selection};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let usage = "usage: statistics-host PTX [ELEMENTS]; README.md says how the PTX is built";
    let path = arguments.next().ok_or(usage)?;
    let n = arguments.next().map_or(Ok(100_000), |given| {
        given.parse().map_err(|_| format!("{given} is no number of elements; give one such as 100000"))
    })?;
    if arguments.next().is_some() {
        return Err(usage.into());
    }
    let ptx = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let device = Device::open(Selection::Auto)?;
    let reducer = Reducer::new(&device)?;
    println!("{n} elements on {}", device.info().name);
    let right = [
        show::<ComplexSum>(&reducer, &ptx, n)?,
        show::<RunningStatistics>(&reducer, &ptx, n)?,
        show::<BoundingBox>(&reducer, &ptx, n)?,
    ];
    Ok(right == [true; 3])
}

fn show<R: Known>(reducer: &Reducer, ptx: &str, n: usize) -> warpfold::Result<bool> {
    let elements = R::sample(n);
    // SAFETY: the PTX is that of `statistics-kernels`, as the usage requires.
    let operation = unsafe { load::<R>(reducer.device(), ptx) }?;
    let result = reducer.reduce(&operation, &reducer.device().upload(&elements)?)?;
    let right = R::is_close(&result, &R::reference(&elements));
    println!("{}: {result:?}{}", R::NAME, if right { "" } else { ", which is WRONG" });
    Ok(right)
}
