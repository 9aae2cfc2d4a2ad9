//! User-defined reductions: limits, the facts that their kernels report, and the test of their laws.

/// Maximum bytes of an element: a thread holds four elements in registers.
pub const MOST_ELEMENT_BYTES: u64 = 64;

/// Maximum bytes of a result.
pub const MOST_OUTPUT_BYTES: u64 = 64;

/// Maximum alignment of a result's type: output memory has no larger one.
pub const MOST_OUTPUT_ALIGN: u64 = 8;

/// Version of the interface between these kernels and the host, raised with every change.
pub const FORMAT: u64 = 6;

/// Facts about a user-defined reduction, as its kernels were compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Facts {
    /// [`FORMAT`] of the crates that the kernels were built with.
    pub format: u64,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Alignment of the element type.
    pub element_align: u64,
    /// Bytes of a result.
    pub output_bytes: u64,
    /// Alignment of the result type.
    pub output_align: u64,
    /// 1 if the kernels were compiled for compute capability 9.0: there is a `bulk` kernel, and all
    /// kernels support programmatic dependent launch. Else 0.
    pub sm_90: u64,
    /// 1 if an element's contribution depends on its index. Else 0.
    pub indexed: u64,
}

impl Facts {
    /// Size in 8-byte words.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// Decodes the words that a kernel has written.
    pub const fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [format, element_bytes, element_align, output_bytes, output_align, sm_90, indexed] = words;
        Self { format, element_bytes, element_align, output_bytes, output_align, sm_90, indexed }
    }
}

/// Number of results of the `laws` kernel per pair (i, j) of n elements: a, e ∘ a, a ∘ e, a ∘ b, b ∘ a,
/// (a ∘ b) ∘ c and a ∘ (b ∘ c), where a, b and c are the elements i, j and (i + j + 1) mod n, and e is
/// the identity.
pub const LAW_RESULTS: usize = 7;

/// Maximum number of elements whose pairs the `laws` kernel tests.
pub const MOST_LAW_ELEMENTS: usize = 64;

/// Returns whether elements of `bytes` bytes are loaded in 16-byte groups, that is, whether their size
/// divides 16. Otherwise, a group is a single element.
pub const fn in_groups(bytes: u64) -> bool {
    bytes > 0 && (crate::reducer::GROUP_BYTES as u64).is_multiple_of(bytes)
}
