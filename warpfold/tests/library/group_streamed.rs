//! Sources that are on no device, reduced by several devices at once.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use warpfold::{
    Error, Group, Plain, Running,
    op::{self, Operation},
    source::{self, Source},
};

use crate::{
    common::{Sample, extreme, reducer, says, small, splitmix},
    group::{groups, on_four, reducers},
};

/// Streams with buffers of 4000 bytes, so that each device uses several in turn.
fn streamed<T: Plain, O: Operation<T> + Send>(
    group: &Group,
    op: O,
    source: impl Source<T>,
) -> Result<O::Output, Error> {
    group.stream(source).buffers(3, 4000).threads(2).reduce(op)
}

#[test]
fn every_source_has_the_result_of_its_elements() {
    if !on_four("group_streamed::every_source_has_the_result_of_its_elements") {
        return;
    }
    for group in groups() {
        for n in [0, 1, 999, 4095, 4096, 4097, 8192, 16_385, 65_537] {
            let values = small::<i32>(n, 7);
            let what = format!("{n} on {group:?}");
            let sum = i32::total(&values, false);
            assert_eq!(streamed(group, op::Sum, &values).unwrap(), sum, "{what}");
            assert_eq!(streamed(group, op::ArgMax, &values).unwrap(), extreme(&values, true), "{what}");
            assert_eq!(
                streamed(group, op::Min, &values).unwrap(),
                values.iter().copied().min(),
                "{what}"
            );
            // Sequential sources of unknown length.
            let pieces = || source::pieces(values.chunks(700).map(Ok));
            assert_eq!(streamed(group, op::Sum, pieces()).unwrap(), sum, "{what}");
            assert_eq!(streamed(group, op::ArgMax, pieces()).unwrap(), extreme(&values, true), "{what}");
        }
    }
}

#[test]
fn indices_are_relative_to_all_elements() {
    if !on_four("group_streamed::indices_are_relative_to_all_elements") {
        return;
    }
    let mut values = small::<f32>(40_000, 3);
    for at in [39_999, 30_001, 20_000, 12_287, 4096, 4095, 0] {
        values[at] = 1e6;
        for group in groups() {
            let found = streamed(group, op::ArgMax, &values).unwrap().unwrap();
            assert_eq!((found.index, found.value), (at as u64, 1e6), "{group:?}");
        }
    }
}

#[test]
fn reproducible_sums_are_equal_in_streams() {
    if !on_four("group_streamed::reproducible_sums_are_equal_in_streams") {
        return;
    }
    // Floats of both signs, from 2^-31 to 2, so that sums are rounded.
    let values: Vec<f32> = (0..50_000)
        .map(|at| f32::from_bits((splitmix(at) as u32 & 0x8fff_ffff) | 0x3000_0000))
        .collect();
    let buffer = reducer().device().upload(&values).unwrap();
    let everywhere = op::Sum.reproducible();
    let expected = reducer().reduce(everywhere, &buffer).unwrap().to_bits();
    for group in groups() {
        assert_eq!(streamed(group, everywhere, &values).unwrap().to_bits(), expected, "{group:?}");
        let sums = [(); 3].map(|()| streamed(group, op::Sum, &values).unwrap().to_bits());
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?} on {group:?}");
    }
}

#[test]
fn progress_is_reported_for_all_devices_together() {
    if !on_four("group_streamed::progress_is_reported_for_all_devices_together") {
        return;
    }
    let values = vec![1_u16; 100_001];
    for group in groups() {
        let mut told = Vec::new();
        let caller = std::thread::current().id();
        let stream = group.stream(&values).buffers(2, 3000).on_progress(|at| {
            assert_eq!((at.of, std::thread::current().id()), (Some(100_001), caller));
            assert_eq!(at.bytes, 2 * at.elements);
            told.push(at.elements);
        });
        assert_eq!(stream.reduce(op::Sum).unwrap(), 100_001);
        assert!(told.is_sorted(), "{told:?}");
        assert_eq!(told.last(), Some(&100_001));
        assert!(told.len() >= 100_001 / 1500, "{}", told.len());
    }
}

/// A source of ones that fails at one element.
struct Broken {
    len: u64,
    at: u64,
    panics: bool,
    taken: AtomicU64,
}

impl Broken {
    fn new(len: u64, at: u64, panics: bool) -> Self {
        Self { len, at, panics, taken: AtomicU64::new(0) }
    }
}

impl Source<u8> for Broken {
    fn elements(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<usize> {
        let end = (start + into.len() as u64).min(self.len);
        if (start..end).contains(&self.at) {
            assert!(!self.panics, "a source that panics");
            return Err(io::Error::other("the disk is on fire"));
        }
        into.fill(1);
        self.taken.fetch_add(end - start, Ordering::Relaxed);
        Ok((end - start) as usize)
    }
}

/// The error names the place in the source, and no device reads its part of 256 MiB to the end, however
/// long printing a panic's backtrace takes.
#[test]
fn source_error_names_its_position_and_stops_all_devices() {
    if !on_four("group_streamed::source_error_names_its_position_and_stops_all_devices") {
        return;
    }
    let len = 1 << 30;
    for group in groups() {
        let parts = reducers().len() as u64;
        let last = len / parts * (parts - 1);
        for panics in [false, true] {
            let broken = Broken::new(len, last + 10_000, panics);
            let stream = group.stream(&broken).buffers(2, 4096).threads(1);
            let ended = catch_unwind(AssertUnwindSafe(|| stream.reduce(op::Sum)));
            match ended {
                Err(_) => assert!(panics),
                Ok(ended) => {
                    let error = ended.unwrap_err();
                    assert!(!panics);
                    assert!(matches!(error, Error::Source { at, .. } if at == last + 8192), "{error:?}");
                    let words = format!("{:?}", error);
                    assert!(words.contains("on fire"), "{words}");
                }
            }
            let taken = broken.taken.load(Ordering::Relaxed);
            assert!(taken < len / 2, "{taken} of {len} were read on {group:?}");
            assert_eq!(streamed(group, op::Sum, vec![1_u8; 20_000]).unwrap(), 20_000);
        }
    }
}

#[test]
fn invalid_streams_are_refused_before_reading() {
    if !on_four("group_streamed::invalid_streams_are_refused_before_reading") {
        return;
    }
    for group in groups() {
        let long = Broken::new((1 << 35) + 1, u64::MAX, false);
        // A source of floats, because reproducible sums of integers are plain sums.
        let error = group.stream(source_of_floats(&long)).reduce(op::Sum.reproducible()).unwrap_err();
        assert!(matches!(error, Error::TooManyElements { most, .. } if most == 1 << 35), "{error}");
        assert_eq!(long.taken.load(Ordering::Relaxed), 0);
        for none in [vec![], vec![1_u8]] {
            let error = group.stream(&none).buffers(1, 4096).reduce(op::Sum).unwrap_err();
            says(&error, &["1 buffers", "give 2 buffers or more"]);
        }
    }
}

fn source_of_floats(bytes: &Broken) -> impl Source<f32> {
    struct Floats<'a>(&'a Broken);

    impl Source<f32> for Floats<'_> {
        fn elements(&self) -> Option<u64> {
            self.0.elements()
        }

        fn read_at(&self, start: u64, into: &mut [f32]) -> io::Result<usize> {
            self.0.taken.fetch_add(into.len() as u64, Ordering::Relaxed);
            into.fill(1.0);
            Ok(into.len().min((self.0.len - start) as usize))
        }
    }
    Floats(bytes)
}

#[test]
fn running_reductions_of_all_devices_are_combined() {
    if !on_four("group_streamed::running_reductions_of_all_devices_are_combined") {
        return;
    }
    let values = small::<i16>(10_000, 3);
    for group in groups() {
        let share = values.len() / reducers().len();
        let mut running: Vec<Running<i16, op::ArgMin>> = reducers()
            .iter()
            .enumerate()
            .map(|(rank, reducer)| {
                reducer.running(op::ArgMin).unwrap().starting_at((rank * share) as u64).unwrap()
            })
            .collect();
        assert_eq!(group.result(&running).unwrap(), None);
        // The first device gets its elements last.
        for rank in (0..running.len()).rev() {
            let (start, device) = (rank * share, reducers()[rank].device());
            for piece in values[start..][..share].chunks(share.div_ceil(3)) {
                let buffer = device.upload(piece).unwrap();
                running[rank].push(&device.stream().unwrap(), &buffer).unwrap();
            }
            let mut expected = extreme(&values[start..], false).unwrap();
            expected.index += start as u64;
            assert_eq!(group.result(&running).unwrap(), Some(expected), "{rank} on {group:?}");
        }
        let one = running.pop().into_iter().collect::<Vec<_>>();
        let devices = reducers().len();
        if devices > 1 {
            let said = format!("1 running reductions are given for {devices} devices");
            says(&group.result(&one).unwrap_err(), &[&said]);
            let swapped = [1, 0].into_iter().chain(2..devices);
            let others = swapped.map(|rank| reducers()[rank].running(op::ArgMin).unwrap());
            let error = group.result::<i16, _>(&others.collect::<Vec<_>>()).unwrap_err();
            assert!(matches!(error, Error::OtherDevice { what: "running reduction", .. }), "{error}");
        }
    }
}
