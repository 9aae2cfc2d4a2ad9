//! Results that kernels write to words of the host, and how they are read there.

use std::array;

use warpfold_abi::reducer::{MOST_TOP, OUTPUT_BYTES};

use super::many::MOST_TOGETHER;
use crate::{
    Outcome, Plain,
    element::{RESULT_WORDS, Words},
    memory::HostWords,
    op::Operation,
};

/// What a task's launches write to words of the host, [`RESULT_WORDS`] for each, and where results are;
/// or results that lie one behind the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes that each launch writes.
    pub(super) bytes: [u8; MOST_TOGETHER],
    /// The launch that each result is of, and the byte of its words at which that begins.
    pub(super) places: [(u8, u8); MOST_TOGETHER],
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
    pub(super) fn of_one(bytes: usize) -> Self {
        let mut layout = Self::default();
        layout.bytes[0] = u8::try_from(bytes).expect("at most 64 bytes");
        layout
    }

    /// `count` results of `bytes` bytes each, one after the other.
    pub(super) fn of_pieces(count: usize, bytes: usize) -> Self {
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

/// Results in words of the host, which kernels have written whose end was waited for.
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
    pub(super) fn is_of_none(&self) -> bool {
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
