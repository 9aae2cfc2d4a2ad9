//! Helpers that all tests share: the device under test, elements of every type, and a plain reference.
//!
//! The simulator is the default; `WARPFOLD_TEST_DEVICE=cuda` selects the GPU.

use std::{
    collections::HashMap,
    env,
    fmt::Debug,
    sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError},
};

use warpfold::{
    Buffer, Device, Element, Located, Reducer, bf16, f16,
    internal::{Arch, Choice, Ptx, PtxSource, Tuning, ptx, reducer as reducer_with},
    op,
};

pub(crate) fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let name = env::var("WARPFOLD_TEST_DEVICE").unwrap_or_else(|_| "sim".to_owned());
        let selection = name.parse().unwrap_or_else(|error| panic!("{error}"));
        Device::open(selection).unwrap_or_else(|error| panic!("{error}"))
    })
}

pub(crate) fn driver() -> &'static warpfold_driver::Driver {
    #[cfg(feature = "simulator")]
    if !on_gpu() {
        return warpfold_sim_driver::driver();
    }
    warpfold_driver::Driver::load().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns whether the tests run on a GPU, without the simulator's injected faults and findings.
pub(crate) fn on_gpu() -> bool {
    !device().info().simulated
}

/// Returns a guard that panics on drop if memory on the shared device was freed while pending work used
/// it. A GPU cannot detect that.
pub(crate) fn no_findings() -> impl Drop {
    #[cfg(feature = "simulator")]
    return warpfold_sim_driver::NoFindings::in_context(device().as_raw_context().cast());
    #[cfg(not(feature = "simulator"))]
    return Vec::<()>::new().into_iter();
}

/// Makes the simulator run this thread's work as late as the interface allows, until the guard is
/// dropped. Has no effect on a GPU.
pub(crate) fn late() -> impl Drop {
    #[cfg(feature = "simulator")]
    return warpfold_sim_driver::run_late();
    #[cfg(not(feature = "simulator"))]
    return Vec::<()>::new().into_iter();
}

/// Returns the PTX source of [`Reducer::new`] with a cache, for tests that create many reducers and
/// would spend most of their time in looking up PTX.
pub(crate) fn kept_ptx() -> PtxSource {
    static KEPT: LazyLock<Mutex<HashMap<(String, Arch), Ptx>>> = LazyLock::new(Mutex::default);
    let source = PtxSource::from_environment();
    PtxSource::Given(Arc::new(move |name, arch| {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ptx) = kept.get(&(name.to_owned(), arch)) {
            return Ok(ptx.clone());
        }
        let found = ptx(&source, name, arch)?;
        // Leaked, so that clones borrow the text.
        let text: &'static str = found.text.into_owned().leak();
        let found = Ptx { text: text.into(), ..found };
        kept.insert((name.to_owned(), arch), found.clone());
        Ok(found)
    }))
}

pub(crate) fn reducer() -> &'static Reducer {
    static REDUCER: OnceLock<Reducer> = OnceLock::new();
    REDUCER.get_or_init(|| Reducer::new(device()).unwrap())
}

pub(crate) fn reducer_of(choice: Choice) -> Reducer {
    reducer_with(device(), PtxSource::from_environment(), Tuning::fixed(choice).unwrap(), 2)
}

pub(crate) trait Sample: Element<Sum: PartialEq> {
    /// Converts a small integer, or its magnitude if the type is unsigned.
    fn of(value: i64) -> Self;

    /// Returns the sum of the elements or of their squares; exact for small integers in any order.
    fn total(values: &[Self], squares: bool) -> Self::Sum;

    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Sample for $ty {
            fn of(value: i64) -> Self {
                if Self::MIN == 0 { value.unsigned_abs() as Self } else { value as Self }
            }

            fn total(values: &[Self], squares: bool) -> Self::Sum {
                let terms = values.iter().map(|&value| {
                    let value = value as Self::Sum;
                    if squares { value.wrapping_mul(value) } else { value }
                });
                terms.fold(0, Self::Sum::wrapping_add)
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty: $of:expr, $to_f64:expr;)*) => {$(
        impl Sample for $ty {
            fn of(value: i64) -> Self {
                $of(value as f32)
            }

            fn total(values: &[Self], squares: bool) -> Self::Sum {
                let terms = values.iter().map(|&value| {
                    let value: f64 = $to_f64(value);
                    if squares { value * value } else { value }
                });
                terms.sum::<f64>() as Self::Sum
            }

            fn is_nan(self) -> bool {
                $to_f64(self).is_nan()
            }
        }
    )*};
}

integers! { i8 u8 i16 u16 i32 u32 i64 u64 }

floats! {
    f16: f16::from_f32, f16::to_f64;
    bf16: bf16::from_f32, bf16::to_f64;
    f32: f32::from, f64::from;
    f64: f64::from, f64::from;
}

macro_rules! for_every_integer {
    ($function:ident($($argument:expr),*)) => {
        $function::<i8>($($argument),*);
        $function::<u8>($($argument),*);
        $function::<i16>($($argument),*);
        $function::<u16>($($argument),*);
        $function::<i32>($($argument),*);
        $function::<u32>($($argument),*);
        $function::<i64>($($argument),*);
        $function::<u64>($($argument),*);
    };
}

macro_rules! for_every_type {
    ($function:ident($($argument:expr),*)) => {
        for_every_integer!($function($($argument),*));
        $function::<warpfold::f16>($($argument),*);
        $function::<warpfold::bf16>($($argument),*);
        $function::<f32>($($argument),*);
        $function::<f64>($($argument),*);
    };
}

/// Largest magnitude of the elements of [`small`]. The sum of 300 001 of their squares fits the
/// significand of an `f32`.
pub(crate) const LARGEST: i64 = 7;

/// Returns elements between -7 and 7, without 0, in a pattern that does not repeat.
pub(crate) fn small<T: Sample>(n: usize, seed: u64) -> Vec<T> {
    let value = |index: u64| {
        let bits = splitmix(seed.wrapping_mul(0x1_0000_0001).wrapping_add(index));
        let value = (bits >> 32) as i64 % (2 * LARGEST) - LARGEST;
        if value < 0 { value } else { value + 1 }
    };
    (0..n as u64).map(|index| T::of(value(index))).collect()
}

pub(crate) fn splitmix(state: u64) -> u64 {
    let mut bits = state.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns the first of the smallest (or largest) elements, or the first NaN.
pub(crate) fn extreme<T: Sample>(values: &[T], largest: bool) -> Option<Located<T>> {
    let mut found: Option<Located<T>> = None;
    for (index, &value) in (0..).zip(values) {
        let better = match found {
            None => true,
            Some(best) if best.value.is_nan() => false,
            Some(_) if value.is_nan() => true,
            Some(best) if largest => value > best.value,
            Some(best) => value < best.value,
        };
        if better {
            found = Some(Located { value, index });
        }
    }
    found
}

#[track_caller]
pub(crate) fn check<T: Sample>(reducer: &Reducer, values: &[T], buffer: &Buffer<T>, what: &str) {
    check_extremes(reducer, values, buffer, what);
    let what = format!("{} of {what}", values.len());
    assert_eq!(reducer.sum(buffer).unwrap(), T::total(values, false), "sum of {what}");
    assert_eq!(
        reducer.reduce(op::SumOfSquares, buffer).unwrap(),
        T::total(values, true),
        "squares of {what}"
    );
}

#[track_caller]
pub(crate) fn check_extremes<T: Sample>(
    reducer: &Reducer,
    values: &[T],
    buffer: &Buffer<T>,
    what: &str,
) {
    let what = format!("{} of {what}", values.len());
    for (largest, found, located) in [
        (false, reducer.min(buffer).unwrap(), reducer.reduce(op::ArgMin, buffer).unwrap()),
        (true, reducer.max(buffer).unwrap(), reducer.reduce(op::ArgMax, buffer).unwrap()),
    ] {
        let expected = extreme(values, largest);
        same(found, expected.map(|one| one.value), &what);
        same(located.map(|one| one.value), expected.map(|one| one.value), &what);
        assert_eq!(located.map(|one| one.index), expected.map(|one| one.index), "{what}: {largest}");
    }
}

#[track_caller]
fn same<T: Sample>(found: Option<T>, expected: Option<T>, what: &str) {
    let nan = |value: Option<T>| value.is_some_and(T::is_nan);
    assert!(found == expected || nan(found) && nan(expected), "{what}: {found:?}, not {expected:?}");
}

#[track_caller]
pub(crate) fn says(text: &(impl ToString + Debug), words: &[&str]) {
    let text = text.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}
