//! Numbers of elements: a range, such as `2^10..2^32` with every power of two in between, or a list.

use std::str::FromStr;

use anyhow::{Error, Result, bail};
use warpfold_suite::cli::parse_count;

/// Numbers of elements, sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

impl Sizes {
    pub fn standard() -> Self {
        Self((10..=28).map(|exponent| 1 << exponent).collect())
    }

    pub fn quick() -> Self {
        Self([10, 16, 20, 22, 24, 26, 28].map(|exponent| 1 << exponent).to_vec())
    }

    pub fn largest(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }
}

const MAX_SIZES: usize = 1000;

impl FromStr for Sizes {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let mut sizes = Vec::new();
        for part in given.split(',') {
            match part.split_once("..") {
                Some((first, last)) => sizes.extend(doubling(part, count(first)?, count(last)?)?),
                None => sizes.push(count(part)?),
            }
            if sizes.len() > MAX_SIZES {
                bail!("more than {MAX_SIZES} sizes; name fewer");
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

fn count(given: &str) -> Result<u64> {
    match parse_count(given.trim()).map_err(Error::msg)? {
        0 => bail!("0 elements cannot be timed; give at least 1"),
        count => Ok(count),
    }
}

fn doubling(range: &str, first: u64, last: u64) -> Result<impl Iterator<Item = u64> + use<>> {
    if first > last {
        bail!("range {range} is empty: it starts at {first} and ends at {last}");
    }
    let next = move |size: &u64| size.checked_mul(2).filter(|&next| next <= last);
    Ok(std::iter::successors(Some(first), next))
}

/// Formats powers of two from 1024 on as `2^n`, other numbers as digits.
pub fn show(n: u64) -> String {
    match n {
        n if n.is_power_of_two() && n >= 1024 => format!("2^{}", n.ilog2()),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists_are_read() {
        for (given, sizes) in [
            ("2^10", vec![1024]),
            ("2^10..2^13", vec![1024, 2048, 4096, 8192]),
            ("1000..5000", vec![1000, 2000, 4000]),
            ("8..8", vec![8]),
            ("4Mi,1000_003, 2^10..2^11,2048", vec![1024, 2048, 1_000_003, 4 << 20]),
            ("2^63..18446744073709551615", vec![1 << 63]),
        ] {
            assert_eq!(given.parse::<Sizes>().unwrap().0, sizes, "{given}");
        }
        let all: Sizes = "2^10..2^32".parse().unwrap();
        assert_eq!((all.0.len(), all.largest()), (23, 1 << 32));
    }

    #[test]
    fn invalid_sizes_are_one_line_errors() {
        for (given, said) in [
            ("2^12..2^10", "is empty: it starts at 4096 and ends at 1024"),
            ("0", "give at least 1"),
            ("0..2^10", "give at least 1"),
            ("", "write a count"),
            ("2^10,,2^11", "write a count"),
            ("2^10..", "write a count"),
            ("1..2..3", "write a count"),
            ("x", "write a count"),
        ] {
            let error = given.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains(said) && error.lines().count() == 1, "{given}: {error}");
        }
        let many = "1..2^63,".repeat(1_000_000);
        assert_eq!(many.parse::<Sizes>().unwrap_err().to_string(), "more than 1000 sizes; name fewer");
    }

    #[test]
    fn powers_of_two_are_shown_as_such() {
        assert_eq!([512, 1024, 1 << 32, 1_000_003].map(show), ["512", "2^10", "2^32", "1000003"]);
    }
}
