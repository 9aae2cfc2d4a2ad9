//! Reductions of sources that need not fit into the device's memory.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use warpfold::{
    Element, Error, Progress,
    op::{self, Operation},
    source::{self, Source},
};

use crate::{
    common::{Sample, device, extreme, no_findings, reducer, says, small, splitmix},
    operations::Number,
};

struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("warpfold-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn streamed<T: Element, O: Operation<T>>(op: O, source: impl Source<T>) -> Result<O::Output, Error> {
    reducer().stream(source).buffers(3, 4000).reduce(op)
}

/// A source that delivers later parts before earlier ones.
struct Late<'a, T>(&'a [T], AtomicUsize);

impl<T: Element> Source<T> for Late<'_, T> {
    fn elements(&self) -> Option<u64> {
        self.0.elements()
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        if self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            thread::sleep(Duration::from_millis(20));
        }
        self.0.read_at(start, into)
    }
}

fn from_every_source<T: Sample + Number + PartialEq>() {
    for n in [0, 1, 31, 1000, 20_011] {
        let values = small::<T>(n, 5);
        let bytes: &[u8] = bytemuck::cast_slice(&values);
        let file =
            Scratch::new(&format!("{}-{n}", std::any::type_name::<T>()), &[&[7; 10], bytes].concat());
        let part = || {
            let file = fs::File::open(&file.0).unwrap();
            source::File::<T>::part(file, 10, n as u64).unwrap()
        };
        let pieces = || {
            let lens = (0..).map(|at| 1 + at * 37 % 900);
            let mut rest = values.clone();
            source::pieces(lens.map_while(move |len: usize| {
                let len = len.min(rest.len());
                let left = rest.split_off(len);
                let piece = std::mem::replace(&mut rest, left);
                (len > 0).then_some(Ok(piece))
            }))
        };
        let sum = T::total(&values, false);
        assert!(streamed(op::Sum, &values).unwrap() == sum, "slice of {n}");
        assert!(streamed(op::Sum, part()).unwrap() == sum, "file of {n}");
        assert!(streamed(op::Sum, pieces()).unwrap() == sum, "pieces of {n}");
        assert!(streamed::<T, _>(op::Sum, source::reader(bytes)).unwrap() == sum, "reader of {n}");
        let late = Late(&values, AtomicUsize::new(0));
        assert_eq!(streamed(op::ArgMax, late).unwrap(), extreme(&values, true), "late, of {n}");
        assert_eq!(streamed(op::ArgMin, pieces()).unwrap(), extreme(&values, false), "pieces of {n}");
    }
}

#[test]
fn every_source_has_the_result_of_its_elements() {
    let _checked = no_findings();
    from_every_source::<i32>();
    from_every_source::<u8>();
    from_every_source::<f64>();
}

/// Plain sums of floats depend only on where they are cut; reproducible sums do not depend on it either.
#[test]
fn bits_do_not_depend_on_reader_threads() {
    let values: Vec<f32> = (0..50_003)
        .map(|at| f32::from_bits((splitmix(at) as u32 & 0x807f_ffff) | 0x3f00_0000))
        .collect();
    let values: Vec<f32> = values.iter().zip(0..).map(|(v, at)| v * [1e-3, 1e4][at % 2]).collect();
    let buffer = device().upload(&values).unwrap();
    let sums = |threads, bytes| {
        let late = Late(&values, AtomicUsize::new(0));
        let sum = reducer().stream(late).buffers(4, bytes).threads(threads).reduce(op::Sum).unwrap();
        sum.to_bits()
    };
    let sum = sums(1, 10_000);
    for threads in [1, 2, 4] {
        assert_eq!(sums(threads, 10_000), sum, "{threads} threads");
    }
    assert!([4000, 8000, 20_000].iter().any(|&bytes| sums(1, bytes) != sum), "it does depend on that");
    let whole = reducer().reduce(op::Sum.reproducible(), &buffer).unwrap().to_bits();
    for (buffers, bytes) in [(2, 4), (2, 4000), (5, 16_384), (3, 1 << 20)] {
        if bytes == 4 {
            let few = &values[..301];
            let whole = reducer().reduce(op::Sum.reproducible(), &buffer.slice(..301).unwrap());
            let ring = reducer().stream(few).buffers(buffers, bytes).reduce(op::Sum.reproducible());
            assert_eq!(ring.unwrap().to_bits(), whole.unwrap().to_bits());
            continue;
        }
        let ring = reducer().stream(&values).buffers(buffers, bytes);
        let sum = ring.reduce(op::Sum.reproducible()).unwrap().to_bits();
        assert_eq!(sum, whole, "{buffers} buffers of {bytes} bytes");
    }
}

/// A generated source that is far larger than its ring.
struct Counting(u64);

impl Source<u64> for Counting {
    fn elements(&self) -> Option<u64> {
        Some(self.0)
    }

    fn read_at(&self, start: u64, into: &mut [u64]) -> io::Result<usize> {
        let taken = into.len().min(self.0.saturating_sub(start) as usize);
        into.iter_mut().zip(start..).take(taken).for_each(|(value, at)| *value = at);
        Ok(taken)
    }
}

#[test]
fn progress_is_reported_in_order_to_the_end() {
    let n = 100_000;
    let mut told: Vec<Progress> = Vec::new();
    let sum = reducer()
        .stream(Counting(n))
        .buffers(4, 65_536)
        .on_progress(|progress| told.push(*progress))
        .reduce(op::Sum)
        .unwrap();
    assert_eq!(sum, n * (n - 1) / 2);
    assert_eq!(told.len() as u64, n.div_ceil(8192));
    assert!(told.is_sorted_by(|a, b| a.elements < b.elements && a.elapsed <= b.elapsed));
    assert_eq!((told[0].elements, told[0].bytes, told[0].of), (8192, 65_536, Some(n)));
    assert!(told[0].left().unwrap() > told[0].elapsed && told[0].bytes_per_second() > 0.0);
    let last = told.last().unwrap();
    assert_eq!((last.elements, last.left()), (n, Some(Duration::ZERO)));
    // Without a known end there is no estimate of the time left.
    let mut left = Vec::new();
    let words = source::reader(&[1_u8; 5000][..]);
    let count = reducer().stream::<u8, _>(words).on_progress(|at| left.push(at.left()));
    assert_eq!((count.reduce(op::Sum).unwrap(), left), (5000, vec![None]));
}

/// Each part is read once, and every reduction has the result that it has alone.
#[test]
fn several_reductions_take_the_same_pass() {
    let _checked = no_findings();
    let values: Vec<f32> = (0..20_011).map(|at| (splitmix(at) % 1000) as f32 / 7.0).collect();
    let alone = streamed(op::Sum, &values).unwrap();
    let late = Late(&values, AtomicUsize::new(0));
    let mut sum = reducer().running::<f32, _>(op::Sum).unwrap();
    let mut everywhere = reducer().running(op::Sum.reproducible()).unwrap();
    let mut largest = reducer().running(op::ArgMax).unwrap();
    let ring = || reducer().stream(&late).buffers(3, 4000);
    let came = ring().push_to(&mut [&mut sum, &mut everywhere, &mut largest]).unwrap();
    // There are twenty full parts, the remainder, and reads past the end.
    let reads = late.1.load(Ordering::Relaxed);
    assert!(came == 20_011 && (21..=24).contains(&reads), "{reads} reads of {came}");
    assert_eq!(sum.result().unwrap().to_bits(), alone.to_bits());
    assert_eq!(largest.result().unwrap(), extreme(&values, true));
    let whole = device().upload(&values).unwrap();
    let whole = reducer().reduce(op::Sum.reproducible(), &whole).unwrap();
    assert_eq!(everywhere.result().unwrap().to_bits(), whole.to_bits());
    ring().push_to(&mut [&mut largest]).unwrap();
    assert_eq!((largest.len(), largest.result().unwrap()), (40_022, extreme(&values, true)));
    assert_eq!(ring().push_to(&mut []).unwrap(), 20_011);
}

#[test]
fn too_many_elements_are_refused_before_reading() {
    struct Endless;
    impl Source<f32> for Endless {
        fn elements(&self) -> Option<u64> {
            Some(1 << 36)
        }
        fn read_at(&self, _: u64, _: &mut [f32]) -> io::Result<usize> {
            panic!("it is read")
        }
    }
    let error = streamed(op::Sum.reproducible(), Endless).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { n: 0x10_0000_0000, .. }), "{error}");
}

#[test]
fn rings_that_hold_nothing_are_refused() {
    for (buffers, bytes, threads) in [(1, 4000, 1), (0, 4000, 1), (2, 7, 1), (2, 4000, 0)] {
        let ring = reducer().stream(Counting(5)).buffers(buffers, bytes).threads(threads);
        says(
            &ring.reduce(op::Sum).unwrap_err(),
            &[&format!("{buffers} buffers of {bytes} bytes and {threads} threads"), "8 bytes or more"],
        );
    }
    let ring = reducer().stream(Counting(5)).buffers(2, 8).threads(9);
    says(&format!("{ring:?}"), &["Streamed", "buffers: 2", "threads: 9"]);
}

/// A source with a special behaviour at one part.
struct Odd<F>(u64, F);

impl<F: Fn(usize) -> io::Result<usize> + Sync> Source<u64> for Odd<F> {
    fn elements(&self) -> Option<u64> {
        Some(10_000)
    }

    fn read_at(&self, start: u64, into: &mut [u64]) -> io::Result<usize> {
        if start == self.0 { (self.1)(into.len()) } else { Counting(10_000).read_at(start, into) }
    }
}

#[test]
fn source_errors_name_the_element_position() {
    let _checked = no_findings();
    let at = |error: &Error| match error {
        Error::Source { at, source } => (*at, source.to_string()),
        other => panic!("{other}"),
    };
    let error = streamed(op::Sum, Odd(1500, |_| Err(io::Error::other("the disk is gone")))).unwrap_err();
    assert_eq!(at(&error), (1500, "the disk is gone".to_owned()));
    says(&error, &["the source failed after 1500 elements"]);
    let error = streamed(op::Sum, Odd(2000, |_| Ok(3))).unwrap_err();
    assert_eq!(at(&error), (2003, "it ends there, but declared 10000 elements".to_owned()));
    let error = streamed(op::Sum, Odd(500, |room| Ok(room + 1))).unwrap_err();
    assert_eq!(at(&error), (500, "it returned 501 elements, but 500 were requested".to_owned()));
    // Errors between pieces.
    let pieces = [Ok(vec![1_u64; 700]), Err(io::Error::other("no more"))];
    let error = streamed(op::Sum, source::pieces(pieces)).unwrap_err();
    assert_eq!(at(&error), (500, "no more".to_owned()));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        streamed(op::Sum, Odd(3000, |_| panic!("not so"))).map(|_| ())
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"not so"));
    // A panic in the progress callback leaves nothing pending either.
    let told = catch_unwind(AssertUnwindSafe(|| {
        let ring = reducer().stream(Counting(10_000)).buffers(3, 4000);
        ring.on_progress(|_| panic!("enough")).reduce(op::Sum).map(|_| ())
    }));
    assert_eq!(told.unwrap_err().downcast_ref(), Some(&"enough"));
}

#[test]
fn shrinking_file_is_an_error() {
    let file = Scratch::new("shrinks", &[1; 80_000]);
    let shrinking = source::File::<u64>::open(&file.0).unwrap();
    assert_eq!(shrinking.elements(), Some(10_000));
    OpenOptions::new().write(true).open(&file.0).unwrap().set_len(30_000).unwrap();
    let Err(Error::Source { at: 3500, source }) = streamed(op::Sum, shrinking) else {
        panic!("it was read")
    };
    assert_eq!(
        source.to_string(),
        "the file has 30000 bytes now, but had 80000 or more; do not change it while it is read"
    );
    let open = |bytes| fs::File::open(&Scratch::new("part", &vec![0; bytes]).0).unwrap();
    assert!(source::File::<u64>::part(open(80), 0, 10).is_ok());
    for (bytes, offset, len) in [(80, 8, 10), (80, 0, 11), (80, 1, u64::MAX), (80, u64::MAX, 1)] {
        let error = source::File::<u64>::part(open(bytes), offset, len).unwrap_err().to_string();
        assert!(error.contains("exceed the file of 80 bytes"), "{error}");
    }
    let odd = Scratch::new("odd", &[0; 81]);
    let error = source::File::<u64>::open(&odd.0).unwrap_err().to_string();
    assert_eq!(error, "81 bytes are not a whole number of elements of 8 bytes");
    let error = streamed::<u64, _>(op::Sum, source::reader(&[0_u8; 81][..])).unwrap_err();
    says(&error, &["after 0 elements"]);
}

struct Slow(AtomicU64);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let at = self.0.fetch_add(1, Ordering::Relaxed);
        match at % 3 {
            _ if at > 60 => Ok(0),
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => {
                thread::sleep(Duration::from_millis(1));
                let len = into.len().min(8 * at as usize);
                into[..len].fill(1);
                Ok(len)
            }
        }
    }
}

#[test]
fn a_slow_reader_is_waited_for() {
    let expected: u64 = (0..=60).filter(|at| at % 3 != 0).map(|at| 8 * at).sum();
    let slow = source::reader(Slow(AtomicU64::new(0)));
    let sum = reducer().stream::<u8, _>(slow).buffers(2, 1 << 20).reduce(op::Sum).unwrap();
    assert_eq!(sum, expected);
}

#[test]
fn sequential_sources_are_read_by_one_thread_at_a_time() {
    struct Watched(bool, Mutex<Vec<u64>>, AtomicUsize, AtomicUsize);
    impl Source<u64> for Watched {
        fn elements(&self) -> Option<u64> {
            Some(10_000)
        }
        fn read_at(&self, start: u64, into: &mut [u64]) -> io::Result<usize> {
            self.3.fetch_max(1 + self.2.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            self.1.lock().unwrap().push(start);
            thread::sleep(Duration::from_millis(5));
            self.2.fetch_sub(1, Ordering::SeqCst);
            Counting(10_000).read_at(start, into)
        }
        fn is_in_order(&self) -> bool {
            self.0
        }
    }
    for in_order in [true, false] {
        let watched = Watched(in_order, Mutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ring = reducer().stream(&watched).buffers(4, 4000).threads(4);
        assert_eq!(ring.reduce(op::Sum).unwrap(), 49_995_000);
        let most = watched.3.into_inner();
        assert_eq!(most == 1, in_order, "{most} at once");
        let starts = watched.1.into_inner().unwrap();
        assert!(!in_order || starts.iter().zip(0..).all(|(start, part)| *start == part * 500));
    }
}

#[cfg(feature = "simulator")]
mod in_the_simulator {
    use warpfold::{Reducer, Selection};
    use warpfold_driver::sys;
    use warpfold_sim_driver::{Fault, inject, memory_in_use, record_calls, take_findings};

    use super::*;

    /// Memory does not grow with the source, on the host and on the device, and is reused.
    #[test]
    fn memory_is_bounded_by_the_ring() {
        let sim = warpfold::Device::open(Selection::Sim).unwrap();
        let reducer = Reducer::new(&sim).unwrap();
        let streamed = |n, buffers, bytes| {
            let log = record_calls();
            reducer.stream(Counting(n)).buffers(buffers, bytes).reduce(op::Sum).unwrap();
            ["cuMemHostAlloc", "cuMemFreeHost", "cuMemcpyHtoDAsync_v2"]
                .map(|function| log.count(function))
        };
        // Creates the reducer's own resources.
        streamed(1000, 2, 80);
        assert_eq!(streamed(50_000, 5, 8000), [5, 2, 50]);
        assert_eq!(streamed(500_000, 5, 8000), [0, 0, 500]);
        // There are no more buffers than parts, and another size needs new buffers.
        assert_eq!(streamed(10, 5, 8000), [0, 3, 1]);
        assert_eq!(streamed(50_000, 3, 8000), [1, 0, 50]);
        assert_eq!(streamed(50_000, 3, 80_000), [3, 3, 5]);
    }

    /// A part waits for its copy and for the part before it, and a copy for the previous reduction of
    /// its buffer. The test counts the waits, because querying a launch makes the simulator run it, so a
    /// missing wait would not change the result.
    #[test]
    fn copies_and_reductions_wait_for_each_other() {
        let sim = warpfold::Device::open(Selection::Sim).unwrap();
        let reducer = Reducer::new(&sim).unwrap();
        let log = record_calls();
        let ring = reducer.stream(Counting(50_000)).buffers(2, 8000);
        assert_eq!(ring.reduce(op::Sum).unwrap(), 1_249_975_000);
        assert_eq!(log.count("cuLaunchKernel"), 50);
        // Each part waits for its copy, and each copy for the reduction of the buffer's previous part.
        assert_eq!(log.count("cuStreamWaitEvent"), 50 + 50);
        // The host waits for each copy before it refills the source buffer, and for the result.
        assert_eq!(log.count("cuEventSynchronize"), 50 + 1);
    }

    #[test]
    fn a_reduction_on_another_device_is_refused() {
        let [one, other] = [0, 1].map(|_| {
            let device = crate::devices::in_own_context(warpfold_sim_driver::driver());
            Reducer::new(&device).unwrap()
        });
        let mut sum = other.running::<u64, _>(op::Sum).unwrap();
        let error = one.stream(Odd(0, |_| panic!("it is read"))).push_to(&mut [&mut sum]).unwrap_err();
        assert!(matches!(error, Error::OtherDevice { what: "running reduction", .. }), "{error}");
    }

    #[test]
    fn failed_copy_wait_leaks_its_buffers() {
        let device = crate::devices::in_own_context(warpfold_sim_driver::driver());
        let context = device.as_raw_context().cast();
        let reducer = Reducer::new(&device).unwrap();
        let values = vec![1_u64; 3000];
        // Loads the kernels, and leaves the reducer with buffers of another size than below.
        reducer.stream(&values).buffers(3, 80).reduce(op::Sum).unwrap();
        let before = memory_in_use(context);
        let ring = || reducer.stream(&values).buffers(3, 8000);
        let failed = {
            let _faults = [1, 2].map(|call| {
                let code = sys::CUDA_ERROR_UNKNOWN;
                inject(Fault { function: "cuEventSynchronize", call, code, sticky: false })
            });
            ring().reduce(op::Sum).unwrap_err()
        };
        says(&failed, &["CUDA_ERROR_UNKNOWN"]);
        assert!(memory_in_use(context) >= before + 8000, "it was freed");
        assert_eq!(ring().reduce(op::Sum).unwrap(), 3000);
        assert_eq!(take_findings(context), []);
    }
}
