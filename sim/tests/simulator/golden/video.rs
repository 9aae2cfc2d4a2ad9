use super::harness::{Case, Row, case_of};

fn parts(word: u64, bits: u32, signed: bool) -> Vec<i64> {
    let count = 32 / bits;
    let part = |index: u32| (word >> (index * bits) & ((1 << bits) - 1)) as i64;
    let value = |part: i64| if signed && part >= 1 << (bits - 1) { part - (1 << bits) } else { part };
    (0..count).map(part).map(value).collect()
}

fn word(parts: &[i64], bits: u32) -> u64 {
    let low = |part: i64| part as u64 & ((1 << bits) - 1);
    parts.iter().rev().fold(0, |word, &part| word << bits | low(part))
}

const WORDS: [u64; 6] = [0, 0x0102_0304, 0x7f80_ff01, 0xffff_ffff, 0x8000_7fff, 0x10fe_c37d];

type Operation = fn(i64, i64) -> i64;

pub(crate) fn cases() -> Vec<Case> {
    let operations: [(&str, Operation); 6] = [
        ("vadd", |a, b| a + b),
        ("vsub", |a, b| a - b),
        ("vavrg", |a, b| if a + b >= 0 { (a + b + 1) >> 1 } else { (a + b) >> 1 }),
        ("vabsdiff", |a, b| (a - b).abs()),
        ("vmin", i64::min),
        ("vmax", i64::max),
    ];
    let comparisons: [(&str, Operation); 6] = [
        ("eq", |a, b| i64::from(a == b)),
        ("ne", |a, b| i64::from(a != b)),
        ("lt", |a, b| i64::from(a < b)),
        ("le", |a, b| i64::from(a <= b)),
        ("gt", |a, b| i64::from(a > b)),
        ("ge", |a, b| i64::from(a >= b)),
    ];
    let mut cases = Vec::new();
    let ty = |signed| if signed { "s32" } else { "u32" };
    for (count, bits) in [(2, 16), (4, 8)] {
        // All operands have the same signedness, or the first operand differs from the others.
        for signs in [0, 2, 5, 7] {
            let [d, a, b] = [signs & 1 != 0, signs & 2 != 0, signs & 4 != 0];
            for (name, operation) in operations {
                for how in ["", ".sat", ".add"] {
                    let text =
                        format!("{name}{count}.{}.{}.{}{how} %o0, %i0, %i1, %i2;", ty(d), ty(a), ty(b));
                    let expected = move |x: u64, y: u64, z: u64| {
                        let pairs = parts(x, bits, a).into_iter().zip(parts(y, bits, b));
                        let values: Vec<i64> = pairs.map(|(x, y)| operation(x, y)).collect();
                        let (least, most) = if d {
                            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
                        } else {
                            (0, (1 << bits) - 1)
                        };
                        match how {
                            ".add" => (z as i64 + values.iter().sum::<i64>()) as u64 & 0xffff_ffff,
                            ".sat" => word(
                                &values.iter().map(|&v| v.clamp(least, most)).collect::<Vec<_>>(),
                                bits,
                            ),
                            _ => word(&values, bits),
                        }
                    };
                    cases.push(case_of("r = r r r", &text, rows(expected)));
                }
            }
            for (name, comparison) in comparisons.into_iter().filter(|_| !d) {
                for how in ["", ".add"] {
                    let text =
                        format!("vset{count}.{}.{}.{name}{how} %o0, %i0, %i1, %i2;", ty(a), ty(b));
                    let expected = move |x: u64, y: u64, z: u64| {
                        let pairs = parts(x, bits, a).into_iter().zip(parts(y, bits, b));
                        let values: Vec<i64> = pairs.map(|(x, y)| comparison(x, y)).collect();
                        if how == ".add" {
                            z + values.iter().sum::<i64>() as u64
                        } else {
                            word(&values, bits)
                        }
                    };
                    cases.push(case_of("r = r r r", &text, rows(expected)));
                }
            }
        }
    }
    cases
}

fn rows(expected: impl Fn(u64, u64, u64) -> u64) -> Vec<Row> {
    let pairs = WORDS.iter().flat_map(|&x| WORDS.iter().map(move |&y| (x, y)));
    pairs.map(|(x, y)| (vec![x, y, 1000], vec![expected(x, y, 1000)])).collect()
}
