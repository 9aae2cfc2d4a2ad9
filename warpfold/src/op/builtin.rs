//! The operations of the library's kernels as values of one type: a kind and its modifiers.

use std::{fmt, str::FromStr, sync::LazyLock};

pub use super::table::OpKind;
use crate::names::{Dtype, UnknownName};

/// An operation of the library's kernels: a kind and its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op {
    /// The kind: sum, minimum and so on.
    pub kind: OpKind,
    /// The treatment of NaN.
    pub nan: Nan,
    /// The guarantee about the order of additions.
    pub order: Order,
    /// Whether it adds in a wider type than [`Dtype::sum`].
    pub wide: bool,
}

/// The treatment of NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nan {
    /// It makes the result NaN.
    Propagate,
    /// Nothing: it is left out.
    Skip,
}

/// The guarantee about the order of additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// The rounding of float sums, from device to device and launch to launch; the same call on the same
    /// device is repeatable.
    RunToRun,
    /// Nothing: floats are added in bins of a fixed grid.
    Reproducible,
}

/// The types of elements that a kind is for, by the trait that they have.
#[derive(Clone, Copy)]
pub(super) enum Types {
    Element,
    Bits,
    LongInteger,
    Float,
}

/// The result that kernels write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// A number in the type of sums.
    Sum,
    /// An element.
    Element,
    /// Two elements.
    Ends,
    /// An index and an element.
    Place,
    /// A `u64`.
    Count,
    /// An `f64`.
    Double,
    /// Two `f64`.
    Moments,
}

/// The result of no elements.
#[derive(Clone, Copy)]
pub(super) enum OfNone {
    Nothing,
    Zero,
    One,
    AllBits,
    NegativeInfinity,
}

/// The elements whose result does not depend on their order.
#[derive(Clone, Copy)]
pub(super) enum Reproducible {
    /// All.
    Anyway,
    /// Integers, and floats by kernels of their own.
    Binned,
    /// Floats, by kernels of their own.
    Floats,
    /// Integers.
    Integers,
    /// None.
    Never,
}

/// A kind's row of the table.
pub(super) struct Facts {
    /// Names, by [`FORMS`].
    pub(super) names: [&'static str; FORMS.len()],
    /// The names of Python's functions, of all elements and of those that are not NaN.
    pub(super) functions: [&'static str; 2],
    pub(super) summary: &'static str,
    pub(super) types: Types,
    pub(super) written: Written,
    pub(super) of_none: OfNone,
    /// Kernels that leave NaN out exist.
    pub(super) skips_nan: bool,
    pub(super) reproducible: Reproducible,
    /// The kind whose tuning it uses: itself, or one that loads alike.
    pub(super) measured_as: OpKind,
}

/// The combinations of modifiers.
pub(super) const FORMS: [(Nan, Order, bool); 5] = [
    (Nan::Propagate, Order::RunToRun, false),
    (Nan::Skip, Order::RunToRun, false),
    (Nan::Propagate, Order::Reproducible, false),
    (Nan::Skip, Order::Reproducible, false),
    (Nan::Propagate, Order::RunToRun, true),
];

impl OpKind {
    /// Returns the operation without modifiers.
    pub const fn plain(self) -> Op {
        Op { kind: self, nan: Nan::Propagate, order: Order::RunToRun, wide: false }
    }

    /// Returns what it computes, in a sentence.
    pub const fn summary(self) -> &'static str {
        self.facts().summary
    }
}

impl Op {
    /// One more than the largest [`index`](Self::index).
    pub(crate) const INDICES: usize = FORMS.len() * OpKind::ALL.len();

    /// Returns all operations: those without modifiers first.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let kinds =
            |(nan, order, wide)| OpKind::ALL.iter().map(move |&kind| Self { kind, nan, order, wide });
        FORMS.into_iter().flat_map(kinds).filter(|op| op.exists())
    }

    /// Returns whether its kind has these modifiers.
    const fn exists(self) -> bool {
        let Facts { skips_nan, reproducible, .. } = self.kind.facts();
        let skips = matches!(self.nan, Nan::Skip);
        (!skips || skips_nan)
            && (!self.is_binned() || matches!(reproducible, Reproducible::Binned | Reproducible::Floats))
            && (!self.wide || matches!(self.kind, OpKind::Sum) && !skips && !self.is_binned())
    }

    /// Returns the index of its modifiers in [`FORMS`].
    const fn form(self) -> usize {
        match (self.nan, self.order) {
            _ if self.wide => 4,
            (Nan::Propagate, Order::RunToRun) => 0,
            (Nan::Skip, Order::RunToRun) => 1,
            (Nan::Propagate, Order::Reproducible) => 2,
            (Nan::Skip, Order::Reproducible) => 3,
        }
    }

    /// Returns a number that no other operation has.
    pub(crate) const fn index(self) -> usize {
        self.form() * OpKind::ALL.len() + self.kind as usize
    }

    /// Returns the name that users, PTX symbols and files have for it.
    pub const fn name(self) -> &'static str {
        self.kind.facts().names[self.form()]
    }

    /// Returns the name of Python's function for it, if it has no modifier but the treatment of NaN.
    pub const fn function(self) -> Option<&'static str> {
        match (self.exists(), self.form()) {
            (true, form @ (0 | 1)) => Some(self.kind.facts().functions[form]),
            _ => None,
        }
    }

    /// Returns whether elements of this type have it.
    pub const fn takes(self, dtype: Dtype) -> bool {
        let has_kind = match self.kind.facts().types {
            Types::Element => true,
            Types::Bits => !dtype.is_float(),
            Types::LongInteger => !dtype.is_float() && dtype.size() == 8,
            Types::Float => dtype.is_float(),
        };
        let modified = matches!(self.nan, Nan::Skip) || self.is_binned();
        self.exists()
            && has_kind
            && (!modified || dtype.is_float())
            && (!self.wide || dtype.wide_sum_bytes().is_some())
    }

    /// Returns what its kernels write.
    pub const fn written(self) -> Written {
        self.kind.facts().written
    }

    /// Returns the bytes of the result that a kernel writes.
    pub const fn result_bytes(self, dtype: Dtype) -> usize {
        match (self.written(), dtype.wide_sum_bytes()) {
            (Written::Sum, Some(bytes)) if self.wide => bytes,
            (Written::Sum, _) => dtype.sum().size(),
            (Written::Element, _) => dtype.size(),
            (Written::Ends, _) => 2 * dtype.size(),
            (Written::Place, _) => size_of::<u64>() + dtype.size(),
            (Written::Count, _) => size_of::<u64>(),
            (Written::Double, _) => size_of::<f64>(),
            (Written::Moments, _) => 2 * size_of::<f64>(),
        }
    }

    /// Returns the first word of its result of no elements, whose other words are zero; `None` if there
    /// is no such result.
    pub fn of_none(self, dtype: Dtype) -> Option<u64> {
        let sum = |single: f32, double: f64, integer| match dtype.sum() {
            Dtype::F32 => single.to_bits() as u64,
            Dtype::F64 => double.to_bits(),
            _ => integer,
        };
        match self.kind.facts().of_none {
            OfNone::Nothing => None,
            OfNone::Zero => Some(0),
            OfNone::One => Some(sum(1.0, 1.0, 1)),
            OfNone::AllBits => Some(u64::MAX),
            OfNone::NegativeInfinity => Some(sum(f32::NEG_INFINITY, f64::NEG_INFINITY, 0)),
        }
    }

    /// Returns whether no elements have a result.
    pub const fn has_value_of_none(self) -> bool {
        !matches!(self.kind.facts().of_none, OfNone::Nothing)
    }

    /// Returns whether its result of no elements is zero.
    pub(crate) const fn is_zero_of_none(self) -> bool {
        matches!(self.kind.facts().of_none, OfNone::Zero)
    }

    /// Returns whether it adds in bins, which hold no more than a certain number of terms.
    pub const fn is_binned(self) -> bool {
        matches!(self.order, Order::Reproducible)
    }

    /// Returns whether it adds up products of digits: instructions are its limit, not the memory.
    pub(crate) const fn has_products(self) -> bool {
        self.is_binned() && matches!(self.kind, OpKind::MeanAndVariance)
    }

    /// Returns whether its partial results have more words than others, and its kernels more registers.
    pub(crate) const fn is_wide(self, dtype: Dtype) -> bool {
        // Sums of shorter integers have fewer words.
        let of_integers =
            matches!(self.kind, OpKind::MeanAndVariance) && !dtype.is_float() && dtype.size() >= 4;
        let is_counted = matches!(self.kind, OpKind::HarmonicMean) && self.is_binned();
        let of_floats = match self.kind {
            OpKind::ThirdCentralMoment => true,
            _ => is_counted && matches!(dtype, Dtype::F64),
        };
        self.has_products() || of_integers || of_floats
    }

    /// Returns whether its result has the index of an element.
    pub const fn has_places(self) -> bool {
        matches!(self.kind, OpKind::ArgMin | OpKind::ArgMax)
    }

    /// Returns the operation whose tuning it uses.
    pub(crate) const fn measured_as(self) -> Self {
        match self.kind.facts().measured_as {
            // Squares were measured without modifiers.
            OpKind::SumOfSquares if self.form() != 0 => OpKind::Sum.plain(),
            kind => kind.plain(),
        }
    }

    /// Returns whether elements of this type have a result of it that no order changes: its own, or that
    /// of its [reproducible](Self::reproducible) form.
    pub const fn is_reproducible(self, dtype: Dtype) -> bool {
        match self.kind.facts().reproducible {
            Reproducible::Anyway => true,
            Reproducible::Binned => !self.wide || !dtype.is_float(),
            Reproducible::Floats => dtype.is_float(),
            Reproducible::Integers => !dtype.is_float(),
            Reproducible::Never => false,
        }
    }

    /// Returns the operation with a result that no order changes, of those that
    /// [have](Self::is_reproducible) one.
    pub const fn reproducible(self, dtype: Dtype) -> Self {
        match self.kind.facts().reproducible {
            Reproducible::Binned | Reproducible::Floats if dtype.is_float() && !self.wide => {
                Self { order: Order::Reproducible, ..self }
            }
            _ => self,
        }
    }

    /// Returns the operation whose result of elements of a type is this one's: the L1 norm of elements
    /// that have no kernels for it is the sum of their magnitudes.
    pub const fn for_elements(self, dtype: Dtype) -> Self {
        match self.kind {
            OpKind::L1Norm if !self.kind.plain().takes(dtype) => {
                Self { kind: OpKind::SumOfMagnitudes, ..self }
            }
            _ => self,
        }
    }

    /// Returns the operation with NaN left out, or itself if elements of this type have no such
    /// operation.
    pub const fn skipping_nan(self, dtype: Dtype) -> Self {
        match self.kind.facts().skips_nan && dtype.is_float() && !self.wide {
            true => Self { nan: Nan::Skip, ..self },
            false => self,
        }
    }

    /// Returns every operation with every type that it takes.
    pub fn pairs() -> impl Iterator<Item = (Self, Dtype)> + Clone {
        let all = Self::all().flat_map(|op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)));
        all.filter(|(op, dtype)| op.takes(*dtype))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| Op::all().map(Op::name).collect());
        let unknown = || UnknownName { what: "operation", given: given.to_owned(), known: &KNOWN };
        Self::all().find(|op| op.name() == given).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_operation() {
        assert!(Op::all().all(|op| op.name().parse() == Ok(op)));
        let error = "median".parse::<Op>().unwrap_err().to_string();
        let said =
            "unknown operation `median`; there are sum, min, max, sumsq, argmin, argmax, sumabs, ";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn every_operation_has_an_index_and_a_name_of_its_own() {
        use std::collections::HashSet;
        let all = Op::all().count();
        assert_eq!(
            Op::all().map(Op::index).filter(|&index| index < Op::INDICES).collect::<HashSet<_>>().len(),
            all
        );
        assert_eq!(Op::all().map(Op::name).collect::<HashSet<_>>().len(), all);
    }

    #[test]
    fn sums_of_integers_have_64_bits_and_no_result_more_than_its_place() {
        use warpfold_abi::reducer::OUTPUT_BYTES;
        for (op, dtype) in Op::pairs() {
            let bytes = op.result_bytes(dtype);
            assert!(bytes > 0 && bytes as u64 <= OUTPUT_BYTES, "{op} of {dtype}");
            let sum = OpKind::Sum.plain().result_bytes(dtype);
            assert_eq!(sum, if dtype.is_float() { dtype.size().max(4) } else { 8 }, "{dtype}");
            assert_eq!(dtype.sum().is_float(), dtype.is_float(), "{dtype}");
        }
        assert_eq!((Dtype::I8.sum(), Dtype::U32.sum()), (Dtype::I64, Dtype::U64));
    }

    #[test]
    fn modifiers_are_for_floats_and_wide_sums_for_those_that_have_them() {
        let of = |dtype| Op::pairs().filter(move |pair| pair.1 == dtype).count();
        // 14 kinds for all types, 3 for integers, one for those of 64 bits, 3 for floats.
        assert_eq!([Dtype::I32, Dtype::U64].map(of), [17, 17 + 2]);
        // With NaN left out, in bins, and both; `f64` has no wider sum.
        assert_eq!([Dtype::F64, Dtype::F16].map(of), [17 + 13 + 5 + 5, 17 + 13 + 5 + 5 + 1]);
    }

    #[test]
    fn modifiers_that_a_kind_lacks_make_an_operation_of_no_elements() {
        let skip = |kind: OpKind| Op { nan: Nan::Skip, ..kind.plain() };
        let reproducible = |op: Op| Op { order: Order::Reproducible, ..op };
        let lacking = [
            skip(OpKind::Mean),
            reproducible(OpKind::Min.plain()),
            reproducible(skip(OpKind::Product)),
            Op { wide: true, ..skip(OpKind::Sum) },
            Op { wide: true, ..OpKind::SumOfSquares.plain() },
        ];
        for op in lacking {
            assert!(Dtype::ALL.iter().all(|&dtype| !op.takes(dtype)), "{op:?}");
        }
    }

    #[test]
    fn what_was_measured_is_chosen_by_its_own_measurements() {
        assert!(Op::all().all(|op| op.measured_as().measured_as() == op.measured_as()));
        assert_eq!(OpKind::Max.plain().measured_as(), OpKind::Max.plain());
    }
}
