//! The operations of the library's kernels as values of one type.

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
    /// Sums have a wider type than [`Dtype::sum`].
    pub wide: bool,
}

/// The treatment of NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nan {
    /// The result is NaN if an element is.
    Propagate,
    /// NaN is skipped.
    Skip,
}

/// The guarantee about the order of additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Order {
    /// The same call on the same device is repeatable; the rounding of float sums may differ between
    /// devices and launches.
    RunToRun,
    /// The result is the same everywhere: floats are added in bins of a fixed grid.
    Reproducible,
}

/// The types of elements that a kind takes, by their trait; `LongInteger` stands for integers of 64
/// bits.
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

/// The elements with a result that does not depend on their order.
#[derive(Clone, Copy)]
pub(super) enum Reproducible {
    /// All, without separate kernels.
    Anyway,
    /// Integers, and floats by separate kernels.
    Binned,
    /// Floats, by separate kernels.
    Floats,
    Integers,
    Never,
}

/// A row of the table of operations.
pub(super) struct Facts {
    /// The names, in the order of [`FORMS`].
    pub(super) names: [&'static str; FORMS.len()],
    /// The names of the Python functions, without and with skipped NaN.
    pub(super) functions: [&'static str; 2],
    pub(super) summary: &'static str,
    pub(super) types: Types,
    pub(super) written: Written,
    pub(super) of_none: OfNone,
    /// Kernels that skip NaN exist.
    pub(super) skips_nan: bool,
    pub(super) reproducible: Reproducible,
    /// The kind whose tuning it uses: itself, or one that loads elements alike.
    pub(super) tuning_proxy: OpKind,
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

    /// Returns a one-sentence description.
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

    /// Returns whether the kind has these modifiers.
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

    /// Returns a number that is unique to the operation.
    pub(crate) const fn index(self) -> usize {
        self.form() * OpKind::ALL.len() + self.kind as usize
    }

    /// Returns the name for users, PTX symbols and files.
    pub const fn name(self) -> &'static str {
        self.kind.facts().names[self.form()]
    }

    /// Returns the name of the Python function, if it has no modifier except skipped NaN.
    pub const fn function(self) -> Option<&'static str> {
        match (self.exists(), self.form()) {
            (true, form @ (0 | 1)) => Some(self.kind.facts().functions[form]),
            _ => None,
        }
    }

    /// Returns whether it exists for elements of this type.
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

    /// Returns the kind of result that its kernels write.
    pub const fn written(self) -> Written {
        self.kind.facts().written
    }

    /// Returns the size of the result that a kernel writes.
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

    /// Returns the first word of the result of no elements, whose other words are zero; `None` if there
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

    /// Returns whether there is a result of no elements.
    pub const fn has_value_of_none(self) -> bool {
        !matches!(self.kind.facts().of_none, OfNone::Nothing)
    }

    /// Returns whether the result of no elements is zero.
    pub(crate) const fn is_zero_of_none(self) -> bool {
        matches!(self.kind.facts().of_none, OfNone::Zero)
    }

    /// Returns whether it adds in bins, which have room for a limited number of terms.
    pub const fn is_binned(self) -> bool {
        matches!(self.order, Order::Reproducible)
    }

    /// Returns whether it adds products of digits, and so is limited by instructions, not by memory.
    pub(crate) const fn has_products(self) -> bool {
        self.is_binned() && matches!(self.kind, OpKind::MeanAndVariance)
    }

    /// Returns whether its partial results have more words than others, and its kernels more registers.
    pub(crate) const fn is_wide(self, dtype: Dtype) -> bool {
        match self.kind {
            // Sums of shorter integers have fewer words.
            OpKind::MeanAndVariance => self.is_binned() || !dtype.is_float() && dtype.size() >= 4,
            OpKind::HarmonicMean => self.is_binned() && matches!(dtype, Dtype::F64),
            OpKind::ThirdCentralMoment => true,
            _ => false,
        }
    }

    /// Returns whether the result has the index of an element.
    pub const fn has_places(self) -> bool {
        matches!(self.kind, OpKind::ArgMin | OpKind::ArgMax)
    }

    /// Returns the operation whose tuning it uses.
    pub(crate) const fn tuning_proxy(self) -> Self {
        match self.kind.facts().tuning_proxy {
            // Squares were measured only without modifiers.
            OpKind::SumOfSquares if self.form() != 0 => OpKind::Sum.plain(),
            kind => kind.plain(),
        }
    }

    /// Returns whether elements of this type have a result that does not depend on their order: by the
    /// operation itself, or by its [reproducible](Self::reproducible) form.
    pub const fn is_reproducible(self, dtype: Dtype) -> bool {
        match self.kind.facts().reproducible {
            Reproducible::Anyway => true,
            Reproducible::Binned => !self.wide || !dtype.is_float(),
            Reproducible::Floats => dtype.is_float(),
            Reproducible::Integers => !dtype.is_float(),
            Reproducible::Never => false,
        }
    }

    /// Returns the form whose result does not depend on the order of elements, if it
    /// [exists](Self::is_reproducible).
    pub const fn reproducible(self, dtype: Dtype) -> Self {
        match self.kind.facts().reproducible {
            Reproducible::Binned | Reproducible::Floats if dtype.is_float() && !self.wide => {
                Self { order: Order::Reproducible, ..self }
            }
            _ => self,
        }
    }

    /// Returns the operation with the same result for elements of this type: the sum of magnitudes for
    /// an L1 norm without kernels, otherwise itself.
    pub const fn for_elements(self, dtype: Dtype) -> Self {
        match self.kind {
            OpKind::L1Norm if !self.kind.plain().takes(dtype) => {
                Self { kind: OpKind::SumOfMagnitudes, ..self }
            }
            _ => self,
        }
    }

    /// Returns the operation that skips NaN, or itself if there is none for elements of this type.
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
        // With skipped NaN, in bins, and both; `f64` has no wider sum.
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
        assert!(Op::all().all(|op| op.tuning_proxy().tuning_proxy() == op.tuning_proxy()));
        assert_eq!(OpKind::Max.plain().tuning_proxy(), OpKind::Max.plain());
    }
}
