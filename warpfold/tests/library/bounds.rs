//! Arguments of any size for every call that takes a number: each is accepted or refused with a one-line
//! message that names what is allowed, and nothing overflows.

use std::{
    fmt::Debug,
    fs::File,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    time::Duration,
};

use bytemuck::{Pod, Zeroable};
use warpfold::{
    Buffer, Device, Error, Group, Outputs, Rendezvous, Selection, Sharded, Spread, View, cpu,
    dlpack::{DataType, Layout, ManagedTensor},
    op,
    source::{self, Source},
};

use crate::common::{device, reducer, says};

const MAX: usize = usize::MAX;
/// The largest size of a Rust allocation.
const LARGE: usize = isize::MAX as usize;
/// More elements than any device has bytes.
const MANY: usize = 1 << 50;

const NUMBERS: [usize; 6] = [0, 1, 10, MANY, LARGE, MAX];

fn ten() -> &'static Buffer<i32> {
    static TEN: OnceLock<Buffer<i32>> = OnceLock::new();
    TEN.get_or_init(|| device().upload(&[1; 10]).unwrap())
}

fn none() -> &'static Buffer<i32> {
    static NONE: OnceLock<Buffer<i32>> = OnceLock::new();
    NONE.get_or_init(|| device().upload(&[]).unwrap())
}

/// Returns an empty view with two axes of the largest possible strides.
fn no_view() -> View<'static, i32> {
    none().view_strided(0, &[0, MAX, MAX], &[isize::MAX; 3]).unwrap()
}

fn group() -> &'static (Group, Sharded<i32>) {
    static GROUP: OnceLock<(Group, Sharded<i32>)> = OnceLock::new();
    GROUP.get_or_init(|| {
        let group = Group::new(std::slice::from_ref(reducer())).unwrap();
        let values = group.sharded(vec![ten().clone()]).unwrap();
        (group, values)
    })
}

fn no_shards() -> &'static Sharded<i32> {
    static NONE: OnceLock<Sharded<i32>> = OnceLock::new();
    NONE.get_or_init(|| group().0.sharded(vec![none().clone()]).unwrap())
}

type Answer = Result<(), Error>;

fn short(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn done<R>(answer: Result<R, Error>) -> Answer {
    answer.map(drop)
}

/// Returns whether a call accepts its argument. It must not panic, and a refusal has one line.
fn takes(what: &str, given: &dyn Debug, call: impl FnOnce() -> Answer) -> bool {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let line = error.to_string();
            assert!(line.len() > 10 && !line.contains('\n'), "{what} of {given:?}: {line:?}");
            false
        }
        Err(_) => panic!("{what} of {given:?} panics"),
    }
}

type Call = (&'static str, fn(usize) -> Answer, &'static [usize]);

/// Calls that take a number, and the elements of [`NUMBERS`] that they accept.
const CALLS: &[Call] = &[
    ("rows", |n| done(reducer().reduce(op::Sum, ten().rows(n)?)), &[1, 10]),
    ("rows of none", |n| done(reducer().reduce(op::Sum, none().rows(n)?)), &[1, 10, MANY, LARGE, MAX]),
    ("columns", |n| done(reducer().reduce(op::Sum, ten().columns(n)?)), &[1, 10]),
    ("slice from", |n| done(ten().slice(n..)), &[0, 1, 10]),
    ("slice to", |n| done(ten().slice(..n)), &[0, 1, 10]),
    ("slice through", |n| done(ten().slice(..=n)), &[0, 1]),
    ("slice between", |n| done(ten().slice(n..n)), &[0, 1, 10]),
    ("slice from through", |n| done(ten().slice(n..=n)), &[0, 1]),
    ("slice behind", |n| done(ten().slice((Bound::Excluded(n), Bound::Unbounded))), &[0, 1]),
    ("slice back", |n| done(ten().slice(n..1)), &[0, 1]),
    ("slice of none", |n| done(none().slice(n..n)), &[0]),
    ("axis", |n| done(ten().axis(&[10], n)), &[0]),
    ("axis of a length", |n| done(ten().axis(&[n], 0)), &[10]),
    ("axis of lengths", |n| done(ten().axis(&[n, n], 1)), &[]),
    ("axis of none", |n| done(reducer().reduce(op::Sum, none().axis(&[n, n, 0], 0)?)), &NUMBERS),
    ("axis of no results", |n| done(none().axis(&[n, n, 0], 2)), &[0]),
    ("axes from", |n| done(ten().axes(&[1, 10], n..2)), &[0, 1]),
    ("axes to", |n| done(ten().axes(&[1, 10], 0..n)), &[1]),
    ("axes between", |n| done(ten().axes(&[1, 10], n..n)), &[]),
    ("axes behind", |n| done(ten().axes(&[1, 10], n..n.saturating_add(1))), &[0, 1]),
    ("view", |n| done(ten().view(&[n])), &[10]),
    ("view of two", |n| done(ten().view(&[n, n])), &[]),
    ("view of nine", |n| done(ten().view(&[n; 9])), &[]),
    ("view of none", |n| done(none().view(&[0, n, n])), &NUMBERS),
    ("view from", |n| done(ten().view_strided(n, &[1], &[1])), &[0, 1]),
    ("view of a length", |n| done(ten().view_strided(0, &[n], &[1])), &[0, 1, 10]),
    ("view of a stride", |n| done(ten().view_strided(0, &[2], &[n as isize])), &[1]),
    ("view of steps", |n| done(ten().view_strided(n, &[n, n], &[n as isize; 2])), &[0, 1]),
    ("view of any", |n| done(none().view_strided(0, &[0, n], &[isize::MAX; 2])), &NUMBERS),
    ("view back", |n| done(ten().view_strided(n, &[2], &[isize::MIN])), &[]),
    ("slice of an axis", |n| done(ten().view(&[10])?.slice(n, 0..1, 1)), &[0]),
    ("slice of a view from", |n| done(ten().view(&[10])?.slice(0, n..10, 1)), &[0, 1, 10]),
    ("slice of a view to", |n| done(ten().view(&[10])?.slice(0, 0..n, 1)), &[0, 1, 10]),
    ("slice of a view back", |n| done(ten().view(&[10])?.slice(0, n..0, 1)), &[0]),
    ("slice of a view by", |n| done(ten().view(&[10])?.slice(0, 0..10, n)), &[1, 10, MANY, LARGE, MAX]),
    ("slice of no view", |n| done(no_view().slice(1, n..MAX, 1)), &NUMBERS),
    ("slice of no view by", |n| done(no_view().slice(1, 1..MAX, n)), &[1, 10, MANY, LARGE, MAX]),
    ("slices of no view", |n| done(no_view().slice(1, n..MAX, 1)?.slice(2, n..MAX, 7)), &NUMBERS),
    (
        "reduced slice of no view",
        |n| done(reducer().reduce(op::Sum, no_view().slice(1, n..MAX, 3)?.along(&[1])?)),
        &NUMBERS,
    ),
    ("order of axes", |n| done(ten().view(&[10])?.permuted(&[n])), &[0]),
    ("results", |n| done(ten().view(&[10])?.along(&[n])), &[0]),
    ("results of no view", |n| done(no_view().along(&[n])), &[1]),
    ("reduced view", |n| done(reducer().reduce(op::Sum, ten().view(&[10])?.along(&[n])?)), &[0]),
    ("outputs", |n| done(device().outputs::<u32>(n)), &[0, 1, 10]),
    ("largest", |n| done(reducer().reduce(op::Largest(n), ten())), &[1, 10, MANY, LARGE, MAX]),
    ("smallest", |n| done(reducer().reduce(op::Smallest(n), ten())), &[1, 10, MANY, LARGE, MAX]),
    ("largest of rows", |n| done(reducer().reduce(op::Largest(n), ten().rows(5)?)), &[1]),
    ("largest of none", |n| done(reducer().reduce(op::Largest(n), none())), &[1, 10, MANY, LARGE, MAX]),
    (
        "running from",
        |n| done(reducer().running::<i32, _>(op::ArgMax).unwrap().starting_at(n as u64)),
        &[0, 1, 10],
    ),
    (
        "a stream's buffers",
        |n| done(reducer().stream(&[1_i32; 10][..]).buffers(n, 4096).reduce(op::Sum)),
        &[10],
    ),
    (
        "a stream's bytes",
        |n| done(reducer().stream(&[1_i32; 10][..]).buffers(2, n).reduce(op::Sum)),
        &[10],
    ),
    (
        "a reader's buffers",
        |n| {
            let reader = source::reader(&[0_u8; 40][..]);
            done(reducer().stream::<i32, _>(reader).buffers(n, 4096).reduce(op::Sum))
        },
        &[10],
    ),
    (
        "a stream's threads",
        |n| done(reducer().stream(&[1_i32; 10][..]).threads(n).reduce(op::Sum)),
        &[1, 10],
    ),
    ("rows of a group", |n| done(group().0.reduce(op::Sum, group().1.rows(n))), &[1, 10]),
    ("axis of a group", |n| done(group().0.reduce(op::Sum, group().1.axis(&[n], 0))), &[1, 10]),
    ("axes of a group", |n| done(group().0.reduce(op::Sum, group().1.axis(&[n, n], 1))), &[1]),
    ("an axis of a group", |n| done(group().0.reduce(op::Sum, group().1.axis(&[10], n))), &[0]),
    (
        "axis of an empty group",
        |n| done(group().0.reduce(op::Sum, no_shards().axis(&[n, 2], 0))),
        &NUMBERS,
    ),
    (
        "largest of a group",
        |n| done(group().0.reduce(op::Largest(n), &group().1)),
        &[1, 10, MANY, LARGE, MAX],
    ),
    (
        "largest of a group's rows",
        |n| done(group().0.reduce(op::Largest(1), group().1.rows(n))),
        &[1, 10],
    ),
    (
        "a group's buffers",
        |n| done(group().0.stream(&[1_i32; 10][..]).buffers(n, n).reduce(op::Sum)),
        &[10],
    ),
    (
        "a group's threads",
        |n| done(group().0.stream(&[1_i32; 10][..]).threads(n).reduce(op::Sum)),
        &[1, 10],
    ),
    ("rows on the CPU", |n| done(cpu::reduce_rows(op::Sum, &[1; 10], n)), &[1, 10]),
    (
        "rows of none on the CPU",
        |n| done(cpu::reduce_rows::<i32, _>(op::Sum, &[], n)),
        &[1, 10, MANY, LARGE, MAX],
    ),
    ("largest on the CPU", |n| done(cpu::top_k(op::Largest(n), &[1; 10])), &[1, 10, MANY, LARGE, MAX]),
    ("largest of rows on the CPU", |n| done(cpu::top_k_rows(op::Largest(n), &[1; 10], 5)), &[1]),
    ("a rank", |n| done(Rendezvous::new(short(n), 10, "")), &[0, 1]),
    ("a world", |n| done(Rendezvous::new(0, short(n), "")), &[1, 10]),
    ("a simulated device", |n| done(Device::open(Selection::SimOrdinal(short(n)))), &[0]),
    ("whose memory", |n| done(device().ordinal_of(n as u64)), &NUMBERS),
    (
        "memory of others",
        |n| {
            // SAFETY: nothing reads the elements.
            done(unsafe { Buffer::<i32>::from_raw_parts(device(), 256, n, ()) })
        },
        &[0, 1, 10, MANY],
    ),
    (
        "outputs of others",
        |n| {
            // SAFETY: nothing writes to the address.
            done(unsafe { Outputs::<i32>::from_raw_parts(device(), 256, n, ()) })
        },
        &NUMBERS,
    ),
    (
        "offsets",
        |n| {
            let offsets = device().upload(&[0, n as u64]).unwrap();
            done(reducer().segments(ten(), &offsets))
        },
        &[0, 1, 10],
    ),
    (
        "offsets from",
        |n| {
            let offsets = device().upload(&[n as i64, 10]).unwrap();
            done(reducer().segments(ten(), &offsets))
        },
        &[0, 1, 10],
    ),
    (
        "a tensor's lengths",
        |n| {
            let layout = Layout::compact(DataType::of::<u8>(), vec![n, n]);
            let tensor =
                device().upload(&[1_u8; 100]).unwrap().into_dlpack_as::<ManagedTensor>(layout)?;
            // SAFETY: the tensor was made just now and has no other owner.
            unsafe { (*tensor).deleter.unwrap()(tensor) };
            Ok(())
        },
        &[0, 1, 10],
    ),
    (
        "a tensor's strides",
        |n| {
            let layout = Layout { dtype: DataType::of::<u8>(), shape: vec![n, 2], strides: vec![n, n] };
            let tensor =
                device().upload(&[1_u8; 200]).unwrap().into_dlpack_as::<ManagedTensor>(layout)?;
            // SAFETY: the tensor was made just now and has no other owner.
            unsafe { (*tensor).deleter.unwrap()(tensor) };
            Ok(())
        },
        &[0, 1, 10],
    ),
];

#[test]
fn numeric_arguments_of_any_size_are_accepted_or_rejected() {
    let mut wrong = Vec::new();
    for (what, call, taken) in CALLS {
        let found: Vec<_> = NUMBERS.iter().filter(|&n| takes(what, n, || call(*n))).collect();
        if !found.iter().copied().eq(*taken) {
            wrong.push(format!("{what} takes {found:?}, not {taken:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The first and last values of a type have a neighbour on one side only.
#[test]
fn any_interval_has_the_elements_that_are_inside() {
    let values = device().upload(&[i32::MIN, -1, 0, 1, i32::MAX]).unwrap();
    let count =
        |range: (Bound<i32>, Bound<i32>)| reducer().reduce(op::Sum, values.filter(range)).unwrap().count;
    use Bound::{Excluded, Included, Unbounded};
    let (min, max) = (i32::MIN, i32::MAX);
    for (range, expected) in [
        ((Included(min), Included(max)), 5),
        ((Excluded(min), Excluded(max)), 3),
        ((Excluded(max), Unbounded), 0),
        ((Unbounded, Excluded(min)), 0),
        ((Included(max), Excluded(max)), 0),
        ((Included(max), Included(min)), 0),
        ((Excluded(max), Excluded(min)), 0),
        ((Unbounded, Included(max)), 5),
    ] {
        assert_eq!(count(range), expected, "{range:?}");
        assert_eq!(cpu::reduce_within(range, &values.download().unwrap()).unwrap().count, expected);
    }
    let floats = device().upload(&[f32::NEG_INFINITY, -0.0, f32::MAX, f32::INFINITY]).unwrap();
    let count =
        |range: (Bound<f32>, Bound<f32>)| reducer().reduce(op::Sum, floats.filter(range)).unwrap().count;
    assert_eq!(count((Excluded(f32::MAX), Unbounded)), 1);
    assert_eq!(count((Excluded(f32::INFINITY), Unbounded)), 0);
    assert_eq!(count((Unbounded, Excluded(f32::NEG_INFINITY))), 0);
    says(&reducer().reduce(op::Sum, floats.filter(f32::NAN..)).unwrap_err(), &["NaN"]);
}

#[test]
fn queries_accept_any_number() {
    for n in NUMBERS {
        let spread = Spread { mean: 1.0, variance: 2.0 };
        assert!(n < 2 || (2.0..=2.3).contains(&spread.sample_variance(n as u64)));
        let mut into = [0; 4];
        let found = [1_i32; 10][..].read_at(n as u64, &mut into).unwrap();
        assert_eq!(found, [4, 4][usize::from(n > 0)].min(10_usize.saturating_sub(n)));
        assert_eq!(Outputs::<u64>::bytes_of(n).max(16), (n as u64).saturating_mul(8).max(16));
        let path = std::env::temp_dir().join(format!("warpfold-{}-bounds-{n}", std::process::id()));
        std::fs::write(&path, [1; 40]).unwrap();
        let all = source::File::<i32>::open(&path).unwrap();
        assert_eq!(all.read_at(n as u64, &mut into).unwrap(), 10_usize.saturating_sub(n).min(4));
        for (offset, len) in [(0, n), (n, 0), (n, n)] {
            let file = File::open(&path).unwrap();
            let part = source::File::<i32>::part(file, offset as u64, len as u64);
            assert_eq!(part.is_ok(), offset.saturating_add(4 * len.min(11)) <= 40, "{offset} {len}");
        }
        std::fs::remove_file(&path).unwrap();
        let layout = Layout::compact(DataType::of::<i64>(), vec![n, n]);
        assert_eq!(layout.bytes(), n.checked_mul(n).and_then(|len| len.checked_mul(8)));
    }
    let rendezvous = Rendezvous::new(0, 1, "").unwrap();
    for timeout in [Duration::ZERO, Duration::MAX] {
        warpfold::World::join(&rendezvous.clone().with_timeout(timeout), reducer()).unwrap();
    }
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(256))]
struct Aligned([u8; 256]);

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(8192))]
struct ToPages([[u8; 1024]; 8]);

/// Memory is aligned to 256 bytes, and larger element alignments are refused.
#[test]
fn element_alignments_up_to_256_bytes_are_accepted() {
    let some = vec![Aligned::zeroed(); 10];
    assert_eq!(device().upload(&some).unwrap().as_device_ptr() % 256, 0);
    assert_eq!(reducer().stream(&some[..]).push_to(&mut []).unwrap(), 10);
    let some = vec![ToPages::zeroed(); 10];
    let words = ["8192 bytes", "256 at most"];
    says(&device().upload(&some).unwrap_err(), &words);
    says(&reducer().stream(&some[..]).push_to(&mut []).unwrap_err(), &words);
    says(&group().0.upload(&some).unwrap_err(), &words);
}
