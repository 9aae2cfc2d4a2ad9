//! Matrices with known results for every row: the inputs of row reductions, and the check of their
//! results.
//!
//! Elements are integers from -127 to 127 except 0, so that dropping or repeating any one of them is
//! detected. Their sums stay far below 2^24 in any order that does not sort them, so that they are exact
//! in f32 and compared exactly. One element of each row, at a random index, is 128, the unique maximum.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;
use warpfold_suite::{Data, Dtype, Error, Op, Result, device::Allocation};

/// The maximum number of elements. Random sums of more could approach 2^24.
pub const MOST_ELEMENTS: u64 = 1 << 30;

const LARGEST: f32 = 128.0;
/// The number of values of elements other than the maximum: -127 to 127 except 0.
const OTHERS: u64 = 254;
const PIECE: usize = 1 << 16;
const READ: usize = 64 << 20;

/// The expected results of the rows of an f32 matrix.
#[derive(Debug)]
pub struct Matrix {
    rows: u64,
    len: u64,
    sums: Vec<f32>,
    places: Vec<u32>,
}

/// The memory layout of consecutive results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Sums, as f32.
    Sums,
    /// Entries of 16 bytes: a 64-bit index, the element, four bytes of padding.
    Places,
    /// Entries of 8 bytes: a 32-bit index and the element.
    NarrowPlaces,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Place {
    index: u64,
    element: f32,
    rest: [u8; 4],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct NarrowPlace {
    index: u32,
    element: f32,
}

impl Layout {
    /// Returns the bytes of a result.
    pub const fn bytes(self) -> u64 {
        let bytes = match self {
            Self::Sums => size_of::<f32>(),
            Self::Places => size_of::<Place>(),
            Self::NarrowPlaces => size_of::<NarrowPlace>(),
        };
        bytes as u64
    }

    /// Returns the layout of an operation's results. `places` is the layout for [`Op::ArgMax`].
    pub(crate) fn of(op: Op, places: Self) -> Result<Self> {
        match op {
            Op::Sum => Ok(Self::Sums),
            Op::ArgMax => Ok(places),
            other => {
                let [first, second] = Matrix::OPS;
                let reason = format!("{other} of rows is not supported; take {first} or {second}");
                Err(Error::Mismatch { what: "operation", reason })
            }
        }
    }
}

impl Matrix {
    /// The operations with known results.
    pub const OPS: [Op; 2] = [Op::Sum, Op::ArgMax];

    /// Generates the elements of `rows` rows of `len` elements each, and computes their results. Fails
    /// for no elements, and for more than [`MOST_ELEMENTS`].
    pub fn draw(rows: u64, len: u64, seed: u64) -> Result<(Data, Arc<Self>)> {
        let n = rows.saturating_mul(len);
        if n == 0 {
            return Err(Error::NoValue { statistic: Op::Sum.into() });
        }
        if n > MOST_ELEMENTS {
            return Err(Error::TooManyElements { n, most: MOST_ELEMENTS });
        }
        let elements = Data::random_below(Dtype::F32, n as usize, seed, OTHERS);
        let places = Data::random_below(Dtype::U32, rows as usize, !seed, len);
        let (Data::F32(mut elements), Data::U32(places)) = (elements, places) else {
            unreachable!("drawn in these types");
        };
        elements.par_iter_mut().for_each(|element| {
            let low = *element - 127.0;
            *element = if low < 0.0 { low } else { low + 1.0 };
        });
        let row = |(row, &place): (&mut [f32], &u32)| {
            row[place as usize] = LARGEST;
            let piece = |piece: &[f32]| piece.iter().map(|&element| i64::from(element as i32)).sum();
            match row.len() <= PIECE {
                true => piece(row),
                false => row.par_chunks(PIECE).map(piece).sum::<i64>(),
            }
        };
        let sums = elements.par_chunks_mut(len as usize).zip(&places).map(row);
        let sums = sums.map(|sum| sum as f32).collect();
        Ok((Data::F32(elements), Arc::new(Self { rows, len, sums, places })))
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn row_len(&self) -> u64 {
        self.len
    }

    pub fn elements(&self) -> u64 {
        self.rows * self.len
    }

    /// Returns the bytes that a reduction reads and writes in total.
    pub fn bytes(&self, layout: Layout) -> u64 {
        self.elements() * size_of::<f32>() as u64 + self.rows * layout.bytes()
    }

    pub(crate) fn judge(&self, results: &Allocation, layout: Layout) -> Result<bool> {
        self.judge_by(READ, results, layout)
    }

    /// Copies the results in pieces of `piece` bytes, which must hold at least one result.
    fn judge_by(&self, piece: usize, results: &Allocation, layout: Layout) -> Result<bool> {
        let (rows, bytes) = (self.rows as usize, layout.bytes() as usize);
        let at_once = rows.min(piece / bytes);
        // The buffer consists of whole words, so that any layout is aligned.
        let mut words = vec![0_u64; (at_once * bytes).div_ceil(size_of::<u64>())];
        for start in (0..rows).step_by(at_once) {
            let end = rows.min(start + at_once);
            let read = &mut bytemuck::cast_slice_mut(&mut words)[..(end - start) * bytes];
            results.read((start * bytes) as u64, read)?;
            if !self.are_right(start, read, layout) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn are_right(&self, start: usize, results: &[u8], layout: Layout) -> bool {
        let rows = start..start + results.len() / layout.bytes() as usize;
        let (sums, places) = (&self.sums[rows.clone()], &self.places[rows]);
        match layout {
            Layout::Sums => bytemuck::cast_slice::<_, f32>(results) == sums,
            Layout::Places => {
                let found: &[Place] = bytemuck::cast_slice(results);
                let right =
                    |(found, &place): (&Place, &u32)| is_place(found.index, found.element, place);
                found.par_iter().zip(places).all(right)
            }
            Layout::NarrowPlaces => {
                let found: &[NarrowPlace] = bytemuck::cast_slice(results);
                let right = |(found, &place): (&NarrowPlace, &u32)| {
                    is_place(found.index.into(), found.element, place)
                };
                found.par_iter().zip(places).all(right)
            }
        }
    }
}

fn is_place(index: u64, element: f32, place: u32) -> bool {
    index == u64::from(place) && element == LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::{Device, Selection};

    fn values((data, matrix): (Data, Arc<Matrix>)) -> (Vec<f32>, Arc<Matrix>) {
        let Data::F32(values) = data else { panic!("f32 are drawn") };
        (values, matrix)
    }

    #[test]
    fn drawn_rows_have_the_expected_results() {
        for (rows, len) in [(1, 1), (1, 200_003), (3, 70_000), (1000, 7), (5000, 1), (64, 1024)] {
            let (values, matrix) = values(Matrix::draw(rows, len, 7).unwrap());
            assert_eq!(values.len() as u64, rows * len);
            for (at, row) in values.chunks(len as usize).enumerate() {
                let sum: f64 = row.iter().copied().map(f64::from).sum();
                assert_eq!(f64::from(matrix.sums[at]), sum, "{rows} x {len}, row {at}");
                let largest: Vec<usize> = (0..row.len()).filter(|&i| row[i] == LARGEST).collect();
                assert_eq!(largest, [matrix.places[at] as usize], "{rows} x {len}, row {at}");
                let others = |&x: &f32| x != 0.0 && x.fract() == 0.0 && (-127.0..=LARGEST).contains(&x);
                assert!(row.iter().all(others), "{rows} x {len}, row {at}");
            }
        }
        let (values, matrix) = values(Matrix::draw(1000, 7, 7).unwrap());
        assert!((0..7).all(|place| matrix.places.contains(&place)));
        assert!([-127.0, -1.0, 1.0, 127.0].iter().all(|value| values.contains(value)));
        assert!(Matrix::draw(0, 3, 7).is_err() && Matrix::draw(3, 0, 7).is_err());
        assert!(Matrix::draw(1 << 20, (1 << 10) + 1, 7).is_err());
    }

    #[test]
    fn one_wrong_row_is_seen() {
        let device = Device::open(Selection::Sim).unwrap();
        let (_, matrix) = Matrix::draw(300, 5, 7).unwrap();
        let rows = || matrix.sums.iter().zip(&matrix.places);
        for layout in [Layout::Sums, Layout::Places, Layout::NarrowPlaces] {
            let right: Vec<u8> = rows()
                .flat_map(|(sum, place)| match layout {
                    Layout::Sums => sum.to_le_bytes().to_vec(),
                    Layout::Places => {
                        let index = u64::from(*place).to_le_bytes();
                        [&index[..], &LARGEST.to_le_bytes(), &[0xac; 4]].concat()
                    }
                    Layout::NarrowPlaces => [place.to_le_bytes(), LARGEST.to_le_bytes()].concat(),
                })
                .collect();
            assert_eq!(right.len() as u64, 300 * layout.bytes());
            let memory = device.allocate(right.len() as u64).unwrap();
            memory.write(0, &right).unwrap();
            let judge = || {
                let whole = matrix.judge(&memory, layout).unwrap();
                // Copies of a few rows. The last copy is shorter.
                assert_eq!(matrix.judge_by(112, &memory, layout).unwrap(), whole, "{layout:?}");
                whole
            };
            assert!(judge(), "{layout:?}");
            let size = layout.bytes() as usize;
            // Change both halves of an entry, in the first row, the last row and one between.
            let halves = if layout == Layout::Sums { vec![2] } else { vec![0, size / 2] };
            for at in
                [0, 150, 299].into_iter().flat_map(|row| halves.iter().map(move |h| row * size + h))
            {
                memory.write(at as u64, &[right[at] ^ 1]).unwrap();
                assert!(!judge(), "{layout:?}, byte {at}");
                memory.write(at as u64, &right[at..=at]).unwrap();
            }
            assert!(judge(), "{layout:?}");
        }
    }
}
