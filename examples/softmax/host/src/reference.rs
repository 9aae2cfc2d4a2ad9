//! Reference results, and the allowed error of the kernel.

use crate::Matrix;

/// Returns the softmax of a row, in double precision and by its definition.
pub fn softmax(row: &[f32]) -> Vec<f64> {
    let max = max(row);
    let powers: Vec<f64> = row.iter().map(|&x| (f64::from(x) - max).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn max(row: &[f32]) -> f64 {
    row.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)))
}

/// Returns the allowed error of an element that is smaller than the row's largest by `below`: the bound
/// in the kernel's documentation, for rows of `columns` columns and blocks of `block` threads.
pub fn tolerance(exact: f64, below: f64, columns: usize, block: u32) -> f64 {
    let steps = columns.div_ceil(4 * block as usize) as f64 + 12.0;
    let relative = (steps + below + (columns as f64).ln()) * 2_f64.powi(-21);
    exact * relative + 2_f64.powi(-146)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wrong {
    pub row: usize,
    pub column: usize,
    pub got: f32,
    pub expected: f64,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { row, column, got, expected } = self;
        write!(f, "row {row}, column {column} is {got:e} and should be {expected:e}")
    }
}

/// Returns the largest error of all elements, as a fraction of the allowed error. Fails with the first
/// element that has a larger error, or a NaN in only one of output and reference.
pub fn judge(input: &Matrix, output: &Matrix, block: u32) -> Result<f64, Wrong> {
    let mut worst = 0.0_f64;
    for (row, (elements, results)) in input.rows().zip(output.rows()).enumerate() {
        let max = max(elements);
        for (column, (&got, expected)) in results.iter().zip(softmax(elements)).enumerate() {
            if expected.is_nan() && got.is_nan() {
                continue;
            }
            // An element of −∞ is infinitely below `max`; its exact result is 0, and 0 · ∞ would be NaN.
            let below = (max - f64::from(elements[column])).min(f64::from(f32::MAX));
            let allowed = tolerance(expected, below, input.columns(), block);
            let part = (f64::from(got) - expected).abs() / allowed;
            if part.is_nan() || part > 1.0 {
                return Err(Wrong { row, column, got, expected });
            }
            worst = worst.max(part);
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Vec<f32>);

    #[test]
    fn judge_detects_wrong_outputs() {
        let input = Matrix::random(3, 33, 1).unwrap();
        let right: Vec<f32> = input.rows().flat_map(softmax).map(|x| x as f32).collect();
        let judged = |change: Change| {
            let mut output = right.clone();
            change(&mut output);
            judge(&input, &Matrix::new(33, output).unwrap(), 32)
        };
        assert!(judged(|_| {}).unwrap() < 0.1);
        let changes: [Change; 6] = [
            |all| all[40] = f32::NAN,
            |all| all[40] = f32::INFINITY,
            |all| all[40] = 0.0,
            |all| all[98] *= 1.0001,
            |all| all.fill(f32::from_bits(crate::POISON)),
            |all| all.swap(40, 41),
        ];
        for (i, change) in changes.into_iter().enumerate() {
            assert!(judged(change).is_err(), "change {i}");
        }
    }

    #[test]
    fn softmax_of_undefined_rows_is_nan() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        for row in [[1.0, nan], [inf, 0.0], [-inf, -inf], [inf, inf]] {
            assert!(softmax(&row).iter().all(|x| x.is_nan()), "{row:?}");
        }
        assert_eq!(softmax(&[-inf, 3.0]), [0.0, 1.0]);
    }
}
