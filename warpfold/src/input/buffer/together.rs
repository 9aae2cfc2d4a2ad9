//! Several operations on the same elements, in no more launches than they need.

use std::{array, fmt, iter, sync::Arc};

use super::{CountAt, elements};
use crate::{
    Buffer, Device, Plain, Result,
    element::RESULT_WORDS,
    input::{AnyTask, Task},
    names::{Nan, Op, OpKind},
    reducer::{Code, Codes, Kernels, Layout, Places, Span},
};

/// Most operations that are reduced together.
pub(crate) const MOST_TOGETHER: usize = 6;

/// Several operations on the elements of a buffer.
#[derive(Clone)]
pub(crate) struct TogetherTask {
    /// Those of each launch.
    codes: Codes,
    /// How many elements there are.
    n: u64,
    /// Where the first one is.
    address: u64,
    /// What says how many to take, if not the host.
    count: Option<CountAt>,
    layout: Layout,
}

impl TogetherTask {
    /// Operations on the elements of a buffer, which must be on `device` and not too many, or on as many
    /// of them as a count says if there is one.
    pub(crate) fn of<T: Plain>(
        wanted: &Codes,
        values: &Buffer<T>,
        count: Option<CountAt>,
        device: &Device,
    ) -> Result<Self> {
        for code in wanted.iter().flatten() {
            Span::of(code.clone(), values, device)?;
        }
        let (n, address) = (values.len() as u64, values.as_device_ptr());
        let (codes, layout) = together(wanted, n == 0);
        Ok(Self { codes, n, address, count, layout })
    }

    /// Returns its launches, as tasks of their own.
    fn tasks(&self) -> impl Iterator<Item = AnyTask> {
        let &Self { n, address, count, .. } = self;
        self.codes
            .iter()
            .flatten()
            .map(move |code| elements(Span { code: code.clone(), n, address }, count))
    }

    /// Where the words of each launch are, from those of the first on.
    fn outputs(first: u64) -> impl Iterator<Item = u64> {
        iter::successors(Some(first), |output| Some(output + (RESULT_WORDS * size_of::<u64>()) as u64))
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

    fn seen_at_end(&self) -> Option<u64> {
        self.tasks().map(|task| task.seen_at_end()).sum()
    }

    fn prepare(&self, kernels: &Kernels) -> Result<()> {
        self.tasks().try_for_each(|task| task.prepare(kernels))
    }

    unsafe fn enqueue(&self, kernels: &Kernels, places: &Places) -> Result<()> {
        let mut tasks = self.tasks().zip(Self::outputs(places.output));
        tasks.try_for_each(|(task, output)| {
            // SAFETY: each launch has words of its own; the caller's contract.
            unsafe { task.enqueue(kernels, &Places { output, ..*places }) }
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

/// Returns the launches that give all wanted results, and where each result is stored. If `of_none`,
/// there are no elements, and only operations are launched that have a result of none.
pub(crate) fn together(wanted: &Codes, of_none: bool) -> (Codes, Layout) {
    let launched = |code: &&Code| !of_none || code.reduces_none();
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

/// Returns the fewest kernels that give all wanted results.
fn launches(wanted: [Option<&Code>; MOST_TOGETHER]) -> Codes {
    let is_given = |(at, code): (usize, &Code)| {
        let mut others = wanted.iter().enumerate().filter_map(|(other, code)| Some((other, (*code)?)));
        // Of those that are the same the first is launched.
        others.any(|(other, by)| {
            start_within(by, code).is_some() && (other < at || start_within(code, by).is_none())
        })
    };
    let mut codes: Codes = array::from_fn(|at| wanted[at].filter(|code| !is_given((at, code))).cloned());
    let at = |codes: &Codes, wanted: Op| {
        codes.iter().position(|code| matches!(code, Some(Code::BuiltIn(op, _)) if *op == wanted))
    };
    // The smallest and the largest element have a kernel that finds both, with NaN or without.
    for nan in [Nan::Propagate, Nan::Skip] {
        let of = |kind: OpKind| Op { nan, ..kind.plain() };
        if let (Some(min), Some(max)) = (at(&codes, of(OpKind::Min)), at(&codes, of(OpKind::Max)))
            && let Some(Code::BuiltIn(op, _)) = &mut codes[min]
        {
            op.kind = OpKind::MinMax;
            codes[max] = None;
        }
    }
    codes
}

/// The byte of a kernel's result at which that of an operation begins, if it is there with all its bits.
fn start_within(result: &Code, wanted: &Code) -> Option<u8> {
    match (result, wanted) {
        (Code::BuiltIn(op, dtype), Code::BuiltIn(wanted, _)) => match (op.kind, wanted.kind) {
            _ if op == wanted => Some(0),
            _ if op.nan != wanted.nan => None,
            (OpKind::MinMax, OpKind::Min) => Some(0),
            (OpKind::MinMax, OpKind::Max) => Some(dtype.size() as u8),
            // Behind the index. Of floats it is the first of equal elements, whose bits may differ.
            (OpKind::ArgMin, OpKind::Min) | (OpKind::ArgMax, OpKind::Max) if !dtype.is_float() => {
                Some(size_of::<u64>() as u8)
            }
            _ => None,
        },
        (Code::Custom(one), Code::Custom(other)) => Arc::ptr_eq(one, other).then_some(0),
        _ => None,
    }
}
