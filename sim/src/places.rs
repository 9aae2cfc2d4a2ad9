//! What lies at an address, in words: buffers by their names, sizes and bases, and by how much an access
//! missed them.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::memory::{Allocation, NEAR, Space, View};
use crate::module::Entry;
use crate::names::readable;
use crate::program::SharedArray;

/// The memory of a launch, to be described.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) view: &'a View,
    pub(crate) entry: &'a Entry,
    pub(crate) params: &'a [u8],
    /// Bytes of a block's shared memory.
    pub(crate) shared_bytes: u32,
}

/// The same, kept beyond the launch.
#[derive(Debug)]
pub(crate) struct KeptPlaces {
    view: View,
    pointers: Vec<(usize, u64)>,
    shared: Arc<[SharedArray]>,
}

/// Arguments that may be addresses: any eight bytes of a parameter at a multiple of eight.
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

    /// By how much an access missed what there is.
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
            let _ = write!(text, ", of which it ends {behind} behind");
            let last = self.entry.program.shared_arrays.iter().max_by_key(|array| array.start);
            if let Some(SharedArray { name, start, bytes }) = last {
                let bytes = bytes.unwrap_or(self.shared_bytes.saturating_sub(*start));
                let name = readable(name);
                let _ = write!(text, "; the last there is `{name}`, {bytes} bytes at {start:#x}");
            }
        }
        text
    }
}

impl KeptPlaces {
    /// The buffer that an address lies in, and where in it that is.
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

/// What an allocation is called: by its own name, else by the first argument that points there.
fn name(allocation: &Allocation, pointers: &[(usize, u64)]) -> Option<String> {
    if let Some(name) = allocation.name() {
        return Some(format!("`{}`", readable(&name)));
    }
    let points = |&&(_, address): &&(usize, u64)| address != 0 && allocation.contains(address, 0);
    let (argument, _) = pointers.iter().find(points)?;
    Some(format!("what argument {argument} points to"))
}

fn description(allocation: &Allocation, pointers: &[(usize, u64)]) -> String {
    allocation.described(name(allocation, pointers).as_deref())
}
