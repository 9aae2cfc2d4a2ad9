//! Softmax over the rows of a matrix, on a GPU or in the simulator. `warpfold` provides memory and
//! streams; `warpfold-driver` launches this program's own kernel.

pub mod cli;
pub mod reference;

use std::{ffi::c_void, ptr::from_mut};

use anyhow::{Context as _, Result, ensure};
use warpfold::{Buffer, Device, Stream};
use warpfold_driver::{
    CallError, Context, Driver, Function, LaunchShape, Module, Parameters, Stream as RawStream, sys,
};

/// The PTX of `softmax-kernels`, which the build script has compiled.
pub const PTX: &str = include_str!(env!("KERNELS_PTX"));

const ENTRY: &str = "softmax_rows_f32";

/// A row-major matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    columns: usize,
    elements: Vec<f32>,
}

impl Matrix {
    /// Creates a matrix of whole rows.
    pub fn new(columns: usize, elements: Vec<f32>) -> Result<Self> {
        let len = elements.len();
        ensure!(
            columns > 0 && len > 0 && len.is_multiple_of(columns),
            "{len} elements are not whole rows of {columns}; give one whole row or more"
        );
        Ok(Self { columns, elements })
    }

    /// Creates a matrix of numbers between −8 and 8 that do not repeat, to detect misplaced elements.
    pub fn random(rows: usize, columns: usize, seed: u64) -> Result<Self> {
        let element = |i: u64| {
            let mixed = (i ^ seed.rotate_left(32)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
            (mixed >> 40) as f32 / (1 << 20) as f32 - 8.0
        };
        let elements = rows.checked_mul(columns).map(|len| (0..len as u64).map(element).collect());
        Self::new(columns, elements.unwrap_or_default())
    }

    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.elements.chunks_exact(self.columns)
    }

    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Bits of every output element before a launch; no softmax has such elements.
const POISON: u32 = 0xacac_acac;

/// Elements before and after the output that the kernel must not write.
const MARGIN: usize = 8;

/// The kernel, loaded on a device and launched with blocks of one size.
pub struct Softmax {
    device: Device,
    driver: &'static Driver,
    module: Module,
    function: Function,
    block: u32,
}

impl Softmax {
    /// Loads the kernel from `ptx`, which is [`PTX`] or that of another compiler.
    pub fn load(device: &Device, ptx: &str, block: u32) -> Result<Self> {
        ensure!((1..=1024).contains(&block), "a block of {block} threads is given; give 1 to 1024");
        let parameters = warpfold_ptx::parameters(ptx, ENTRY).with_context(|| {
            format!("the PTX declares no entry {ENTRY}; give that of softmax-kernels")
        })?;
        let bytes: Vec<usize> = parameters.iter().map(|parameter| parameter.size).collect();
        ensure!(bytes == [8; 3], "{ENTRY} has parameters of {bytes:?} bytes; it must have three of 8");
        let driver =
            if device.info().simulated { warpfold_sim_driver::driver() } else { Driver::load()? };
        enter(driver, device)?;
        let module = driver.module_load_ptx(ptx)?;
        let name = std::ffi::CString::new(ENTRY)?;
        // SAFETY: the module has just been loaded in this context.
        let function = unsafe { driver.module_get_function(module, &name) }?;
        Ok(Self { device: device.clone(), driver, module, function, block })
    }

    /// Returns the softmax of each row. The output's offset modulo 16 bytes is that of the input plus
    /// `shift` elements (at most 3). Fails if the kernel writes outside its rows.
    pub fn run(&self, input: &Matrix, shift: usize) -> Result<Matrix> {
        ensure!(shift < 4, "a shift of {shift} elements is given; give 0 to 3");
        let len = input.elements.len();
        let from = self.device.upload(&input.elements)?;
        let to = self.device.upload(&vec![f32::from_bits(POISON); len + 2 * MARGIN])?;
        let (start, stream) = (MARGIN - 4 + shift, self.device.stream()?);
        let launched = self.launch(&stream, input, &from, &to.slice(start..start + len)?);
        // Even after an error, the kernel must have ended before the memory is freed.
        stream.synchronize()?;
        launched?;
        let around = to.download()?;
        let mut beside = around[..start].iter().chain(&around[start + len..]);
        ensure!(beside.all(|value| value.to_bits() == POISON), "the kernel wrote outside its rows");
        Matrix::new(input.columns, around[start..start + len].to_vec())
    }

    /// Returns the median time of `launches` launches in microseconds, on inputs and outputs that are
    /// in no cache, or `None` on the simulator, which has no times.
    pub fn time(&self, input: &Matrix, launches: usize) -> Result<Option<f64>> {
        let info = self.device.info();
        if info.simulated {
            return Ok(None);
        }
        // Input and output are repeated until each exceeds the L2 cache.
        let len = input.elements.len();
        let copies = info.l2_bytes as usize / size_of_val(input.elements.as_slice()) + 1;
        let from = self.device.upload(&input.elements.repeat(copies))?;
        let to = self.device.upload(&vec![0.0_f32; len * copies])?;
        let stream = self.device.stream()?;
        enter(self.driver, &self.device)?;
        let events = (
            self.driver.event_create(sys::CU_EVENT_DEFAULT)?,
            self.driver.event_create(sys::CU_EVENT_DEFAULT)?,
        );
        let timed = |launch: usize| {
            let start = launch % copies * len;
            let part = start..start + len;
            self.timed(&stream, events, input, &from.slice(part.clone())?, &to.slice(part)?)
        };
        let times = (0..launches + WARM_UP).map(timed).collect::<Result<Vec<f32>>>();
        stream.synchronize()?;
        for event in [events.0, events.1] {
            // SAFETY: the event is alive, and no later call uses it.
            unsafe { self.driver.event_destroy(event) }?;
        }
        let mut times = times?.split_off(WARM_UP);
        times.sort_by(f32::total_cmp);
        Ok(times.get(launches / 2).map(|milliseconds| f64::from(*milliseconds) * 1e3))
    }

    fn timed(
        &self,
        stream: &Stream,
        (start, end): (warpfold_driver::Event, warpfold_driver::Event),
        input: &Matrix,
        from: &Buffer<f32>,
        to: &Buffer<f32>,
    ) -> Result<f32> {
        let raw = RawStream::from_raw(stream.as_raw().cast());
        // SAFETY: stream and events are alive, and of the context that is current.
        unsafe { self.driver.event_record(start, raw) }?;
        self.launch(stream, input, from, to)?;
        // SAFETY: stream and events are still alive, and of the context that is current.
        unsafe {
            self.driver.event_record(end, raw)?;
            self.driver.event_synchronize(end)?;
            Ok(self.driver.event_elapsed_time(start, end)?)
        }
    }

    /// Enqueues a launch. The caller keeps the buffers until the stream has been synchronized.
    fn launch(
        &self,
        stream: &Stream,
        input: &Matrix,
        from: &Buffer<f32>,
        to: &Buffer<f32>,
    ) -> Result<()> {
        let rows = input.rows().len();
        let grid = i32::try_from(rows).map(i32::cast_unsigned);
        ensure!(grid.is_ok(), "{rows} rows are given; a launch has at most {}", i32::MAX);
        let shape = LaunchShape::new([grid?, 1, 1], [self.block, 1, 1]);
        let mut values = [from.as_device_ptr(), input.columns as u64, to.as_device_ptr()];
        let mut pointers = values.each_mut().map(|value| from_mut(value).cast::<c_void>());
        let stream = RawStream::from_raw(stream.as_raw().cast());
        enter(self.driver, &self.device)?;
        let parameters = Parameters::Pointers(&mut pointers);
        // SAFETY:
        // - `load` has compared the parameters, and the function is of the context that is current.
        // - There is one block per row, and blocks are one-dimensional.
        // - Input and output are separate buffers, each with as many elements as the matrix.
        // - The caller keeps these buffers until the stream has been synchronized.
        Ok(unsafe { self.driver.launch(self.function, &shape, stream, parameters) }?)
    }
}

impl Drop for Softmax {
    fn drop(&mut self) {
        // SAFETY: no launch is pending, because `run` and `time` synchronize their streams.
        let _ = enter(self.driver, &self.device)
            .and_then(|()| unsafe { self.driver.module_unload(self.module) });
    }
}

/// Number of launches before the timed ones.
const WARM_UP: usize = 10;

/// Makes the device's context the thread's current one, as the driver's calls require.
fn enter(driver: &Driver, device: &Device) -> Result<(), CallError> {
    let context = Context::from_raw(device.as_raw_context().cast());
    // SAFETY: the device keeps its context alive.
    unsafe { driver.ctx_set_current(Some(context)) }
}
