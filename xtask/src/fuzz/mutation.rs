//! Random changes of an input: of its bytes, of its words, and by parts of another input.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    ops::Range,
};

pub(super) const LARGEST: usize = 64 << 10;

const NUMBERS: [&str; 18] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "8",
    "31",
    "32",
    "33",
    "255",
    "256",
    "1024",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
];

/// Tokens that close or nest something in one of the input formats.
const WORDS: [&str; 20] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "'",
    ",",
    ";",
    ":",
    "|",
    "+-",
    "-",
    ".",
    "\n",
    "\u{1b}[2J",
    "1e308",
    "NaN",
    "null",
];

pub(super) fn hash(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    hasher.finish()
}

pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `bound` exclusive; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a length, biased towards small ones.
    fn length(&mut self, most: usize) -> usize {
        let bits = self.below(12);
        (1 + self.below(1 << bits)).min(most)
    }

    /// Returns a range of an input, biased towards short ones.
    fn part(&mut self, input: &[u8]) -> Range<usize> {
        let length = self.length(input.len());
        let start = self.below(input.len() + 1 - length.min(input.len()));
        start..(start + length).min(input.len())
    }
}

/// Applies one to six changes to an input; parts are taken from `other`.
pub(super) fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..1 + random.below(6) {
        change(&mut changed, other, random);
    }
    changed.truncate(LARGEST);
    changed
}

fn change(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(12) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => input.insert(at, random.next() as u8),
        2 => drop(input.drain(random.part(input))),
        3 => splice(input, at..at, NUMBERS[random.below(NUMBERS.len())].as_bytes()),
        4 => splice(input, at..at, WORDS[random.below(WORDS.len())].as_bytes()),
        5 => {
            let number = NUMBERS[random.below(NUMBERS.len())];
            if let Some(range) = word(input, at, |byte| byte.is_ascii_digit()) {
                splice(input, range, number.as_bytes());
            }
        }
        6 => {
            // Replaces a word by another.
            let from = random.below(other.len() + 1);
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_%$".contains(&byte);
            if let (Some(range), Some(with)) = (word(input, at, is_word), word(other, from, is_word)) {
                splice(input, range, &other[with]);
            }
        }
        7 => {
            // Replaces a line by another, or inserts one.
            let from = random.below(other.len() + 1);
            let is_line = |byte: u8| byte != b'\n';
            if let Some(with) = word(other, from, is_line) {
                let range = word(input, at, is_line).filter(|_| random.0.is_multiple_of(2));
                splice(input, range.unwrap_or(at..at), &other[with]);
            }
        }
        8 => splice(input, at..at, &other[random.part(other)]),
        9 => {
            // Writes a little-endian binary number.
            let number: u64 = NUMBERS[random.below(NUMBERS.len())].parse().unwrap_or(u64::MAX);
            let bytes = &number.to_le_bytes()[..1 << random.below(4)];
            if let Some(range) = input.get_mut(at..at + bytes.len()) {
                range.copy_from_slice(bytes);
            }
        }
        10 => {
            let part = input[random.part(input)].to_vec();
            splice(input, at..at, &part);
        }
        _ => {
            let part = input[random.part(input)].to_vec();
            let times = random.length(1000).min(LARGEST / part.len().max(1));
            splice(input, at..at, &part.repeat(times));
        }
    }
}

fn splice(input: &mut Vec<u8>, range: Range<usize>, with: &[u8]) {
    if input.len() + with.len() <= LARGEST {
        input.splice(range, with.iter().copied());
    }
}

/// Returns the run of matching bytes around or after a position.
fn word(input: &[u8], at: usize, is_part: impl Fn(u8) -> bool) -> Option<Range<usize>> {
    let start = at + input.get(at..)?.iter().position(|&byte| is_part(byte))?;
    let before = input[..start].iter().rev().take_while(|&&byte| is_part(byte)).count();
    let length = input[start..].iter().take_while(|&&byte| is_part(byte)).count();
    Some(start - before..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_mutations_and_every_kind_occurs() {
        let (input, other) = (b"ld.global.u32 %r1, [%rd1+8];\nret;\n", b"bra L7;\nmov.u64 %rd2, 12;\n");
        let run = |seed| {
            let mut random = Random(seed);
            (0..20_000).map(|_| mutate(input, other, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let all = run(1);
        let has =
            |part: &str| all.iter().any(|made| made.windows(part.len()).any(|w| w == part.as_bytes()));
        for part in [
            "+18446744073709551615]",
            "bra.global",
            "ld.global.u32 %r1, [%rd1+8];\nbra L7;",
            "\u{1b}[2J",
        ] {
            assert!(has(part), "{part}");
        }
        assert!(all.iter().all(|made| made.len() <= LARGEST));
        assert!(all.iter().any(|made| made.len() > 10_000) && all.iter().any(|made| made.len() < 20));
        for input in [&b""[..], b"x"] {
            (0..1000).for_each(|seed| drop(mutate(input, b"", &mut Random(seed))));
        }
    }

    #[test]
    fn word_at_or_after_a_position_is_found() {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        assert_eq!(word(b"a123b", 2, is_digit), Some(1..4));
        assert_eq!(word(b"a123b", 0, is_digit), Some(1..4));
        assert_eq!(word(b"a123b", 4, is_digit), None);
        assert_eq!(word(b"", 0, is_digit), None);
    }
}
