//! Reductions of elements whose type and operation are values.

use anyhow::{Result, anyhow, bail};
use arrow_buffer::NullBuffer;
use warpfold::{
    Buffer, Device, Element, Ends, Error, Located, Reducer, Segments, Selection, Spread, cpu,
    internal::Op,
    op::{self, RowsOperation},
};
use warpfold_suite::{Data, Scalar, say, with_data};

use crate::{
    options::{Level, Place},
    pieces::{Cut, Pieces},
    statistic::{Rule, Statistic},
};

/// Elements of columns that are brought side by side at a time on the CPU.
const TURN: usize = 1 << 16;

/// Axes of a view of the library's, at most.
const MOST_AXES: usize = 8;

/// What is done with an operation where its type is known.
pub(crate) trait Visit<T: Element> {
    type Made;

    fn visit<O>(self, op: O) -> Result<Self::Made>
    where
        O: RowsOperation<T, Output: Given<O::Left>, Left: Fields> + 'static;
}

/// What reduces the elements.
pub(crate) enum Machine {
    /// The threads of the CPU.
    Cpu,
    /// A GPU, or its simulator.
    Device(Device),
}

/// How elements are reduced, whatever the operation.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) pieces: &'a Pieces,
    pub(crate) shape: &'a [usize],
    /// Which of the rows are no elements.
    pub(crate) nulls: Option<&'a NullBuffer>,
    pub(crate) level: Level,
}

/// A number of every result.
#[derive(Clone)]
pub(crate) struct Field {
    /// `value` where there is one alone.
    pub(crate) name: &'static str,
    /// Zero for a piece that has no value.
    pub(crate) values: Data,
}

/// The results of an operation.
pub(crate) struct Answer {
    pub(crate) op: Statistic,
    pub(crate) fields: Vec<Field>,
}

impl Machine {
    /// Opens what was asked for, and says where that is the simulator although nobody asked for it; not
    /// where another process says so.
    pub(crate) fn open(place: Place, is_first: bool) -> Result<Self> {
        let Place::Device(selection) = place else { return Ok(Self::Cpu) };
        let device = Device::open(selection)?;
        if selection == Selection::Auto && device.info().simulated && is_first {
            say!("note: no CUDA device; running on the simulator, whose speed is no GPU's");
        }
        Ok(Self::Device(device))
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cpu => "the CPU",
            Self::Device(device) => &device.info().name,
        }
    }

    /// The results of operations, each of which the elements have.
    pub(crate) fn reduce(&self, data: Data, ops: &[Statistic], work: &Work<'_>) -> Result<Vec<Answer>> {
        with_data!(data, values => {
            let elements = Elements::new(self, values, work)?;
            ops.iter().map(|&op| answer(op, &elements)).collect()
        })
    }
}

/// What to do where the data does not fit, if that is what went wrong.
fn no_room(error: Error, pieces: &Pieces) -> anyhow::Error {
    let Error::OutOfMemory { device, bytes, .. } = &error else { return error.into() };
    let instead = match pieces.cut() {
        Cut::Whole { .. } => "reduce it while it is read, by --stream, or by --device cpu",
        Cut::Axes { .. } | Cut::Segments { .. } => "cut the file, or reduce it by --device cpu",
    };
    anyhow!("{device} has no {bytes} bytes free for the data; {instead}")
}

/// Elements where they are reduced.
enum Held<T> {
    Cpu(Vec<T>),
    Device { reducer: Reducer, buffer: Buffer<T>, segments: Option<Segments<T>> },
}

struct Elements<'a, T> {
    held: Held<T>,
    work: Work<'a>,
}

impl<'a, T: Reducible> Elements<'a, T> {
    /// On a device nothing of them is left on the host.
    fn new(machine: &Machine, values: Vec<T>, work: &Work<'a>) -> Result<Self> {
        let held = match machine {
            Machine::Cpu => Held::Cpu(values),
            Machine::Device(device) => {
                let reducer = Reducer::new(device)?;
                let buffer = device.upload(&values).map_err(|error| no_room(error, work.pieces))?;
                drop(values);
                let segments = match work.pieces.cut() {
                    Cut::Segments { bounds, .. } => {
                        Some(reducer.segments(&buffer, &device.upload(bounds)?)?)
                    }
                    Cut::Whole { .. } | Cut::Axes { .. } => None,
                };
                Held::Device { reducer, buffer, segments }
            }
        };
        Ok(Self { held, work: *work })
    }

    /// An operation's result of every piece; none where it has none of no elements.
    fn reduce<O>(&self, op: O) -> Result<Vec<Option<O::Left>>>
    where
        O: RowsOperation<T, Output: Given<O::Left>>,
    {
        let Work { pieces, shape, .. } = self.work;
        if pieces.count() == 0 {
            return Ok(Vec::new());
        }
        let of_none = cpu::reduce(op, &[] as &[T])?.given();
        if let Cut::Axes { len: 0, .. } = pieces.cut() {
            return Ok(vec![of_none; pieces.count()]);
        }
        if let (Cut::Whole { .. }, 0) = (pieces.cut(), pieces.elements(0)) {
            return Ok(vec![of_none]);
        }
        let of_some = match &self.held {
            Held::Cpu(values) => {
                let mut found = Vec::new();
                side_by_side(values, shape, pieces, &mut |side, len| {
                    found.extend(cpu::reduce_rows(op, side, len)?);
                    Ok(())
                })?;
                let mut found = found.into_iter();
                let of = |piece| if pieces.elements(piece) > 0 { found.next() } else { of_none };
                return Ok((0..pieces.count()).map(of).collect());
            }
            Held::Device { reducer, buffer, segments } => match pieces.cut() {
                Cut::Whole { .. } => reducer.reduce(op, buffer.rows(buffer.len())?)?,
                Cut::Axes { axes, .. } => {
                    let Merged { lens, axes } = merged(shape, axes);
                    match axes[..] {
                        [axis] => reducer.reduce(op, buffer.axis(&lens, axis)?)?,
                        _ if lens.len() > MOST_AXES => bail!(
                            "--axis of {} axes after neighbours were taken together; a device takes \
                             {MOST_AXES}: reduce it by --device cpu",
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
        let results = of_some.into_iter().enumerate();
        Ok(results
            .map(|(piece, found)| if pieces.elements(piece) > 0 { Some(found) } else { of_none })
            .collect())
    }
}

/// The fields of an operation's results.
impl<T: Reducible> Visit<T> for &Elements<'_, T> {
    type Made = Vec<Field>;

    fn visit<O>(self, op: O) -> Result<Vec<Field>>
    where
        O: RowsOperation<T, Output: Given<O::Left>, Left: Fields> + 'static,
    {
        Ok(O::Left::fields(&self.reduce(op)?))
    }
}

/// A shape with as few axes as there can be, and those along which is reduced.
struct Merged {
    lens: Vec<usize>,
    axes: Vec<usize>,
}

/// Makes one axis of neighbouring ones that are all reduced or all not, whatever those of length 1 are.
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

/// Takes the elements of some pieces, which lie side by side, and the number of elements in each.
type TakeSides<'a, T> = dyn FnMut(&[T], usize) -> Result<()> + 'a;

/// Brings the elements of each piece that has some side by side, piece after piece. It is compiled once
/// for a type, and not for each operation.
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

/// Brings those along several axes that are no neighbours side by side, `len` elements each.
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

/// Returns where the positions on axes of these lengths and strides are, the last axis fastest.
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

/// Transposes contiguous matrices of `len` rows and `width` columns each, some columns at a time, and
/// passes their columns to `take`.
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

/// What the library gives for no elements: a result, or perhaps none.
pub(crate) trait Given<L> {
    fn given(self) -> Option<L>;
}

impl<L> Given<L> for L {
    fn given(self) -> Option<L> {
        Some(self)
    }
}

impl<L> Given<L> for Option<L> {
    fn given(self) -> Option<L> {
        self
    }
}

/// Results that are taken apart into numbers.
pub(crate) trait Fields: Sized {
    fn fields(results: &[Option<Self>]) -> Vec<Field>;
}

/// One number of every result.
fn field<R, T: Scalar>(name: &'static str, results: &[Option<R>], number: impl Fn(&R) -> T) -> Field {
    let numbers = results.iter().map(|result| result.as_ref().map_or(T::zeroed(), &number));
    Field { name, values: T::data(numbers.collect()) }
}

impl<T: Scalar> Fields for Located<T> {
    fn fields(results: &[Option<Self>]) -> Vec<Field> {
        vec![
            field("index", results, |result| result.index),
            field("value", results, |result| result.value),
        ]
    }
}

impl<T: Scalar> Fields for Ends<T> {
    fn fields(results: &[Option<Self>]) -> Vec<Field> {
        vec![field("min", results, |ends| ends.min), field("max", results, |ends| ends.max)]
    }
}

impl Fields for Spread {
    fn fields(results: &[Option<Self>]) -> Vec<Field> {
        vec![
            field("mean", results, |spread| spread.mean),
            field("variance", results, |spread| spread.variance),
        ]
    }
}

/// A type of elements, with the operations that it has.
pub(crate) trait Reducible: Scalar + Element {
    /// Visits an operation that elements of this type have at this level.
    fn with<V: Visit<Self>>(op: Op, level: Level, visit: V) -> Result<V::Made>;
}

macro_rules! reducible {
    ($(
        $ty:ty: $($op:ident = $Name:ident),*;
        $(long: $long:ident = $Long:ident;)?
        everywhere: $($sum:ident = $Sum:ident),*;
        skipping nan: $($nan:ident = $Nan:ident),*;
        both: $($both:ident = $Both:ident),*;
    )*) => {$(
        impl Fields for $ty {
            fn fields(results: &[Option<Self>]) -> Vec<Field> {
                vec![field("value", results, |&result| result)]
            }
        }

        impl Reducible for $ty {
            fn with<V: Visit<Self>>(op: Op, level: Level, visit: V) -> Result<V::Made> {
                match (op, level) {
                    $((Op::$sum, Level::Everywhere) => visit.visit(op::Reproducible(op::$Sum)),)*
                    $((Op::$both, Level::Everywhere) => {
                        visit.visit(op::Reproducible(op::SkipNan(op::$Both)))
                    })*
                    $((Op::$op, _) => visit.visit(op::$Name),)*
                    $((Op::$long, _) => visit.visit(op::$Long),)?
                    $((Op::$nan, _) => visit.visit(op::SkipNan(op::$Nan)),)*
                    (op, level) => unreachable!("{op} of {} at {level:?}", Self::DTYPE),
                }
            }
        }
    )*};
    (integers: $($ty:ty $(, $long:ident)?;)*) => {
        // Which have the same bits everywhere anyway.
        reducible! {$(
            $ty: Sum = Sum, SumSq = SumOfSquares, SumAbs = SumOfMagnitudes, Product = Product, Min = Min,
                Max = Max, MinMax = MinMax, ArgMin = ArgMin, ArgMax = ArgMax, NonZero = CountNonZero,
                Mean = Mean, L2 = L2Norm, Spread = MeanAndVariance, And = BitAnd, Or = BitOr,
                Xor = BitXor;
            $(long: $long = L1Norm;)?
            everywhere:;
            skipping nan:;
            both:;
        )*}
    };
    (floats: $($ty:ty)*) => {
        reducible! {$(
            $ty: Sum = Sum, SumSq = SumOfSquares, SumAbs = SumOfMagnitudes, Product = Product, Min = Min,
                Max = Max, MinMax = MinMax, ArgMin = ArgMin, ArgMax = ArgMax, NonZero = CountNonZero,
                Mean = Mean, L2 = L2Norm, Spread = MeanAndVariance, LogSumExp = LogSumExp,
                NanCount = CountNan;
            everywhere: Sum = Sum, SumSq = SumOfSquares, SumAbs = SumOfMagnitudes,
                Spread = MeanAndVariance;
            skipping nan: NanSum = Sum, NanSumSq = SumOfSquares, NanSumAbs = SumOfMagnitudes,
                NanProduct = Product, NanMin = Min, NanMax = Max, NanMinMax = MinMax,
                NanArgMin = ArgMin, NanArgMax = ArgMax, NanL2 = L2Norm, NanSpread = MeanAndVariance;
            both: NanSum = Sum, NanSumSq = SumOfSquares, NanSumAbs = SumOfMagnitudes,
                NanSpread = MeanAndVariance;
        )*}
    };
}

reducible!(integers: i8; u8; i16; u16; i32; u32; i64, L1; u64, L1;);
reducible!(floats: half::f16 half::bf16 f32 f64);

/// The answer to what was asked for.
fn answer<T: Reducible>(op: Statistic, elements: &Elements<'_, T>) -> Result<Answer> {
    let Work { pieces, nulls, level, .. } = elements.work;
    Ok(answer_of(op, T::with(op.op(<T as Scalar>::DTYPE, level), level, elements)?, pieces, nulls))
}

/// The answer that follows from the fields of an operation's results, among elements without nulls.
pub(crate) fn answer_of(
    op: Statistic,
    mut fields: Vec<Field>,
    pieces: &Pieces,
    nulls: Option<&NullBuffer>,
) -> Answer {
    if let (Some(nulls), true) = (nulls, op.is_place()) {
        let Data::U64(indices) = &mut fields[0].values else { unreachable!("an index is u64") };
        for (piece, index) in indices.iter_mut().enumerate() {
            let rows = pieces.rows(piece);
            let part = nulls.slice(rows.start as usize, (rows.end - rows.start) as usize);
            // A piece of nulls alone has no index.
            *index = part.valid_indices().nth(*index as usize).unwrap_or(0) as u64;
        }
    }
    let fields = match op {
        Statistic::Of(_) => fields,
        Statistic::Derived(derived) => {
            vec![Field { name: "value", values: derive(derived.rule, &fields) }]
        }
    };
    Answer { op, fields }
}

/// What follows from the fields of an operation. It is made as the library makes it.
fn derive(rule: Rule, fields: &[Field]) -> Data {
    let doubles = |field: usize| -> Vec<f64> {
        with_data!(&fields[field].values, values => {
            values.iter().map(|number| number.value().to_f64()).collect()
        })
    };
    let roots = |squares: Vec<f64>| Data::F64(squares.into_iter().map(f64::sqrt).collect());
    let magnitudes = |of_nan: f64| {
        let ends = doubles(0).into_iter().zip(doubles(1));
        let larger = |(min, max): (f64, f64)| match (min.abs(), max.abs()) {
            // Both are or neither is.
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
