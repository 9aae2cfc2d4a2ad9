//! Descriptions of addresses: the name, size and base of a buffer, and the distance by which an access
//! missed it.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::memory::{Allocation, NEAR, Space, View};
use crate::module::Entry;
use crate::names::readable;
use crate::program::SharedArray;

/// The memory of a launch, for descriptions of addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) view: &'a View,
    pub(crate) entry: &'a Entry,
    pub(crate) params: &'a [u8],
    pub(crate) shared_bytes: u32,
}

/// An owned form of [`Places`], which outlives the launch.
#[derive(Debug)]
pub(crate) struct KeptPlaces {
    view: View,
    pointers: Vec<(usize, u64)>,
    shared: Arc<[SharedArray]>,
}

/// Returns the possible pointers among the arguments: any eight bytes of a parameter at a multiple of
/// eight.
fn pointers(entry: &Entry, params: &[u8]) -> Vec<(usize, u64)> {
    let words = entry.params().iter().enumerate().flat_map(|(argument, param)| {
        let bytes = params.get(param.offset..param.offset + param.size).unwrap_or_default();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        bytes.chunks_exact(8).map(move |bytes| (argument, word(bytes)))
    });
    words.collect()
}

impl Places<'_> {
    pub(crate) fn keep(&self) -> KeptPlaces {
        KeptPlaces {
            view: self.view.clone(),
            pointers: pointers(self.entry, self.params),
            shared: Arc::clone(&self.entry.program.shared_arrays),
        }
    }

    /// Describes how far an access missed the memory of its space.
    pub(crate) fn missed(&self, space: Space, address: u64, bytes: u64) -> Option<String> {
        match space {
            Space::Global => {
                let pointers = pointers(self.entry, self.params);
                Some(self.view.missed(address, bytes, |allocation| name(allocation, &pointers)))
            }
            Space::Shared => Some(self.missed_shared(address, bytes)),
            _ => None,
        }
    }

    fn missed_shared(&self, address: u64, bytes: u64) -> String {
        let all = u64::from(self.shared_bytes);
        let mut text = format!("the space has {all} bytes");
        let behind = address.saturating_add(bytes).saturating_sub(all);
        if all != 0 && behind < NEAR {
            let _ = write!(text, ", and the access ends {behind} bytes past its end");
            let last = self.entry.program.shared_arrays.iter().max_by_key(|array| array.start);
            if let Some(SharedArray { name, start, bytes }) = last {
                let bytes = bytes.unwrap_or(self.shared_bytes.saturating_sub(*start));
                let name = readable(name);
                let _ = write!(text, "; the last array is `{name}`, {bytes} bytes at {start:#x}");
            }
        }
        text
    }
}

impl KeptPlaces {
    /// Describes the buffer that contains an address, and the offset in it.
    pub(crate) fn holder(&self, space: Space, address: u64) -> Option<String> {
        match space {
            Space::Global => {
                let found = self.view.find(address, 1, &mut 0)?;
                Some(within(address - found.base(), &description(found, &self.pointers)))
            }
            Space::Shared => {
                let holds = |array: &&SharedArray| {
                    let from = address.checked_sub(array.start.into());
                    from.is_some_and(|from| array.bytes.is_none_or(|bytes| from < bytes.into()))
                };
                let SharedArray { name, start, .. } = self.shared.iter().find(holds)?;
                Some(within(address - u64::from(*start), &format!("`{}`", readable(name))))
            }
            _ => None,
        }
    }
}

fn within(offset: u64, what: &str) -> String {
    format!("byte {offset} of {what}")
}

/// Returns the allocation's own name, or else the first argument that points to it.
fn name(allocation: &Allocation, pointers: &[(usize, u64)]) -> Option<String> {
    if let Some(name) = allocation.name() {
        return Some(format!("`{}`", readable(&name)));
    }
    let points = |&&(_, address): &&(usize, u64)| address != 0 && allocation.contains(address, 0);
    let (argument, _) = pointers.iter().find(points)?;
    Some(format!("the buffer of argument {argument}"))
}

fn description(allocation: &Allocation, pointers: &[(usize, u64)]) -> String {
    allocation.described(name(allocation, pointers).as_deref())
}
