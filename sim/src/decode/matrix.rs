//! Matrix instructions: `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix`.

use crate::ast::{Operand, Type};
use crate::lanes::soft::Round;
use crate::memory::Space;
use crate::program::{
    Element, Fragment, Held, Init, MatrixMove, MatrixOp, Op, Product, Role, RowsMove, Shape, Sparsity,
    Spread, Summing,
};
use Element::{B1, Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};

use super::context::{Context, Result};
use super::memory;

type Cx<'c, 'a, 's> = Context<'c, 'a, 's>;

const ELEMENTS: [(&str, Element); 13] = [
    ("f16", F16),
    ("bf16", Bf16),
    ("tf32", Tf32),
    ("e4m3", E4m3),
    ("e5m2", E5m2),
    ("f32", F32),
    ("f64", F64),
    ("s8", S8),
    ("u8", U8),
    ("s4", S4),
    ("u4", U4),
    ("b1", B1),
    ("s32", S32),
];

/// The name of a shape, the shape, and the element types of A and B that it supports.
type Known = (&'static str, Shape, &'static [Element]);

const fn known(name: &'static str, [m, n, k]: [u32; 3], elements: &'static [Element]) -> Known {
    (name, Shape { m, n, k }, elements)
}

const MMA: [Known; 11] = [
    known("m8n8k4", [8, 8, 4], &[F16, F64]),
    known("m8n8k16", [8, 8, 16], &[S8, U8]),
    known("m8n8k32", [8, 8, 32], &[S4, U4]),
    known("m8n8k128", [8, 8, 128], &[B1]),
    known("m16n8k4", [16, 8, 4], &[Tf32, F64]),
    known("m16n8k8", [16, 8, 8], &[F16, Bf16, Tf32, F64]),
    known("m16n8k16", [16, 8, 16], &[F16, Bf16, F64, S8, U8, E4m3, E5m2]),
    known("m16n8k32", [16, 8, 32], &[S8, U8, S4, U4, E4m3, E5m2]),
    known("m16n8k64", [16, 8, 64], &[S4, U4]),
    known("m16n8k128", [16, 8, 128], &[B1]),
    known("m16n8k256", [16, 8, 256], &[B1]),
];

const WMMA: [Known; 7] = [
    known("m16n16k16", [16, 16, 16], &[F16, Bf16, S8, U8]),
    known("m32n8k16", [32, 8, 16], &[F16, Bf16, S8, U8]),
    known("m8n32k16", [8, 32, 16], &[F16, Bf16, S8, U8]),
    known("m16n16k8", [16, 16, 8], &[Tf32]),
    known("m8n8k4", [8, 8, 4], &[F64]),
    known("m8n8k32", [8, 8, 32], &[S4, U4]),
    known("m8n8k128", [8, 8, 128], &[B1]),
];

pub(super) const fn sums(element: Element) -> &'static [Element] {
    match element {
        F16 | E4m3 | E5m2 => &[F16, F32],
        Bf16 | Tf32 => &[F32],
        F64 => &[F64],
        _ => &[S32],
    }
}

/// `wmma` fragments of halves take eight registers, regardless of the shape.
const WMMA_HALVES: u32 = 8;

/// Returns the shape of the stored half of A, and the element types that `mma.sp` supports for a shape:
/// those of the dense product with the stored shape, with exceptions.
fn sparse(shape: Shape) -> (Shape, Vec<Element>) {
    let stored = Shape { k: shape.k / 2, ..shape };
    let dense = MMA.iter().find(|(_, dense, _)| *dense == stored && shape.m == 16);
    let exists = |element: &Element| match element {
        F64 | B1 => false,
        E4m3 | E5m2 => shape.k == 64,
        _ => true,
    };
    let elements = dense.map_or(&[][..], |known| known.2);
    (stored, elements.iter().copied().filter(exists).collect())
}

pub(super) fn mma(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    let ordered = cx.choose(&[("sp", false), ("sp::ordered_metadata", true)]);
    together(cx)?;
    let (shape, elements) = shape(cx, &MMA)?;
    let (stored, elements) = match ordered {
        Some(_) => sparse(shape),
        None => (shape, elements.to_vec()),
    };
    let [a_rows, b_columns] = layouts(cx)?;
    let saturates = cx.take("satfinite");
    let [d, a, b, c] = [element(cx)?, element(cx)?, element(cx)?, element(cx)?];
    let quads = a == F16 && shape.k == 4;
    if !(quads || a_rows && b_columns) {
        return Err("`mma` needs A in `.row` and B in `.col` layout in this shape".to_owned());
    }
    let spread = |along| if quads { Spread::Quads { along } } else { Spread::Groups };
    let fragment = |role, element, along| Fragment { role, element, shape, spread: spread(along) };
    let fragments = [
        fragment(Role::Sum, d, true),
        Fragment { shape: stored, ..fragment(Role::A, a, a_rows) },
        fragment(Role::B, b, !b_columns),
        fragment(Role::Sum, c, true),
    ];
    if ordered.is_some() && a.bits() == 8 && !a.is_integer() && [c, d].contains(&F16) {
        return Err("`mma.sp` sums elements of `.e4m3` and `.e5m2` only in `.f32`".to_owned());
    }
    product(cx, fragments, &elements, (saturates, ordered), None)
}

pub(super) fn wmma(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    match cx.require("an operation", &[("load", 0), ("store", 1), ("mma", 2)])? {
        0 => move_matrix(cx, true),
        1 => move_matrix(cx, false),
        _ => {
            together(cx)?;
            let (shape, elements) = shape(cx, &WMMA)?;
            // The modifiers `.row` and `.col` have no effect: with both, each lane gets the same
            // elements of a loaded fragment.
            let _layouts = layouts(cx)?;
            let saturates = cx.take("satfinite");
            let first = element(cx)?;
            let second = element(cx)?;
            let [a, b, c] = match cx.choose(&ELEMENTS) {
                Some(b) => [second, b, element(cx)?],
                None => [F16, F16, second],
            };
            let fragment = |role, element| Fragment { role, element, shape, spread: Spread::Groups };
            let fragments = [
                fragment(Role::Sum, first),
                fragment(Role::A, a),
                fragment(Role::B, b),
                fragment(Role::Sum, c),
            ];
            product(cx, fragments, elements, (saturates, None), Some(WMMA_HALVES))
        }
    }
}

/// Decodes a matrix product. Operands and fragments are in the order D, A, B, C. For a sparse A,
/// `ordered` says whether its metadata must be ordered.
fn product(
    cx: &mut Cx<'_, '_, '_>,
    [d, a, b, c]: [Fragment; 4],
    elements: &[Element],
    (saturates, ordered): (bool, Option<bool>),
    halves: Option<u32>,
) -> Result<Op> {
    let both = cx.choose(&[("and", true), ("xor", false)]);
    if (a.element == B1) != both.is_some() || both.is_some() && !cx.take("popc") {
        return Err(
            "products of `.b1` need `.and.popc` or `.xor.popc`, which no other type takes".to_owned()
        );
    }
    let round = cx.choose(&[
        ("rn", Round::Nearest),
        ("rz", Round::Zero),
        ("rm", Round::Down),
        ("rp", Round::Up),
    ]);
    if round.is_some() && a.element != F64 {
        return Err("only products of `.f64` take a rounding modifier".to_owned());
    }
    let pair = [a.element, b.element];
    let alike = pair[0] == pair[1]
        || [[S8, U8], [S4, U4], [E4m3, E5m2]].iter().any(|of| pair.iter().all(|e| of.contains(e)));
    let fits = pair.iter().all(|element| elements.contains(element)) && alike;
    if !fits || [d, c].iter().any(|sum| !sums(pair[0]).contains(&sum.element)) {
        return Err("`mma` has no product of these types in this shape".to_owned());
    }
    if saturates && !pair[0].is_integer() {
        return Err("only products of integers take `.satfinite`".to_owned());
    }
    let sparsity = match ordered {
        Some(ordered) => Some(sparsity(cx, &a, ordered)?),
        None => {
            cx.arity(4..=4)?;
            None
        }
    };
    let a = held(cx, 1, a, halves, false)?;
    let b = held(cx, 2, b, halves, false)?;
    let c = held(cx, 3, c, None, false)?;
    let d = held(cx, 0, d, None, true)?;
    let (both, round) = (both.unwrap_or(false), round.unwrap_or(Round::Nearest));
    let summing = Summing { saturates, both, round };
    Ok(push(cx, MatrixOp::Product(Box::new(Product { a, sparsity, b, c, d, summing }))))
}

/// Decodes the metadata and the sparsity selector of `mma.sp`.
fn sparsity(cx: &mut Cx<'_, '_, '_>, a: &Fragment, ordered: bool) -> Result<Sparsity> {
    cx.arity(6..=6)?;
    let metadata = cx.source(4, Type::B32)?;
    let lanes = Sparsity::lanes(a);
    match *cx.operand(5)? {
        Operand::Int(selector) if (0..4 / i64::from(lanes)).contains(&selector) => {
            Ok(Sparsity { metadata, first: selector as u32 * lanes, ordered })
        }
        _ => Err(format!("the sparsity selector must be a constant from 0 to {}", 4 / lanes - 1)),
    }
}

fn move_matrix(cx: &mut Cx<'_, '_, '_>, load: bool) -> Result<Op> {
    let role = match load {
        true => cx.require("a matrix", &[("a", Role::A), ("b", Role::B), ("c", Role::Sum)])?,
        false => cx.require("a matrix", &[("d", Role::Sum)])?,
    };
    together(cx)?;
    let row_major = layout(cx)?;
    let (shape, elements) = shape(cx, &WMMA)?;
    let space = memory::space(cx).unwrap_or((Space::Generic, true));
    let element = element(cx)?;
    let fits = match role {
        Role::Sum => elements.iter().any(|&known| sums(known).contains(&element)),
        _ => elements.contains(&element),
    };
    if !fits {
        return Err("`wmma` has no matrix of this element type in this shape".to_owned());
    }
    let fragment = Fragment { role, element, shape, spread: Spread::Groups };
    if element.bits() < 8 && row_major != fragment.packs_rows() {
        return Err("elements of less than 8 bits need A in `.row` and B in `.col` layout".to_owned());
    }
    let count = cx.arity(2..=3)?;
    let at = memory::place(cx, cx.operand(usize::from(load))?, space)?;
    let stride = if count == 3 { Some(cx.source(2, Type::U32)?) } else { None };
    let scratch = cx.rows.constant(Init::Scratch);
    let halves = if role == Role::Sum { None } else { Some(WMMA_HALVES) };
    let held = held(cx, usize::from(!load), fragment, halves, load)?;
    Ok(push(cx, MatrixOp::Move(MatrixMove { held, at, load, row_major, stride, scratch })))
}

pub(super) fn ldmatrix(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    move_rows(cx, true)
}

pub(super) fn stmatrix(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    move_rows(cx, false)
}

fn move_rows(cx: &mut Cx<'_, '_, '_>, load: bool) -> Result<Op> {
    together(cx)?;
    cx.require("a shape", &[("m8n8", ())])?;
    let count: usize = cx.require("a number of matrices", &[("x1", 1), ("x2", 2), ("x4", 4)])?;
    let transposed = cx.take("trans");
    let space = memory::space(cx).unwrap_or((Space::Generic, true));
    if !matches!(space.0, Space::Shared | Space::Generic) {
        return Err(format!("`{}` accesses shared memory only", cx.instruction.opcode));
    }
    let ty = cx.ty()?;
    if ty != Type::B16 {
        return cx.wrong_type(ty);
    }
    cx.arity(2..=2)?;
    let at = memory::place(cx, cx.operand(usize::from(load))?, space)?;
    let scratch = cx.rows.constant(Init::Scratch);
    let registers = registers(cx, usize::from(!load), Type::B32, load)?;
    if registers.len() != count {
        return Err(format!("{} registers are given for {count} matrices", registers.len()));
    }
    Ok(push(cx, MatrixOp::Rows(RowsMove { registers, at, load, transposed, scratch })))
}

pub(super) fn movmatrix(cx: &mut Cx<'_, '_, '_>) -> Result<Op> {
    together(cx)?;
    cx.require("a shape", &[("m8n8", ())])?;
    cx.require("a modifier", &[("trans", ())])?;
    let ty = cx.ty()?;
    if ty != Type::B16 {
        return cx.wrong_type(ty);
    }
    cx.arity(2..=2)?;
    let a = cx.source(1, Type::B32)?;
    let d = cx.destination(0, Type::B32)?;
    Ok(push(cx, MatrixOp::Transpose(d, a)))
}

/// Takes the modifiers that require the whole warp to execute the instruction together.
pub(super) fn together(cx: &mut Cx<'_, '_, '_>) -> Result<()> {
    cx.require("a modifier", &[("sync", ())])?;
    cx.require("a modifier", &[("aligned", ())])
}

fn shape(cx: &mut Cx<'_, '_, '_>, of: &[Known]) -> Result<(Shape, &'static [Element])> {
    let table: Vec<(&str, (Shape, &'static [Element]))> =
        of.iter().map(|&(name, shape, elements)| (name, (shape, elements))).collect();
    cx.require("a shape", &table)
}

/// Takes a layout; `true` is row-major.
fn layout(cx: &mut Cx<'_, '_, '_>) -> Result<bool> {
    cx.require("a layout", &[("row", true), ("col", false)])
}

/// Takes the layouts of A and B; `true` is row-major for A, and column-major for B.
fn layouts(cx: &mut Cx<'_, '_, '_>) -> Result<[bool; 2]> {
    Ok([layout(cx)?, !layout(cx)?])
}

pub(super) fn element(cx: &mut Cx<'_, '_, '_>) -> Result<Element> {
    cx.require("an element type", &ELEMENTS)
}

pub(super) fn held(
    cx: &mut Cx<'_, '_, '_>,
    index: usize,
    fragment: Fragment,
    halves: Option<u32>,
    write: bool,
) -> Result<Held> {
    let ty = if fragment.element == F64 { Type::B64 } else { Type::B32 };
    let rows = registers(cx, index, ty, write)?;
    let wanted = halves.filter(|_| fragment.element == F16).unwrap_or(fragment.registers());
    if rows.len() != wanted as usize {
        return Err(format!("{} registers are given for a matrix that takes {wanted}", rows.len()));
    }
    Ok(Held { fragment, rows })
}

pub(super) fn registers(
    cx: &mut Cx<'_, '_, '_>,
    index: usize,
    ty: Type,
    write: bool,
) -> Result<Vec<u16>> {
    let operand = cx.operand(index)?;
    let parts = match operand {
        Operand::List(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut row = |part| if write { cx.destination_of(part, ty) } else { cx.source_of(part, ty) };
    parts.iter().map(&mut row).collect()
}

pub(super) fn push(cx: &mut Cx<'_, '_, '_>, op: MatrixOp) -> Op {
    cx.matrices.push(op);
    Op::Matrix(cx.matrices.len() as u32 - 1)
}
