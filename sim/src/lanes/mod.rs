//! Lane arithmetic: turns a function on scalars into one on register rows (a value for each lane).
//!
//! [`alu!`] makes an [`AluFn`] that computes all 32 lanes and then keeps those of the mask. Without
//! branches it is vectorised, for each vector extension that a host may have ([`compiled`]); on x86-64
//! without AVX2 it goes lane by lane, since vectors of so few lanes are not worth a further version of
//! every function. [`each!`] makes one that visits only the lanes of the mask, for functions too long
//! to be vectorised; these receive the instruction's constant as their first argument.

pub(crate) mod bits;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod matrix;
pub(crate) mod narrow;
pub(crate) mod soft;
pub(crate) mod video;

use std::hint::black_box;
use std::ops::{BitOr, BitXor, Index, IndexMut};

use multiversion::{multiversion, target::target_cfg_f};
#[cfg(target_arch = "x86_64")]
use safe_arch::{m128i, move_mask_i8_m128i};

use crate::program::{LANES, Operands};

pub(crate) type Row = [u32; LANES];
pub(crate) type Row64 = [u64; LANES];
pub(crate) type AluFn = fn(&mut Regs, &Operands, u32);
/// Compares rows `a` and `b`; each bit of the result is a lane.
pub(crate) type CompareFn = fn(&Regs, &Operands) -> u32;

pub(crate) const FULL: u32 = u32::MAX;

/// The rows of one register file, each aligned to 64 bytes, so that no host vector straddles a cache
/// line, which would double its load time.
#[derive(Debug, Default, Clone, Hash)]
pub(crate) struct File<T>(Vec<Lines<T>>);

#[derive(Debug, Clone, Copy, Hash)]
#[repr(align(64))]
struct Lines<T>([T; LANES]);

impl<T: Copy + Default> File<T> {
    pub(crate) fn new(rows: u16) -> Self {
        Self(vec![Lines([T::default(); LANES]); usize::from(rows)])
    }
}

impl<T> Index<usize> for File<T> {
    type Output = [T; LANES];

    #[inline(always)]
    fn index(&self, row: usize) -> &[T; LANES] {
        &self.0[row].0
    }
}

impl<T> IndexMut<usize> for File<T> {
    #[inline(always)]
    fn index_mut(&mut self, row: usize) -> &mut [T; LANES] {
        &mut self.0[row].0
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Regs {
    /// Registers of 32 bits and narrower; 16-bit ones keep their upper half zero.
    pub(crate) words: File<u32>,
    pub(crate) doubles: File<u64>,
    pub(crate) predicates: Vec<u32>,
}

/// The mask bit of each lane, as a row, so that a mask test becomes a vector compare.
const BIT: Row = {
    let mut bits = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        bits[lane] = 1 << lane;
        lane += 1;
    }
    bits
};

pub(crate) trait Source {
    type Value: Copy;
    type Rows<'r>: Copy;
    fn rows(regs: &Regs, index: u16) -> Self::Rows<'_>;
    fn lane(rows: Self::Rows<'_>, lane: usize) -> Self::Value;
}

pub(crate) trait Target {
    type Value: Copy;
    type Raw: Raw;
    fn raw(value: Self::Value) -> Self::Raw;
    fn row(regs: &mut Regs, index: u16) -> &mut [Self::Raw; LANES];
}

/// Declares typed views of the two register files.
macro_rules! views {
    ($($name:ident: $value:ident as $raw:ident in $file:ident, |$r:ident| $from:expr, |$v:ident| $to:expr;)*) => {$(
        pub(crate) struct $name;

        impl Source for $name {
            type Value = $value;
            type Rows<'r> = &'r [$raw; LANES];

            #[inline(always)]
            fn rows(regs: &Regs, index: u16) -> Self::Rows<'_> {
                &regs.$file[usize::from(index)]
            }

            #[inline(always)]
            fn lane(rows: Self::Rows<'_>, lane: usize) -> $value {
                let $r = rows[lane];
                $from
            }
        }

        impl Target for $name {
            type Value = $value;
            type Raw = $raw;

            #[inline(always)]
            fn raw($v: $value) -> $raw {
                $to
            }

            #[inline(always)]
            fn row(regs: &mut Regs, index: u16) -> &mut [$raw; LANES] {
                &mut regs.$file[usize::from(index)]
            }
        }
    )*};
}

views! {
    U16: u16 as u32 in words, |r| r as u16, |v| u32::from(v);
    I16: i16 as u32 in words, |r| r as i16, |v| u32::from(v as u16);
    U32: u32 as u32 in words, |r| r, |v| v;
    I32: i32 as u32 in words, |r| r as i32, |v| v as u32;
    F32: f32 as u32 in words, |r| f32::from_bits(r), |v| v.to_bits();
    U64: u64 as u64 in doubles, |r| r, |v| v;
    I64: i64 as u64 in doubles, |r| r as i64, |v| v as u64;
    F64: f64 as u64 in doubles, |r| f64::from_bits(r), |v| v.to_bits();
}

pub(crate) struct Pred;

impl Source for Pred {
    type Value = bool;
    type Rows<'r> = u32;

    #[inline(always)]
    fn rows(regs: &Regs, index: u16) -> u32 {
        regs.predicates[usize::from(index)]
    }

    #[inline(always)]
    fn lane(rows: u32, lane: usize) -> bool {
        rows & BIT[lane] != 0
    }
}

pub(crate) struct Nil;

impl Source for Nil {
    type Value = ();
    type Rows<'r> = ();

    #[inline(always)]
    fn rows(_: &Regs, _: u16) {}

    #[inline(always)]
    fn lane((): (), _: usize) {}
}

pub(crate) trait Raw: Copy + Default {
    /// Returns `new` if bit `lane` of the mask is set, else `old`.
    fn select(mask: u32, lane: usize, new: Self, old: Self) -> Self;
}

macro_rules! raw {
    ($($ty:ident),*) => {$(
        impl Raw for $ty {
            #[inline(always)]
            fn select(mask: u32, lane: usize, new: Self, old: Self) -> Self {
                // A mask of whole lanes instead of a branch, so that the loop is vectorised.
                let keep = $ty::from(mask & BIT[lane] == 0).wrapping_sub(1);
                new & keep | old & !keep
            }
        }
    )*};
}

raw!(u32, u64);

#[inline(always)]
pub(crate) fn commit<T: Raw>(row: &mut [T; LANES], values: &[T; LANES], mask: u32) {
    if mask == FULL {
        *row = *values;
    } else {
        for lane in 0..LANES {
            row[lane] = T::select(mask, lane, values[lane], row[lane]);
        }
    }
}

#[inline(always)]
pub(crate) fn for_each_lane(mask: u32, mut visit: impl FnMut(usize)) {
    let mut rest = mask;
    while rest != 0 {
        visit(rest.trailing_zeros() as usize);
        rest &= rest - 1;
    }
}

/// Returns the lanes of a mask, for a loop that may end early.
#[inline]
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

/// Computes `d = f(a, b, c)` in all lanes, and stores the results of the lanes of `mask`.
#[inline(always)]
pub(crate) fn map<const EXTENDED: bool, D: Target, A: Source, B: Source, C: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(A::Value, B::Value, C::Value) -> D::Value,
) {
    if !EXTENDED && cfg!(target_arch = "x86_64") {
        return visit::<D, A, B, C>(regs, o, mask, |_, a, b, c| f(a, b, c));
    }
    let mut values = [D::Raw::default(); LANES];
    let (a, b, c) = (A::rows(regs, o.a), B::rows(regs, o.b), C::rows(regs, o.c));
    for (lane, value) in values.iter_mut().enumerate() {
        *value = D::raw(f(A::lane(a, lane), B::lane(b, lane), C::lane(c, lane)));
    }
    commit(D::row(regs, o.d), &values, mask);
}

/// Computes `d = f(imm, a, b, c)` in the lanes of `mask` only.
#[inline(always)]
pub(crate) fn visit<D: Target, A: Source, B: Source, C: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(u32, A::Value, B::Value, C::Value) -> D::Value,
) {
    for_each_lane(mask, |lane| {
        let a = A::lane(A::rows(regs, o.a), lane);
        let b = B::lane(B::rows(regs, o.b), lane);
        let c = C::lane(C::rows(regs, o.c), lane);
        let value = D::raw(f(o.imm, a, b, c));
        D::row(regs, o.d)[lane] = value;
    });
}

#[inline(always)]
pub(crate) fn test<const EXTENDED: bool, A: Source, B: Source>(
    regs: &Regs,
    o: &Operands,
    f: impl Fn(A::Value, B::Value) -> bool,
) -> u32 {
    let (a, b) = (A::rows(regs, o.a), B::rows(regs, o.b));
    if !EXTENDED && cfg!(target_arch = "x86_64") {
        let mut mask = 0;
        // `black_box` keeps the loop from being unrolled.
        for_each_lane(black_box(FULL), |lane| {
            mask |= u32::from(f(A::lane(a, lane), B::lane(b, lane))) << lane;
        });
        return mask;
    }
    let mut holds = [0; LANES];
    for (lane, holds) in holds.iter_mut().enumerate() {
        *holds = if f(A::lane(a, lane), B::lane(b, lane)) { u8::MAX } else { 0 };
    }
    bits_of(&holds)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bits_of(bytes: &[u8; LANES]) -> u32 {
    let (halves, _) = bytes.as_chunks();
    let half = |at: usize| move_mask_i8_m128i(m128i::from(halves[at])).cast_unsigned();
    half(0) | half(1) << 16
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn bits_of(bytes: &[u8; LANES]) -> u32 {
    bytes.iter().enumerate().fold(0, |mask, (lane, byte)| mask | u32::from(byte >> 7) << lane)
}

#[inline(always)]
pub(crate) fn map1<const EXTENDED: bool, D: Target, A: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(A::Value) -> D::Value,
) {
    map::<EXTENDED, D, A, Nil, Nil>(regs, o, mask, |a, (), ()| f(a));
}

#[inline(always)]
pub(crate) fn map2<const EXTENDED: bool, D: Target, A: Source, B: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(A::Value, B::Value) -> D::Value,
) {
    map::<EXTENDED, D, A, B, Nil>(regs, o, mask, |a, b, ()| f(a, b));
}

#[inline(always)]
pub(crate) fn map_uniform<const EXTENDED: bool, D: Target, A: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(u32, A::Value) -> D::Value,
) {
    let imm = o.imm;
    map::<EXTENDED, D, A, Nil, Nil>(regs, o, mask, |a, (), ()| f(imm, a));
}

#[inline(always)]
pub(crate) fn visit1<D: Target, A: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(u32, A::Value) -> D::Value,
) {
    visit::<D, A, Nil, Nil>(regs, o, mask, |imm, a, (), ()| f(imm, a));
}

#[inline(always)]
pub(crate) fn visit2<D: Target, A: Source, B: Source>(
    regs: &mut Regs,
    o: &Operands,
    mask: u32,
    f: impl Fn(u32, A::Value, B::Value) -> D::Value,
) {
    visit::<D, A, B, Nil>(regs, o, mask, |imm, a, b, ()| f(imm, a, b));
}

pub(crate) trait Address:
    Copy + Default + PartialEq + BitXor<Output = Self> + BitOr<Output = Self> + Into<u64>
{
    fn plus(self, bytes: u64) -> Self;
}

impl Address for u32 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes as Self)
    }
}

impl Address for u64 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes as Self)
    }
}

/// Returns whether each address is `stride` above its predecessor.
#[inline(always)]
pub(crate) fn are_spaced<A: Address>(addresses: &[A], stride: usize) -> bool {
    // `black_box` hides that lane 0 never differs; otherwise the compiler would exclude it from its
    // vectors.
    let first = black_box(addresses[0]);
    let mut differs = A::default();
    for (lane, &address) in addresses.iter().enumerate() {
        differs = differs | address ^ first.plus((lane * stride) as u64);
    }
    differs == A::default()
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
pub(crate) fn is_spaced(row: &Row64, stride: usize) -> bool {
    // With a constant stride, the compiler computes the multiples of the stride.
    match stride {
        4 => are_spaced(row, 4),
        8 => are_spaced(row, 8),
        16 => are_spaced(row, 16),
        _ => are_spaced(row, stride),
    }
}

/// Returns the number of lanes outside the masks, summed over all masks.
#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
pub(crate) fn count_zeros(masks: &[u32]) -> u64 {
    masks.iter().map(|mask| u64::from(mask.count_zeros())).sum()
}

/// A function on register rows, as a type for [`compiled`].
pub(crate) trait RowFunction {
    /// Runs the function. `EXTENDED` is set if it is compiled for a host with vector extensions and
    /// fused multiply-add.
    fn run<const EXTENDED: bool>(regs: &mut Regs, o: &Operands, mask: u32);
}

pub(crate) trait RowTest {
    fn run<const EXTENDED: bool>(regs: &Regs, o: &Operands) -> u32;
}

/// Returns a function on register rows, compiled for the best target of this host. The closure is
/// compiled for the same target as the enclosing function.
#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
pub(crate) fn compiled<F: RowFunction>() -> AluFn {
    const EXTENDED: bool = target_cfg_f!(target_feature = "fma");
    |regs, o, mask| F::run::<EXTENDED>(regs, o, mask)
}

#[multiversion(
    targets("x86_64+avx512f+bmi1+bmi2+fma+lzcnt+popcnt", "x86_64+avx2+bmi1+bmi2+fma+lzcnt+popcnt"),
    dispatcher = "direct"
)]
pub(crate) fn compiled_test<F: RowTest>() -> CompareFn {
    const EXTENDED: bool = target_cfg_f!(target_feature = "fma");
    |regs, o| F::run::<EXTENDED>(regs, o)
}

/// An [`AluFn`] that calls `map` or one of its variants for given views. In `$f`, the constant
/// `EXTENDED` is set if the host has fused multiply-add.
macro_rules! row_function {
    ($call:ident, [$($view:ident),+], $f:expr) => {{
        struct Compiled;
        impl $crate::lanes::RowFunction for Compiled {
            #[inline(always)]
            fn run<const EXTENDED: bool>(
                r: &mut $crate::lanes::Regs,
                o: &$crate::program::Operands,
                m: u32,
            ) {
                $crate::lanes::$call::<EXTENDED, $($crate::lanes::$view),+>(r, o, m, $f);
            }
        }
        $crate::lanes::compiled::<Compiled>()
    }};
}

/// An [`AluFn`] from a function on scalars: `alu!(U32 <- U32, U32: |a, b| a & b)`.
macro_rules! alu {
    ($d:ident <- $a:ident: $f:expr) => {
        $crate::lanes::row_function!(map1, [$d, $a], $f)
    };
    ($d:ident <- $a:ident, $b:ident: $f:expr) => {
        $crate::lanes::row_function!(map2, [$d, $a, $b], $f)
    };
    ($d:ident <- $a:ident, $b:ident, $c:ident: $f:expr) => {
        $crate::lanes::row_function!(map, [$d, $a, $b, $c], $f)
    };
}

/// Like [`alu!`] with three sources; the first argument is set if the host has fused multiply-add.
macro_rules! fused {
    ($d:ident <- $a:ident, $b:ident, $c:ident: $f:expr) => {
        $crate::lanes::row_function!(map, [$d, $a, $b, $c], |a, b, c| $f(EXTENDED, a, b, c))
    };
}

/// An [`AluFn`] that goes lane by lane, with the instruction's constant as the first argument. It is not
/// compiled for vector extensions, because it would not use them.
macro_rules! each {
    ($d:ident <- $a:ident: $f:expr) => {
        $crate::lanes::each!(visit1, [$d, $a], $f)
    };
    ($d:ident <- $a:ident, $b:ident: $f:expr) => {
        $crate::lanes::each!(visit2, [$d, $a, $b], $f)
    };
    ($d:ident <- $a:ident, $b:ident, $c:ident: $f:expr) => {
        $crate::lanes::each!(visit, [$d, $a, $b, $c], $f)
    };
    ($call:ident, [$($view:ident),+], $f:expr) => {
        (|regs, operands, mask| {
            $crate::lanes::$call::<$($crate::lanes::$view),+>(regs, operands, mask, $f)
        }) as $crate::lanes::AluFn
    };
}

/// Like [`alu!`] with one source; the first argument is the instruction's constant, which is the same in
/// every lane.
macro_rules! uniform {
    ($d:ident <- $a:ident: $f:expr) => {
        $crate::lanes::row_function!(map_uniform, [$d, $a], $f)
    };
}

/// A [`CompareFn`] from a predicate on two scalars of one type.
macro_rules! compare {
    ($t:ident: $f:expr) => {{
        struct Compiled;
        impl $crate::lanes::RowTest for Compiled {
            #[inline(always)]
            fn run<const EXTENDED: bool>(r: &$crate::lanes::Regs, o: &$crate::program::Operands) -> u32 {
                $crate::lanes::test::<EXTENDED, $crate::lanes::$t, $crate::lanes::$t>(r, o, $f)
            }
        }
        $crate::lanes::compiled_test::<Compiled>()
    }};
}

pub(crate) use {alu, compare, each, fused, row_function, uniform};

#[cfg(test)]
mod tests {
    use super::*;

    fn registers() -> Regs {
        let mut regs = Regs { words: File::new(3), ..Regs::default() };
        for lane in 0..LANES {
            regs.words[0][lane] = (lane as u32).wrapping_mul(0x9e37_79b9);
            regs.words[1][lane] = !(lane as u32) << (lane % 7);
        }
        regs
    }

    const OPERANDS: Operands = Operands { d: 2, a: 0, b: 1, c: 0, imm: 0, e: 0 };

    #[test]
    fn hosts_without_extensions_compute_the_same() {
        for mask in [FULL, 0, 1, 0x8000_0000, 0x00ff_a5a5] {
            let (mut extended, mut plain) = (registers(), registers());
            map2::<true, U32, U32, U32>(&mut extended, &OPERANDS, mask, |a, b| a ^ b);
            map2::<false, U32, U32, U32>(&mut plain, &OPERANDS, mask, |a, b| a ^ b);
            assert_eq!(extended.words[2], plain.words[2], "{mask:08x}");
        }
        let regs = registers();
        let extended = test::<true, I32, I32>(&regs, &OPERANDS, |a, b| a < b);
        assert_eq!(extended, test::<false, I32, I32>(&regs, &OPERANDS, |a, b| a < b));
        assert!(extended != 0 && extended != FULL, "{extended:08x}");
    }
}
