//! The kernels' parameters: one struct per signature, with a field per parameter.
//!
//! A kernel is declared from the struct and takes it apart by field names; the host fills it by field
//! names. So no two arguments can be exchanged on either side: a pointer that is read (`*const`) does
//! not fit a field that is written (`*mut`), and two counts have different names.
//!
//! Each struct has a macro of the same name, which hands its fields on: `Reduce!(declare! [tokens])`
//! becomes `declare! { [tokens] input: *const T, n: u64, output: *mut T }`. The macro that declares
//! entry points uses it to write the parameter list of the PTX entry, in which every field is a
//! parameter of its own.
//!
//! ```
//! use core::ptr::{without_provenance, without_provenance_mut};
//! use warpfold_abi::arguments::Reduce;
//!
//! let (input, output) = (without_provenance(0x1000), without_provenance_mut(0x2000));
//! let arguments = Reduce::<f32> { input, n: 256, output };
//! # let _ = arguments;
//! ```
//!
//! What is written does not go where something is read, nor the other way round:
//!
//! ```compile_fail,E0308
//! use core::ptr::{without_provenance, without_provenance_mut};
//! use warpfold_abi::arguments::Reduce;
//!
//! let (output, input) = (without_provenance(0x1000), without_provenance_mut(0x2000));
//! let arguments = Reduce::<f32> { input, n: 256, output };
//! # let _ = arguments;
//! ```
//!
//! Nor does a count go where an address is expected:
//!
//! ```compile_fail,E0308
//! use core::ptr::{without_provenance, without_provenance_mut};
//! use warpfold_abi::arguments::Reduce;
//!
//! let (n, output) = (without_provenance(0x1000), without_provenance_mut(0x2000));
//! let arguments = Reduce::<f32> { input: 256, n, output };
//! # let _ = arguments;
//! ```

/// One parameter of a kernel, as it lies in its struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the field.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
    /// Whether it is an address.
    pub pointer: bool,
}

/// The parameters of a kernel.
///
/// # Safety
/// The type must be `#[repr(C)]`, without padding, its fields must be those that
/// [`PARAMETERS`](Self::PARAMETERS) lists, and their order must be that of the kernel's parameters.
pub unsafe trait Arguments: Copy {
    /// The parameters in the kernel's order.
    const PARAMETERS: &'static [Parameter];
}

/// What a field of the suite's structs is.
trait Field {
    /// Whether it is an address.
    const POINTER: bool;
}

impl<T> Field for *const T {
    const POINTER: bool = true;
}

impl<T> Field for *mut T {
    const POINTER: bool = true;
}

impl Field for u64 {
    const POINTER: bool = false;
}

macro_rules! arguments {
    ($($(#[$attr:meta])* $Name:ident $(<$T:ident>)? { $($(#[$field_attr:meta])* $field:ident: $ty:ty,)* })*) => {$(
        $(#[$attr])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub struct $Name $(<$T>)? {
            $($(#[$field_attr])* pub $field: $ty,)*
        }

        // SAFETY: the struct is `repr(C)`, the list is made of its own fields, and the assertion below
        // excludes padding. The kernel's parameters are written from the same fields, by the macro of
        // the same name.
        unsafe impl $(<$T: Copy>)? Arguments for $Name $(<$T>)? {
            const PARAMETERS: &'static [Parameter] = &[$(Parameter {
                name: stringify!($field),
                offset: core::mem::offset_of!(Self, $field),
                size: size_of::<$ty>(),
                pointer: <$ty as Field>::POINTER,
            }),*];
        }

        hand_on! { $Name, $($field: $ty),* }
    )*};
}

/// Declares the macro of a struct. Its dollar signs come in from outside, because a macro that declares
/// another cannot write them.
macro_rules! hand_on {
    ($Name:ident, $($field:ident: $ty:ty),*) => {
        hand_on!(@ ($) $Name, $($field: $ty),*);
    };
    (@ ($d:tt) $Name:ident, $($field:ident: $ty:ty),*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $Name {
            ($d($d callback:ident)::+ ! $d context:tt) => {
                $d($d callback)::+! { $d context $($field: $ty),* }
            };
        }
    };
}

arguments! {
    /// Of a reduction whose blocks, clusters or grid leave their values in `output`, without any other
    /// memory.
    Reduce<T> {
        /// The elements: `n` readable ones.
        input: *const T,
        /// How many there are.
        n: u64,
        /// The results: as many writable elements as the kernel's documentation says.
        output: *mut T,
    }

    /// Of a reduction in one launch, whose blocks meet in global memory.
    ReduceOnce<T> {
        /// The elements: `n` readable ones.
        input: *const T,
        /// How many there are.
        n: u64,
        /// One writable element per block.
        partials: *mut T,
        /// How the blocks tell that they have arrived. Zero before the first launch.
        counter: *mut u32,
        /// The result: one writable element.
        output: *mut T,
    }

    /// Of the reducer's kernels. The host says how the input is cut: it knows the address, and every
    /// instruction in front of the first load costs a small input time.
    ReduceCut<T> {
        /// The elements: `head + groups * (16 / size_of::<T>()) + (singles - head)` readable ones.
        input: *const T,
        /// Elements before the first 16-byte boundary.
        head: u64,
        /// Whole groups of 16 bytes from there on. Elements whose size does not divide 16 are a group
        /// each, and there are no others.
        groups: u64,
        /// Elements before and behind the groups: fewer than two groups' worth, as the host cuts them.
        singles: u64,
        /// Groups that a block of the `grid` kernel reads before it moves on by a grid of them; not
        /// zero. The `bulk` kernel has a size of its own and does not look at it.
        tile: u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned.
        output: *mut u64,
    }

    /// Of the reducer's kernels for pairs: the elements of two inputs that have the same index. The host
    /// cuts both alike, at the 16-byte boundaries of the first one.
    ReducePair<T> {
        /// The first input's elements, as many readable ones as of [`ReduceCut`].
        first: *const T,
        /// As many readable ones of the second input. Of the `aligned` kernel its groups lie at
        /// multiples of 16, too. Of the `shifted` kernel they do not, and each of them is a part of two
        /// groups that do, of which all elements are readable: those of the first and the last one, too.
        second: *const T,
        /// Elements before the first group, which begins at a 16-byte boundary of the first input.
        head: u64,
        /// Whole groups of 16 bytes of each input.
        groups: u64,
        /// Elements of each input before and behind the groups: fewer than four groups' worth.
        singles: u64,
        /// Groups of each input that a block reads before it moves on by a grid of them: at most
        /// [`PAIRS_IN_FLIGHT`](crate::reducer::PAIRS_IN_FLIGHT) per thread, and not zero.
        tile: u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned. Of a
        /// part of a sum [`PART_BYTES`](crate::reducer::PART_BYTES).
        output: *mut u64,
    }

    /// Of the reducer's kernels that count and add up the elements that lie in an interval.
    ReduceWithin<T> {
        /// The elements: as many readable ones as of [`ReduceCut`].
        input: *const T,
        /// The least element of the interval: its own bits, in the lowest ones. No NaN.
        low: u64,
        /// The greatest element of the interval, likewise, which is not less than the least one.
        high: u64,
        /// Elements before the first 16-byte boundary.
        head: u64,
        /// Whole groups of 16 bytes from there on.
        groups: u64,
        /// Elements before and behind the groups: fewer than two groups' worth.
        singles: u64,
        /// Groups that a block reads before it moves on by a grid of them; not zero.
        tile: u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned. How
        /// many elements lie in the interval takes the first 8, their sum what follows.
        output: *mut u64,
    }

    /// Of the reducer's kernels that read how many elements there are, and cut the input themselves.
    ReduceCounted<T> {
        /// The elements: `most` readable ones.
        input: *const T,
        /// How many of them to take, from the first on: `count_words` readable words of 32 bits, the
        /// lower half first. More than `most` are taken for `most`.
        count: *const u32,
        /// Words of the count: 1 or 2.
        count_words: u64,
        /// Most elements that are taken.
        most: u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned. Of no
        /// elements it is what changes nothing: 0 for a sum, 1 for a product, the largest value of the
        /// type for a minimum, the smallest for a maximum, and the index of all ones; of a mean NaN.
        output: *mut u64,
        /// The count as it was found: 8 writable bytes, 8-aligned.
        found: *mut u64,
    }

    /// Of the reducer's kernels whose elements come behind others, which launches before have reduced.
    ReduceContinued<T> {
        /// The elements, as of [`ReduceCut`].
        input: *const T,
        /// Elements before the first 16-byte boundary.
        head: u64,
        /// Whole groups of 16 bytes from there on, as of [`ReduceCut`].
        groups: u64,
        /// Elements before and behind the groups: fewer than two groups' worth.
        singles: u64,
        /// Groups that a block reads before it moves on by a grid of them; not zero.
        tile: u64,
        /// How many elements came before: the index of the first of these; 0 begins anew.
        before: u64,
        /// What was made of them: [`CARRIED_BYTES`](crate::reducer::CARRIED_BYTES) bytes, 8-aligned,
        /// which the kernel reads unless nothing came before, and leaves as they are with these
        /// elements. Null where nothing is carried: then those before are somebody else's.
        carried: *mut u32,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result of all elements until now: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable
        /// bytes, 8-aligned. Where these elements change nothing it is left as it is.
        output: *mut u64,
        /// Where launches on several devices [meet](crate::meeting), 8-aligned, all of it as they left
        /// it or zero; null where this launch is by itself, and then nothing of what follows is looked
        /// at.
        meeting: *mut u32,
        /// Which of its cells is this launch's.
        rank: u64,
        /// How many cells have a value when the last launch arrives; not zero, and at most
        /// [`MOST_MEMBERS`](crate::meeting::MOST_MEMBERS).
        members: u64,
        /// How many launches arrive there, at most 2^32; not zero.
        arrivals: u64,
        /// Where the last one puts the result of all members: as the output.
        result: *mut u64,
        /// Where it puts it besides: how many bytes behind the result, wrapping around, each further
        /// place is.
        others: *const u64,
        /// How many those are: fewer than [`MOST_MEMBERS`](crate::meeting::MOST_MEMBERS).
        copies: u64,
    }

    /// Of the reducer's kernels that give each row of a matrix a result of its own. They cut every row
    /// themselves: rows begin at different distances from a 16-byte boundary.
    ReduceRows<T> {
        /// The matrix: the first row, of readable elements.
        input: *const T,
        /// How many rows there are; not zero.
        rows: u64,
        /// Elements of a row; not zero.
        len: u64,
        /// How many elements behind a row's first one the next row's is. They may lie apart or overlap.
        pitch: u64,
        /// Of the `grid` kernel blocks per row, not zero. Of those with lanes for a row their number, a
        /// power of two of at most 32. The `warp` kernel does not look at it.
        share: u64,
        /// Of the `grid` kernel groups that a block reads before it moves on by as many blocks as a row
        /// has; not zero. The others do not look at it.
        tile: u64,
        /// Of the `grid` kernel with more than one block per row
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero. Nothing else looks at it.
        slots: *mut u64,
        /// The results, row after row and nothing between them, at a multiple of 8: of a sum values of
        /// the sum's type, of an extreme elements, of a place
        /// [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES), the index in the row and the element.
        output: *mut u64,
    }

    /// Of the reducer's kernels that find the elements of each row of a matrix that come first in an
    /// order. They cut every row themselves.
    ReduceTop<T> {
        /// The matrix: `rows * len` readable elements, row after row.
        input: *const T,
        /// How many rows there are; not zero.
        rows: u64,
        /// Elements of a row; not zero.
        len: u64,
        /// How many to find of each row: not zero, and at most `len` and
        /// [`MOST_TOP`](crate::reducer::MOST_TOP).
        k: u64,
        /// Of the `grid` kernel blocks per row, not zero. The `warp` kernel does not look at it.
        share: u64,
        /// Groups that a block of the `grid` kernel reads before it moves on by as many blocks as a row
        /// has, or a warp of the `warp` kernel before it looks at them; not zero, and at most
        /// [`GROUPS_IN_FLIGHT`](crate::reducer::GROUPS_IN_FLIGHT) per thread.
        tile: u64,
        /// Of the `grid` kernel with more than one block per row
        /// [`TOP_SLOT_BYTES`](crate::reducer::TOP_SLOT_BYTES) per block, all zero. Nothing else looks at
        /// it.
        slots: *mut u64,
        /// The results, `k` of each row in their order, row after row and nothing between them:
        /// [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) each, the index in the row and the element, at
        /// a multiple of 8.
        output: *mut u64,
    }

    /// Of the reducer's kernels that give each column of each of many matrices a result of its own: an
    /// array's axis of `len`, with `matrices` in front of it and `width` behind it.
    ReduceAxis<T> {
        /// The matrices: the first one's first row, of readable elements.
        input: *const T,
        /// How many matrices there are; not zero.
        matrices: u64,
        /// How many elements behind a matrix' first one the next matrix' is.
        apart: u64,
        /// Rows of a matrix: elements of a column; not zero.
        len: u64,
        /// How many elements behind a row's first one the next row's is.
        pitch: u64,
        /// Columns of a matrix; not zero.
        width: u64,
        /// Blocks per strip of columns, not zero and less than 2^31. The `lanes` kernel does not look at
        /// it.
        share: u64,
        /// Threads of a block that are side by side: packs or elements that a strip is wide, not zero
        /// and no more than a block has threads. The `lanes` kernel does not look at it.
        across: u64,
        /// With more than one block per strip
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) for each block's columns, all zero. Nothing else
        /// looks at it.
        slots: *mut u64,
        /// The results, column after column and nothing between them, as those of rows are. The index of
        /// a place is the row's in its matrix.
        output: *mut u64,
    }

    /// Of the reducer's kernels that give each position on some axes of an array a result of its own, of
    /// the elements along the others, whose strides may be any.
    ///
    /// The positions of either kind are counted along up to three axes, of which the first one runs
    /// fastest, and the last one, `outer`, has no length: it ends where the positions do. An axis that
    /// is not there has length 1, and the strides of `outer`. Strides are elements, of groups, too.
    ReduceView<T> {
        /// The element at the first position of all axes. All that the positions reach are readable.
        input: *const T,
        /// How many results there are; not zero, and at most 2^31.
        results: u64,
        /// Lengths of the axes that results are counted along; not zero.
        kept_len_0: u64,
        /// How many there are along the second axis that is kept.
        kept_len_1: u64,
        /// The strides of the axes that are kept: this one is of the first.
        kept_stride_0: u64,
        /// The stride of the second axis that is kept.
        kept_stride_1: u64,
        /// The stride of the outermost axis that is kept.
        kept_stride_outer: u64,
        /// How many results behind a position's one the next one's is on these axes.
        output_stride_0: u64,
        /// The stride of the results along the second axis.
        output_stride_1: u64,
        /// The stride of the results along the outermost axis.
        output_stride_outer: u64,
        /// Lengths of the axes that the units of a result are counted along: elements, or in the
        /// `groups` kernel groups of 16 bytes. Not zero, and at most 2^31.
        reduced_len_0: u64,
        /// How many there are along the second axis that is reduced.
        reduced_len_1: u64,
        /// The strides of the axes that are reduced: this one is of the first.
        reduced_stride_0: u64,
        /// The stride of the second axis that is reduced.
        reduced_stride_1: u64,
        /// The stride of the outermost axis that is reduced.
        reduced_stride_outer: u64,
        /// How many units each of the threads that share a result takes, at least.
        units: u64,
        /// How many of them take one more: the first ones.
        rest: u64,
        /// Whether neighbouring threads have neighbouring units of a result; else they have units of
        /// neighbouring results.
        along: u64,
        /// Results of a block: a power of two, as its threads are, and no more than those.
        across: u64,
        /// Blocks that share these `across` results; not zero and less than 2^20.
        share: u64,
        /// With more than one block per result [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) for each
        /// block's results, all zero. Nothing else looks at it.
        slots: *mut u64,
        /// The results, as those of rows are. The index of a place counts elements as units are counted.
        output: *mut u64,
    }

    /// Of the kernel that says what a program's own reduction is made of.
    DescribeReduction {
        /// A writable [`Facts`](crate::custom::Facts), 8-aligned.
        output: *mut u64,
    }

    /// Of the kernel that tries the laws of a program's own reduction on all pairs of some elements.
    ReduceLaws<T> {
        /// The elements: `n` readable ones.
        input: *const T,
        /// How many there are: at most [`MOST_LAW_ELEMENTS`](crate::custom::MOST_LAW_ELEMENTS).
        n: u64,
        /// [`LAW_RESULTS`](crate::custom::LAW_RESULTS) writable results for each pair of elements,
        /// 8-aligned: of the pair (i, j) from `(i * n + j) * LAW_RESULTS` on.
        output: *mut u64,
    }

    /// Of the reducer's kernel that gives each of many segments a result of its own, and of which the
    /// offsets have been looked at. Blocks are of [`BLOCK`](crate::segments::BLOCK) threads, one for
    /// each `per_block` tiles.
    ReduceSegments<T> {
        /// The elements of all segments: `n` readable ones, at the first offset.
        input: *const T,
        /// How many there are.
        n: u64,
        /// How many segments there are; not zero.
        segments: u64,
        /// Where they begin and end: one more than there are segments, of `offset_words` readable words
        /// of 32 bits each, the lower half first, in ascending order.
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// The first offset. The last one is `n` more.
        first: u64,
        /// For each tile how many segments end before it, and for the end of the last one.
        starts: *const u64,
        /// How many tiles there are.
        tiles: u64,
        /// How many of them a block takes one after the other: 1 to
        /// [`MOST_TILES`](crate::segments::MOST_TILES).
        per_block: u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) for each of the `ring` blocks that are under way
        /// at once, all zero.
        slots: *mut u64,
        /// How many blocks have slots; 2 or more. The blocks that run at a time may be as many.
        ring: u64,
        /// The results, as those of [`ReduceRows`]. Of an empty segment what a count of zero leaves.
        output: *mut u64,
    }

    /// Of the kernel that looks at segments' offsets. Any launch of one dimension, in blocks of whole
    /// warps.
    CheckOffsets {
        /// As those of [`ReduceSegments`], in any order.
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// How many segments there are; not zero.
        segments: u64,
        /// The largest offset that may be.
        most: u64,
        /// Elements and ends of a tile.
        tile: u64,
        /// [`REPORT_WORDS`](crate::segments::REPORT_WORDS) words, all zero.
        report: *mut u64,
        /// As those of [`ReduceSegments`]: `tiles` writable words.
        starts: *mut u64,
        /// How many tiles to look for.
        tiles: u64,
    }

    /// Of the kernel that finds where on the path tiles begin, of offsets that are in order. Any launch
    /// of one dimension.
    FindTiles {
        /// As those of [`ReduceSegments`].
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// How many segments there are; not zero.
        segments: u64,
        /// Elements and ends of a tile.
        tile: u64,
        /// As those of [`ReduceSegments`]: `tiles` writable words.
        starts: *mut u64,
        /// How many tiles to look for.
        tiles: u64,
    }

    /// Of the kernel that counts runs of equal keys. Blocks are of [`BLOCK`](crate::runs::BLOCK)
    /// threads, any number of them.
    CountRuns<T> {
        /// The keys: `n` readable ones.
        keys: *const T,
        /// How many there are; not zero.
        n: u64,
        /// One writable word per block: how many runs begin in its piece of the keys.
        counts: *mut u64,
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// How many runs there are: 8 writable bytes, 8-aligned.
        output: *mut u64,
    }

    /// Of the kernel that writes runs of equal keys, in as many blocks as [`CountRuns`] had.
    WriteRuns<T> {
        /// The keys: `n` readable ones.
        keys: *const T,
        /// How many there are; not zero.
        n: u64,
        /// What the blocks have counted: one readable word per block.
        counts: *const u64,
        /// The runs' keys: as many writable ones as there are runs.
        heads: *mut T,
        /// Where runs begin, and where the last one ends: one more than there are runs, of
        /// `offset_words` writable words of 32 bits each, the lower half first.
        offsets: *mut u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
    }

    /// Of the strided copy: `output[i] = input[i * stride]`.
    CopyStrided<T> {
        /// (n - 1) · stride + 1 readable elements.
        input: *const T,
        /// Elements of the output.
        n: u64,
        /// Distance of the elements that are read.
        stride: u64,
        /// `n` writable elements, none of them in `input`.
        output: *mut T,
    }

    /// Of the copy by index: `output[i] = input[index[i]]`.
    CopyRandom<T> {
        /// Readable elements at every index.
        input: *const T,
        /// Indices, of which `n` are readable.
        index: *const u32,
        /// Elements of the output.
        n: u64,
        /// `n` writable elements, none of them in `input` or `index`.
        output: *mut T,
    }

    /// Of a transpose: `output[x * height + y] = input[y * width + x]`.
    Transpose<T> {
        /// The matrix: `width * height` readable elements, row after row.
        input: *const T,
        /// Columns of the input.
        width: u64,
        /// Rows of the input.
        height: u64,
        /// As many writable elements, none of them in `input`.
        output: *mut T,
    }

    /// Of the kernel that takes the place of others' data in the cache, by reading its own.
    Sweep {
        /// 16 readable bytes per vector, all zero, from a multiple of 16.
        memory: *mut u8,
        /// Vectors of 16 bytes.
        vectors: u64,
    }

    /// Of a kernel without parameters.
    Empty {}
}

/// Whether the fields fill the struct: what [`Arguments`] asks for.
const fn fills<A: Arguments>() -> bool {
    let (mut end, mut at) = (0, 0);
    while at < A::PARAMETERS.len() {
        let Parameter { offset, size, .. } = A::PARAMETERS[at];
        if offset != end || size != 8 {
            return false;
        }
        end += size;
        at += 1;
    }
    end == size_of::<A>()
}

/// All parameters of the suite are of 8 bytes, so that no struct of them has padding.
const _: () = assert!(
    fills::<Reduce<f32>>()
        && fills::<ReduceOnce<f32>>()
        && fills::<ReduceCut<f32>>()
        && fills::<ReducePair<f32>>()
        && fills::<ReduceWithin<f32>>()
        && fills::<ReduceCounted<f32>>()
        && fills::<ReduceContinued<f32>>()
        && fills::<ReduceRows<f32>>()
        && fills::<ReduceTop<f32>>()
        && fills::<ReduceAxis<f32>>()
        && fills::<ReduceView<f32>>()
        && fills::<DescribeReduction>()
        && fills::<ReduceLaws<f32>>()
        && fills::<ReduceSegments<f32>>()
        && fills::<CheckOffsets>()
        && fills::<FindTiles>()
        && fills::<CountRuns<u32>>()
        && fills::<WriteRuns<u32>>()
        && fills::<CopyStrided<f32>>()
        && fills::<CopyRandom<f32>>()
        && fills::<Transpose<f32>>()
        && fills::<Sweep>()
        && fills::<Empty>()
);

#[cfg(test)]
mod tests {
    use super::*;

    /// What a macro that declares a kernel sees.
    macro_rules! listed {
        ([$($context:tt)*] $($field:ident: $ty:ty),*) => {
            (stringify!($($context)*), [$((stringify!($field), stringify!($ty))),*])
        };
    }

    #[test]
    fn a_struct_hands_its_fields_on_in_their_order() {
        let (context, fields) = ReduceOnce!(listed![a b]);
        assert_eq!(context, "a b");
        let names: [&str; 5] = fields.map(|(name, _)| name);
        assert_eq!(names, ["input", "n", "partials", "counter", "output"]);
        // Compilers differ in where they put the spaces of a type.
        assert!(fields[3].1.split_whitespace().flat_map(str::chars).eq("*mutu32".chars()));
        let listed = ReduceOnce::<u8>::PARAMETERS.iter().map(|parameter| parameter.name);
        assert!(listed.eq(names));
    }

    #[test]
    fn a_parameter_is_where_its_field_is() {
        let arguments = CopyStrided::<f32> {
            input: core::ptr::without_provenance(1),
            n: 2,
            stride: 3,
            output: core::ptr::without_provenance_mut(4),
        };
        let start = (&raw const arguments).cast::<u8>();
        for (parameter, expected) in CopyStrided::<f32>::PARAMETERS.iter().zip(1_u64..) {
            assert_eq!(parameter.pointer, ["input", "output"].contains(&parameter.name));
            // SAFETY: offset and size are those of a field of 8 bytes, which holds a plain number.
            let found = unsafe { start.add(parameter.offset).cast::<u64>().read() };
            assert_eq!((parameter.size, found), (8, expected), "{}", parameter.name);
        }
    }
}
