//! Tensor maps: tensors in global memory, and the boxes of them that `cp.async.bulk.tensor` copies.

mod tile;

use crate::ast::Type;
pub(crate) use tile::Tile;
pub use tile::TilePiece;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorElement {
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    S32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    S64,
    /// Half-precision float.
    F16,
    /// Single-precision float.
    F32,
    /// Double-precision float.
    F64,
    /// Float with the exponent of single precision and 8 significant bits.
    Bf16,
    /// Single-precision float whose subnormals a sum flushes.
    F32Ftz,
    /// Single-precision float that a load rounds to 11 significant bits.
    Tf32,
    /// [`Tf32`](Self::Tf32) whose subnormals a sum flushes.
    Tf32Ftz,
}

impl TensorElement {
    pub(crate) const ALL: [Self; 13] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::S32,
        Self::U64,
        Self::S64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
    ];

    /// Returns the size of an element in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.ty().bytes()
    }

    /// Returns whether the type is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        self.ty().is_float()
    }

    pub(crate) const fn ty(self) -> Type {
        match self {
            Self::U8 => Type::U8,
            Self::U16 => Type::U16,
            Self::U32 => Type::U32,
            Self::S32 => Type::S32,
            Self::U64 => Type::U64,
            Self::S64 => Type::S64,
            Self::F16 => Type::F16,
            Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => Type::F32,
            Self::F64 => Type::F64,
            Self::Bf16 => Type::Bf16,
        }
    }
}

/// How the 16-byte chunks of a box are permuted in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// No exchange.
    None,
    /// Exchanges chunks within 32 bytes; the pattern repeats after 256 bytes.
    B32,
    /// Exchanges chunks within 64 bytes; the pattern repeats after 512 bytes.
    B64,
    /// Exchanges chunks within 128 bytes; the pattern repeats after 1024 bytes.
    B128,
}

impl Swizzle {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::B32, Self::B64, Self::B128];

    /// Returns the bytes within which chunks are exchanged, and one chunk without exchanges.
    #[must_use]
    pub const fn span(self) -> u32 {
        match self {
            Self::None => CHUNK as u32,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }
}

/// An argument that a tensor map does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of the tensor map is {value:#x}; allowed is {allowed}")]
pub struct TensorMapError {
    /// The argument.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The allowed values.
    pub allowed: &'static str,
}

/// A tensor in global memory, and a box that is copied from it or to it.
///
/// Arrays begin with the dimension along which elements are adjacent. Dimensions from
/// [`rank`](Self::rank) on are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// The type of the elements.
    pub element: TensorElement,
    /// Number of dimensions, 1 to 5.
    pub rank: u32,
    /// Address of the first element.
    pub address: u64,
    /// Elements along each dimension.
    pub extent: [u64; 5],
    /// Bytes from an element to the next one along each dimension but the first.
    pub strides: [u64; 4],
    /// Extent of the box along each dimension, 1 to 256 elements of the tensor.
    pub box_extent: [u32; 5],
    /// Copies every n-th element of the box along each dimension but the first.
    pub element_strides: [u32; 5],
    /// The order of chunks in shared memory.
    pub swizzle: Swizzle,
    /// Reads elements outside of the tensor as NaN, not as zero.
    pub fills_nan: bool,
}

/// A field that `tensormap.replace` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapField {
    Address,
    /// The value is one less than the number of dimensions.
    Rank,
    BoxExtent(usize),
    Extent(usize),
    Stride(usize),
    ElementStride(usize),
    Element(TensorElement),
    Swizzle(Swizzle),
    Fill {
        nan: bool,
    },
    /// A field that has its only supported value already.
    Default,
}

/// Bytes of the chunks that a swizzle exchanges, and alignment of tensors, rows and boxes.
pub(crate) const CHUNK: u64 = 16;
/// Largest shared memory of a block of compute capability 9.0. CUDA's driver refuses a box of 256 KiB.
const MOST_TILE_BYTES: u64 = 227 << 10;
const MAX_RANK: usize = 5;
const WORDS: usize = TensorMap::BYTES / 8;
/// First word of an encoded map.
const MARK: u64 = u64::from_le_bytes(*b"wf-tenso");

impl TensorMap {
    /// Size of an encoded map in bytes.
    pub const BYTES: usize = 128;
    /// Alignment of an encoded map in bytes.
    pub const ALIGN: u64 = 64;

    /// The map that 128 zero bytes hold for `tensormap.replace`, which must set all of its fields.
    pub(crate) const BLANK: Self = Self {
        element: TensorElement::U8,
        rank: 1,
        address: 0,
        extent: [0; 5],
        strides: [0; 4],
        box_extent: [0; 5],
        element_strides: [0; 5],
        swizzle: Swizzle::None,
        fills_nan: false,
    };

    /// Checks all arguments. The limits are those of CUDA's driver, except that a box may have at most
    /// the bytes of a block's shared memory.
    ///
    /// # Errors
    /// The first argument that is out of range.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let test = |holds, what, value, allowed| match holds {
            true => Ok(()),
            false => Err(TensorMapError { what, value, allowed }),
        };
        test((1..=5).contains(&self.rank), "rank", self.rank.into(), "1 to 5")?;
        test(self.address.is_multiple_of(CHUNK), "address", self.address, "a multiple of 0x10")?;
        let rank = self.rank as usize;
        for &extent in &self.extent[..rank] {
            test((1..=1 << 32).contains(&extent), "extent", extent, "1 to 2^32")?;
        }
        for &stride in &self.strides[..rank - 1] {
            let holds = stride.is_multiple_of(CHUNK) && stride < 1 << 40;
            test(holds, "stride", stride, "a multiple of 0x10 less than 2^40")?;
        }
        for &extent in &self.box_extent[..rank] {
            test((1..=256).contains(&extent), "box extent", extent.into(), "1 to 256")?;
        }
        for &stride in &self.element_strides[..rank] {
            test((1..=8).contains(&stride), "element stride", stride.into(), "1 to 8")?;
        }
        let inner = u64::from(self.box_extent[0] * self.element.bytes());
        test(inner.is_multiple_of(CHUNK), "size of a box row in bytes", inner, "a multiple of 0x10")?;
        if self.swizzle != Swizzle::None {
            let allowed = match self.swizzle {
                Swizzle::B32 => "at most 0x20, the span of the swizzle",
                Swizzle::B64 => "at most 0x40, the span of the swizzle",
                _ => "at most 0x80, the span of the swizzle",
            };
            let holds = inner <= self.swizzle.span().into();
            test(holds, "size of a box row in bytes", inner, allowed)?;
        }
        let bytes = self.tile_bytes();
        let holds = bytes <= MOST_TILE_BYTES;
        test(holds, "size of the box in bytes", bytes, "at most 0x38c00, the shared memory of a block")?;
        let fills = !self.fills_nan || self.element.is_float();
        test(fills, "fill value", 1, "zero, or NaN for floating-point elements")
    }

    /// Encodes a map as an opaque object of kernels. Its layout is that of this simulator, because that
    /// of GPUs is not documented.
    ///
    /// # Errors
    /// The first argument that is out of range, as by [`check`](Self::check).
    pub fn encode(&self) -> Result<[u8; Self::BYTES], TensorMapError> {
        self.check()?;
        Ok(self.pack())
    }

    pub(crate) fn pack(&self) -> [u8; Self::BYTES] {
        let mut words = [0; WORDS];
        words[0] = MARK;
        words[1] = self.address;
        words[2..7].copy_from_slice(&self.extent);
        words[7..11].copy_from_slice(&self.strides);
        words[11] = packed(&self.box_extent);
        words[12] = packed(&self.element_strides);
        words[13] = u64::from(self.rank)
            | (self.element as u64) << 8
            | (self.swizzle as u64) << 16
            | u64::from(self.fills_nan) << 24;
        words[15] = checksum(&words);
        let mut bytes = [0; Self::BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a map; returns `None` if [`encode`](Self::encode) has not made these bytes.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        let sum = std::mem::take(&mut words[15]);
        if words[0] != MARK || sum != checksum(&words) {
            return None;
        }
        let kind = |shift: u32| (words[13] >> shift & 0xff) as usize;
        Some(Self {
            element: *TensorElement::ALL.get(kind(8))?,
            rank: kind(0) as u32,
            address: words[1],
            extent: words[2..7].try_into().ok()?,
            strides: words[7..11].try_into().ok()?,
            box_extent: unpacked(words[11]),
            element_strides: unpacked(words[12]),
            swizzle: *Swizzle::ALL.get(kind(16))?,
            fills_nan: kind(24) != 0,
        })
    }

    /// Returns the map with one field replaced. Values are checked when the map is used.
    pub(crate) fn replaced(mut self, field: MapField, value: u64) -> Self {
        // A packed number has 12 bits; larger values are out of range in any case.
        let small = value.min(0xfff) as u32;
        match field {
            MapField::Address => self.address = value,
            MapField::Rank => self.rank = small.min(0xfe) + 1,
            MapField::BoxExtent(axis) => self.box_extent[axis] = small,
            MapField::Extent(axis) => self.extent[axis] = value,
            MapField::Stride(axis) => self.strides[axis] = value,
            MapField::ElementStride(axis) => self.element_strides[axis] = small,
            MapField::Element(element) => self.element = element,
            MapField::Swizzle(swizzle) => self.swizzle = swizzle,
            MapField::Fill { nan } => self.fills_nan = nan,
            MapField::Default => {}
        }
        self
    }

    /// Returns the number of elements that a copy moves along each dimension.
    fn counts(&self) -> [u64; MAX_RANK] {
        std::array::from_fn(|axis| match axis {
            0 => self.box_extent[0].into(),
            _ if axis < self.rank as usize => {
                self.box_extent[axis].div_ceil(self.element_strides[axis]).into()
            }
            _ => 1,
        })
    }

    /// Returns the bytes of elements outside of the tensor, repeated. An H200 fills all types with the
    /// same NaN of 16 bits.
    fn fill(&self) -> [u8; 2] {
        if self.fills_nan { 0x7ff7_u16 } else { 0 }.to_le_bytes()
    }
}

fn packed(values: &[u32; MAX_RANK]) -> u64 {
    values.iter().rev().fold(0, |word, &value| word << 12 | u64::from(value & 0xfff))
}

fn unpacked(word: u64) -> [u32; MAX_RANK] {
    std::array::from_fn(|axis| (word >> (12 * axis)) as u32 & 0xfff)
}

/// Returns the FNV-1a hash of words.
fn checksum(words: &[u64; WORDS]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}
