//! Results that kernels write to words of the host, and how they are read there.

use std::{
    array, hint,
    sync::atomic::{AtomicU32, Ordering, fence},
    time::{Duration, Instant},
};

use warpfold_abi::reducer::{MOST_TOP, OUTPUT_BYTES};

use crate::{
    Outcome, Plain,
    element::{RESULT_WORDS, Words},
    input::buffer::MOST_TOGETHER,
    memory::HostWords,
    op::Operation,
};

/// What a task's launches write to words of the host, [`RESULT_WORDS`] for each, and where results are;
/// or results that lie one behind the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes that each launch writes.
    pub(crate) bytes: [u8; MOST_TOGETHER],
    /// The launch that each result is of, and the byte of its words at which that begins.
    pub(crate) places: [(u8, u8); MOST_TOGETHER],
    /// How many results there are and their bytes, where they lie one behind the other.
    pieces: (usize, usize),
}

impl Layout {
    /// Words of the host that tasks of single results take at most, and the first elements of a buffer.
    pub(super) const MOST_WORDS: usize = {
        let top = (MOST_TOP as u64 * OUTPUT_BYTES) as usize / size_of::<u64>();
        if top > MOST_TOGETHER * RESULT_WORDS { top } else { MOST_TOGETHER * RESULT_WORDS }
    };

    /// One launch with one result of `bytes` bytes.
    pub(crate) fn of_one(bytes: usize) -> Self {
        let mut layout = Self::default();
        layout.bytes[0] = u8::try_from(bytes).expect("at most 64 bytes");
        layout
    }

    /// `count` results of `bytes` bytes each, one after the other.
    pub(crate) fn of_pieces(count: usize, bytes: usize) -> Self {
        Self { pieces: (count, bytes), ..Self::default() }
    }

    /// Words of the host that it takes.
    pub(super) fn words(&self) -> usize {
        let (count, bytes) = self.pieces;
        let launches = self.bytes.iter().filter(|&&bytes| bytes > 0).count();
        launches * RESULT_WORDS + (count * bytes).div_ceil(size_of::<u64>())
    }

    /// The first word of each launch that writes any, and how many bytes it writes.
    fn written(&self) -> impl Iterator<Item = (usize, usize)> {
        let bytes = self.bytes.into_iter().map(usize::from).enumerate();
        bytes.filter(|&(_, bytes)| bytes > 0).map(|(launch, bytes)| (launch * RESULT_WORDS, bytes))
    }
}

/// Results that launches are going to write to words of the host, each as the last thing it does. The
/// host sees them there some microseconds before the driver says that the launches have ended.
pub(super) struct Awaited<'w> {
    words: &'w HostWords,
    first: usize,
    layout: Layout,
    mark: Mark,
}

/// What is where results go until they come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(u32);

impl<'w> Awaited<'w> {
    /// Results from a word on, for launches that are not enqueued yet, and no others that are under way.
    pub(super) fn new(words: &'w HostWords, first: usize, layout: Layout) -> Self {
        // Another one each time: a result that is the same as the mark is seen only when all has ended,
        // which no result shall be each time.
        static MARKS: AtomicU32 = AtomicU32::new(STEP);
        let mark = Mark(MARKS.fetch_add(STEP, Ordering::Relaxed));
        for (word, bytes) in layout.written() {
            words.mark(first + word, bytes, mark.0);
        }
        Self::marked(words, first, layout, mark)
    }

    /// The same that were [marked](Self::mark) before.
    pub(super) fn marked(words: &'w HostWords, first: usize, layout: Layout, mark: Mark) -> Self {
        Self { words, first, layout, mark }
    }

    /// What is there until they come.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Looks for the results for as long as a reduction of `bytes` bytes takes if nothing comes before
    /// it, and says whether they are there. If so, of the launches nothing is left but their end: they
    /// use no memory any more. `are_done` asks the driver whether they have ended, well or not.
    pub(super) fn come(&self, are_done: impl Fn() -> bool, bytes: u64) -> bool {
        // A GPU of 1 TB/s reads them in the meantime.
        let reading = Duration::from_nanos(bytes / 1_000).min(LATE);
        let mut turns = 0..TURNS + reading.div_duration_f64(TURN) as u32;
        // Whoever waits longer is to hear of errors, and the simulator does what it is asked for.
        let have_come = turns.any(|_| self.come_in_a_turn() || are_done()) && self.are_there();
        if have_come {
            // The simulator finds memory that is freed before a launch has ended that names it, as it
            // has by its memory.
            while self.words.device().info().simulated && !are_done() {
                hint::spin_loop();
            }
            // The compiler does not move what the host does now before what it has seen. That the
            // launches read no more follows from what they have written, which depends on all that they
            // have read.
            fence(Ordering::Acquire);
        }
        have_come
    }

    /// Looks for them until the driver is to be asked.
    fn come_in_a_turn(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < TURN {
            for _ in 0..LOOKS {
                if self.are_there() {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }

    fn are_there(&self) -> bool {
        let mut written = self.layout.written();
        written.all(|(word, bytes)| self.words.differs(self.first + word, bytes, self.mark.0))
    }
}

/// How far marks are apart: their sequence has all numbers, and 0 last, which many results have in them.
const STEP: u32 = 0x9e37_79b9;
/// How long results are looked for before the driver is asked: small ones are there before.
const TURN: Duration = Duration::from_micros(16);
/// How many such turns there are at least: who asks the simulator twice has had everything done.
const TURNS: u32 = 4;
/// The longest time for which turns are added to those; later the wait for results is the driver's.
const LATE: Duration = Duration::from_millis(1);
/// How often the words are read between two looks at the clock.
const LOOKS: u32 = 32;

/// Results in words of the host, which kernels have written whose end was waited for, or which were seen
/// to be there.
#[derive(Clone, Copy)]
pub struct HostResults<'w> {
    words: &'w HostWords,
    /// Where the results begin.
    first: usize,
    layout: Layout,
    /// Whether they are of no elements.
    of_none: bool,
}

impl<'w> HostResults<'w> {
    /// Results from a word on.
    pub(super) fn new(words: &'w HostWords, first: usize, layout: Layout) -> Self {
        Self { words, first, layout, of_none: false }
    }

    /// The same, of no elements if so.
    pub(super) fn of_none_if(self, of_none: bool) -> Self {
        Self { of_none, ..self }
    }

    /// Whether they are of no elements.
    pub(crate) fn is_of_none(&self) -> bool {
        self.of_none
    }

    /// Tells the driver that the results are taken.
    pub(super) fn take(self) -> Self {
        for (word, bytes) in self.layout.written() {
            self.words.take(self.first + word, bytes);
        }
        if let (count @ 1.., bytes) = self.layout.pieces {
            self.words.take(self.first, count * bytes);
        }
        self
    }

    /// What kernels have written of a result, from its first byte on.
    pub(crate) fn get(&self, result: usize) -> Words {
        let (launch, start) = self.layout.places[result];
        let first = self.first + usize::from(launch) * RESULT_WORDS;
        let mut words: Words = array::from_fn(|at| self.words.get(first + at));
        bytemuck::bytes_of_mut(&mut words).rotate_left(start.into());
        words
    }

    /// The result of one of the operations, which is known of no elements.
    pub(crate) fn result<T: Plain, O: Operation<T>>(&self, result: usize) -> O::Output {
        match O::of_none() {
            Some(of_none) if self.of_none => of_none,
            _ => O::decode(self.get(result)),
        }
    }

    /// The results of pieces.
    pub(super) fn each<R: Outcome>(&self) -> Vec<R> {
        let (count, bytes) = self.layout.pieces;
        let words = (count * bytes).div_ceil(size_of::<u64>());
        let words: Vec<u64> = (0..words).map(|at| self.words.get(self.first + at)).collect();
        let written: &[u8] = bytemuck::cast_slice(&words);
        let results = written.chunks_exact(bytes).take(count);
        let of_bytes = |bytes: &[u8]| {
            let mut words = Words::default();
            bytemuck::bytes_of_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
            R::from_words(words)
        };
        results.map(of_bytes).collect()
    }
}
