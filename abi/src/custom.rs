//! Reductions that a program brings: their limits, what their kernels say of themselves, and what their
//! laws are tried on.

/// Most bytes of an element: a thread has four of them under way, in registers.
pub const MOST_ELEMENT_BYTES: u64 = 64;

/// Most bytes of a result.
pub const MOST_OUTPUT_BYTES: u64 = 64;

/// What the address of a result is a multiple of, at least.
pub const MOST_OUTPUT_ALIGN: u64 = 8;

/// The format of what these kernels and the host hand each other: raised when any of it changes.
pub const FORMAT: u64 = 5;

/// What a reduction's kernels were compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Facts {
    /// [`FORMAT`] of the crates that they are made of.
    pub format: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// What its address is a multiple of, by its type.
    pub element_align: u64,
    /// Bytes of a result.
    pub output_bytes: u64,
    /// What its address is a multiple of, by its type.
    pub output_align: u64,
    /// 1 if they have what came with compute capability 9.0: the `bulk` kernel, and that they wait
    /// themselves for the launch before. Else 0.
    pub sm_90: u64,
    /// 1 if what is made of an element depends on its index. Else 0.
    pub indexed: u64,
}

impl Facts {
    /// How many words of 8 bytes it is.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// The facts of words that a kernel has written.
    pub const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [format, element_bytes, element_align, output_bytes, output_align, sm_90, indexed] = words;
        Self { format, element_bytes, element_align, output_bytes, output_align, sm_90, indexed }
    }
}

/// Results of the `laws` kernel for each pair of elements. Of the pair `(i, j)` of n, with the elements
/// i, j and (i + j + 1) mod n as a, b and c, they are: a; the identity with a; a with the identity; a
/// with b; b with a; a with b, and that with c; b with c, and a with that.
pub const LAW_RESULTS: usize = 7;

/// Most elements whose pairs the `laws` kernel takes.
pub const MOST_LAW_ELEMENTS: usize = 64;

/// Whether elements of `bytes` bytes are loaded in groups of 16 bytes: they are if a group holds a whole
/// number of them. Of all others a group is a single element.
pub const fn in_groups(bytes: u64) -> bool {
    bytes > 0 && (crate::reducer::GROUP_BYTES as u64).is_multiple_of(bytes)
}
