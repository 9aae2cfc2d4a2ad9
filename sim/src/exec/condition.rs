//! `cudaGraphSetConditional` in kernels.

use std::sync::PoisonError;

use crate::error::FaultKind;
use crate::lanes::for_each_lane;
use crate::program::ConditionCall;

use super::warp::Warp;
use super::{ExecContext, Outcome, Probe, trouble};

impl Warp {
    pub(super) fn condition<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        call: &ConditionCall,
        mask: u32,
    ) -> Outcome<()> {
        if let Some(world) = context.probe.exploration() {
            world.refuse("the kernel sets a condition of a graph, which explorations do not support");
        }
        let mut conditions = context.launch.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut failed = None;
        for_each_lane(mask, |lane| {
            let begin = call.frame.map_or(0, |row| self.regs.words[usize::from(row)][lane]);
            let place = |offset: u32| lane * self.local_bytes + (begin + offset) as usize;
            let (mut handle, mut value) = ([0; 8], [0; 4]);
            handle.copy_from_slice(&self.local[place(call.handle)..][..8]);
            value.copy_from_slice(&self.local[place(call.value)..][..4]);
            let handle = u64::from_le_bytes(handle);
            match conditions.get_mut(&handle) {
                Some(known) => *known = u32::from_le_bytes(value),
                None => failed = failed.or(Some((handle, lane))),
            }
        });
        match failed {
            Some((handle, lane)) => trouble(FaultKind::NoCondition { handle }, lane as u32),
            None => Ok(()),
        }
    }
}
