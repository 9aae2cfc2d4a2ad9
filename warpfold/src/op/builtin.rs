//! The operations of the library's kernels as values of one type.

use std::{fmt, str::FromStr, sync::LazyLock};

use warpfold_abi::form;

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
    /// `true` for a sum in a wider type than [`Dtype::sum`].
    pub wide: bool,
    /// The form of the results.
    pub form: Form,
}

/// The treatment of NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nan {
    /// The result is NaN if any element is NaN.
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
    /// The result is the same everywhere: sums of floats are [binned](warpfold_abi::binned).
    Reproducible,
}

/// The element types of an [`OpKind`]: those of the trait with the variant's name, or integers of 64
/// bits.
#[derive(Clone, Copy)]
pub(super) enum Types {
    Element,
    Bits,
    LongInteger,
    Float,
}

/// The [form](warpfold_abi::form) in which kernels write a result. Running and counted reductions,
/// groups and worlds panic for others than [`Form::OUTPUT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Form {
    pub(crate) code: u64,
    /// The bits of the delta degrees of freedom, an `f64`.
    pub(crate) ddof: u64,
}

impl Form {
    /// The operation's own result.
    pub const OUTPUT: Self = Self { code: form::OUTPUT, ddof: 0 };
    /// An `f64` result, converted to the [float type](warpfold_abi::form) of the elements.
    pub const FLOAT: Self = Self { code: form::FLOAT, ddof: 0 };
    /// An index, as a `u64`.
    pub const INDEX: Self = Self { code: form::INDEX, ddof: 0 };
    /// One byte: 1 if a count is not 0, else 0.
    pub const ANY: Self = Self { code: form::ANY, ddof: 0 };
    /// One byte: 1 if a count is the number of elements, else 0.
    pub const ALL: Self = Self { code: form::ALL, ddof: 0 };
    /// The larger magnitude of a minimum and a maximum, in the [float type](warpfold_abi::form).
    pub const MAGNITUDE: Self = Self { code: form::MAGNITUDE, ddof: 0 };
    /// The mean without the variance, in the [float type](warpfold_abi::form).
    pub const MEAN: Self = Self { code: form::MEAN, ddof: 0 };
    /// The variance without the mean, in the [float type](warpfold_abi::form).
    pub const VARIANCE: Self = Self { code: form::VARIANCE, ddof: 0 };
    /// The square root of the variance, in the [float type](warpfold_abi::form).
    pub const DEVIATION: Self = Self { code: form::DEVIATION, ddof: 0 };
    /// All variances, then all means, in the [float type](warpfold_abi::form).
    pub const VARIANCE_AND_MEAN: Self = Self { code: form::VARIANCE_AND_MEAN, ddof: 0 };
    /// All minima, then all maxima.
    pub const MIN_AND_MAX: Self = Self { code: form::MIN_AND_MAX, ddof: 0 };

    /// Returns the form whose variance divides by the number of elements minus `ddof`.
    pub const fn with_ddof(self, ddof: f64) -> Self {
        Self { ddof: ddof.to_bits(), ..self }
    }

    /// Returns whether the kernels of an operation write this form.
    const fn suits(self, written: Written) -> bool {
        match self.code {
            form::OUTPUT => true,
            form::FLOAT => matches!(written, Written::Double),
            form::INDEX => matches!(written, Written::Place),
            form::ANY | form::ALL => matches!(written, Written::Count),
            form::MAGNITUDE | form::MIN_AND_MAX => matches!(written, Written::Ends),
            _ => matches!(written, Written::Moments),
        }
    }
}

/// The type of the result that kernels write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// A number of the type [`Dtype::sum`].
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

/// The result of an empty input.
#[derive(Clone, Copy)]
pub(super) enum OfNone {
    Nothing,
    Zero,
    One,
    AllBits,
    NegativeInfinity,
}

/// The types of elements for which the result does not depend on the order of the elements.
#[derive(Clone, Copy)]
pub(super) enum Reproducible {
    /// All types, by the usual kernels.
    Anyway,
    /// Integers by the usual kernels, and floats by separate ones.
    Binned,
    /// Only floats, by separate kernels.
    Floats,
    Integers,
    Never,
}

pub(super) struct Facts {
    /// The names, in the order of [`MODIFIERS`].
    pub(super) names: [&'static str; MODIFIERS.len()],
    /// The names of the Python functions, without and with skipped NaN.
    pub(super) functions: [&'static str; 2],
    pub(super) summary: &'static str,
    pub(super) types: Types,
    pub(super) written: Written,
    pub(super) of_none: OfNone,
    pub(super) skips_nan: bool,
    pub(super) reproducible: Reproducible,
    /// The kind whose tuning is used: itself, or one with similar loads.
    pub(super) tuning_proxy: OpKind,
}

pub(super) const MODIFIERS: [(Nan, Order, bool); 5] = [
    (Nan::Propagate, Order::RunToRun, false),
    (Nan::Skip, Order::RunToRun, false),
    (Nan::Propagate, Order::Reproducible, false),
    (Nan::Skip, Order::Reproducible, false),
    (Nan::Propagate, Order::RunToRun, true),
];

impl OpKind {
    /// Returns the operation without modifiers.
    pub const fn plain(self) -> Op {
        let (nan, order, form) = (Nan::Propagate, Order::RunToRun, Form::OUTPUT);
        Op { kind: self, nan, order, wide: false, form }
    }

    /// Returns a one-sentence description.
    pub const fn summary(self) -> &'static str {
        self.facts().summary
    }
}

impl Op {
    /// One more than the largest [`index`](Self::index).
    pub(crate) const INDICES: usize = MODIFIERS.len() * OpKind::ALL.len();

    /// Returns all operations, those without modifiers first.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let kinds = |(nan, order, wide)| {
            OpKind::ALL.iter().map(move |kind| Self { nan, order, wide, ..kind.plain() })
        };
        MODIFIERS.into_iter().flat_map(kinds).filter(|op| op.exists())
    }

    const fn exists(self) -> bool {
        let Facts { skips_nan, reproducible, .. } = self.kind.facts();
        let skips = matches!(self.nan, Nan::Skip);
        (!skips || skips_nan)
            && (!self.is_binned() || matches!(reproducible, Reproducible::Binned | Reproducible::Floats))
            && (!self.wide || matches!(self.kind, OpKind::Sum) && !skips && !self.is_binned())
            && self.form.suits(self.written())
    }

    const fn modifiers(self) -> usize {
        match (self.nan, self.order) {
            _ if self.wide => 4,
            (Nan::Propagate, Order::RunToRun) => 0,
            (Nan::Skip, Order::RunToRun) => 1,
            (Nan::Propagate, Order::Reproducible) => 2,
            (Nan::Skip, Order::Reproducible) => 3,
        }
    }

    pub(crate) const fn index(self) -> usize {
        self.modifiers() * OpKind::ALL.len() + self.kind as usize
    }

    /// Returns the name for users, PTX symbols and files.
    pub const fn name(self) -> &'static str {
        self.kind.facts().names[self.modifiers()]
    }

    /// Returns the name of the Python function; `None` for any modifier except [`Nan::Skip`].
    pub const fn function(self) -> Option<&'static str> {
        match (self.exists(), self.modifiers()) {
            (true, modifiers @ (0 | 1)) => Some(self.kind.facts().functions[modifiers]),
            _ => None,
        }
    }

    /// Returns whether the operation exists for elements of this type.
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

    /// Returns the kind of result that its kernels write as [`Form::OUTPUT`].
    pub const fn written(self) -> Written {
        self.kind.facts().written
    }

    /// Returns the size of a result in bytes.
    pub const fn result_bytes(self, dtype: Dtype) -> usize {
        let float = if dtype.is_float() { dtype.sum().size() } else { size_of::<f64>() };
        match self.form.code {
            form::OUTPUT => {}
            form::INDEX => return size_of::<u64>(),
            form::ANY | form::ALL => return size_of::<u8>(),
            form::VARIANCE_AND_MEAN => return 2 * float,
            form::MIN_AND_MAX => return 2 * dtype.size(),
            _ => return float,
        }
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

    /// Returns the first word of the result of an empty input, or `None` if an empty input has no
    /// result. The result's other words are zero.
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

    /// Returns whether an empty input has a result.
    pub const fn has_value_of_none(self) -> bool {
        !matches!(self.kind.facts().of_none, OfNone::Nothing)
    }

    pub(crate) const fn is_zero_when_empty(self) -> bool {
        matches!(self.kind.facts().of_none, OfNone::Zero) && self.form.code != form::ALL
    }

    /// Returns whether sums are [binned](warpfold_abi::binned), which limits the number of terms.
    pub const fn is_binned(self) -> bool {
        matches!(self.order, Order::Reproducible)
    }

    /// Returns whether the operation multiplies binned digits, so that instructions limit its speed.
    pub(crate) const fn has_products(self) -> bool {
        self.is_binned() && matches!(self.kind, OpKind::MeanAndVariance)
    }

    /// Returns whether partial results have more words than usual, so that kernels need more registers.
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

    pub(crate) const fn tuning_proxy(self) -> Self {
        match self.kind.facts().tuning_proxy {
            // Squares were measured only without modifiers.
            OpKind::SumOfSquares if self.modifiers() != 0 => OpKind::Sum.plain(),
            kind => kind.plain(),
        }
    }

    /// Returns whether elements of this type have a result that does not depend on their order: from the
    /// operation itself, or from its [reproducible](Self::reproducible) variant.
    pub const fn is_reproducible(self, dtype: Dtype) -> bool {
        match self.kind.facts().reproducible {
            Reproducible::Anyway => true,
            Reproducible::Binned => !self.wide || !dtype.is_float(),
            Reproducible::Floats => dtype.is_float(),
            Reproducible::Integers => !dtype.is_float(),
            Reproducible::Never => false,
        }
    }

    /// Returns the variant whose result does not depend on the order of elements, if it
    /// [exists](Self::is_reproducible).
    pub const fn reproducible(self, dtype: Dtype) -> Self {
        match self.kind.facts().reproducible {
            Reproducible::Binned | Reproducible::Floats if dtype.is_float() && !self.wide => {
                Self { order: Order::Reproducible, ..self }
            }
            _ => self,
        }
    }

    /// Returns the operation whose kernels compute the result for elements of this type: the sum of
    /// magnitudes for an L1 norm that has no kernels of its own, otherwise the operation itself.
    pub const fn for_elements(self, dtype: Dtype) -> Self {
        match self.kind {
            OpKind::L1Norm if !self.kind.plain().takes(dtype) => {
                Self { kind: OpKind::SumOfMagnitudes, ..self }
            }
            _ => self,
        }
    }

    /// Returns the variant that skips NaN, or the operation itself if there is none for this type.
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
    fn operation_names_round_trip() {
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
    fn results_fit_into_output_bytes() {
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
    fn number_of_operations_of_each_dtype() {
        let of = |dtype| Op::pairs().filter(move |pair| pair.1 == dtype).count();
        // 14 kinds for all types, 3 for integers; integers of 64 bits have an L1 norm and a wide sum.
        assert_eq!([Dtype::I32, Dtype::U64].map(of), [17, 17 + 2]);
        // 3 kinds for floats. Of all kinds, 13 can skip NaN, 5 can be reproducible, and 5 can be both.
        // All floats but `f64` have a wide sum.
        assert_eq!([Dtype::F64, Dtype::F16].map(of), [17 + 13 + 5 + 5, 17 + 13 + 5 + 5 + 1]);
    }

    #[test]
    fn ops_with_unsupported_modifiers_take_no_dtype() {
        let skip = |kind: OpKind| Op { nan: Nan::Skip, ..kind.plain() };
        let reproducible = |op: Op| Op { order: Order::Reproducible, ..op };
        let lacking = [
            skip(OpKind::Mean),
            reproducible(OpKind::Min.plain()),
            reproducible(skip(OpKind::Product)),
            Op { wide: true, ..skip(OpKind::Sum) },
            Op { wide: true, ..OpKind::SumOfSquares.plain() },
            Op { form: Form::INDEX, ..OpKind::Sum.plain() },
            Op { form: Form::FLOAT, ..OpKind::ArgMax.plain() },
        ];
        for op in lacking {
            assert!(Dtype::ALL.iter().all(|&dtype| !op.takes(dtype)), "{op:?}");
        }
    }

    #[test]
    fn tuning_proxy_of_an_op_is_its_own_proxy() {
        assert!(Op::all().all(|op| op.tuning_proxy().tuning_proxy() == op.tuning_proxy()));
        assert_eq!(OpKind::Max.plain().tuning_proxy(), OpKind::Max.plain());
    }
}
