//! 8-bit floats and `tf32`, bytes, 128-bit registers, and `set` of halves.

use super::harness::{Case, FLOATS, Row, case, case_of, lanes, sweep1, sweep2};

pub(crate) fn cases() -> Vec<Case> {
    [eight_bits(), tf32(), bytes(), wide(), sets()].into_iter().flatten().collect()
}

#[derive(Clone, Copy)]
struct Format {
    fraction: u32,
    bias: i32,
    /// Set if the largest exponent is reserved for infinities and NaNs.
    ieee: bool,
}

const E4M3: Format = Format { fraction: 3, bias: 7, ieee: false };
const E5M2: Format = Format { fraction: 2, bias: 15, ieee: true };

impl Format {
    fn value(self, bits: u64) -> f64 {
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let (field, rest) = ((bits & 0x7f) >> self.fraction, bits & ((1 << self.fraction) - 1));
        let part = rest as f64 / f64::from(1 << self.fraction);
        match field {
            0x1f if self.ieee && rest == 0 => sign * f64::INFINITY,
            0x1f if self.ieee => f64::NAN,
            _ if !self.ieee && bits & 0x7f == 0x7f => f64::NAN,
            0 => sign * part * 2_f64.powi(1 - self.bias),
            _ => sign * (1.0 + part) * 2_f64.powi(field as i32 - self.bias),
        }
    }

    /// Returns the nearest finite number; ties go to the even one.
    fn nearest(self, value: f64) -> u64 {
        if value.is_nan() {
            return 0x7f;
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let finite = (0..0x80).filter(|&bits| self.value(bits).is_finite());
        let off = |bits: &u64| (self.value(*bits) - value.abs().min(1e9)).abs();
        let best = finite.min_by(|a, b| off(a).total_cmp(&off(b)).then((a & 1).cmp(&(b & 1))));
        sign | best.expect("a number")
    }
}

fn singles(format: Format) -> Vec<u64> {
    let numbers: Vec<f64> = (0..0x7f).map(|bits| format.value(bits)).filter(|v| v.is_finite()).collect();
    let between = numbers.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let values: Vec<f32> = numbers.iter().copied().chain(between).map(|value| value as f32).collect();
    let near = values.iter().flat_map(|value| [value.next_down(), *value, value.next_up(), -*value]);
    near.map(|value| u64::from(value.to_bits())).chain(FLOATS.iter().copied()).collect()
}

fn half(bits: u64) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (field, rest) = (bits >> 10 & 0x1f, (bits & 0x3ff) as f64 / 1024.0);
    match field {
        0x1f if rest == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        0 => sign * rest * 2_f64.powi(-14),
        _ => sign * (1.0 + rest) * 2_f64.powi(field as i32 - 15),
    }
}

fn eight_bits() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, format) in [("e4m3x2", E4M3), ("e5m2x2", E5M2)] {
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            let byte = move |value: f64| match relu && value.is_sign_negative() && !value.is_nan() {
                true => 0,
                false => format.nearest(value),
            };
            let values = singles(format);
            let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
            let rows: Vec<Row> = values
                .iter()
                .zip(values.iter().rev())
                .map(|(&a, &b)| (vec![a, b], vec![byte(single(a)) << 8 | byte(single(b))]))
                .collect();
            let text = format!("cvt.rn.satfinite{suffix}.{name}.f32 %o0, %i0, %i1;");
            cases.push(case_of("h = r r", &text, rows));
            let halves: Vec<u64> = (0..0x1_0000).step_by(13).collect();
            let pairs = |bits: u64| bits | (bits.wrapping_mul(7) & 0xffff) << 16;
            let rows = halves.iter().map(|&bits| {
                let pair = pairs(bits);
                let expected = byte(half(pair >> 16)) << 8 | byte(half(pair & 0xffff));
                (vec![pair], vec![expected])
            });
            let text = format!("cvt.rn.satfinite{suffix}.{name}.f16x2 %o0, %i0;");
            cases.push(case_of("h = r", &text, rows));
            // Back again: every byte is exactly representable as a half, or is NaN.
            let widened = move |bits: u64| {
                let value = format.value(bits);
                if value.is_nan() {
                    return 0x7fff;
                }
                if relu && value.is_sign_negative() {
                    return 0;
                }
                let found = (0..0x1_0000).find(|&other| {
                    half(other) == value && (other >> 15 == 1) == value.is_sign_negative()
                });
                found.expect("a half")
            };
            let rows: Vec<Row> = (0..0x100_u64)
                .map(|bits| {
                    (vec![bits | (0xff - bits) << 8], vec![widened(bits) | widened(0xff - bits) << 16])
                })
                .collect();
            cases.push(case_of("r = h", &format!("cvt.rn{suffix}.f16x2.{name} %o0, %i0;"), rows));
        }
    }
    cases
}

fn tf32() -> Vec<Case> {
    let ties =
        [0x3f80_1000, 0x3f80_3000, 0x3f80_0fff, 0x3f80_1001, 0xbf80_1000, 0x7f7f_f000, 0x7f7f_efff];
    let values: Vec<u64> = FLOATS.iter().copied().chain(ties).collect();
    let float = |bits: u64| f32::from_bits(bits as u32);
    let lower = |bits: u64| bits & !0x1fff;
    let rounded = move |bits: u64, ties_away: bool| {
        if float(bits).is_nan() {
            return 0x7fff_ffff;
        }
        let (low, high) = (lower(bits), lower(bits) + 0x2000);
        match (bits & 0x1fff).cmp(&0x1000) {
            std::cmp::Ordering::Less => low,
            std::cmp::Ordering::Greater => high,
            std::cmp::Ordering::Equal if ties_away || low >> 13 & 1 == 1 => high,
            std::cmp::Ordering::Equal => low,
        }
    };
    let finite = move |bits: u64| {
        let bits = rounded(bits, true);
        if float(bits).is_infinite() { bits - 0x2000 } else { bits }
    };
    vec![
        sweep1("r = r", "cvt.rna.tf32.f32 %o0, %i0;", &values, move |a| rounded(a, true)),
        sweep1("r = r", "cvt.rn.tf32.f32 %o0, %i0;", &values, move |a| rounded(a, false)),
        sweep1("r = r", "cvt.rna.satfinite.tf32.f32 %o0, %i0;", &values, finite),
        sweep1("r = r", "cvt.rz.tf32.f32 %o0, %i0;", &values, move |a| {
            if float(a).is_nan() { 0x7fff_ffff } else { lower(a) }
        }),
        sweep1("r = r", "cvt.rz.relu.tf32.f32 %o0, %i0;", &values, move |a| match float(a) {
            value if value.is_nan() => 0x7fff_ffff,
            value if value.is_sign_negative() => 0,
            _ => lower(a),
        }),
    ]
}

fn bytes() -> Vec<Case> {
    vec![
        sweep1(
            "h = h",
            ".reg .b8 %a, %b; mov.b16 {%a, %b}, %i0; mov.b16 %o0, {%b, %a};",
            &[0x1234, 0xff00, 0x00ff],
            |a| a >> 8 | (a & 0xff) << 8,
        ),
        sweep1(
            "r = r",
            ".reg .b8 %a, %b, %c, %d; mov.b32 {%a, %b, %c, %d}, %i0; mov.b32 %o0, {%d, %a, %c, %b};",
            &[0x1234_5678, 0xff00_0000, 0x00ff_00ff],
            |a| a >> 24 | (a & 0xff) << 8 | (a >> 16 & 0xff) << 16 | (a >> 8 & 0xff) << 24,
        ),
    ]
}

fn wide() -> Vec<Case> {
    let pair = |lane: u64| [lane + (1 << 63), !lane];
    let swapped = |lane: u64| [!lane, lane + (1 << 63)];
    vec![
        lanes(
            "dd = d d",
            ".reg .b128 %q<2>, %w; mov.b128 %q1, {%i0, %i1}; mov.b128 %w, %q1; mov.b128 {%o1, %o0}, %w;",
            pair,
            swapped,
        ),
        lanes(
            "dd = d d",
            ".reg .b128 %w, %v; mov.b128 %w, {%i0, %i1}; *st.global.b128 [%scratch+16], %w;
             ld.global.v2.b64 {%o1, %o0}, [%scratch+16];",
            pair,
            swapped,
        ),
        lanes(
            "dd = d d",
            ".reg .b128 %w; st.v2.b64 [%scratch], {%i0, %i1}; *ld.b128 %w, [%scratch]; mov.b128 {%o1, %o0}, %w;",
            pair,
            swapped,
        ),
        // An exchange returns the old value; a comparison fails if one half differs.
        lanes(
            "dddd = d d",
            ".reg .b128 %w, %v, %u; mov.b128 %w, {%i0, %i1}; st.global.b128 [%scratch], %w; mov.b128 %v, {7, 8};
             *atom.global.exch.b128 %u, [%scratch], %v; mov.b128 {%o0, %o1}, %u; ld.global.v2.b64 {%o2, %o3}, [%scratch];",
            pair,
            move |lane| [pair(lane)[0], pair(lane)[1], 7, 8],
        ),
        lanes(
            "dddd = d d",
            ".reg .b128 %w, %v, %u, %s; mov.b128 %w, {%i0, %i1}; st.global.b128 [%scratch], %w; mov.b128 %v, {7, 8};
             mov.b64 %h64, 4096; setp.lt.u32 %done, %lane, 16; selp.b64 %h64, %i1, %h64, %done;
             mov.b128 %s, {%i0, %h64}; *atom.relaxed.gpu.global.cas.b128 %u, [%scratch], %s, %v;
             mov.b128 {%o0, %o1}, %u; ld.global.v2.b64 {%o2, %o3}, [%scratch];",
            pair,
            move |lane| {
                let [low, high] = pair(lane);
                if lane < 16 { [low, high, 7, 8] } else { [low, high, low, high] }
            },
        ),
        case_of(
            "dd = ",
            ".reg .b128 %w, %v, %u; .reg .b64 %a, %b, %c, %d; .reg .pred %p, %q;
             setp.ne.u32 %p, %lane, 0; @%p bra WAIT; mov.b64 %a, 0; mov.b128 %w, {%a, %a}; st.global.b128 [%all], %w;
             WAIT: bar.warp.sync -1; mov.b64 %a, 0; mov.b64 %b, 0;
             AGAIN: add.u64 %c, %a, 1; add.u64 %d, %b, 3; mov.b128 %w, {%a, %b}; mov.b128 %v, {%c, %d};
             *atom.global.cas.b128 %u, [%all], %w, %v; mov.b128 {%c, %d}, %u;
             setp.ne.u64 %p, %a, %c; setp.ne.or.u64 %p, %b, %d, %p; mov.b64 %a, %c; mov.b64 %b, %d; @%p bra AGAIN;
             bar.warp.sync -1; ld.global.v2.b64 {%o0, %o1}, [%all];",
            (0..32).map(|_| (vec![], vec![32, 96])),
        ),
    ]
}

fn sets() -> Vec<Case> {
    let halves = [0x3c00, 0x3c01, 0xbc00, 0, 0x8000, 1, 0x7c00, 0x7e00];
    let brains = [0x3f80, 0x3f81, 0xbf80, 0, 0x8000, 1, 0x7f80, 0x7fc0];
    let brain = |bits: u64| f64::from(f32::from_bits((bits as u32) << 16));
    let mut cases = vec![
        sweep2("h = h h", "set.lt.f16.f16 %o0, %i0, %i1;", &halves, |a, b| {
            if half(a) < half(b) { 0x3c00 } else { 0 }
        }),
        sweep2("h = h h", "set.geu.u16.f16 %o0, %i0, %i1;", &halves, |a, b| {
            if half(a) < half(b) { 0 } else { 0xffff }
        }),
        sweep2("h = h h", "set.eq.bf16.bf16 %o0, %i0, %i1;", &brains, move |a, b| {
            if brain(a) == brain(b) { 0x3f80 } else { 0 }
        }),
        case(
            "r = h h",
            "set.neu.u32.f16 %o0, %i0, %i1;",
            &[(&[0, 0x8000], &[0]), (&[1, 2], &[0xffff_ffff])],
        ),
    ];
    type Test = fn(f64, f64) -> bool;
    let tests: [(&str, Test); 8] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b && !a.is_nan() && !b.is_nan()),
        ("lt", |a, b| a < b),
        ("ge", |a, b| a >= b),
        ("neu", |a, b| a != b),
        ("gtu", |a, b| a > b || a.is_nan() || b.is_nan()),
        ("num", |a, b| !a.is_nan() && !b.is_nan()),
        ("nan", |a, b| a.is_nan() || b.is_nan()),
    ];
    for (name, test) in tests {
        // The lower halves are in one order, the upper halves in another.
        let pairs = |values: [u64; 8]| values.map(|low| low | values[(low as usize + 3) % 8] << 16);
        let both = |a: u64, b: u64, truth: u64, value: &dyn Fn(u64) -> f64| {
            let one = |shift: u64| test(value(a >> shift & 0xffff), value(b >> shift & 0xffff));
            truth * (u64::from(one(0)) | u64::from(one(16)) << 16)
        };
        let halves = pairs(halves);
        cases.push(sweep2(
            "r = r r",
            &format!("set.{name}.f16x2.f16x2 %o0, %i0, %i1;"),
            &halves,
            |a, b| both(a, b, 0x3c00, &half),
        ));
        cases.push(sweep2(
            "r = r r",
            &format!("set.{name}.u32.f16x2 %o0, %i0, %i1;"),
            &halves,
            |a, b| both(a, b, 0xffff, &half),
        ));
        let brains = pairs(brains);
        cases.push(sweep2(
            "r = r r",
            &format!("set.{name}.bf16x2.bf16x2 %o0, %i0, %i1;"),
            &brains,
            |a, b| both(a, b, 0x3f80, &brain),
        ));
    }
    cases.push(case(
        "r = r r",
        "set.eq.ftz.f16x2.f16x2 %o0, %i0, %i1;",
        &[(&[0x0001_3c00, 0x8000_0001], &[0x3c00_0000])],
    ));
    cases
}
