use super::harness::{Case, EDGES16, EDGES32, EDGES64, case, sweep1, sweep2};

const ONES32: u64 = 0xffff_ffff;
const ONES64: u64 = u64::MAX;
const MIN32: u64 = 0x8000_0000;
const MAX32: u64 = 0x7fff_ffff;

fn s32(bits: u64) -> i32 {
    bits as u32 as i32
}

fn u32_of(value: i32) -> u64 {
    u64::from(value as u32)
}

pub(crate) fn cases() -> Vec<Case> {
    [sums(), products(), quotients(), extremes(), carries(), bits(), narrow()]
        .into_iter()
        .flatten()
        .collect()
}

fn sums() -> Vec<Case> {
    vec![
        case(
            "r = r r",
            "add.s32 %o0, %i0, %i1;",
            &[(&[MAX32, 1], &[MIN32]), (&[ONES32, 1], &[0]), (&[2, 3], &[5])],
        ),
        case("r = r", "add.u32 %o0, %i0, -1;", &[(&[0], &[ONES32]), (&[5], &[4])]),
        case(
            "r = r r",
            "add.sat.s32 %o0, %i0, %i1;",
            &[(&[MAX32, 1], &[MAX32]), (&[MIN32, ONES32], &[MIN32]), (&[1, 2], &[3])],
        ),
        case(
            "d = d d",
            "add.u64 %o0, %i0, %i1;",
            &[(&[ONES64, 2], &[1]), (&[0xffff_ffff, 1], &[0x1_0000_0000])],
        ),
        sweep2("r = r r", "add.u32 %o0, %i0, %i1;", EDGES32, |a, b| (a + b) & ONES32),
        sweep2("d = d d", "add.s64 %o0, %i0, %i1;", EDGES64, u64::wrapping_add),
        sweep2("r = r r", "sub.s32 %o0, %i0, %i1;", EDGES32, |a, b| a.wrapping_sub(b) & ONES32),
        sweep2("d = d d", "sub.u64 %o0, %i0, %i1;", EDGES64, u64::wrapping_sub),
        case(
            "r = r r",
            "sub.sat.s32 %o0, %i0, %i1;",
            &[(&[MIN32, 1], &[MIN32]), (&[MAX32, ONES32], &[MAX32])],
        ),
        case(
            "r = r r r",
            "sad.s32 %o0, %i0, %i1, %i2;",
            &[(&[ONES32, 1, 10], &[12]), (&[MIN32, MAX32, 0], &[ONES32])],
        ),
        case("r = r r r", "sad.u32 %o0, %i0, %i1, %i2;", &[(&[ONES32, 1, 10], &[8])]),
        case("d = d d d", "sad.s64 %o0, %i0, %i1, %i2;", &[(&[ONES64, 1, 10], &[12])]),
        case("r = r", "abs.s32 %o0, %i0;", &[(&[ONES32], &[1]), (&[MIN32], &[MIN32]), (&[7], &[7])]),
        case("d = d", "abs.s64 %o0, %i0;", &[(&[ONES64], &[1]), (&[1 << 63], &[1 << 63])]),
        case("r = r", "neg.s32 %o0, %i0;", &[(&[1], &[ONES32]), (&[MIN32], &[MIN32])]),
        case("d = d", "neg.s64 %o0, %i0;", &[(&[1], &[ONES64]), (&[0], &[0])]),
    ]
}

fn products() -> Vec<Case> {
    vec![
        sweep2("r = r r", "mul.lo.u32 %o0, %i0, %i1;", EDGES32, |a, b| (a * b) & ONES32),
        sweep2("r = r r", "mul.hi.u32 %o0, %i0, %i1;", EDGES32, |a, b| (a * b) >> 32),
        sweep2("r = r r", "mul.hi.s32 %o0, %i0, %i1;", EDGES32, |a, b| {
            ((i64::from(s32(a)) * i64::from(s32(b))) >> 32) as u64 & ONES32
        }),
        sweep2("d = r r", "mul.wide.u32 %o0, %i0, %i1;", EDGES32, |a, b| a * b),
        sweep2("d = r r", "mul.wide.s32 %o0, %i0, %i1;", EDGES32, |a, b| {
            (i64::from(s32(a)) * i64::from(s32(b))) as u64
        }),
        sweep2("d = d d", "mul.lo.s64 %o0, %i0, %i1;", EDGES64, u64::wrapping_mul),
        sweep2("d = d d", "mul.hi.u64 %o0, %i0, %i1;", EDGES64, |a, b| {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        sweep2("d = d d", "mul.hi.s64 %o0, %i0, %i1;", EDGES64, |a, b| {
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        }),
        case(
            "r = r r r",
            "mad.lo.s32 %o0, %i0, %i1, %i2;",
            &[(&[3, 4, 5], &[17]), (&[ONES32, ONES32, ONES32], &[0])],
        ),
        case("r = r r r", "mad.hi.u32 %o0, %i0, %i1, %i2;", &[(&[ONES32, ONES32, 3], &[1])]),
        case("r = r r r", "mad.hi.s32 %o0, %i0, %i1, %i2;", &[(&[MIN32, MIN32, 1], &[0x4000_0001])]),
        case(
            "r = r r r",
            "mad.hi.sat.s32 %o0, %i0, %i1, %i2;",
            &[(&[MIN32, MIN32, MAX32], &[MAX32]), (&[2, 3, 4], &[4])],
        ),
        case(
            "d = r r d",
            "mad.wide.u32 %o0, %i0, %i1, %i2;",
            &[(&[ONES32, ONES32, 1], &[0xffff_fffe_0000_0002])],
        ),
        case("d = r r d", "mad.wide.s32 %o0, %i0, %i1, %i2;", &[(&[ONES32, 2, 5], &[3])]),
        case("d = d d d", "mad.lo.u64 %o0, %i0, %i1, %i2;", &[(&[1 << 32, 1 << 32, 7], &[7])]),
        case("d = d d d", "mad.hi.s64 %o0, %i0, %i1, %i2;", &[(&[ONES64, 1, 1], &[0])]),
        case(
            "r = r r",
            "mul24.lo.u32 %o0, %i0, %i1;",
            &[(&[0xff00_0003, 5], &[15]), (&[0x00ff_ffff, 0x00ff_ffff], &[0xfe00_0001])],
        ),
        case("r = r r", "mul24.lo.s32 %o0, %i0, %i1;", &[(&[0x00ff_ffff, 2], &[0xffff_fffe])]),
        case("r = r r", "mul24.hi.u32 %o0, %i0, %i1;", &[(&[0x00ff_ffff, 0x00ff_ffff], &[0xffff_fe00])]),
        case("r = r r r", "mad24.lo.s32 %o0, %i0, %i1, %i2;", &[(&[0x00ff_ffff, 2, 5], &[3])]),
        case(
            "r = r r r",
            "mad24.hi.u32 %o0, %i0, %i1, %i2;",
            &[(&[0x0010_0000, 0x0010_0000, 1], &[0x0100_0001])],
        ),
        case(
            "r = r r r",
            "dp4a.s32.s32 %o0, %i0, %i1, %i2;",
            &[(&[0xff02_0304, 0x0101_0101, 10], &[18])],
        ),
        case(
            "r = r r r",
            "dp4a.u32.u32 %o0, %i0, %i1, %i2;",
            &[(&[0xff02_0304, 0x0101_0101, 10], &[274])],
        ),
        case("r = r r r", "dp4a.u32.s32 %o0, %i0, %i1, %i2;", &[(&[0xff, 0xff, 0], &[0xffff_ff01])]),
        case(
            "r = r r r",
            "dp2a.lo.s32.u32 %o0, %i0, %i1, %i2;",
            // 3 · 255 − 2 · 4 + 10
            &[(&[0xfffe_0003, 0x0506_04ff, 10], &[767]), (&[0x8000_8000, 0xffff, 0], &[0xff01_0000])],
        ),
        case(
            "r = r r r",
            "dp2a.hi.u32.s32 %o0, %i0, %i1, %i2;",
            // 65535 · −1 + 2 · 5 + 7
            &[(&[0x0002_ffff, 0x05ff_1234, 7], &[0xffff_0012])],
        ),
        case(
            "r = r r",
            "cvt.pack.sat.s16.s32 %o0, %i0, %i1;",
            &[
                (&[1, 2], &[0x0001_0002]),
                (&[40_000, MIN32], &[0x7fff_8000]),
                (&[ONES32, 7], &[0xffff_0007]),
            ],
        ),
        case("r = r r", "cvt.pack.sat.u16.s32 %o0, %i0, %i1;", &[(&[70_000, ONES32], &[0xffff_0000])]),
        case(
            "r = r r r",
            "cvt.pack.sat.s8.s32.b32 %o0, %i0, %i1, %i2;",
            &[(&[200, 0xffff_ff00, 0xabcd_1234], &[0x1234_7f80]), (&[1, ONES32, 0], &[0x01ff])],
        ),
        case(
            "r = r r r",
            "cvt.pack.sat.u4.s32.b32 %o0, %i0, %i1, %i2;",
            &[(&[99, ONES32, 0x0111_1111], &[0x1111_11f0])],
        ),
        case("r = r r r", "cvt.pack.sat.s2.s32.b32 %o0, %i0, %i1, %i2;", &[(&[5, MIN32, 3], &[0x36])]),
    ]
}

fn quotients() -> Vec<Case> {
    vec![
        sweep2("r = r r", "div.u32 %o0, %i0, %i1;", EDGES32, |a, b| a.checked_div(b).unwrap_or(ONES32)),
        sweep2("r = r r", "rem.u32 %o0, %i0, %i1;", EDGES32, |a, b| a.checked_rem(b).unwrap_or(ONES32)),
        case(
            "r = r r",
            "div.s32 %o0, %i0, %i1;",
            &[(&[MIN32, ONES32], &[MIN32]), (&[0xffff_fff9, 2], &[0xffff_fffd]), (&[5, 0], &[ONES32])],
        ),
        case(
            "r = r r",
            "rem.s32 %o0, %i0, %i1;",
            &[
                (&[MIN32, ONES32], &[0]),
                (&[0xffff_fff9, 2], &[ONES32]),
                (&[7, 0xffff_fffe], &[1]),
                (&[5, 0], &[ONES32]),
            ],
        ),
        sweep2("d = d d", "div.u64 %o0, %i0, %i1;", EDGES64, |a, b| a.checked_div(b).unwrap_or(ONES64)),
        case(
            "d = d d",
            "div.s64 %o0, %i0, %i1;",
            &[(&[1 << 63, ONES64], &[1 << 63]), (&[9, 0], &[ONES64])],
        ),
        case("d = d d", "rem.s64 %o0, %i0, %i1;", &[(&[1 << 63, ONES64], &[0])]),
        case("d = d d", "rem.u64 %o0, %i0, %i1;", &[(&[10, 4], &[2]), (&[10, 0], &[ONES64])]),
    ]
}

fn extremes() -> Vec<Case> {
    vec![
        sweep2("r = r r", "min.u32 %o0, %i0, %i1;", EDGES32, u64::min),
        sweep2("r = r r", "max.u32 %o0, %i0, %i1;", EDGES32, u64::max),
        sweep2("r = r r", "min.s32 %o0, %i0, %i1;", EDGES32, |a, b| u32_of(s32(a).min(s32(b)))),
        sweep2("r = r r", "max.s32 %o0, %i0, %i1;", EDGES32, |a, b| u32_of(s32(a).max(s32(b)))),
        sweep2("d = d d", "min.s64 %o0, %i0, %i1;", EDGES64, |a, b| (a as i64).min(b as i64) as u64),
        sweep2("d = d d", "max.u64 %o0, %i0, %i1;", EDGES64, u64::max),
        sweep2("d = d d", "min.u64 %o0, %i0, %i1;", EDGES64, u64::min),
        sweep2("d = d d", "max.s64 %o0, %i0, %i1;", EDGES64, |a, b| (a as i64).max(b as i64) as u64),
        case("r = r r", "max.relu.s32 %o0, %i0, %i1;", &[(&[ONES32, MIN32], &[0]), (&[3, 4], &[4])]),
    ]
}

fn carries() -> Vec<Case> {
    vec![
        case(
            "rr = r r r r",
            "add.cc.u32 %o0, %i0, %i1; *addc.u32 %o1, %i2, %i3;",
            &[(&[ONES32, 1, 5, 6], &[0, 12]), (&[ONES32, 0, 5, 6], &[ONES32, 11])],
        ),
        case(
            "rrr = r r r",
            "add.cc.u32 %o0, %i0, %i0; *addc.cc.u32 %o1, %i1, %i1; addc.u32 %o2, %i2, %i2;",
            &[(&[MIN32, MIN32, 1], &[0, 1, 3]), (&[1, 1, 1], &[2, 2, 2])],
        ),
        case(
            "rr = r r r r",
            "sub.cc.u32 %o0, %i0, %i1; *subc.u32 %o1, %i2, %i3;",
            &[(&[0, 1, 5, 3], &[ONES32, 1]), (&[1, 1, 5, 3], &[0, 2])],
        ),
        case(
            "dd = d d d d",
            "add.cc.u64 %o0, %i0, %i1; *addc.u64 %o1, %i2, %i3;",
            &[(&[ONES64, ONES64, 0, 0], &[ONES64 - 1, 1])],
        ),
        // (a * b).hi + c + carry of (a * b).lo + d, as in multi-word products.
        case(
            "rr = r r r r",
            "mad.lo.cc.u32 %o0, %i0, %i1, %i3; *madc.hi.u32 %o1, %i0, %i1, %i2;",
            &[(&[ONES32, ONES32, 0, ONES32], &[0, ONES32]), (&[ONES32, ONES32, 1, 0], &[1, ONES32])],
        ),
        case(
            "rr = r r",
            "mad.lo.cc.u32 %o0, %i0, %i1, 0; *madc.lo.cc.s32 %o1, %i0, %i1, 1;",
            &[(&[3, 5], &[15, 16])],
        ),
    ]
}

fn bits() -> Vec<Case> {
    vec![
        sweep1("r = r", "popc.b32 %o0, %i0;", EDGES32, |a| u64::from(a.count_ones())),
        sweep1("r = d", "popc.b64 %o0, %i0;", EDGES64, |a| u64::from(a.count_ones())),
        sweep1("r = r", "clz.b32 %o0, %i0;", EDGES32, |a| u64::from((a as u32).leading_zeros())),
        sweep1("r = d", "clz.b64 %o0, %i0;", EDGES64, |a| u64::from(a.leading_zeros())),
        case("r = r", "brev.b32 %o0, %i0;", &[(&[1], &[MIN32]), (&[0xf000_0001], &[0x8000_000f])]),
        case("d = d", "brev.b64 %o0, %i0;", &[(&[1], &[1 << 63])]),
        case(
            "r = r",
            "bfind.u32 %o0, %i0;",
            &[(&[0], &[ONES32]), (&[1], &[0]), (&[0x0001_0002], &[16]), (&[ONES32], &[31])],
        ),
        case(
            "r = r",
            "bfind.s32 %o0, %i0;",
            &[(&[ONES32], &[ONES32]), (&[0xffff_fff0], &[3]), (&[0x0000_0010], &[4]), (&[0], &[ONES32])],
        ),
        case("r = r", "bfind.shiftamt.u32 %o0, %i0;", &[(&[0x0001_0000], &[15]), (&[0], &[ONES32])]),
        case("r = d", "bfind.u64 %o0, %i0;", &[(&[1 << 40], &[40]), (&[0], &[ONES32])]),
        case(
            "r = r r r",
            "fns.b32 %o0, %i0, %i1, %i2;",
            &[
                (&[0b1011_0010, 0, 1], &[1]),
                (&[0b1011_0010, 0, 3], &[5]),
                (&[0b1011_0010, 7, 0xffff_fffe], &[5]),
                (&[0b1011_0010, 4, 0], &[4]),
                (&[0b1011_0010, 3, 0], &[ONES32]),
                (&[0b1011_0010, 0, 9], &[ONES32]),
                // Base 31 is the last bit of the mask; base 32 is outside of the mask.
                (&[MIN32 | 1, 31, 1], &[31]),
                (&[MIN32 | 1, 31, 0xffff_fffe], &[0]),
                (&[ONES32, 32, 0], &[ONES32]),
            ],
        ),
        case(
            "r = r r r",
            "bfe.u32 %o0, %i0, %i1, %i2;",
            &[
                (&[0xdead_beef, 4, 8], &[0xee]),
                (&[0xdead_beef, 28, 8], &[0xd]),
                (&[0xdead_beef, 40, 8], &[0]),
                (&[0xdead_beef, 4, 0], &[0]),
                (&[0xdead_beef, 0, 255], &[0xdead_beef]),
            ],
        ),
        case(
            "r = r r r",
            "bfe.s32 %o0, %i0, %i1, %i2;",
            &[
                (&[0x0000_00f0, 4, 4], &[ONES32]),
                (&[0x0000_0070, 4, 4], &[7]),
                (&[0x8000_0000, 28, 8], &[0xffff_fff8]),
                (&[0x8000_0000, 40, 8], &[ONES32]),
            ],
        ),
        case(
            "d = d r r",
            "bfe.u64 %o0, %i0, %i1, %i2;",
            &[(&[0x0123_4567_89ab_cdef, 60, 8], &[0]), (&[0x0123_4567_89ab_cdef, 32, 16], &[0x4567])],
        ),
        case("d = d r r", "bfe.s64 %o0, %i0, %i1, %i2;", &[(&[1 << 63, 63, 1], &[ONES64])]),
        case(
            "r = r r r r",
            "bfi.b32 %o0, %i0, %i1, %i2, %i3;",
            &[
                (&[0xab, 0xffff_ffff, 8, 8], &[0xffff_abff]),
                (&[0xab, 0x1234_5678, 32, 8], &[0x1234_5678]),
                (&[0xffff_ffff, 0, 28, 8], &[0xf000_0000]),
                (&[0xff, 0x55, 0, 0], &[0x55]),
            ],
        ),
        case("d = d d r r", "bfi.b64 %o0, %i0, %i1, %i2, %i3;", &[(&[0x3, 0, 63, 2], &[1 << 63])]),
        case(
            "r = r r",
            "bmsk.clamp.b32 %o0, %i0, %i1;",
            &[(&[4, 8], &[0xff0]), (&[28, 8], &[0xf000_0000]), (&[40, 8], &[0]), (&[0, 99], &[ONES32])],
        ),
        case("r = r r", "bmsk.wrap.b32 %o0, %i0, %i1;", &[(&[36, 40], &[0xff0])]),
        case(
            "r = r r",
            "szext.clamp.s32 %o0, %i0, %i1;",
            &[(&[0xf0, 8], &[0xffff_fff0]), (&[0xf0, 0], &[0]), (&[0xf0, 40], &[0xf0])],
        ),
        case("r = r r", "szext.wrap.u32 %o0, %i0, %i1;", &[(&[0xabcd, 40], &[0xcd])]),
    ]
}

fn narrow() -> Vec<Case> {
    let s16 = |bits: u64| bits as u16 as i16;
    vec![
        sweep2("h = h h", "add.u16 %o0, %i0, %i1;", EDGES16, |a, b| (a + b) & 0xffff),
        sweep2("h = h h", "sub.s16 %o0, %i0, %i1;", EDGES16, |a, b| a.wrapping_sub(b) & 0xffff),
        sweep2("h = h h", "mul.lo.s16 %o0, %i0, %i1;", EDGES16, |a, b| (a * b) & 0xffff),
        sweep2("h = h h", "mul.hi.u16 %o0, %i0, %i1;", EDGES16, |a, b| (a * b) >> 16),
        sweep2("h = h h", "mul.hi.s16 %o0, %i0, %i1;", EDGES16, move |a, b| {
            ((i32::from(s16(a)) * i32::from(s16(b))) >> 16) as u64 & 0xffff
        }),
        sweep2("r = h h", "mul.wide.u16 %o0, %i0, %i1;", EDGES16, |a, b| a * b),
        sweep2("r = h h", "mul.wide.s16 %o0, %i0, %i1;", EDGES16, move |a, b| {
            u32_of(i32::from(s16(a)) * i32::from(s16(b)))
        }),
        sweep2("h = h h", "min.s16 %o0, %i0, %i1;", EDGES16, move |a, b| {
            u64::from(s16(a).min(s16(b)) as u16)
        }),
        sweep2("h = h h", "max.u16 %o0, %i0, %i1;", EDGES16, u64::max),
        case("h = h h h", "mad.lo.u16 %o0, %i0, %i1, %i2;", &[(&[0xffff, 2, 3], &[1])]),
        case(
            "h = h h",
            "div.s16 %o0, %i0, %i1;",
            &[(&[0x8000, 0xffff], &[0x8000]), (&[9, 0], &[0xffff])],
        ),
        case("h = h h", "rem.u16 %o0, %i0, %i1;", &[(&[9, 4], &[1]), (&[9, 0], &[0xffff])]),
        case("h = h", "abs.s16 %o0, %i0;", &[(&[0xffff], &[1]), (&[0x8000], &[0x8000])]),
        case("h = h", "neg.s16 %o0, %i0;", &[(&[1], &[0xffff])]),
        case("r = r r", "add.u16x2 %o0, %i0, %i1;", &[(&[0xffff_0001, 0x0001_0002], &[0x0000_0003])]),
        case("r = r r", "min.s16x2 %o0, %i0, %i1;", &[(&[0xffff_0001, 0x0001_0002], &[0xffff_0001])]),
        case("r = r r", "max.u16x2 %o0, %i0, %i1;", &[(&[0xffff_0001, 0x0001_0002], &[0xffff_0002])]),
        case("h = h h h", "sad.u16 %o0, %i0, %i1, %i2;", &[(&[1, 3, 0xffff], &[1])]),
    ]
}
