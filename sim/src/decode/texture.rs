//! Texture and surface instructions, whose objects are named by 64-bit handles.

use crate::ast::{Operand, Type};
use crate::program::{
    AtomicOp, Geometry, Op, Outside, Property, SurfaceAccess, TextureAction, TextureOp,
};

use super::context::{Context, Result};
use super::memory;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Decodes `tex`. A texture has one mipmap level, which an explicit level or gradients also select.
pub(super) fn tex(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let level =
        cx.choose(&[("base", Level::Base), ("level", Level::Number), ("grad", Level::Gradients)]);
    let geometry = geometry(cx)?;
    let count = cx.require("a vector", &[("v4", 4), ("v2", 2)])?;
    let (ty, by) = (cx.ty()?, cx.ty()?);
    let texels = match by {
        Type::S32 => true,
        Type::F32 => false,
        _ => return cx.wrong_type(by),
    };
    let halves = ty == Type::F16x2;
    if !halves && !matches!(ty, Type::F32 | Type::U32 | Type::S32) || halves != (count == 2) {
        return cx.wrong_type(ty);
    }
    if texels && geometry.cube {
        return cx.wrong_type(by);
    }
    let extra = match level {
        None | Some(Level::Base) => 0,
        Some(Level::Number) => 1,
        Some(Level::Gradients) => 2,
    };
    cx.arity(2 + extra..=2 + extra)?;
    for index in 2..2 + extra {
        gradient(cx, index)?;
    }
    let (handle, coordinates) = place(cx, 1, geometry, if texels { Type::S32 } else { Type::F32 })?;
    let data = memory::slots(cx, cx.operand(0)?, Type::B32, count, true)?;
    let action = TextureAction::Sample { texels, halves };
    Ok(push(cx, TextureOp { action, geometry, handle, coordinates, data }))
}

#[derive(Clone, Copy)]
enum Level {
    Base,
    Number,
    Gradients,
}

/// Checks a level or gradient operand, which has no effect since there is one level.
fn gradient(cx: &mut Cx<'_, '_, '_>, index: usize) -> Result<()> {
    match cx.operand(index)? {
        Operand::List(parts) => {
            parts.iter().try_for_each(|part| cx.source_of(part, Type::B32).map(|_| ()))
        }
        part => cx.source_of(part, Type::B32).map(|_| ()),
    }
}

pub(super) fn tld4(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let component = cx.require("a channel", &[("r", 0), ("g", 1), ("b", 2), ("a", 3)])?;
    let geometry = geometry(cx)?;
    if geometry.dimensions != 2 {
        return Err("`tld4` needs a geometry of two dimensions".to_owned());
    }
    cx.require("a vector", &[("v4", ())])?;
    let (ty, by) = (cx.ty()?, cx.ty()?);
    if !matches!(ty, Type::F32 | Type::U32 | Type::S32) || by != Type::F32 {
        return cx.wrong_type(if by == Type::F32 { ty } else { by });
    }
    cx.arity(2..=2)?;
    let (handle, coordinates) = place(cx, 1, geometry, by)?;
    let data = memory::slots(cx, cx.operand(0)?, Type::B32, 4, true)?;
    let action = TextureAction::Gather(component);
    Ok(push(cx, TextureOp { action, geometry, handle, coordinates, data }))
}

pub(super) fn txq(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    query(cx, false)
}

pub(super) fn suq(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    query(cx, true)
}

fn query(cx: &mut Cx<'_, '_, '_>, surface: bool) -> Result<Op> {
    let property = cx.require(
        "a property",
        &[
            ("width", Property::Width),
            ("height", Property::Height),
            ("depth", Property::Depth),
            ("array_size", Property::Layers),
            ("normalized_coords", Property::Normalized),
            ("num_mipmap_levels", Property::Levels),
        ],
    )?;
    let ty = cx.ty()?;
    if ty != Type::B32 {
        return cx.wrong_type(ty);
    }
    cx.arity(2..=2)?;
    let Operand::Address { base: Some(name), offset: 0 } = cx.operand(1)? else {
        return Err("the handle must be a register in brackets".to_owned());
    };
    let handle = cx.source_of(&Operand::Name(name, None), Type::B64)?;
    let data = memory::slots(cx, cx.operand(0)?, ty, 1, true)?;
    let action = TextureAction::Query { property, surface };
    let geometry = Geometry::ALL[0];
    Ok(push(cx, TextureOp { action, geometry, handle, coordinates: [0; 4], data }))
}

pub(super) fn suld(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    surface(cx, |cx| {
        cx.arity(2..=2)?;
        Ok((1, 0, None))
    })
}

pub(super) fn sust(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    surface(cx, |cx| {
        cx.arity(2..=2)?;
        Ok((0, 1, None))
    })
}

pub(super) fn sured(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    surface(cx, |cx| {
        cx.arity(2..=2)?;
        let operations = [
            ("add", AtomicOp::Add),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
        ];
        Ok((0, 1, Some(cx.require("an operation", &operations)?)))
    })
}

/// Decodes an access to a surface's bytes. `how` returns the operand indices of the coordinates and of
/// the data, and the operation of an atomic.
fn surface(
    cx: &mut Cx<'_, '_, '_>,
    how: impl Fn(&mut Cx<'_, '_, '_>) -> Result<(usize, usize, Option<AtomicOp>)>,
) -> Result<Op> {
    if cx.take("p") {
        return Err(
            "formatted surface access (`.p`) is not supported; use byte access (`.b`)".to_owned()
        );
    }
    cx.require("an access mode", &[("b", ())])?;
    let (at, data, operation) = how(cx)?;
    let geometry = geometry(cx)?;
    cx.ignore(|name| matches!(name, "ca" | "cg" | "cs" | "cv" | "wb" | "wt"));
    let count = memory::vector(cx);
    let ty = cx.ty()?;
    let fits = match operation {
        Some(AtomicOp::And | AtomicOp::Or) => ty == Type::B32,
        Some(AtomicOp::Add) => matches!(ty, Type::U32 | Type::S32 | Type::U64),
        Some(_) => matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64),
        None => matches!(ty, Type::B8 | Type::B16 | Type::B32 | Type::B64),
    };
    if !fits || u32::from(count) * ty.bytes() > 16 || operation.is_some() && count != 1 {
        return cx.wrong_type(ty);
    }
    let outside = cx.require(
        "an out-of-bounds mode",
        &[("trap", Outside::Trap), ("clamp", Outside::Clamp), ("zero", Outside::Zero)],
    )?;
    let (handle, coordinates) = place(cx, at, geometry, Type::S32)?;
    let load = at > data;
    let data = memory::slots(cx, cx.operand(data)?, ty, count, load)?;
    let access = SurfaceAccess { ty, count, outside };
    let action = match operation {
        Some(operation) => TextureAction::Reduce(access, operation),
        None if load => TextureAction::Load(access),
        None => TextureAction::Store(access),
    };
    Ok(push(cx, TextureOp { action, geometry, handle, coordinates, data }))
}

fn geometry(cx: &mut Cx<'_, '_, '_>) -> Result<Geometry> {
    cx.require("a geometry", &Geometry::ALL.map(|geometry| (geometry.name, geometry)))
}

/// Returns the registers with the handle, the layer and coordinates of an operand `[handle, {…}]`.
fn place(
    cx: &mut Cx<'_, '_, '_>,
    index: usize,
    geometry: Geometry,
    ty: Type,
) -> Result<(u16, [u16; 4])> {
    let Operand::Located { base, at } = cx.operand(index)? else {
        return Err(format!("`{}` needs a handle and coordinates in brackets", cx.instruction.opcode));
    };
    let [at] = at.as_slice() else {
        return Err(
            "separate operands for texture and sampler are not supported; give one texture handle"
                .to_owned(),
        );
    };
    let given = match at {
        Operand::List(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let wanted = geometry.coordinates();
    // Three coordinates may be written as four; the last one is ignored.
    if given.len() != wanted && (given.len() != 4 || wanted != 3) {
        return Err(format!(
            "{} coordinates are given, but {wanted} are needed for `.{}`",
            given.len(),
            geometry.name
        ));
    }
    let handle = cx.source_of(&Operand::Name(base, None), Type::B64)?;
    let mut rows = [0; 4];
    for (index, (row, part)) in rows.iter_mut().zip(&given[..wanted]).enumerate() {
        let layer = geometry.layered && index == 0;
        *row = cx.source_of(part, if layer { Type::U32 } else { ty })?;
    }
    Ok((handle, rows))
}

fn push(cx: &mut Cx<'_, '_, '_>, op: TextureOp) -> Op {
    cx.textures.push(op);
    Op::Texture(cx.textures.len() as u32 - 1)
}
