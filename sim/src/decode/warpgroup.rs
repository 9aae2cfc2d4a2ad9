//! Matrix products of warpgroups: `wgmma`.

use crate::ast::{Operand, Type};
use crate::lanes::soft::Round;
use crate::program::{
    Described, Element, Fragment, GroupProduct, GroupShape, MatrixOp, Multiplicand, Op, Role, Shape,
    Spread, Summing,
};
use Element::{B1, Bf16, E4m3, E5m2, F16, S8, Tf32, U8};

use super::context::{Context, Result};
use super::matrix::{element, held, push, registers, sums, together};

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

/// Rows of a product, and those of them that one warp computes.
const ROWS: &str = "m64n";
const WARP_ROWS: u32 = 16;

const SHAPES: [GroupShape; 5] = [
    GroupShape { k: 16, elements: &[F16, Bf16], by_eight: true },
    GroupShape { k: 8, elements: &[Tf32], by_eight: true },
    GroupShape { k: 32, elements: &[E4m3, E5m2], by_eight: true },
    GroupShape { k: 32, elements: &[S8, U8], by_eight: false },
    GroupShape { k: 256, elements: &[B1], by_eight: false },
];

pub(super) fn wgmma(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let operations = [("mma_async", 0), ("fence", 1), ("commit_group", 1), ("wait_group", 2)];
    let operation = cx.require("an operation", &operations)?;
    if cx.has("sp") {
        return Err("products of sparse matrices (`wgmma.mma_async.sp`) are not supported".to_owned());
    }
    together(cx)?;
    match operation {
        0 => return product(cx),
        1 => cx.arity(0..=0)?,
        _ => cx.arity(1..=1)?,
    };
    if operation == 2 && !matches!(cx.operand(0)?, Operand::Int(0..=0xffff_ffff)) {
        return Err("the number of groups that may stay pending must be a constant".to_owned());
    }
    Ok(push(cx, MatrixOp::GroupOrder))
}

/// Decodes `wgmma.mma_async`, whose operands are D, A, B, scale-d, and for floats the scales of A and B,
/// for 16-bit floats also the transpositions of the matrices in shared memory.
fn product(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let saturates = cx.take("satfinite");
    let (name, [n, k]) = shape(cx)?;
    let [d, a, b] = [element(cx)?, element(cx)?, element(cx)?];
    let known = SHAPES.iter().find(|shape| shape.elements.contains(&a) && shape.k == k);
    let alike = a == b || !matches!(a, F16 | Bf16);
    let Some(known) = known.filter(|shape| shape.elements.contains(&b) && alike) else {
        return Err("`wgmma` has no product of these types in this shape".to_owned());
    };
    if !sums(a).contains(&d) {
        return Err("`wgmma` has no product of these types with this type of D".to_owned());
    }
    if !known.allows(n) {
        let allowed = if known.by_eight { "8 to 256" } else { "8, 24, and 16 to 256 in steps of 16" };
        let steps = if known.by_eight { " in steps of 8" } else { "" };
        return Err(format!("shape `.{name}` has n {n}; allowed for these types is {allowed}{steps}"));
    }
    if saturates && !a.is_integer() {
        return Err("only products of integers take `.satfinite`".to_owned());
    }
    if a == B1 && !(cx.take("and") && cx.take("popc")) {
        return Err("products of `.b1` need `.and.popc`".to_owned());
    }
    let in_registers = matches!(cx.operand(1)?, Operand::List(_));
    let transposes = a.bits() == 16;
    let scales = if a.is_integer() || a == B1 { 0 } else { 2 };
    let matrices = if in_registers { 1 } else { 2 };
    let operands = 4 + scales + if transposes { matrices } else { 0 };
    cx.arity(operands..=operands)?;
    let adds = cx.predicate(3)?;
    let mut negative = [false; 2];
    for (index, negative) in negative.iter_mut().enumerate().take(scales) {
        *negative = choice(cx, 4 + index, "a scale of `wgmma`", [1, -1])?;
    }
    let mut transposed = [false; 2];
    let first = 2 - matrices;
    for (index, transposed) in transposed[first..].iter_mut().enumerate().filter(|_| transposes) {
        *transposed = choice(cx, 6 + index, "a transposition of `wgmma`", [0, 1])?;
    }
    let shape = Shape { m: WARP_ROWS, n, k };
    let fragment = |role, element| Fragment { role, element, shape, spread: Spread::Groups };
    let described = |cx: &mut Cx<'_, '_, '_>, index, fragment, transposed| {
        let descriptor = cx.source(index, Type::B64)?;
        Ok::<_, String>(Described { fragment, descriptor, transposed })
    };
    let matrix = fragment(Role::A, a);
    let a = match in_registers {
        true => Multiplicand::Held(held(cx, 1, matrix, None, false)?),
        false => Multiplicand::Described(described(cx, 1, matrix, transposed[0])?),
    };
    let b = described(cx, 2, fragment(Role::B, b), transposed[1])?;
    // D is read before it is written.
    registers(cx, 0, Type::B32, false)?;
    let d = held(cx, 0, fragment(Role::Sum, d), None, true)?;
    let summing = Summing { saturates, both: true, round: Round::Nearest };
    let subtracts = negative[0] != negative[1];
    let product = GroupProduct { a, b, d, adds, subtracts, summing };
    Ok(push(cx, MatrixOp::GroupProduct(Box::new(product))))
}

/// Takes the shape; returns its name, and n and k.
fn shape<'s>(cx: &mut Cx<'_, '_, 's>) -> Result<(&'s str, [u32; 2])> {
    let name = cx.peek().unwrap_or_default();
    let sizes = name.strip_prefix(ROWS).and_then(|rest| rest.split_once('k'));
    let sizes = sizes.and_then(|(n, k)| Some([n.parse().ok()?, k.parse().ok()?]));
    let Some(sizes) = sizes else {
        return Err("`wgmma` needs a shape such as `.m64n8k16`".to_owned());
    };
    cx.take(name);
    Ok((name, sizes))
}

/// Returns whether an operand is the second of two allowed constants, and not the first.
fn choice(cx: &Cx<'_, '_, '_>, index: usize, what: &str, allowed: [i64; 2]) -> Result<bool> {
    let [no, yes] = allowed;
    match cx.operand(index)? {
        Operand::Int(value) if i128::from(*value) == i128::from(no) => Ok(false),
        Operand::Int(value) if i128::from(*value) == i128::from(yes) => Ok(true),
        _ => Err(format!("{what} must be {no} or {yes}")),
    }
}
