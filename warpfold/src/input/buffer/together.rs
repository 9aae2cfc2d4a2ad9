//! Several operations on the same elements, in as few launches as possible.

use std::{array, fmt, iter, sync::Arc};

use super::{CountAt, elements};
use crate::{
    Buffer, Device, Plain, Result,
    element::RESULT_WORDS,
    input::{AnyTask, Task},
    names::{Form, Nan, Op, OpKind},
    reducer::{Code, Codes, ElementRange, Kernels, LaunchContext, Layout},
};

/// The maximum number of operations in a tuple.
pub(crate) const MOST_TOGETHER: usize = 6;

#[derive(Clone)]
pub(crate) struct TogetherTask {
    /// One operation per launch.
    codes: Codes,
    n: u64,
    address: u64,
    count: Option<CountAt>,
    layout: Layout,
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
        let (codes, layout) = together(wanted, n == 0);
        Ok(Self { codes, n, address, count, layout })
    }

    fn tasks(&self) -> impl Iterator<Item = AnyTask> {
        let &Self { n, address, count, .. } = self;
        self.codes
            .iter()
            .flatten()
            .map(move |code| elements(ElementRange { code: code.clone(), n, address }, count))
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
        self.tasks().map(|task| task.pollable_bytes()).sum()
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.tasks().try_for_each(|task| task.prepare(kernels))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, context: &LaunchContext) -> Result<()> {
        let bytes = (RESULT_WORDS * size_of::<u64>()) as u64;
        let outputs = iter::successors(Some(context.output), |output| Some(output + bytes));
        self.tasks().zip(outputs).try_for_each(|(task, output)| {
            // SAFETY: each launch has its own output words, and the caller meets the other conditions.
            unsafe { task.enqueue(kernels, &LaunchContext { output, ..*context }) }
        })
    }
}

impl fmt::Debug for TogetherTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codes, n, address, .. } = self;
        let codes: Vec<_> = codes.iter().flatten().collect();
        f.debug_struct("Together")
            .field("codes", &codes)
            .field("n", n)
            .field("address", address)
            .finish()
    }
}

/// Returns the launches that produce all wanted results, and the layout of the results. If the input is
/// empty (`of_none`), only operations whose kernels compute the result of an empty input are launched.
pub(crate) fn together(wanted: &Codes, of_none: bool) -> (Codes, Layout) {
    let launched = |code: &&Code| !of_none || code.launches_when_empty();
    let wanted = wanted.each_ref().map(|code| code.as_ref().filter(launched));
    let codes = launches(wanted);
    let mut layout = Layout::default();
    for (bytes, code) in layout.bytes.iter_mut().zip(codes.iter().flatten()) {
        *bytes = u8::try_from(code.result_bytes()).expect("at most 64 bytes");
    }
    for (place, wanted) in layout.places.iter_mut().zip(wanted) {
        let mut launches = (0..).zip(codes.iter().flatten());
        let found = wanted.and_then(|wanted| {
            launches.find_map(|(launch, code)| Some((launch, start_within(code, wanted)?)))
        });
        *place = found.unwrap_or_default();
    }
    (codes, layout)
}

/// Returns the fewest kernels that produce all wanted results.
fn launches(wanted: [Option<&Code>; MOST_TOGETHER]) -> Codes {
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
        (Code::Custom(one), Code::Custom(other)) => Arc::ptr_eq(one, other).then_some(0),
        _ => None,
    }
}
