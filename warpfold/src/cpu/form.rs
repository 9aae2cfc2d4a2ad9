//! The [forms](form) in which results are written, as the kernels write them.

use bytemuck::{Pod, bytes_of};
use warpfold_abi::form;

use super::{
    fold::{self, Words, words},
    words_of,
};
use crate::names::{Dtype, Nan, Op, OpKind};

/// Returns the words of the operation's form, from those of its own result of a nonempty slice. The two
/// values of a pair follow each other.
pub(super) fn formed(op: Op, dtype: Dtype, output: Words, values: &[u8]) -> Words {
    let n = (values.len() / dtype.size()) as u64;
    let counted = || match op.nan {
        Nan::Propagate => n,
        Nan::Skip => n - words_of(OpKind::CountNan.plain(), dtype, values)[0],
    };
    let [mean, variance] = [output[0], output[1]].map(f64::from_bits);
    match op.form.code {
        form::FLOAT | form::MEAN => floats(dtype, [mean]),
        form::INDEX => words(output[0]),
        form::ANY => words(u8::from(output[0] != 0)),
        form::ALL => words(u8::from(output[0] == n)),
        form::MAGNITUDE if counted() == 0 => floats(dtype, [0.0]),
        form::MAGNITUDE => floats(dtype, [of_type!(dtype, magnitude, magnitude, (), bytes_of(&output))]),
        form::VARIANCE => floats(dtype, [with_ddof(variance, op.form.ddof, counted)]),
        form::DEVIATION => floats(dtype, [with_ddof(variance, op.form.ddof, counted).sqrt()]),
        form::VARIANCE_AND_MEAN => floats(dtype, [with_ddof(variance, op.form.ddof, counted), mean]),
        _ => output,
    }
}

/// Returns numbers in the [float type](form) of the elements.
fn floats<const N: usize>(dtype: Dtype, numbers: [f64; N]) -> Words
where
    [f32; N]: Pod,
    [f64; N]: Pod,
{
    match dtype.sum() {
        Dtype::F32 => words(numbers.map(|number| number as f32)),
        _ => words(numbers),
    }
}

/// Returns the variance with other delta degrees of freedom, whose bits are `ddof`.
fn with_ddof(variance: f64, ddof: u64, counted: impl FnOnce() -> u64) -> f64 {
    if ddof == 0 {
        return variance;
    }
    let counted = counted() as f64;
    let free = counted - f64::from_bits(ddof);
    // Infinite if no degree of freedom is left: a variance of 0 then becomes NaN.
    variance * (counted / if free > 0.0 { free } else { 0.0 })
}
