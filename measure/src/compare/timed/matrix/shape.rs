//! Shapes of matrices: the number of rows and their length, such as `4096x65536` or `2^20x2^8`.

use std::{fmt, str::FromStr};

use crate::contest::MOST_ELEMENTS;
use anyhow::{Context, Error, Result, bail};
use warpfold_suite::cli::parse_count;

use super::super::sizes::show;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub rows: u64,
    /// Elements per row.
    pub len: u64,
}

/// Row lengths at which peers were measured; the longest is a whole matrix of 2^28 elements.
const LENS: [u64; 11] = [1 << 28, 1 << 24, 1 << 20, 65_536, 4096, 1024, 256, 64, 32, 16, 4];
/// Lengths that misalign rows, or that are not a multiple of a warp's loads.
const ODD_LENS: [u64; 6] = [10_001, 1001, 1000, 100, 5, 3];
/// Elements per matrix, rounded down to whole rows.
const TOTALS: [u64; 4] = [1 << 28, 1 << 24, 1 << 20, 1 << 16];

impl Shape {
    /// Returns the default shapes: 2^28, 2^24, 2^20 and 2^16 elements, rounded to whole rows, in rows of
    /// 3 or more elements, including odd lengths.
    pub fn standard() -> Vec<Self> {
        let of = |total| [of_total(total, &LENS), of_total(total, &ODD_LENS)].concat();
        TOTALS.into_iter().flat_map(of).collect()
    }

    /// Returns the shapes of a quick comparison: 2^28 elements.
    pub fn quick() -> Vec<Self> {
        of_total(TOTALS[0], &LENS)
    }

    pub fn elements(self) -> u64 {
        self.rows * self.len
    }
}

fn of_total(total: u64, lens: &[u64]) -> Vec<Shape> {
    let fits = lens.iter().filter(|&&len| len <= total);
    fits.map(|&len| Shape { rows: total / len, len }).collect()
}

impl FromStr for Shape {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        const FORM: &str = "a shape is ROWSxLEN, such as 4096x65536 or 2^20x2^8";
        let (rows, len) = given.trim().split_once('x').context(FORM)?;
        let count = |given: &str| {
            parse_count(given.trim()).map_err(|said| Error::msg(format!("{FORM}; {said}")))
        };
        let (rows, len) = (count(rows)?, count(len)?);
        let shape = Self { rows, len };
        match rows.checked_mul(len) {
            Some(0) => bail!("a matrix of 0 elements cannot be timed; the smallest is 1x1"),
            Some(n) if n <= MOST_ELEMENTS => Ok(shape),
            _ => bail!("{given} has more elements than the {} that are allowed", show(MOST_ELEMENTS)),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}", show(self.rows), show(self.len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_shown() {
        for (given, rows, len, shown) in [
            ("16x2^24", 16, 1 << 24, "16x2^24"),
            ("4096x65536", 4096, 65_536, "2^12x2^16"),
            (" 26840 x 10001", 26_840, 10_001, "26840x10001"),
            ("1x1", 1, 1, "1x1"),
            ("1x1Gi", 1, 1 << 30, "1x2^30"),
        ] {
            let shape: Shape = given.parse().unwrap();
            assert_eq!((shape, shape.to_string().as_str()), (Shape { rows, len }, shown));
            assert_eq!(shown.parse::<Shape>().unwrap(), shape);
        }
    }

    #[test]
    fn invalid_shapes_are_one_line_errors() {
        for (given, said) in [
            ("", "a shape is ROWSxLEN"),
            ("2^20", "a shape is ROWSxLEN"),
            ("4x", "write a count"),
            ("x4", "write a count"),
            ("4x4x4", "write a count"),
            ("0x4", "the smallest is 1x1"),
            ("4x0", "the smallest is 1x1"),
            ("2^20x2^11", "more elements than the 2^30"),
            ("2^40x2^40", "more elements than the 2^30"),
        ] {
            let error = given.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(said) && error.lines().count() == 1, "{given}: {error}");
        }
    }

    #[test]
    fn standard_shapes_are_of_four_totals() {
        let all = Shape::standard();
        assert_eq!(all[..11], Shape::quick());
        assert_eq!(
            (all[0], all[10]),
            (Shape { rows: 1, len: 1 << 28 }, Shape { rows: 1 << 26, len: 4 })
        );
        let of = |total: u64| {
            let near =
                |shape: &&Shape| shape.elements() <= total && shape.elements() + shape.len > total;
            all.iter().filter(near).count()
        };
        assert_eq!(TOTALS.map(of), [17, 16, 15, 14]);
        assert_eq!(all.len(), 17 + 16 + 15 + 14);
        for (at, shape) in all.iter().enumerate() {
            assert!(!all[..at].contains(shape), "{shape} twice");
        }
    }
}
