//! What benchmarks of pieces of a buffer share.

use std::{env, error::Error};

use warpfold::{Device, Selection};

/// Bytes of all inputs together: more than twice any GPU's L2 cache.
const ROTATED: usize = 256 << 20;
/// About how long a round takes, in bytes that are read.
const ROUND_BYTES: usize = 4 << 30;
/// Inputs, and calls in a round, on the simulator.
const SIMULATED: (usize, usize) = (2, 3);

/// Whether the simulator is asked for, in which times say nothing.
pub(crate) fn is_simulated() -> bool {
    env::var("DEVICE").is_ok_and(|device| device == "sim")
}

/// The device that is asked for; `None` where that is a GPU and there is none.
pub(crate) fn open() -> Result<Option<Device>, Box<dyn Error>> {
    let simulated = is_simulated();
    match Device::open(if simulated { Selection::Sim } else { Selection::Cuda }) {
        Ok(device) => Ok(Some(device)),
        // Without a GPU there is nothing to measure.
        Err(error) if !simulated => {
            println!("no GPU, nothing is measured: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// How many inputs of so many bytes take turns, so that the cache has none of them, and how many calls
/// are a round.
pub(crate) fn rotation(device: &Device, bytes: usize) -> (usize, usize) {
    if device.info().simulated {
        return SIMULATED;
    }
    ((ROTATED / bytes).clamp(2, 64), (ROUND_BYTES / bytes).clamp(8, 1000))
}

/// An element is its index modulo 4, and so what any piece of them is reduced to is known.
pub(crate) fn value_at(index: usize) -> f32 {
    (index % 4) as f32
}

/// The sum of so many first elements.
fn sum_to(end: usize) -> usize {
    end / 4 * 6 + [0, 0, 1, 3][end % 4]
}

/// Whether a sum is that of the elements between two of them.
pub(crate) fn is_sum(sum: f32, [begin, end]: [usize; 2]) -> bool {
    let expected = (sum_to(end) - sum_to(begin)) as f32;
    (sum - expected).abs() <= expected * 1e-5
}

/// Where so many pieces of `total` elements begin, and the last one ends, whose lengths are distributed
/// as Zipf's law says (the k-th longest one has a k-th of the longest one's), in no order.
pub(crate) fn zipf(count: usize, total: usize) -> Vec<u32> {
    let harmonic: f64 = (1..=count).map(|rank| 1.0 / rank as f64).sum();
    let longest = total as f64 / harmonic;
    // A step that has no divisor in common with the count visits each rank once.
    let step = (count as f64 * 0.618) as usize | 1;
    let step = (step..).find(|&step| divisor(step, count) == 1).expect("a prime is enough");
    let mut end = 0.0;
    let begins = (0..count).map(|at| {
        let begin = end as u32;
        end += longest / ((at * step) % count + 1) as f64;
        begin
    });
    begins.chain([total as u32]).collect()
}

/// The greatest one of both numbers.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Median and quartiles.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    format!("{{\"median\":{:.3},\"q1\":{:.3},\"q3\":{:.3}}}", at(2), at(1), at(3))
}
