use super::harness::{Case, EDGES16, EDGES32, EDGES64, FLOATS, case, case_of, sweep1, sweep2};

const ONES32: u64 = 0xffff_ffff;
const NAN: u64 = 0x7fc0_0000;

pub(crate) fn cases() -> Vec<Case> {
    [logic(), shifts(), comparisons(), selections()].into_iter().flatten().collect()
}

fn logic() -> Vec<Case> {
    let mut cases = vec![
        sweep2("r = r r", "and.b32 %o0, %i0, %i1;", EDGES32, |a, b| a & b),
        sweep2("d = d d", "and.b64 %o0, %i0, %i1;", EDGES64, |a, b| a & b),
        sweep2("r = r r", "or.b32 %o0, %i0, %i1;", EDGES32, |a, b| a | b),
        sweep2("h = h h", "or.b16 %o0, %i0, %i1;", EDGES16, |a, b| a | b),
        sweep2("r = r r", "xor.b32 %o0, %i0, %i1;", EDGES32, |a, b| a ^ b),
        sweep2("d = d d", "xor.b64 %o0, %i0, %i1;", EDGES64, |a, b| a ^ b),
        sweep1("r = r", "not.b32 %o0, %i0;", EDGES32, |a| !a & ONES32),
        sweep1("d = d", "not.b64 %o0, %i0;", EDGES64, |a| !a),
        sweep1("h = h", "not.b16 %o0, %i0;", EDGES16, |a| !a & 0xffff),
        sweep1("r = r", "cnot.b32 %o0, %i0;", EDGES32, |a| u64::from(a == 0)),
        sweep1("d = d", "cnot.b64 %o0, %i0;", EDGES64, |a| u64::from(a == 0)),
        sweep1("h = h", "cnot.b16 %o0, %i0;", EDGES16, |a| u64::from(a == 0)),
        sweep2("p = p p", "and.pred %o0, %i0, %i1;", &[0, 1], |a, b| a & b),
        sweep2("p = p p", "or.pred %o0, %i0, %i1;", &[0, 1], |a, b| a | b),
        sweep2("p = p p", "xor.pred %o0, %i0, %i1;", &[0, 1], |a, b| a ^ b),
        sweep1("p = p", "not.pred %o0, %i0;", &[0, 1], |a| 1 - a),
        case(
            "r = r r r",
            "lop3.b32 %o0, %i0, %i1, %i2, 0x96;",
            &[(&[0xff00, 0xf0f0, 0xcccc], &[0xc33c])],
        ),
        case("r = r r r", "lop3.b32 %o0, %i0, %i1, %i2, 0;", &[(&[1, 2, 3], &[0])]),
        case(
            "rp = r r r p",
            "lop3.or.b32 %o0|%o1, %i0, %i1, %i2, 0x80, %i3;",
            &[(&[7, 6, 3, 0], &[2, 1]), (&[1, 2, 4, 0], &[0, 0]), (&[1, 2, 4, 1], &[0, 1])],
        ),
        case(
            "rp = r r r p",
            "lop3.and.b32 %o0|%o1, %i0, %i1, %i2, 0xfe, !%i3;",
            &[(&[1, 2, 4, 0], &[7, 1]), (&[1, 2, 4, 1], &[7, 0]), (&[0, 0, 0, 0], &[0, 0])],
        ),
        case("p = r r r p", "lop3.or.b32 _|%o0, %i0, %i1, %i2, 0xfe, %i3;", &[(&[0, 0, 1, 0], &[1])]),
        case("r = r r r", "lop3.b32 %o0, %i0, %i1, %i2, 0xff;", &[(&[1, 2, 3], &[ONES32])]),
    ];
    // The immediate of `lop3` is the expression evaluated on the bytes 0xf0, 0xcc and 0xaa.
    let expressions: [fn(u64, u64, u64) -> u64; 4] = [
        |a, b, c| a & b & c,
        |a, b, c| a & b | !a & c,
        |a, b, c| a & b | a & c | b & c,
        |a, b, c| !(a ^ b) | c,
    ];
    for f in expressions {
        let table = f(0xf0, 0xcc, 0xaa) & 0xff;
        let text = format!("lop3.b32 %o0, %i0, %i1, %i2, {table};");
        let triples = EDGES32.iter().zip(&EDGES32[3..]).zip(&EDGES32[7..]);
        let rows = triples.map(|((&a, &b), &c)| (vec![a, b, c], vec![f(a, b, c) & ONES32]));
        cases.push(case_of("r = r r r", &text, rows));
    }
    cases
}

fn shifts() -> Vec<Case> {
    vec![
        case(
            "r = r r",
            "shl.b32 %o0, %i0, %i1;",
            &[(&[1, 31], &[0x8000_0000]), (&[1, 32], &[0]), (&[ONES32, ONES32], &[0]), (&[3, 0], &[3])],
        ),
        case("r = r", "shl.b32 %o0, %i0, 4;", &[(&[0xf000_0001], &[0x10])]),
        case("r = r", "shl.b32 %o0, %i0, 32;", &[(&[0xf000_0001], &[0])]),
        case("r = r", "shl.b32 %o0, %i0, 31;", &[(&[3], &[0x8000_0000])]),
        case(
            "d = d r",
            "shl.b64 %o0, %i0, %i1;",
            &[(&[1, 63], &[1 << 63]), (&[1, 64], &[0]), (&[1, ONES32], &[0])],
        ),
        case("d = d", "shl.b64 %o0, %i0, 33;", &[(&[3], &[3 << 33])]),
        case(
            "h = h r",
            "shl.b16 %o0, %i0, %i1;",
            &[(&[0xffff, 4], &[0xfff0]), (&[1, 16], &[0]), (&[1, ONES32], &[0])],
        ),
        case("h = h", "shl.b16 %o0, %i0, 15;", &[(&[3], &[0x8000])]),
        case(
            "r = r r",
            "shr.u32 %o0, %i0, %i1;",
            &[(&[0x8000_0000, 31], &[1]), (&[ONES32, 32], &[0]), (&[ONES32, ONES32], &[0])],
        ),
        case(
            "r = r r",
            "shr.s32 %o0, %i0, %i1;",
            &[
                (&[0x8000_0000, 31], &[ONES32]),
                (&[0x8000_0000, 99], &[ONES32]),
                (&[0x7fff_ffff, 99], &[0]),
            ],
        ),
        case("r = r", "shr.s32 %o0, %i0, 40;", &[(&[0x8000_0000], &[ONES32]), (&[1], &[0])]),
        case("r = r", "shr.b32 %o0, %i0, 40;", &[(&[0x8000_0000], &[0])]),
        case("r = r", "shr.u32 %o0, %i0, 1;", &[(&[0x8000_0001], &[0x4000_0000])]),
        case("d = d r", "shr.u64 %o0, %i0, %i1;", &[(&[1 << 63, 63], &[1]), (&[1 << 63, 64], &[0])]),
        case("d = d r", "shr.s64 %o0, %i0, %i1;", &[(&[1 << 63, 64], &[u64::MAX])]),
        case("d = d", "shr.s64 %o0, %i0, 4;", &[(&[1 << 63], &[0xf800_0000_0000_0000])]),
        case("d = d", "shr.u64 %o0, %i0, 70;", &[(&[1 << 63], &[0])]),
        case("h = h r", "shr.u16 %o0, %i0, %i1;", &[(&[0x8000, 15], &[1]), (&[0x8000, 16], &[0])]),
        case("h = h r", "shr.s16 %o0, %i0, %i1;", &[(&[0x8000, 20], &[0xffff])]),
        case("h = h", "shr.s16 %o0, %i0, 20;", &[(&[0x8000], &[0xffff])]),
        case("h = h", "shr.u16 %o0, %i0, 8;", &[(&[0x8000], &[0x80])]),
        case(
            "r = r r r",
            "shf.l.clamp.b32 %o0, %i0, %i1, %i2;",
            &[
                (&[0x8000_0000, 1, 1], &[3]),
                (&[0xaaaa_aaaa, 0x5555_5555, 32], &[0xaaaa_aaaa]),
                (&[0xaaaa_aaaa, 0x5555_5555, 99], &[0xaaaa_aaaa]),
            ],
        ),
        case("r = r r r", "shf.l.wrap.b32 %o0, %i0, %i1, %i2;", &[(&[0x8000_0000, 1, 33], &[3])]),
        case(
            "r = r r r",
            "shf.r.clamp.b32 %o0, %i0, %i1, %i2;",
            &[(&[2, 1, 1], &[0x8000_0001]), (&[2, 7, 40], &[7])],
        ),
        case(
            "r = r r r",
            "shf.r.wrap.b32 %o0, %i0, %i1, %i2;",
            &[(&[2, 1, 33], &[0x8000_0001]), (&[2, 1, 32], &[2])],
        ),
        case(
            "r = r r r",
            "prmt.b32 %o0, %i0, %i1, %i2;",
            &[
                (&[0x3322_1100, 0x7766_5544, 0x7531], &[0x7755_3311]),
                (&[0x80, 0, 0x0088], &[0x8080_ffff]),
            ],
        ),
        case(
            "r = r r r",
            "prmt.b32.f4e %o0, %i0, %i1, %i2;",
            &[(&[0x3322_1100, 0x7766_5544, 1], &[0x4433_2211])],
        ),
        case(
            "r = r r r",
            "prmt.b32.b4e %o0, %i0, %i1, %i2;",
            &[(&[0x3322_1100, 0x7766_5544, 1], &[0x6677_0011])],
        ),
        case("r = r r r", "prmt.b32.rc8 %o0, %i0, %i1, %i2;", &[(&[0x3322_1100, 0, 2], &[0x2222_2222])]),
        case("r = r r r", "prmt.b32.ecl %o0, %i0, %i1, %i2;", &[(&[0x3322_1100, 0, 2], &[0x3322_2222])]),
        case("r = r r r", "prmt.b32.ecr %o0, %i0, %i1, %i2;", &[(&[0x3322_1100, 0, 2], &[0x2222_1100])]),
        case(
            "r = r r r",
            "prmt.b32.rc16 %o0, %i0, %i1, %i2;",
            &[(&[0x3322_1100, 0, 1], &[0x3322_3322])],
        ),
    ]
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn comparisons() -> Vec<Case> {
    let signed = |bits: u64| bits as u32 as i32;
    let single = |text, f: fn(f32, f32) -> bool| {
        sweep2("p = r r", text, FLOATS, move |a, b| u64::from(f(float(a), float(b))))
    };
    vec![
        sweep2("p = r r", "setp.eq.s32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a == b)),
        sweep2("p = r r", "setp.ne.b32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a != b)),
        sweep2("p = r r", "setp.lt.u32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a < b)),
        sweep2("p = r r", "setp.lt.s32 %o0, %i0, %i1;", EDGES32, move |a, b| {
            u64::from(signed(a) < signed(b))
        }),
        sweep2("p = r r", "setp.ge.s32 %o0, %i0, %i1;", EDGES32, move |a, b| {
            u64::from(signed(a) >= signed(b))
        }),
        sweep2("p = r r", "setp.lo.u32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a < b)),
        sweep2("p = r r", "setp.hs.u32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a >= b)),
        sweep2("p = r r", "setp.hi.u32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a > b)),
        sweep2("p = r r", "setp.ls.u32 %o0, %i0, %i1;", EDGES32, |a, b| u64::from(a <= b)),
        sweep2("p = d d", "setp.gt.s64 %o0, %i0, %i1;", EDGES64, |a, b| u64::from(a as i64 > b as i64)),
        sweep2("p = d d", "setp.le.u64 %o0, %i0, %i1;", EDGES64, |a, b| u64::from(a <= b)),
        sweep2("p = h h", "setp.gt.s16 %o0, %i0, %i1;", EDGES16, |a, b| {
            u64::from(a as u16 as i16 > b as u16 as i16)
        }),
        sweep2("p = h h", "setp.le.u16 %o0, %i0, %i1;", EDGES16, |a, b| u64::from(a <= b)),
        single("setp.eq.f32 %o0, %i0, %i1;", |a, b| a == b),
        single("setp.ne.f32 %o0, %i0, %i1;", |a, b| a != b && !a.is_nan() && !b.is_nan()),
        single("setp.lt.f32 %o0, %i0, %i1;", |a, b| a < b),
        single("setp.le.f32 %o0, %i0, %i1;", |a, b| a <= b),
        single("setp.gt.f32 %o0, %i0, %i1;", |a, b| a > b),
        single("setp.ge.f32 %o0, %i0, %i1;", |a, b| a >= b),
        single("setp.equ.f32 %o0, %i0, %i1;", |a, b| a == b || a.is_nan() || b.is_nan()),
        single("setp.neu.f32 %o0, %i0, %i1;", |a, b| a != b),
        single("setp.ltu.f32 %o0, %i0, %i1;", |a, b| a < b || a.is_nan() || b.is_nan()),
        single("setp.leu.f32 %o0, %i0, %i1;", |a, b| a <= b || a.is_nan() || b.is_nan()),
        single("setp.gtu.f32 %o0, %i0, %i1;", |a, b| a > b || a.is_nan() || b.is_nan()),
        single("setp.geu.f32 %o0, %i0, %i1;", |a, b| a >= b || a.is_nan() || b.is_nan()),
        single("setp.num.f32 %o0, %i0, %i1;", |a, b| !a.is_nan() && !b.is_nan()),
        single("setp.nan.f32 %o0, %i0, %i1;", |a, b| a.is_nan() || b.is_nan()),
        case(
            "p = r r",
            "setp.eq.ftz.f32 %o0, %i0, %i1;",
            &[(&[0x0000_0001, 0x8000_0001], &[1]), (&[0x0080_0000, 0], &[0])],
        ),
        case(
            "p = d d",
            "setp.lt.f64 %o0, %i0, %i1;",
            &[
                (&[0x3ff0_0000_0000_0000, 0x4000_0000_0000_0000], &[1]),
                (&[0x7ff8_0000_0000_0000, 0], &[0]),
            ],
        ),
        case(
            "p = h h",
            "setp.lt.f16 %o0, %i0, %i1;",
            &[(&[0x3c00, 0x4000], &[1]), (&[0xbc00, 0x3c00], &[1]), (&[0x7e00, 0x3c00], &[0])],
        ),
        case("p = h h", "setp.gt.bf16 %o0, %i0, %i1;", &[(&[0x4000, 0x3f80], &[1])]),
        case("pp = r r", "setp.lt.u32 %o0|%o1, %i0, %i1;", &[(&[1, 2], &[1, 0]), (&[2, 1], &[0, 1])]),
        case(
            "pp = r r p",
            "setp.lt.and.u32 %o0|%o1, %i0, %i1, %i2;",
            &[(&[1, 2, 1], &[1, 0]), (&[1, 2, 0], &[0, 0]), (&[2, 1, 1], &[0, 1])],
        ),
        case(
            "p = r r p",
            "setp.lt.or.u32 %o0, %i0, %i1, !%i2;",
            &[(&[2, 1, 1], &[0]), (&[2, 1, 0], &[1])],
        ),
        case(
            "p = r r p",
            "setp.eq.xor.s32 %o0, %i0, %i1, %i2;",
            &[(&[1, 1, 1], &[0]), (&[1, 2, 1], &[1])],
        ),
        case("r = r r", "set.lt.u32.s32 %o0, %i0, %i1;", &[(&[ONES32, 1], &[ONES32]), (&[1, 1], &[0])]),
        case("r = r r", "set.gt.f32.u32 %o0, %i0, %i1;", &[(&[2, 1], &[0x3f80_0000]), (&[1, 2], &[0])]),
        case(
            "r = r r p",
            "set.eq.and.u32.f32 %o0, %i0, %i1, %i2;",
            &[
                (&[0x3f80_0000, 0x3f80_0000, 1], &[ONES32]),
                (&[0x3f80_0000, 0x3f80_0000, 0], &[0]),
                (&[NAN, NAN, 1], &[0]),
            ],
        ),
    ]
}

fn selections() -> Vec<Case> {
    vec![
        case("r = r r p", "selp.b32 %o0, %i0, %i1, %i2;", &[(&[1, 2, 1], &[1]), (&[1, 2, 0], &[2])]),
        case(
            "d = d d p",
            "selp.b64 %o0, %i0, %i1, %i2;",
            &[(&[1 << 40, 2, 1], &[1 << 40]), (&[1, 2, 0], &[2])],
        ),
        case("h = h h p", "selp.u16 %o0, %i0, %i1, %i2;", &[(&[1, 2, 0], &[2])]),
        case(
            "r = p",
            "selp.f32 %o0, 0f3F800000, 0f00000000, %i0;",
            &[(&[1], &[0x3f80_0000]), (&[0], &[0])],
        ),
        case(
            "r = r r r",
            "slct.u32.s32 %o0, %i0, %i1, %i2;",
            &[(&[1, 2, 0], &[1]), (&[1, 2, ONES32], &[2])],
        ),
        case(
            "d = d d r",
            "slct.b64.f32 %o0, %i0, %i1, %i2;",
            &[(&[1, 2, 0x8000_0000], &[1]), (&[1, 2, 0xbf80_0000], &[2]), (&[1, 2, NAN], &[2])],
        ),
        case("r = r r r", "slct.ftz.f32.f32 %o0, %i0, %i1, %i2;", &[(&[1, 2, 0x8000_0001], &[1])]),
        case(
            "r = r p",
            "mov.u32 %o0, 7; @%i1 mov.u32 %o0, %i0; *@!%i1 add.u32 %o0, %o0, 1;",
            &[(&[5, 1], &[5]), (&[5, 0], &[8]), (&[6, 1], &[6])],
        ),
    ]
}
