//! Typed arrays in the block's shared memory.

use core::{arch::asm, marker::PhantomData, ops::Deref};

use crate::{Value, gpu::ptx};

/// Plain values of 4 or 8 bytes, which shared memory, shuffles and vector loads move as bits.
///
/// # Safety
/// `Bits` must have the size of `Self`, and both must accept every bit pattern.
pub unsafe trait Word: Value {
    /// Unsigned integer of the same size.
    type Bits: ptx::SharedBits;
    /// Returns the bits of the value.
    fn to_bits(self) -> Self::Bits;
    /// Returns the value with these bits.
    fn from_bits(bits: Self::Bits) -> Self;
}

macro_rules! words {
    ($($ty:ty as $bits:ty: $to:expr, $from:expr;)*) => {$(
        // SAFETY: the sizes are equal, and integers and floats accept every bit pattern.
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

/// An array in shared memory, stored as its offset in the block's shared window.
///
/// Not a pointer, because both code generators make a shared pointer generic, which the hardware must
/// resolve at each access. Accesses here are `ld.shared` and `st.shared`.
#[derive(Clone, Copy)]
pub struct Shared<T> {
    address: u32,
    elements: PhantomData<*mut T>,
}

impl<T: Word> Shared<T> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn from_address(address: u32) -> Self {
        Self { address, elements: PhantomData }
    }

    /// Reinterprets the bytes as elements of another type.
    #[inline(always)]
    pub fn cast<U: Word>(self) -> Shared<U> {
        Shared::from_address(self.address)
    }

    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.address
    }

    /// Returns the part from element `index` on.
    #[inline(always)]
    pub fn at(self, index: u32) -> Self {
        Self::from_address(self.address.wrapping_add(index.wrapping_mul(size_of::<T>() as u32)))
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array and the element written before; a barrier must separate this
    /// read from another thread's write.
    #[inline(always)]
    pub unsafe fn get(self, index: u32) -> T {
        // SAFETY: the element exists and has been written, as the caller guarantees.
        T::from_bits(unsafe { ptx::SharedBits::load(self.at(index).address) })
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` must be inside the array; a barrier must separate this write from another thread's
    /// access.
    #[inline(always)]
    pub unsafe fn set(self, index: u32, value: T) {
        // SAFETY: the element exists, and no other thread accesses it, as the caller guarantees.
        unsafe { ptx::SharedBits::store(value.to_bits(), self.at(index).address) }
    }
}

/// Access to multi-word values.
impl Shared<u32> {
    /// Reads value `index` of an array of multi-word values.
    ///
    /// # Safety
    /// Same as [`get`](Self::get), for all words of the value.
    #[inline(always)]
    pub unsafe fn get_value<T: Value>(self, index: u32) -> T {
        let mut at = index.wrapping_mul(T::given_words());
        T::take(&mut || {
            // SAFETY: all words of the value exist and have been written, as the caller guarantees.
            let word = unsafe { self.get(at) };
            at += 1;
            word
        })
    }

    /// Writes value `index` of an array of multi-word values.
    ///
    /// # Safety
    /// Same as [`set`](Self::set), for all words of the value.
    #[inline(always)]
    pub unsafe fn set_value<T: Value>(self, index: u32, value: T) {
        let mut at = index.wrapping_mul(T::given_words());
        value.give(&mut |word| {
            // SAFETY: all words of the value are inside the array, as the caller guarantees.
            unsafe { self.set(at, word) };
            at += 1;
        });
    }
}

/// Access to parts of words and at byte offsets.
impl Shared<u32> {
    /// Returns the part from byte offset `bytes` on, a multiple of 4.
    #[inline(always)]
    pub(crate) fn behind(self, bytes: u32) -> Self {
        Self::from_address(self.address.wrapping_add(bytes))
    }

    /// Reads 16-bit half `index`; the lower half of a word is first.
    ///
    /// # Safety
    /// Same as [`get`](Self::get).
    #[inline(always)]
    pub unsafe fn get_half(self, index: u32) -> u32 {
        let value;
        // SAFETY: the half exists, as the caller guarantees. The load zero-extends it to the register.
        unsafe {
            asm!(
                "ld.shared.u16 {0}, [{1}];",
                out(reg32) value, in(reg32) self.half(index),
                options(readonly, nostack, preserves_flags),
            );
        }
        value
    }

    /// Writes 16-bit half `index` and leaves the word's other half unchanged.
    ///
    /// # Safety
    /// Same as [`set`](Self::set).
    #[inline(always)]
    pub unsafe fn set_half(self, index: u32, value: u32) {
        // SAFETY: the half is inside the array, as the caller guarantees.
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

    /// Adds to word `index` atomically.
    ///
    /// # Safety
    /// The word must be inside the array. A barrier must separate this call from other threads'
    /// accesses, except their calls of this method.
    #[inline(always)]
    pub unsafe fn add(self, index: u32, value: u32) {
        // SAFETY: the word is inside the array, as the caller guarantees.
        unsafe {
            asm!(
                "red.relaxed.cta.shared.add.u32 [{0}], {1};",
                in(reg32) self.at(index).address, in(reg32) value,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Adds to word `index` atomically, and returns its previous value.
    ///
    /// # Safety
    /// The word must be inside the array. A barrier must separate this call from other threads'
    /// accesses, except their calls of this method.
    #[inline(always)]
    pub unsafe fn fetch_add(self, index: u32, value: u32) -> u32 {
        let before;
        // SAFETY: the word is inside the array, as the caller guarantees.
        unsafe {
            asm!(
                "atom.relaxed.cta.shared.add.u32 {0}, [{1}], {2};",
                out(reg32) before, in(reg32) self.at(index).address, in(reg32) value,
                options(nostack, preserves_flags),
            );
        }
        before
    }

    /// Sets bits of word `index` atomically.
    ///
    /// # Safety
    /// The word must be inside the array. A barrier must separate this call from other threads'
    /// accesses, except their calls of this method.
    #[inline(always)]
    pub unsafe fn set_bits(self, index: u32, bits: u32) {
        // SAFETY: the word is inside the array, as the caller guarantees.
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

/// Declares a static shared array of the block, 16-byte aligned, and a function that returns it as a
/// [`SharedArray`](crate::SharedArray).
///
/// ```ignore
/// shared_array! { fn flag: single_pass_last_block_flag = [u32; 1] }
/// let is_last = flag();
/// ```
/// The second name is the PTX symbol, unique in the crate: prefix it with the kernel's name.
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

/// Declares the block's dynamic shared memory, 16-byte aligned, and a function that returns it as
/// elements of any type; the launch sets its size in bytes. Use it once per crate of kernels.
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
