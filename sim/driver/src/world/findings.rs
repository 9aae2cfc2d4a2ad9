//! Memory and modules freed while pending work named them.

use std::fmt;

use warpfold_sim::readable;

use super::{End, LaunchRequest, State, Work};
use crate::ffi::{ContextId, ModuleId};

/// Memory or a module that was freed while pending work named it. The work faults when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The call that freed the memory or module.
    pub call: &'static str,
    /// Start of the memory; 0 for a module.
    pub address: u64,
    /// Bytes of the memory; 0 for a module.
    pub bytes: u64,
    /// Description of the first piece of work that names the memory or module.
    pub named_by: String,
    /// Number of pieces of pending work that name the memory or module.
    pub pending: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, address, bytes, named_by, pending } = self;
        match bytes {
            0 => write!(f, "{call} of a module ")?,
            _ => write!(f, "{call} of {bytes} bytes at {address:#x} ")?,
        }
        write!(f, "while {named_by} is pending")?;
        if *pending > 1 { write!(f, ", and {} more", pending - 1) } else { Ok(()) }
    }
}

fn naming(work: &Work, base: u64, bytes: u64) -> Option<String> {
    let meets = |address: u64, len: u64| address < base + bytes && base < address.saturating_add(len);
    match work {
        Work::Launch(launch) => {
            let argument = pointer_into(launch, base, bytes)?;
            Some(format!(
                "a launch of `{}`, whose argument {argument} points there,",
                readable(launch.entry_name())
            ))
        }
        Work::Copy(transfer) => {
            let named = |end: &End, step| match end {
                End::Memory(address) => meets(*address, transfer.span(step)),
                End::Host(_) | End::Staged(_) => false,
            };
            let what = match () {
                () if named(&transfer.to, transfer.to_step) => "to",
                () if named(&transfer.from, transfer.from_step) => "from",
                () => return None,
            };
            Some(format!(
                "a copy of {} bytes {what} it",
                transfer.bytes * transfer.rows * transfer.planes
            ))
        }
        Work::Fill(fill) => {
            let len = fill.pitch * fill.rows.saturating_sub(1) + fill.bytes;
            meets(fill.to, len).then(|| format!("a memset of {} bytes of it", fill.bytes * fill.rows))
        }
        Work::Release(address) => (*address == base).then(|| "its own cuMemFreeAsync".to_owned()),
        Work::Conditional(node) => node.all_steps().find_map(|work| naming(work, base, bytes)),
        Work::Nothing | Work::Host(_) | Work::Record(_) | Work::Allocate(_) | Work::Begin(_) => None,
    }
}

/// Returns the index of the first argument that contains an address in the range. Each aligned 8-byte
/// word of an argument is examined, because the argument may be a structure.
fn pointer_into(launch: &LaunchRequest, base: u64, bytes: u64) -> Option<usize> {
    let inside = |word: &[u8]| {
        let word = word.try_into().map(u64::from_le_bytes).unwrap_or(0);
        // One past the end does not count, because it may be the address of an empty range.
        word >= base && word - base < bytes.max(1)
    };
    let parameters = launch.program.entry(launch.entry_name())?.params();
    parameters.iter().position(|parameter| {
        let bytes = launch.parameters.get(parameter.offset..parameter.offset + parameter.size);
        bytes.is_some_and(|bytes| bytes.chunks_exact(8).any(inside))
    })
}

fn launching_of(work: &Work, module: ModuleId) -> Option<String> {
    match work {
        Work::Launch(launch) if launch.module == module => {
            Some(format!("a launch of its `{}`", readable(launch.entry_name())))
        }
        Work::Conditional(node) => node.all_steps().find_map(|work| launching_of(work, module)),
        _ => None,
    }
}

impl State {
    pub(crate) fn note_freed(&mut self, owner: ContextId, call: &'static str, address: u64, bytes: u64) {
        self.note(owner, (call, address, bytes), |work| naming(work, address, bytes));
    }

    pub(crate) fn note_unloaded(&mut self, owner: ContextId, module: ModuleId) {
        self.note(owner, ("cuModuleUnload", 0, 0), |work| launching_of(work, module));
    }

    fn note(
        &mut self,
        owner: ContextId,
        (call, address, bytes): (&'static str, u64, u64),
        naming: impl Fn(&Work) -> Option<String>,
    ) {
        let tasks = self.tasks.all();
        let named: Vec<_> = tasks.filter_map(|(id, task)| Some((id, naming(&task.work)?))).collect();
        let pending = named.len();
        let Some((_, named_by)) = named.into_iter().min() else { return };
        if let Some(context) = self.contexts.get_mut(&owner) {
            context.findings.push(Finding { call, address, bytes, named_by, pending });
        }
    }
}
