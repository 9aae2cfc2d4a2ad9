//! Textures and surfaces: texels in memory, and samplers.

mod sample;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use sample::{Place, gather, sample};

/// The type of a texel's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 8-bit integer.
    S8,
    /// Signed 16-bit integer.
    S16,
    /// Signed 32-bit integer.
    S32,
    /// Half-precision float.
    F16,
    /// Single-precision float.
    F32,
}

impl Channel {
    /// Returns the size of a channel in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    /// Returns whether the type is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }
}

/// Texels in device memory, arranged in rows and planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texels {
    /// Address of the first texel.
    pub address: u64,
    /// The type of the channels.
    pub channel: Channel,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Number of dimensions: 1 to 3, or 1 to 2 of each plane if planes are layers or faces of a cube.
    pub dimensions: u32,
    /// Texels along each dimension, 1 along unused ones.
    pub extent: [u32; 3],
    /// The number of layers if planes are layers; a cube has six planes per layer.
    pub layers: Option<u32>,
    /// Set if planes are the faces of cubes.
    pub cube: bool,
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Bytes from one plane to the next.
    pub plane_bytes: u64,
}

impl Texels {
    /// Returns the size of a texel in bytes.
    #[must_use]
    pub const fn texel_bytes(&self) -> u32 {
        self.channel.bytes() * self.channels
    }

    /// Returns the number of planes: the depth, or the layers times the faces.
    #[must_use]
    pub const fn planes(&self) -> u32 {
        let faces = if self.cube { 6 } else { 1 };
        match self.layers {
            Some(layers) => layers * faces,
            None if self.cube => faces,
            None => self.extent[2],
        }
    }

    /// Returns the address of a texel, which must exist.
    pub(crate) fn at(&self, [x, y, plane]: [u32; 3]) -> u64 {
        let row = u64::from(y) * self.row_bytes + u64::from(plane) * self.plane_bytes;
        self.address + row + u64::from(x) * u64::from(self.texel_bytes())
    }
}

/// Handling of texture coordinates that are out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressMode {
    /// Repeats the texture; like [`Clamp`](Self::Clamp) if coordinates are not normalized.
    Wrap,
    /// Reads the nearest texel.
    Clamp,
    /// Repeats the texture mirrored; like [`Clamp`](Self::Clamp) if coordinates are not normalized.
    Mirror,
    /// Reads the border colour.
    Border,
}

/// Mode of reading a texture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Handling of coordinates out of range, along each dimension.
    pub address: [AddressMode; 3],
    /// Set to interpolate between texels.
    pub linear: bool,
    /// Set if coordinates are from 0 to 1, instead of in texels.
    pub normalized: bool,
    /// Set to convert integers of 8 and 16 bits to floats, from 0 or -1 to 1.
    pub as_floats: bool,
    /// Set if 8-bit channels other than the fourth are sRGB.
    pub srgb: bool,
    /// The border colour for [`AddressMode::Border`].
    pub border: [f32; 4],
}

/// A texture: texels and a sampler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Texture {
    /// The texels of the texture.
    pub texels: Texels,
    /// The mode of reading the texels.
    pub sampler: Sampler,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) textures: HashMap<u64, Texture>,
    pub(crate) surfaces: HashMap<u64, Texels>,
}

pub(crate) fn new_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
