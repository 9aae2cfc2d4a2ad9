//! Device, input rotation and statistics of the benchmarks.

use std::{env, error::Error};

use warpfold::{Device, Selection};

/// Bytes of all inputs together: more than twice any GPU's L2 cache.
const ROTATED: usize = 256 << 20;
/// Bytes read in a round, which set its length.
const ROUND_BYTES: usize = 4 << 30;
/// Inputs and calls per round on the simulator.
const SIMULATED: (usize, usize) = (2, 3);

/// Returns whether the simulator is requested.
pub(crate) fn is_simulated() -> bool {
    env::var("DEVICE").is_ok_and(|device| device == "sim")
}

/// Opens the requested device, or returns `None` if that is a GPU and there is none.
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

/// Returns the median and the quartiles.
pub(crate) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    format!("{{\"median\":{:.3},\"q1\":{:.3},\"q3\":{:.3}}}", at(2), at(1), at(3))
}
