//! The [forms](warpfold_abi::form) in which the built-in operations write their results.

use core::marker::PhantomData;

use warpfold_abi::{arguments::ReduceCut, form};
use warpfold_device::{math::sqrt, op::Number, reduction::count};

use super::item::Item;

/// The [forms](form) in which a type of result can be written.
pub(super) trait Forms<T> {
    type Output: Copy + 'static;
    /// `true` if there is another form than [`OUTPUT`](form::OUTPUT).
    const MANY: bool = true;

    /// Returns the distance between results, in bytes.
    fn bytes(form: u64) -> u64;

    /// Writes a result. `counted` is the number of elements that were not skipped; it matters for
    /// variances and magnitudes only.
    ///
    /// # Safety
    /// Same as [`Reduction::write`](warpfold_device::reduction::Reduction::write).
    unsafe fn write(output: Self::Output, counted: u64, arguments: ReduceCut<T>);
}

/// Implements `output_bytes` and `write` of [`Reduction`](warpfold_device::reduction::Reduction) by
/// [`Forms`], from a result and its number of elements.
macro_rules! written_as {
    ($Forms:ty: |$partial:pat_param, $arguments:ident| $value:expr) => {
        const HAS_FORMS: bool = <$Forms as $crate::reduce::reducer::form::Forms<Self::Element>>::MANY;

        #[inline(always)]
        fn output_bytes(form: u64) -> u64 {
            <$Forms as $crate::reduce::reducer::form::Forms<Self::Element>>::bytes(form)
        }

        #[inline(always)]
        unsafe fn write(
            partial: Self::Partial,
            $arguments: warpfold_abi::arguments::ReduceCut<Self::Element>,
        ) {
            let $partial = partial;
            let (output, counted) = $value;
            // SAFETY: the conditions of `Forms::write` are those of this function.
            unsafe {
                <$Forms as $crate::reduce::reducer::form::Forms<Self::Element>>::write(
                    output, counted, $arguments,
                );
            }
        }
    };
}

pub(super) use written_as;

/// Returns the size of the float type in which results of elements of type `T` are written.
const fn float_bytes<T: Item>() -> u64 {
    // Only sums of floats of up to 32 bits have 4 bytes.
    if size_of::<T::Total>() == size_of::<f32>() { 4 } else { 8 }
}

/// Writes a number as a float of [`float_bytes`] bytes, `index` floats after the start of the output.
///
/// # Safety
/// The output must have room for that float.
#[inline(always)]
unsafe fn write_float<T: Item>(number: f64, output: *mut u64, index: usize) {
    // SAFETY: the caller guarantees that the output has room for the float.
    unsafe {
        if float_bytes::<T>() == 4 {
            *output.cast::<f32>().add(index) = number as f32;
        } else {
            *output.cast::<f64>().add(index) = number;
        }
    }
}

/// A result whose only form is [`OUTPUT`](form::OUTPUT).
pub(super) struct OneForm<O>(PhantomData<O>);

impl<T, O: Copy + 'static> Forms<T> for OneForm<O> {
    type Output = O;
    const MANY: bool = false;

    #[inline(always)]
    fn bytes(_form: u64) -> u64 {
        size_of::<O>() as u64
    }

    #[inline(always)]
    unsafe fn write(output: O, _counted: u64, arguments: ReduceCut<T>) {
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe { *arguments.output.cast() = output };
    }
}

pub(super) struct Double<T>(PhantomData<T>);

impl<T: Item> Forms<T> for Double<T> {
    type Output = f64;

    #[inline(always)]
    fn bytes(form: u64) -> u64 {
        if form == form::FLOAT { float_bytes::<T>() } else { 8 }
    }

    #[inline(always)]
    unsafe fn write(number: f64, _counted: u64, arguments: ReduceCut<T>) {
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe {
            if arguments.form == form::FLOAT {
                write_float::<T>(number, arguments.output, 0);
            } else {
                *arguments.output.cast() = number;
            }
        }
    }
}

pub(super) struct MeanVariance<T>(PhantomData<T>);

impl<T: Item> Forms<T> for MeanVariance<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn bytes(form: u64) -> u64 {
        match form {
            form::OUTPUT => 16,
            _ => float_bytes::<T>(),
        }
    }

    #[inline(always)]
    unsafe fn write([mean, variance]: [f64; 2], counted: u64, arguments: ReduceCut<T>) {
        let ReduceCut { output, results, form, ddof, .. } = arguments;
        let variance = if form == form::OUTPUT || ddof == 0 {
            variance
        } else {
            let free = counted as f64 - f64::from_bits(ddof);
            // Infinite if no degree of freedom is left: a variance of 0 then becomes NaN.
            variance * (counted as f64 / if free > 0.0 { free } else { 0.0 })
        };
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe {
            match form {
                form::OUTPUT => *output.cast() = [mean, variance],
                form::VARIANCE_AND_MEAN => {
                    write_float::<T>(variance, output, 0);
                    write_float::<T>(mean, output, results as usize);
                }
                form::VARIANCE => write_float::<T>(variance, output, 0),
                form::DEVIATION => write_float::<T>(sqrt(variance), output, 0),
                _ => write_float::<T>(mean, output, 0),
            }
        }
    }
}

/// An index and an element.
pub(super) struct Place;

impl<T> Forms<T> for Place {
    type Output = [u64; 2];

    #[inline(always)]
    fn bytes(form: u64) -> u64 {
        if form == form::INDEX { 8 } else { 16 }
    }

    #[inline(always)]
    unsafe fn write(place: [u64; 2], _counted: u64, arguments: ReduceCut<T>) {
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe {
            if arguments.form == form::INDEX {
                *arguments.output = place[0];
            } else {
                *arguments.output.cast() = place;
            }
        }
    }
}

pub(super) struct Count;

impl<T> Forms<T> for Count {
    type Output = u64;

    #[inline(always)]
    fn bytes(form: u64) -> u64 {
        if form == form::OUTPUT { 8 } else { 1 }
    }

    #[inline(always)]
    unsafe fn write(found: u64, _counted: u64, arguments: ReduceCut<T>) {
        let ReduceCut { output, form, .. } = arguments;
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe {
            match form {
                form::OUTPUT => *output = found,
                form::ALL => *output.cast() = u8::from(found == count(arguments)),
                _ => *output.cast() = u8::from(found != 0),
            }
        }
    }
}

/// The smallest and the largest element.
pub(super) struct Ends<T>(PhantomData<T>);

impl<T: Item> Ends<T> {
    #[inline(always)]
    fn magnitude([least, greatest]: [T; 2]) -> f64 {
        least.wide().to_f64().magnitude().greatest(greatest.wide().to_f64().magnitude())
    }
}

impl<T: Item> Forms<T> for Ends<T> {
    type Output = [T; 2];

    #[inline(always)]
    fn bytes(form: u64) -> u64 {
        match form {
            form::OUTPUT => size_of::<[T; 2]>() as u64,
            form::MIN_AND_MAX => size_of::<T>() as u64,
            _ => float_bytes::<T>(),
        }
    }

    #[inline(always)]
    unsafe fn write(ends: [T; 2], counted: u64, arguments: ReduceCut<T>) {
        let ReduceCut { output, results, form, .. } = arguments;
        // SAFETY: the caller guarantees room for a result of this form at the output.
        unsafe {
            match form {
                form::OUTPUT => *output.cast() = ends,
                form::MIN_AND_MAX => {
                    *output.cast::<T>() = ends[0];
                    *output.cast::<T>().add(results as usize) = ends[1];
                }
                _ if counted == 0 => write_float::<T>(0.0, output, 0),
                _ => write_float::<T>(Self::magnitude(ends), output, 0),
            }
        }
    }
}
