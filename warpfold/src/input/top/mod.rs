//! Top-k: the k largest or smallest elements of a buffer, or of every row of a matrix.

mod launch;
mod task;

pub(crate) use launch::SelectLaunch;
use warpfold_abi::reducer::MOST_TOP;

use crate::{
    Buffer, Count, Device, Element, Error, Located, Outputs, Result,
    input::{
        AnyTask,
        buffer::ReduceElements,
        rows::{ReduceRows, Rows, RowsTask},
    },
    names::{Dtype, OpKind, TopOp},
    op::{TopK, kind},
    reducer::{Code, Plan, require_few},
};

/// The maximum number of rows: each may have a warp, and a grid has fewer than 2^31 blocks.
const MOST_ROWS: u64 = 1 << 32;

#[derive(Debug, Clone)]
pub(crate) struct TopTask {
    pub(crate) op: TopOp,
    pub(crate) dtype: Dtype,
    pub(crate) rows: u64,
    /// Elements per row; not zero if there is a row.
    pub(crate) len: u64,
    /// Results per row; at most `len`.
    pub(crate) k: u64,
    /// A multiple of an element's size.
    pub(crate) address: u64,
}

impl TopTask {
    pub(crate) fn of_buffer<T: Element, O: TopK>(
        op: O,
        buffer: &Buffer<T>,
        device: &Device,
    ) -> Result<Self> {
        device.require("buffer", buffer.device())?;
        let k = check(op, buffer.len())?.min(buffer.len());
        Ok(Self {
            op: O::OP,
            dtype: T::DTYPE,
            rows: 1,
            len: buffer.len() as u64,
            k: k as u64,
            address: buffer.as_device_ptr(),
        })
    }

    pub(crate) fn of_rows<T: Element, O: TopK>(
        op: O,
        rows: &Rows<'_, T>,
        device: &Device,
    ) -> Result<Self> {
        let values = rows.buffer();
        let k = check_rows(op, values.len(), rows.row_len())? as u64;
        let (rows, len) = (rows.count() as u64, rows.row_len() as u64);
        let task = Self { rows, len, k, ..Self::of_buffer(op, values, device)? };
        if rows > MOST_ROWS {
            let reason = format!("{rows} rows; give at most {MOST_ROWS}, of a slice of the buffer");
            return Err(Error::TopK { reason });
        }
        Ok(task)
    }

    /// Returns the task of `ArgMax` or `ArgMin`, which has the same results, if k is 1.
    pub(crate) fn of_one(&self) -> Option<AnyTask> {
        let &Self { op, dtype, rows, len, k, address } = self;
        let op = match op {
            TopOp::Largest => OpKind::ArgMax.plain(),
            TopOp::Smallest => OpKind::ArgMin.plain(),
        };
        let code = Code::BuiltIn(op, dtype);
        (k == 1).then(|| RowsTask { code, rows, len, pitch: len, address }.task())
    }

    pub(crate) fn count(&self) -> usize {
        (self.rows * self.k) as usize
    }

    /// Returns whether the kernels for a small k find the results.
    pub(crate) fn is_small(&self) -> bool {
        self.k <= MOST_TOP.into()
    }
}

pub(crate) fn check<O: TopK>(op: O, elements: usize) -> Result<usize> {
    let k = op.k();
    if k == 0 {
        let reason = format!("the {} 0 elements are asked for; give 1 or more", O::OP);
        return Err(Error::TopK { reason });
    }
    require_few(elements as u64)?;
    Ok(k)
}

pub(crate) fn check_rows<O: TopK>(op: O, elements: usize, len: usize) -> Result<usize> {
    let k = check(op, elements)?;
    if k > len {
        let reason =
            format!("the {} {k} elements of rows of {len} are asked for; give at most {len}", O::OP);
        return Err(Error::TopK { reason });
    }
    Ok(k)
}

impl<T: Element, O: TopK> ReduceElements<O, T> for kind::Top {
    type Output = Vec<Located<T>>;
    type Left = Outputs<Located<T>>;

    fn plan<'p>(
        op: O,
        values: &'p Buffer<T>,
        _count: Option<&'p Count<'p>>,
        device: &Device,
    ) -> Result<Plan<'p, Self::Output>> {
        let task = TopTask::of_buffer(op, values, device)?;
        let is_small = task.is_small();
        let mut plan = Plan::of_top(task, values);
        if let Some(several) = &mut plan.several
            && is_small
        {
            // The kernel writes the results to host memory, which has room for them.
            several.copy = None;
        }
        Ok(plan)
    }
}

impl<T: Element, O: TopK> ReduceRows<O, T> for kind::Top {
    type Output = Vec<Located<T>>;
    type Left = Outputs<Located<T>>;

    fn plan<'p>(op: O, rows: Rows<'p, T>, device: &Device) -> Result<Plan<'p, Self::Output>> {
        Ok(Plan::of_top(TopTask::of_rows(op, &rows, device)?, rows.buffer()))
    }
}
