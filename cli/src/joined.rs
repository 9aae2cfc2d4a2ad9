//! Reductions of several files as one, by one process or by several that a launcher has started. Each
//! process reads and reduces a share of the elements, and one prints the results.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use warpfold::{
    Element, Reducer, Rendezvous, Selection, Way, World, internal::Dtype, source::Source as Elements,
};

use crate::{
    input::{Source, Streamed},
    options::{Options, Place},
    pieces::Pieces,
    reduce::{Answer, Field, Machine, answer_of, fields_of_one, with_word},
    statistic::{Launch, Statistic},
    stream::{Bar, Part, begin},
};

/// Each process's share begins at a multiple of this number of elements, and is aligned like element 0.
const SHARE: u64 = 4096;

/// The interval at which a process that is reading checks whether another one has failed.
const WATCH: Duration = Duration::from_millis(200);

pub(crate) struct Ended {
    pub(crate) answers: Vec<Answer>,
    pub(crate) pieces: Pieces,
    pub(crate) dtype: Dtype,
    pub(crate) stored: Option<String>,
    pub(crate) way: Way,
}

/// Returns the device to open: for `cuda` in one of several processes, the GPU of its local rank.
pub(crate) fn place(place: Place, rendezvous: &Rendezvous) -> Place {
    match place {
        Place::Device(Selection::Cuda) if rendezvous.size() > 1 => {
            Place::Device(Selection::CudaOrdinal(rendezvous.local_rank()))
        }
        other => other,
    }
}

type File = (Source, Streamed, u64);

/// Returns the results over all elements of all files, in every process.
pub(crate) fn reduce(
    options: &Options,
    machine: &Machine,
    ops: &[Statistic],
    rendezvous: &Rendezvous,
    choose: &str,
) -> Result<Ended> {
    let Machine::Device(device) = machine else { unreachable!("the options name a device") };
    // Joins first, so that a failure of this process ends the others at once.
    let world = World::join(rendezvous, &Reducer::new(device)?)?;
    let opened = |path: &_| -> Result<File> {
        let source = Source::unread(path, options.asked())?;
        if source.is_pipe() && rendezvous.size() > 1 {
            bail!(
                "{} is a pipe, which several processes cannot read; write it to a file",
                source.name()
            );
        }
        let streamed = source.streamed(options.column.as_deref(), choose)?;
        // The length of a pipe is unknown. It counts as 1 byte, so that the pipe belongs to one process.
        let bytes = source.bytes()?.max(1);
        Ok((source, streamed, bytes))
    };
    let files: Vec<File> = options.files().iter().map(|path| opened(path)).collect::<Result<_>>()?;
    let (first, dtype) = (files[0].0.name(), files[0].1.dtype);
    for (source, streamed, _) in &files {
        let name = source.name();
        if streamed.dtype != dtype {
            bail!(
                "{name} has elements of type {}, but {first} has {dtype}; give files of one type",
                streamed.dtype
            );
        }
        let Some(op) = ops.iter().find(|op| op.is_place()) else { continue };
        if streamed.elements().is_none() {
            bail!(
                "--op {op} needs the length of {name} to combine it with other files or processes; give \
                 .npy or raw files, or {name} alone"
            );
        }
        if streamed.is_turned {
            bail!("--op {op} needs C order, but {name} is in Fortran order; write it in C order");
        }
    }
    ops.iter().try_for_each(|op| op.require(dtype, options.level))?;
    let stored = files[0].1.stored.clone();
    let (answers, pieces) = with_word!(dtype, W => reduced::<W>(&world, files, dtype, ops, options))?;
    Ok(Ended { answers, pieces, dtype, stored, way: world.way() })
}

fn reduced<W: Element>(
    world: &World,
    files: Vec<File>,
    dtype: Dtype,
    ops: &[Statistic],
    options: &Options,
) -> Result<(Vec<Answer>, Pieces)> {
    let (first, mine) = share(world, files);
    let mut running: Vec<(Launch, Box<dyn Part<W>>)> = Vec::new();
    for op in ops.iter().flat_map(|op| op.launches(dtype, options.level)) {
        if running.iter().all(|(other, _)| *other != op) {
            running.push((op, begin(world.reducer(), op, dtype, first)?));
        }
    }
    let (count, nulls) = read(world, mine, &mut running).inspect_err(|error| {
        // Has no effect if another process has failed before.
        world.fail(&format!("{error:#}"));
    })?;
    let told = world.gather(&[count, nulls].map(u64::to_le_bytes).concat())?;
    let (mut count, mut nulls) = (0, 0);
    for told in &told {
        let number = |at: usize| told[8 * at..][..8].try_into().map(u64::from_le_bytes);
        (count, nulls) = (count + number(0)?, nulls + number(1)?);
    }
    let pieces = Pieces::whole(count, nulls);
    // The calls are collective: all processes make them in the same order.
    let fields_of = |(op, part): &(Launch, Box<dyn Part<W>>)| {
        Ok((*op, fields_of_one(op.op, dtype, part.result_of_all(world)?)))
    };
    let fields: Vec<(Launch, Vec<Field>)> = running.iter().map(fields_of).collect::<Result<_>>()?;
    let answer = |&op: &Statistic| {
        let of_launch = |launch: Launch| {
            let mut all = fields.iter();
            all.find(|(of, _)| *of == launch).expect("it was begun above").1.clone()
        };
        let fields = op.launches(dtype, options.level).into_iter().flat_map(of_launch);
        answer_of(op, fields.collect(), dtype, &pieces, None)
    };
    let answers = ops.iter().map(answer).collect::<Result<_>>()?;
    Ok((answers, pieces))
}

struct Mine {
    source: Source,
    streamed: Streamed,
    /// The first element and the number of elements; `None` for all of a file of unknown length.
    part: Option<(u64, u64)>,
}

/// Returns the parts that this process reads, and the number of elements before them (0 if unknown). If
/// all files have known lengths, the elements are divided equally. Otherwise files are not divided, and
/// a process reads the files that begin in its share of all bytes.
fn share(world: &World, files: Vec<File>) -> (u64, Vec<Mine>) {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let (mut before, mut mine) = (0, Vec::new());
    let counts: Option<Vec<u64>> = files.iter().map(|(_, streamed, _)| streamed.elements()).collect();
    let Some(counts) = counts else {
        let all: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        for (source, streamed, bytes) in files {
            let reader = u128::from(before) * u128::from(size) / u128::from(all.max(1));
            before += bytes;
            if reader == u128::from(rank) {
                mine.push(Mine { source, streamed, part: None });
            }
        }
        return (0, mine);
    };
    let all: u64 = counts.iter().sum();
    let share = all.div_ceil(size).next_multiple_of(SHARE);
    let [first, end] = [rank, rank + 1].map(|rank| (rank * share).min(all));
    for ((source, streamed, _), count) in files.into_iter().zip(counts) {
        let [start, end] = [first, end].map(|at| at.clamp(before, before + count) - before);
        before += count;
        if start < end {
            mine.push(Mine { source, streamed, part: Some((start, end - start)) });
        }
    }
    (first, mine)
}

/// Reads and pushes this process's part; returns its number of elements and of nulls.
fn read<W: Element>(
    world: &World,
    mine: Vec<Mine>,
    running: &mut [(Launch, Box<dyn Part<W>>)],
) -> Result<(u64, u64)> {
    let (mut count, mut nulls) = (0, 0);
    for Mine { source, streamed, part } in mine {
        let of_one = || {
            let (elements, rest) = streamed.start::<W>(&source, false)?;
            let elements: Box<dyn Elements<W>> = match part {
                Some((start, len)) => Box::new(Slice { elements, start, len }),
                None => elements,
            };
            let elements = Watched { elements, world, checked: Mutex::new(Instant::now()) };
            let mut bar = Bar::new(elements.elements());
            let mut pushed: Vec<_> = running.iter_mut().map(|(_, part)| part.push()).collect();
            let stream = world.reducer().stream(&elements);
            let came = stream.on_progress(|at| bar.show(at)).push_to(&mut pushed)?;
            anyhow::Ok((came, rest.ended(came).null_count))
        };
        let (came, skipped) = of_one().with_context(|| source.name())?;
        (count, nulls) = (count + came, nulls + skipped);
    }
    Ok((count, nulls))
}

/// Elements whose reading fails when another process has ended.
struct Watched<'w, T> {
    elements: Box<dyn Elements<T>>,
    world: &'w World,
    checked: Mutex<Instant>,
}

impl<T: Element> Elements<T> for Watched<'_, T> {
    fn elements(&self) -> Option<u64> {
        self.elements.elements()
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        {
            let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
            if checked.elapsed() > WATCH {
                *checked = Instant::now();
                self.world.check().map_err(io::Error::other)?;
            }
        }
        self.elements.read_at(start, into)
    }

    fn is_in_order(&self) -> bool {
        self.elements.is_in_order()
    }
}

struct Slice<T> {
    elements: Box<dyn Elements<T>>,
    start: u64,
    len: u64,
}

impl<T: Element> Elements<T> for Slice<T> {
    fn elements(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        let room = self.len.saturating_sub(start).min(into.len() as u64) as usize;
        self.elements.read_at(self.start + start, &mut into[..room])
    }

    fn is_in_order(&self) -> bool {
        self.elements.is_in_order()
    }
}
