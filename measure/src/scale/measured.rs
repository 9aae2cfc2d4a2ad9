//! Measurements from the committed results.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

const FOLDER: &str = "docs/results/nvidia-h200/experiments";

/// A time in microseconds or a rate in gigabytes per second, for a number of GPUs and of floats on each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Peer {
    pub(super) what: String,
    pub(super) gpus: u32,
    pub(super) floats: Option<u64>,
    pub(super) us: Option<f64>,
    pub(super) gb_per_s: Option<f64>,
}

/// Microseconds per sum of `floats` floats by a group of one device. Each sum is enqueued after the
/// preceding one, and the results stay on the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Local {
    pub(super) floats: u64,
    pub(super) us: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) peers: Vec<Peer>,
    pub(super) local: Vec<Local>,
}

#[derive(Deserialize)]
struct OfGroup {
    devices: u32,
    way: String,
    n: u64,
    into_us: Spread,
}

#[derive(Deserialize)]
struct Spread {
    median: f64,
}

impl Measured {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let peers = lines(root, "scale-peers.jsonl")?;
        let of_groups: Vec<OfGroup> = lines(root, "library-group.jsonl")?;
        let alone = of_groups.iter().filter(|line| line.devices == 1 && line.way == "Peers");
        let local = alone.map(|line| Local { floats: line.n, us: line.into_us.median }).collect();
        Ok(Self { peers, local })
    }

    /// Returns the time or rate of `gpus` GPUs, with `floats` floats each if given.
    pub(super) fn peer(&self, what: &str, gpus: u32, floats: Option<u64>) -> f64 {
        let is_it = |peer: &&Peer| peer.what == what && peer.gpus == gpus && peer.floats == floats;
        let peer = self.peers.iter().find(is_it);
        peer.and_then(|peer| peer.us.or(peer.gb_per_s))
            .unwrap_or_else(|| panic!("{what} of {floats:?} on {gpus} was measured"))
    }
}

/// Returns the lines of a file after the first one, which describes the measurement.
fn lines<T: for<'a> Deserialize<'a>>(root: &Path, name: &str) -> Result<Vec<T>> {
    let text = fs::read_to_string(root.join(FOLDER).join(name)).with_context(|| name.to_owned())?;
    let lines = text.lines().skip(1);
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("{name}: {line}"))).collect()
}
