//! Clusters: addresses of other blocks' shared memory, and barriers of the whole cluster.

use crate::ast::Type;
use crate::lanes::alu;
use crate::memory::{Space, mapped, owner, window};
use crate::program::{Init, Op, Operands, Special};

use super::context::{Context, Result};
use super::rows::File;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

fn address_type(cx: &mut Cx<'_, '_, '_>) -> Result<Type> {
    let ty = cx.ty()?;
    if matches!(ty, Type::U32 | Type::U64) { Ok(ty) } else { cx.wrong_type(ty) }
}

/// Decodes `mapa`, which maps an address to the shared memory of the block with a given rank in the
/// cluster. Generic and shared addresses hold the rank in the same bits.
pub(super) fn mapa(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let shared = cx.take("shared::cluster");
    let ty = address_type(cx)?;
    generic_needs_64(shared, ty)?;
    let f = match ty {
        Type::U32 => alu!(U32 <- U32, U32: |address, rank| mapped(u64::from(address), rank) as u32),
        _ => alu!(U64 <- U64, U32: mapped),
    };
    cx.alu(f, &[ty, ty, Type::U32])
}

fn generic_needs_64(shared: bool, ty: Type) -> Result<()> {
    if shared || ty.bits() == 64 {
        return Ok(());
    }
    Err("a generic address needs 64 bits; 32 bits are allowed with `.shared::cluster`".to_owned())
}

pub(super) fn getctarank(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let shared = cx.take("shared::cluster");
    let ty = address_type(cx)?;
    generic_needs_64(shared, ty)?;
    cx.arity(2..=2)?;
    let a = cx.source(1, ty)?;
    // An address without a rank refers to the executing block's memory.
    let b = cx.rows.constant(Init::Special(Special::RankInCluster));
    let d = cx.destination(0, Type::U32)?;
    let f = match (File::of(ty), shared) {
        (File::Word, _) => alu!(U32 <- U32, U32: |address, own| rank(u64::from(address), own)),
        (_, true) => alu!(U32 <- U64, U32: rank),
        (_, false) => alu!(U32 <- U64, U32: |address, own| {
            rank(address.wrapping_sub(window(Space::Shared)), own)
        }),
    };
    Ok(Op::Alu { f, o: Operands { d, a, b, ..Operands::default() } })
}

fn rank(address: u64, own: u32) -> u32 {
    owner(address).0.map_or(own, |rank| rank as u32)
}

/// Decodes `barrier.cluster`, which all lanes of a warp execute together, even without `.aligned`.
pub(super) fn barrier(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let wait = cx.require("an operation", &[("arrive", false), ("wait", true)])?;
    cx.ignore(|name| {
        matches!(name, "aligned" | "acquire") || !wait && matches!(name, "release" | "relaxed")
    });
    cx.arity(0..=0)?;
    Ok(Op::ClusterBarrier { wait })
}
