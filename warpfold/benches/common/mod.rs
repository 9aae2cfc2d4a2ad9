//! Device, input rotation and statistics of the benchmarks.

use std::{env, error::Error};

use warpfold::{Device, Selection};

/// Total bytes of the rotated inputs: more than twice the L2 cache of any GPU.
const ROTATED: usize = 256 << 20;
const ROUND_BYTES: usize = 4 << 30;
const SIMULATED: (usize, usize) = (2, 3);

pub(crate) fn is_simulated() -> bool {
    env::var("DEVICE").is_ok_and(|device| device == "sim")
}

pub(crate) fn open() -> Result<Option<Device>, Box<dyn Error>> {
    let simulated = is_simulated();
    match Device::open(if simulated { Selection::Sim } else { Selection::Cuda }) {
        Ok(device) => Ok(Some(device)),
        Err(error) if !simulated => {
            println!("no GPU, nothing is measured: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of inputs of `bytes` bytes to rotate, so that none is in the cache, and the number
/// of calls per round.
pub(crate) fn rotation(device: &Device, bytes: usize) -> (usize, usize) {
    if device.info().simulated {
        return SIMULATED;
    }
    ((ROTATED / bytes).clamp(2, 64), (ROUND_BYTES / bytes).clamp(8, 1000))
}

/// Formats the median and the quartiles as JSON.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    format!("{{\"median\":{:.3},\"q1\":{:.3},\"q3\":{:.3}}}", at(2), at(1), at(3))
}
