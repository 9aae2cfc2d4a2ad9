//! Kernels that move elements: strided and random copies, transposes. What they write is known
//! element by element, and so is the traffic that they are there to show.

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

/// The strides of the sweep that shows what uncoalesced reads cost.
pub const STRIDES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Threads of a block of a copy where the user names none.
pub const DEFAULT_BLOCK: u32 = 256;

/// Most blocks of a grid along y.
const MAX_GRID_Y: u64 = 65_535;

/// Which element goes where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Element i of n is element i times the stride of the input.
    Strided {
        /// How many elements are written.
        n: u64,
        /// Distance of the elements read.
        stride: u64,
    },
    /// Element i of n is element p\[i\] of the input, p a random permutation.
    Random {
        /// How many elements there are.
        n: u64,
        /// Seed of the permutation.
        seed: u64,
    },
    /// The input's rows become columns.
    Transpose {
        /// Elements of an input row.
        width: u64,
        /// Rows of the input.
        height: u64,
    },
}

impl Pattern {
    /// The largest input of a variant with about n elements written: for a transpose the largest
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

    /// Elements that the input must have.
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

    /// Elements that are written.
    pub fn output_len(&self) -> u64 {
        match *self {
            Self::Strided { n, .. } | Self::Random { n, .. } => n,
            Self::Transpose { width, height } => width.saturating_mul(height),
        }
    }

    /// Bytes that the program asks for, read and written: each element once, and a permutation's
    /// indices.
    pub fn useful_bytes(&self, dtype: Dtype) -> u64 {
        let index = if matches!(self, Self::Random { .. }) { 4 } else { 0 };
        self.output_len() * (2 * dtype.size() as u64 + index)
    }

    /// Accepts what a kernel can be launched for.
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

    /// What must be written.
    ///
    /// # Panics
    /// When the input is shorter than [`input_len`](Self::input_len).
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

/// Most elements that a copy writes: far more than any memory holds.
const MAX_COPIED: u64 = 1 << 38;
const MAX_STRIDE: u64 = 1 << 20;

/// A random permutation of 0 to n - 1: Fisher and Yates' shuffle.
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

/// The kernel of a pattern, with what it is told beside where the elements are.
enum Mover {
    Strided { kernel: Kernel<CopyStrided<()>>, n: u64, stride: u64 },
    Random { kernel: Kernel<CopyRandom<()>>, n: u64, index: Buffer },
    Transpose { kernel: Kernel<Transpose<()>>, width: u64, height: u64 },
}

impl Mover {
    /// Loads the kernel, and brings a permutation to the device.
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
    /// [`Error::Driver`] when it fails.
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

/// A movement made ready: its kernel loaded, its permutation on the device.
pub struct Movement {
    variant: &'static Variant,
    dtype: Dtype,
    pattern: Pattern,
    geometry: Geometry,
    mover: Mover,
    ptx: PtxFile,
    stream: Stream,
}

/// What a movement has written.
pub struct Moved {
    /// The elements that were written.
    pub output: Data,
    /// What the simulator counted; none on a GPU.
    pub counters: Option<Counters>,
}

impl Movement {
    /// Loads the kernel of a variant. `block` is a copy's; transposes have tiles.
    ///
    /// # Errors
    /// A type, size or block that cannot be, a device too old, no PTX; [`Error::NoMovement`] for a
    /// variant that moves nothing; those of [`Device::load`].
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

    /// Returns the variant that it runs.
    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Which element goes where.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Shape of the launch.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The PTX that runs.
    pub fn ptx(&self) -> &PtxFile {
        &self.ptx
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Moves the elements of `input` and brings them back. Memory that nothing writes comes back as
    /// bytes of `0xac`.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the input is not what was planned for, [`Error::OutOfMemory`],
    /// [`Error::Driver`] when the launch fails.
    pub fn run(&self, input: &Buffer) -> Result<Moved> {
        let (has, needs) = ((input.dtype(), input.len()), (self.dtype, self.pattern.input_len()));
        if has != needs || !input.device().same(self.device()) {
            let reason = format!("it has {} {}, planned were {} {}", has.1, has.0, needs.1, needs.0);
            return Err(Error::Mismatch { what: "input", reason });
        }
        let bytes = self.pattern.output_len() * self.dtype.size() as u64;
        let memory = self.device().allocate(bytes)?;
        memory.fill(0, crate::reference::POISON, bytes)?;
        // SAFETY: the input was checked and the output is of the size that is written; both live
        // until the wait below is over.
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
    /// on this device, and live until `stream` was synchronised; nothing else may write them.
    pub unsafe fn launch(&self, stream: &Stream, input: u64, output: u64) -> Result<Launched> {
        // SAFETY: the grid covers the pattern; the caller answers for the memory.
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
