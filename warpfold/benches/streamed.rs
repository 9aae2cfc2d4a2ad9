//! The cost of reducing elements that are not on the device, compared with plain copies: elements of a
//! source that does no work, of a slice in memory and of a file.
//!
//! `streamed [GIB] [CASE ...]`: the size of the slice and the file, by default 8, and the cases, by
//! default all: `copies`, `still`, `still-N` (by a group of N devices: 1, 2, 4 or 8), `slice`, `read`
//! and `file`. Runs on a GPU, or, with `DEVICE=sim`, in the simulator with small sizes and meaningless
//! times. The file is created in `TMPDIR`, and read from the system's page cache if that holds it.
//! Prints a line of JSON per case: GB/s from the call to the result, by the host's clock, as the median
//! of the rounds with its quartiles. `first` is the rate of the first call, which allocates the ring.
//! `copies` copies page-locked memory, enqueued on one stream; `read` reads the file by one thread, as
//! `dd` does.

#[expect(dead_code, reason = "inputs are not rotated here")]
mod common;

use std::{env, error::Error, fs, hint::black_box, io, io::Read, time::Instant};

use common::{is_simulated, spread};
use warpfold::{Device, Group, Reducer, Selection, op, source, source::Source};
use warpfold_driver::{Context, Driver, sys};

const ROUNDS: usize = 5;

/// A source that leaves the buffers unchanged, to measure only the ring, the bus and the kernels.
struct Still(u64);

impl Source<f32> for Still {
    fn elements(&self) -> Option<u64> {
        Some(self.0)
    }

    fn read_at(&self, start: u64, into: &mut [f32]) -> io::Result<usize> {
        Ok((into.len() as u64).min(self.0.saturating_sub(start)) as usize)
    }
}

fn is_number(given: &str) -> bool {
    given.parse::<u64>().is_ok()
}

fn line(
    case: &str,
    [buffers, bytes_each, threads]: [usize; 3],
    bytes: u64,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    if env::args().skip(1).any(|given| given != "--bench" && !is_number(&given))
        && !env::args().any(|given| given == case)
    {
        return Ok(());
    }
    let mut rate = || {
        let start = Instant::now();
        run().map(|()| bytes as f64 / 1e9 / start.elapsed().as_secs_f64())
    };
    let first = rate()?;
    let rounds = if is_simulated() { 1 } else { ROUNDS };
    let rates = (0..rounds).map(|_| rate()).collect::<Result<Vec<_>, _>>()?;
    println!(
        "{{\"case\": \"{case}\", \"bytes\": {bytes}, \"buffers\": {buffers}, \"buffer_bytes\": {bytes_each}, \
         \"threads\": {threads}, \"first\": {first:.3}, \"gb_per_s\": {}}}",
        spread(rates)
    );
    Ok(())
}

fn copies(device: &Device, bytes_each: usize, bytes: u64) -> Result<(), Box<dyn Error>> {
    let driver = match is_simulated() {
        true => warpfold_sim_driver::driver(),
        false => Driver::load()?,
    };
    let context = Context::from_raw(device.as_raw_context().cast());
    // SAFETY: the device owns the context and outlives this function.
    unsafe { driver.ctx_push_current(context) }?;
    let mut ends = Vec::new();
    for _ in 0..2 {
        let from = driver.mem_host_alloc(bytes_each, sys::CU_MEMHOSTALLOC_PORTABLE)?;
        ends.push((from, driver.mem_alloc(bytes_each)?));
    }
    let stream = driver.stream_create(sys::CU_STREAM_NON_BLOCKING)?;
    line("copies", [2, bytes_each, 0], bytes, || {
        for turn in 0..(bytes / bytes_each as u64) as usize {
            let (from, to) = ends[turn % 2];
            // SAFETY: both buffers have `bytes_each` bytes and are freed after the synchronisation.
            unsafe { driver.memcpy_htod_async(to, from, bytes_each, stream) }?;
        }
        // SAFETY: the stream is alive.
        Ok(unsafe { driver.stream_synchronize(stream) }?)
    })?;
    // SAFETY: the stream is idle, and only this function uses the stream and the buffers.
    unsafe {
        driver.stream_destroy(stream)?;
        for &(from, to) in &ends {
            driver.mem_free(to)?;
            driver.mem_free_host(from)?;
        }
    }
    driver.ctx_pop_current()?;
    Ok(())
}

/// Times groups of 1, 2, 4 and 8 devices, with the same number of bytes per device.
fn for_groups(first: &Reducer, bytes: u64, mib: usize) -> Result<(), Box<dyn Error>> {
    let mut reducers = vec![first.clone()];
    let of = |ordinal| match is_simulated() {
        true => Selection::SimOrdinal(ordinal),
        false => Selection::CudaOrdinal(ordinal),
    };
    // The first ordinal that cannot be opened ends the list.
    while let Ok(device) = Device::open(of(reducers.len() as u32)) {
        reducers.push(Reducer::new(&device)?);
    }
    for count in [1, 2, 4, 8].into_iter().filter(|count| *count <= reducers.len()) {
        let group = Group::new(&reducers[..count])?;
        let bytes = bytes * count as u64;
        for [buffers, size] in [[16, 2], [8, 8]] {
            line(&format!("still-{count}"), [buffers, size * mib, 2], bytes, || {
                let streamed = group.stream(Still(bytes / 4)).buffers(buffers, size * mib);
                streamed.threads(2).reduce(op::Sum).map(drop).map_err(Into::into)
            })?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(device) = common::open()? else { return Ok(()) };
    let reducer = Reducer::new(&device)?;
    let gib: u64 = env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(8);
    let bytes = if is_simulated() { 1 << 20 } else { gib << 30 };
    let mib = if is_simulated() { 1 << 14 } else { 1 << 20 };
    for size in [1, 2, 4, 8, 32] {
        copies(&device, size * mib, bytes)?;
    }
    let reduced =
        |case: &str, ring: [usize; 3], bytes: u64, source: &dyn Source<f32>, sum: Option<f32>| {
            line(case, ring, bytes, || {
                let [buffers, bytes_each, threads] = ring;
                let streamed = reducer.stream(source).buffers(buffers, bytes_each).threads(threads);
                let found = streamed.reduce(op::Sum)?;
                assert!(sum.is_none_or(|sum| sum == found), "{found}");
                Ok(())
            })
        };
    let rings = [[16, 1], [16, 2], [8, 4], [8, 8], [4, 32]];
    for [buffers, size] in rings {
        reduced("still", [buffers, size * mib, 2], bytes, &Still(bytes / 4), None)?;
    }
    // About 200 GB exceed the memory of an H200.
    let large = if is_simulated() { 4 << 20 } else { 200_000_000_000 };
    for [buffers, size] in [[16, 2], [8, 8], [4, 32]] {
        reduced("still", [buffers, size * mib, 2], large, &Still(large / 4), None)?;
    }

    for_groups(&reducer, bytes, mib)?;
    let values = vec![0.5_f32; (bytes / 4) as usize];
    let sum = Some(bytes as f32 / 8.0);
    for threads in [1, 4, 8, 12] {
        for [buffers, size] in [[16, 1], [16, 2], [32, 2], [8, 4], [8, 8]] {
            reduced("slice", [buffers, size * mib, threads], bytes, &values, sum)?;
        }
    }
    let path = env::temp_dir().join(format!("warpfold-streamed-{}", std::process::id()));
    fs::write(&path, bytemuck::cast_slice(&values))?;
    drop(values);
    let mut buffer = vec![0; 8 * mib];
    line("read", [1, 8 * mib, 1], bytes, || {
        let mut file = fs::File::open(&path)?;
        while file.read(&mut buffer)? > 0 {
            black_box(&buffer);
        }
        Ok(())
    })?;
    let file = source::File::<f32>::open(&path)?;
    for threads in [1, 2, 4, 8, 12] {
        reduced("file", [16, 2 * mib, threads], bytes, &file, sum)?;
    }
    fs::remove_file(&path)?;
    Ok(())
}
