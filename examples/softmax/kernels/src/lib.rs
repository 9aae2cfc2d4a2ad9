//! Softmax over the rows of a matrix: `output[r][c] = exp(input[r][c]) / Σ exp(input[r][k])`.
//!
//! A block computes a row, and reads it twice. The first pass finds the row's largest element and the
//! sum of the exponentials relative to it. This pair is a value ([`ExpSum`]) with an operation
//! ([`Merge`]), by which `block::all_reduce` combines the pairs of the threads. The second pass writes
//! the output.
//!
//! # Accuracy
//! An element that is d below the largest of its n columns has a relative error of at most 2⁻²¹ (s + 12
//! + d + ln n), plus an absolute error of 2⁻¹⁴⁶. Here s is n / (4 · threads of a block), rounded up.
//! `ex2.approx.f32` is within 2 units in the last place; every other operation rounds once.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]

use core::arch::asm;

use warpfold_device::{
    block, kernel,
    memory::{self, Cached},
    op::{Max, Operation, Sum},
    shared_array,
    thread::{self, Few, block_dim_x, block_idx_x, thread_idx_x},
    value,
};

/// Elements per vector of 16 bytes.
const GROUP: u64 = 4;

value! {
    /// A sum of exponentials, relative to the largest element. It stands for `sum · exp(max)`.
    pub struct ExpSum {
        /// The largest element, at least `f32::MIN`.
        pub max: f32,
        /// The sum of `exp(element - max)`.
        pub sum: f32,
    }
}

impl ExpSum {
    /// Returns the sum with these elements added.
    #[inline(always)]
    fn with<const N: usize>(self, elements: [f32; N]) -> Self
    where
        [f32; N]: Few<f32>,
    {
        let max = Max::combine(self.max, thread::reduce(elements, Max));
        let sum = thread::reduce(elements.map(|element| exp(element - max)), Sum);
        Self { max, sum: self.sum * exp(self.max - max) + sum }
    }
}

/// Combines two sums of exponentials: the one relative to the smaller maximum is scaled down.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl Operation<ExpSum> for Merge {
    /// The value for no elements. It uses `f32::MIN` instead of −∞, so that the difference of two maxima
    /// is a number. So an element of −∞ adds nothing, and a row of −∞ alone becomes 0 · ∞, which is NaN
    /// as required.
    const IDENTITY: ExpSum = ExpSum { max: f32::MIN, sum: 0.0 };

    #[inline(always)]
    fn combine(a: ExpSum, b: ExpSum) -> ExpSum {
        let max = Max::combine(a.max, b.max);
        ExpSum { max, sum: a.sum * exp(a.max - max) + b.sum * exp(b.max - max) }
    }
}

/// Returns e^`x`, by the hardware's power of two; NaN for NaN, and exactly 1 for 0.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let power;
    // SAFETY: the instruction computes on registers, and accesses no memory.
    unsafe {
        asm!(
            "ex2.approx.f32 {0}, {1};",
            out(reg32) power, in(reg32) x * core::f32::consts::LOG2_E,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    power
}

/// A row, divided among the block's threads: 16-byte vectors at multiples of 16, and at most three
/// single elements before and after them.
struct Row {
    input: *const f32,
    output: *mut f32,
    columns: u64,
    /// Elements before the first vector.
    head: u64,
    groups: u64,
    /// `true` if the vectors are at multiples of 16 in the output as well.
    wide_output: bool,
}

impl Row {
    /// # Safety
    /// Same as [`softmax_rows_f32`].
    #[inline(always)]
    unsafe fn of_block(input: *const f32, columns: u64, output: *mut f32) -> Self {
        let start = (u64::from(block_idx_x()) * columns) as usize;
        // SAFETY: both pointers have `columns` elements per block, so this block's row is within them.
        let (input, output) = unsafe { (input.add(start), output.add(start)) };
        let place = |address: usize| (address / size_of::<f32>()) as u64 % GROUP;
        let head = ((GROUP - place(input.addr())) % GROUP).min(columns);
        let groups = (columns - head) / GROUP;
        let wide_output = place(input.addr()) == place(output.addr());
        Self { input, output, columns, head, groups, wide_output }
    }

    /// Calls `visit` with the column of each vector of this thread.
    #[inline(always)]
    fn for_each_group(&self, mut visit: impl FnMut(usize)) {
        let mut group = u64::from(thread_idx_x());
        while group < self.groups {
            visit((self.head + group * GROUP) as usize);
            group += u64::from(block_dim_x());
        }
    }

    /// Calls `visit` with the column of each single element of this thread.
    #[inline(always)]
    fn for_each_single(&self, mut visit: impl FnMut(usize)) {
        let grouped = self.groups * GROUP;
        let mut single = u64::from(thread_idx_x());
        while single < self.columns - grouped {
            let column = if single < self.head { single } else { single + grouped };
            visit(column as usize);
            single += u64::from(block_dim_x());
        }
    }

    /// # Safety
    /// Same as [`softmax_rows_f32`].
    #[inline(always)]
    unsafe fn sum_exp(&self) -> ExpSum {
        let mut sum = Merge::IDENTITY;
        // SAFETY: columns are within the row, which is readable; vectors start at multiples of 16.
        self.for_each_group(|column| unsafe {
            sum = sum.with(memory::load16::<f32, Cached>(self.input.add(column)));
        });
        // SAFETY: columns are within the row, which is readable.
        self.for_each_single(|column| unsafe { sum = sum.with([*self.input.add(column)]) });
        sum
    }

    /// # Safety
    /// Same as [`softmax_rows_f32`], and `whole` is the sum of the whole row.
    #[inline(always)]
    unsafe fn write(&self, whole: ExpSum) {
        let factor = 1.0 / whole.sum;
        let softmax = |element: f32| exp(element - whole.max) * factor;
        // SAFETY: columns are within the row, which is readable in `input` and writable in `output`;
        // vectors start at multiples of 16, in `output` if `wide_output` is set.
        self.for_each_group(|column| unsafe {
            let group = memory::load16::<f32, Cached>(self.input.add(column)).map(softmax);
            let to = self.output.add(column);
            if self.wide_output {
                memory::store16(to, group);
            } else {
                let [a, b, c, d] = group;
                (*to, *to.add(1), *to.add(2), *to.add(3)) = (a, b, c, d);
            }
        });
        // SAFETY: columns are within the row, which is readable in `input` and writable in `output`.
        self.for_each_single(|column| unsafe {
            *self.output.add(column) = softmax(*self.input.add(column));
        });
    }
}

// The memory of `block::all_reduce`: one value per warp, and one for the block.
shared_array! { fn scratch: softmax_rows_scratch = [u32; block::scratch_words::<ExpSum>()] }

kernel! {
    /// Computes the softmax of each row.
    ///
    /// There is one block per row, of up to 1024 threads, which need not be whole warps. Block barriers:
    /// 1 with whole warps, else 2. 264 bytes of shared memory. Reads each element twice, the second time
    /// mostly from a cache, and writes it once, 16 bytes at a time if input and output have the same
    /// alignment modulo 16.
    ///
    /// A row with NaN or +∞, or with −∞ alone, is NaN throughout; −∞ beside numbers gives 0.
    ///
    /// # Safety
    /// - Blocks are one-dimensional, and there is one for each row.
    /// - `input` is readable and `output` writable for `columns` elements per block, at multiples of 4
    ///   bytes, and they do not overlap.
    pub fn softmax_rows_f32(input: *const f32, columns: u64, output: *mut f32) {
        // SAFETY: the caller meets the conditions of this kernel, which are those of `Row`'s functions.
        // All threads of the block call the reduction once, even without a share of the row.
        unsafe {
            let row = Row::of_block(input, columns, output);
            row.write(block::all_reduce(row.sum_exp(), Merge, scratch()));
        }
    }
}
