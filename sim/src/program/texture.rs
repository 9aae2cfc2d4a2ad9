//! Instructions on textures and surfaces.

use super::{AtomicOp, Slot};
use crate::ast::Type;

/// How coordinates are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) name: &'static str,
    pub(crate) dimensions: u32,
    /// A number of the layer stands before the coordinates.
    pub(crate) layered: bool,
    /// Coordinates are a direction.
    pub(crate) cube: bool,
}

impl Geometry {
    const fn new(name: &'static str, dimensions: u32, layered: bool, cube: bool) -> Self {
        Self { name, dimensions, layered, cube }
    }

    pub(crate) const ALL: [Self; 7] = [
        Self::new("1d", 1, false, false),
        Self::new("a1d", 1, true, false),
        Self::new("2d", 2, false, false),
        Self::new("a2d", 2, true, false),
        Self::new("3d", 3, false, false),
        Self::new("cube", 2, false, true),
        Self::new("acube", 2, true, true),
    ];

    /// Numbers that a place takes.
    pub(crate) const fn coordinates(&self) -> usize {
        let axes = if self.cube { 3 } else { self.dimensions as usize };
        if self.layered { axes + 1 } else { axes }
    }
}

/// What is asked of a texture or a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Property {
    Width,
    Height,
    Depth,
    Layers,
    /// Whether coordinates are normalized.
    Normalized,
    Levels,
}

/// What a surface has where coordinates lead outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    Trap,
    Clamp,
    Zero,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextureAction {
    /// `tex`, at texels or at coordinates, as four words or as two pairs of halves.
    Sample {
        texels: bool,
        halves: bool,
    },
    /// `tld4` of a channel.
    Gather(u8),
    /// The queries `txq` and `suq`.
    Query {
        property: Property,
        surface: bool,
    },
    Load(SurfaceAccess),
    Store(SurfaceAccess),
    Reduce(SurfaceAccess, AtomicOp),
}

/// The bytes of a surface that an instruction is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurfaceAccess {
    pub(crate) ty: Type,
    pub(crate) count: u8,
    pub(crate) outside: Outside,
}

/// An instruction on a texture or a surface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextureOp {
    pub(crate) action: TextureAction,
    pub(crate) geometry: Geometry,
    /// The row of the handle.
    pub(crate) handle: u16,
    /// Rows of the layer's number and the coordinates.
    pub(crate) coordinates: [u16; 4],
    pub(crate) data: [Slot; 4],
}
