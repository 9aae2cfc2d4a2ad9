//! Several operations on the same elements, in as few launches as possible.

use std::{array, fmt, sync::Arc};

use warpfold_abi::fused::MOST_PARTS;

use super::{CountAt, elements};
use crate::{
    Buffer, Device, Plain, Result,
    input::{
        AnyTask, Task,
        rows::{Rows, RowsTask},
    },
    names::{Form, Nan, Op, OpKind},
    op::fused::{Parts, part},
    reducer::{Code, Codes, ElementRange, Kernels, LaunchContext, Layout},
};

/// The maximum number of operations in a tuple.
pub(crate) const MOST_TOGETHER: usize = MOST_PARTS as usize;

#[derive(Clone)]
pub(crate) struct TogetherTask {
    /// The operations whose results are written: first those of the fused launch, then those with a
    /// launch each.
    codes: Codes,
    fused: Option<Parts>,
    elements: Elements,
    address: u64,
    layout: Layout,
}

#[derive(Debug, Clone, Copy)]
enum Elements {
    Buffer { n: u64, count: Option<CountAt> },
    Rows { rows: u64, len: u64 },
}

impl TogetherTask {
    pub(crate) fn of<T: Plain>(
        wanted: &Codes,
        values: &Buffer<T>,
        count: Option<CountAt>,
        device: &Device,
    ) -> Result<Self> {
        for code in wanted.iter().flatten() {
            ElementRange::of(code.clone(), values, device)?;
        }
        let (n, address) = (values.len() as u64, values.as_device_ptr());
        let mut codes = launches(wanted, n == 0);
        // A kernel for a count in device memory has one operation.
        let fused = if count.is_none() { fuse(&mut codes) } else { None };
        let layout = layout(&codes, wanted, 1, Code::result_bytes);
        Ok(Self { codes, fused, elements: Elements::Buffer { n, count }, address, layout })
    }

    pub(crate) fn of_rows<T: Plain>(
        wanted: &Codes,
        rows: &Rows<'_, T>,
        device: &Device,
    ) -> Result<Self> {
        for code in wanted.iter().flatten() {
            rows.task(code.clone(), device)?;
        }
        let (count, len) = (rows.count(), rows.row_len() as u64);
        let mut codes = if count == 0 { Codes::default() } else { launches(wanted, false) };
        let fused = fuse(&mut codes);
        let layout = layout(&codes, wanted, count, Code::row_result_bytes).with_rows_of(len);
        let elements = Elements::Rows { rows: count as u64, len };
        Ok(Self { codes, fused, elements, address: rows.buffer().as_device_ptr(), layout })
    }

    /// Returns the launches, and the index of the first result of each.
    fn tasks(&self) -> impl Iterator<Item = (AnyTask, usize)> {
        let &Self { elements, address, .. } = self;
        let alone = self.fused.map_or(0, |parts| parts.len() as usize);
        let fused = self.fused.map(|parts| (Code::Fused(parts), 0));
        let alone = self.codes.iter().flatten().zip(0..).skip(alone);
        let launches = fused.into_iter().chain(alone.map(|(code, first)| (code.clone(), first)));
        launches.map(move |(code, first)| (elements.task(code, address), first))
    }
}

impl Elements {
    fn task(self, code: Code, address: u64) -> AnyTask {
        match self {
            Self::Buffer { n, count } => elements(ElementRange { code, n, address }, count),
            Self::Rows { rows, len } => RowsTask { code, rows, len, pitch: len, address }.task(),
        }
    }
}

impl Task for TogetherTask {
    fn is_empty(&self) -> bool {
        self.codes.iter().all(Option::is_none)
    }

    fn codes(&self) -> [Option<&Code>; MOST_TOGETHER] {
        self.codes.each_ref().map(Option::as_ref)
    }

    fn layout(&self) -> Layout {
        self.layout
    }

    fn pollable_bytes(&self) -> Option<u64> {
        self.tasks().map(|(task, _)| task.pollable_bytes()).sum()
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.tasks().try_for_each(|(task, _)| task.prepare(kernels))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        self.tasks().try_for_each(|(task, first)| {
            let output = context.output + (self.layout.first_word(first) * size_of::<u64>()) as u64;
            // SAFETY: each launch has the output words of its results, and the caller meets the other
            // conditions.
            unsafe { task.enqueue(kernels, &LaunchContext { output, ..*context }) }
        })
    }
}

impl fmt::Debug for TogetherTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codes, fused, elements, address, .. } = self;
        let codes: Vec<_> = codes.iter().flatten().collect();
        let fused = fused.map_or(0, Parts::len) as usize;
        f.debug_struct("Together")
            .field("fused", &&codes[..fused])
            .field("codes", &&codes[fused..])
            .field("elements", elements)
            .field("address", address)
            .finish()
    }
}

/// Returns the launches that produce all wanted results, one for each operation, and the layout of the
/// results. If the input is empty (`of_none`), only operations whose kernels compute the result of an
/// empty input are launched.
pub(crate) fn together(wanted: &Codes, of_none: bool) -> (Codes, Layout) {
    let codes = launches(wanted, of_none);
    let layout = layout(&codes, wanted, 1, Code::result_bytes);
    (codes, layout)
}

/// Returns the layout of `count` results of each of `codes`, from which those of `wanted` are taken.
fn layout(codes: &Codes, wanted: &Codes, count: usize, bytes: fn(&Code) -> usize) -> Layout {
    let places = wanted.iter().map(|wanted| {
        let mut written = (0..).zip(codes.iter().flatten());
        let found = wanted.as_ref().and_then(|wanted| {
            written.find_map(|(result, code)| Some((result, start_within(code, wanted)?)))
        });
        found.unwrap_or_default()
    });
    Layout::of_several(count, codes.iter().flatten().map(bytes), places)
}

/// Returns the fewest operations whose results contain all wanted ones.
fn launches(wanted: &Codes, of_none: bool) -> Codes {
    let launched = |code: &&Code| !of_none || code.launches_when_empty();
    let wanted = wanted.each_ref().map(|code| code.as_ref().filter(launched));
    let is_covered = |index: usize, code: &Code| {
        let mut others = wanted.iter().enumerate().filter_map(|(other, code)| Some((other, (*code)?)));
        // Among equal operations, the first is launched.
        others.any(|(other, by)| {
            start_within(by, code).is_some() && (other < index || start_within(code, by).is_none())
        })
    };
    let mut codes: Codes =
        array::from_fn(|index| wanted[index].filter(|code| !is_covered(index, code)).cloned());
    // One kernel finds both the minimum and the maximum.
    for nan in [Nan::Propagate, Nan::Skip] {
        let position = |kind: OpKind| {
            let wanted = Op { nan, ..kind.plain() };
            codes.iter().position(|code| matches!(code, Some(Code::BuiltIn(op, _)) if *op == wanted))
        };
        if let (Some(min), Some(max)) = (position(OpKind::Min), position(OpKind::Max))
            && let Some(Code::BuiltIn(op, _)) = &mut codes[min]
        {
            op.kind = OpKind::MinMax;
            codes[max] = None;
        }
    }
    codes
}

/// Chooses the parts of a fused kernel for the operations, if it has two or more. Moves these operations
/// to the front, in the order of the parts.
fn fuse(codes: &mut Codes) -> Option<Parts> {
    let built_in = |code: &Code| match code {
        Code::BuiltIn(op, dtype) => Some((*op, *dtype)),
        _ => None,
    };
    let (_, of) = codes.iter().flatten().find_map(built_in)?;
    let mut parts = codes.each_ref().map(|code| {
        let (op, dtype) = built_in(code.as_ref()?)?;
        part(op, dtype).filter(|_| dtype == of)
    });
    let chosen = Parts::of(parts.iter().flatten().map(|(bit, _)| *bit), of)?;
    // Those without a part stay in their order.
    let rank = |part: Option<(u32, Op)>| part.map_or(u32::MAX, |(bit, _)| bit);
    let mut order: [usize; MOST_TOGETHER] = array::from_fn(|at| at);
    order.sort_by_key(|&at| rank(parts[at]));
    *codes = order.map(|at| match parts[at].take() {
        Some((_, written)) => Some(Code::BuiltIn(written, of)),
        None => codes[at].take(),
    });
    Some(chosen)
}

/// Returns the offset at which the result of `result` contains the result of `wanted`, with the same
/// bits as from the kernel of `wanted`.
fn start_within(result: &Code, wanted: &Code) -> Option<u8> {
    match (result, wanted) {
        (Code::BuiltIn(op, dtype), Code::BuiltIn(wanted, _)) => match (op.kind, wanted.kind) {
            _ if op == wanted => Some(0),
            _ if op.nan != wanted.nan || op.form != wanted.form || op.form != Form::OUTPUT => None,
            (OpKind::MinMax, OpKind::Min) => Some(0),
            (OpKind::MinMax, OpKind::Max) => Some(dtype.size() as u8),
            // The element follows the index. For floats, it may differ from `Min` in the sign of zero.
            (OpKind::ArgMin, OpKind::Min) | (OpKind::ArgMax, OpKind::Max) if !dtype.is_float() => {
                Some(size_of::<u64>() as u8)
            }
            _ => None,
        },
        (Code::Expression(one), Code::Expression(other)) => (one == other).then_some(0),
        (Code::Custom(one), Code::Custom(other)) => Arc::ptr_eq(one, other).then_some(0),
        _ => None,
    }
}
