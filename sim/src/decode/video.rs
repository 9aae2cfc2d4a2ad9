//! SIMD video instructions on the four bytes or two halves of a word, such as `vadd4`. Selections of
//! parts are not supported.

use crate::ast::Type;
use crate::lanes::each;
use crate::lanes::video::{Operation, Video, video};
use crate::program::Op;

use super::context::{Context, Result};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

pub(super) fn arithmetic(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (name, bits) = parts(cx);
    let operation = match name {
        "vadd" => Operation::Add,
        "vsub" => Operation::Sub,
        "vavrg" => Operation::Average,
        "vabsdiff" => Operation::AbsoluteDifference,
        "vmin" => Operation::Min,
        _ => Operation::Max,
    };
    let signed = [signed(cx)?, signed(cx)?, signed(cx)?];
    let (saturates, sums) = (cx.take("sat"), cx.take("add"));
    finish(cx, Video { operation, bits, signed, saturates, sums })
}

pub(super) fn set(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let (_, bits) = parts(cx);
    let signed = [false, signed(cx)?, signed(cx)?];
    let operation = cx.require(
        "a comparison",
        &[
            ("eq", Operation::Equal),
            ("ne", Operation::NotEqual),
            ("lt", Operation::Less),
            ("le", Operation::LessEqual),
            ("gt", Operation::Greater),
            ("ge", Operation::GreaterEqual),
        ],
    )?;
    let sums = cx.take("add");
    finish(cx, Video { operation, bits, signed, saturates: false, sums })
}

/// Returns the opcode without the number of parts, and the number of bits of a part.
fn parts<'s>(cx: &Cx<'_, '_, 's>) -> (&'s str, u32) {
    let opcode = cx.instruction.opcode;
    let (name, count) = opcode.split_at(opcode.len() - 1);
    (name, if count == "4" { 8 } else { 16 })
}

fn signed(cx: &mut Cx<'_, '_, '_>) -> Result<bool> {
    match cx.ty()? {
        Type::U32 => Ok(false),
        Type::S32 => Ok(true),
        ty => cx.wrong_type(ty),
    }
}

fn finish(cx: &mut Cx<'_, '_, '_>, how: Video) -> Result<Op> {
    cx.alu_with(each!(U32 <- U32, U32, U32: video), &[Type::B32; 4], how.encode())
}
