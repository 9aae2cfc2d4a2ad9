//! The library in a forked child of a process that has used it: device calls are refused at once, and
//! slices are reduced on the CPU.

#[path = "../../../driver/tests/child/mod.rs"]
mod child;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use child::in_child;
use warpfold::{Error, Reducer, Result, cpu, op};

use crate::common::{device, small};

fn refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

#[test]
fn child_calls_are_refused_and_the_parent_continues() -> Result<()> {
    let device = device();
    let reducer = Reducer::new(device)?;
    let values = device.upload(&small::<f32>(20_000, 1))?;
    let (stream, mut output) = (device.stream()?, device.output()?);
    reducer.on(&stream).reduce_into(op::Sum, &values, &mut output)?;
    let (sum, pending) = (reducer.sum(&values)?, reducer.on(&stream).reduce(op::Sum, &values)?);
    let said = in_child(|| {
        let answers = [
            refused(reducer.sum(&values)),
            // A kernel that is not loaded yet.
            refused(reducer.reduce(op::MinMax, &values)),
            refused(reducer.on(&stream).reduce(op::Sum, &values).map(drop)),
            refused(reducer.stream(&vec![1_f32; 100]).reduce(op::Sum)),
            refused(values.download()),
            refused(device.upload(&[1_u8])),
            refused(device.stream()),
            refused(stream.synchronize()),
            refused(output.read()),
            refused(pending.is_ready()),
            refused(warpfold::Device::open(warpfold::Selection::Auto)),
        ];
        answers.iter().position(|refused| !refused).map_or(100, |at| at as u8)
    });
    assert_eq!(said, Some(100), "the number of the first that was not refused");
    assert_eq!((reducer.sum(&values)?, pending.wait()?, output.read()?), (sum, sum, sum));
    // Drops in a child neither free resources nor wait.
    let dropped = in_child(|| {
        drop((reducer, values, stream, output));
        1
    });
    assert_eq!(dropped, Some(1));
    Ok(())
}

#[test]
fn a_child_waits_for_no_lock_of_its_parents_threads() -> Result<()> {
    let device = device();
    let reducer = Reducer::new(device)?;
    let values = device.upload(&small::<i32>(3000, 2))?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                while !done.load(Ordering::Relaxed) {
                    drop(reducer.on(&stream).reduce(op::Sum, &values).unwrap());
                    reducer.max(&values).unwrap();
                }
            });
        }
        let said: Vec<_> = (0..50)
            .map(|_| {
                in_child(|| {
                    let enqueued = device
                        .stream()
                        .and_then(|stream| reducer.on(&stream).reduce(op::Sum, &values).map(drop));
                    (refused(reducer.max(&values)) && refused(enqueued)).into()
                })
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(said, [Some(1); 50]);
    });
    Ok(())
}

/// A child has none of rayon's threads, but the results are the same.
#[test]
fn a_child_reduces_slices_on_the_cpu() -> Result<()> {
    let values = small::<f64>(1 << 19, 3);
    let results = || {
        let top = cpu::top_k(op::Largest(3), &values)?;
        let rows = cpu::reduce_rows(op::Max, &values, 1 << 10)?;
        Ok((cpu::reduce(op::Sum.reproducible(), &values)?, rows, top[0].index, top.len()))
    };
    let expected = results()?;
    let alike = || results().is_ok_and(|found: (f64, Vec<f64>, u64, usize)| found == expected).into();
    assert_eq!(in_child(alike), Some(1));
    // The results are the same on another thread of the child, and in a pool that the child creates.
    let of_thread = || thread::scope(|scope| scope.spawn(alike).join().unwrap_or(0));
    assert_eq!(in_child(of_thread), Some(1));
    let of_pool = || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.map_or(0, |pool| pool.install(alike))
    };
    assert_eq!(in_child(of_pool), Some(1));
    Ok(())
}
