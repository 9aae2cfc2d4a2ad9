//! Texture reads, and surface accesses.

use std::sync::atomic::Ordering;

use crate::error::{FaultKind, SurfacePlace, TextureProblem};
use crate::explore::Order;
use crate::lanes::soft::{DOUBLE, HALF, Round};
use crate::lanes::{Row64, for_each_lane, lanes_of};
use crate::memory::Space;
use crate::observe::{AccessKind, Detail};
use crate::program::{
    Access, Base, Geometry, LANES, Outside, Place, Property, Slot, Strength, SurfaceAccess,
    TextureAction, TextureOp,
};
use crate::texture::{self, Texels, Texture};

use super::warp::Warp;
use super::{ExecContext, Launched, Outcome, Probe, trouble};

impl Warp {
    pub(super) fn texture<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &TextureOp,
        mask: u32,
    ) -> Outcome<()> {
        if let Some(world) = context.probe.exploration() {
            world.refuse("the kernel has textures or surfaces, which explorations do not support");
        }
        match op.action {
            TextureAction::Load(access) => {
                return self.surface(context, op, access, AccessKind::Load, mask);
            }
            TextureAction::Store(access) => {
                return self.surface(context, op, access, AccessKind::Store, mask);
            }
            TextureAction::Reduce(access, _) => {
                return self.surface(context, op, access, AccessKind::Reduction, mask);
            }
            _ => {}
        }
        for lane in lanes_of(mask) {
            self.read_texture(context, op, lane)?;
        }
        if P::ENABLED {
            self.report(context, mask, Detail::None);
        }
        Ok(())
    }

    fn read_texture<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &TextureOp,
        lane: usize,
    ) -> Outcome<()> {
        let launch = context.launch;
        let handle = self.regs.doubles[usize::from(op.handle)][lane];
        if let TextureAction::Query { property, surface } = op.action {
            let texture = (!surface).then(|| launch.objects.textures.get(&handle)).flatten();
            let texels =
                if surface { launch.objects.surfaces.get(&handle) } else { texture.map(|t| &t.texels) };
            let Some(texels) = texels else { return no_object(handle, surface, lane) };
            let normalized = texture.is_some_and(|texture| texture.sampler.normalized);
            let value = match property {
                Property::Width => texels.extent[0],
                Property::Height => texels.extent[1],
                Property::Depth => texels.extent[2],
                Property::Layers => texels.layers.unwrap_or(0),
                Property::Normalized => u32::from(normalized),
                Property::Levels => 1,
            };
            self.set(op.data[0], lane, value.into());
            return Ok(());
        }
        let Some(found) = launch.objects.textures.get(&handle) else {
            return no_object(handle, false, lane);
        };
        check_shape(&found.texels, &op.geometry, lane)?;
        let (plane, place) = self.place(op, found, lane);
        let mut read = |at| read_texel(launch, &mut context.hint, found, at, lane);
        let bits = match (op.action, place) {
            (TextureAction::Gather(channel), texture::Place::At([x, y, _])) => {
                texture::gather(found, [x, y], plane, channel.into(), &mut read)?
            }
            _ => texture::sample(found, place, plane, &mut read)?,
        };
        match op.action {
            TextureAction::Sample { halves: true, .. } => {
                let half = |bits: u32| {
                    let value = f64::from(f32::from_bits(bits));
                    HALF.pack(DOUBLE.unpack(value.to_bits()), Round::Nearest)
                };
                self.set(op.data[0], lane, half(bits[0]) | half(bits[1]) << 16);
                self.set(op.data[1], lane, half(bits[2]) | half(bits[3]) << 16);
            }
            _ => {
                for (slot, bits) in op.data.into_iter().zip(bits) {
                    self.set(slot, lane, bits.into());
                }
            }
        }
        Ok(())
    }

    fn place(&self, op: &TextureOp, found: &Texture, lane: usize) -> (u32, texture::Place) {
        let texels = &found.texels;
        let geometry = op.geometry;
        let word = |index: usize| self.regs.words[usize::from(op.coordinates[index])][lane];
        let first = usize::from(geometry.layered);
        let last_layer = texels.layers.unwrap_or(1).max(1) - 1;
        let layer = if geometry.layered { word(0).min(last_layer) } else { 0 };
        let axis = |index: usize| match index < geometry.coordinates() - first {
            true => word(first + index),
            false => 0,
        };
        let axes = [axis(0), axis(1), axis(2)];
        if let TextureAction::Sample { texels: true, .. } = op.action {
            return (layer, texture::Place::Texel(axes.map(|axis| axis as i32)));
        }
        let at = axes.map(f32::from_bits);
        if geometry.cube {
            let (face, [s, t]) = on_face(at);
            // Coordinates on a face are normalized; textures in texel units need them scaled.
            let scale = if found.sampler.normalized { 1.0 } else { texels.extent[0] as f32 };
            return (6 * layer + face, texture::Place::At([s * scale, t * scale, 0.0]));
        }
        (layer, texture::Place::At(at))
    }

    fn surface<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        op: &TextureOp,
        access: SurfaceAccess,
        kind: AccessKind,
        mask: u32,
    ) -> Outcome<()> {
        let (mut addresses, mut inside): (Row64, u32) = ([0; LANES], 0);
        for lane in lanes_of(mask) {
            if let Some(address) = self.surface_address(context.launch, op, access, kind, lane)? {
                addresses[lane] = address;
                inside |= 1 << lane;
            }
        }
        let atomic = match op.action {
            TextureAction::Reduce(_, operation) => Some(operation),
            _ => None,
        };
        let at = Place { space: Space::Global, cluster: false, base: Base::Absolute, offset: 0 };
        let (SurfaceAccess { ty, count, .. }, data) = (access, op.data);
        let (strength, order) = (Strength::Weak, Order::default());
        let access =
            Access { at, ty, count, data, strength, order, atomic, results: None, swap: Slot::Sink };
        if kind == AccessKind::Load {
            for_each_lane(mask & !inside, |lane| {
                op.data.into_iter().for_each(|slot| self.set(slot, lane, 0));
            });
        }
        self.by_space(context, &access, inside, &mut addresses, kind)
    }

    /// Returns the address of a lane's access; `None` if it is out of bounds and the mode is `.zero`.
    fn surface_address(
        &self,
        launch: &Launched<'_>,
        op: &TextureOp,
        access: SurfaceAccess,
        kind: AccessKind,
        lane: usize,
    ) -> Outcome<Option<u64>> {
        let handle = self.regs.doubles[usize::from(op.handle)][lane];
        let Some(texels) = launch.objects.surfaces.get(&handle) else {
            return no_object(handle, true, lane);
        };
        let geometry = op.geometry;
        check_shape(texels, &geometry, lane)?;
        let word = |index: usize| self.regs.words[usize::from(op.coordinates[index])][lane];
        let first = usize::from(geometry.layered);
        let axis = |index: usize| match index < geometry.dimensions as usize {
            true => word(first + index) as i32,
            false => 0,
        };
        let plane = if geometry.layered { word(0) as i32 } else { axis(2) };
        let bytes = access.ty.bytes() * u32::from(access.count);
        let width = texels.extent[0] * texels.texel_bytes();
        let last = [width.saturating_sub(bytes), texels.extent[1] - 1, texels.planes() - 1];
        let given = [axis(0), axis(1), plane];
        let is_inside =
            given.iter().zip(last).all(|(&at, last)| (0..=i64::from(last)).contains(&at.into()));
        let at: [u32; 3] = match access.outside {
            _ if is_inside => given.map(|at| at as u32),
            Outside::Zero => return Ok(None),
            Outside::Clamp => {
                std::array::from_fn(|axis| i64::from(given[axis]).clamp(0, last[axis].into()) as u32)
            }
            Outside::Trap => {
                let extent = [width, texels.extent[1], texels.planes()];
                let access = super::memory::name(kind);
                let place = SurfacePlace { access, bytes, at: given, extent };
                return trouble(FaultKind::Surface(place), lane as u32);
            }
        };
        let row = u64::from(at[1]) * texels.row_bytes + u64::from(at[2]) * texels.plane_bytes;
        Ok(Some(texels.address + row + u64::from(at[0])))
    }
}

/// Reads the channels of a texel, without conversion.
fn read_texel(
    launch: &Launched<'_>,
    hint: &mut usize,
    texture: &Texture,
    at: [u32; 3],
    lane: usize,
) -> Outcome<[u32; 4]> {
    let texels = &texture.texels;
    let (address, each) = (texels.at(at), texels.channel.bytes());
    let Some(allocation) = launch.view.find(address, texels.texel_bytes().into(), hint) else {
        let allowed = launch.view.missed(address, texels.texel_bytes().into(), |_| None);
        let (access, space, bytes) = ("load", Space::Global, texels.texel_bytes());
        let kind = FaultKind::OutOfBounds { access, space, address, bytes, allowed };
        return trouble(kind, lane as u32);
    };
    let mut bits = [0; 4];
    for (index, bits) in bits.iter_mut().take(texels.channels as usize).enumerate() {
        let offset = address - allocation.base() + index as u64 * u64::from(each);
        *bits = allocation.load(offset, each, Ordering::Relaxed) as u32;
    }
    Ok(bits)
}

#[cold]
fn no_object<T>(handle: u64, surface: bool, lane: usize) -> Outcome<T> {
    let what = if surface { "surface" } else { "texture" };
    trouble(FaultKind::Texture(TextureProblem::NoObject { what, handle }), lane as u32)
}

fn check_shape(texels: &Texels, geometry: &Geometry, lane: usize) -> Outcome<()> {
    let alike = texels.cube == geometry.cube
        && texels.layers.is_some() == geometry.layered
        && (texels.cube || texels.dimensions == geometry.dimensions);
    // A surface of a cube is layered: its layers are the faces.
    if alike || texels.cube && !geometry.cube && geometry.layered && geometry.dimensions == 2 {
        return Ok(());
    }
    let problem = TextureProblem::Geometry {
        named: geometry.name,
        dimensions: texels.dimensions,
        layered: texels.layers.is_some(),
        cube: texels.cube,
    };
    trouble(FaultKind::Texture(problem), lane as u32)
}

/// Returns the face of a cube that a direction points to, and the normalized place on it.
fn on_face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let most = x.abs().max(y.abs()).max(z.abs());
    let (face, s, t) = if x.abs() == most {
        if x >= 0.0 { (0, -z, -y) } else { (1, z, -y) }
    } else if y.abs() == most {
        if y >= 0.0 { (2, x, z) } else { (3, x, -z) }
    } else if z >= 0.0 {
        (4, x, -y)
    } else {
        (5, -x, -y)
    };
    (face, [s, t].map(|along| (along / most + 1.0) / 2.0))
}
