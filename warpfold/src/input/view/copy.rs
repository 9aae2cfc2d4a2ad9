//! Views with more axes than the kernels take.

use super::Along;
use crate::{
    Buffer, Element, Outputs, Plain, Result, op,
    reducer::{Code, Reducer},
};

impl Reducer {
    /// Copies the elements of each result to contiguous rows if the kernels do not take the axes.
    /// Returns `None` if they do, or if no copy helps.
    pub(super) fn gathered_rows<T: Plain>(
        &self,
        along: &Along<'_, T>,
        code: &Code,
    ) -> Result<Option<Buffer<T>>> {
        if along.count() == 0 || along.has_few_axes(code.is_indexed()) {
            return Ok(None);
        }
        // The elements are copied as integers of their size, which keeps all bits.
        match size_of::<T>() {
            1 => self.gathered::<T, u8>(along),
            2 => self.gathered::<T, u16>(along),
            4 => self.gathered::<T, u32>(along),
            8 => self.gathered::<T, u64>(along),
            _ => Ok(None),
        }
    }

    /// Copies the elements of each result to contiguous rows, as integers `W` of the elements' size.
    /// Returns `None` if a step needs more axes than the kernels take.
    ///
    /// Each step moves one run of neighbouring reduced axes to the end. A view without gaps then has
    /// three axes: those before the run, those after it, and the run.
    fn gathered<T: Plain, W: Element>(&self, along: &Along<'_, T>) -> Result<Option<Buffer<T>>> {
        let (view, reduced) = along.parts();
        let mut words = view.buffer().cast::<W>()?;
        let (mut lens, mut reduced) = (view.shape().to_vec(), reduced.to_vec());
        let strides: Vec<isize> = view.strides().iter().map(|&stride| stride as isize).collect();
        let stream = self.device().stream()?;
        let mut copied = false;
        let mut left = reduced.iter().filter(|&&reduced| reduced).count();
        while left > 0 {
            let whole = if copied {
                words.view(&lens)?
            } else {
                words.view_strided(view.offset(), &lens, &strides)?
            };
            let first = reduced.iter().position(|&reduced| reduced).expect("some are left");
            let count = reduced[first..].iter().take_while(|&&reduced| reduced).count().min(left);
            let after = first + count;
            let order: Vec<_> = (0..first).chain(after..lens.len()).chain(first..after).collect();
            let moved = whole.permuted(&order)?.each();
            if !moved.has_few_axes(false) {
                return Ok(None);
            }
            let mut copy = Outputs::<W>::of_any_bytes(self.device(), moved.count())?;
            self.on(&stream).reduce_into(op::Max, moved, &mut copy)?;
            (words, copied, left) = (copy.into_buffer(), true, left - count);
            lens = order.iter().map(|&axis| lens[axis]).collect();
            reduced = order.iter().map(|&axis| reduced[axis]).collect();
        }
        words.cast::<T>().map(Some)
    }
}
