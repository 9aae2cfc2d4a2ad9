//! Reductions with the element type and operation as run-time values.

use std::{fmt::Display, iter};

use anyhow::{Result, anyhow, bail};
use arrow_buffer::NullBuffer;
use warpfold::{
    Buffer, Device, Element, Error, Plain, Reducer, Segments, Selection, cpu,
    internal::{Dtype, DynamicOp, Op, Written, result_bytes},
};
use warpfold_io::say;
use warpfold_suite::{Data, Scalar, with_data};

use crate::{
    options::{Level, Place},
    pieces::{Cut, Pieces},
    statistic::{Launch, Rule, Statistic, SumType},
};

/// The approximate number of elements that are transposed at a time on the CPU.
const TURN: usize = 1 << 16;

const MOST_AXES: usize = 8;

/// Runs generic code with the integer type of an element's size. Code that only moves elements is
/// compiled once per size, not for each type.
macro_rules! with_word {
    ($dtype:expr, $W:ident => $body:expr) => {
        match $dtype.size() {
            1 => with_word!(@ u8, $W => $body),
            2 => with_word!(@ u16, $W => $body),
            4 => with_word!(@ u32, $W => $body),
            8 => with_word!(@ u64, $W => $body),
            size => unreachable!("elements of {size} bytes"),
        }
    };
    (@ $word:ty, $W:ident => $body:expr) => {{
        type $W = $word;
        $body
    }};
}

macro_rules! with_result {
    ($op:expr, $dtype:expr, $R:ident => $body:expr) => {
        match warpfold::internal::result_bytes($op, $dtype) {
            1 => with_word!(@ [u8; 1], $R => $body),
            2 => with_word!(@ [u8; 2], $R => $body),
            4 => with_word!(@ [u8; 4], $R => $body),
            8 => with_word!(@ [u8; 8], $R => $body),
            16 => with_word!(@ [u8; 16], $R => $body),
            bytes => unreachable!("results of {bytes} bytes"),
        }
    };
}

pub(crate) use {with_result, with_word};

pub(crate) enum Machine {
    Cpu,
    Device(Device),
}

#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) pieces: &'a Pieces,
    pub(crate) shape: &'a [usize],
    pub(crate) nulls: Option<&'a NullBuffer>,
    pub(crate) level: Level,
}

#[derive(Clone)]
pub(crate) struct Field {
    /// The name; `value` if the operation has only one field.
    pub(crate) name: &'static str,
    /// Zero for a piece without a value.
    pub(crate) values: Values,
}

/// Numbers of one type.
#[derive(Clone)]
pub(crate) enum Values {
    Of(Data),
    I128(Vec<i128>),
    U128(Vec<u128>),
}

impl Values {
    /// Converts bytes in native byte order to the results of a sum.
    fn of_sums(sum: SumType, bytes: &[u8]) -> Self {
        let of = |dtype| Self::Of(Data::from_bytes(dtype, bytes));
        match sum {
            SumType::I64 => of(Dtype::I64),
            SumType::U64 => of(Dtype::U64),
            SumType::F32 => of(Dtype::F32),
            SumType::F64 => of(Dtype::F64),
            SumType::I128 => Self::I128(bytemuck::pod_collect_to_vec(bytes)),
            SumType::U128 => Self::U128(bytemuck::pod_collect_to_vec(bytes)),
        }
    }

    /// Returns integers of 128 bits as ones of 64, or an error if one of them is too large.
    fn narrowed(self) -> Result<Self> {
        fn all<W: Copy + Display, N: TryFrom<W>>(
            values: &[W],
            narrow: SumType,
            wide: SumType,
        ) -> Result<Vec<N>> {
            let of = |(at, &value): (usize, &W)| {
                let sum = match values.len() {
                    1 => "the sum".to_owned(),
                    count => format!("sum {} of {count}", at + 1),
                };
                N::try_from(value).map_err(|_| {
                    anyhow!("{sum} is {value}, which {narrow} cannot hold; give --accumulate {wide}")
                })
            };
            values.iter().enumerate().map(of).collect()
        }
        Ok(match self {
            Self::Of(_) => self,
            Self::I128(values) => Self::Of(Data::I64(all(&values, SumType::I64, SumType::I128)?)),
            Self::U128(values) => Self::Of(Data::U64(all(&values, SumType::U64, SumType::U128)?)),
        })
    }
}

pub(crate) struct Answer {
    pub(crate) op: Statistic,
    pub(crate) fields: Vec<Field>,
}

impl Machine {
    /// Opens the selected device. The first process prints a note if `auto` has fallen back to the
    /// simulator.
    pub(crate) fn open(place: Place, is_first: bool) -> Result<Self> {
        let Place::Device(selection) = place else { return Ok(Self::Cpu) };
        let device = Device::open(selection)?;
        if selection == Selection::Auto && device.info().simulated && is_first {
            say!("note: no CUDA device; running on the simulator, whose speed is not that of a GPU");
        }
        Ok(Self::Device(device))
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cpu => "the CPU",
            Self::Device(device) => &device.info().name,
        }
    }

    /// Returns the results of all operations, which must support the element type.
    pub(crate) fn reduce(&self, data: Data, ops: &[Statistic], work: &Work<'_>) -> Result<Vec<Answer>> {
        with_word!(data.dtype(), W => Elements::<W>::new(self, data, work)?.answers(ops))
    }
}

/// Adds advice to an out-of-memory error; returns other errors unchanged.
fn no_room(error: Error, pieces: &Pieces) -> anyhow::Error {
    let Error::OutOfMemory { device, bytes, .. } = &error else { return error.into() };
    let instead = match pieces.cut() {
        Cut::Whole { .. } => "reduce it while it is read, by --stream, or by --device cpu",
        Cut::Axes { .. } | Cut::Segments { .. } => "split the file, or reduce it by --device cpu",
    };
    anyhow!("{device} does not have {bytes} bytes free for the data; {instead}")
}

enum Held<W> {
    Cpu(Data),
    Device { reducer: Reducer, buffer: Buffer<W>, segments: Option<Segments<W>> },
}

struct Elements<'a, W> {
    held: Held<W>,
    dtype: Dtype,
    work: Work<'a>,
}

impl<'a, W: Element> Elements<'a, W> {
    /// Uploads the elements to a device and drops the host's copy, or keeps them for the CPU.
    fn new(machine: &Machine, data: Data, work: &Work<'a>) -> Result<Self> {
        let dtype = data.dtype();
        let held = match machine {
            Machine::Cpu => Held::Cpu(data),
            Machine::Device(device) => {
                let reducer = Reducer::new(device)?;
                let words: &[W] = bytemuck::cast_slice(data.as_bytes());
                let buffer = device.upload(words).map_err(|error| no_room(error, work.pieces))?;
                drop(data);
                let segments = match work.pieces.cut() {
                    Cut::Segments { bounds, .. } => {
                        Some(reducer.segments(&buffer, &device.upload(bounds)?)?)
                    }
                    Cut::Whole { .. } | Cut::Axes { .. } => None,
                };
                Held::Device { reducer, buffer, segments }
            }
        };
        Ok(Self { held, dtype, work: *work })
    }

    fn answers(&self, ops: &[Statistic]) -> Result<Vec<Answer>> {
        let Work { pieces, nulls, level, .. } = self.work;
        let answer = |&op: &Statistic| {
            let mut fields = Vec::new();
            for launch in op.launches(self.dtype, level) {
                fields.extend(with_result!(launch.op, self.dtype, R => self.fields::<R>(launch))?);
            }
            answer_of(op, fields, self.dtype, pieces, nulls)
        };
        ops.iter().map(answer).collect()
    }

    fn fields<R: Plain>(&self, launch: Launch) -> Result<Vec<Field>> {
        let of_none: R = bytemuck::pod_read_unaligned(&of_none(launch.op, self.dtype));
        let results = self.reduce(launch.dynamic(self.dtype), of_none)?;
        Ok(fields(launch.op, self.dtype, bytemuck::cast_slice(&results)))
    }

    fn reduce<R: Plain>(&self, op: DynamicOp<R>, of_none: R) -> Result<Vec<R>> {
        let Work { pieces, shape, .. } = self.work;
        if let Cut::Whole { elements: 0, .. } | Cut::Axes { len: 0, .. } = pieces.cut() {
            return Ok(vec![of_none; pieces.count()]);
        }
        if pieces.count() == 0 {
            return Ok(Vec::new());
        }
        let found = match &self.held {
            Held::Cpu(data) => {
                let words: &[W] = bytemuck::cast_slice(data.as_bytes());
                let mut found = Vec::new();
                side_by_side(words, shape, pieces, &mut |side, len| {
                    found.extend(cpu::reduce_rows(op, side, len)?);
                    Ok(())
                })?;
                let mut found = found.into_iter();
                let of = |piece| if pieces.elements(piece) > 0 { found.next() } else { Some(of_none) };
                return Ok((0..pieces.count()).filter_map(of).collect());
            }
            Held::Device { reducer, buffer, segments } => match pieces.cut() {
                Cut::Whole { .. } => reducer.reduce(op, buffer.rows(buffer.len())?)?,
                Cut::Axes { axes, .. } => {
                    let Merged { lens, axes } = merged(shape, axes);
                    match axes[..] {
                        [axis] => reducer.reduce(op, buffer.axis(&lens, axis)?)?,
                        _ if lens.len() > MOST_AXES => bail!(
                            "--axis leaves {} axes after adjacent ones are merged; a device takes \
                             {MOST_AXES}; reduce it by --device cpu",
                            lens.len()
                        ),
                        _ => reducer.reduce(op, buffer.view(&lens)?.along(&axes)?)?,
                    }
                }
                Cut::Segments { .. } => {
                    let segments = segments.as_ref().expect("they are made where pieces are segments");
                    reducer.reduce(op, segments)?
                }
            },
        };
        let results = found.into_iter().enumerate();
        Ok(results.map(|(piece, of)| if pieces.elements(piece) > 0 { of } else { of_none }).collect())
    }
}

struct Merged {
    lens: Vec<usize>,
    axes: Vec<usize>,
}

/// Merges adjacent axes that are both reduced or both kept; axes of length 1 are dropped.
fn merged(shape: &[usize], axes: &[usize]) -> Merged {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, &len) in shape.iter().enumerate().filter(|(_, len)| **len != 1) {
        let is_reduced = axes.contains(&axis);
        match groups.last_mut() {
            Some((all, of)) if *of == is_reduced => *all *= len,
            _ => groups.push((len, is_reduced)),
        }
    }
    if groups.iter().all(|(_, is_reduced)| !is_reduced) {
        groups.push((1, true));
    }
    let axes = (0..groups.len()).filter(|&axis| groups[axis].1).collect();
    Merged { lens: groups.into_iter().map(|(len, _)| len).collect(), axes }
}

/// A callback that takes the elements of some adjacent pieces, and the number of elements per piece.
type TakeSides<'a, T> = dyn FnMut(&[T], usize) -> Result<()> + 'a;

/// Passes the elements of all non-empty pieces to `take`, piece after piece. Independent of the results'
/// type, so that it is compiled only once per element size.
fn side_by_side<T: Element>(
    values: &[T],
    shape: &[usize],
    pieces: &Pieces,
    take: &mut TakeSides<'_, T>,
) -> Result<()> {
    match pieces.cut() {
        Cut::Whole { .. } => take(values, values.len()),
        Cut::Axes { axes, len, .. } => match merged(shape, axes) {
            Merged { lens, axes } if axes.len() == 1 => {
                columns(values, *len as usize, lens[axes[0] + 1..].iter().product(), take)
            }
            merged => gathered(values, *len as usize, &merged, take),
        },
        Cut::Segments { bounds, .. } => {
            let of = |ends: &[u64]| &values[ends[0] as usize..ends[1] as usize];
            let mut pieces = bounds.windows(2).map(of).filter(|piece| !piece.is_empty());
            pieces.try_for_each(|piece| take(piece, piece.len()))
        }
    }
}

/// Gathers the `len` elements of each piece, which are along several non-adjacent axes.
fn gathered<T: Element>(
    values: &[T],
    len: usize,
    Merged { lens, axes }: &Merged,
    take: &mut TakeSides<'_, T>,
) -> Result<()> {
    let mut stride = values.len();
    let (mut along, mut across) = (Vec::new(), Vec::new());
    for (axis, len) in lens.iter().enumerate() {
        stride /= len;
        let of = if axes.contains(&axis) { &mut along } else { &mut across };
        of.push((*len, stride));
    }
    let mut side = Vec::new();
    for first in positions(&across) {
        side.extend(positions(&along).map(|place| values[first + place]));
        if side.len() >= TURN {
            take(&side, len)?;
            side.clear();
        }
    }
    take(&side, len)
}

/// Returns the offset of each position on axes given as (length, stride); the last axis varies fastest.
fn positions(axes: &[(usize, usize)]) -> impl Iterator<Item = usize> + '_ {
    let count = axes.iter().map(|(len, _)| len).product::<usize>();
    let mut index = vec![0; axes.len()];
    let mut place = 0;
    (0..count).map(move |_| {
        let here = place;
        for (index, &(len, stride)) in index.iter_mut().zip(axes).rev() {
            *index += 1;
            place += stride;
            if *index < len {
                break;
            }
            place -= len * stride;
            *index = 0;
        }
        here
    })
}

/// Transposes contiguous matrices of `len` rows and `width` columns, some columns at a time, and passes
/// the columns to `take`.
fn columns<T: Element>(
    values: &[T],
    len: usize,
    width: usize,
    take: &mut TakeSides<'_, T>,
) -> Result<()> {
    if width == 1 {
        return take(values, len);
    }
    let mut turned = Vec::new();
    for matrix in values.chunks_exact(len * width) {
        let strip = (TURN / len).max(1);
        for first in (0..width).step_by(strip) {
            turned.clear();
            for column in first..width.min(first + strip) {
                turned.extend((0..len).map(|row| matrix[row * width + column]));
            }
            take(&turned, len)?;
        }
    }
    Ok(())
}

fn of_none(op: Op, dtype: Dtype) -> Vec<u8> {
    let word = op.of_none(dtype).unwrap_or_default().to_le_bytes();
    let bytes = word.into_iter().chain(iter::repeat(0));
    bytes.take(result_bytes(op, dtype)).collect()
}

fn fields(op: Op, dtype: Dtype, results: &[u8]) -> Vec<Field> {
    let bytes = result_bytes(op, dtype);
    let field = |name, dtype: Dtype, start: usize| {
        let mut numbers = Vec::with_capacity(results.len() / bytes * dtype.size());
        let number = |result: &[u8]| numbers.extend_from_slice(&result[start..][..dtype.size()]);
        results.chunks_exact(bytes).for_each(number);
        Field { name, values: Values::Of(Data::from_bytes(dtype, &numbers)) }
    };
    let one = |values| vec![Field { name: "value", values }];
    let value = |dtype| one(Values::Of(Data::from_bytes(dtype, results)));
    match op.written() {
        Written::Place => vec![field("index", Dtype::U64, 0), field("value", dtype, size_of::<u64>())],
        Written::Ends => vec![field("min", dtype, 0), field("max", dtype, dtype.size())],
        Written::Moments => {
            vec![field("mean", Dtype::F64, 0), field("variance", Dtype::F64, size_of::<f64>())]
        }
        Written::Element => value(dtype),
        Written::Count => value(Dtype::U64),
        Written::Double => value(Dtype::F64),
        Written::Sum => one(Values::of_sums(SumType::of(op, dtype), results)),
    }
}

/// Returns the fields of a single result; `None` stands for the result of no elements.
pub(crate) fn fields_of_one(op: Op, dtype: Dtype, result: Option<Vec<u8>>) -> Vec<Field> {
    fields(op, dtype, &result.unwrap_or_else(|| of_none(op, dtype)))
}

/// Returns the answer to a statistic from the fields of its operation's results. If there are nulls,
/// converts indices of elements to indices of rows.
pub(crate) fn answer_of(
    op: Statistic,
    mut fields: Vec<Field>,
    dtype: Dtype,
    pieces: &Pieces,
    nulls: Option<&NullBuffer>,
) -> Result<Answer> {
    if let (Some(nulls), true) = (nulls, op.is_place()) {
        let Values::Of(Data::U64(indices)) = &mut fields[0].values else {
            unreachable!("an index is u64")
        };
        for (piece, index) in indices.iter_mut().enumerate() {
            let rows = pieces.rows(piece);
            let part = nulls.slice(rows.start as usize, (rows.end - rows.start) as usize);
            // A piece of nulls alone has no index.
            *index = part.valid_indices().nth(*index as usize).unwrap_or(0) as u64;
        }
    }
    let fields = match op {
        Statistic::Of(_) | Statistic::SumIn(_) | Statistic::Mapped(..) => fields,
        Statistic::CheckedSum => {
            require_no_overflow(dtype, pieces)?;
            let narrowed = |field: Field| Ok(Field { values: field.values.narrowed()?, ..field });
            fields.into_iter().map(narrowed).collect::<Result<_>>()?
        }
        Statistic::Describe => {
            let named = |field: Field| match field.name {
                "value" => Field { name: "nan_count", ..field },
                _ => field,
            };
            fields.into_iter().map(named).collect()
        }
        Statistic::Derived(derived) => {
            vec![Field { name: "value", values: Values::Of(derive(derived.rule, &fields)) }]
        }
    };
    Ok(Answer { op, fields })
}

/// Returns an error if a sum of integers of less than 64 bits may have overflowed 64 bits.
fn require_no_overflow(dtype: Dtype, pieces: &Pieces) -> Result<()> {
    let bits = 8 * dtype.size();
    let most = (0..pieces.count()).map(|piece| pieces.elements(piece)).max().unwrap_or(0);
    if bits < 64 && most > 1 << (64 - bits) {
        bail!(
            "--checked takes at most 2^{} elements of {dtype} for each sum, but there are {most}; \
             convert them to 64 bits",
            64 - bits
        );
    }
    Ok(())
}

fn derive(rule: Rule, fields: &[Field]) -> Data {
    let doubles = |field: usize| -> Vec<f64> {
        let Values::Of(values) = &fields[field].values else { unreachable!("only sums have 128 bits") };
        with_data!(values, values => {
            values.iter().map(|number| number.value().to_f64()).collect()
        })
    };
    let roots = |squares: Vec<f64>| Data::F64(squares.into_iter().map(f64::sqrt).collect());
    let magnitudes = |of_nan: f64| {
        let ends = doubles(0).into_iter().zip(doubles(1));
        let larger = |(min, max): (f64, f64)| match (min.abs(), max.abs()) {
            // The minimum and the maximum are either both NaN or both numbers.
            (min, _) if min.is_nan() => of_nan,
            (min, max) => min.max(max),
        };
        Data::F64(ends.map(larger).collect())
    };
    match rule {
        Rule::Mean | Rule::L1 => Data::F64(doubles(0)),
        Rule::Variance => Data::F64(doubles(1)),
        Rule::Deviation => roots(doubles(1)),
        Rule::LargestMagnitude => magnitudes(f64::NAN),
        Rule::LargestMagnitudeOfNumbers => magnitudes(0.0),
    }
}
