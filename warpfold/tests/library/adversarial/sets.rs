//! Adversarial elements of every type.

use warpfold::{Element, bf16, f16};

use super::bounds::{DOUBLES, Number, Precision, SINGLES, Set, Type};
use crate::common::splitmix;

pub(crate) trait Case: Element {
    const TYPE: Type;
    /// An element that is in no set, placed between the elements of a view.
    const NEVER: Self;

    fn number(self) -> Number;
    fn few() -> Vec<(String, Vec<Self>)>;
    fn many() -> Vec<(String, Vec<Self>)>;
    /// Inclusive bounds of intervals.
    fn intervals() -> Vec<[Self; 2]>;
}

/// Elements of a large set: several 16-byte vectors per thread of a block, and a remainder.
pub(crate) const MANY: usize = 2603;

fn random(seed: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |at| splitmix(seed.wrapping_mul(0x1_0000_0001).wrapping_add(at)))
}

/// Returns pseudorandom numbers from 0 to 1.
fn even(seed: u64) -> impl Iterator<Item = f64> {
    random(seed).map(|bits| (bits >> 11) as f64 * 2_f64.powi(-53))
}

pub(crate) fn set<T: Case>(name: String, values: &[T]) -> Set {
    Set::new(name, T::TYPE, values.iter().map(|value| value.number()).collect())
}

fn power(exponent: i32) -> f64 {
    // Multiplies two powers, because `powi` divides 1 by a power that overflows for subnormal results.
    2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
}

/// A float type: digits of the significand, exponents of the largest and the smallest normal number.
#[derive(Clone, Copy)]
struct Floats {
    digits: i32,
    largest: i32,
    smallest: i32,
}

impl Floats {
    fn new(digits: i32, largest: i32) -> Self {
        Self { digits, largest, smallest: 1 - largest }
    }

    fn few(self) -> Vec<(&'static str, Vec<f64>)> {
        let Self { digits, largest, smallest } = self;
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let max = power(largest) * (2.0 - power(1 - digits));
        let (normal, tiny) = (power(smallest), power(smallest - digits + 1));
        let ulp = power(digits);
        // The square of `root` is below the largest number; the sum of four squares overflows.
        let root = power(largest / 2);
        let above = 10.0 * power((largest + 1) / 2);
        let below = power(smallest * 2 / 3);
        let (big, little) = (power(largest * 3 / 4), power(-largest * 3 / 4));
        vec![
            ("one", vec![1.0]),
            ("-0", vec![-0.0]),
            ("zeros of both signs", vec![0.0, -0.0, 0.0]),
            ("the largest", vec![max]),
            ("the smallest", vec![tiny]),
            ("NaN", vec![nan]),
            ("infinity", vec![infinity]),
            ("-infinity", vec![-infinity]),
            ("infinity first", vec![infinity, 1.0, 2.0]),
            ("infinity last", vec![1.0, 2.0, infinity]),
            ("-infinity between", vec![1.0, -infinity, 2.0]),
            ("infinity twice", vec![infinity, infinity]),
            ("both infinities", vec![infinity, -infinity]),
            ("infinities at both ends", vec![-infinity, 1.0, 2.0, infinity]),
            ("NaN first", vec![nan, 1.0, 2.0]),
            ("NaN last", vec![1.0, 2.0, nan]),
            ("NaN at both ends", vec![nan, 3.0, nan]),
            ("NaN twice", vec![nan, nan]),
            ("NaN and infinity", vec![nan, infinity, 1.0]),
            ("infinity and NaN", vec![infinity, nan, -1.0, 2.0]),
            ("numbers between NaN", vec![nan, 1.0, nan, 5.0, -2.0, nan]),
            ("2^p and the next", vec![ulp, ulp + 2.0, ulp, ulp + 2.0]),
            ("-2^p and the next", vec![-ulp, -ulp - 2.0, -ulp]),
            ("below 2^p", vec![ulp - 4.0, ulp - 3.0, ulp - 2.0, ulp - 1.0, ulp - 3.0]),
            ("3/4 of the largest", vec![0.75 * max; 4]),
            ("the largest, thrice", vec![max; 3]),
            ("the largest of both signs", vec![max, -max]),
            ("the largest of both signs, twice", vec![max, max, -max, -max]),
            ("the largest and one", vec![max, 1.0, -max]),
            ("half of the largest and more", vec![max / 2.0, max / 2.0, max / 4.0]),
            ("roots of the largest", vec![root, -root, root, -root]),
            ("squares above the largest", vec![above, -above, above, -above]),
            ("the same squares above", vec![above; 2]),
            ("squares below the smallest", vec![below; 2]),
            ("differences below the smallest", vec![below, -below, 2.0 * below]),
            ("the smallest, thrice", vec![tiny; 3]),
            ("the smallest of both signs", vec![tiny, -tiny, tiny, -tiny, tiny]),
            ("the smallest normal", vec![normal, tiny, normal]),
            ("a constant", vec![0.1; 7]),
            ("a constant below 0", vec![-1e4 / 3.0; 5]),
            ("large ones that cancel", vec![big, 1.0, -big, 0.1]),
            ("an outlier", vec![max / 2.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
            ("a product that overflows on its way", vec![big, big, little, little]),
            ("a product that underflows on its way", vec![little, little, big, big]),
            ("a sum just below the largest", vec![max / 2.0, max / 4.0, max / 4.0]),
        ]
    }

    fn many(self) -> Vec<(&'static str, Vec<f64>)> {
        let max = power(self.largest) * (2.0 - power(1 - self.digits));
        let ulp = power(self.digits);
        let all = |of: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            even(7).enumerate().take(MANY).map(|(at, one)| of(at, one)).collect()
        };
        let with = |places: &[(usize, f64)]| {
            let mut values = all(&|_, one| one - 0.25);
            places.iter().for_each(|&(at, value)| values[at] = value);
            values
        };
        let last = MANY - 1;
        let root = power(self.largest / 2);
        vec![
            ("many around 2^p", all(&|_, one| ulp + 2.0 * (8.0 * one).round())),
            ("many near the largest", all(&|_, one| max * (0.5 + one / 2.0))),
            (
                "many near the largest of both signs",
                all(&|at, one| {
                    if at % 2 == 0 { max * one } else { -max * one }
                }),
            ),
            ("many roots of the largest", all(&|at, _| if at % 3 == 0 { -root } else { root })),
            ("many of a constant", vec![0.7; MANY]),
            ("many near one", all(&|_, one| 1.0 + (16.0 * one).floor() * power(1 - self.digits))),
            ("many, infinity first", with(&[(0, f64::INFINITY)])),
            ("many, infinity last", with(&[(last, f64::INFINITY)])),
            ("many, infinities apart", with(&[(500, f64::INFINITY), (last, f64::NEG_INFINITY)])),
            ("many, NaN first and last", with(&[(0, f64::NAN), (last, f64::NAN)])),
            ("many, an outlier", with(&[(1700, max / 3.0)])),
            ("many small ones", all(&|_, one| one * power(self.smallest + 3))),
        ]
    }
}

macro_rules! floats {
    ($($ty:ident as $bits:ident: $sums:ident, $digits:literal, $largest:literal, $near:expr;)*) => {$(
        impl Case for $ty {
            const TYPE: Type =
                Type { name: stringify!($ty), bits: $bits::BITS, sums: Some($sums), signed: true };
            const NEVER: Self = Self::NAN;

            fn number(self) -> Number {
                Number::Float(self.into())
            }

            fn few() -> Vec<(String, Vec<Self>)> {
                let all = |values: Vec<f64>| values.into_iter().map($near).collect::<Vec<Self>>();
                let sets = Floats::new($digits, $largest).few().into_iter();
                let mut sets: Vec<_> =
                    sets.map(|(name, values)| (name.to_owned(), all(values))).collect();
                for (n, seed) in [(7, 1), (31, 2), (40, 3)] {
                    let bits = random(seed).map(|bits| Self::from_bits(bits as $bits));
                    let any = bits.filter(|value| f64::from(*value).is_finite()).take(n);
                    sets.push((format!("{n} of any bits"), any.collect()));
                    sets.push((format!("{n} even ones"), all(even(seed).take(n).collect())));
                    let near = even(seed).map(|one| 1e3 + (one - 0.5)).take(n);
                    sets.push((format!("{n} near 1000"), all(near.collect())));
                }
                sets
            }

            fn many() -> Vec<(String, Vec<Self>)> {
                let all = |values: Vec<f64>| values.into_iter().map($near).collect::<Vec<Self>>();
                let sets = Floats::new($digits, $largest).many().into_iter();
                let mut sets: Vec<_> =
                    sets.map(|(name, values)| (name.to_owned(), all(values))).collect();
                let bits = random(4).map(|bits| Self::from_bits(bits as $bits));
                let any = bits.filter(|value| f64::from(*value).is_finite()).take(MANY);
                sets.push(("many of any bits".to_owned(), any.collect()));
                sets
            }

            fn intervals() -> Vec<[Self; 2]> {
                let near: fn(f64) -> Self = $near;
                vec![
                    [Self::NEG_INFINITY, Self::INFINITY],
                    [Self::MIN, Self::MAX],
                    [near(1.0), Self::INFINITY],
                    [near(-2.0), near(2.0)],
                ]
            }
        }
    )*};
}

floats! {
    f16 as u16: SINGLES, 11, 15, f16::from_f64;
    bf16 as u16: SINGLES, 8, 127, bf16::from_f64;
    f32 as u32: SINGLES, 24, 127, |value| value as f32;
    f64 as u64: DOUBLES, 53, 1023, |value| value;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Case for $ty {
            const TYPE: Type = Type {
                name: stringify!($ty),
                bits: $ty::BITS,
                sums: None::<Precision>,
                signed: $ty::MIN != 0,
            };
            const NEVER: Self = 77;

            fn number(self) -> Number {
                Number::Integer(self.into())
            }

            fn few() -> Vec<(String, Vec<Self>)> {
                let (min, max, half) = ($ty::MIN, $ty::MAX, 1 << ($ty::BITS / 2));
                let quarter = max / 4 + 1;
                let sets: Vec<(&str, Vec<Self>)> = vec![
                    ("one", vec![1]),
                    ("zero", vec![0]),
                    ("the least", vec![min]),
                    ("the greatest", vec![max]),
                    ("the least, twice", vec![min; 2]),
                    ("the greatest and one", vec![max, 1]),
                    ("the greatest, four times", vec![max; 4]),
                    ("a quarter, four times", vec![quarter; 4]),
                    ("half, four times", vec![max / 2 + 1; 4]),
                    ("both ends", vec![min, max]),
                    ("both ends, thrice", vec![max, min, max, min, max, min]),
                    ("2^(bits/2)", vec![half]),
                    ("2^(bits/2), thrice", vec![half, half, half]),
                    ("near the greatest", vec![max, max - 1, max - 2, max - 1, max]),
                    ("near the least", vec![min, min + 1, min + 2]),
                    ("zero and the greatest", vec![0, max, 0]),
                    ("large ids", vec![max / 4 + 9; 40]),
                    ("the same ends", vec![max, 3, max, min]),
                ];
                let mut sets: Vec<_> =
                    sets.into_iter().map(|(name, values)| (name.to_owned(), values)).collect();
                for (n, seed) in [(7, 1), (31, 2), (40, 3)] {
                    let bits = random(seed).map(|bits| bits as Self).take(n);
                    sets.push((format!("{n} of any bits"), bits.collect()));
                    let small = random(seed).map(|bits| (bits >> 57) as Self / 2).take(n);
                    sets.push((format!("{n} small ones"), small.collect()));
                }
                sets
            }

            fn many() -> Vec<(String, Vec<Self>)> {
                let (min, max) = ($ty::MIN, $ty::MAX);
                let all = |of: &dyn Fn(usize, u64) -> Self| -> Vec<Self> {
                    random(4).enumerate().take(MANY).map(|(at, bits)| of(at, bits)).collect()
                };
                let sets = [
                    ("many of any bits", all(&|_, bits| bits as Self)),
                    ("many of the greatest", vec![max; MANY]),
                    ("many of the least", vec![min; MANY]),
                    ("many of both ends", all(&|at, _| if at % 3 == 0 { min } else { max })),
                    ("many near the greatest", all(&|_, bits| max - (bits >> 61) as Self)),
                ];
                sets.map(|(name, values)| (name.to_owned(), values)).into()
            }

            fn intervals() -> Vec<[Self; 2]> {
                vec![[$ty::MIN, $ty::MAX], [$ty::MAX / 2, $ty::MAX], [$ty::MIN, 5]]
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }
