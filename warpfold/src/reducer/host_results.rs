//! Results that kernels write to page-locked host memory, and how the host reads them.

use std::{
    array, hint,
    sync::atomic::{AtomicU32, Ordering, fence},
    time::{Duration, Instant},
};

use warpfold_abi::{
    fused::results_bytes,
    reducer::{MOST_TOP, OUTPUT_BYTES},
};

use crate::{
    Outcome, Plain,
    element::{RESULT_WORDS, Words},
    input::buffer::MOST_TOGETHER,
    memory::HostWords,
    op::Operation,
};

/// The layout of a task's results in memory: those of each operation are contiguous, and begin at a
/// multiple of [`RESULT_WORDS`] words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of results of each operation.
    count: usize,
    /// Number of elements of each row.
    row_len: u64,
    /// Bytes of a result of each operation that is written.
    bytes: [u8; MOST_TOGETHER],
    /// For each result that is read, the written one that contains it, and its first byte there.
    places: [(u8, u8); MOST_TOGETHER],
}

impl Layout {
    /// Maximum number of words of a layout in a workspace or cell, reached by a top-k search or by
    /// single results. Layouts of rows may have more; their results are elsewhere.
    pub(super) const MOST_WORDS: usize = {
        let top = (MOST_TOP as u64 * OUTPUT_BYTES) as usize / size_of::<u64>();
        if top > MOST_TOGETHER * RESULT_WORDS { top } else { MOST_TOGETHER * RESULT_WORDS }
    };

    pub(crate) fn of_one(bytes: usize) -> Self {
        Self::of_pieces(1, bytes)
    }

    /// Lays out `count` results of `bytes` bytes each, without padding.
    pub(crate) fn of_pieces(count: usize, bytes: usize) -> Self {
        Self::of_several(count, [bytes], [(0, 0)])
    }

    /// Lays out `count` results of each operation: of `bytes` bytes each, and read at `places`.
    pub(crate) fn of_several(
        count: usize,
        bytes: impl IntoIterator<Item = usize>,
        places: impl IntoIterator<Item = (u8, u8)>,
    ) -> Self {
        let mut layout = Self { count, ..Self::default() };
        for (of_layout, bytes) in layout.bytes.iter_mut().zip(bytes) {
            *of_layout = u8::try_from(bytes).expect("at most 64 bytes");
        }
        for (of_layout, place) in layout.places.iter_mut().zip(places) {
            *of_layout = place;
        }
        layout
    }

    pub(crate) fn with_rows_of(self, row_len: u64) -> Self {
        Self { row_len, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of results of each operation, or fewer if there are more than any memory
    /// holds, so that sizes in bytes do not overflow.
    fn count_that_fits(&self) -> u64 {
        (self.count as u64).min(1 << 54)
    }

    /// Returns the number of words of all results.
    pub(crate) fn words(&self) -> usize {
        self.first_word(MOST_TOGETHER)
    }

    /// Returns the index of the first word of the results of a written operation.
    pub(crate) fn first_word(&self, written: usize) -> usize {
        let before = self.bytes[..written].iter();
        let bytes: u64 = before.map(|&bytes| results_bytes(self.count_that_fits(), bytes.into())).sum();
        bytes as usize / size_of::<u64>()
    }

    /// Returns the index of the first word, and the number of bytes, of the results of each operation.
    pub(super) fn written(&self) -> impl Iterator<Item = (usize, usize)> {
        let bytes = self.bytes.into_iter().map(usize::from).enumerate();
        let written = bytes.filter(|&(_, bytes)| bytes > 0);
        let count = self.count_that_fits() as usize;
        written.map(move |(written, bytes)| (self.first_word(written), count * bytes))
    }
}

/// The results of rows, or of a top-k search, which were copied to the host.
pub struct RowResults {
    /// The bytes of the results of each written operation.
    written: Vec<Vec<u8>>,
    layout: Layout,
}

impl RowResults {
    pub(crate) fn new(layout: Layout, written: Vec<Vec<u8>>) -> Self {
        Self { written, layout }
    }

    /// Returns the number of rows.
    pub(crate) fn count(&self) -> usize {
        self.layout.count
    }

    pub(crate) fn row_len(&self) -> u64 {
        self.layout.row_len
    }

    /// Returns the words of a result of a row, from its first byte on.
    pub(crate) fn get(&self, result: usize, row: usize) -> Words {
        let (written, start) = self.layout.places[result];
        let bytes = usize::from(self.layout.bytes[usize::from(written)]);
        let of_row = &self.written[usize::from(written)][row * bytes..][..bytes];
        let result = &of_row[usize::from(start)..];
        let mut words = Words::default();
        bytemuck::bytes_of_mut(&mut words)[..result.len()].copy_from_slice(result);
        words
    }

    /// Returns a result of every row.
    pub(crate) fn each<R: Outcome>(&self, result: usize) -> Vec<R> {
        (0..self.count()).map(|row| R::from_words(self.get(result, row))).collect()
    }
}

/// Results that launches will write to host memory. The results of a launch are its last accesses to
/// memory. The host observes them some microseconds before the driver reports that the launches have
/// finished.
pub(super) struct Awaited<'w> {
    words: &'w HostWords,
    first: usize,
    layout: Layout,
    mark: Mark,
}

/// The value with which the host fills the words of results. The host polls until it has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u32);

impl<'w> Awaited<'w> {
    /// Fills the words of results with a new mark. The launches that write these words must be enqueued
    /// later; none in flight may write them.
    pub(super) fn new(words: &'w HostWords, first: usize, layout: Layout) -> Self {
        // Each call uses a different mark: a result that equals its mark is observed only when the
        // launch has finished, and the same result must not be late on every call.
        static MARKS: AtomicU32 = AtomicU32::new(MARK_STEP);
        let mark = Mark(MARKS.fetch_add(MARK_STEP, Ordering::Relaxed));
        for (word, bytes) in layout.written() {
            words.mark(first + word, bytes, mark.0);
        }
        Self::marked(words, first, layout, mark)
    }

    pub(super) fn marked(words: &'w HostWords, first: usize, layout: Layout, mark: Mark) -> Self {
        Self { words, first, layout, mark }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Polls for the results for as long as a reduction of `bytes` bytes takes on an idle device, and
    /// returns whether they have arrived. If so, the launches access no memory any more, and only have
    /// to exit. `are_done` queries the driver whether the launches have ended, successfully or not.
    pub(super) fn poll(&self, are_done: impl Fn() -> bool, bytes: u64) -> bool {
        // A GPU with a bandwidth of 1 TB/s reads the input in this time.
        let reading = Duration::from_nanos(bytes / 1_000).min(MAX_READING);
        let mut slices = 0..MIN_SLICES + reading.div_duration_f64(SLICE) as u32;
        // The query after each slice reports errors, and makes the simulator run the launches.
        let arrived = slices.any(|_| self.arrive_in_a_slice() || are_done()) && self.have_arrived();
        if arrived {
            // The simulator reports a free of memory that is an argument of an unfinished launch, even
            // after the launch's last access to it.
            while self.words.device().info().simulated && !are_done() {
                hint::spin_loop();
            }
            // Keeps the compiler from moving later accesses before the poll. The launches' reads precede
            // their writes of results, because the results depend on everything that they read.
            fence(Ordering::Acquire);
        }
        arrived
    }

    fn arrive_in_a_slice(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < SLICE {
            for _ in 0..POLLS {
                if self.have_arrived() {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }

    fn have_arrived(&self) -> bool {
        let mut written = self.layout.written();
        written.all(|(word, bytes)| self.words.differs(self.first + word, bytes, self.mark.0))
    }
}

/// The difference between consecutive marks. It is odd, so that the marks take all values of 32 bits; 0,
/// which many results contain, is the last of them.
const MARK_STEP: u32 = 0x9e37_79b9;
/// The time of polling between two queries of the driver. Small inputs take less than one slice.
const SLICE: Duration = Duration::from_micros(16);
/// The minimum number of slices. Two queries make the simulator run everything.
const MIN_SLICES: u32 = 4;
/// The maximum polling time added for a large input. After that, the host waits in the driver.
const MAX_READING: Duration = Duration::from_millis(1);
/// The number of polls between two readings of the clock.
const POLLS: u32 = 32;

/// Results in host memory whose kernels have finished, or whose writes were observed.
#[derive(Clone, Copy)]
pub struct HostResults<'w> {
    words: &'w HostWords,
    first: usize,
    layout: Layout,
    /// The number of elements that were reduced, if it is known.
    elements: Option<u64>,
}

impl<'w> HostResults<'w> {
    pub(super) fn new(words: &'w HostWords, first: usize, layout: Layout) -> Self {
        Self { words, first, layout, elements: None }
    }

    /// Sets the number of elements that were reduced.
    pub(super) fn of_elements(self, elements: u64) -> Self {
        Self { elements: Some(elements), ..self }
    }

    pub(crate) fn elements(&self) -> u64 {
        self.elements.expect("the number of elements is set")
    }

    pub(crate) fn is_of_none(&self) -> bool {
        self.elements == Some(0)
    }

    /// Reports to a simulated driver that the host reads the results, so that it finds unwritten ones.
    pub(super) fn take(self) -> Self {
        for (word, bytes) in self.layout.written() {
            self.words.take(self.first + word, bytes);
        }
        self
    }

    /// Returns the words of a written result, rotated so that the wanted one begins at the first byte.
    pub(crate) fn get(&self, result: usize) -> Words {
        let (written, start) = self.layout.places[result];
        let first = self.first + self.layout.first_word(written.into());
        let mut words: Words = array::from_fn(|at| self.words.get(first + at));
        bytemuck::bytes_of_mut(&mut words).rotate_left(start.into());
        words
    }

    /// Decodes a result. If there are no elements, returns [`of_none`](Operation::of_none) unless that
    /// is `None`.
    pub(crate) fn result<T: Plain, O: Operation<T>>(&self, result: usize) -> O::Output {
        match O::of_none() {
            Some(of_none) if self.is_of_none() => of_none,
            _ => O::decode(self.get(result)),
        }
    }

    /// Copies the results of rows, or of a top-k search.
    pub(crate) fn of_rows(&self) -> RowResults {
        let written = self.layout.written().map(|(first, bytes)| {
            let mut copied = vec![0; bytes];
            for (bytes, word) in copied.chunks_mut(size_of::<u64>()).zip(self.first + first..) {
                bytes.copy_from_slice(&self.words.get(word).to_ne_bytes()[..bytes.len()]);
            }
            copied
        });
        RowResults::new(self.layout, written.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_more_results_than_memory_holds_do_not_wrap() {
        let layout = Layout::of_several(usize::MAX, [64; MOST_TOGETHER], []);
        let written: Vec<_> = layout.written().collect();
        assert_eq!(written.len(), MOST_TOGETHER);
        let ends = written.iter().map(|&(first, bytes)| first + bytes.div_ceil(size_of::<u64>()));
        assert!(ends.is_sorted() && written[0].1 > 1 << 54, "{written:?}");
        assert!(layout.words() > 1 << 54, "{}", layout.words());
    }
}
