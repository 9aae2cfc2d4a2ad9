//! What all benchmarks share.

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

/// How many inputs of `bytes` bytes take turns, so that the cache has none of them, and how many calls
/// are a round.
pub(crate) fn rotation(device: &Device, bytes: usize) -> (usize, usize) {
    if device.info().simulated {
        return SIMULATED;
    }
    ((ROTATED / bytes).clamp(2, 64), (ROUND_BYTES / bytes).clamp(8, 1000))
}

/// Returns the median and the quartiles.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    format!("{{\"median\":{:.3},\"q1\":{:.3},\"q3\":{:.3}}}", at(2), at(1), at(3))
}
