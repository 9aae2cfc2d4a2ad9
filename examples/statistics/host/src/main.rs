//! `statistics-host [ELEMENTS]`: reduces with each operation of `statistics-kernels` and compares with a
//! reference.

use std::{env, error::Error, process::ExitCode};

use statistics_host::{BoundingBox, ComplexSum, Known, RunningStatistics, load};
use warpfold::{Device, Reducer, Selection, custom::Module};

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
    let n = arguments.next().map_or(Ok(100_000), |given| {
        given
            .parse()
            .map_err(|_| format!("{given} is not a number of elements; give one such as 100000"))
    })?;
    if arguments.next().is_some() {
        return Err("usage: statistics-host [ELEMENTS]".into());
    }
    let device = Device::open(Selection::Auto)?;
    let reducer = Reducer::new(&device)?;
    let module = load(&device)?;
    println!("{n} elements on {}", device.info().name);
    let right = [
        show::<ComplexSum>(&reducer, &module, n)?,
        show::<RunningStatistics>(&reducer, &module, n)?,
        show::<BoundingBox>(&reducer, &module, n)?,
    ];
    Ok(right == [true; 3])
}

fn show<R: Known>(reducer: &Reducer, module: &Module, n: usize) -> warpfold::Result<bool> {
    let (elements, operation) = (R::sample(n), module.operation::<R>()?);
    let result = reducer.reduce(&operation, &reducer.device().upload(&elements)?)?;
    let right = R::is_close(&result, &R::reference(&elements));
    println!("{}: {result:?}{}", R::NAME, if right { "" } else { ", which is WRONG" });
    Ok(right)
}
