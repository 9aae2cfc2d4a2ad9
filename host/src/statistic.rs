//! Statistics that the host derives from reductions: the mean from a sum, the norm from a sum of
//! squares.
//!
//! Integers wrap around in the kernels, which is allowed for a sum but not for a mean. Before a mean or
//! norm of integers is computed, the minimum and the maximum must therefore prove that the sum cannot
//! exceed the type. Floats follow their type's arithmetic: a square that overflows gives an infinite
//! norm.

use crate::{
    Buffer, Device, Dtype, Error, Op, PtxStore, Reduction, Request, Result, Statistic, Value,
    reduction::Outcome,
};

impl Statistic {
    /// Computes the statistic of `n` elements from the value of its operation ([`Statistic::op`]). The
    /// mean and the norm of integers are doubles.
    pub fn finish(self, value: Value, n: u64) -> Value {
        if Self::from(self.op()) == self {
            return value;
        }
        let made = self.of(value.to_f64(), n);
        match value {
            Value::F32(_) => Value::F32(made as f32),
            Value::F16(_) => Value::F16(half::f16::from_f64(made)),
            Value::Bf16(_) => Value::Bf16(half::bf16::from_f64(made)),
            _ => Value::F64(made),
        }
    }

    pub(crate) fn of(self, value: f64, n: u64) -> f64 {
        match self {
            Self::Of(_) => value,
            Self::Mean => value / n as f64,
            Self::Norm => value.sqrt(),
        }
    }

    /// Returns whether wrap-around of a sum would make this statistic of elements like `value` wrong.
    fn may_wrap(self, value: Value) -> bool {
        matches!(self, Self::Mean | Self::Norm) && !value.dtype().is_float()
    }

    /// Checks that the statistic is defined: that in the type `sum`, the sum of `n` integers between two
    /// bounds, or of their squares, cannot wrap around. Otherwise returns [`Error::MayWrap`].
    pub fn require(self, n: u64, [smallest, largest]: [Value; 2], sum: Dtype) -> Result<()> {
        if !self.may_wrap(smallest) {
            return Ok(());
        }
        let magnitude = smallest.magnitude().max(largest.magnitude());
        let each = match self {
            Self::Norm => u128::from(magnitude) * u128::from(magnitude),
            _ => magnitude.into(),
        };
        let most = each.saturating_mul(n.into());
        if most > Value::identity(Op::Min, sum).magnitude().into() {
            let dtype = smallest.dtype();
            return Err(Error::MayWrap { statistic: self, n, dtype, largest: magnitude });
        }
        Ok(())
    }
}

/// A statistic prepared for one device, element type and number of elements.
pub struct Summary {
    statistic: Statistic,
    reduction: Reduction,
    /// The minimum and the maximum, for statistics that require them.
    extremes: Option<[Reduction; 2]>,
}

impl Summary {
    /// Prepares the reductions that the statistic needs. The request's own operation is ignored.
    pub fn new(
        device: &Device,
        store: &PtxStore,
        request: &Request,
        statistic: Statistic,
    ) -> Result<Self> {
        if statistic == Statistic::Mean && request.n == 0 {
            return Err(Error::NoValue { statistic });
        }
        let of = |op| Reduction::new(device, store, &Request { op, ..*request });
        let identity = Value::identity(Op::Sum, request.dtype);
        let extremes = statistic.may_wrap(identity) && request.n > 0;
        let extremes = extremes.then(|| Ok::<_, Error>([of(Op::Min)?, of(Op::Max)?])).transpose()?;
        Ok(Self { statistic, reduction: of(statistic.op())?, extremes })
    }

    /// Returns the reduction of the statistic's operation, which takes most of the time.
    pub fn reduction(&self) -> &Reduction {
        &self.reduction
    }

    pub fn run(&self, input: &Buffer) -> Result<Outcome> {
        if let Some([smallest, largest]) = &self.extremes {
            let of = |reduction: &Reduction| reduction.run(input, &mut reduction.workspace()?);
            let extremes = [of(smallest)?.value, of(largest)?.value];
            self.statistic.require(input.len(), extremes, input.dtype())?;
        }
        let outcome = self.reduction.run(input, &mut self.reduction.workspace()?)?;
        Ok(Outcome { value: self.statistic.finish(outcome.value, input.len()), ..outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_norms_are_of_the_elements_type_or_double() {
        assert_eq!(Statistic::Mean.finish(Value::F32(9.0), 4), Value::F32(2.25));
        assert_eq!(Statistic::Mean.finish(Value::I32(-9), 4), Value::F64(-2.25));
        assert_eq!(Statistic::Norm.finish(Value::U64(25), 2), Value::F64(5.0));
        assert_eq!(Statistic::Of(Op::Sum).finish(Value::U64(25), 2), Value::U64(25));
        // Sums of narrow types have a wider type.
        assert_eq!(Statistic::Mean.finish(Value::I64(-5), 2), Value::F64(-2.5));
        assert_eq!(Statistic::Mean.finish(Value::F32(5.0), 2), Value::F32(2.5));
        assert_eq!(Statistic::Of(Op::ArgMin).finish(Value::U64(25), 2), Value::U64(25));
    }

    #[test]
    fn a_mean_that_may_have_wrapped_around_is_refused() {
        let mean = |n, a, b| Statistic::Mean.require(n, [a, b].map(Value::I32), Dtype::I32);
        assert!(mean(10_000_000, 0, 9).is_ok());
        assert!(mean(2, 0, i32::MAX).is_err());
        assert!(mean(1, i32::MIN, 0).is_err());
        let wide = |n| Statistic::Mean.require(n, [i32::MIN, 0].map(Value::I32), Dtype::I64);
        assert!(wide((1 << 32) - 1).is_ok() && wide(1 << 32).is_err());
        let norm = |n, a| Statistic::Norm.require(n, [Value::U64(a); 2], Dtype::U64);
        assert!(norm(1, u32::MAX.into()).is_ok());
        assert!(norm(u64::MAX, u64::MAX).is_err());
        let narrow = |n| Statistic::Mean.require(n, [-128, 127].map(Value::I8), Dtype::I64);
        assert!(narrow(1 << 40).is_ok() && narrow(u64::MAX).is_err());
        for others in [Statistic::Of(Op::ArgMax), Statistic::Of(Op::Sum)] {
            assert!(others.require(2, [Value::I32(i32::MAX); 2], Dtype::I32).is_ok());
        }
        assert!(Statistic::Norm.require(9, [Value::F32(1e30); 2], Dtype::F32).is_ok());
    }
}
