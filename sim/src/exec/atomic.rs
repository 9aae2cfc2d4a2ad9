//! Atomics of a warp, lane by lane.

use std::sync::{Mutex, PoisonError};

use crate::ast::Type;
use crate::lanes::float::{Arithmetic, Mode, canonical, flush, propagate, soft_constant, soft_words};
use crate::lanes::{Row64, for_each_lane};
use crate::memory::Space;
use crate::observe::AccessKind;
use crate::program::{Access, AtomicOp};

use super::backing::Sink;
use super::memory::bad_access;
use super::warp::Warp;
use super::{ExecContext, Outcome, Probe};

impl Warp {
    pub(super) fn atomic<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        mask: u32,
    ) -> Outcome<()> {
        if matches!(access.atomic, Some(AtomicOp::WideExchange | AtomicOp::WideCompareSwap))
            && let Some(world) = context.probe.exploration()
        {
            world.refuse("the kernel has atomics of 128 bits, which explorations do not support");
        }
        let kind = match access.results {
            Some(_) => AccessKind::Atomic,
            None => AccessKind::Reduction,
        };
        if kind == AccessKind::Atomic {
            if access.at.space != Space::Shared {
                self.turn.poll();
            } else if access.atomic.is_some_and(AtomicOp::may_lock) {
                self.turn.contend();
            }
        }
        let mut addresses = self.addresses(&access.at);
        self.by_space(context, access, mask, &mut addresses, kind)
    }

    pub(super) fn change<M: Sink>(
        &mut self,
        memory: &mut M,
        access: &Access,
        lanes: u32,
        addresses: &Row64,
        space: Space,
    ) -> Outcome<()> {
        let Some(operation) = access.atomic else { return Ok(()) };
        let width = access.ty.bytes();
        let bytes = width * u32::from(access.count);
        let flushes = space == Space::Global;
        let mut failed = None;
        for_each_lane(lanes, |lane| {
            let address = addresses[lane];
            let place = memory.locate(address, bytes, lane);
            let Some(_) = place.filter(|_| address.is_multiple_of(u64::from(bytes))) else {
                failed = failed.or(Some(lane));
                return;
            };
            if matches!(operation, AtomicOp::WideExchange | AtomicOp::WideCompareSwap) {
                return self.change_wide(memory, access, address, lane);
            }
            let swap = self.value(access.swap, lane);
            // A vector is atomic for each element, not as a whole.
            for index in 0..usize::from(access.count) {
                let element = address + index as u64 * u64::from(width);
                let Some(place) = memory.locate(element, width, lane) else { continue };
                let operand = self.value(access.data[index], lane);
                let change = |old| combine(operation, access.ty, flushes, old, operand, swap);
                let old = memory.update(place, width, change);
                if let Some(results) = access.results {
                    self.set(results[index], lane, old);
                }
            }
        });
        match failed {
            None => Ok(()),
            Some(lane) => bad_access(memory, "atomic", space, addresses[lane], bytes, lane),
        }
    }
}

/// Serialises atomics of 128 bits; other accesses may still see one half changed.
static WIDE: Mutex<()> = Mutex::new(());

impl Warp {
    /// Executes an exchange or compare-and-swap of 128 bits; the address has been checked.
    fn change_wide<M: Sink>(&mut self, memory: &mut M, access: &Access, address: u64, lane: usize) {
        let _one_at_a_time = WIDE.lock().unwrap_or_else(PoisonError::into_inner);
        let halves = [address, address + 8];
        let old =
            halves.map(|half| memory.locate(half, 8, lane).map_or(0, |place| memory.get(place, 0, 8)));
        let operands = access.data.map(|slot| self.value(slot, lane));
        let new = match access.atomic {
            Some(AtomicOp::WideExchange) => Some([operands[0], operands[1]]),
            _ if old == operands[..2] => Some([operands[2], operands[3]]),
            _ => None,
        };
        for (half, value) in halves.into_iter().zip(new.into_iter().flatten()) {
            if let Some(place) = memory.locate(half, 8, lane) {
                memory.put(place, 0, 8, value);
            }
        }
        for (slot, old) in access.results.iter().flatten().zip(old) {
            self.set(*slot, lane, old);
        }
    }
}

/// Returns the new value of an atomic. Single-precision sums flush subnormals if `flushes` is set: PTX
/// specifies that those in global memory do, and those in shared memory do not.
pub(super) fn combine(
    operation: AtomicOp,
    ty: Type,
    flushes: bool,
    old: u64,
    operand: u64,
    swap: u64,
) -> u64 {
    match operation {
        AtomicOp::Add => add(ty, flushes, old, operand),
        AtomicOp::Min | AtomicOp::Max if ty.is_float() => {
            let arithmetic = match operation {
                AtomicOp::Min => Arithmetic::Min,
                _ => Arithmetic::Max,
            };
            let imm = soft_constant(arithmetic, Mode::NEAREST, ty);
            u64::from(soft_words(imm, [old as u32, operand as u32, 0]))
        }
        AtomicOp::Min | AtomicOp::Max => {
            let less = match ty {
                Type::S32 => (old as u32 as i32) < (operand as u32 as i32),
                Type::S64 => (old as i64) < (operand as i64),
                Type::U32 => (old as u32) < (operand as u32),
                _ => old < operand,
            };
            if less == (operation == AtomicOp::Min) { old } else { operand }
        }
        AtomicOp::Inc if old >= u64::from(operand as u32) => 0,
        AtomicOp::Inc => old + 1,
        AtomicOp::Dec if old == 0 || old > u64::from(operand as u32) => operand,
        AtomicOp::Dec => old - 1,
        AtomicOp::And => old & operand,
        AtomicOp::Or => old | operand,
        AtomicOp::Xor => old ^ operand,
        AtomicOp::Exchange => operand,
        AtomicOp::CompareSwap => {
            let low = u64::MAX >> (64 - ty.bits());
            if old == operand & low { swap } else { old }
        }
        AtomicOp::WideExchange | AtomicOp::WideCompareSwap => old,
    }
}

fn add(ty: Type, flushes: bool, old: u64, operand: u64) -> u64 {
    match ty {
        Type::F32 => {
            let view = |bits: u64| {
                let value = f32::from_bits(bits as u32);
                if flushes { flush(value) } else { value }
            };
            let sum = canonical(view(old) + view(operand));
            u64::from(if flushes { flush(sum) } else { sum }.to_bits())
        }
        Type::F64 => {
            let (a, b) = (f64::from_bits(old), f64::from_bits(operand));
            propagate(a + b, [a, b, 0.0]).to_bits()
        }
        Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => {
            let imm = soft_constant(Arithmetic::Add, Mode::NEAREST, ty);
            u64::from(soft_words(imm, [old as u32, operand as u32, 0]))
        }
        _ => old.wrapping_add(operand),
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicOp, Type, combine};

    #[test]
    fn inc_and_dec_wrap_at_the_operand() {
        let inc = |old, limit| combine(AtomicOp::Inc, Type::U32, true, old, limit, 0);
        assert_eq!([inc(0, 3), inc(2, 3), inc(3, 3), inc(9, 3)], [1, 3, 0, 0]);
        let dec = |old, limit| combine(AtomicOp::Dec, Type::U32, true, old, limit, 0);
        assert_eq!([dec(3, 3), dec(1, 3), dec(0, 3), dec(9, 3)], [2, 0, 3, 3]);
    }

    #[test]
    fn signed_extremes_compare_signed() {
        let minus_one = u64::from(u32::MAX);
        assert_eq!(combine(AtomicOp::Min, Type::S32, true, 1, minus_one, 0), minus_one);
        assert_eq!(combine(AtomicOp::Min, Type::U32, true, 1, minus_one, 0), 1);
        assert_eq!(combine(AtomicOp::Max, Type::S64, true, 1, u64::MAX, 0), 1);
    }

    #[test]
    fn single_precision_sums_flush_in_global_memory_only() {
        let tiny = u64::from(f32::from_bits(1).to_bits());
        assert_eq!(combine(AtomicOp::Add, Type::F32, true, 0, tiny, 0), 0);
        assert_eq!(combine(AtomicOp::Add, Type::F32, false, 0, tiny, 0), tiny);
    }
}
