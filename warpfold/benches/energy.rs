//! The energy of a reduction, by the counter of the GPU's driver.
//!
//! `energy` needs a machine with one NVIDIA GPU, whose driver (NVML) has an energy counter. Prints a
//! line of JSON for the idle GPU with a context of this process, then one per operation, type and number
//! of elements: reductions are enqueued one after another for two seconds, with results left in device
//! memory. Watts are the counter's difference over the host's clock, for the whole board; microseconds
//! are the median of batches of some milliseconds, with the quartiles; nanojoules are per element, and
//! picojoules per byte read. The counter is updated about ten times a second, so values may be off by up
//! to five percent. Inputs rotate, so that none is in the L2 cache, except the `warm` ones, which are
//! one buffer.

mod common;

use std::{
    error::Error,
    mem::MaybeUninit,
    ptr, thread,
    time::{Duration, Instant},
};

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t};
use warpfold::{
    Buffer, Element, OnStream, Reducer, f16,
    op::{self, Operation},
};

use common::{open, rotation, spread};

const MEASURED: Duration = Duration::from_secs(2);
/// Time before the measurement in which clocks and power settle.
const SETTLED: Duration = Duration::from_millis(300);

struct Counter {
    nvml: NvmlLib,
    device: nvmlDevice_t,
}

struct Energy {
    joules: f64,
    seconds: f64,
}

impl Counter {
    fn open() -> Result<Self, Box<dyn Error>> {
        // SAFETY: NVML's initialisers may run in any process.
        let nvml = unsafe { NvmlLib::new("libnvidia-ml.so.1") }?;
        // SAFETY: NVML may be initialised at any time; all other functions are called after this one.
        done("nvmlInit_v2", unsafe { nvml.nvmlInit_v2() })?;
        let mut count = 0;
        // SAFETY: `count` outlives the call.
        done("nvmlDeviceGetCount_v2", unsafe { nvml.nvmlDeviceGetCount_v2(&raw mut count) })?;
        if count != 1 {
            // NVML and CUDA order GPUs differently.
            return Err(format!("energy is measured where there is one GPU, here are {count}").into());
        }
        let mut device = ptr::null_mut();
        // SAFETY: `device` outlives the call.
        let found = unsafe { nvml.nvmlDeviceGetHandleByIndex_v2(0, &raw mut device) };
        done("nvmlDeviceGetHandleByIndex_v2", found)?;
        Ok(Self { nvml, device })
    }

    /// Returns the millijoules since the driver was loaded.
    fn read(&self) -> Result<u64, Box<dyn Error>> {
        let mut energy = MaybeUninit::uninit();
        // SAFETY: the handle is NVML's own, and `energy` outlives the call.
        let read =
            unsafe { self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, energy.as_mut_ptr()) };
        done("nvmlDeviceGetTotalEnergyConsumption", read)?;
        // SAFETY: the call succeeded, so it wrote the value.
        Ok(unsafe { energy.assume_init() })
    }

    fn during(
        &self,
        mut work: impl FnMut() -> warpfold::Result<()>,
    ) -> Result<(Energy, u64), Box<dyn Error>> {
        let start = Instant::now();
        while start.elapsed() < SETTLED {
            work()?;
        }
        let (before, start) = (self.read()?, Instant::now());
        let mut times = 0;
        while start.elapsed() < MEASURED {
            work()?;
            times += 1;
        }
        let joules = (self.read()? - before) as f64 / 1e3;
        Ok((Energy { joules, seconds: start.elapsed().as_secs_f64() }, times))
    }
}

fn done(function: &str, code: u32) -> Result<(), Box<dyn Error>> {
    if code == 0 { Ok(()) } else { Err(format!("{function} gave {code}").into()) }
}

struct Case<'a> {
    reducer: &'a Reducer,
    counter: &'a Counter,
    name: &'a str,
    dtype: &'a str,
    warm: bool,
}

impl Case<'_> {
    fn measure<T: Element, O: Operation<T>>(
        &self,
        op: O,
        n: usize,
        one: T,
        is_right: impl Fn(O::Left) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let (device, bytes) = (self.reducer.device(), n * size_of::<T>());
        let (copies, calls) = rotation(device, bytes);
        let copies = if self.warm { 1 } else { copies };
        let values = vec![one; n];
        let buffers: Vec<Buffer<T>> =
            (0..copies).map(|_| device.upload(&values)).collect::<Result<_, _>>()?;
        let (stream, mut output) = (device.stream()?, device.output::<O::Left>()?);
        let mut times = Vec::new();
        let (energy, batches) = self.counter.during(|| {
            let start = Instant::now();
            for call in 0..calls {
                let on: OnStream<'_> = self.reducer.on(&stream);
                on.reduce_into(op, &buffers[call % copies], &mut output)?;
            }
            stream.synchronize()?;
            times.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
            Ok(())
        })?;
        if !is_right(output.read()?) {
            return Err(format!("the {} of {n} ones of {} is wrong", self.name, self.dtype).into());
        }
        let runs = batches as f64 * calls as f64;
        let inputs = if self.warm { "warm" } else { "rotated" };
        println!(
            "{{\"device\":\"{}\",\"op\":\"{}\",\"dtype\":\"{}\",\"n\":{n},\"inputs\":\"{inputs}\",\
             \"us\":{},\"watts\":{:.1},\"nj_per_element\":{:.5},\"pj_per_byte\":{:.3}}}",
            device.info().name,
            self.name,
            self.dtype,
            spread(times),
            energy.joules / energy.seconds,
            energy.joules * 1e9 / runs / n as f64,
            energy.joules * 1e12 / runs / bytes as f64,
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(device) = open()? else { return Ok(()) };
    let name = device.info().name.clone();
    if device.info().simulated {
        println!("a simulated device takes no energy, nothing is measured");
        return Ok(());
    }
    let (reducer, counter) = (Reducer::new(&device)?, Counter::open()?);
    let (idle, _) = counter.during(|| {
        thread::sleep(Duration::from_millis(10));
        Ok(())
    })?;
    println!("{{\"device\":\"{name}\",\"op\":\"nothing\",\"watts\":{:.1}}}", idle.joules / idle.seconds);
    let case = |name, dtype, warm| Case { reducer: &reducer, counter: &counter, name, dtype, warm };
    for (n, warm) in [(1 << 16, false), (1 << 22, true), (1 << 22, false), (1 << 28, false)] {
        case("sum", "f32", warm).measure(op::Sum, n, 1.0f32, move |left| left == n as f32)?;
    }
    let n = 1 << 28;
    case("arg max", "f32", false).measure(op::ArgMax, n, 1.0f32, |left| left.index == 0)?;
    case("mean and variance", "f32", false)
        .measure(op::MeanAndVariance, n, 1.0f32, |left| left.mean == 1.0)?;
    case("sum", "f64", false).measure(op::Sum, n / 2, 1.0f64, |left| left == (1 << 27) as f64)?;
    case("sum", "f16", false).measure(op::Sum, n * 2, f16::ONE, |left| left == (1 << 29) as f32)?;
    case("sum", "i8", false).measure(op::Sum, n * 4, 1i8, |left| left == 1 << 30)?;
    case("sum everywhere", "f32", false)
        .measure(op::Sum.reproducible(), n, 1.0f32, |left| left == (1 << 28) as f32)
}
