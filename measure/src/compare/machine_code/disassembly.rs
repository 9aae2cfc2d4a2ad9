//! Extracts kernels from the output of `nvdisasm -json`.
//!
//! The list has one item per symbol. A kernel starts a section at address 0, and the functions that were
//! not inlined into it follow in the same section. A section ends with an unreachable branch to itself
//! and with `NOP`s up to the next boundary of 128 bytes.

use std::{borrow::Cow, collections::BTreeMap};

use anyhow::{Context, Result};
use serde::{Deserialize, de::IgnoredAny};

/// Bytes per instruction, since sm_70.
const INSTRUCTION: u64 = 16;

#[derive(Debug, Default)]
pub(super) struct Kernel<'a> {
    pub(super) instructions: Vec<Instruction<'a>>,
    /// Size of the section, including padding.
    pub(super) bytes: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Instruction<'a> {
    /// The predicate, such as `@!P0`.
    #[serde(borrow, default)]
    pub(super) predicate: Option<Cow<'a, str>>,
    /// The opcode with its modifiers, such as `LDG.E.128`.
    #[serde(borrow)]
    pub(super) opcode: Cow<'a, str>,
    #[serde(borrow, default)]
    operands: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Function<'a> {
    #[serde(borrow)]
    function_name: Cow<'a, str>,
    start: u64,
    length: u64,
    #[serde(borrow)]
    sass_instructions: Vec<Instruction<'a>>,
}

impl Instruction<'_> {
    /// Returns `LDG` of `LDG.E.128`.
    pub(super) fn operation(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Returns `E` and `128` of `LDG.E.128`.
    pub(super) fn modifiers(&self) -> impl Iterator<Item = &str> {
        self.opcode.split('.').skip(1)
    }

    /// Returns whether no thread ever executes the instruction. The assembler inserts some as spacing.
    pub(super) fn is_never_executed(&self) -> bool {
        matches!(self.predicate.as_deref(), Some("@!PT" | "@!UPT"))
    }

    /// Returns whether the instruction, at address `at`, branches to itself.
    fn is_trap(&self, at: u64) -> bool {
        let target = self.operands.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
        self.operation() == "BRA" && self.predicate.is_none() && target == Some(Ok(at))
    }
}

pub(super) fn kernels(listing: &str) -> Result<BTreeMap<Cow<'_, str>, Kernel<'_>>> {
    let (_, functions): (IgnoredAny, Vec<Function<'_>>) =
        serde_json::from_str(listing).context("nvdisasm lists code in a form that is not understood")?;
    let mut kernels = BTreeMap::new();
    let mut rest = functions.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut kernel = Kernel { instructions: first.sass_instructions, bytes: first.length };
        while let Some(called) = rest.next_if(|next| next.start > 0) {
            kernel.instructions.extend(called.sass_instructions);
        }
        kernel.strip();
        kernels.insert(first.function_name, kernel);
    }
    Ok(kernels)
}

impl Kernel<'_> {
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let line = |instruction: &Instruction<'_>| {
            let condition = instruction.predicate.as_deref().unwrap_or_default();
            let text = format!("{condition} {} {}", instruction.opcode, instruction.operands);
            text.trim().replace(name, "entry")
        };
        self.instructions.iter().map(line).collect()
    }

    /// Removes the assembler's padding after the code.
    fn strip(&mut self) {
        while self.instructions.pop_if(|last| last.operation() == "NOP").is_some() {}
        let at = (self.instructions.len() as u64).saturating_sub(1) * INSTRUCTION;
        self.instructions.pop_if(|last| last.is_trap(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(functions: &str) -> String {
        format!(r#"[{{"SM":{{"version":{{"major":9,"minor":0}}}}}},[{functions}]]"#)
    }

    fn function(name: &str, start: u64, length: u64, code: &[(&str, &str)]) -> String {
        let instructions: Vec<String> = code
            .iter()
            .map(|(opcode, operands)| {
                format!(
                    r#"{{"opcode":"{opcode}","operands":"{operands}","other-attributes":{{"control-flow":"True"}}}}"#
                )
            })
            .collect();
        let code = instructions.join(",");
        format!(
            r#"{{"function-name":"{name}","start":{start},"length":{length},"other-attributes":[],"sass-instructions":[{code}]}}"#
        )
    }

    const NOP: (&str, &str) = ("NOP", "");
    const EXIT: (&str, &str) = ("EXIT", "");

    #[test]
    fn trailing_padding_is_stripped() {
        let kernel = |code: &[(&str, &str)]| {
            let text = listing(&function("f", 0, 256, code));
            kernels(&text).unwrap()["f"].instructions.len()
        };
        assert_eq!(kernel(&[EXIT, ("BRA", "0x10"), NOP, NOP]), 1);
        assert_eq!(kernel(&[EXIT, NOP]), 1);
        // A one-instruction loop at the end is code, and so is a NOP between instructions.
        assert_eq!(kernel(&[("BRA", "0x0"), ("BRA", "0x10"), NOP]), 1);
        assert_eq!(kernel(&[NOP, EXIT, ("BRA", "0x0")]), 3);
        assert_eq!(kernel(&[]), 0);
    }

    #[test]
    fn functions_that_are_called_belong_to_the_kernel_before_them() {
        let text = listing(
            &[
                function("calls", 0, 384, &[("CALL.REL.NOINC", "$calls$slow"), EXIT]),
                function("$__internal_0_$__cuda_sm20_div_rn_f64_full", 32, 16, &[("RET", "R12,calls")]),
                function("$calls$slow", 48, 80, &[("RET", "R2,calls"), ("BRA", "0x40"), NOP]),
                function("plain", 0, 128, &[EXIT, ("BRA", "0x10"), NOP]),
            ]
            .join(","),
        );
        let kernels = kernels(&text).unwrap();
        assert_eq!(
            kernels["calls"].lines("calls"),
            ["CALL.REL.NOINC $entry$slow", "EXIT", "RET R12,entry", "RET R2,entry"]
        );
        let sizes: Vec<_> =
            kernels.iter().map(|(name, k)| (name.as_ref(), k.instructions.len(), k.bytes)).collect();
        assert_eq!(sizes, [("calls", 4, 384), ("plain", 1, 128)]);
    }

    #[test]
    fn unknown_nvdisasm_format_is_an_error() {
        for text in ["", "{}", "[{}]", "[{},[{}]]", "[{},[],[]]"] {
            let error = kernels(text).unwrap_err().to_string();
            assert_eq!(error, "nvdisasm lists code in a form that is not understood", "{text}");
        }
        assert!(kernels("[{},[]]").unwrap().is_empty());
    }
}
