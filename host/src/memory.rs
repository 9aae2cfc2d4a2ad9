//! Kernels that move elements: strided and random copies, transposes. Every output element is checked,
//! and the memory traffic is known.

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

pub const DEFAULT_BLOCK: u32 = 256;

const MAX_GRID_Y: u64 = 65_535;

/// The mapping of input to output elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Output element i is the input element at i times the stride.
    Strided {
        /// The number of elements written.
        n: u64,
        stride: u64,
    },
    /// Output element i of n is input element p\[i\], for a random permutation p.
    Random {
        n: u64,
        seed: u64,
    },
    Transpose {
        width: u64,
        height: u64,
    },
}

impl Pattern {
    /// Returns the pattern of a variant that writes about `n` elements; for a transpose, the largest
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

    pub fn output_len(&self) -> u64 {
        match *self {
            Self::Strided { n, .. } | Self::Random { n, .. } => n,
            Self::Transpose { width, height } => width.saturating_mul(height),
        }
    }

    /// Returns the bytes that the kernel must read and write: each element once, and a permutation's
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

/// Limit on the elements of a movement, far more than any memory holds.
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
    /// # Safety
    /// The requirements of [`Movement::launch`] apply, and the grid must cover the pattern.
    unsafe fn launch(
        &self,
        stream: &Stream,
        geometry: Geometry,
        input: *const (),
        output: *mut (),
    ) -> Result<Launched> {
        // SAFETY: by this function's contract, the memory is alive and has the pattern's elements, which
        // the grid covers. A permutation's indices are below n.
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

/// A pattern with its kernel loaded and its permutation on the device.
pub struct Movement {
    variant: &'static Variant,
    dtype: Dtype,
    pattern: Pattern,
    geometry: Geometry,
    mover: Mover,
    ptx: PtxFile,
    stream: Stream,
}

pub struct Moved {
    pub output: Data,
    /// The simulator's counters; `None` on a GPU.
    pub counters: Option<Counters>,
}

impl Movement {
    /// Loads the kernel of a variant. `block` is for copies; transposes have fixed tiles.
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

    pub fn variant(&self) -> &'static Variant {
        self.variant
    }

    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub fn ptx(&self) -> &PtxFile {
        &self.ptx
    }

    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Moves the elements of `input` and returns the output. Bytes that the kernel does not write are
    /// `0xac`. Fails if `input` has another type, length or device than this movement.
    pub fn run(&self, input: &Buffer) -> Result<Moved> {
        let (has, needs) = ((input.dtype(), input.len()), (self.dtype, self.pattern.input_len()));
        if has != needs || !input.device().same(self.device()) {
            let reason =
                format!("it has {} {}, but the plan is for {} {}", has.1, has.0, needs.1, needs.0);
            return Err(Error::Mismatch { what: "input", reason });
        }
        let bytes = self.pattern.output_len() * self.dtype.size() as u64;
        let memory = self.device().allocate(bytes)?;
        memory.fill(0, crate::reference::POISON, bytes)?;
        // SAFETY: the input was checked, the output has the size that is written, and both outlive the
        // wait.
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
    /// `input` and `output` must be addresses on this device with room for the elements that the pattern
    /// reads and writes. The memory must live, without conflicting accesses, until `stream` was
    /// synchronised.
    pub unsafe fn launch(&self, stream: &Stream, input: u64, output: u64) -> Result<Launched> {
        // SAFETY: the grid covers the pattern; the memory is valid by this function's contract.
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
    fn patterns_give_the_expected_output() {
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
    fn invalid_sizes_are_refused() {
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
