use super::harness::{Case, DOUBLES, FLOATS, Row, case, case_of, sweep1, sweep2};

const QNAN: u64 = 0x7fff_ffff;
const NAN: u64 = 0x7fc0_0000;
const INF: u64 = 0x7f80_0000;
const NINF: u64 = 0xff80_0000;
const ONE: u64 = 0x3f80_0000;
const TWO: u64 = 0x4000_0000;
const THREE: u64 = 0x4040_0000;
const NZERO: u64 = 0x8000_0000;
const TINY: u64 = 0x0000_0001;
const ONE64: u64 = 0x3ff0_0000_0000_0000;
const TWO64: u64 = 0x4000_0000_0000_0000;
const THREE64: u64 = 0x4008_0000_0000_0000;
const THIRD64: u64 = 0x3fd5_5555_5555_5555;

pub(crate) fn cases() -> Vec<Case> {
    [singles(), doubles(), directed(), flushed(), extremes(), special(), halves(), tests()]
        .into_iter()
        .flatten()
        .collect()
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn bits(value: f32) -> u64 {
    if value.is_nan() { QNAN } else { u64::from(value.to_bits()) }
}

fn pairs(text: &str, f: impl Fn(f32, f32) -> f32) -> Case {
    sweep2("r = r r", text, FLOATS, |a, b| bits(f(float(a), float(b))))
}

fn double_pairs(text: &str, f: impl Fn(f64, f64) -> f64) -> Case {
    sweep2("d = d d", text, DOUBLES, |a, b| {
        let value = f(f64::from_bits(a), f64::from_bits(b));
        if value.is_nan() { 0xfff8_0000_0000_0000 } else { value.to_bits() }
    })
}

fn triples(f: impl Fn(f32, f32, f32) -> f32) -> Vec<Row> {
    let all = FLOATS.iter().flat_map(|&a| FLOATS.iter().map(move |&b| (a, b)));
    let with_third = all.flat_map(|(a, b)| FLOATS.iter().step_by(3).map(move |&c| (a, b, c)));
    with_third.map(|(a, b, c)| (vec![a, b, c], vec![bits(f(float(a), float(b), float(c)))])).collect()
}

fn singles() -> Vec<Case> {
    vec![
        case(
            "r = r r",
            "add.f32 %o0, %i0, %i1;",
            &[
                (&[ONE, ONE], &[TWO]),
                (&[INF, NINF], &[QNAN]),
                (&[0xffc1_2345, ONE], &[QNAN]),
                (&[0x4b80_0000, ONE], &[0x4b80_0000]),
                (&[NZERO, NZERO], &[NZERO]),
                (&[NZERO, 0], &[0]),
                (&[TINY, TINY], &[2]),
            ],
        ),
        pairs("add.rn.f32 %o0, %i0, %i1;", |a, b| a + b),
        pairs("sub.f32 %o0, %i0, %i1;", |a, b| a - b),
        pairs("mul.f32 %o0, %i0, %i1;", |a, b| a * b),
        pairs("div.rn.f32 %o0, %i0, %i1;", |a, b| a / b),
        pairs("div.full.f32 %o0, %i0, %i1;", |a, b| a / b),
        case_of("r = r r r", "fma.rn.f32 %o0, %i0, %i1, %i2;", triples(f32::mul_add)),
        case_of("r = r r r", "mad.rn.f32 %o0, %i0, %i1, %i2;", triples(f32::mul_add)),
        // 1 + 2^-23 squared is 1 + 2^-22 + 2^-46; with one rounding the last term survives.
        case(
            "r = r r r",
            "fma.rn.f32 %o0, %i0, %i1, %i2;",
            &[(&[0x3f80_0001, 0x3f80_0001, 0xbf80_0002], &[0x2880_0000]), (&[INF, 0, ONE], &[QNAN])],
        ),
        sweep1("r = r", "neg.f32 %o0, %i0;", FLOATS, |a| bits(-float(a))),
        sweep1("r = r", "abs.f32 %o0, %i0;", FLOATS, |a| bits(float(a).abs())),
        sweep1("r = r", "sqrt.rn.f32 %o0, %i0;", FLOATS, |a| bits(float(a).sqrt())),
        sweep1("r = r", "rcp.rn.f32 %o0, %i0;", FLOATS, |a| bits(1.0 / float(a))),
        case(
            "r = r r",
            "copysign.f32 %o0, %i0, %i1;",
            &[(&[NZERO, ONE], &[0xbf80_0000]), (&[0, 0xbf80_0000], &[ONE])],
        ),
        case(
            "r = r r",
            "add.sat.f32 %o0, %i0, %i1;",
            &[
                (&[ONE, ONE], &[ONE]),
                (&[0xbf80_0000, 0], &[0]),
                (&[NAN, ONE], &[0]),
                (&[0x3e80_0000, 0x3e80_0000], &[0x3f00_0000]),
            ],
        ),
    ]
}

fn doubles() -> Vec<Case> {
    let fused = |a: u64, b: u64, c: u64| {
        f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()
    };
    vec![
        double_pairs("add.f64 %o0, %i0, %i1;", |a, b| a + b),
        double_pairs("sub.rn.f64 %o0, %i0, %i1;", |a, b| a - b),
        double_pairs("mul.f64 %o0, %i0, %i1;", |a, b| a * b),
        double_pairs("div.rn.f64 %o0, %i0, %i1;", |a, b| a / b),
        case_of(
            "d = d d d",
            "fma.rn.f64 %o0, %i0, %i1, %i2;",
            [
                (ONE64, TWO64, THREE64),
                (0x3ff0_0000_0000_0001, 0x3ff0_0000_0000_0001, 0xbff0_0000_0000_0002),
                (THIRD64, THREE64, 0xbff0_0000_0000_0000),
            ]
            .map(|(a, b, c)| (vec![a, b, c], vec![fused(a, b, c)])),
        ),
        // A NaN operand's payload is passed on, made quiet; the second operand takes precedence.
        case(
            "d = d d",
            "add.f64 %o0, %i0, %i1;",
            &[
                (&[0x7ff0_0000_0000_1234, ONE64], &[0x7ff8_0000_0000_1234]),
                (&[ONE64, 0xfff8_0000_0000_0007], &[0xfff8_0000_0000_0007]),
                (&[0xfff8_0000_0000_0001, 0x7ff0_0000_0000_0002], &[0x7ff8_0000_0000_0002]),
                (&[0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000], &[0xfff8_0000_0000_0000]),
            ],
        ),
        case(
            "d = d d",
            "div.rn.f64 %o0, %i0, %i1;",
            &[(&[0xfff8_0000_0000_0001, 0x7ff0_0000_0000_0002], &[0xfff8_0000_0000_0001])],
        ),
        case(
            "d = d",
            "neg.f64 %o0, %i0;",
            &[
                (&[ONE64], &[0xbff0_0000_0000_0000]),
                (&[0], &[1 << 63]),
                (&[0xfff0_0000_0000_0001], &[0xfff8_0000_0000_0001]),
            ],
        ),
        case(
            "d = d",
            "abs.f64 %o0, %i0;",
            &[
                (&[0xbff0_0000_0000_0000], &[ONE64]),
                (&[0xfff0_0000_0000_0001], &[0xfff8_0000_0000_0001]),
            ],
        ),
        case(
            "d = d",
            "sqrt.rn.f64 %o0, %i0;",
            &[
                (&[0x4010_0000_0000_0000], &[TWO64]),
                (&[TWO64], &[0x3ff6_a09e_667f_3bcd]),
                (&[1 << 63], &[1 << 63]),
            ],
        ),
        case(
            "d = d",
            "rcp.rn.f64 %o0, %i0;",
            &[(&[THREE64], &[THIRD64]), (&[0], &[0x7ff0_0000_0000_0000])],
        ),
        case("d = d d", "copysign.f64 %o0, %i0, %i1;", &[(&[1 << 63, ONE64], &[0xbff0_0000_0000_0000])]),
        case(
            "d = d",
            "rcp.approx.ftz.f64 %o0, %i0;",
            &[
                (&[THREE64], &[0x3fd5_5555_0000_0000]),
                (&[0x7ff0_0000_0000_0001], &[0]),
                (&[0xfff0_0001_0000_0000], &[0x7fff_ffff_0000_0000]),
            ],
        ),
        case(
            "d = d",
            "rsqrt.approx.f64 %o0, %i0;",
            &[(&[0x4010_0000_0000_0000], &[0x3fe0_0000_0000_0000])],
        ),
    ]
}

fn directed() -> Vec<Case> {
    vec![
        case(
            "r = r r",
            "add.rz.f32 %o0, %i0, %i1;",
            &[(&[ONE, 0x3080_0000], &[ONE]), (&[0xbf80_0000, 0xb080_0000], &[0xbf80_0000])],
        ),
        case(
            "r = r r",
            "add.rp.f32 %o0, %i0, %i1;",
            &[(&[ONE, 0x3080_0000], &[0x3f80_0001]), (&[0xbf80_0000, 0xb080_0000], &[0xbf80_0000])],
        ),
        case(
            "r = r r",
            "add.rm.f32 %o0, %i0, %i1;",
            &[
                (&[ONE, 0x3080_0000], &[ONE]),
                (&[0xbf80_0000, 0xb080_0000], &[0xbf80_0001]),
                (&[ONE, 0xbf80_0000], &[NZERO]),
            ],
        ),
        case("r = r r", "sub.rz.f32 %o0, %i0, %i1;", &[(&[ONE, 0x3080_0000], &[0x3f7f_ffff])]),
        // A third is 0x3eaaaaaa.aaa… in single precision.
        case("r = r r", "div.rz.f32 %o0, %i0, %i1;", &[(&[ONE, THREE], &[0x3eaa_aaaa])]),
        case("r = r r", "div.rn.f32 %o0, %i0, %i1;", &[(&[ONE, THREE], &[0x3eaa_aaab])]),
        case(
            "r = r r",
            "div.rp.f32 %o0, %i0, %i1;",
            &[(&[ONE, THREE], &[0x3eaa_aaab]), (&[ONE, 0], &[INF])],
        ),
        case(
            "r = r r",
            "mul.rp.f32 %o0, %i0, %i1;",
            &[(&[0x3f80_0001, 0x3f80_0001], &[0x3f80_0003]), (&[0x7f7f_ffff, TWO], &[INF])],
        ),
        case(
            "r = r r",
            "mul.rz.f32 %o0, %i0, %i1;",
            &[(&[0x3f80_0001, 0x3f80_0001], &[0x3f80_0002]), (&[0x7f7f_ffff, TWO], &[0x7f7f_ffff])],
        ),
        case("r = r r r", "fma.rm.f32 %o0, %i0, %i1, %i2;", &[(&[ONE, ONE, 0x3080_0000], &[ONE])]),
        case(
            "r = r r r",
            "fma.rp.f32 %o0, %i0, %i1, %i2;",
            &[(&[ONE, ONE, 0x3080_0000], &[0x3f80_0001])],
        ),
        case("r = r", "sqrt.rz.f32 %o0, %i0;", &[(&[TWO], &[0x3fb5_04f3])]),
        case("r = r", "sqrt.rp.f32 %o0, %i0;", &[(&[TWO], &[0x3fb5_04f4]), (&[0x4080_0000], &[TWO])]),
        case("r = r", "rcp.rz.f32 %o0, %i0;", &[(&[THREE], &[0x3eaa_aaaa])]),
        case("d = d d", "add.rp.f64 %o0, %i0, %i1;", &[(&[ONE64, 1], &[0x3ff0_0000_0000_0001])]),
        case("d = d d", "div.rm.f64 %o0, %i0, %i1;", &[(&[ONE64, THREE64], &[THIRD64])]),
        case("d = d d", "div.rp.f64 %o0, %i0, %i1;", &[(&[ONE64, THREE64], &[THIRD64 + 1])]),
        case(
            "d = d d",
            "mul.rz.f64 %o0, %i0, %i1;",
            &[(&[0x7fef_ffff_ffff_ffff, TWO64], &[0x7fef_ffff_ffff_ffff])],
        ),
        case(
            "d = d d d",
            "fma.rp.f64 %o0, %i0, %i1, %i2;",
            &[(&[ONE64, ONE64, 1], &[0x3ff0_0000_0000_0001])],
        ),
        case("d = d", "sqrt.rp.f64 %o0, %i0;", &[(&[TWO64], &[0x3ff6_a09e_667f_3bcd])]),
        case("d = d", "sqrt.rm.f64 %o0, %i0;", &[(&[TWO64], &[0x3ff6_a09e_667f_3bcc])]),
        case("d = d", "rcp.rp.f64 %o0, %i0;", &[(&[THREE64], &[THIRD64 + 1])]),
    ]
}

fn flushed() -> Vec<Case> {
    vec![
        case(
            "r = r r",
            "add.ftz.f32 %o0, %i0, %i1;",
            &[
                (&[TINY, TINY], &[0]),
                (&[0x8000_0001, 0x8000_0001], &[NZERO]),
                (&[0x0080_0000, 0x8080_0001], &[NZERO]),
                (&[ONE, TINY], &[ONE]),
            ],
        ),
        case(
            "r = r r",
            "mul.ftz.f32 %o0, %i0, %i1;",
            &[
                (&[0x0080_0000, 0x3f00_0000], &[0]),
                (&[0x8080_0000, 0x3f00_0000], &[NZERO]),
                // 18631 * 2^-75 times 1801 * 2^-76 is 2^-126 - 2^-151, half way between the least normal
                // number and its lower neighbour at full precision; the even one of the two is normal.
                (&[0x2111_8e00, 0x1ee1_2000], &[0x0080_0000]),
                (&[0xa111_8e00, 0x1ee1_2000], &[0x8080_0000]),
            ],
        ),
        case("r = r r", "mul.f32 %o0, %i0, %i1;", &[(&[0x0080_0000, 0x3f00_0000], &[0x0040_0000])]),
        case(
            "r = r r r",
            "fma.rn.ftz.f32 %o0, %i0, %i1, %i2;",
            &[(&[TINY, INF, ONE], &[QNAN]), (&[0x0080_0000, 0x3f00_0000, 0], &[0])],
        ),
        case(
            "r = r r",
            "div.approx.ftz.f32 %o0, %i0, %i1;",
            &[(&[TINY, ONE], &[0]), (&[ONE, TWO], &[0x3f00_0000])],
        ),
        // The reciprocal of a divisor beyond 2^126 is 0.
        case(
            "r = r r",
            "div.approx.f32 %o0, %i0, %i1;",
            &[
                (&[0x7e80_0000, 0x7e80_0000], &[ONE]),
                (&[0x7f00_0000, 0xfe80_0001], &[NZERO]),
                (&[INF, 0x7f00_0000], &[QNAN]),
                (&[ONE, INF], &[0]),
                (&[ONE, NAN], &[QNAN]),
            ],
        ),
        case("r = r r", "sub.rz.ftz.f32 %o0, %i0, %i1;", &[(&[0x0080_0001, 0x0080_0000], &[0])]),
        case("r = r", "abs.ftz.f32 %o0, %i0;", &[(&[0x8000_0001], &[0])]),
        case("r = r", "neg.ftz.f32 %o0, %i0;", &[(&[TINY], &[NZERO])]),
        case("r = r", "sqrt.approx.ftz.f32 %o0, %i0;", &[(&[TINY], &[0]), (&[0x4080_0000], &[TWO])]),
        case("r = r", "rcp.approx.ftz.f32 %o0, %i0;", &[(&[TINY], &[INF]), (&[TWO], &[0x3f00_0000])]),
    ]
}

fn extremes() -> Vec<Case> {
    let least = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == 0.0 && b == 0.0 => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    };
    let greatest = move |a: f32, b: f32| -least(-a, -b);
    let wins = |a: f32, b: f32| a.is_nan() || b.is_nan();
    vec![
        case(
            "r = r r",
            "min.f32 %o0, %i0, %i1;",
            &[
                (&[0, NZERO], &[NZERO]),
                (&[NZERO, 0], &[NZERO]),
                (&[NAN, ONE], &[ONE]),
                (&[ONE, NAN], &[ONE]),
                (&[NAN, NAN], &[QNAN]),
            ],
        ),
        case(
            "r = r r",
            "max.f32 %o0, %i0, %i1;",
            &[
                (&[0, NZERO], &[0]),
                (&[NZERO, 0], &[0]),
                (&[NAN, NINF], &[NINF]),
                (&[NAN, 0xffc0_0001], &[QNAN]),
            ],
        ),
        pairs("min.f32 %o0, %i0, %i1;", least),
        pairs("max.f32 %o0, %i0, %i1;", greatest),
        pairs("min.NaN.f32 %o0, %i0, %i1;", move |a, b| if wins(a, b) { f32::NAN } else { least(a, b) }),
        pairs(
            "max.NaN.f32 %o0, %i0, %i1;",
            move |a, b| {
                if wins(a, b) { f32::NAN } else { greatest(a, b) }
            },
        ),
        case("r = r r", "max.ftz.f32 %o0, %i0, %i1;", &[(&[TINY, NZERO], &[0])]),
        case(
            "r = r r",
            "min.xorsign.abs.f32 %o0, %i0, %i1;",
            &[(&[0xc000_0000, ONE], &[0xbf80_0000]), (&[0xc000_0000, 0xbf80_0000], &[ONE])],
        ),
        case(
            "r = r r",
            "max.NaN.xorsign.abs.f32 %o0, %i0, %i1;",
            &[(&[0xc000_0000, ONE], &[0xc000_0000]), (&[NAN, ONE], &[QNAN])],
        ),
        case(
            "r = r r r",
            "min.f32 %o0, %i0, %i1, %i2;",
            &[(&[THREE, TWO, ONE], &[ONE]), (&[NAN, TWO, THREE], &[TWO])],
        ),
        case(
            "d = d d",
            "min.f64 %o0, %i0, %i1;",
            &[(&[0, 1 << 63], &[1 << 63]), (&[0x7ff8_0000_0000_0000, ONE64], &[ONE64])],
        ),
        case(
            "d = d d",
            "max.f64 %o0, %i0, %i1;",
            &[
                (&[1 << 63, 0], &[0]),
                (&[ONE64, TWO64], &[TWO64]),
                (&[ONE64, 0x7ff8_0000_0000_0000], &[ONE64]),
            ],
        ),
    ]
}

/// Returns cases for which any good approximation gives the correctly rounded result.
fn special() -> Vec<Case> {
    vec![
        case(
            "r = r",
            "sin.approx.f32 %o0, %i0;",
            &[(&[0], &[0]), (&[NZERO], &[NZERO]), (&[INF], &[QNAN]), (&[ONE], &[0x3f57_6aa4])],
        ),
        case("r = r", "cos.approx.f32 %o0, %i0;", &[(&[0], &[ONE]), (&[ONE], &[0x3f0a_5140])]),
        case("r = r", "cos.approx.ftz.f32 %o0, %i0;", &[(&[TINY], &[ONE])]),
        case(
            "r = r",
            "lg2.approx.f32 %o0, %i0;",
            &[
                (&[ONE], &[0]),
                (&[0x4100_0000], &[THREE]),
                (&[0], &[NINF]),
                (&[0xbf80_0000], &[QNAN]),
                (&[TINY], &[0xc315_0000]),
            ],
        ),
        case("r = r", "lg2.approx.ftz.f32 %o0, %i0;", &[(&[TINY], &[NINF])]),
        case(
            "r = r",
            "ex2.approx.f32 %o0, %i0;",
            &[(&[THREE], &[0x4100_0000]), (&[NINF], &[0]), (&[INF], &[INF]), (&[0xc315_0000], &[TINY])],
        ),
        case("r = r", "ex2.approx.ftz.f32 %o0, %i0;", &[(&[0xc315_0000], &[0]), (&[0], &[ONE])]),
        case(
            "r = r",
            "tanh.approx.f32 %o0, %i0;",
            &[(&[0], &[0]), (&[INF], &[ONE]), (&[ONE], &[0x3f42_f7d6])],
        ),
        case(
            "r = r",
            "rsqrt.approx.f32 %o0, %i0;",
            &[
                (&[0x4080_0000], &[0x3f00_0000]),
                (&[0], &[INF]),
                (&[NZERO], &[NINF]),
                (&[0xbf80_0000], &[QNAN]),
            ],
        ),
        case("r = r", "rsqrt.approx.ftz.f32 %o0, %i0;", &[(&[TINY], &[INF])]),
    ]
}

fn halves() -> Vec<Case> {
    vec![
        case(
            "h = h h",
            "add.f16 %o0, %i0, %i1;",
            &[
                (&[0x3c00, 0x3c00], &[0x4000]),
                (&[0x7bff, 0x7bff], &[0x7c00]),
                (&[0x0001, 0x0001], &[0x0002]),
                (&[0x7c00, 0xfc00], &[0x7fff]),
                (&[0x6800, 0x3c00], &[0x6800]),
            ],
        ),
        case("h = h h", "sub.rn.f16 %o0, %i0, %i1;", &[(&[0x3c00, 0x3c00], &[0])]),
        case(
            "h = h h",
            "mul.f16 %o0, %i0, %i1;",
            &[(&[0x4200, 0x4000], &[0x4600]), (&[0x0400, 0x3800], &[0x0200])],
        ),
        case("h = h h", "mul.ftz.f16 %o0, %i0, %i1;", &[(&[0x0400, 0x3800], &[0])]),
        case(
            "h = h h h",
            "fma.rn.f16 %o0, %i0, %i1, %i2;",
            &[
                // (1 + 2^-10)^2 - (1 + 2^-9) is 2^-20 exactly.
                (&[0x3c01, 0x3c01, 0xbc02], &[0x0010]),
            ],
        ),
        case("r = r r", "add.f16x2 %o0, %i0, %i1;", &[(&[0x3c00_4000, 0x4000_3c00], &[0x4200_4200])]),
        case(
            "r = r r r",
            "fma.rn.f16x2 %o0, %i0, %i1, %i2;",
            &[(&[0x4000_3c00, 0x4000_4200, 0x3c00_0000], &[0x4500_4200])],
        ),
        case(
            "r = r r r",
            "fma.rn.relu.f16x2 %o0, %i0, %i1, %i2;",
            &[(&[0xc000_3c00, 0x4000_4200, 0], &[0x0000_4200])],
        ),
        case("h = h h h", "fma.rn.bf16 %o0, %i0, %i1, %i2;", &[(&[0x4000, 0x4040, 0x3f80], &[0x40e0])]),
        case("r = r r", "add.bf16x2 %o0, %i0, %i1;", &[(&[0x3f80_4000, 0x3f80_3f80], &[0x4000_4040])]),
        case(
            "h = h h",
            "min.f16 %o0, %i0, %i1;",
            &[(&[0x8000, 0], &[0x8000]), (&[0x7e00, 0x3c00], &[0x3c00])],
        ),
        case(
            "h = h h",
            "max.NaN.f16 %o0, %i0, %i1;",
            &[(&[0x7e00, 0x3c00], &[0x7fff]), (&[0xbc00, 0xc000], &[0xbc00])],
        ),
        case("r = r r", "max.bf16x2 %o0, %i0, %i1;", &[(&[0x3f80_bf80, 0x4000_c000], &[0x4000_bf80])]),
        case(
            "h = h h",
            "min.xorsign.abs.f16 %o0, %i0, %i1;",
            &[
                (&[0xc000, 0x3c00], &[0xbc00]),
                (&[0x7e00, 0xbc00], &[0xbc00]),
                (&[0x7e00, 0x7e00], &[0x7fff]),
            ],
        ),
        case(
            "r = r r",
            "max.ftz.NaN.xorsign.abs.f16x2 %o0, %i0, %i1;",
            &[
                (&[0x0001_c000, 0x8002_4400], &[0x8000_c400]),
                (&[0x3c00_7e00, 0x4000_3c00], &[0x4000_7fff]),
            ],
        ),
        case(
            "r = r r",
            "min.xorsign.abs.bf16x2 %o0, %i0, %i1;",
            &[(&[0x3f80_bf80, 0x4000_c000], &[0x3f80_3f80])],
        ),
        case("h = h", "neg.ftz.f16 %o0, %i0;", &[(&[0x03ff], &[0x8000]), (&[0x8400], &[0x0400])]),
        case("r = r", "abs.ftz.f16x2 %o0, %i0;", &[(&[0x83ff_c000], &[0x0000_4000])]),
        case(
            "p = h h",
            "setp.eq.ftz.f16 %o0, %i0, %i1;",
            &[(&[0x03ff, 0x8000], &[1]), (&[0x0400, 0], &[0])],
        ),
        case("h = h", "neg.f16 %o0, %i0;", &[(&[0x3c00], &[0xbc00])]),
        case(
            "r = r",
            "abs.f16x2 %o0, %i0;",
            &[(&[0xbc00_8000], &[0x3c00_0000]), (&[0xfc01_bc00], &[0x7fff_3c00])],
        ),
        case("h = h", "neg.bf16 %o0, %i0;", &[(&[0xff81], &[0x7fff]), (&[0x7c01], &[0xfc01])]),
        case("h = h", "ex2.approx.f16 %o0, %i0;", &[(&[0x4200], &[0x4800])]),
        case("h = h", "tanh.approx.bf16 %o0, %i0;", &[(&[0x7f80], &[0x3f80])]),
    ]
}

fn tests() -> Vec<Case> {
    let property = |text: &str, expected: [u64; 6]| {
        let values = [ONE, INF, NAN, TINY, 0, 0xff80_0000];
        let rows = values.into_iter().zip(expected);
        case_of("p = r", text, rows.map(|(value, holds)| (vec![value], vec![holds])))
    };
    vec![
        property("testp.finite.f32 %o0, %i0;", [1, 0, 0, 1, 1, 0]),
        property("testp.infinite.f32 %o0, %i0;", [0, 1, 0, 0, 0, 1]),
        property("testp.number.f32 %o0, %i0;", [1, 1, 0, 1, 1, 1]),
        property("testp.notanumber.f32 %o0, %i0;", [0, 0, 1, 0, 0, 0]),
        property("testp.normal.f32 %o0, %i0;", [1, 0, 0, 0, 1, 0]),
        property("testp.subnormal.f32 %o0, %i0;", [0, 0, 0, 1, 0, 0]),
        case("p = d", "testp.subnormal.f64 %o0, %i0;", &[(&[1], &[1]), (&[ONE64], &[0])]),
    ]
}
