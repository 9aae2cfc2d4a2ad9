//! Kernels that move elements: strided and random copies, transposes. Their outputs are checked element
//! by element, and their memory traffic is known.

use warpfold_abi::{
    arguments::{CopyRandom, CopyStrided, Transpose},
    transpose::{ROWS, TILE},
};

use crate::{
    Buffer, Data, Device, Dtype, Error, PtxStore, Result, Stream,
    catalogue::{Access, Variant, Work},
    device::{Counters, Geometry, Kernel, Launched, readable, writable},
    plan::require_block,
    ptx::PtxFile,
};

/// The strides of the sweep that shows the cost of uncoalesced reads.
pub const STRIDES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The default block size of a copy.
pub const DEFAULT_BLOCK: u32 = 256;

const MAX_GRID_Y: u64 = 65_535;

/// The mapping of input to output elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Output element i is the input element at i times the stride.
    Strided {
        /// The number of elements written.
        n: u64,
        /// The distance of the elements read.
        stride: u64,
    },
    /// Output element i of n is input element p\[i\], for a random permutation p.
    Random {
        /// The number of elements.
        n: u64,
        /// Seed of the permutation.
        seed: u64,
    },
    /// A transpose of a matrix.
    Transpose {
        /// Elements of an input row.
        width: u64,
        /// Rows of the input.
        height: u64,
    },
}

impl Pattern {
    /// Returns the pattern of a variant with about n elements written: for a transpose the largest
    /// square.
    pub fn of(variant: &Variant, n: u64, stride: u64, seed: u64) -> Result<Self> {
        match variant.work {
            Work::Copy { access: Access::Strided } => Ok(Self::Strided { n, stride }),
            Work::Copy { access: Access::Random } => Ok(Self::Random { n, seed }),
            Work::Transpose => {
                let side = n.isqrt();
                Ok(Self::Transpose { width: side, height: side })
            }
            _ => Err(Error::NoMovement { variant: variant.id }),
        }
    }

    /// Returns the required number of input elements.
    pub fn input_len(&self) -> u64 {
        match *self {
            Self::Strided { n, stride } => match n {
                0 => 0,
                n => (n - 1).saturating_mul(stride).saturating_add(1),
            },
            Self::Random { n, .. } => n,
            Self::Transpose { width, height } => width.saturating_mul(height),
        }
    }

    /// Returns the number of elements written.
    pub fn output_len(&self) -> u64 {
        match *self {
            Self::Strided { n, .. } | Self::Random { n, .. } => n,
            Self::Transpose { width, height } => width.saturating_mul(height),
        }
    }

    /// Returns the bytes read and written by the program: each element once, and a permutation's
    /// indices.
    pub fn useful_bytes(&self, dtype: Dtype) -> u64 {
        let index = if matches!(self, Self::Random { .. }) { 4 } else { 0 };
        self.output_len() * (2 * dtype.size() as u64 + index)
    }

    fn require(&self) -> Result<()> {
        let within = |what, given, least, most| match given {
            given if (least..=most).contains(&given) => Ok(()),
            _ => Err(Error::BadSize { what, given, most }),
        };
        match *self {
            Self::Strided { n, stride } => {
                within("n", n, 1, MAX_COPIED)?;
                within("stride", stride, 1, MAX_STRIDE)
            }
            Self::Random { n, .. } => within("n", n, 1, u32::MAX.into()),
            Self::Transpose { width, height } => {
                within("width", width, 1, MAX_COPIED / height.max(1))?;
                within("height", height, 1, MAX_GRID_Y * u64::from(TILE))
            }
        }
    }

    /// Returns the expected output.
    ///
    /// # Panics
    /// Panics if the input is shorter than [`input_len`](Self::input_len).
    pub fn expected(&self, input: &Data) -> Data {
        fn moved<T: crate::Scalar>(pattern: Pattern, from: &[T]) -> Data {
            let at = |i: u64| from[i as usize];
            T::data(match pattern {
                Pattern::Strided { n, stride } => (0..n).map(|i| at(i * stride)).collect(),
                Pattern::Random { n, seed } => {
                    permutation(n, seed).iter().map(|&i| at(i.into())).collect()
                }
                Pattern::Transpose { width, height } => {
                    (0..width * height).map(|i| at(i % height * width + i / height)).collect()
                }
            })
        }
        with_data!(input, values => moved(*self, values))
    }
}

/// The largest number of elements written, far more than any memory holds.
const MAX_COPIED: u64 = 1 << 38;
const MAX_STRIDE: u64 = 1 << 20;

/// Returns a random permutation of 0 to n - 1, by a Fisher-Yates shuffle.
fn permutation(n: u64, seed: u64) -> Vec<u32> {
    let Data::U64(bits) = Data::random(Dtype::U64, n as usize, !seed) else {
        unreachable!("asked for u64")
    };
    let mut order: Vec<u32> = (0..n as u32).collect();
    for last in (1..order.len()).rev() {
        let other = ((u128::from(bits[last]) * (last as u128 + 1)) >> 64) as usize;
        order.swap(last, other);
    }
    order
}

/// The kernel of a pattern and its arguments besides the element addresses.
enum Mover {
    Strided { kernel: Kernel<CopyStrided<()>>, n: u64, stride: u64 },
    Random { kernel: Kernel<CopyRandom<()>>, n: u64, index: Buffer },
    Transpose { kernel: Kernel<Transpose<()>>, width: u64, height: u64 },
}

impl Mover {
    fn load(device: &Device, ptx: &PtxFile, entry: &str, pattern: Pattern) -> Result<Self> {
        let (path, text) = (&ptx.path, &ptx.text);
        Ok(match pattern {
            Pattern::Strided { n, stride } => {
                Self::Strided { kernel: device.load(path, text, entry)?, n, stride }
            }
            Pattern::Random { n, seed } => Self::Random {
                kernel: device.load(path, text, entry)?,
                n,
                index: device.upload(&Data::U32(permutation(n, seed)))?,
            },
            Pattern::Transpose { width, height } => {
                Self::Transpose { kernel: device.load(path, text, entry)?, width, height }
            }
        })
    }

    /// Enqueues the launch.
    ///
    /// # Errors
    /// [`Error::Driver`] if the launch fails.
    ///
    /// # Safety
    /// As [`Movement::launch`]; the grid must cover the pattern.
    unsafe fn launch(
        &self,
        stream: &Stream,
        geometry: Geometry,
        input: *const (),
        output: *mut (),
    ) -> Result<Launched> {
        // SAFETY: the caller's contract; a permutation's indices are below n.
        unsafe {
            match *self {
                Self::Strided { ref kernel, n, stride } => {
                    kernel.launch(stream, geometry, &CopyStrided { input, n, stride, output })
                }
                Self::Random { ref kernel, n, ref index } => {
                    let index = readable(index.address());
                    kernel.launch(stream, geometry, &CopyRandom { input, index, n, output })
                }
                Self::Transpose { ref kernel, width, height } => {
                    kernel.launch(stream, geometry, &Transpose { input, width, height, output })
                }
            }
        }
    }
}

/// A movement with its kernel loaded and its permutation on the device.
pub struct Movement {
    variant: &'static Variant,
    dtype: Dtype,
    pattern: Pattern,
    geometry: Geometry,
    mover: Mover,
    ptx: PtxFile,
    stream: Stream,
}

/// The result of a movement.
pub struct Moved {
    /// The output elements.
    pub output: Data,
    /// The simulator's counters; `None` on a GPU.
    pub counters: Option<Counters>,
}

impl Movement {
    /// Loads the kernel of a variant. `block` is for copies; transposes have fixed tiles.
    ///
    /// # Errors
    /// Invalid type, size or block, too old a device, or missing PTX; [`Error::NoMovement`] for a
    /// variant of another kind; those of [`Device::load`].
    pub fn new(
        device: &Device,
        store: &PtxStore,
        variant: &'static Variant,
        dtype: Dtype,
        pattern: Pattern,
        block: u32,
    ) -> Result<Self> {
        let fits = match (variant.work, pattern) {
            (Work::Copy { access }, Pattern::Strided { .. }) => access == Access::Strided,
            (Work::Copy { access }, Pattern::Random { .. }) => access == Access::Random,
            (work, Pattern::Transpose { .. }) => work == Work::Transpose,
            _ => false,
        };
        if !fits {
            return Err(Error::NoMovement { variant: variant.id });
        }
        variant.require_dtype(dtype)?;
        variant.require_arch(device.info())?;
        pattern.require()?;
        let geometry = geometry(pattern, block)?;
        let ptx = store.find(variant.id, device.info())?;
        let mover = Mover::load(device, &ptx, &variant.entry(None, dtype), pattern)?;
        let stream = device.stream()?;
        Ok(Self { variant, dtype, pattern, geometry, mover, ptx, stream })
    }

    /// Returns the variant.
    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the mapping of elements.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Returns the launch configuration.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the loaded PTX.
    pub fn ptx(&self) -> &PtxFile {
        &self.ptx
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Moves the elements of `input` and returns the output. Bytes that the kernel does not write are
    /// `0xac`.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the input does not match the plan, [`Error::OutOfMemory`],
    /// [`Error::Driver`] if the launch fails.
    pub fn run(&self, input: &Buffer) -> Result<Moved> {
        let (has, needs) = ((input.dtype(), input.len()), (self.dtype, self.pattern.input_len()));
        if has != needs || !input.device().same(self.device()) {
            let reason = format!("it has {} {}, planned were {} {}", has.1, has.0, needs.1, needs.0);
            return Err(Error::Mismatch { what: "input", reason });
        }
        let bytes = self.pattern.output_len() * self.dtype.size() as u64;
        let memory = self.device().allocate(bytes)?;
        memory.fill(0, crate::reference::POISON, bytes)?;
        // SAFETY: the input was checked and the output has the size that is written; both live until the
        // wait below.
        let launched = unsafe { self.launch(&self.stream, input.address(), memory.address()) };
        let waited = self.stream.synchronize();
        let launched = launched?;
        waited?;
        let mut output = vec![0; bytes as usize];
        memory.read(0, &mut output)?;
        let output = Data::from_bytes(self.dtype, &output);
        Ok(Moved { output, counters: launched.counters() })
    }

    /// Enqueues the launch.
    ///
    /// # Safety
    /// `input` and `output` must be the addresses of as many elements as the pattern reads and writes,
    /// on this device, and live until `stream` was synchronised, without conflicting accesses.
    pub unsafe fn launch(&self, stream: &Stream, input: u64, output: u64) -> Result<Launched> {
        // SAFETY: the grid covers the pattern; the memory is the caller's contract.
        unsafe { self.mover.launch(stream, self.geometry, readable(input), writable(output)) }
    }
}

fn geometry(pattern: Pattern, block: u32) -> Result<Geometry> {
    if let Pattern::Transpose { width, height } = pattern {
        let tiles = |elements: u64| elements.div_ceil(TILE.into()) as u32;
        let (grid, block) = ([tiles(width), tiles(height), 1], [TILE, ROWS, 1]);
        return Ok(Geometry { grid, block, ..Geometry::linear(1, 1, 0) });
    }
    require_block(block)?;
    let n = pattern.output_len();
    match n.div_ceil(block.into()) {
        needed if needed > crate::plan::MAX_GRID => Err(Error::TooManyBlocks { n, block, needed }),
        needed => Ok(Geometry::linear(needed as u32, block, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_say_what_goes_where() {
        let input = Data::F32((0..6).map(|i| i as f32).collect());
        let expected = |pattern: Pattern| pattern.expected(&input);
        let strided = Pattern::Strided { n: 3, stride: 2 };
        assert_eq!(expected(strided), Data::F32(vec![0.0, 2.0, 4.0]));
        assert_eq!(strided.input_len(), 5);
        let transpose = Pattern::Transpose { width: 3, height: 2 };
        assert_eq!(expected(transpose), Data::F32(vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        assert_eq!((strided.useful_bytes(Dtype::F64), transpose.useful_bytes(Dtype::F32)), (48, 48));
    }

    #[test]
    fn permutations_hold_each_index_once_and_depend_on_the_seed() {
        let order = permutation(1000, 1);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..1000));
        assert!(order != permutation(1000, 2) && order != sorted);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for pattern in [
            Pattern::Strided { n: 0, stride: 1 },
            Pattern::Strided { n: 1, stride: 0 },
            Pattern::Random { n: 1 << 32, seed: 1 },
            Pattern::Transpose { width: 0, height: 1 },
            Pattern::Transpose { width: 1, height: 65_535 * 32 + 1 },
            Pattern::Transpose { width: u64::MAX, height: 2 },
        ] {
            assert!(matches!(pattern.require(), Err(Error::BadSize { .. })), "{pattern:?}");
        }
        assert!(geometry(Pattern::Strided { n: 9, stride: 1 }, 100).is_err());
    }
}
