//! Operations that a program gives as text.

mod compile;
mod functions;
mod token;

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    marker::PhantomData,
    sync::Arc,
};

use super::{Operation, RowsOperation, kind, sealed};
use crate::{
    Element, Error, Result,
    element::{Words, sealed::Outcome as _},
    names::{Dtype, MapOp},
    reducer::Code,
};

#[cfg(test)]
pub(crate) use compile::MARK;

/// Returns an expression of the element `x`, such as `x * x - 2`, whose values can be reduced.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let values = device.upload(&[3.0_f32, -1.0, 0.5, 2.0])?;
/// let sum = reducer.reduce(&op::expr("x * x - 2").sum()?, &values)?;
/// assert_eq!(sum, 6.25);
/// // The elements that meet a condition.
/// let positive = op::expr("sqrt(x)").filter("x > 1");
/// assert_eq!(reducer.reduce(&positive.max()?, &values)?, 3.0_f32.sqrt());
/// // A condition is 1 or 0.
/// let count = op::expr("x < 0 || x == 2").sum()?;
/// assert_eq!(reducer.reduce(&count, &values.rows(2)?)?, [1.0, 1.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # The language
/// Values have the type [`Element::Sum`], to which the element `x` is converted first. Conditions are
/// values of their own; where a number is needed, a condition is 1 or 0. Operators, those that bind most
/// first:
///
/// | operators | |
/// |---|---|
/// | `**` | a power, whose exponent is an integer from 0 to 64; `-x ** 2` is `-(x ** 2)` |
/// | `-` `!` | negation of a number, and of a condition |
/// | `*` `/` `%` | `/` of integers rounds towards zero; `%` of integers has the dividend's sign |
/// | `+` `-` | |
/// | `&` | bitwise, of integers only; and so on |
/// | `^` | |
/// | `\|` | |
/// | `<` `<=` `>` `>=` `==` `!=` | comparisons, with NaN as in Rust |
/// | `&&` | |
/// | `\|\|` | |
/// | `c ? a : b` | `a` if the condition `c` holds, otherwise `b` |
///
/// Functions of all numbers are `abs(x)`, `min(x, y)` and `max(x, y)`, which return the number if the
/// other argument is NaN. Functions of floats are `sqrt(x)`, `exp(x)`, `log(x)` (natural), `floor(x)`,
/// `ceil(x)`, `trunc(x)`, `rint(x)` (to the nearest integer, ties to even), `fma(x, y, z)` and
/// `is_nan(x)`, which is a condition. The constants `inf` and `nan` are floats.
///
/// Each operation on floats, and each product of a power, rounds once; products and sums are not
/// contracted. So the values have the same bits on every device and in the simulator, those of `exp` and
/// `log` as well, which are off by at most one unit in the last place for the 20 000 numbers of a test.
/// Integers wrap around; a quotient or remainder of a division by zero may be any integer.
///
/// A text has at most 4096 bytes and 64 levels of nesting. An expression and its condition have a cost
/// of at most 512 instructions; a division or a root costs 8 for `f32` and 16 for `f64`. An operation on
/// integers costs 2, a product 4, a quotient or a remainder 40.
pub fn expr(text: impl Into<String>) -> Expr {
    Expr { map: text.into(), filter: None }
}

/// An expression of the elements, from [`expr`](fn@expr), before it is known how its values are
/// combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    map: String,
    filter: Option<String>,
}

impl Expr {
    /// Reduces only the elements for which a condition holds. A further call replaces the condition.
    pub fn filter(self, condition: impl Into<String>) -> Self {
        Self { filter: Some(condition.into()), ..self }
    }

    /// Returns the sum of the values, which is 0 for none. It is added in [`Element::Sum`], in the order
    /// of [`Sum`](super::Sum).
    ///
    /// # Errors
    /// [`Error::Expression`] for an expression that is not valid for elements of this type.
    pub fn sum<T: Element>(&self) -> Result<ExprReduction<T>> {
        self.compile(MapOp::Sum)
    }

    /// Returns the smallest value, or NaN if any value is NaN. For no values it is ∞, or the largest
    /// integer.
    ///
    /// # Errors
    /// The errors of [`sum`](Self::sum).
    pub fn min<T: Element>(&self) -> Result<ExprReduction<T>> {
        self.compile(MapOp::Min)
    }

    /// Returns the largest value, or NaN if any value is NaN. For no values it is −∞, or the smallest
    /// integer.
    ///
    /// # Errors
    /// The errors of [`sum`](Self::sum).
    pub fn max<T: Element>(&self) -> Result<ExprReduction<T>> {
        self.compile(MapOp::Max)
    }

    fn compile<T: Element>(&self, op: MapOp) -> Result<ExprReduction<T>> {
        let expression = Expression::new(&self.map, self.filter.as_deref(), op, T::DTYPE)?;
        Ok(ExprReduction { expression: Arc::new(expression), element: PhantomData })
    }
}

/// A reduction of the values of an expression, from [`Expr`]. A reference to it is an [`Operation`]
/// with the result [`Element::Sum`], and replaces a built-in one for every [input](crate::Input) of
/// operations with a single result, on any device.
///
/// A kernel is compiled by the driver at the first use of an expression by a
/// [`Reducer`](crate::Reducer), and is kept as long as the reducer. The instructions of the expression
/// are in the kernel of a built-in reduction, which loads the elements once.
pub struct ExprReduction<T> {
    expression: Arc<Expression>,
    element: PhantomData<fn(T)>,
}

impl<T> Clone for ExprReduction<T> {
    fn clone(&self) -> Self {
        Self { expression: self.expression.clone(), element: PhantomData }
    }
}

impl<T> fmt::Debug for ExprReduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExprReduction").field(&self.expression).finish()
    }
}

impl<T> sealed::Sealed for &ExprReduction<T> {
    type Kind = kind::Single;
}

impl<T: Element> Operation<T> for &ExprReduction<T> {
    type Output = T::Sum;
    type Left = T::Sum;

    fn code(self) -> Code {
        Code::Expression(self.expression.clone())
    }

    fn of_none() -> Option<T::Sum> {
        None
    }

    fn decode(words: Words) -> T::Sum {
        T::Sum::from_words(words)
    }
}

impl<T: Element> RowsOperation<T> for &ExprReduction<T> {}

/// A compiled expression, and how its values are combined.
#[derive(Debug)]
pub struct Expression {
    pub(crate) op: MapOp,
    pub(crate) dtype: Dtype,
    map: compile::Map,
    /// The expression and the condition as they were given.
    text: String,
}

impl Expression {
    pub(crate) fn new(map: &str, filter: Option<&str>, op: MapOp, dtype: Dtype) -> Result<Self, Error> {
        let compiled = compile::compile(map, filter, op, dtype)?;
        let text = filter.map_or(map.to_owned(), |filter| format!("{map} where {filter}"));
        Ok(Self { op, dtype, map: compiled, text })
    }

    /// Returns the PTX of kernels with the instructions of the map at their places, or `None` for PTX
    /// without places.
    pub(crate) fn insert_into(&self, ptx: &str) -> Option<String> {
        self.map.insert_into(ptx)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.op.name().trim_start_matches("map");
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        // Processes compare the beginning of this text.
        write!(f, "{op} of {}, expression {:08x} `{}`", self.dtype, hasher.finish() as u32, self.text)
    }
}

/// Texts with the same instructions are equal.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        (self.op, self.dtype, &self.map) == (other.op, other.dtype, &other.map)
    }
}

impl Eq for Expression {}
