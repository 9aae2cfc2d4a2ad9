//! The budget of decoding, which limits time and memory in proportion to the size of the text.

use std::cell::Cell;

/// Maximum bytes of a module's text; each takes some fifty bytes of memory while it is parsed.
pub(crate) const MAX_TEXT: usize = 64 << 20;

/// Decoding steps allowed for a text: `BASE`, and `PER_BYTE` for each of its bytes. Compiler output
/// takes less than a tenth of `PER_BYTE`.
const BASE: u64 = 1 << 26;
const PER_BYTE: u64 = 256;

/// Decoding steps of an instruction, besides one for each byte of its text: about as many as the bytes
/// of its decoded forms.
pub(crate) const INSTRUCTION: u64 = 512;

/// The remaining steps of decoding a module. A step takes some nanoseconds or a byte of memory.
#[derive(Debug)]
pub(crate) struct Effort {
    allowed: u64,
    left: Cell<u64>,
    exhausted: Cell<bool>,
}

impl Effort {
    pub(crate) fn for_text(bytes: usize) -> Self {
        let allowed = (bytes as u64).saturating_mul(PER_BYTE).saturating_add(BASE);
        Self { allowed, left: Cell::new(allowed), exhausted: Cell::new(false) }
    }

    pub(crate) fn spend(&self, steps: u64) -> Result<(), String> {
        let Some(left) = self.left.get().checked_sub(steps) else {
            self.exhausted.set(true);
            return Err(format!(
                "the module takes more than {} steps to decode, which is the limit for its size; its \
                 calls, branches or scopes multiply",
                self.allowed
            ));
        };
        self.left.set(left);
        Ok(())
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_limit_is_exact() {
        let effort = Effort::for_text(1);
        effort.spend(BASE).expect("allowed");
        effort.spend(PER_BYTE).expect("allowed");
        assert!(!effort.is_exhausted());
        let refused = effort.spend(1).expect_err("none left");
        assert!(effort.is_exhausted());
        assert!(refused.starts_with("the module takes more than 67109120 steps"), "{refused}");
    }
}
