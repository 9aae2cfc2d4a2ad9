//! Plain values that threads exchange.

/// Plain data that threads exchange as 32-bit words, through shuffles, shared memory or global memory.
///
/// Numbers, `bool`, tuples and arrays of values are values; [`value!`](crate::value) declares a struct
/// that is one. Words are passed one by one and not as an array, which would be placed in local memory.
pub trait Value: Copy + 'static {
    /// Number of words.
    const WORDS: u32;
    /// Returns the number of words that [`give`](Self::give) passes: [`WORDS`](Self::WORDS), unless the
    /// host left out parts of a fused kernel.
    #[doc(hidden)]
    #[inline(always)]
    fn given_words() -> u32 {
        Self::WORDS
    }
    /// Passes the words to `to`, in order.
    fn give(self, to: &mut impl FnMut(u32));
    /// Builds the value from words, in order.
    fn take(from: &mut impl FnMut() -> u32) -> Self;
    /// Returns the value with `through`, such as a shuffle, applied to each word.
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self;
}

/// # Safety
/// The value's words are readable.
#[inline(always)]
pub(crate) unsafe fn load<P: Value>(words: *const u32) -> P {
    let mut at = 0;
    P::take(&mut || {
        // SAFETY: all words of the value are readable, as the caller guarantees.
        let word = unsafe { *words.add(at) };
        at += 1;
        word
    })
}

/// Stores a value, and returns whether it differs from the old one. If `is_first`, there is no old
/// value, and the result is `true`.
///
/// # Safety
/// There is room for the value's words; unless `is_first`, they hold an old value.
#[inline(always)]
pub(crate) unsafe fn replace<P: Value>(value: P, words: *mut u32, is_first: bool) -> bool {
    let (mut at, mut changed) = (0, is_first);
    value.give(&mut |word| {
        // SAFETY: there is room for all words, and if `is_first` is false, they are readable.
        unsafe {
            changed = changed || *words.add(at) != word;
            *words.add(at) = word;
        }
        at += 1;
    });
    changed
}

macro_rules! words {
    ($($ty:ty: $to:expr, $from:expr;)*) => {$(
        impl Value for $ty {
            const WORDS: u32 = 1;
            #[inline(always)]
            fn give(self, to: &mut impl FnMut(u32)) {
                to($to(self));
            }
            #[inline(always)]
            fn take(from: &mut impl FnMut() -> u32) -> Self {
                $from(from())
            }
            #[inline(always)]
            fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
                $from(through($to(self)))
            }
        }
    )*};
}

words! {
    u32: core::convert::identity, core::convert::identity;
    i32: i32::cast_unsigned, u32::cast_signed;
    f32: f32::to_bits, f32::from_bits;
    u16: u32::from, |word| word as u16;
    i16: |value: i16| u32::from(value.cast_unsigned()), |word| word as i16;
    u8: u32::from, |word| word as u8;
    i8: |value: i8| u32::from(value.cast_unsigned()), |word| word as i8;
    bool: u32::from, |word| word != 0;
}

macro_rules! double_words {
    ($($ty:ty: $to:expr, $from:expr;)*) => {$(
        impl Value for $ty {
            const WORDS: u32 = 2;
            #[inline(always)]
            fn give(self, to: &mut impl FnMut(u32)) {
                let bits: u64 = $to(self);
                to(bits as u32);
                to((bits >> 32) as u32);
            }
            #[inline(always)]
            fn take(from: &mut impl FnMut() -> u32) -> Self {
                let (low, high) = (from(), from());
                $from(u64::from(high) << 32 | u64::from(low))
            }
            #[inline(always)]
            fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
                let bits: u64 = $to(self);
                let (low, high) = (through(bits as u32), through((bits >> 32) as u32));
                $from(u64::from(high) << 32 | u64::from(low))
            }
        }
    )*};
}

double_words! {
    u64: core::convert::identity, core::convert::identity;
    i64: i64::cast_unsigned, u64::cast_signed;
    f64: f64::to_bits, f64::from_bits;
}

macro_rules! quad_words {
    ($($ty:ty)*) => {$(
        impl Value for $ty {
            const WORDS: u32 = 4;
            #[inline(always)]
            fn give(self, to: &mut impl FnMut(u32)) {
                (self as u64).give(to);
                ((self >> 64) as u64).give(to);
            }
            #[inline(always)]
            fn take(from: &mut impl FnMut() -> u32) -> Self {
                let (low, high) = (u64::take(from), u64::take(from));
                Self::from(low) | (high as Self) << 64
            }
            #[inline(always)]
            fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
                let low = (self as u64).map_words(through);
                let high = ((self >> 64) as u64).map_words(through);
                Self::from(low) | (high as Self) << 64
            }
        }
    )*};
}

quad_words!(i128 u128);

macro_rules! tuples {
    ($(($($name:ident . $at:tt),*);)*) => {$(
        impl<$($name: Value),*> Value for ($($name,)*) {
            const WORDS: u32 = 0 $(+ $name::WORDS)*;
            #[inline(always)]
            fn given_words() -> u32 {
                0 $(+ $name::given_words())*
            }
            #[inline(always)]
            fn give(self, to: &mut impl FnMut(u32)) {
                $(self.$at.give(to);)*
            }
            #[inline(always)]
            fn take(from: &mut impl FnMut() -> u32) -> Self {
                ($($name::take(from),)*)
            }
            #[inline(always)]
            fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
                ($(self.$at.map_words(through),)*)
            }
        }
    )*};
}

impl Value for () {
    const WORDS: u32 = 0;
    #[inline(always)]
    fn give(self, _to: &mut impl FnMut(u32)) {}
    #[inline(always)]
    fn take(_from: &mut impl FnMut() -> u32) -> Self {}
    #[inline(always)]
    fn map_words(self, _through: &mut impl FnMut(u32) -> u32) -> Self {}
}

tuples! {
    (A.0, B.1);
    (A.0, B.1, C.2);
    (A.0, B.1, C.2, D.3);
}

impl<T: Value, const LEN: usize> Value for [T; LEN] {
    const WORDS: u32 = LEN as u32 * T::WORDS;
    #[inline(always)]
    fn given_words() -> u32 {
        LEN as u32 * T::given_words()
    }
    #[inline(always)]
    fn give(self, to: &mut impl FnMut(u32)) {
        for value in self {
            value.give(to);
        }
    }
    #[inline(always)]
    fn take(from: &mut impl FnMut() -> u32) -> Self {
        core::array::from_fn(|_| T::take(from))
    }
    #[inline(always)]
    fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
        self.map(|value| value.map_words(through))
    }
}

/// Declares a struct of values that is itself a [`Value`](crate::Value).
///
/// ```ignore
/// value! {
///     /// A number with imaginary part.
///     pub struct Complex { pub re: f32, pub im: f32 }
/// }
/// ```
#[macro_export]
macro_rules! value {
    ($(#[$attr:meta])* $vis:vis struct $Name:ident $(<$Generic:ident>)? {
        $($(#[$field_attr:meta])* $field_vis:vis $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$attr])*
        #[derive(Clone, Copy)]
        $vis struct $Name $(<$Generic>)? {
            $($(#[$field_attr])* $field_vis $field: $ty,)*
        }

        impl $(<$Generic: $crate::Value>)? $crate::Value for $Name $(<$Generic>)? {
            const WORDS: u32 = 0 $(+ <$ty as $crate::Value>::WORDS)*;
            #[inline(always)]
            fn given_words() -> u32 {
                0 $(+ <$ty as $crate::Value>::given_words())*
            }
            #[inline(always)]
            fn give(self, to: &mut impl FnMut(u32)) {
                $($crate::Value::give(self.$field, to);)*
            }
            #[inline(always)]
            fn take(from: &mut impl FnMut() -> u32) -> Self {
                // Fields are evaluated in the order in which they are written.
                Self { $($field: $crate::Value::take(from)),* }
            }
            #[inline(always)]
            fn map_words(self, through: &mut impl FnMut(u32) -> u32) -> Self {
                Self { $($field: $crate::Value::map_words(self.$field, through)),* }
            }
        }
    };
}
