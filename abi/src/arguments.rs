//! The kernels' parameters: one struct per signature, with a field per parameter.
//!
//! A kernel's parameter list is generated from its struct, and both the kernel and the host access the
//! parameters by field name. Neither can therefore swap two arguments: a pointer for reading (`*const`)
//! does not fit a field for writing (`*mut`), and two counts have different names.
//!
//! Each struct has a macro of the same name, which passes its fields on: `Reduce!(declare! [tokens])`
//! expands to `declare! { [tokens] input: *const T, n: u64, output: *mut T }`. The macro that declares
//! kernels uses it to write the parameter list of the PTX entry, with one parameter per field.
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
//! Inputs and outputs cannot be swapped:
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
//! Counts and addresses cannot be swapped either:
//!
//! ```compile_fail,E0308
//! use core::ptr::{without_provenance, without_provenance_mut};
//! use warpfold_abi::arguments::Reduce;
//!
//! let (n, output) = (without_provenance(0x1000), without_provenance_mut(0x2000));
//! let arguments = Reduce::<f32> { input: 256, n, output };
//! # let _ = arguments;
//! ```

/// One parameter of a kernel, as a field of its struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the field.
    pub name: &'static str,
    /// Offset in the struct, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// True if the parameter is an address.
    pub pointer: bool,
}

/// The parameters of a kernel.
///
/// # Safety
/// The type must be `#[repr(C)]`, without padding, and have the fields that
/// [`PARAMETERS`](Self::PARAMETERS) lists, in the order of the kernel's parameters.
pub unsafe trait Arguments: Copy {
    /// The parameters, in the kernel's order.
    const PARAMETERS: &'static [Parameter];
}

trait Field {
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

        // SAFETY: the struct is `repr(C)`, the list is built from its own fields, and the assertion
        // below excludes padding. The macro of the same name lists the same fields for the kernel.
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

/// Declares the macro that has the name of a struct. `$` is passed in as a token, because a
/// `macro_rules!` inside another one cannot contain it.
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
    /// Parameters of a reduction that needs no memory besides its input and output.
    Reduce<T> {
        /// `n` readable elements.
        input: *const T,
        /// Number of elements.
        n: u64,
        /// The results: as many writable elements as the kernel's documentation states.
        output: *mut T,
    }

    /// Parameters of a reduction in one launch, whose blocks exchange values in global memory.
    ReduceOnce<T> {
        /// `n` readable elements.
        input: *const T,
        /// Number of elements.
        n: u64,
        /// One writable element per block.
        partials: *mut T,
        /// Arrival counter of the blocks. Zero before the first launch.
        counter: *mut u32,
        /// The result: one writable element.
        output: *mut T,
    }

    /// Parameters of the reducer's kernels. The host, not the kernel, splits the input at 16-byte
    /// boundaries, because every instruction before the first load delays small inputs.
    ReduceCut<T> {
        /// `groups * (16 / size_of::<T>()) + singles` readable elements.
        input: *const T,
        /// Number of elements before the first 16-byte boundary.
        head: u64,
        /// Number of whole 16-byte groups after the head. If the element size does not divide 16, each
        /// element is a group, and there are no singles.
        groups: u64,
        /// Number of elements before and after the groups: fewer than two groups' worth.
        singles: u64,
        /// Groups that a block of the `grid` kernel reads per step of its grid-stride loop; not zero.
        /// Ignored by the `bulk` kernel, whose tile size is fixed.
        tile: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result in its form: at most [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable
        /// bytes, 8-aligned.
        output: *mut u64,
        /// Number of results, 1 for a buffer. The second value of a pair is written as many values after
        /// the first one.
        results: u64,
        /// The form of the results, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the reducer's kernels for pairs of elements with the same index in two inputs. The
    /// host splits both inputs at the same indices, which are at 16-byte boundaries of the first input.
    ReducePair<T> {
        /// Elements of the first input: the groups and singles are readable, as in [`ReduceCut`].
        first: *const T,
        /// Elements of the second input: as many as of the first. In the `aligned` kernel, its groups
        /// are 16-byte aligned, too. In the `shifted` kernel, each group straddles a 16-byte boundary,
        /// and both aligned groups that contain it are readable, even for the first and the last group.
        second: *const T,
        /// Number of elements before the first 16-byte boundary of the first input.
        head: u64,
        /// Number of whole 16-byte groups of each input.
        groups: u64,
        /// Number of elements of each input before and after the groups: fewer than four groups' worth.
        singles: u64,
        /// Groups of each input that a block reads per step of its grid-stride loop; at most
        /// [`PAIRS_IN_FLIGHT`](crate::reducer::PAIRS_IN_FLIGHT) per thread, and not zero.
        tile: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned, or
        /// [`PART_BYTES`](crate::reducer::PART_BYTES) for one device's part of a sum.
        output: *mut u64,
    }

    /// Parameters of the reducer's kernels that count and sum the elements in an interval.
    ReduceWithin<T> {
        /// Elements: the groups and singles are readable, as in [`ReduceCut`].
        input: *const T,
        /// Lower bound of the interval: the bits of an element, zero-extended; not NaN.
        low: u64,
        /// Upper bound of the interval, in the same form; not less than `low`, and not NaN.
        high: u64,
        /// Number of elements before the first 16-byte boundary.
        head: u64,
        /// Number of whole 16-byte groups after the head.
        groups: u64,
        /// Number of elements before and after the groups: fewer than two groups' worth.
        singles: u64,
        /// Groups that a block reads per step of its grid-stride loop; not zero.
        tile: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned. The
        /// first 8 bytes are the number of elements in the interval, the rest is their sum.
        output: *mut u64,
    }

    /// Parameters of the reducer's kernels that read the element count from device memory.
    ReduceCounted<T> {
        /// `most` readable elements.
        input: *const T,
        /// Number of leading elements to reduce, clamped to `most`: `count_words` readable 32-bit words,
        /// the lower half first.
        count: *const u32,
        /// Words of the count: 1 or 2.
        count_words: u64,
        /// Maximum number of elements.
        most: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable bytes, 8-aligned. The
        /// result of no elements is 0 for a sum, 1 for a product, the largest value of the type for a
        /// minimum, the smallest for a maximum, and NaN for a mean; an index is all ones.
        output: *mut u64,
        /// The count that was read: 8 writable bytes, 8-aligned.
        found: *mut u64,
    }

    /// Parameters of the reducer's kernels for several buffers, whose elements are reduced together.
    ReduceBuffers<T> {
        /// First element of the first buffer.
        input: *const T,
        /// Two words for each buffer: the distance in bytes, modulo 2^64, of its first element from
        /// `input`, and the number of elements up to and including its last one. No buffer is empty; all
        /// elements are readable.
        buffers: *const u64,
        /// Number of buffers; not zero.
        count: u64,
        /// Number of elements per tile, the last one possibly fewer; not zero. The blocks reduce the
        /// tiles in turn.
        tile: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result in its form, as in [`ReduceCut`].
        output: *mut u64,
        /// The form of the result, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the reducer's kernels that continue a reduction of earlier launches.
    ReduceContinued<T> {
        /// The elements, as in [`ReduceCut`].
        input: *const T,
        /// Number of elements before the first 16-byte boundary.
        head: u64,
        /// Number of whole 16-byte groups after the head, as in [`ReduceCut`].
        groups: u64,
        /// Number of elements before and after the groups: fewer than two groups' worth.
        singles: u64,
        /// Groups that a block reads per step of its grid-stride loop; not zero.
        tile: u64,
        /// Number of earlier elements, and so this launch's first index; 0 starts a new reduction.
        before: u64,
        /// Partial result of the earlier elements: [`CARRIED_BYTES`](crate::reducer::CARRIED_BYTES)
        /// bytes, 8-aligned. The kernel reads it unless `before` is 0, and combines this launch's
        /// elements into it. Null if launches on other devices reduce the earlier elements.
        carried: *mut u32,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// The result of all elements so far: [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) writable
        /// bytes, 8-aligned. Not written if this launch's elements do not change it.
        output: *mut u64,
        /// The [meeting](crate::meeting) of launches on several devices, 8-aligned, all zero or as
        /// earlier launches left it. Null for a launch on one device, which ignores the fields below.
        meeting: *mut u32,
        /// Index of this launch's cell in the meeting.
        rank: u64,
        /// Number of cells that have a value when the last launch arrives; not zero, and at most
        /// [`MOST_MEMBERS`](crate::meeting::MOST_MEMBERS).
        members: u64,
        /// Number of launches that combine their results, at most 2^32; not zero.
        arrivals: u64,
        /// The combined result, of the size of `output`, which the last launch to arrive writes.
        result: *mut u64,
        /// Distances in bytes, modulo 2^64, from `result` to further copies of the combined result.
        others: *const u64,
        /// Number of further copies: less than [`MOST_MEMBERS`](crate::meeting::MOST_MEMBERS).
        copies: u64,
    }

    /// Parameters of the reducer's kernels with one result per row of a matrix. The kernel, not the
    /// host, splits every row, because rows begin at different distances from a 16-byte boundary.
    ReduceRows<T> {
        /// First element of the first row. All elements of all rows are readable.
        input: *const T,
        /// Number of rows; not zero.
        rows: u64,
        /// Number of elements per row; not zero.
        len: u64,
        /// Distance between rows' first elements, in elements. Rows may have gaps or overlap.
        pitch: u64,
        /// For the `grid` kernel, number of blocks per row; not zero. For kernels with several lanes per
        /// row, and the `warp` kernel of tuples, number of lanes per row: a power of two, at most 32.
        /// Ignored by the `warp` kernel of single operations.
        share: u64,
        /// For the `grid` kernel, groups that a block reads per step along a row; not zero. For the
        /// `warp` kernel of tuples, zero if lanes load elements, and not zero if they load groups.
        /// Ignored by other kernels.
        tile: u64,
        /// Memory for the cells of the `grid` kernel's blocks:
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero. Ignored if there is one block
        /// per row.
        slots: *mut u64,
        /// The results, row after row without gaps, 8-aligned. In the form
        /// [`OUTPUT`](crate::form::OUTPUT), a sum has the sum's type, an extreme the element type, and a
        /// result with an index [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES): the index in the row,
        /// then the element. [`fused::results_bytes`](crate::fused::results_bytes) says where a tuple's
        /// results are.
        output: *mut u64,
        /// The form of the results, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the reducer's top-k kernels, which find the first k elements of each row of a
    /// matrix in an order. The kernel, not the host, splits every row at 16-byte boundaries.
    ReduceTop<T> {
        /// The matrix: `rows * len` readable elements, row after row.
        input: *const T,
        /// Number of rows; not zero.
        rows: u64,
        /// Number of elements per row; not zero.
        len: u64,
        /// Number of elements to find per row: not zero, and at most `len` and
        /// [`MOST_TOP`](crate::reducer::MOST_TOP).
        k: u64,
        /// Blocks per row for the `grid` kernel, not zero. Ignored by the `warp` kernel.
        share: u64,
        /// Groups that a block of the `grid` kernel, or a warp of the `warp` kernel, reads per step of
        /// its loop over a row; not zero, and at most
        /// [`GROUPS_IN_FLIGHT`](crate::reducer::GROUPS_IN_FLIGHT) per thread.
        tile: u64,
        /// Memory for the cells of the `grid` kernel's blocks:
        /// [`TOP_SLOT_BYTES`](crate::reducer::TOP_SLOT_BYTES) per block, all zero. Ignored if there is
        /// one block per row.
        slots: *mut u64,
        /// The results, row after row without gaps, 8-aligned: `k` per row in order, each of
        /// [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES): the index in the row, then the element.
        output: *mut u64,
    }

    /// Parameters of the kernel that selects the first k elements of each row of a matrix, for any k.
    /// The kernel is compiled for each size of elements, and not for each type. The last six fields
    /// describe the [key](crate::top::KeyOrder) of an element.
    SelectTop<T> {
        /// The matrix: `rows * len` readable elements, row after row.
        input: *const T,
        /// Number of rows; not zero.
        rows: u64,
        /// Number of elements per row; not zero.
        len: u64,
        /// Number of elements to find per row: 1 to `len`.
        k: u64,
        /// Blocks per row, not zero. If it is not 1, the launch is cooperative, and has `rows * share`
        /// blocks. The elements of a row that a block reads are fewer than 2^32.
        share: u64,
        /// Elements of a row that are sampled; 0 if the kernel shall not look for a bound first. At most
        /// `len`.
        samples: u64,
        /// The element of the sample, counted from 1, that is the bound: 1 to `samples`.
        rank: u64,
        /// Memory for rows with several blocks: [`SELECT_BYTES`](crate::top::SELECT_BYTES) for each row,
        /// all zero before and after the launch.
        slots: *mut u64,
        /// Memory for rows with several blocks: for each row, `room` candidates and `ranked` results of
        /// [`OUTPUT_BYTES`](crate::reducer::OUTPUT_BYTES) each.
        scratch: *mut u64,
        /// Candidates per row for which there is memory; 0 if rows have one block each.
        room: u64,
        /// Number of elements, at least `k`, that blocks which share a row sort: the first ones, with
        /// some more if that saves a pass. 0 if they do not sort, or do not share rows.
        ranked: u64,
        /// The results as in [`ReduceTop`]. Their order is arbitrary for rows with several blocks that
        /// are not `ranked`, and for other rows if k exceeds the number of results that a block sorts.
        output: *mut u64,
        /// The bits that are inverted in elements whose top bit is set.
        fold: u64,
        /// The bits that are inverted in all elements.
        toggle: u64,
        /// The number that is then subtracted.
        lowest: u64,
        /// The key of NaN, which larger keys are replaced by.
        nan: u64,
        /// The key of the zero that comes first, to which `unit` is added.
        zero: u64,
        /// The distance between neighbouring keys; 0 if the type has one zero.
        unit: u64,
    }

    /// Parameters of the kernels that sort the results of [`SelectTop`], row by row.
    SortTop {
        /// The results: `rows * k`, as in [`ReduceTop`].
        results: *mut u64,
        /// Number of rows; not zero.
        rows: u64,
        /// Number of results per row; not zero.
        k: u64,
        /// For `sort`: 0 to sort each chunk of [`STAGED`](crate::top::STAGED) results of a row, or else
        /// to merge the two bitonic halves of each chunk. For `merge`: the length of the sorted pieces
        /// that result, a power of 2.
        size: u64,
        /// For `merge`: the distance between the results that are compared, a power of 2; or 0 to
        /// compare the results of each piece with those of its second half in reverse order.
        distance: u64,
        /// The field of [`SelectTop`].
        fold: u64,
        /// The field of [`SelectTop`].
        toggle: u64,
        /// The field of [`SelectTop`].
        lowest: u64,
        /// The field of [`SelectTop`].
        nan: u64,
        /// The field of [`SelectTop`].
        zero: u64,
        /// The field of [`SelectTop`].
        unit: u64,
    }

    /// Parameters of the reducer's kernels with one result per column of each of many matrices: an array
    /// of shape `matrices` × `len` × `width`, reduced along `len`.
    ReduceAxis<T> {
        /// First element of the first matrix. All elements of all matrices are readable.
        input: *const T,
        /// Number of matrices; not zero.
        matrices: u64,
        /// Distance between the first elements of neighbouring matrices, in elements.
        apart: u64,
        /// Number of rows per matrix, that is, elements per column; not zero.
        len: u64,
        /// Distance between the first elements of neighbouring rows, in elements.
        pitch: u64,
        /// Number of columns per matrix; not zero.
        width: u64,
        /// Number of blocks per *strip*, the neighbouring columns that a block reduces: not zero, and
        /// less than 2^31. Ignored by the `lanes` kernel.
        share: u64,
        /// Number of threads of a block that read the same row, each one or several columns of the
        /// strip: not zero, and at most the block size. Ignored by the `lanes` kernel.
        across: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per column of each
        /// block, all zero. Ignored if there is one block per strip.
        slots: *mut u64,
        /// The results, column after column, as in [`ReduceRows`]. An index is that of the row.
        output: *mut u64,
        /// The form of the results, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the reducer's kernels that reduce an array of any strides along some axes, with one
    /// result per position on the other axes, the *kept* ones.
    ///
    /// There are up to three kept and three reduced axes; the first one varies fastest. The last one,
    /// `outer`, has no length field: [`results`](Self::results) or [`units`](Self::units) limit it. A
    /// missing axis has length 1 and the strides of `outer`. Strides are in elements, even in the
    /// `groups` kernel.
    ReduceView<T> {
        /// Element at index 0 of all axes. The elements at all positions are readable.
        input: *const T,
        /// Number of results; not zero, and at most 2^31.
        results: u64,
        /// Length of the first kept axis; not zero.
        kept_len_0: u64,
        /// Length of the second kept axis; not zero.
        kept_len_1: u64,
        /// Stride of the first kept axis.
        kept_stride_0: u64,
        /// Stride of the second kept axis.
        kept_stride_1: u64,
        /// Stride of the outermost kept axis.
        kept_stride_outer: u64,
        /// Stride of the results along the first kept axis, in results.
        output_stride_0: u64,
        /// Stride of the results along the second kept axis.
        output_stride_1: u64,
        /// Stride of the results along the outermost kept axis.
        output_stride_outer: u64,
        /// Length of the first reduced axis in units: elements, or in the `groups` kernel groups of 16
        /// bytes. Not zero, and at most 2^31.
        reduced_len_0: u64,
        /// Length of the second reduced axis: not zero, and at most 2^31.
        reduced_len_1: u64,
        /// Stride of the first reduced axis.
        reduced_stride_0: u64,
        /// Stride of the second reduced axis.
        reduced_stride_1: u64,
        /// Stride of the outermost reduced axis.
        reduced_stride_outer: u64,
        /// Number of units per thread of a result, rounded down.
        units: u64,
        /// Number of threads, the first ones of each result, that reduce one more unit.
        rest: u64,
        /// Nonzero if neighbouring threads read neighbouring units of one result. Zero if they read
        /// units of neighbouring results.
        along: u64,
        /// Results per block. Both this and the block size are powers of two; it is at most the block
        /// size.
        across: u64,
        /// Number of blocks that share the same `across` results; not zero and less than 2^20.
        share: u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per result of each
        /// block, all zero. Ignored if there is one block per result.
        slots: *mut u64,
        /// The results, as in [`ReduceRows`]. An index counts elements along the reduced axes.
        output: *mut u64,
        /// The form of the results, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the kernel that reports the facts of a user-defined reduction.
    DescribeReduction {
        /// A writable [`Facts`](crate::custom::Facts), 8-aligned.
        output: *mut u64,
    }

    /// Parameters of the kernel that tests a user-defined reduction's laws on all pairs of elements.
    ReduceLaws<T> {
        /// `n` readable elements.
        input: *const T,
        /// Number of elements: at most [`MOST_LAW_ELEMENTS`](crate::custom::MOST_LAW_ELEMENTS).
        n: u64,
        /// [`LAW_RESULTS`](crate::custom::LAW_RESULTS) writable results per pair of elements, 8-aligned;
        /// those of the pair (i, j) begin at `(i * n + j) * LAW_RESULTS`.
        output: *mut u64,
    }

    /// Parameters of the reducer's kernel with one result per segment. The offsets have been checked.
    /// The launch has one block of [`BLOCK`](crate::segments::BLOCK) threads per `per_block` tiles.
    ReduceSegments<T> {
        /// The element at the first offset, the first of `n` readable ones.
        input: *const T,
        /// Number of elements.
        n: u64,
        /// Number of segments; not zero.
        segments: u64,
        /// Offsets of the segments and the end of the last one, ascending: `segments + 1`, of
        /// `offset_words` readable 32-bit words each, the lower half first.
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// The first offset. The last offset is `first + n`.
        first: u64,
        /// Number of segments that end before each tile; one more entry, for the end of the last tile.
        starts: *const u64,
        /// Number of tiles.
        tiles: u64,
        /// Tiles that a block processes in turn: 1 to [`MOST_TILES`](crate::segments::MOST_TILES).
        per_block: u64,
        /// Memory for partial results of segments that continue past a block: `ring` slots of
        /// [`SLOT_BYTES`](crate::reducer::SLOT_BYTES), all zero.
        slots: *mut u64,
        /// Number of slots: 2 or more, and at least the number of blocks that run at once.
        ring: u64,
        /// The results, as in [`ReduceRows`]. An empty segment has the result of no elements in
        /// [`ReduceCounted`].
        output: *mut u64,
        /// The form of the results, one of [`form`](crate::form).
        form: u64,
        /// The bits of the `f64` that is subtracted from the number of elements in a variance.
        ddof: u64,
    }

    /// Parameters of the kernel that checks segment offsets, in a one-dimensional launch of whole warps.
    CheckOffsets {
        /// Offsets as in [`ReduceSegments`], but in any order.
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// Number of segments; not zero.
        segments: u64,
        /// Largest allowed offset.
        most: u64,
        /// Number of elements and segment ends per tile.
        tile: u64,
        /// The report: [`REPORT_WORDS`](crate::segments::REPORT_WORDS) writable words, all zero.
        report: *mut u64,
        /// Starts of tiles as in [`ReduceSegments`]: `tiles` writable words.
        starts: *mut u64,
        /// Number of entries of `starts`.
        tiles: u64,
    }

    /// Parameters of the kernel that finds where tiles begin on the [path](crate::segments).
    FindTiles {
        /// Offsets as in [`ReduceSegments`].
        offsets: *const u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
        /// Number of segments; not zero.
        segments: u64,
        /// Number of elements and segment ends per tile.
        tile: u64,
        /// Starts of tiles as in [`ReduceSegments`]: `tiles` writable words.
        starts: *mut u64,
        /// Number of entries of `starts`.
        tiles: u64,
    }

    /// Parameters of the kernel that counts runs of equal keys, with any number of blocks of
    /// [`BLOCK`](crate::runs::BLOCK) threads.
    CountRuns<T> {
        /// `n` readable keys.
        keys: *const T,
        /// Number of keys; not zero.
        n: u64,
        /// One writable word per block: the number of runs that begin in its piece of the keys.
        counts: *mut u64,
        /// Memory for the blocks' cells: [`SLOT_BYTES`](crate::reducer::SLOT_BYTES) per block, all zero.
        slots: *mut u64,
        /// Number of runs: 8 writable bytes, 8-aligned.
        output: *mut u64,
    }

    /// Parameters of the kernel that writes runs of equal keys, with as many blocks as [`CountRuns`].
    WriteRuns<T> {
        /// `n` readable keys.
        keys: *const T,
        /// Number of keys; not zero.
        n: u64,
        /// The blocks' counts: one readable word per block.
        counts: *const u64,
        /// The runs' keys: one writable key per run.
        heads: *mut T,
        /// Offsets of the runs and the end of the last one: one more than runs, of `offset_words`
        /// writable 32-bit words each, the lower half first.
        offsets: *mut u32,
        /// Words of an offset: 1 or 2.
        offset_words: u64,
    }

    /// Parameters of the strided copy: `output[i] = input[i * stride]`.
    CopyStrided<T> {
        /// (n - 1) · stride + 1 readable elements.
        input: *const T,
        /// Number of elements to copy.
        n: u64,
        /// Distance between the elements read.
        stride: u64,
        /// `n` writable elements, none of them in `input`.
        output: *mut T,
    }

    /// Parameters of the gather: `output[i] = input[index[i]]`.
    CopyRandom<T> {
        /// Elements, readable at every index.
        input: *const T,
        /// `n` readable indices.
        index: *const u32,
        /// Number of elements to copy.
        n: u64,
        /// `n` writable elements, none of them in `input` or `index`.
        output: *mut T,
    }

    /// Parameters of a transpose: `output[x * height + y] = input[y * width + x]`.
    Transpose<T> {
        /// The matrix: `width * height` readable elements, row after row.
        input: *const T,
        /// Number of columns of the input.
        width: u64,
        /// Number of rows of the input.
        height: u64,
        /// `width * height` writable elements, none of them in `input`.
        output: *mut T,
    }

    /// Parameters of the kernel that evicts other data from the cache by reading its own.
    Sweep {
        /// 16 readable bytes per vector, all zero, 16-byte aligned.
        memory: *mut u8,
        /// Number of 16-byte vectors.
        vectors: u64,
    }

    /// Parameters of a kernel that has none.
    Empty {}
}

/// Returns whether the struct consists of 8-byte fields without padding, as [`Arguments`] requires.
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

const _: () = assert!(
    fills::<Reduce<f32>>()
        && fills::<ReduceOnce<f32>>()
        && fills::<ReduceCut<f32>>()
        && fills::<ReducePair<f32>>()
        && fills::<ReduceWithin<f32>>()
        && fills::<ReduceCounted<f32>>()
        && fills::<ReduceBuffers<f32>>()
        && fills::<ReduceContinued<f32>>()
        && fills::<ReduceRows<f32>>()
        && fills::<ReduceTop<f32>>()
        && fills::<SelectTop<f32>>()
        && fills::<SortTop>()
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

    macro_rules! listed {
        ([$($context:tt)*] $($field:ident: $ty:ty),*) => {
            (stringify!($($context)*), [$((stringify!($field), stringify!($ty))),*])
        };
    }

    #[test]
    fn struct_macros_pass_fields_in_order() {
        let (context, fields) = ReduceOnce!(listed![a b]);
        assert_eq!(context, "a b");
        let names: [&str; 5] = fields.map(|(name, _)| name);
        assert_eq!(names, ["input", "n", "partials", "counter", "output"]);
        // Compilers print types with different spaces.
        assert!(fields[3].1.split_whitespace().flat_map(str::chars).eq("*mutu32".chars()));
        let listed = ReduceOnce::<u8>::PARAMETERS.iter().map(|parameter| parameter.name);
        assert!(listed.eq(names));
    }

    #[test]
    fn parameters_match_their_fields() {
        let arguments = CopyStrided::<f32> {
            input: core::ptr::without_provenance(1),
            n: 2,
            stride: 3,
            output: core::ptr::without_provenance_mut(4),
        };
        let start = (&raw const arguments).cast::<u8>();
        for (parameter, expected) in CopyStrided::<f32>::PARAMETERS.iter().zip(1_u64..) {
            assert_eq!(parameter.pointer, ["input", "output"].contains(&parameter.name));
            // SAFETY: each parameter is an initialised field of 8 bytes; any 8 bytes are a `u64`.
            let found = unsafe { start.add(parameter.offset).cast::<u64>().read() };
            assert_eq!((parameter.size, found), (8, expected), "{}", parameter.name);
        }
    }
}
