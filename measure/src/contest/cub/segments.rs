//! CUB's segmented reductions on the rows of a matrix, by equal lengths or by offsets.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::Arc,
};

use super::{Cub, device_pointer, op_code};
use crate::contest::{
    Contender,
    matrix::{Layout, Matrix},
};
use warpfold_suite::{
    Device, Dtype, Error, Kind, Op, Result, Stream, device::Allocation, measure::Slot, reference::POISON,
};

pub(super) type ReduceRows = unsafe extern "C" fn(
    c_int,
    *mut c_void,
    *mut usize,
    *const c_void,
    *mut c_void,
    u64,
    u64,
    *const i32,
    *mut c_void,
) -> c_int;

/// The first release with segments of equal lengths, as in cuda/cub/library.cuh.
const EQUAL_LENGTHS_SINCE: c_int = 300_100;

/// The form in which the rows are passed to CUB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// The number of rows and their length.
    Equal,
    /// 32-bit offsets in device memory: the beginning and end of each row.
    Offsets,
}

/// One of CUB's reductions of every row of an f32 matrix, with its temporary storage.
pub struct CubRows {
    cub: Arc<Cub>,
    op: Op,
    layout: Layout,
    matrix: Arc<Matrix>,
    temporary: Allocation,
    temporary_bytes: usize,
    offsets: Option<Allocation>,
    output: Allocation,
    device: Device,
}

impl CubRows {
    /// Allocates the temporary storage, for [`Op::Sum`] or [`Op::ArgMax`].
    pub fn new(
        cub: &Arc<Cub>,
        device: &Device,
        op: Op,
        segments: Segments,
        matrix: &Arc<Matrix>,
    ) -> Result<Self> {
        let layout = Layout::of(op, Layout::NarrowPlaces)?;
        if segments == Segments::Equal && cub.version < EQUAL_LENGTHS_SINCE {
            let reason =
                format!("{} has no segments of equal lengths; take 3.1 or later", cub.version());
            return Err(Error::Mismatch { what: "CUB", reason });
        }
        if device.info().kind != Kind::Cuda {
            let reason = format!("CUB runs on GPUs, this is {}", device.info().name);
            return Err(Error::Mismatch { what: "device", reason });
        }
        let offsets = match segments {
            Segments::Equal => None,
            Segments::Offsets => Some(offsets(device, matrix)?),
        };
        let mut made = Self {
            cub: cub.clone(),
            op,
            layout,
            matrix: matrix.clone(),
            temporary: device.allocate(1)?,
            temporary_bytes: 0,
            offsets,
            output: device.allocate(matrix.rows() * layout.bytes())?,
            device: device.clone(),
        };
        let stream = device.stream()?;
        // SAFETY: without temporary storage CUB only computes its size.
        unsafe { made.call(&stream, ptr::null_mut(), 0) }?;
        made.temporary = device.allocate(made.temporary_bytes.max(1) as u64)?;
        Ok(made)
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// # Safety
    /// `temporary` must be null, or the address of as many bytes as CUB requires. In the latter case
    /// `input` must be the address of the matrix. All memory must live until the stream has been
    /// synchronised.
    unsafe fn call(&mut self, stream: &Stream, temporary: *mut c_void, input: u64) -> Result<()> {
        let offsets = self
            .offsets
            .as_ref()
            .map_or(ptr::null(), |offsets| device_pointer(offsets.address()).cast_const().cast::<i32>());
        // Makes the context current, which the CUDA runtime inside the library then uses.
        let stream = stream.raw()?;
        // SAFETY: the output has room for a result of each row. There is one offset more than rows, and
        // the last is the number of elements. The storage and the input are valid by this function's
        // contract.
        let code = unsafe {
            (self.cub.reduce_rows)(
                op_code(self.op),
                temporary,
                &mut self.temporary_bytes,
                device_pointer(input).cast_const(),
                device_pointer(self.output.address()),
                self.matrix.rows(),
                self.matrix.row_len(),
                offsets,
                stream,
            )
        };
        self.cub.check(&self.device, code)
    }
}

/// Uploads the offset of each row and the end of the last.
fn offsets(device: &Device, matrix: &Matrix) -> Result<Allocation> {
    let offset = |row: u64| i32::try_from(row * matrix.row_len()).expect("at most 2^30 elements");
    let offsets: Vec<i32> = (0..=matrix.rows()).map(offset).collect();
    let memory = device.allocate(size_of_val(&offsets[..]) as u64)?;
    memory.write(0, bytemuck::cast_slice(&offsets))?;
    Ok(memory)
}

// SAFETY: CUB reads the elements of the matrix and the offsets, and writes its temporary storage and the
// output. `self` owns all of these except the elements.
unsafe impl Contender for CubRows {
    fn device(&self) -> &Device {
        &self.device
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some((Dtype::F32, self.matrix.elements()))
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        let temporary = device_pointer(self.temporary.address());
        // SAFETY: the temporary storage has the size that CUB requires, and the slot holds the elements.
        unsafe { self.call(stream, temporary, slot.input()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.output.fill(0, POISON, self.output.bytes())
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        self.matrix.judge(&self.output, self.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Contest, LEAST_ROUNDS, Options};
    use warpfold_suite::Selection;

    #[test]
    fn the_release_is_that_of_the_library() {
        let header = include_str!("../../../../cuda/cub/library.cuh");
        let line = format!("#define EQUAL_LENGTHS_SINCE {EQUAL_LENGTHS_SINCE}\n");
        assert!(header.contains(&line), "{line}");
        let source = include_str!("../../../../cuda/cub/library.cu");
        for (op, function) in [(Op::Sum, "sums_of_rows"), (Op::ArgMax, "places_in_rows")] {
            let line = format!("case {}: return warpfold::{function}(rows, call);", op_code(op));
            assert!(source.contains(&line), "{line}");
        }
    }

    #[test]
    fn offsets_are_where_rows_begin_and_end() {
        let device = Device::open(Selection::Sim).unwrap();
        let (_, matrix) = Matrix::draw(4, 7, 1).unwrap();
        let memory = offsets(&device, &matrix).unwrap();
        let mut read = [0_i32; 5];
        memory.read(0, bytemuck::cast_slice_mut(&mut read)).unwrap();
        assert_eq!(read, [0, 7, 14, 21, 28]);
    }

    /// Runs if `WARPFOLD_CUB` names a built library. Without a GPU it reports an error.
    #[test]
    fn a_library_that_was_built_wants_a_gpu() {
        let Some(path) = std::env::var_os("WARPFOLD_CUB") else { return };
        // SAFETY: the user who sets the variable ensures that it names such a library.
        let cub = unsafe { Cub::open(path.as_ref()) }.unwrap();
        let device = Device::open(Selection::Sim).unwrap();
        let (_, matrix) = Matrix::draw(4, 7, 1).unwrap();
        let made = CubRows::new(&cub, &device, Op::Sum, Segments::Offsets, &matrix);
        let error = made.err().unwrap().to_string();
        assert!(error.contains("CUB runs on GPUs"), "{error}");
    }

    /// Runs if `WARPFOLD_CUB` names a built library and there is a GPU.
    #[test]
    fn a_library_that_was_built_is_right_on_rows() {
        let Some(path) = std::env::var_os("WARPFOLD_CUB") else { return };
        let Ok(device) = Device::open(Selection::Cuda) else { return };
        // SAFETY: the user who sets the variable ensures that it names such a library.
        let cub = unsafe { Cub::open(path.as_ref()) }.unwrap();
        let options = Options { rounds: LEAST_ROUNDS, warm_up: 1, slices: 1, ..Options::default() };
        for (rows, len) in [(1, 1_000_003), (3, 100_000), (1000, 1001), (50_000, 16), (70_001, 3)] {
            let (data, matrix) = Matrix::draw(rows, len, 1).unwrap();
            let input = device.upload(&data).unwrap();
            for op in [Op::Sum, Op::ArgMax] {
                let mut contest = Contest::new(&input, 0).unwrap();
                let kinds = [Segments::Equal, Segments::Offsets].into_iter();
                let kinds = kinds.filter(|&kind| kind == Segments::Offsets || cub.version >= 300_100);
                for segments in kinds {
                    let made = CubRows::new(&cub, &device, op, segments, &matrix).unwrap();
                    contest.enter(made, 0).unwrap();
                }
                let scores = contest.run(options, |_| {}).unwrap();
                assert!(scores.iter().all(|score| score.right), "{op} of {rows} x {len}: {scores:?}");
            }
        }
    }
}
