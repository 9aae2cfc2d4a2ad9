//! The right results of every operation, in exact arithmetic, and how far others may be from them.

use std::{cmp::Ordering, fmt};

use super::dyadic::Dyadic;
use crate::exact::{DOUBLE, SINGLE, everywhere, spread_everywhere};

/// An element or a part of a result: floats of 16 and 32 bits are exact in 64.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

use Number::{Float, Integer};

/// Equal, or both NaN; zeros of both signs are equal.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Integer(one), Integer(other)) => one == other,
            (Float(one), Float(other)) => one == other || one.is_nan() && other.is_nan(),
            _ => false,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Integer(number) => number.fmt(f),
            Float(number) if number.is_finite() => write!(f, "{number:e}"),
            Float(number) => number.fmt(f),
        }
    }
}

impl Number {
    pub(crate) fn is_nan(self) -> bool {
        matches!(self, Float(number) if number.is_nan())
    }

    fn is_finite(self) -> bool {
        !matches!(self, Float(number) if !number.is_finite())
    }

    fn is_negative(self) -> bool {
        match self {
            Integer(number) => number < 0,
            Float(number) => number < 0.0,
        }
    }

    fn is_zero(self) -> bool {
        self == Integer(0) || self == Float(0.0)
    }

    /// Compares numbers of one type of elements, none of which is NaN.
    pub(crate) fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Integer(one), Integer(other)) => one.cmp(&other),
            (Float(one), Float(other)) => one.partial_cmp(&other).expect("none is NaN"),
            _ => unreachable!("{self} and {other} are of one type"),
        }
    }

    /// Returns the exact value, which must be finite.
    fn exact(self) -> Dyadic {
        match self {
            Integer(number) => Dyadic::integer(number),
            Float(number) => Dyadic::of(number),
        }
    }

    fn double(self) -> f64 {
        match self {
            Float(number) => number,
            Integer(number) => unreachable!("{number} is a float"),
        }
    }
}

/// A type of floats in which results are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Precision {
    /// Bits of a significand.
    digits: i64,
    /// The exponent of the smallest number.
    smallest: i64,
    /// The exponent of the least power of two that is too large.
    top: i64,
}

pub(crate) const SINGLES: Precision = Precision { digits: 24, smallest: -149, top: 128 };
pub(crate) const DOUBLES: Precision = Precision { digits: 53, smallest: -1074, top: 1024 };

impl Precision {
    /// The roundoff u, half a unit in the last place of 1.
    fn roundoff(self) -> f64 {
        2_f64.powi(-self.digits as i32)
    }

    /// The least magnitude that is rounded to infinity.
    fn limit(self) -> Dyadic {
        Dyadic::power(self.top).minus(&Dyadic::power(self.top - self.digits - 1))
    }

    /// The bound of `d` roundings, d·u / (1 − d·u).
    fn gamma(self, d: u64) -> Dyadic {
        let relative = d as f64 * self.roundoff();
        Dyadic::of(relative / (1.0 - relative) * (1.0 + 1e-12))
    }
}

/// A type of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) bits: u32,
    /// The type of the sums, if it is one of floats.
    pub(crate) sums: Option<Precision>,
    pub(crate) signed: bool,
}

impl Type {
    /// Wraps an integer around in a number of bits.
    fn wrapped(self, low: u64, bits: u32) -> i128 {
        let unsigned = i128::from(low) & ((1 << bits) - 1);
        let negative = self.signed && unsigned >> (bits - 1) != 0;
        if negative { unsigned - (1 << bits) } else { unsigned }
    }
}

/// What is added up, exactly, of terms that may be infinite or NaN.
#[derive(Clone)]
pub(crate) struct Terms {
    n: u64,
    nan: bool,
    /// Whether there is a finite term or an infinity of this sign: positive, negative.
    infinite: [bool; 2],
    finite: [bool; 2],
    sum: Dyadic,
    magnitudes: Dyadic,
    squares: Dyadic,
    /// All finite terms are multiples of 2 to this power.
    unit: i64,
}

/// A term: a finite number, an infinity or NaN.
enum Term {
    Finite(Dyadic),
    Special(f64),
}

impl From<Number> for Term {
    fn from(number: Number) -> Self {
        if number.is_finite() { Self::Finite(number.exact()) } else { Self::Special(number.double()) }
    }
}

impl Terms {
    fn of(terms: impl Iterator<Item = Term>) -> Self {
        let (sum, magnitudes, squares) = (Dyadic::ZERO, Dyadic::ZERO, Dyadic::ZERO);
        let (infinite, finite, unit) = ([false; 2], [false; 2], i64::MAX);
        let mut all = Self { n: 0, nan: false, infinite, finite, sum, magnitudes, squares, unit };
        for term in terms {
            all.n += 1;
            match term {
                Term::Special(term) if term.is_nan() => all.nan = true,
                Term::Special(term) => all.infinite[usize::from(term < 0.0)] = true,
                Term::Finite(term) => {
                    all.finite[usize::from(term.is_negative())] |= !term.is_zero();
                    all.unit = all.unit.min(term.unit());
                    all.magnitudes = all.magnitudes.plus(&term.magnitude());
                    all.squares = all.squares.plus(&term.times(&term));
                    all.sum = all.sum.plus(&term);
                }
            }
        }
        all
    }

    /// The sum, where terms that are not finite decide it.
    fn special(&self) -> Option<f64> {
        match (self.nan, self.infinite) {
            (true, _) | (_, [true, true]) => Some(f64::NAN),
            (_, [true, false]) => Some(f64::INFINITY),
            (_, [false, true]) => Some(f64::NEG_INFINITY),
            _ => None,
        }
    }

    /// Whether a sum that is made in this type may overflow on its way, though its result is something
    /// else.
    fn may_overflow_on_the_way(&self, precision: Precision) -> bool {
        let signs = [0, 1].map(|sign| self.infinite[sign] || self.finite[sign]);
        signs == [true; 2] && self.magnitudes >= precision.limit()
    }
}

/// Elements, and what is exactly so of them.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) elements: Vec<Number>,
    all: Terms,
    numbers: Terms,
}

impl Set {
    pub(crate) fn new(name: String, ty: Type, elements: Vec<Number>) -> Self {
        let all = Terms::of(elements.iter().map(|&one| one.into()));
        let numbers = if all.nan {
            Terms::of(elements.iter().filter(|one| !one.is_nan()).map(|&one| one.into()))
        } else {
            all.clone()
        };
        Self { name, ty, elements, all, numbers }
    }

    fn taken(&self, skips: bool) -> impl Iterator<Item = Number> {
        self.elements.iter().copied().filter(move |one| !skips || !one.is_nan())
    }
}

/// What is asked of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    Sum,
    SumSq,
    SumAbs,
    WideSum,
    WrappingSum,
    Product,
    Min,
    Max,
    MinMax,
    ArgMin,
    ArgMax,
    NonZero,
    NanCount,
    Spread,
    LogSumExp,
    And,
    Or,
    Xor,
    /// The methods of the reducer that are no operations.
    Mean,
    L1,
    L2,
    MaxNorm,
    /// The count, the sum and the mean of elements inside an interval, which these are.
    Within,
}

/// What is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) skips: bool,
    pub(crate) everywhere: bool,
}

/// A part of the right result.
#[derive(Clone)]
pub(crate) enum Want {
    /// This one.
    Is(Number),
    /// That of an integer: in a type of integers wrapped around, in one of floats rounded.
    Wrapping(Dyadic, Type),
    /// `number / over`, off by `off / over` at most, and by the root of `squared_off` over `over`.
    Near { number: Dyadic, over: Dyadic, off: Dyadic, squared_off: Dyadic, precision: Precision },
    /// The root of a square, off by so much of itself at most.
    Root { square: Dyadic, relative: Dyadic },
    /// One that is off by so much at most.
    Close(f64, f64),
    /// The documentation does not say what it is.
    Unsaid,
}

use Want::{Close, Is, Near, Root, Unsaid, Wrapping};

impl Want {
    pub(crate) fn accepts(&self, found: Number) -> bool {
        match self {
            Is(number) => found == *number,
            Wrapping(exact, ty) => match found {
                Integer(found) => found == ty.wrapped(exact.wrapped(), 64),
                // As a sum of such numbers in double precision.
                Float(_) => {
                    let off = exact.magnitude().times(&Dyadic::power(-52));
                    near(exact.clone(), Dyadic::integer(1), off, DOUBLES).accepts(found)
                }
            },
            Near { number, over, off, squared_off, precision } => match found {
                Float(found) if found.is_nan() => false,
                Float(found) if found.is_infinite() => {
                    let same_sign = number.is_negative() == (found < 0.0);
                    same_sign && number.magnitude().plus(off) >= over.times(&precision.limit())
                }
                _ => {
                    let rest = found.exact().times(over).minus(number).magnitude().minus(off);
                    rest.is_zero() || rest.is_negative() || rest.times(&rest) <= *squared_off
                }
            },
            Root { square, relative } => match found {
                Float(found) if found.is_nan() || found < 0.0 => false,
                Float(found) => {
                    let one = Dyadic::integer(1);
                    let squared = |number: &Dyadic| number.times(number);
                    if found.is_infinite() {
                        return *square >= squared(&DOUBLES.limit());
                    }
                    let [low, high] = [one.minus(relative), one.plus(relative)]
                        .map(|factor| squared(&factor).times(square));
                    // The smallest double is a unit of what is below it.
                    let (found, unit) = (Dyadic::of(found), Dyadic::power(DOUBLES.smallest));
                    let below = found.minus(&unit);
                    (below.is_negative() || squared(&below) <= high)
                        && squared(&found.plus(&unit)) >= low
                        && (found.top() < DOUBLES.smallest + 60
                            || squared(&found) >= low && squared(&found) <= high)
                }
                Integer(_) => false,
            },
            Close(number, off) => match found {
                Float(found) => found == *number || (found - number).abs() <= *off,
                Integer(_) => false,
            },
            Unsaid => true,
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Is(number) => number.fmt(f),
            Wrapping(exact, _) => write!(f, "{exact}, wrapped around in an integer"),
            Near { number, over, off, .. } if *over == Dyadic::integer(1) => {
                write!(f, "{number} within {off}")
            }
            Near { number, over, off, squared_off, .. } if squared_off.is_zero() => {
                write!(f, "{number}/{over} within {off}/{over}")
            }
            Near { number, over, off, squared_off, .. } => {
                write!(
                    f,
                    "{number}/{over} within {off}/{over} and the root of {squared_off} over {over}"
                )
            }
            Root { square, relative } => write!(f, "the root of {square} within {relative} of it"),
            Close(number, off) => write!(f, "{number:e} within {off:e}"),
            Unsaid => f.write_str("anything"),
        }
    }
}

/// `number / over`, off by `off / over` at most.
fn near(number: Dyadic, over: Dyadic, off: Dyadic, precision: Precision) -> Want {
    Near { number, over, off, squared_off: Dyadic::ZERO, precision }
}

/// The parts of the right result; none where there is no result.
pub(crate) type Expected = Option<Vec<Want>>;

/// Returns the right result of a set of one element at least: on the CPU, or on a device.
pub(crate) fn expected(asked: Asked, set: &Set, on_cpu: bool) -> Expected {
    let Asked { what, skips, everywhere } = asked;
    let terms = if skips { &set.numbers } else { &set.all };
    match set.ty.sums {
        Some(sums) if everywhere => return of_definition(what, set, skips, sums),
        _ => {}
    }
    let one = |want: Want| Some(vec![want]);
    let is = |number: Number| one(Is(number));
    match what {
        What::NonZero => is(Integer(set.elements.iter().filter(|one| !one.is_zero()).count() as i128)),
        What::NanCount => is(Integer(set.elements.iter().filter(|one| one.is_nan()).count() as i128)),
        What::Min => extreme(set, skips, false).map(|(value, _)| vec![Is(value)]),
        What::Max => extreme(set, skips, true).map(|(value, _)| vec![Is(value)]),
        What::MinMax => {
            let [min, max] = [false, true].map(|largest| extreme(set, skips, largest));
            Some(vec![Is(min?.0), Is(max?.0)])
        }
        What::ArgMin | What::ArgMax => {
            let (value, index) = extreme(set, skips, what == What::ArgMax)?;
            Some(vec![Is(value), Is(Integer(index as i128))])
        }
        What::Within => {
            let count = Is(Integer(terms.n.into()));
            if terms.n == 0 {
                let zero = if set.ty.sums.is_some() { Float(0.0) } else { Integer(0) };
                return Some(vec![count, Is(zero)]);
            }
            let of = |what| expected(Asked { what, ..asked }, set, on_cpu).expect("there are elements");
            Some([vec![count], of(What::Sum), of(What::Mean)].concat())
        }
        _ => match set.ty.sums {
            Some(sums) => of_floats(what, set, skips, sums, on_cpu),
            None => Some(of_integers(what, set)),
        },
    }
}

/// The first of the smallest or largest elements, or the first NaN, and its index.
fn extreme(set: &Set, skips: bool, largest: bool) -> Option<(Number, usize)> {
    let mut found: Option<(Number, usize)> = None;
    for (index, &value) in set.elements.iter().enumerate() {
        if skips && value.is_nan() {
            continue;
        }
        let better = match found {
            None => true,
            Some((best, _)) if best.is_nan() => false,
            Some(_) if value.is_nan() => true,
            Some((best, _)) if largest => value.order(best) == Ordering::Greater,
            Some((best, _)) => value.order(best) == Ordering::Less,
        };
        if better {
            found = Some((value, index));
        }
    }
    found
}

fn of_integers(what: What, set: &Set) -> Vec<Want> {
    let (ty, terms) = (set.ty, &set.all);
    let integers = || {
        set.elements.iter().map(|&one| match one {
            Integer(number) => number,
            Float(number) => unreachable!("{number} is an integer"),
        })
    };
    let over = Dyadic::integer(terms.n);
    let relative = |number: &Dyadic, roundings: f64| {
        number.magnitude().times(&Dyadic::of(roundings * DOUBLES.roundoff() * (1.0 + 1e-12)))
    };
    let mean = |roundings| {
        let off = relative(&terms.sum, roundings);
        near(terms.sum.clone(), over.clone(), off, DOUBLES)
    };
    match what {
        What::Sum => vec![Wrapping(terms.sum.clone(), ty)],
        What::SumSq => vec![Wrapping(terms.squares.clone(), ty)],
        What::SumAbs | What::L1 => vec![Wrapping(terms.magnitudes.clone(), ty)],
        What::WideSum => vec![Is(Integer(terms.sum.integer_value()))],
        What::WrappingSum => vec![Is(Integer(ty.wrapped(terms.sum.wrapped(), ty.bits)))],
        What::Product => {
            let product = integers().fold(1_u64, |product, one| product.wrapping_mul(one as u64));
            vec![Is(Integer(ty.wrapped(product, 64)))]
        }
        What::And => vec![Is(Integer(integers().fold(-1, |bits, one| bits & one)))],
        What::Or => vec![Is(Integer(integers().fold(0, |bits, one| bits | one)))],
        What::Xor => vec![Is(Integer(integers().fold(0, |bits, one| bits ^ one)))],
        What::Mean => vec![mean(2.0)],
        What::Spread => vec![mean(2.0), variance(terms, &Dyadic::of(3.001 * DOUBLES.roundoff()))],
        What::L2 => {
            vec![Root { square: terms.squares.clone(), relative: Dyadic::power(-51) }]
        }
        What::MaxNorm => {
            let largest = integers().map(i128::unsigned_abs).max().expect("there are elements");
            let number = Dyadic::integer(largest);
            let off = relative(&number, 1.0);
            vec![near(number, Dyadic::integer(1), off, DOUBLES)]
        }
        what => unreachable!("{what:?} of integers"),
    }
}

/// n² times the variance, n·Σx² − (Σx)².
fn deviations(terms: &Terms) -> Dyadic {
    terms.squares.times(&Dyadic::integer(terms.n)).minus(&terms.sum.times(&terms.sum))
}

/// The variance, (n·Σx² − (Σx)²) / n², off by so much of itself at most.
fn variance(terms: &Terms, relative: &Dyadic) -> Want {
    let (n, number) = (Dyadic::integer(terms.n), deviations(terms));
    let over = n.times(&n);
    // Where it is subnormal, four of the smallest doubles.
    let off = number.times(relative).plus(&over.times(&Dyadic::power(DOUBLES.smallest + 2)));
    let off = if number.is_zero() { Dyadic::ZERO } else { off };
    near(number, over, off, DOUBLES)
}

/// A sum of terms that are rounded `roundings` times each before they are added.
fn sum(terms: &Terms, roundings: u64, result: Precision, on_cpu: bool) -> Want {
    let adder = if on_cpu { DOUBLES } else { result };
    if terms.nan {
        return Is(Float(f64::NAN));
    } else if terms.may_overflow_on_the_way(adder) {
        return Unsaid;
    } else if let Some(special) = terms.special() {
        return Is(Float(special));
    }
    let (number, over) = (terms.sum.clone(), Dyadic::integer(1));
    let off = sum_off(terms, roundings, [adder, result], on_cpu);
    // What is made in double precision is rounded to the type of the result.
    let off = if result != adder && !off.is_zero() {
        off.plus(&number.magnitude().times(&Dyadic::power(-result.digits)).plus(&off))
            .plus(&Dyadic::power(result.smallest - 1))
    } else {
        off
    };
    near(number, over, off, result)
}

/// How far a sum that is made in a type, for a result in another, may be off.
fn sum_off(terms: &Terms, roundings: u64, types: [Precision; 2], on_cpu: bool) -> Dyadic {
    let [adder, result] = types;
    // Nothing is rounded where all digits have room.
    let exact = || terms.magnitudes <= Dyadic::power(terms.unit + result.digits);
    if terms.unit == i64::MAX || terms.unit >= result.smallest && exact() {
        return Dyadic::ZERO;
    }
    let additions = if on_cpu { 160 } else { terms.n - 1 };
    let off = adder.gamma(additions + roundings).times(&terms.magnitudes);
    let of_term = if roundings > 0 { Dyadic::power(adder.smallest) } else { Dyadic::ZERO };
    off.plus(&of_term.times(&Dyadic::integer(terms.n)))
}

fn of_floats(what: What, set: &Set, skips: bool, sums: Precision, on_cpu: bool) -> Expected {
    let terms = if skips { &set.numbers } else { &set.all };
    let zero = terms.n == 0;
    let one = |want| Some(vec![want]);
    let special = |want: Want| terms.special().map_or(want, |special| Is(Float(special)));
    match what {
        What::Sum | What::SumSq | What::SumAbs | What::L1 | What::WideSum if zero => one(Is(Float(0.0))),
        What::Product if zero => one(Is(Float(1.0))),
        _ if zero => None,
        What::Sum => one(sum(terms, 0, sums, on_cpu)),
        What::WideSum => one(sum(terms, 0, DOUBLES, on_cpu)),
        What::SumAbs | What::L1 => {
            let magnitudes = set.taken(skips).map(|one| match one {
                Float(number) => Float(number.abs()).into(),
                Integer(_) => unreachable!("elements are floats"),
            });
            one(sum(&Terms::of(magnitudes), 0, sums, on_cpu))
        }
        What::SumSq => one(sum(&squares(set, skips), 1, sums, on_cpu)),
        What::L2 => {
            let squares = squares(set, skips);
            let relative = sums.gamma(terms.n).plus(&Dyadic::power(-52));
            let root = Root { square: squares.sum.clone(), relative };
            one(squares.special().map_or(root, |special| Is(Float(special))))
        }
        What::MaxNorm => one(Is(Float(set.elements.iter().map(|one| one.double().abs()).fold(
            0.0,
            |largest: f64, one| {
                if largest.is_nan() || one.is_nan() { f64::NAN } else { largest.max(one) }
            },
        )))),
        What::Mean => {
            let off = sum_off(terms, 0, [sums; 2], on_cpu);
            one(special(mean(terms, off, Dyadic::ZERO)))
        }
        What::Spread => {
            if let Some(special) = terms.special() {
                return Some(vec![Is(Float(special)), Is(Float(f64::NAN))]);
            }
            let additions = if terms.n == 1 { 0 } else { 4 * terms.n };
            let off = DOUBLES.gamma(additions).times(&terms.magnitudes);
            // Of the deviation, and of the variance itself.
            let (of_deviation, relative) = if sums == SINGLES {
                (Dyadic::power(-20), Dyadic::power(-20))
            } else {
                (Dyadic::ZERO, Dyadic::power(-40))
            };
            let squared_off = deviations(terms).times(&of_deviation).times(&of_deviation);
            Some(vec![mean(terms, off, squared_off), variance(terms, &relative)])
        }
        What::Product => one(product(set, skips, sums, on_cpu)),
        What::LogSumExp => one(log_sum_exp(set, sums)),
        what => unreachable!("{what:?} of floats"),
    }
}

/// The mean of terms whose sum may be off by `off`, and by the root of `squared_off`.
fn mean(terms: &Terms, off: Dyadic, squared_off: Dyadic) -> Want {
    let over = Dyadic::integer(terms.n);
    let division = terms.sum.magnitude().times(&Dyadic::of(DOUBLES.roundoff() * (1.0 + 1e-12)));
    let smallest = over.times(&Dyadic::power(DOUBLES.smallest));
    let division = if terms.n == 1 { Dyadic::ZERO } else { division.plus(&smallest) };
    let off = off.plus(&division);
    Near { number: terms.sum.clone(), over, off, squared_off, precision: DOUBLES }
}

/// The exact squares.
fn squares(set: &Set, skips: bool) -> Terms {
    Terms::of(set.taken(skips).map(|one| product_of(one, one)))
}

/// The exact product of two.
fn product_of(one: Number, other: Number) -> Term {
    if one.is_finite() && other.is_finite() {
        return Term::Finite(one.exact().times(&other.exact()));
    }
    let sign = |number: Number| if number.is_negative() { -1.0 } else { 1.0 };
    let signed = sign(one) * sign(other);
    let undefined = one.is_nan() || other.is_nan() || one.is_zero() || other.is_zero();
    Term::Special(if undefined { f64::NAN } else { signed * f64::INFINITY })
}

/// The exact square of a difference.
fn distance_of(one: Number, other: Number) -> Term {
    if one.is_finite() && other.is_finite() {
        let distance = one.exact().minus(&other.exact());
        return Term::Finite(distance.times(&distance));
    }
    let distance = one.double() - other.double();
    Term::Special(distance * distance)
}

fn product(set: &Set, skips: bool, sums: Precision, on_cpu: bool) -> Want {
    let taken: Vec<Number> = set.taken(skips).collect();
    let (maker, n) = (if on_cpu { DOUBLES } else { sums }, taken.len() as u64);
    if taken.iter().any(|one| one.is_nan()) {
        return Is(Float(f64::NAN));
    }
    let one = Dyadic::integer(1);
    let (mut small, mut large, mut all) = (one.clone(), one.clone(), one.clone());
    for factor in taken.iter().filter(|factor| factor.is_finite() && !factor.is_zero()) {
        let factor = factor.exact();
        let part = if factor.magnitude() < one { &mut small } else { &mut large };
        *part = part.times(&factor.magnitude());
        all = all.times(&factor);
    }
    let infinite = taken.iter().any(|factor| !factor.is_finite());
    let zero = taken.iter().any(|factor| factor.is_zero());
    let smallest_normal = Dyadic::power(maker.smallest + maker.digits - 1);
    let (overflows, underflows) = (large >= maker.limit(), small < smallest_normal);
    // One factor is itself; what only grows or only shrinks has no way on which it is something else.
    let grows = large > one || infinite;
    let shrinks = small < one || zero;
    if n > 1 && grows && shrinks && (overflows || underflows || infinite) {
        // Infinity times zero is NaN however it is met.
        return if infinite && zero {
            Is(Float(f64::NAN))
        } else if infinite && !underflows {
            Is(Float(if is_negative(&taken) { f64::NEG_INFINITY } else { f64::INFINITY }))
        } else {
            Unsaid
        };
    }
    if infinite {
        return Is(Float(if is_negative(&taken) { f64::NEG_INFINITY } else { f64::INFINITY }));
    } else if zero {
        return Is(Float(0.0));
    }
    let off = maker.gamma(n - 1).times(&all.magnitude());
    let off = if underflows && n > 1 {
        off.plus(&Dyadic::power(maker.smallest).times(&Dyadic::integer(n)))
    } else {
        off
    };
    let off = if maker == sums {
        off
    } else {
        // It is rounded once more at the end.
        let last = all.magnitude().times(&Dyadic::of(sums.roundoff() * (1.0 + 1e-12)));
        off.plus(&off).plus(&last).plus(&Dyadic::power(sums.smallest - 1))
    };
    near(all, one, off, sums)
}

fn is_negative(factors: &[Number]) -> bool {
    factors.iter().filter(|factor| factor.is_negative()).count() % 2 == 1
}

/// What no rational number is: in double precision, as `log_sum_exp.rs` has it.
fn log_sum_exp(set: &Set, sums: Precision) -> Want {
    let elements = || set.elements.iter().map(|one| one.double());
    let largest = elements().fold(f64::NEG_INFINITY, |largest, one| {
        if largest.is_nan() || one.is_nan() { f64::NAN } else { largest.max(one) }
    });
    if !largest.is_finite() {
        return Is(Float(largest));
    }
    let terms: Vec<f64> = elements().map(|one| (one - largest).exp()).collect();
    let sum: f64 = terms.chunks(64).map(|part| part.iter().sum::<f64>()).sum();
    let number = largest + sum.ln();
    let relative = if sums == SINGLES { 1e-6 } else { 4e-15 };
    Close(number, relative * number.abs().max(1.0))
}

/// The results that have the same bits everywhere, by their definition.
fn of_definition(what: What, set: &Set, skips: bool, sums: Precision) -> Expected {
    let format = if sums == SINGLES { SINGLE } else { DOUBLE };
    let taken = || set.taken(skips).map(Number::double);
    let square = |one: f64| if sums == SINGLES { f64::from(one as f32 * one as f32) } else { one * one };
    let of = |terms: Vec<f64>| Is(Float(everywhere(&terms, format)));
    match what {
        What::Sum => Some(vec![of(taken().collect())]),
        What::SumSq => Some(vec![of(taken().map(square).collect())]),
        What::SumAbs => Some(vec![of(taken().map(f64::abs).collect())]),
        What::Spread => {
            let taken: Vec<f64> = taken().collect();
            let of_any = || spread_everywhere(&taken, format).map(|part| Is(Float(part))).to_vec();
            (!taken.is_empty()).then(of_any)
        }
        What::Within => {
            let sum = of(taken().collect());
            let count = vec![Is(Integer(set.all.n.into())), sum];
            if set.all.n == 0 {
                return Some(count);
            }
            let off = sum_off(&set.all, 0, [sums; 2], false);
            let mean = mean(&set.all, off, Dyadic::ZERO);
            let mean = set.all.special().map_or(mean, |special| Is(Float(special)));
            Some([count, vec![mean]].concat())
        }
        what => unreachable!("{what:?} has no definition"),
    }
}

/// Returns the right dot product, or squared distance, of two sets of as many elements.
pub(crate) fn of_pairs(
    distance: bool,
    everywhere_too: bool,
    [a, b]: [&[Number]; 2],
    ty: Type,
    on_cpu: bool,
) -> Want {
    let pairs = || a.iter().copied().zip(b.iter().copied());
    let Some(sums) = ty.sums else {
        let term = |(one, other): (Number, Number)| {
            let [one, other] = [one, other].map(Number::exact);
            let distance_of = || one.minus(&other);
            if distance { distance_of().times(&distance_of()) } else { one.times(&other) }
        };
        let exact = pairs().map(term).fold(Dyadic::ZERO, |sum, term| sum.plus(&term));
        return Wrapping(exact, ty);
    };
    if everywhere_too {
        let term = |(one, other): (Number, Number)| {
            let (one, other) = (one.double(), other.double());
            if sums == DOUBLES {
                return if distance { (one - other) * (one - other) } else { one * other };
            }
            let (one, other) = (one as f32, other as f32);
            f64::from(if distance { (one - other) * (one - other) } else { one * other })
        };
        let format = if sums == SINGLES { SINGLE } else { DOUBLE };
        return Is(Float(everywhere(&pairs().map(term).collect::<Vec<_>>(), format)));
    }
    let of = if distance { distance_of } else { product_of };
    let terms = Terms::of(pairs().map(|(one, other)| of(one, other)));
    // A difference, and its square, are rounded; a product once.
    sum(&terms, if distance { 3 } else { 1 }, sums, on_cpu)
}
