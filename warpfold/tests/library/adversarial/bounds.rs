//! Exact results of every operation, with the bounds on the error of computed ones.

use std::{cell::OnceCell, cmp::Ordering, fmt};

use super::dyadic::Dyadic;
use crate::exact::{DOUBLE, SINGLE, everywhere, spread_everywhere};

/// An element or a part of a result; 16-bit and 32-bit floats are converted exactly to 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

use Number::{Float, Integer};

/// Numbers are equal if both are NaN; zeros of both signs are equal.
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

    pub(crate) fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Integer(one), Integer(other)) => one.cmp(&other),
            (Float(one), Float(other)) => one.partial_cmp(&other).expect("none is NaN"),
            _ => unreachable!("{self} and {other} are of one type"),
        }
    }

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

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Precision {
    digits: i64,
    /// Exponent of the smallest positive number.
    smallest: i64,
    /// Exponent of the least power of two that overflows.
    top: i64,
}

pub(crate) const SINGLES: Precision = Precision { digits: 24, smallest: -149, top: 128 };
pub(crate) const DOUBLES: Precision = Precision { digits: 53, smallest: -1074, top: 1024 };

impl Precision {
    /// Returns the roundoff u, half a unit in the last place of 1.
    fn roundoff(self) -> f64 {
        2_f64.powi(-self.digits as i32)
    }

    /// Returns the least magnitude that rounds to infinity.
    fn limit(self) -> Dyadic {
        Dyadic::power(self.top).minus(&Dyadic::power(self.top - self.digits - 1))
    }

    /// Returns the bound of `d` roundings, d·u / (1 − d·u).
    fn gamma(self, d: u64) -> Dyadic {
        let relative = d as f64 * self.roundoff();
        Dyadic::of(relative / (1.0 - relative) * (1.0 + 1e-12))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) bits: u32,
    /// The type of the sums, if they are floats.
    pub(crate) sums: Option<Precision>,
    pub(crate) signed: bool,
}

impl Type {
    /// Wraps an integer to a number of bits.
    fn wrapped(self, low: u64, bits: u32) -> i128 {
        let unsigned = i128::from(low) & ((1 << bits) - 1);
        let negative = self.signed && unsigned >> (bits - 1) != 0;
        if negative { unsigned - (1 << bits) } else { unsigned }
    }
}

/// Exact accumulation of terms that may be infinite or NaN.
#[derive(Clone)]
pub(crate) struct Terms {
    n: u64,
    nan: bool,
    /// Presence of infinite terms, of positive and of negative ones; likewise `finite`.
    infinite: [bool; 2],
    finite: [bool; 2],
    sum: Dyadic,
    magnitudes: Dyadic,
    squares: Dyadic,
    /// All finite terms are multiples of 2 to this power.
    unit: i64,
}

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

    /// Returns the sum if non-finite terms decide it.
    fn special(&self) -> Option<f64> {
        match (self.nan, self.infinite) {
            (true, _) | (_, [true, true]) => Some(f64::NAN),
            (_, [true, false]) => Some(f64::INFINITY),
            (_, [false, true]) => Some(f64::NEG_INFINITY),
            _ => None,
        }
    }

    /// Returns whether a partial sum of this type may overflow although the final sum has another value.
    fn may_overflow_on_the_way(&self, precision: Precision) -> bool {
        let signs = [0, 1].map(|sign| self.infinite[sign] || self.finite[sign]);
        signs == [true; 2] && self.magnitudes >= precision.limit()
    }
}

pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) elements: Vec<Number>,
    all: Facts,
    /// Facts about the elements that are not NaN, if some are NaN.
    numbers: Option<Facts>,
}

/// Exact facts about elements; expensive ones are computed once.
struct Facts {
    elements: Vec<Number>,
    terms: Terms,
    squares: OnceCell<Terms>,
    magnitudes: OnceCell<Terms>,
    factors: OnceCell<Factors>,
}

impl Set {
    pub(crate) fn new(name: String, ty: Type, elements: Vec<Number>) -> Self {
        let all = Facts::of(elements.clone());
        let numbers = || elements.iter().copied().filter(|one| !one.is_nan()).collect();
        let numbers = all.terms.nan.then(|| Facts::of(numbers()));
        Self { name, ty, elements, all, numbers }
    }

    fn facts(&self, skips: bool) -> &Facts {
        self.numbers.as_ref().filter(|_| skips).unwrap_or(&self.all)
    }
}

impl Facts {
    fn of(elements: Vec<Number>) -> Self {
        let terms = Terms::of(elements.iter().map(|&one| one.into()));
        let (squares, magnitudes, factors) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { elements, terms, squares, magnitudes, factors }
    }

    fn squares(&self) -> &Terms {
        self.squares.get_or_init(|| Terms::of(self.elements.iter().map(|&one| product_of(one, one))))
    }

    fn magnitudes(&self) -> &Terms {
        let magnitude = |one: &Number| Float(one.double().abs()).into();
        self.magnitudes.get_or_init(|| Terms::of(self.elements.iter().map(magnitude)))
    }

    fn factors(&self) -> &Factors {
        self.factors.get_or_init(|| Factors::of(&self.elements))
    }
}

struct Factors {
    /// Products of the magnitudes below one and of the others, without zeros and infinities.
    small: Dyadic,
    large: Dyadic,
    negative: bool,
    zero: bool,
    infinite: bool,
}

impl Factors {
    fn of(factors: &[Number]) -> Self {
        let one = Dyadic::integer(1);
        let finite = factors.iter().filter(|factor| factor.is_finite() && !factor.is_zero());
        let (small, large): (Vec<Dyadic>, Vec<Dyadic>) =
            finite.map(|factor| factor.exact().magnitude()).partition(|factor| *factor < one);
        Self {
            small: Dyadic::product(&small),
            large: Dyadic::product(&large),
            negative: factors.iter().filter(|factor| factor.is_negative()).count() % 2 == 1,
            zero: factors.iter().any(|factor| factor.is_zero()),
            infinite: factors.iter().any(|factor| !factor.is_finite()),
        }
    }
}

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
    HarmonicMean,
    ThirdMoment,
    LogSumExp,
    And,
    Or,
    Xor,
    /// Methods of the reducer that are not operations.
    Mean,
    L1,
    L2,
    MaxNorm,
    /// Count, sum and mean of the elements inside an interval; the set holds only those.
    Within,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) skips: bool,
    pub(crate) everywhere: bool,
}

/// The accepted values of one part of a result.
#[derive(Clone)]
pub(crate) enum Want {
    /// Exactly this number.
    Is(Number),
    /// An exact integer: wrapped if the result's type is an integer, rounded if it is a float.
    Wrapping(Dyadic, Type),
    /// `(number ± off ± √squared_off) / over`.
    Near { number: Dyadic, over: Dyadic, off: Dyadic, squared_off: Dyadic, precision: Precision },
    /// The root of a square, with this relative error at most.
    Root { square: Dyadic, relative: Dyadic },
    /// A value with this absolute error at most.
    Close(f64, f64),
    /// A result that the documentation does not define.
    Unsaid,
}

use Want::{Close, Is, Near, Root, Unsaid, Wrapping};

impl Want {
    pub(crate) fn accepts(&self, found: Number) -> bool {
        match self {
            Is(number) => found == *number,
            Wrapping(exact, ty) => match found {
                Integer(found) => found == ty.wrapped(exact.wrapped(), 64),
                // The bound is that of a sum in double precision.
                Float(_) => {
                    let off = exact.magnitude().times(&Dyadic::power(-52));
                    near(exact.clone(), Dyadic::integer(1), off, DOUBLES).accepts(found)
                }
            },
            Near { number, over, off, squared_off, precision } => match found {
                Float(found) if found.is_nan() => false,
                Float(found) if found.is_infinite() => {
                    // A sum close to the largest number may round up to infinity; a quotient must itself
                    // reach the limit.
                    let exact = number.magnitude();
                    let is_sum = *over == Dyadic::integer(1);
                    let reached = if is_sum { exact.plus(off) } else { exact };
                    let same_sign = number.is_negative() == (found < 0.0);
                    same_sign && reached >= over.times(&precision.limit())
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
                    // Results below the smallest double are rounded to a multiple of it.
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

fn near(number: Dyadic, over: Dyadic, off: Dyadic, precision: Precision) -> Want {
    Near { number, over, off, squared_off: Dyadic::ZERO, precision }
}

/// Accepted values of all parts of a result; `None` if there is no result.
pub(crate) type Expected = Option<Vec<Want>>;

/// Returns the expected result for a nonempty set, on the CPU or on a device.
pub(crate) fn expected(asked: Asked, set: &Set, on_cpu: bool) -> Expected {
    let Asked { what, skips, everywhere } = asked;
    let terms = &set.facts(skips).terms;
    if let Some(sums) = set.ty.sums.filter(|_| everywhere) {
        return of_definition(what, set.facts(skips), sums);
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
        What::HarmonicMean if set.facts(skips).elements.is_empty() => None,
        What::HarmonicMean => one(harmonic_mean(&set.facts(skips).elements)),
        _ => match set.ty.sums {
            Some(sums) => of_floats(what, set.facts(skips), sums, on_cpu),
            None => Some(of_integers(what, set)),
        },
    }
}

/// Returns the first of the smallest or largest elements, or the first NaN, and its index.
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
    let (ty, terms) = (set.ty, &set.all.terms);
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

/// Returns n² times the variance, n·Σx² − (Σx)².
fn deviations(terms: &Terms) -> Dyadic {
    terms.squares.times(&Dyadic::integer(terms.n)).minus(&terms.sum.times(&terms.sum))
}

/// Accepts the variance, (n·Σx² − (Σx)²) / n², with this relative error at most.
fn variance(terms: &Terms, relative: &Dyadic) -> Want {
    let (n, number) = (Dyadic::integer(terms.n), deviations(terms));
    let over = n.times(&n);
    // A subnormal variance may be off by four of the smallest doubles.
    let off = number.times(relative).plus(&over.times(&Dyadic::power(DOUBLES.smallest + 2)));
    let off = if number.is_zero() { Dyadic::ZERO } else { off };
    near(number, over, off, DOUBLES)
}

/// Accepts a sum of terms that are rounded `roundings` times each before they are added.
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
    // A sum computed in double precision is rounded to the type of the result.
    let off = if result != adder && !off.is_zero() {
        off.plus(&number.magnitude().times(&Dyadic::power(-result.digits)).plus(&off))
            .plus(&Dyadic::power(result.smallest - 1))
    } else {
        off
    };
    near(number, over, off, result)
}

/// Returns the bound on the error of a sum that is computed in one type and returned in another.
fn sum_off(terms: &Terms, roundings: u64, types: [Precision; 2], on_cpu: bool) -> Dyadic {
    let [adder, result] = types;
    // Nothing is rounded if all digits fit.
    let exact = || terms.magnitudes <= Dyadic::power(terms.unit + result.digits);
    if terms.unit == i64::MAX || terms.unit >= result.smallest && exact() {
        return Dyadic::ZERO;
    }
    let additions = if on_cpu { 160 } else { terms.n - 1 };
    let off = adder.gamma(additions + roundings).times(&terms.magnitudes);
    let of_term = if roundings > 0 { Dyadic::power(adder.smallest) } else { Dyadic::ZERO };
    off.plus(&of_term.times(&Dyadic::integer(terms.n)))
}

fn of_floats(what: What, facts: &Facts, sums: Precision, on_cpu: bool) -> Expected {
    let terms = &facts.terms;
    let zero = terms.n == 0;
    let one = |want| Some(vec![want]);
    let special = |want: Want| terms.special().map_or(want, |special| Is(Float(special)));
    match what {
        What::Sum | What::SumSq | What::SumAbs | What::L1 | What::WideSum if zero => one(Is(Float(0.0))),
        What::Product if zero => one(Is(Float(1.0))),
        _ if zero => None,
        What::Sum => one(sum(terms, 0, sums, on_cpu)),
        What::WideSum => one(sum(terms, 0, DOUBLES, on_cpu)),
        What::SumAbs | What::L1 => one(sum(facts.magnitudes(), 0, sums, on_cpu)),
        What::SumSq => one(sum(facts.squares(), 1, sums, on_cpu)),
        What::L2 => {
            let squares = facts.squares();
            let relative = sums.gamma(terms.n).plus(&Dyadic::power(-52));
            let root = Root { square: squares.sum.clone(), relative };
            one(squares.special().map_or(root, |special| Is(Float(special))))
        }
        What::MaxNorm => one(Is(Float(facts.elements.iter().map(|one| one.double().abs()).fold(
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
            // Errors relative to the deviation, and to the variance.
            let (of_deviation, relative) = if sums == SINGLES {
                (Dyadic::power(-20), Dyadic::power(-20))
            } else {
                (Dyadic::ZERO, Dyadic::power(-40))
            };
            let squared_off = deviations(terms).times(&of_deviation).times(&of_deviation);
            Some(vec![mean(terms, off, squared_off), variance(terms, &relative)])
        }
        What::ThirdMoment => one(third_moment(facts)),
        What::Product => one(product(facts, sums, on_cpu)),
        What::LogSumExp => one(log_sum_exp(facts, sums)),
        what => unreachable!("{what:?} of floats"),
    }
}

fn mean(terms: &Terms, off: Dyadic, squared_off: Dyadic) -> Want {
    let over = Dyadic::integer(terms.n);
    let division = terms.sum.magnitude().times(&Dyadic::of(DOUBLES.roundoff() * (1.0 + 1e-12)));
    let smallest = over.times(&Dyadic::power(DOUBLES.smallest));
    let division = if terms.n == 1 { Dyadic::ZERO } else { division.plus(&smallest) };
    let off = off.plus(&division);
    Near { number: terms.sum.clone(), over, off, squared_off, precision: DOUBLES }
}

fn harmonic_mean(elements: &[Number]) -> Want {
    if elements.iter().any(|one| one.is_nan()) {
        return Is(Float(f64::NAN));
    } else if elements.iter().any(|one| one.is_zero()) {
        return Is(Float(0.0));
    }
    let negative = elements.iter().filter(|one| one.is_negative()).count();
    let reciprocals = elements.iter().filter(|one| one.is_finite()).map(|one| one.exact().reciprocal());
    let sum = reciprocals.fold(Dyadic::ZERO, |sum, one| sum.plus(&one)).magnitude();
    if sum.is_zero() || negative % elements.len() != 0 {
        return Unsaid;
    }
    let n = Dyadic::integer(elements.len());
    let relative = (elements.len() + 4) as f64 * DOUBLES.roundoff() * (1.0 + 1e-12);
    let off = n.times(&Dyadic::of(relative)).plus(&sum.times(&Dyadic::power(DOUBLES.smallest)));
    let number = if negative > 0 { Dyadic::ZERO.minus(&n) } else { n };
    near(number, sum, off, DOUBLES)
}

fn third_moment(facts: &Facts) -> Want {
    let terms = &facts.terms;
    if terms.special().is_some() {
        return Is(Float(f64::NAN));
    }
    let n = Dyadic::integer(terms.n);
    let distance = |one: &Number| one.exact().times(&n).minus(&terms.sum);
    let cube = |distance: Dyadic| distance.times(&distance).times(&distance);
    let distances: Vec<Dyadic> = facts.elements.iter().map(distance).collect();
    let largest = n.times(&Dyadic::power(320));
    if distances.iter().any(|distance| distance.magnitude() >= largest) {
        return Unsaid;
    }
    let [mut number, mut magnitudes] = [Dyadic::ZERO; 2];
    for distance in distances {
        let cube = cube(distance);
        (number, magnitudes) = (number.plus(&cube), magnitudes.plus(&cube.magnitude()));
    }
    let over = cube(n.clone()).times(&n);
    let relative = 32.0 * terms.n as f64 * (terms.n + 64) as f64 * DOUBLES.roundoff();
    let smallest = over.times(&Dyadic::power(DOUBLES.smallest)).times(&Dyadic::integer(8 * terms.n + 8));
    near(number, over, magnitudes.times(&Dyadic::of(relative)).plus(&smallest), DOUBLES)
}

fn product_of(one: Number, other: Number) -> Term {
    if one.is_finite() && other.is_finite() {
        return Term::Finite(one.exact().times(&other.exact()));
    }
    let sign = |number: Number| if number.is_negative() { -1.0 } else { 1.0 };
    let signed = sign(one) * sign(other);
    let undefined = one.is_nan() || other.is_nan() || one.is_zero() || other.is_zero();
    Term::Special(if undefined { f64::NAN } else { signed * f64::INFINITY })
}

fn distance_of(one: Number, other: Number) -> Term {
    if one.is_finite() && other.is_finite() {
        let distance = one.exact().minus(&other.exact());
        return Term::Finite(distance.times(&distance));
    }
    let distance = one.double() - other.double();
    Term::Special(distance * distance)
}

fn product(facts: &Facts, sums: Precision, on_cpu: bool) -> Want {
    let (maker, n) = (if on_cpu { DOUBLES } else { sums }, facts.terms.n);
    let &Factors { ref small, ref large, negative, zero, infinite } = facts.factors();
    let one = Dyadic::integer(1);
    let smallest_normal = Dyadic::power(maker.smallest + maker.digits - 1);
    let (overflows, underflows) = (*large >= maker.limit(), *small < smallest_normal);
    let infinity = Is(Float(if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
    // Partial products change monotonically if all factors grow the product or all shrink it.
    let (grows, shrinks) = (infinite || *large > one, zero || *small < one);
    let both_ways = n > 1 && grows && shrinks;
    if facts.terms.nan || infinite && zero {
        return Is(Float(f64::NAN));
    } else if both_ways && (overflows && !infinite || underflows) {
        return Unsaid;
    } else if infinite {
        return infinity;
    } else if zero {
        return Is(Float(0.0));
    }
    let magnitude = small.times(large);
    let product = if negative { Dyadic::ZERO.minus(&magnitude) } else { magnitude.clone() };
    let off = maker.gamma(n - 1).times(&magnitude);
    let off = if underflows && n > 1 {
        off.plus(&Dyadic::power(maker.smallest).times(&Dyadic::integer(n)))
    } else {
        off
    };
    let off = if maker == sums {
        off
    } else {
        // The result is rounded once more.
        let last = magnitude.times(&Dyadic::of(sums.roundoff() * (1.0 + 1e-12)));
        off.plus(&off).plus(&last).plus(&Dyadic::power(sums.smallest - 1))
    };
    near(product, one, off, sums)
}

/// Accepts the logarithm that `log_sum_exp.rs` computes in `f64`, because the exact one is irrational.
fn log_sum_exp(facts: &Facts, sums: Precision) -> Want {
    let elements = || facts.elements.iter().map(|one| one.double());
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

fn of_definition(what: What, facts: &Facts, sums: Precision) -> Expected {
    let format = if sums == SINGLES { SINGLE } else { DOUBLE };
    let (terms, taken) = (&facts.terms, || facts.elements.iter().map(|one| one.double()));
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
        What::HarmonicMean => {
            // Zeros of either sign, and numbers that count as zeros, have the term +∞.
            let four_over = |one: f64| {
                let quotient = if sums == SINGLES { f64::from(4.0 / one as f32) } else { 4.0 / one };
                if quotient.is_infinite() { f64::INFINITY } else { quotient }
            };
            let terms: Vec<f64> = taken().map(four_over).collect();
            let of_any = || vec![Is(Float(4.0 / spread_everywhere(&terms, format)[0]))];
            (!terms.is_empty()).then(of_any)
        }
        What::Within => {
            let sum = of(taken().collect());
            let count = vec![Is(Integer(terms.n.into())), sum];
            if terms.n == 0 {
                return Some(count);
            }
            let off = sum_off(terms, 0, [sums; 2], false);
            let mean = mean(terms, off, Dyadic::ZERO);
            let mean = terms.special().map_or(mean, |special| Is(Float(special)));
            Some([count, vec![mean]].concat())
        }
        what => unreachable!("{what:?} has no definition"),
    }
}

/// Returns the expected dot product or squared distance of two sets of equal length, on a device and on
/// the CPU.
pub(crate) fn of_pairs(distance: bool, op: &str, [a, b]: [&[Number]; 2], ty: Type) -> [Want; 2] {
    let pairs = || a.iter().copied().zip(b.iter().copied());
    let of = if distance { distance_of } else { product_of };
    let Some(sums) = ty.sums else {
        let exact = Terms::of(pairs().map(|(one, other)| of(one, other))).sum;
        return [(); 2].map(|()| Wrapping(exact.clone(), ty));
    };
    if op.contains("Reproducible") {
        let term = |(one, other): (Number, Number)| {
            let (one, other) = (one.double(), other.double());
            if sums == DOUBLES {
                return if distance { (one - other) * (one - other) } else { one * other };
            }
            let (one, other) = (one as f32, other as f32);
            f64::from(if distance { (one - other) * (one - other) } else { one * other })
        };
        let format = if sums == SINGLES { SINGLE } else { DOUBLE };
        let sum = everywhere(&pairs().map(term).collect::<Vec<_>>(), format);
        return [Is(Float(sum)), Is(Float(sum))];
    }
    let terms = Terms::of(pairs().map(|(one, other)| of(one, other)));
    // A product is rounded once. The rounding of a difference counts twice in its square, which is
    // rounded as well.
    [false, true].map(|on_cpu| sum(&terms, if distance { 3 } else { 1 }, sums, on_cpu))
}

#[test]
fn only_results_within_bounds_are_accepted() {
    let of = |what, values: &[f64], name: &'static str, sums| {
        let ty = Type { name, bits: 64, sums: Some(sums), signed: true };
        let set = Set::new(String::new(), ty, values.iter().map(|&value| Float(value)).collect());
        expected(Asked { what, skips: false, everywhere: false }, &set, false).unwrap()
    };
    let check = |wants: &[Want], right: &[f64], wrong: &[f64]| {
        assert_eq!(wants.len(), right.len());
        for ((want, &right), &wrong) in wants.iter().zip(right).zip(wrong) {
            assert!(want.accepts(Float(right)), "{right} is right: {want}");
            assert!(!want.accepts(Float(wrong)), "{wrong} is wrong: {want}");
        }
    };
    let (infinity, nan) = (f64::INFINITY, f64::NAN);
    let singles = |what, values: &[f64]| of(what, values, "f32", SINGLES);
    let doubles = |what, values: &[f64]| of(what, values, "f64", DOUBLES);
    let near = [16_777_216.0, 16_777_218.0].repeat(2);
    check(&singles(What::Spread, &near), &[16_777_217.0, 1.0], &[16_777_216.0, 1.0 + 2e-6]);
    let large = f64::from(3e38_f32);
    check(&singles(What::Spread, &[large; 4]), &[large, 0.0], &[infinity, f64::MIN_POSITIVE]);
    check(&singles(What::Sum, &[large; 2]), &[infinity], &[large]);
    check(&singles(What::Sum, &[1.0, 2.0, -4.0]), &[-1.0], &[-1.0 - 1e-7]);
    check(&singles(What::Sum, &[infinity, 1.0, -infinity]), &[nan], &[infinity]);
    check(&singles(What::Product, &[-0.1, 3.0]), &[-0.300_000_01], &[-0.300_000_1]);
    check(&doubles(What::Spread, &[1.0, infinity]), &[infinity, nan], &[nan, infinity]);
    let power = 2_f64.powi(511);
    check(&doubles(What::Spread, &[power, -power]), &[0.0, power * power], &[nan, infinity]);
    check(&doubles(What::Mean, &[f64::MAX, f64::MAX]), &[f64::MAX], &[infinity]);
    let tiny = 5e-324_f64;
    check(&doubles(What::L2, &[1e200; 2]), &[2_f64.sqrt() * 1e200], &[2_f64.sqrt() * 1.000_000_1e200]);
    check(&doubles(What::L2, &[tiny]), &[tiny], &[1e-322]);
    check(&doubles(What::L2, &[f64::MAX; 2]), &[infinity], &[f64::MAX]);
}
