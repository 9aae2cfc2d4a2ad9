//! Checks every operation of every type in every form against exact arithmetic, on hard elements:
//! infinities and NaN at either end, powers of two near both ends of the range, large numbers next to
//! each other, single elements.
//!
//! A representable result must be within these bounds, whatever the intermediate results. Here n is the
//! number of elements, u is 2^-24 for sums in `f32` and 2^-53 for sums in `f64`, γ(d) is d·u / (1 −
//! d·u), and γ₆₄(d) the same for `f64`. The last column names the source of the bound.
//!
//! | result of integers | may be off by | stated at |
//! |---|---|---|
//! | sums of any terms, products | nothing, modulo 2^64 | `op::Sum`, `op::Product` |
//! | sums in 128 bits | nothing | `op::SumIn` |
//! | means | 2 roundings to `f64` | `op::MeanAndVariance` |
//! | variances | 3 roundings to `f64` | `op::MeanAndVariance` |
//! | L1 norms in integers, in `f64` | nothing, modulo 2^64; 2^-52 of itself | `op::L1Norm` |
//! | L2 norms | 2^-51 of itself | here |
//! | harmonic means of one sign | (n + 4) roundings to `f64` | `op::HarmonicMean` |
//!
//! | result of floats | may be off by | stated at |
//! |---|---|---|
//! | sums, L1 norms | γ(n − 1)·Σ\|x\|; nothing where all digits have room | docs/correctness.md |
//! | sums of squares | γ(n)·Σx², and n of the smallest numbers | the same |
//! | dot products | γ(n)·Σ\|ab\|, likewise | `op::Dot` |
//! | squared distances | γ(n + 2) of itself, likewise | `op::SquaredDistance` |
//! | sums in `f64` | γ₆₄(n − 1)·Σ\|x\| | `op::SumIn` |
//! | sums on the CPU | γ₆₄(160) in place of γ(n − 1), and a rounding | `cpu` |
//! | products | γ(n − 1) of itself; on the CPU γ₆₄(n − 1), and a rounding | `op::Product` |
//! | means of `mean` and `Within` | γ(n − 1)·Σ\|x\| / n, and a rounding | `Reducer::mean` |
//! | means of `MeanAndVariance` | γ₆₄(4n)·Σ\|x\| / n; of `f32` and halves 2^-20 deviations more | here |
//! | variances of `f32` and halves, of `f64` | 2^-20, 2^-40 of itself | here |
//! | L2 norms | γ(n) + 2^-52 of itself | here |
//! | harmonic means of one sign | (n + 4) roundings to `f64` | `op::HarmonicMean` |
//! | third central moments | 32·n·(n + 64)·2^-53 of the mean of the cubed distances' magnitudes | `op::ThirdCentralMoment` |
//! | those in `Reproducible` | nothing, by their definition | `op::Reproducible` |
//! | logarithms of sums of exponentials | 1e-6, of `f64` 4e-15, of itself or of 1 | `log_sum_exp.rs` |
//!
//! Extremes, places, counts, bits and top-k must be equal. "A large mean costs no digits of the
//! variance" is therefore a bound relative to the variance itself: that of a constant is 0.
//!
//! Where the documentation gives no bound, any result is accepted: for sums of floats of both signs
//! whose partial sums may overflow, and for products whose partial products may overflow or underflow.
//! Means, norms and variances have their bounds nevertheless.
//!
//! NaN and infinities follow exact sums: NaN if an element is NaN or if there are infinities of both
//! signs, otherwise the infinity; and NaN for the variance of non-finite elements.

mod bounds;
mod dyadic;
mod sets;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{Debug, Write},
    iter,
    ops::Bound,
};

use warpfold::{
    Buffer, Element, Ends, Group, Located, Sharded, Spread, Way, Within, bf16, cpu, f16,
    op::{
        self, ArgMax, ArgMin, BitAnd, BitOr, BitXor, CountNan, CountNonZero, Dot, HarmonicMean, Largest,
        LogSumExp, Max, MeanAndVariance, Min, MinMax, Operation, PairOperation, Product, Reproducible,
        RowsOperation, SkipNan, Smallest, SquaredDistance, Sum, SumOfMagnitudes, SumOfSquares,
        ThirdCentralMoment, WrappingSum,
    },
};

use crate::{
    common::{device, no_findings, reducer},
    counted::count_of,
    group::{cut, groups, on_four},
};
use bounds::{Asked, Expected, Number, Set, Want, What, expected, of_pairs};
use sets::{Case, MANY, set};

trait Parts {
    fn parts(self) -> Vec<Number>;
}

macro_rules! parts {
    ($($kind:ident of $($ty:ty)*;)*) => {$($(
        impl Parts for $ty {
            fn parts(self) -> Vec<Number> {
                vec![Number::$kind(self.into())]
            }
        }
    )*)*};
}

parts! {
    Integer of i8 u8 i16 u16 i32 u32 i64 u64 i128;
    Float of f16 bf16 f32 f64;
}

impl Parts for u128 {
    fn parts(self) -> Vec<Number> {
        vec![Number::Integer(self.try_into().expect("sums of 2^35 elements of 64 bits are below 2^127"))]
    }
}

impl<T: Parts> Parts for Located<T> {
    fn parts(self) -> Vec<Number> {
        [self.value.parts(), self.index.parts()].concat()
    }
}

impl<T: Parts> Parts for Ends<T> {
    fn parts(self) -> Vec<Number> {
        [self.min.parts(), self.max.parts()].concat()
    }
}

impl Parts for Spread {
    fn parts(self) -> Vec<Number> {
        [self.mean.parts(), self.variance.parts()].concat()
    }
}

impl<S: Parts + Element> Parts for Within<S> {
    fn parts(self) -> Vec<Number> {
        [self.count.parts(), self.sum.parts(), self.mean().parts()].concat()
    }
}

impl<R: Parts> Parts for Option<R> {
    fn parts(self) -> Vec<Number> {
        self.map_or_else(Vec::new, Parts::parts)
    }
}

struct Found {
    form: &'static str,
    set: usize,
    parts: Vec<Number>,
}

/// Wrong results of a test: one line per set, for each operation, type and form.
#[derive(Default)]
struct Failures(BTreeMap<String, Vec<String>>);

/// Wrong results per operation, type and form that are printed; of the others, only the sets are.
const SHOWN: usize = 4;

impl Failures {
    /// Records a wrong result; returns whether the result is right.
    fn check(&mut self, what: &str, set: &str, found: &[Number], expected: &Expected) -> bool {
        let right = match expected {
            // In device memory, an empty result is NaN and index 0.
            None => found.iter().all(|part| part.is_nan() || *part == Number::Integer(0)),
            // The host returns no result if infinities make the result NaN.
            Some(wants) if found.is_empty() => {
                matches!(wants[..], [Want::Is(first), ..] if first.is_nan())
                    || matches!(wants[..], [Want::Unsaid])
            }
            Some(wants) => {
                wants.len() == found.len()
                    && iter::zip(wants, found).all(|(want, found)| want.accepts(*found))
            }
        };
        if !right {
            let shown = |parts: Vec<String>| match &parts[..] {
                [] => "nothing".to_owned(),
                parts => parts.join(", "),
            };
            let found = shown(found.iter().map(Number::to_string).collect());
            let wants = expected.iter().flatten().map(Want::to_string).collect();
            let line = format!("`{set}`: found {found}; right is {}", shown(wants));
            self.0.entry(what.to_owned()).or_default().push(line);
        }
        right
    }

    fn done(self) {
        let mut text = String::new();
        for (what, sets) in &self.0 {
            let (shown, others) = sets.split_at(sets.len().min(SHOWN));
            shown.iter().for_each(|line| writeln!(text, "{what}, of {line}").unwrap());
            if !others.is_empty() {
                let names = others.iter().map(|line| line.split(": found").next().unwrap_or_default());
                let names = names.collect::<Vec<_>>().join(", ");
                writeln!(text, "{what}, of {} more sets: {names}", others.len()).unwrap();
            }
        }
        let count: usize = self.0.values().map(Vec::len).sum();
        assert!(count == 0, "{count} wrong results:\n{text}");
    }
}

/// A set in device memory, at a 16-byte boundary and one element past it.
struct Whole<T> {
    set: usize,
    values: Vec<T>,
    aligned: Buffer<T>,
    shifted: Buffer<T>,
    /// The set with one more element at the end.
    more: Buffer<T>,
}

/// Consecutive sets of equal length, as matrices.
struct Matrix<T> {
    set: usize,
    count: usize,
    len: usize,
    values: Vec<T>,
    rows: Buffer<T>,
    /// The sets as columns; in `beside`, other elements are next to each column.
    columns: Buffer<T>,
    beside: Buffer<T>,
    /// The matrix of `columns`, two times.
    twice: Buffer<T>,
}

struct Table<T> {
    sets: Vec<Set>,
    wholes: Vec<Whole<T>>,
    matrices: Vec<Matrix<T>>,
    /// All sets concatenated, with the offsets and the keys of each.
    values: Buffer<T>,
    offsets: Buffer<u32>,
    keys: Buffer<u32>,
}

/// Row lengths that select different kernels.
const LENS: [usize; 5] = [1, 3, 4, 17, 40];

impl<T: Case> Table<T> {
    /// Uploads the sets alone and concatenated, and the `few` also as matrices with rows of the lengths
    /// `lens`.
    fn new(few: &[(String, Vec<T>)], many: &[(String, Vec<T>)], lens: &[usize]) -> Self {
        let upload = |values: &[T]| device().upload(values).unwrap();
        let mut sets: Vec<Set> = Vec::new();
        let mut all: Vec<T> = Vec::new();
        let mut offsets = vec![0_u32];
        let mut add = |name: String, values: &[T]| {
            sets.push(set(name, values));
            all.extend(values);
            offsets.push(all.len() as u32);
            sets.len() - 1
        };
        let wholes = few.iter().chain(many).map(|(name, values)| {
            let around = upload(&[&[T::NEVER], &values[..], &[T::NEVER]].concat());
            Whole {
                set: add(name.clone(), values),
                values: values.clone(),
                aligned: upload(values),
                shifted: around.slice(1..=values.len()).unwrap(),
                more: around.slice(1..).unwrap(),
            }
        });
        let wholes: Vec<_> = wholes.collect();
        let mut matrix = |sets: &[(String, Vec<T>)], len: usize| {
            let name = |name: &str| format!("{name}, as {len} elements");
            let rows = sets.iter().map(|(_, values)| values.iter().copied().cycle().take(len));
            let values: Vec<T> = rows.flatten().collect();
            let indices: Vec<usize> = iter::zip(sets, values.chunks(len))
                .map(|((set, _), values)| add(name(set), values))
                .collect();
            let count = sets.len();
            let columns: Vec<T> =
                (0..len * count).map(|at| values[at % count * len + at / count]).collect();
            let beside: Vec<T> = columns.iter().flat_map(|&value| [value, T::NEVER]).collect();
            Matrix {
                set: indices[0],
                count,
                len,
                rows: upload(&values),
                columns: upload(&columns),
                beside: upload(&beside),
                twice: upload(&columns.repeat(2)),
                values,
            }
        };
        let mut matrices: Vec<_> = lens.iter().map(|&len| matrix(few, len)).collect();
        if !many.is_empty() {
            matrices.push(matrix(many, MANY));
        }
        let lens = offsets.windows(2).map(|ends| ends[1] - ends[0]);
        let keys: Vec<u32> =
            (0_u32..).zip(lens).flat_map(|(key, len)| iter::repeat_n(key, len as usize)).collect();
        let upload_integers = |values: &[u32]| device().upload(values).unwrap();
        let (offsets, keys) = (upload_integers(&offsets), upload_integers(&keys));
        let values = upload(&all);
        Self { sets, wholes, matrices, values, offsets, keys }
    }

    fn check(&self, failures: &mut Failures, name: &str, asked: Asked, all: Vec<Found>) {
        let right =
            |on_cpu| self.sets.iter().map(|set| expected(asked, set, on_cpu)).collect::<Vec<Expected>>();
        let (on_device, on_cpu) = (right(false), right(true));
        // Most forms have identical bits; each distinct result is checked once.
        let mut before: HashMap<usize, Vec<Number>> = HashMap::new();
        for Found { form, set, parts } in all {
            let cpu = form.starts_with("CPU");
            if !cpu && before.get(&set).is_some_and(|before| *before == parts) {
                continue;
            }
            let expected = if cpu { &on_cpu[set] } else { &on_device[set] };
            let what = format!("{name} of {}, {form}", T::TYPE.name);
            let right = failures.check(&what, &self.sets[set].name, &parts, expected);
            if right && !cpu {
                before.insert(set, parts);
            }
        }
    }
}

/// Returns all results of an operation on buffers, also in pieces and on the CPU.
fn of_wholes<T: Case, O: Operation<T, Output: Parts>>(table: &Table<T>, op: O) -> Vec<Found> {
    let (reducer, stream) = (reducer(), device().stream().unwrap());
    let mut all = Vec::new();
    let mut recorder = reducer.record();
    let mut recorded = Vec::new();
    let count = count_of(MANY as u64);
    for &Whole { set, ref values, ref aligned, ref shifted, ref more } in &table.wholes {
        recorded.push((set, recorder.reduce(op, aligned).unwrap()));
        let mut add = |form, output: O::Output| {
            all.push(Found { form, set, parts: output.parts() });
        };
        add("a buffer", reducer.reduce(op, aligned).unwrap());
        add("on a stream", reducer.on(&stream).reduce(op, shifted).unwrap().wait().unwrap());
        add("CPU", cpu::reduce(op, values).unwrap());
        let n = values.len();
        if n > 1 {
            // The first and the last element are pieces of their own.
            let mut running = reducer.running(op).unwrap();
            for piece in [0..1, 1..n - 1, n - 1..n].into_iter().filter(|piece| !piece.is_empty()) {
                running.push(&stream, &aligned.slice(piece).unwrap()).unwrap();
            }
            add("in pieces", running.result().unwrap());
        }
        if n > 100 {
            add("streamed", reducer.stream(values).buffers(2, 4000).reduce(op).unwrap());
            let counted = reducer.on(&stream).reduce(op, more.counted(&count)).unwrap();
            add("counted", counted.wait().unwrap());
        }
    }
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    for (set, one) in &recorded {
        all.push(Found { form: "recorded", set: *set, parts: results.get(one).parts() });
    }
    all
}

fn of_pieces<T: Case, O>(table: &Table<T>, op: O) -> Vec<Found>
where
    O: RowsOperation<T, Left: Parts>,
{
    let reducer = reducer();
    let mut all = Vec::new();
    let mut add = |form, first: usize, results: Vec<O::Left>| {
        let results = results.into_iter().zip(first..);
        all.extend(results.map(|(result, set)| Found { form, set, parts: result.parts() }));
    };
    for matrix in &table.matrices {
        let &Matrix { set, count, len, ref values, ref rows, ref columns, ref beside, ref twice } =
            matrix;
        add("rows", set, reducer.reduce(op, rows.rows(len).unwrap()).unwrap());
        add("CPU rows", set, cpu::reduce_rows(op, values, len).unwrap());
        add("columns", set, reducer.reduce(op, columns.columns(count).unwrap()).unwrap());
        let mut both = reducer.reduce(op, twice.axis(&[2, len, count], 1).unwrap()).unwrap();
        add("the second array's axis", set, both.split_off(count));
        add("the first array's axis", set, both);
        let view = beside.view(&[len, count, 2]).unwrap().slice(2, 0..1, 1).unwrap();
        add("a view", set, reducer.reduce(op, view.along(&[0, 2]).unwrap()).unwrap());
        add(
            "a turned view",
            set,
            reducer.reduce(op, view.transposed().along(&[0, 2]).unwrap()).unwrap(),
        );
    }
    let segments = reducer.segments(&table.values, &table.offsets).unwrap();
    add("segments", 0, reducer.reduce(op, &segments).unwrap());
    let by_key = reducer.reduce(op, table.values.by_key(&table.keys)).unwrap();
    add("by key", 0, by_key.results.read().unwrap());
    all
}

/// End indices of the elements on the first devices of a group; the last device has the rest.
const CUTS: [usize; 3] = [1, 1, 2];

/// A set on the devices of a group: the first element alone on the first device, none on the second.
struct Cut<T> {
    set: usize,
    form: &'static str,
    group: &'static Group,
    values: Sharded<T>,
}

impl<T: Case> Cut<T> {
    fn of_all(table: &Table<T>) -> Vec<Self> {
        let of_group = |group: &'static Group| {
            let form = match group.way() {
                Way::Peers => "a group by peers",
                Way::Nccl => "a group by NCCL",
                _ => "a group by copies",
            };
            let cut = move |whole: &Whole<T>| {
                let values = cut(group, &whole.values, &CUTS);
                Self { set: whole.set, form, group, values }
            };
            table.wholes.iter().map(cut)
        };
        groups().iter().flat_map(of_group).collect()
    }
}

struct Asking<T> {
    table: Table<T>,
    failures: Failures,
    /// The sets on devices of a group; if there are any, only these are checked.
    cuts: Vec<Cut<T>>,
}

impl<T: Case> Asking<T> {
    fn new() -> Self {
        Self {
            table: Table::new(&T::few(), &T::many(), &LENS),
            failures: Failures::default(),
            cuts: Vec::new(),
        }
    }

    fn of_groups() -> Self {
        let table = Table::new(&T::few(), &[], &[]);
        Self { cuts: Cut::of_all(&table), table, failures: Failures::default() }
    }

    fn every_form<O>(&mut self, what: What, op: O)
    where
        O: RowsOperation<T, Output: Parts, Left: Parts> + Debug,
    {
        self.buffers(what, op);
        if self.cuts.is_empty() {
            self.check(what, &format!("{op:?}"), of_pieces(&self.table, op));
        }
    }

    fn buffers<O: Operation<T, Output: Parts> + Debug>(&mut self, what: What, op: O) {
        let all = if self.cuts.is_empty() {
            of_wholes(&self.table, op)
        } else {
            let reduced = |cut: &Cut<T>| {
                let parts = cut.group.reduce(op, &cut.values).unwrap().parts();
                Found { form: cut.form, set: cut.set, parts }
            };
            self.cuts.iter().map(reduced).collect()
        };
        self.check(what, &format!("{op:?}"), all);
    }

    fn check(&mut self, what: What, name: &str, all: Vec<Found>) {
        let asked =
            Asked { what, skips: name.contains("SkipNan"), everywhere: name.contains("Reproducible") };
        self.table.check(&mut self.failures, name, asked, all);
    }
}

fn of_any<T: Case<Sum: Parts> + Parts>(asking: &mut Asking<T>) {
    asking.every_form(What::Sum, Sum);
    asking.every_form(What::SumSq, SumOfSquares);
    asking.every_form(What::SumAbs, SumOfMagnitudes);
    asking.every_form(What::Product, Product);
    asking.every_form(What::Min, Min);
    asking.every_form(What::Max, Max);
    asking.every_form(What::MinMax, MinMax);
    asking.every_form(What::ArgMin, ArgMin);
    asking.every_form(What::ArgMax, ArgMax);
    asking.every_form(What::NonZero, CountNonZero);
    asking.every_form(What::Spread, MeanAndVariance);
    asking.every_form(What::HarmonicMean, HarmonicMean);
    of_pairs_and_intervals(asking);
    if asking.cuts.is_empty() {
        norms(asking);
        top(asking);
    }
}

fn of_integers<T: Case<Sum: Parts> + Parts + warpfold::Integer>(asking: &mut Asking<T>) {
    of_any(asking);
    asking.buffers(What::WrappingSum, WrappingSum);
    asking.every_form(What::And, BitAnd);
    asking.every_form(What::Or, BitOr);
    asking.every_form(What::Xor, BitXor);
}

fn of_floats<T: Case<Sum: Parts> + Parts + warpfold::Float>(asking: &mut Asking<T>) {
    of_any(asking);
    asking.every_form(What::Sum, Reproducible(Sum));
    asking.every_form(What::SumSq, Reproducible(SumOfSquares));
    asking.every_form(What::SumAbs, Reproducible(SumOfMagnitudes));
    asking.every_form(What::Spread, Reproducible(MeanAndVariance));
    asking.every_form(What::HarmonicMean, Reproducible(HarmonicMean));
    asking.every_form(What::HarmonicMean, SkipNan(HarmonicMean));
    asking.every_form(What::HarmonicMean, Reproducible(SkipNan(HarmonicMean)));
    asking.every_form(What::ThirdMoment, ThirdCentralMoment);
    asking.every_form(What::ThirdMoment, SkipNan(ThirdCentralMoment));
    asking.every_form(What::Sum, SkipNan(Sum));
    asking.every_form(What::SumSq, SkipNan(SumOfSquares));
    asking.every_form(What::SumAbs, SkipNan(SumOfMagnitudes));
    asking.every_form(What::Product, SkipNan(Product));
    asking.every_form(What::Min, SkipNan(Min));
    asking.every_form(What::Max, SkipNan(Max));
    asking.every_form(What::MinMax, SkipNan(MinMax));
    asking.every_form(What::ArgMin, SkipNan(ArgMin));
    asking.every_form(What::ArgMax, SkipNan(ArgMax));
    asking.every_form(What::Spread, SkipNan(MeanAndVariance));
    asking.every_form(What::Sum, Reproducible(SkipNan(Sum)));
    asking.every_form(What::SumSq, Reproducible(SkipNan(SumOfSquares)));
    asking.every_form(What::SumAbs, Reproducible(SkipNan(SumOfMagnitudes)));
    asking.every_form(What::Spread, Reproducible(SkipNan(MeanAndVariance)));
    asking.every_form(What::NanCount, CountNan);
    asking.every_form(What::LogSumExp, LogSumExp);
}

fn norms<T: Case<Sum: Parts>>(asking: &mut Asking<T>) {
    let all = |of: &dyn Fn(&Buffer<T>) -> Vec<Number>| -> Vec<Found> {
        let wholes = asking.table.wholes.iter();
        wholes
            .map(|whole| Found { form: "a buffer", set: whole.set, parts: of(&whole.aligned) })
            .collect()
    };
    let means = all(&|buffer| reducer().mean(buffer).unwrap().parts());
    let l1 = all(&|buffer| reducer().reduce(op::L1Norm, buffer).unwrap().parts());
    let l2 = all(&|buffer| reducer().reduce(op::L2Norm, buffer).unwrap().parts());
    let largest = all(&|buffer| reducer().reduce(op::MaxNorm, buffer).unwrap().parts());
    asking.check(What::Mean, "mean", means);
    asking.check(What::L1, "l1_norm", l1);
    asking.check(What::L2, "l2_norm", l2);
    asking.check(What::MaxNorm, "max_norm", largest);
}

fn of_pairs_and_intervals<T: Case<Sum: Parts>>(asking: &mut Asking<T>) {
    pairs(asking, Dot, false);
    pairs(asking, SquaredDistance, true);
    pairs(asking, Reproducible(Dot), false);
    pairs(asking, Reproducible(SquaredDistance), true);
    within(asking);
}

fn pairs<T: Case<Sum: Parts>, O: PairOperation + Debug>(asking: &mut Asking<T>, op: O, distance: bool) {
    let stream = device().stream().unwrap();
    let Asking { table, failures, cuts } = asking;
    for Whole { set, values, shifted, .. } in &table.wholes {
        let reversed: Vec<T> = values.iter().rev().copied().collect();
        let Set { name, elements, .. } = &table.sets[*set];
        let others: Vec<Number> = elements.iter().rev().copied().collect();
        let right = of_pairs(distance, &format!("{op:?}"), [elements, &others], T::TYPE);
        let mut check = |form: &str, found: T::Sum| {
            let want = right[usize::from(form == "CPU")].clone();
            let what = format!("{op:?} of {}, {form}", T::TYPE.name);
            failures.check(&what, &format!("{name}, and reversed"), &found.parts(), &Some(vec![want]));
        };
        if cuts.is_empty() {
            let b = device().upload(&reversed).unwrap();
            check("two buffers", reducer().reduce(op, (shifted, &b)).unwrap());
            let b = device().upload(&[&[T::NEVER], &reversed[..]].concat()).unwrap();
            let pending = reducer().on(&stream).reduce(op, (shifted, &b.slice(1..).unwrap()));
            check("on a stream", pending.unwrap().wait().unwrap());
            check("CPU", cpu::reduce_pair(op, values, &reversed).unwrap());
        }
        for Cut { form, group, values, .. } in cuts.iter().filter(|cut| cut.set == *set) {
            let reversed = cut(group, &reversed, &CUTS);
            check(form, group.reduce(op, (values, &reversed)).unwrap());
        }
    }
}

fn within<T: Case<Sum: Parts>>(asking: &mut Asking<T>) {
    let stream = device().stream().unwrap();
    let Asking { table, failures, cuts } = asking;
    for Whole { set: at, values, aligned, shifted, .. } in &table.wholes {
        for [low, high] in T::intervals() {
            let inside: Vec<T> =
                values.iter().copied().filter(|value| low <= *value && *value <= high).collect();
            let name = format!("{} in {low:?}..={high:?}", table.sets[*at].name);
            let inside = set(name, &inside);
            let asked = |everywhere| Asked { what: What::Within, skips: false, everywhere };
            let right = [(false, false), (false, true), (true, false)]
                .map(|(everywhere, on_cpu)| expected(asked(everywhere), &inside, on_cpu));
            let mut check = |form: &str, everywhere: bool, found: Within<T::Sum>| {
                let right = &right[if everywhere { 2 } else { usize::from(form == "CPU") }];
                let word = if everywhere { "Reproducible " } else { "" };
                let what = format!("{word}reduce_within of {}, {form}", T::TYPE.name);
                failures.check(&what, &inside.name, &found.parts(), right);
            };
            let range = (Bound::Included(low), Bound::Included(high));
            if cuts.is_empty() {
                check("a buffer", false, reducer().reduce(op::Sum, aligned.filter(range)).unwrap());
                let pending = reducer().on(&stream).reduce(op::Sum, shifted.filter(range)).unwrap();
                check("on a stream", false, pending.wait().unwrap());
                check("CPU", false, cpu::reduce_within(range, values).unwrap());
                let op = op::Sum.reproducible();
                check("a buffer", true, reducer().reduce(op, shifted.filter(range)).unwrap());
                check("CPU", true, cpu::reduce_within(Reproducible(range), values).unwrap());
            }
            for Cut { form, group, values, .. } in cuts.iter().filter(|cut| cut.set == *at) {
                check(form, false, group.reduce(op::Sum, values.filter(range)).unwrap());
                check(form, true, group.reduce(op::Sum.reproducible(), values.filter(range)).unwrap());
            }
        }
    }
}

fn top<T: Case>(asking: &mut Asking<T>) {
    let Asking { table, failures, .. } = asking;
    let mut check = |form: &str, set: usize, largest: bool, found: Vec<Located<T>>| {
        let Set { name, elements, .. } = &table.sets[set];
        let order = |one: Number, other: Number| match (one.is_nan(), other.is_nan()) {
            (false, false) if largest => other.order(one),
            (false, false) => one.order(other),
            (one, other) => other.cmp(&one),
        };
        let mut places: Vec<usize> = (0..elements.len()).collect();
        places.sort_by(|&one, &other| order(elements[one], elements[other]));
        let right = places.iter().take(3).flat_map(|&at| [elements[at], Number::Integer(at as i128)]);
        let found: Vec<Number> =
            found.iter().flat_map(|one| [one.value.number(), one.index.parts()[0]]).collect();
        let what = format!(
            "the 3 {} of {}, {form}",
            if largest { "largest" } else { "smallest" },
            T::TYPE.name
        );
        failures.check(&what, name, &found, &Some(right.map(Want::Is).collect()));
    };
    for Whole { set, values, aligned, shifted, .. } in &table.wholes {
        check("a buffer", *set, true, reducer().reduce(Largest(3), aligned).unwrap());
        check("a buffer", *set, false, reducer().reduce(Smallest(3), shifted).unwrap());
        check("CPU", *set, true, cpu::top_k(Largest(3), values).unwrap());
        check("CPU", *set, false, cpu::top_k(Smallest(3), values).unwrap());
    }
    for &Matrix { set, len, ref rows, .. } in table.matrices.iter().filter(|matrix| matrix.len >= 3) {
        let rows = rows.rows(len).unwrap();
        let (largest, smallest) = (
            reducer().reduce(Largest(3), &rows).unwrap(),
            reducer().reduce(Smallest(3), &rows).unwrap(),
        );
        for (at, (largest, smallest)) in iter::zip(largest.chunks(3), smallest.chunks(3)).enumerate() {
            check("rows", set + at, true, largest.to_vec());
            check("rows", set + at, false, smallest.to_vec());
        }
    }
}

macro_rules! tests {
    ($($test:ident: $function:ident of $ty:ty, with $($wide:ty)?;)*) => {
        $(
            #[test]
            fn $test() {
                let _checked = no_findings();
                let mut asking = Asking::<$ty>::new();
                $function(&mut asking);
                $(asking.every_form(What::WideSum, Sum.accumulate_in::<$wide>());)?
                asking.failures.done();
            }
        )*

        #[test]
        fn groups_have_the_results_of_exact_arithmetic() {
            if !on_four("adversarial::groups_have_the_results_of_exact_arithmetic") {
                return;
            }
            let mut failures = Failures::default();
            $({
                let mut asking = Asking::<$ty> { failures, ..Asking::of_groups() };
                $function(&mut asking);
                $(asking.every_form(What::WideSum, Sum.accumulate_in::<$wide>());)?
                failures = asking.failures;
            })*
            failures.done();
        }
    };
}

tests! {
    results_of_i8_are_those_of_exact_arithmetic: of_integers of i8, with;
    results_of_u8_are_those_of_exact_arithmetic: of_integers of u8, with;
    results_of_i16_are_those_of_exact_arithmetic: of_integers of i16, with;
    results_of_u16_are_those_of_exact_arithmetic: of_integers of u16, with;
    results_of_i32_are_those_of_exact_arithmetic: of_integers of i32, with;
    results_of_u32_are_those_of_exact_arithmetic: of_integers of u32, with;
    results_of_i64_are_those_of_exact_arithmetic: of_integers of i64, with i128;
    results_of_u64_are_those_of_exact_arithmetic: of_integers of u64, with u128;
    results_of_f16_are_those_of_exact_arithmetic: of_floats of f16, with f64;
    results_of_bf16_are_those_of_exact_arithmetic: of_floats of bf16, with f64;
    results_of_f32_are_those_of_exact_arithmetic: of_floats of f32, with f64;
    results_of_f64_are_those_of_exact_arithmetic: of_floats of f64, with;
}
