//! Device-side `malloc` and `free`.

use crate::error::FaultKind;
use crate::lanes::for_each_lane;
use crate::program::HeapCall;

use super::warp::Warp;
use super::{ExecContext, Outcome, Probe, trouble};

impl Warp {
    pub(super) fn heap<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        call: &HeapCall,
        mask: u32,
    ) -> Outcome<()> {
        if let Some(world) = context.probe.exploration() {
            world.refuse("the kernel allocates memory, which explorations do not undo");
        }
        let Some(heap) = context.launch.heap.as_ref() else { return Ok(()) };
        let mut failed = None;
        for_each_lane(mask, |lane| {
            let begin = call.frame.map_or(0, |row| self.regs.words[usize::from(row)][lane]);
            let place = |offset: u32| lane * self.local_bytes + (begin + offset) as usize;
            let at = place(call.argument);
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.local[at..at + 8]);
            let value = u64::from_le_bytes(bytes);
            match call.result {
                Some(result) => {
                    let at = place(result);
                    self.local[at..at + 8].copy_from_slice(&heap.allocate(value).to_le_bytes());
                }
                None if failed.is_none() && value != 0 && !heap.free(value) => {
                    failed = Some((value, lane))
                }
                None => {}
            }
        });
        match failed {
            Some((address, lane)) => trouble(FaultKind::InvalidFree { address }, lane as u32),
            None => Ok(()),
        }
    }
}
