//! Texture and surface instructions.

use super::{AtomicOp, Slot};
use crate::ast::Type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) name: &'static str,
    pub(crate) dimensions: u32,
    /// A layer number precedes the coordinates.
    pub(crate) layered: bool,
    /// The coordinates are a direction.
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

    /// Returns the number of coordinates, including the layer.
    pub(crate) const fn coordinates(&self) -> usize {
        let axes = if self.cube { 3 } else { self.dimensions as usize };
        if self.layered { axes + 1 } else { axes }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Property {
    Width,
    Height,
    Depth,
    Layers,
    Normalized,
    Levels,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    Trap,
    Clamp,
    Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextureAction {
    /// `tex`: reads single texels if `texels` is set, and returns two pairs of halves if `halves` is.
    Sample {
        texels: bool,
        halves: bool,
    },
    Gather(u8),
    Query {
        property: Property,
        surface: bool,
    },
    Load(SurfaceAccess),
    Store(SurfaceAccess),
    Reduce(SurfaceAccess, AtomicOp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurfaceAccess {
    pub(crate) ty: Type,
    pub(crate) count: u8,
    pub(crate) outside: Outside,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TextureOp {
    pub(crate) action: TextureAction,
    pub(crate) geometry: Geometry,
    pub(crate) handle: u16,
    /// Registers of the layer number and the coordinates.
    pub(crate) coordinates: [u16; 4],
    pub(crate) data: [Slot; 4],
}
