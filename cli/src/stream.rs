//! Reductions of elements while they are read, in one pass for any number of operations.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::{Result, bail};
use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressStyle};
use warpfold::{
    Device, Element, Plain, Progress, Push, Reducer, Running, World,
    internal::{Dtype, DynamicOp},
};

use crate::{
    input::{Source, Streamed},
    options::Level,
    pieces::Pieces,
    reduce::{Answer, Machine, answer_of, fields_of_one, with_result, with_word},
    statistic::{Launch, Statistic},
};

/// The minimum time between updates of the progress bar.
const EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Ended {
    pub(crate) answers: Vec<Answer>,
    pub(crate) pieces: Pieces,
    pub(crate) shape: Vec<usize>,
}

impl Machine {
    /// Reads all elements and returns the results of `ops`, which must support their type.
    pub(crate) fn stream(
        &self,
        source: &Source,
        streamed: Streamed,
        ops: &[Statistic],
        level: Level,
    ) -> Result<Ended> {
        if let Some(op) = ops.iter().find(|op| op.is_place() && streamed.is_turned) {
            bail!(
                "--op {op} cannot be combined with --stream for an array in Fortran order, whose \
                 elements are not read in the order of their indices; leave either out, or write the \
                 array in C order"
            );
        }
        let Self::Device(device) = self else { unreachable!("the options name a device") };
        with_word!(streamed.dtype, W => stream::<W>(device, source, streamed, ops, level))
    }
}

fn stream<W: Element>(
    device: &Device,
    source: &Source,
    streamed: Streamed,
    ops: &[Statistic],
    level: Level,
) -> Result<Ended> {
    let reducer = Reducer::new(device)?;
    let dtype = streamed.dtype;
    let mut running: Vec<(Launch, Box<dyn Part<W>>)> = Vec::new();
    for op in ops.iter().flat_map(|op| op.launches(dtype, level)) {
        if running.iter().all(|(other, _)| *other != op) {
            running.push((op, begin(&reducer, op, dtype, 0)?));
        }
    }
    let (elements, rest) = streamed.start::<W>(source, ops.iter().any(|op| op.is_place()))?;
    let mut bar = Bar::new(elements.elements());
    let mut pushed: Vec<&mut dyn Push<W>> = running.iter_mut().map(|(_, part)| part.push()).collect();
    let count = reducer.stream(&*elements).on_progress(|at| bar.show(at)).push_to(&mut pushed)?;
    let rest = rest.ended(count);
    let pieces = Pieces::whole(count, rest.null_count);
    let answer = |&op: &Statistic| {
        let mut fields = Vec::new();
        for launch in op.launches(dtype, level) {
            let mut all = running.iter();
            let (_, part) = all.find(|(of, _)| *of == launch).expect("it was begun above");
            fields.extend(fields_of_one(launch.op, dtype, part.result()?));
        }
        answer_of(op, fields, dtype, &pieces, rest.nulls.as_ref())
    };
    let answers = ops.iter().map(answer).collect::<Result<_>>()?;
    Ok(Ended { answers, pieces, shape: rest.shape })
}

pub(crate) trait Part<T> {
    fn push(&mut self) -> &mut dyn Push<T>;
    fn result(&self) -> Result<Option<Vec<u8>>>;
    fn result_of_all(&self, world: &World) -> Result<Option<Vec<u8>>>;
}

impl<W: Plain, R: Plain> Part<W> for Running<W, DynamicOp<R>> {
    fn push(&mut self) -> &mut dyn Push<W> {
        self
    }

    fn result(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.result()?.map(|result| bytemuck::bytes_of(&result).to_vec()))
    }

    fn result_of_all(&self, world: &World) -> Result<Option<Vec<u8>>> {
        Ok(world.result(self)?.map(|result| bytemuck::bytes_of(&result).to_vec()))
    }
}

/// Starts a reduction of elements of a type. The index of the first element is `first`.
pub(crate) fn begin<W: Plain>(
    reducer: &Reducer,
    launch: Launch,
    dtype: Dtype,
    first: u64,
) -> Result<Box<dyn Part<W>>> {
    with_result!(launch.op, dtype, R => {
        Ok(Box::new(reducer.running(launch.dynamic::<R>(dtype))?.starting_at(first)?))
    })
}

/// A progress bar on a terminal, removed when it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    next: Duration,
}

impl Bar {
    pub(crate) fn new(elements: Option<u64>) -> Self {
        let (bar, style) = match elements {
            _ if !io::stderr().is_terminal() => (ProgressBar::hidden(), "{msg}"),
            Some(elements) => (ProgressBar::new(elements), "{bar:32} {msg}"),
            None => (ProgressBar::no_length(), "{msg}"),
        };
        let style = ProgressStyle::with_template(style).expect("a valid template");
        Self { bar: bar.with_style(style), next: Duration::ZERO }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        if self.bar.is_hidden() || progress.elapsed < self.next {
            return;
        }
        self.next = progress.elapsed + EVERY;
        self.bar.set_position(progress.elements);
        let rate = BinaryBytes(progress.bytes_per_second() as u64);
        let left =
            progress.left().map_or(String::new(), |left| format!(", {} left", HumanDuration(left)));
        self.bar.set_message(format!("{}, {rate}/s{left}", BinaryBytes(progress.bytes)));
    }
}
