//! Outcomes of an instruction's cases.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::cases::instruction::Instruction;

/// Maximum number of wrong cases that are kept, those with the fewest bits set.
const KEPT: usize = 8;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Difference {
    operands: Vec<String>,
    device: String,
    simulator: String,
    #[serde(skip)]
    bits: u32,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}: {}, simulator {}", self.operands.join(" "), self.device, self.simulator)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cases: u64,
    pub(crate) equal: u64,
    pub(crate) allowed: u64,
    /// The part of `allowed` with NaN on both sides.
    pub(crate) allowed_nan: u64,
    pub(crate) wrong: u64,
    /// The part of `wrong` with NaN on both sides.
    pub(crate) wrong_nan: u64,
    /// Maximum distance in representable numbers between results of the same sign.
    farthest: u64,
    kept: Vec<Difference>,
}

impl Tally {
    pub(crate) fn count(
        &mut self,
        instruction: &Instruction,
        operands: [u64; 3],
        simulator: u64,
        device: u64,
    ) {
        self.cases += 1;
        if simulator == device {
            self.equal += 1;
            return;
        }
        let nan = |bits| instruction.to.shape().is_some_and(|shape| shape.is_nan(bits));
        let nans = u64::from(nan(simulator) && nan(device));
        if nans == 0 && instruction.to.half().is_none() {
            let distance = simulator.abs_diff(device);
            let same_sign =
                instruction.to.shape().is_some_and(|shape| (simulator ^ device) & shape.sign() == 0);
            self.farthest = self.farthest.max(if same_sign { distance } else { 0 });
        }
        if instruction.allows(operands, simulator, device) {
            self.allowed += 1;
            self.allowed_nan += nans;
            return;
        }
        self.wrong += 1;
        self.wrong_nan += nans;
        let operands = &operands[..instruction.arity];
        self.keep([Difference {
            operands: operands.iter().map(|bits| format!("{bits:#x}")).collect(),
            device: format!("{device:#x}"),
            simulator: format!("{simulator:#x}"),
            bits: operands.iter().map(|bits| bits.count_ones()).sum(),
        }]);
    }

    fn keep(&mut self, more: impl IntoIterator<Item = Difference>) {
        self.kept.extend(more);
        self.kept.sort_by(|one, other| (one.bits, &one.operands).cmp(&(other.bits, &other.operands)));
        self.kept.dedup_by(|one, other| one.operands == other.operands);
        self.kept.truncate(KEPT);
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.cases += other.cases;
        self.equal += other.equal;
        self.allowed += other.allowed;
        self.allowed_nan += other.allowed_nan;
        self.wrong += other.wrong;
        self.wrong_nan += other.wrong_nan;
        self.farthest = self.farthest.max(other.farthest);
        self.keep(other.kept);
        self
    }

    pub(crate) fn first_wrong(&self) -> Option<&Difference> {
        self.kept.first()
    }

    pub(crate) fn line(&self, instruction: &Instruction) -> Value {
        json!({
            "instruction": instruction.text, "cases": self.cases, "equal": self.equal,
            "allowed": self.allowed,
            "allowed_nan": self.allowed_nan, "wrong": self.wrong, "wrong_nan": self.wrong_nan,
            "farthest": self.farthest, "differences": self.kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::cases::catalogue;

    fn counted(text: &str, operand: f32, simulator: u32, device: u32) -> [u64; 3] {
        let all = catalogue::instructions();
        let instruction = all.iter().find(|one| one.text == text).expect("an instruction");
        let mut tally = Tally::default();
        let operands = [operand.to_bits().into(), 1.0_f32.to_bits().into(), 0];
        tally.count(instruction, operands, simulator.into(), device.into());
        assert_eq!(tally.first_wrong().is_some(), tally.wrong == 1);
        [tally.equal, tally.allowed, tally.wrong]
    }

    #[test]
    fn exact_instructions_allow_no_bit_difference() {
        assert_eq!(counted("add.rn.f32", 1.0, 0x4000_0000, 0x4000_0000), [1, 0, 0]);
        assert_eq!(counted("add.rn.f32", 1.0, 0x4000_0000, 0x4000_0001), [0, 0, 1]);
        assert_eq!(counted("add.rn.f32", 1.0, 0x7fff_ffff, 0x7fc0_0000), [0, 0, 1]);
        assert_eq!(counted("setp.eq.f32", 1.0, 1, 0), [0, 0, 1]);
    }

    #[test]
    fn different_wrong_cases_are_kept_the_simplest_first() {
        let all = catalogue::instructions();
        let instruction = all.iter().find(|one| one.text == "abs.f32").expect("an instruction");
        let mut tally = Tally::default();
        for operand in (1..20).rev().flat_map(|operand| [operand; 3]) {
            tally.count(instruction, [operand, 0, 0], operand, 0);
        }
        let kept: Vec<&str> = tally.kept.iter().map(|one| one.operands[0].as_str()).collect();
        assert_eq!(kept, ["0x1", "0x10", "0x2", "0x4", "0x8", "0x11", "0x12", "0x3"]);
        assert_eq!(tally.wrong, 3 * 19);
    }

    #[test]
    fn approximations_may_differ_by_the_documented_error() {
        assert_eq!(counted("rcp.approx.f32", 3.0, 0x3eaa_aaab, 0x3eaa_aaaa), [0, 1, 0]);
        assert_eq!(counted("rcp.approx.f32", 3.0, 0x3eaa_aaab, 0x3eaa_aaad), [0, 0, 1]);
        assert_eq!(counted("ex2.approx.f32", 0.5, 0x3fb5_04f3, 0x3fb5_04f5), [0, 1, 0]);
        assert_eq!(counted("ex2.approx.f32", 0.5, 0x3fb5_04f3, 0x3fb5_04f6), [0, 0, 1]);
        assert_eq!(counted("sin.approx.f32", 1.0, 0x3f57_6aa4, 0x3f57_6aa8), [0, 1, 0]);
        assert_eq!(counted("sin.approx.f32", 1.0, 0x3f57_6aa4, 0x3f57_6ac0), [0, 0, 1]);
        assert_eq!(counted("sin.approx.f32", f32::INFINITY, 0x7fff_ffff, 0), [0, 0, 1]);
    }
}
