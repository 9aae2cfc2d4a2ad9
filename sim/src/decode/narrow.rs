//! `cvt` to and from 8-bit floats and `tf32`.

use crate::ast::Type;
use crate::lanes::each;
use crate::lanes::narrow::{Narrowing, bytes_of_halves, bytes_of_singles, halves_of_bytes, tf32};
use crate::lanes::soft::Round;
use crate::program::Op;

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

const PAIRS: [(&str, bool); 2] = [("e4m3x2", false), ("e5m2x2", true)];

pub(super) fn cvt(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let round =
        cx.require("a rounding", &[("rn", Round::Nearest), ("rz", Round::Zero), ("rna", Round::Away)])?;
    let (finite, relu) = (cx.take("satfinite"), cx.take("relu"));
    if cx.take("tf32") {
        let ty = cx.ty()?;
        if ty != Type::F32 {
            return cx.wrong_type(ty);
        }
        let imm = Narrowing { e5m2: false, relu, finite, round }.encode();
        return cx.alu_with(each!(U32 <- F32: tf32), &[Type::B32, ty], imm);
    }
    if round != Round::Nearest {
        return Err("conversions of 8-bit floats must round to nearest (`.rn`)".to_owned());
    }
    // The pair of 8-bit floats is either the first type or the second.
    let first = cx.peek();
    let to_pair = first.is_some_and(|name| PAIRS.iter().any(|(pair, _)| *pair == name));
    let e5m2 = cx.require("a type", &PAIRS)?;
    let ty = cx.ty()?;
    let imm = Narrowing { e5m2, relu, finite, round }.encode();
    match (to_pair, ty) {
        (true, Type::F32 | Type::F16x2) if !finite => {
            Err("a conversion to 8-bit floats needs `.satfinite`".to_owned())
        }
        (true, Type::F32) => {
            cx.alu_with(each!(U16 <- F32, F32: bytes_of_singles), &[Type::B16, ty, ty], imm)
        }
        (true, Type::F16x2) => cx.alu_with(each!(U16 <- U32: bytes_of_halves), &[Type::B16, ty], imm),
        (false, Type::F16x2) if !finite => {
            cx.alu_with(each!(U32 <- U16: halves_of_bytes), &[ty, Type::B16], imm)
        }
        _ => cx.wrong_type(ty),
    }
}
