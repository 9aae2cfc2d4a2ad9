//! Textures and surfaces: texels in memory, and how textures are read.

mod sample;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use sample::{Place, gather, sample};

/// The type of a texel's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Unsigned, of 8 bits.
    U8,
    /// Unsigned, of 16 bits.
    U16,
    /// Unsigned, of 32 bits.
    U32,
    /// Signed, of 8 bits.
    S8,
    /// Signed, of 16 bits.
    S16,
    /// Signed, of 32 bits.
    S32,
    /// Texels of half precision.
    F16,
    /// Texels of single precision.
    F32,
}

impl Channel {
    /// Bytes of a channel.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    /// Whether it is of a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }
}

/// Texels in the memory of a device: rows of them, in planes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texels {
    /// Where the first one lies.
    pub address: u64,
    /// The type of their channels.
    pub channel: Channel,
    /// Channels of each: 1, 2 or 4.
    pub channels: u32,
    /// Dimensions, from 1 to 3; a plane of a cube or of layers has one or two of them.
    pub dimensions: u32,
    /// Texels along each dimension, 1 along those that there are not.
    pub extent: [u32; 3],
    /// Whether planes are layers, and how many; a cube has six planes for each.
    pub layers: Option<u32>,
    /// Whether planes are the faces of cubes.
    pub cube: bool,
    /// Bytes from one row to the next, and from one plane to the next.
    pub row_bytes: u64,
    /// Bytes of a plane, counted as [`row_bytes`](Self::row_bytes) are.
    pub plane_bytes: u64,
}

impl Texels {
    /// Bytes of a texel.
    #[must_use]
    pub const fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// Planes: of the depth, of layers, of faces.
    #[must_use]
    pub const fn planes(&self) -> u32 {
        let faces = if self.cube { 6 } else { 1 };
        match self.layers {
            Some(layers) => layers * faces,
            None if self.cube => faces,
            None => self.extent[2],
        }
    }

    /// The address of a texel that is there.
    pub(crate) fn at(&self, [x, y, plane]: [u32; 3]) -> u64 {
        let row = u64::from(y) * self.row_bytes + u64::from(plane) * self.plane_bytes;
        self.address + row + u64::from(x) * u64::from(self.texel_bytes())
    }
}

/// What a texture has where its coordinates lead outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// The same again; of coordinates that are not normalized the nearest texel.
    Wrap,
    /// The nearest texel is read.
    Clamp,
    /// The same backwards; of coordinates that are not normalized the nearest texel.
    Mirror,
    /// The colour of the border is read.
    Border,
}

/// How a texture is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// What happens outside, along each dimension.
    pub address: [AddressMode; 3],
    /// Whether texels are interpolated between.
    pub linear: bool,
    /// Whether coordinates go from 0 to 1.
    pub normalized: bool,
    /// Whether integers become floats: up to 1, from 0 or -1 on.
    pub as_floats: bool,
    /// Whether channels of 8 bits, but for the fourth, are in sRGB.
    pub srgb: bool,
    /// What is outside, where that is asked for.
    pub border: [f32; 4],
}

/// A texture of the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Texture {
    /// What it consists of.
    pub texels: Texels,
    /// How it is read.
    pub sampler: Sampler,
}

/// The textures and surfaces of a device, by their handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) textures: HashMap<u64, Texture>,
    pub(crate) surfaces: HashMap<u64, Texels>,
}

/// A handle that no other object has or had.
pub(crate) fn new_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
