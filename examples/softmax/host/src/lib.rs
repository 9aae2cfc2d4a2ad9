//! Softmax over the rows of a matrix, on a GPU or in the simulator, through the `warpfold-suite`
//! library.

pub mod cli;
pub mod reference;

use std::{
    mem::offset_of,
    path::Path,
    ptr::{without_provenance, without_provenance_mut},
};

use anyhow::{Result, ensure};
use warpfold_suite::{
    Device, Spread, Stream,
    abi::{Arguments, Parameter},
    device::{Geometry, Kernel},
    measure,
};

/// Name of the entry in the PTX.
pub const ENTRY: &str = "softmax_rows_f32";

/// The parameters of the kernel.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SoftmaxRows {
    /// `columns` readable elements per block.
    pub input: *const f32,
    /// Elements of a row.
    pub columns: u64,
    /// As many writable elements, which do not overlap `input`.
    pub output: *mut f32,
}

// SAFETY: `repr(C)`, three fields of 8 bytes without a gap, listed in the kernel's order.
unsafe impl Arguments for SoftmaxRows {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "input", offset: offset_of!(Self, input), size: 8, pointer: true },
        Parameter { name: "columns", offset: offset_of!(Self, columns), size: 8, pointer: false },
        Parameter { name: "output", offset: offset_of!(Self, output), size: 8, pointer: true },
    ];
}

/// A row-major matrix.
#[derive(Debug, Clone)]
pub struct Matrix {
    columns: usize,
    elements: Vec<f32>,
}

impl Matrix {
    /// Creates a matrix of whole rows.
    ///
    /// # Errors
    /// If there are no rows or columns, or a partial row.
    pub fn new(columns: usize, elements: Vec<f32>) -> Result<Self> {
        let len = elements.len();
        ensure!(
            columns > 0 && len > 0 && len.is_multiple_of(columns),
            "{len} elements make no rows of {columns}: give at least one row, and each of them whole"
        );
        Ok(Self { columns, elements })
    }

    /// Creates a matrix of numbers between −8 and 8 that do not repeat, to detect misplaced elements.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn random(rows: usize, columns: usize, seed: u64) -> Result<Self> {
        let element = |i: u64| {
            let mixed = (i ^ seed.rotate_left(32)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
            (mixed >> 40) as f32 / (1 << 20) as f32 - 8.0
        };
        let elements = rows.checked_mul(columns).map(|len| (0..len as u64).map(element).collect());
        Self::new(columns, elements.unwrap_or_default())
    }

    /// Returns the rows, one after the other.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.elements.chunks_exact(self.columns)
    }

    /// Returns the number of elements of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.elements)
    }
}

/// Value of every output byte before a launch; no softmax has such elements.
const POISON: u8 = 0xac;

/// Elements before and after the output that the kernel must not write.
const MARGIN: usize = 8;

/// The kernel on a device, for blocks of one size.
pub struct Softmax {
    kernel: Kernel<SoftmaxRows>,
    block: u32,
}

impl Softmax {
    /// Loads the kernel; errors call the PTX `path`.
    ///
    /// # Errors
    /// If no GPU supports the block size, and those of [`Device::load`].
    pub fn load(device: &Device, path: &Path, ptx: &str, block: u32) -> Result<Self> {
        ensure!((1..=1024).contains(&block), "a block of {block} threads: give 1 to 1024");
        Ok(Self { kernel: device.load(path, ptx, ENTRY)?, block })
    }

    fn geometry(&self, input: &Matrix) -> Result<Geometry> {
        let rows = input.rows().len();
        let grid = i32::try_from(rows).map(i32::cast_unsigned);
        ensure!(grid.is_ok(), "{rows} rows: a launch has at most {}", i32::MAX);
        Ok(Geometry::linear(grid?, self.block, 0))
    }

    /// Returns the softmax of each row. The output's offset modulo 16 bytes is that of the input plus
    /// `shift` elements (at most 3).
    ///
    /// # Errors
    /// If there are too many rows, if the device fails, or if the kernel writes outside its rows.
    pub fn run(&self, input: &Matrix, shift: usize) -> Result<Matrix> {
        ensure!(shift < 4, "a shift of {shift} elements: give 0 to 3");
        let device = self.kernel.device();
        let (from, stream) = (device.allocate(input.bytes().len() as u64)?, device.stream()?);
        from.write(0, input.bytes())?;
        let len = input.elements.len();
        let mut around = vec![0.0_f32; len + 2 * MARGIN];
        let to = device.allocate(size_of_val(around.as_slice()) as u64)?;
        to.fill(0, POISON, to.bytes())?;
        let start = MARGIN - 4 + shift;
        let output = to.address() + (start * size_of::<f32>()) as u64;
        let launched = self.launch(&stream, input, from.address(), output);
        // Even after an error, nothing may be running when the memory is freed.
        stream.synchronize()?;
        launched?;
        to.read(0, bytemuck::cast_slice_mut(&mut around))?;
        let poison = u32::from_ne_bytes([POISON; 4]);
        let mut beside = around[..start].iter().chain(&around[start + len..]);
        ensure!(beside.all(|value| value.to_bits() == poison), "the kernel wrote beside its rows");
        Matrix::new(input.columns, around[start..start + len].to_vec())
    }

    /// Returns the time of a launch on inputs and outputs that are in no cache, or `None` on the
    /// simulator, which has no times.
    ///
    /// # Errors
    /// If there are too many rows, or if the device reports an error.
    pub fn time(&self, input: &Matrix, options: measure::Options) -> Result<Option<Spread>> {
        let (device, room) = (self.kernel.device(), input.bytes().len() as u64);
        self.geometry(input)?;
        let launch = |stream: &Stream, from, to| {
            let geometry = Geometry::linear(input.rows().len() as u32, self.block, 0);
            // SAFETY: as in `launch`; the memory outlives the last run.
            unsafe { self.kernel.launch(stream, geometry, &arguments(input, from, to)) }.map(drop)
        };
        Ok(measure::measure_launches(device, input.bytes(), room, options, launch)?)
    }

    fn launch(&self, stream: &Stream, input: &Matrix, from: u64, to: u64) -> Result<()> {
        let geometry = self.geometry(input)?;
        // SAFETY:
        // - There is a block per row, and it is one-dimensional.
        // - Input and output are allocations of their own, with an element for each of the matrix.
        // - The caller keeps them until the stream has been synchronised.
        unsafe { self.kernel.launch(stream, geometry, &arguments(input, from, to)) }?;
        Ok(())
    }
}

fn arguments(input: &Matrix, from: u64, to: u64) -> SoftmaxRows {
    SoftmaxRows {
        input: without_provenance(from as usize),
        columns: input.columns as u64,
        output: without_provenance_mut(to as usize),
    }
}
