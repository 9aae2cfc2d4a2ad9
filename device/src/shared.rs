//! Typed arrays in the block's shared memory.

use core::{arch::asm, marker::PhantomData, ops::Deref};

use crate::{Value, gpu::ptx};

/// A 4- or 8-byte plain value: what shared memory, shuffles and vector loads move as bits.
///
/// # Safety
/// `Bits` must have the size of `Self`, and both must accept every bit pattern.
pub unsafe trait Word: Value {
    /// The unsigned integer of the same size.
    type Bits: ptx::SharedBits;
    /// Gives the bits of the value.
    fn to_bits(self) -> Self::Bits;
    /// The value that has these bits.
    fn from_bits(bits: Self::Bits) -> Self;
}

macro_rules! words {
    ($($ty:ty as $bits:ty: $to:expr, $from:expr;)*) => {$(
        // SAFETY: same size, and integers and floats accept every bit pattern.
        unsafe impl Word for $ty {
            type Bits = $bits;
            #[inline(always)]
            fn to_bits(self) -> $bits {
                $to(self)
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $from(bits)
            }
        }
    )*};
}

words! {
    u32 as u32: core::convert::identity, core::convert::identity;
    i32 as u32: i32::cast_unsigned, u32::cast_signed;
    f32 as u32: f32::to_bits, f32::from_bits;
    u64 as u64: core::convert::identity, core::convert::identity;
    i64 as u64: i64::cast_unsigned, u64::cast_signed;
    f64 as u64: f64::to_bits, f64::from_bits;
}

/// An array in shared memory, known by its offset in the block's shared window.
///
/// Not a pointer: both code generators turn a pointer to shared memory into a generic one, which the
/// hardware must resolve at each access. Reads and writes here are `ld.shared` and `st.shared`.
#[derive(Clone, Copy)]
pub struct Shared<T> {
    address: u32,
    elements: PhantomData<*mut T>,
}

impl<T: Word> Shared<T> {
    /// The array that starts at this offset of the shared window.
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_address(address: u32) -> Self {
        Self { address, elements: PhantomData }
    }

    /// The same bytes as elements of another type.
    #[inline(always)]
    pub fn cast<U: Word>(self) -> Shared<U> {
        Shared::from_address(self.address)
    }

    /// Its offset in the shared window.
    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.address
    }

    /// The part from element `index` on.
    #[inline(always)]
    pub fn at(self, index: u32) -> Self {
        Self::from_address(self.address.wrapping_add(index.wrapping_mul(size_of::<T>() as u32)))
    }

    /// Element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array, the element written before, and a barrier must lie between
    /// this read and another thread's write.
    #[inline(always)]
    pub unsafe fn get(self, index: u32) -> T {
        // SAFETY: the caller's contract.
        T::from_bits(unsafe { ptx::SharedBits::load(self.at(index).address) })
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array, and a barrier must lie between this write and another
    /// thread's access.
    #[inline(always)]
    pub unsafe fn set(self, index: u32, value: T) {
        // SAFETY: the caller's contract.
        unsafe { ptx::SharedBits::store(value.to_bits(), self.at(index).address) }
    }
}

/// Values of any kind, as words.
impl Shared<u32> {
    /// Value `index` of an array of such values.
    ///
    /// # Safety
    /// As [`get`](Self::get), of all its words.
    #[inline(always)]
    pub unsafe fn get_value<T: Value>(self, index: u32) -> T {
        let mut at = index.wrapping_mul(T::WORDS);
        T::take(&mut || {
            // SAFETY: the caller's contract.
            let word = unsafe { self.get(at) };
            at += 1;
            word
        })
    }

    /// Writes value `index` of an array of such values.
    ///
    /// # Safety
    /// As [`set`](Self::set), of all its words.
    #[inline(always)]
    pub unsafe fn set_value<T: Value>(self, index: u32, value: T) {
        let mut at = index.wrapping_mul(T::WORDS);
        value.give(&mut |word| {
            // SAFETY: the caller's contract.
            unsafe { self.set(at, word) };
            at += 1;
        });
    }
}

/// Access to parts of words.
impl Shared<u32> {
    /// The part that begins `bytes` bytes later, a multiple of 4.
    #[inline(always)]
    pub(crate) fn behind(self, bytes: u32) -> Self {
        Self::from_address(self.address.wrapping_add(bytes))
    }

    /// The `index`th half of a word, the lower one first.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    #[inline(always)]
    pub unsafe fn get_half(self, index: u32) -> u32 {
        let value;
        // SAFETY: the caller's contract; a register takes what is narrower, and fills up with zeros.
        unsafe {
            asm!(
                "ld.shared.u16 {0}, [{1}];",
                out(reg32) value, in(reg32) self.half(index),
                options(readonly, nostack, preserves_flags),
            );
        }
        value
    }

    /// Writes the `index`th half of a word, of which the other half stays.
    ///
    /// # Safety
    /// As [`set`](Self::set).
    #[inline(always)]
    pub unsafe fn set_half(self, index: u32, value: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "st.shared.u16 [{0}], {1};",
                in(reg32) self.half(index), in(reg32) value,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline(always)]
    fn half(self, index: u32) -> u32 {
        self.address.wrapping_add(index.wrapping_mul(2))
    }

    /// Sets bits of word `index`, whatever other threads set there at once.
    ///
    /// # Safety
    /// The word must be inside the array, and other threads access it likewise, or behind a barrier.
    #[inline(always)]
    pub unsafe fn set_bits(self, index: u32, bits: u32) {
        // SAFETY: the caller's contract.
        unsafe {
            asm!(
                "red.relaxed.cta.shared.or.b32 [{0}], {1};",
                in(reg32) self.at(index).address, in(reg32) bits,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// A static shared array of `LEN` elements, declared by [`shared_array!`](crate::shared_array).
#[derive(Clone, Copy)]
pub struct SharedArray<T, const LEN: usize>(Shared<T>);

impl<T: Word, const LEN: usize> SharedArray<T, LEN> {
    /// The array that starts at this offset of the shared window.
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_address(address: u32) -> Self {
        Self(Shared::from_address(address))
    }
}

impl<T, const LEN: usize> Deref for SharedArray<T, LEN> {
    type Target = Shared<T>;

    #[inline(always)]
    fn deref(&self) -> &Shared<T> {
        &self.0
    }
}

/// Declares a static shared array of the block and gives a function that returns it, as a
/// [`SharedArray`](crate::SharedArray). Every such array starts at a multiple of 16 bytes.
///
/// ```ignore
/// shared_array! { fn flag: single_pass_last_block_flag = [u32; 1] }
/// let is_last = flag();
/// ```
/// The second name is the PTX symbol: unique in the crate of kernels, so prefixed with the kernel's
/// name.
#[macro_export]
macro_rules! shared_array {
    ($(#[$attr:meta])* $vis:vis fn $function:ident: $symbol:ident = [$ty:ty; $len:expr]) => {
        $crate::shared_static!($symbol, (($len) as usize) * size_of::<$ty>());

        $(#[$attr])*
        #[inline(always)]
        $vis fn $function() -> $crate::SharedArray<$ty, { ($len) as usize }> {
            $crate::SharedArray::from_address($crate::shared_address!($symbol))
        }
    };
}

/// Declares the block's dynamic shared memory and gives a function that returns it as elements of any
/// type, as many as the launch asked bytes for. It starts at a multiple of 16 bytes. Once in a crate of
/// kernels.
///
/// ```ignore
/// dynamic_shared! { pub fn dynamic_shared: my_dynamic_shared }
/// let values = dynamic_shared::<f32>();
/// ```
#[macro_export]
macro_rules! dynamic_shared {
    ($(#[$attr:meta])* $vis:vis fn $function:ident: $symbol:ident) => {
        $crate::dynamic_shared_static!($symbol);

        $(#[$attr])*
        #[inline(always)]
        $vis fn $function<T: $crate::Word>() -> $crate::Shared<T> {
            $crate::Shared::from_address($crate::shared_address!($symbol))
        }
    };
}
