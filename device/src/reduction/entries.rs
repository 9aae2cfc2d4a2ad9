//! The macros that declare a reducer's kernels.

/// Declares the kernels of [`Reduction`](crate::reduction::Reduction)s, under names that
/// `warpfold::custom` finds. A name is an identifier, unique in the crate of kernels, which needs
/// `#![feature(abi_ptx, asm_experimental_arch, macro_metavar_expr_concat)]`.
///
/// ```ignore
/// warpfold_device::reducer! {
///     complex_sum = ComplexSum;
///     running_statistics = RunningStatistics;
/// }
/// ```
///
/// Declares for each reduction the kernels of [`reduction`](crate::reduction) that take any reduction,
/// those of compute capability 9.0 if the crate is compiled for it (`--cfg warpfold_sm_90`), and two
/// small ones: [`describe`](crate::reduction::describe()), with which the host compares types when it
/// loads the kernels, and [`laws`](crate::reduction::laws()), with which
/// `warpfold::custom::Custom::check` tests the laws of the reduction.
#[macro_export]
macro_rules! reducer {
    ($($name:ident = $Reduction:ty;)+) => {$(
        #[doc(hidden)]
        mod ${concat(reducer_, $name)} {
            #[allow(unused_imports)]
            use super::*;

            use $crate::abi::reducer::{AXIS_BLOCK, PARTIAL_WORDS};

            $crate::shared_array! {
                fn warp_values: ${concat(reducer_, $name, _warp_values)} = [u32; PARTIAL_WORDS * 32]
            }
            $crate::shared_array! {
                fn column_values: ${concat(reducer_, $name, _column_values)} =
                    [u32; PARTIAL_WORDS * AXIS_BLOCK]
            }
            $crate::shared_array! {
                fn scratch: ${concat(reducer_, $name, _scratch)} = [u32; $crate::abi::segments::scratch_words(PARTIAL_WORDS)]
            }
            $crate::shared_array! {
                fn staged: ${concat(reducer_, $name, _staged)} =
                    [u32; $crate::abi::segments::layout(
                        size_of::<T>() as u32, $crate::reduction::in_place::<F>()).words]
            }

            $crate::sm_90_only! {
                $crate::shared_array! {
                    fn landed: ${concat(reducer_, $name, _landed)} =
                        [u64; $crate::abi::reducer::BULK_STAGES]
                }
                $crate::dynamic_shared! { fn tiles: ${concat(reducer_, $name, _tiles)} }

                #[inline(always)]
                fn ring() -> $crate::reduction::BulkRing {
                    $crate::reduction::BulkRing { tiles: tiles(), landed: *landed() }
                }
            }

            type F = $crate::reduction::Unrolled<$Reduction>;
            type T = <F as $crate::reduction::Reduction>::Element;

            $crate::reducer_kernels! { $name: F, *warp_values(), ring() }
            $crate::reducer_grid_variants! { $name: F, *warp_values() }
            $crate::reducer_rows_kernels! { $name: F, *warp_values() }
            $crate::reducer_axis_kernels! { $name: F, *column_values() }
            $crate::reducer_view_kernels! { $name: F, *column_values() }
            $crate::reducer_segments_kernel! {
                $name: F, $crate::reduction::SegmentsMemory { staged: *staged(), scratch: *scratch() }
            }
            $crate::reducer_kernel! {
                reducer_describe $name grid = describe<$Reduction>(DescribeReduction)
            }
            $crate::reducer_kernel! { reducer_laws $name grid = laws<$Reduction>(ReduceLaws) }
        }
    )+};
}

/// Declares the kernels for buffers. `T` must name the element type where the macro is called.
/// `$warp_values` is shared memory for the warps' partial results, `$ring` the ring of `bulk`.
#[doc(hidden)]
#[macro_export]
macro_rules! reducer_kernels {
    ($name:ident: $F:ty, $warp_values:expr, $ring:expr) => {
        $crate::reducer_kernel! { reducer $name grid = grid<$F>(ReduceCut, $warp_values) }
        $crate::sm_90_only! {
            $crate::reducer_kernel! { reducer $name bulk = bulk<$F>(ReduceCut, $warp_values, $ring) }
        }
    };
}

/// Declares the variants of `grid`: `counted`, `continued` and `buffers`.
#[doc(hidden)]
#[macro_export]
macro_rules! reducer_grid_variants {
    ($name:ident: $F:ty, $warp_values:expr) => {
        $crate::reducer_kernel! { reducer_counted $name grid = counted<$F>(ReduceCounted, $warp_values) }
        $crate::reducer_kernel! {
            reducer_continued $name grid =
                continued<$crate::reduction::ContinuedOf<$F>>(ReduceContinued, $warp_values)
        }
        $crate::reducer_kernel! { reducer_buffers $name grid = buffers<$F>(ReduceBuffers, $warp_values) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! reducer_rows_kernels {
    ($name:ident: $F:ty, $warp_values:expr) => {
        $crate::reducer_kernel! { reducer_rows $name grid = rows_grid<$F>(ReduceRows, $warp_values) }
        $crate::reducer_kernel! { reducer_rows $name warp = rows_warp<$F>(ReduceRows) }
        $crate::reducer_kernel! { reducer_rows $name groups = rows_groups<$F>(ReduceRows) }
        $crate::reducer_kernel! { reducer_rows $name elements = rows_elements<$F>(ReduceRows) }
        $crate::reducer_kernel! { reducer_rows $name many_groups = rows_many_groups<$F>(ReduceRows) }
        $crate::reducer_kernel! { reducer_rows $name few_groups = rows_few_groups<$F>(ReduceRows) }
        $crate::reducer_kernel! { reducer_rows $name few_elements = rows_few_elements<$F>(ReduceRows) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! reducer_axis_kernels {
    ($name:ident: $F:ty, $column_values:expr) => {
        $crate::reducer_kernel! { reducer_axis $name packs = axis_packs<$F>(ReduceAxis, $column_values) }
        $crate::reducer_kernel! { reducer_axis $name spaced = axis_spaced<$F>(ReduceAxis, $column_values) }
        $crate::reducer_kernel! {
            reducer_axis $name singles = axis_singles<$F>(ReduceAxis, $column_values)
        }
        $crate::reducer_kernel! { reducer_axis $name lanes = axis_lanes<$F>(ReduceAxis) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! reducer_view_kernels {
    ($name:ident: $F:ty, $values:expr) => {
        $crate::reducer_kernel! { reducer_view $name groups = view_groups<$F>(ReduceView, $values) }
        $crate::reducer_kernel! { reducer_view $name elements = view_elements<$F>(ReduceView, $values) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! reducer_segments_kernel {
    ($name:ident: $F:ty, $memory:expr) => {
        $crate::reducer_kernel! { reducer_segments $name path = segments<$F>(ReduceSegments, $memory) }
    };
}

/// Declares the kernel `<prefix>_<name>_<kernel>`, which calls a function of
/// [`reduction`](crate::reduction) and has the fields of a struct of `warpfold-abi` as parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! reducer_kernel {
    ($prefix:ident $name:ident $kernel:ident =
        $body:ident<$F:ty>($Arguments:ident $(, $memory:expr)*)) => {
        $crate::abi::$Arguments!(
            $crate::reducer_kernel![$prefix $name $kernel $body $F, $Arguments $(, $memory)*]
        );
    };
    // The struct's macro calls this arm, with the fields of the struct.
    ([$prefix:ident $name:ident $kernel:ident $body:ident $F:ty, $Arguments:ident $(, $memory:expr)*]
        $($field:ident: $field_ty:ty),*) => {
        $crate::kernel! {
            #[doc = concat!("`", stringify!($body), "` for `", stringify!($name), "`.")]
            // The host finds the kernel by its symbol.
            #[allow(unreachable_pub)]
            pub fn ${concat($prefix, _, $name, _, $kernel)}($($field: $field_ty),*) {
                let arguments = $crate::abi::arguments::$Arguments { $($field),* };
                // SAFETY: the conditions of the called function are those of the kernel.
                unsafe { $crate::reduction::$body::<$F>(arguments $(, $memory)*) }
            }
        }
    };
}

/// Expands its tokens for compute capability 9.0 only. The calling crate need not declare the `cfg`.
#[cfg(warpfold_sm_90)]
#[doc(hidden)]
#[macro_export]
macro_rules! sm_90_only {
    ($($tokens:tt)*) => { $($tokens)* };
}

#[cfg(not(warpfold_sm_90))]
#[doc(hidden)]
#[macro_export]
macro_rules! sm_90_only {
    ($($tokens:tt)*) => {};
}
