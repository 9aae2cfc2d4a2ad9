use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::disassembly::{Instruction, Kernel};

/// Static instruction counts of a kernel by kind, not the numbers of executed instructions.
///
/// Instructions that no thread ever executes (`@!PT`) count only in [`total`](Self::total): they are
/// issued without effect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Instructions {
    /// All instructions, without the padding after the code.
    pub total: u32,
    /// Size of the code, with the padding.
    pub code_bytes: u64,
    /// Loads from global memory (`LDG`).
    pub global_loads: ByWidth,
    /// Stores to global memory (`STG`).
    pub global_stores: ByWidth,
    /// Loads from shared memory (`LDS`, `LDSM`).
    pub shared_loads: ByWidth,
    /// Stores to shared memory (`STS`, `STSM`).
    pub shared_stores: ByWidth,
    /// Loads from the thread's stack (`LDL`).
    pub local_loads: u32,
    /// Stores to the thread's stack (`STL`).
    pub local_stores: u32,
    /// Loads through a generic address (`LD`).
    pub generic_loads: u32,
    /// Stores through a generic address (`ST`), including those to another block's shared memory.
    pub generic_stores: u32,
    /// Atomics through a generic address (`ATOM`).
    pub generic_atomics: u32,
    /// Atomics on global memory (`ATOMG`, `RED`, `REDG`).
    pub global_atomics: u32,
    /// Atomics on shared memory (`ATOMS`).
    pub shared_atomics: u32,
    /// Asynchronous copies by a thread from global to shared memory (`LDGSTS`).
    pub async_copies: u32,
    /// Bulk copies by the copy engine (`UBLKCP`, `UTMALDG` and their like).
    pub bulk_copies: u32,
    /// Operations on barriers in shared memory (`SYNCS`).
    pub mbarrier_operations: u32,
    /// Barriers of a block (`BAR`).
    pub block_barriers: u32,
    /// Arrivals at and waits for barriers of a cluster (`UCGABAR_ARV`, `UCGABAR_WAIT`).
    pub cluster_barriers: u32,
    /// Barriers of a warp (`WARPSYNC`).
    pub warp_barriers: u32,
    /// Exchanges between the threads of a warp (`SHFL`).
    pub shuffles: u32,
    /// Votes of a warp (`VOTE`, `MATCH`).
    pub votes: u32,
    /// Reductions over a warp in one instruction (`REDUX`).
    pub warp_reductions: u32,
    /// Memory fences (`MEMBAR`, `FENCE`).
    pub fences: u32,
    /// Calls of functions that were not inlined (`CALL`).
    pub calls: u32,
}

/// Access counts by width in bits per thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ByWidth(BTreeMap<u32, u32>);

impl ByWidth {
    pub fn of(&self, bits: u32) -> u32 {
        self.0.get(&bits).copied().unwrap_or_default()
    }

    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    fn add(&mut self, instruction: &Instruction<'_>) {
        *self.0.entry(width(instruction)).or_default() += 1;
    }
}

/// Formats as `4×128 1×32`, or `0`.
impl fmt::Display for ByWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.0.iter().rev().map(|(bits, count)| format!("{count}×{bits}")).collect();
        f.pad(if parts.is_empty() { "0".to_owned() } else { parts.join(" ") }.as_str())
    }
}

/// Returns the bits that a thread moves; 32 without a modifier.
fn width(instruction: &Instruction<'_>) -> u32 {
    let bits = instruction.modifiers().find_map(|modifier| match modifier {
        "U8" | "S8" => Some(8),
        "U16" | "S16" => Some(16),
        "64" => Some(64),
        "128" => Some(128),
        "256" => Some(256),
        _ => None,
    });
    bits.unwrap_or(32)
}

impl Instructions {
    pub(super) fn of(kernel: &Kernel<'_>) -> Self {
        let total = u32::try_from(kernel.instructions.len()).unwrap_or(u32::MAX);
        let mut all = Self { total, code_bytes: kernel.bytes, ..Self::default() };
        let executed = |instruction: &&Instruction<'_>| !instruction.is_never_executed();
        kernel.instructions.iter().filter(executed).for_each(|instruction| all.add(instruction));
        all
    }

    /// Returns the number of loads, stores and atomics through generic addresses. A kernel's own
    /// accesses should name their state space.
    pub fn generic(&self) -> u32 {
        self.generic_loads + self.generic_stores + self.generic_atomics
    }

    pub fn atomics(&self) -> u32 {
        self.global_atomics + self.shared_atomics + self.generic_atomics
    }

    fn add(&mut self, instruction: &Instruction<'_>) {
        let count = match instruction.operation() {
            "LDG" => return self.global_loads.add(instruction),
            "STG" => return self.global_stores.add(instruction),
            "LDS" | "LDSM" => return self.shared_loads.add(instruction),
            "STS" | "STSM" => return self.shared_stores.add(instruction),
            "LDL" => &mut self.local_loads,
            "STL" => &mut self.local_stores,
            "LD" => &mut self.generic_loads,
            "ST" => &mut self.generic_stores,
            "ATOM" => &mut self.generic_atomics,
            "ATOMG" | "RED" | "REDG" => &mut self.global_atomics,
            "ATOMS" => &mut self.shared_atomics,
            "LDGSTS" => &mut self.async_copies,
            "UBLKCP" | "UBLKRED" | "UTMALDG" | "UTMASTG" | "UTMAREDG" => &mut self.bulk_copies,
            "SYNCS" => &mut self.mbarrier_operations,
            "BAR" => &mut self.block_barriers,
            "UCGABAR_ARV" | "UCGABAR_WAIT" => &mut self.cluster_barriers,
            "WARPSYNC" => &mut self.warp_barriers,
            "SHFL" => &mut self.shuffles,
            "VOTE" | "VOTEU" | "MATCH" => &mut self.votes,
            "REDUX" | "CREDUX" => &mut self.warp_reductions,
            "MEMBAR" | "FENCE" => &mut self.fences,
            "CALL" => &mut self.calls,
            _ => return,
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly, *};

    /// Counts the instructions in these lines of `nvdisasm`: predicate, opcode, operands.
    fn count(lines: &[&str]) -> Instructions {
        let instruction = |line: &&str| {
            let (predicate, rest) = match line.split_once(' ') {
                Some((first, rest)) if first.starts_with('@') => (Some(first), rest),
                _ => (None, *line),
            };
            let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
            let predicate = predicate.map(|name| format!(r#""predicate":"{name}","#));
            let predicate = predicate.unwrap_or_default();
            format!(r#"{{{predicate}"opcode":"{opcode}","operands":"{operands}"}}"#)
        };
        let code: Vec<String> = lines.iter().map(instruction).collect();
        let text = format!(
            r#"[{{}},[{{"function-name":"f","start":0,"length":128,"sass-instructions":[{}]}}]]"#,
            code.join(",")
        );
        Instructions::of(&disassembly::kernels(&text).unwrap()["f"])
    }

    #[test]
    fn accesses_by_width() {
        let counted = count(&[
            "LDG.E R0,desc[UR6][R2.64]",
            "LDG.E.CONSTANT R0,desc[UR6][R2.64+0x8]",
            "@P0 LDG.E.U8 R15,desc[UR6][R2.64]",
            "LDG.E.S16 R17,desc[UR6][R2.64+0x2]",
            "LDG.E.64.STRONG.SYS R12,desc[UR6][R2.64+0x10]",
            "@!UP0 LDG.E.NA.LTC128B.128 R4,desc[UR6][R2.64+0x30]",
            "LDG.E.ENL2.256 R4,R8,desc[UR6][R2.64]",
            "STG.E.EF.128 desc[UR6][R2.64+0x90],R8",
            "@!P0 STG.E desc[UR6][R2.64+0xa0],R21",
            "LDS.U.128 R8,[UR4+0x10]",
            "LDS R14,[R0+UR4+0x4]",
            "STS.64 [R0],R2",
        ]);
        let loads = [8, 16, 32, 64, 128, 256].map(|bits| counted.global_loads.of(bits));
        assert_eq!((loads, counted.global_loads.total()), ([1, 1, 2, 1, 1, 1], 7));
        assert_eq!(counted.global_stores.to_string(), "1×128 1×32");
        assert_eq!(counted.shared_loads.to_string(), "1×128 1×32");
        assert_eq!(counted.shared_stores.to_string(), "1×64");
        assert_eq!(ByWidth::default().to_string(), "0");
    }

    #[test]
    fn opcodes_with_a_common_prefix_are_distinguished() {
        let plain = count(&[
            "LDC.64 R2,c[0x0][0x210]",
            "ULDC UR4,c[0x0][0x0]",
            "LDCU.64 UR4,c[0x0][0x358]",
            "LDGDEPBAR",
            "DEPBAR.LE SB0,0x0",
            "B2R.RESULT R4",
            "SHF.L.U32 R0,R1,0x2,RZ",
            "USHF.R.U32.HI UR4,URZ,0x1,UR4",
            "UFLO.U32 UR5,UR5",
            "LDTM R0,tmem[UR4]",
            "BSYNC B0",
            "RET.REL.NODEC R2,f",
            "CCTL.IVALL",
            "ERRBAR",
        ]);
        assert_eq!(plain, Instructions { total: 14, code_bytes: 128, ..Instructions::default() });
        let counted = count(&[
            "LD.E R5,desc[UR8][R2.64]",
            "LD.E.128 R8,desc[UR8][R2.64]",
            "ST.E desc[UR8][R2.64+0x4],R11",
            "ATOM.E.ADD.STRONG.GPU PT,R5,desc[UR8][R4.64],R15",
            "ATOMG.E.ADD.STRONG.GPU PT,R9,desc[UR6][R2.64+0xc0],R9",
            "RED.E.ADD.STRONG.GPU [R2.64],R9",
            "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR6][R2.64+0xc4],R15",
            "REDUX.SUM.S32 UR5,R13",
            "ATOMS.CAST.SPIN R4,[R6],R2,R3",
            "LDGSTS.E.BYPASS.128 [R5+0x800],desc[UR8][R2.64+0x40]",
            "@P1 UBLKCP.S.G [UR6],[UR4],UR10",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0,[UR7],R0",
            "LDL R68,[R68]",
            "STL.128 [R1+0x20],R64",
        ]);
        let memory = [counted.generic_loads, counted.generic_stores, counted.generic_atomics];
        assert_eq!((memory, counted.generic()), ([2, 1, 1], 4));
        let atomics = [counted.global_atomics, counted.shared_atomics, counted.atomics()];
        assert_eq!((atomics, counted.warp_reductions), ([3, 1, 5], 1));
        let engines = [counted.async_copies, counted.bulk_copies, counted.mbarrier_operations];
        assert_eq!((engines, counted.local_loads, counted.local_stores), ([1, 1, 1], 1, 1));
        assert_eq!((counted.global_loads.total(), counted.global_stores.total()), (0, 0));
    }

    #[test]
    fn barriers_shuffles_and_votes_are_counted() {
        let counted = count(&[
            "BAR.SYNC.DEFER_BLOCKING 0x0",
            "BAR.RED.POPC.DEFER_BLOCKING 0x0,P0",
            "WARPSYNC.ALL",
            "WARPSYNC R4",
            "WARPSYNC.COLLECTIVE R7,0x5d0",
            "SHFL.BFLY PT,R3,R0,0x10,0x1f",
            "@P0 SHFL.IDX PT,R4,R5,0x1f,0x1f",
            "VOTEU.ANY UR4,UPT,PT",
            "VOTE.ANY R0,PT,P0",
            "UCGABAR_ARV",
            "UCGABAR_WAIT",
            "MEMBAR.ALL.GPU",
            "FENCE.VIEW.ASYNC.S",
            "CALL.REL.NOINC $f$slow",
        ]);
        let barriers = [counted.block_barriers, counted.warp_barriers, counted.cluster_barriers];
        assert_eq!((barriers, counted.shuffles, counted.votes), ([2, 3, 2], 2, 2));
        assert_eq!((counted.fences, counted.calls, counted.total), (2, 1, 14));
    }

    #[test]
    fn never_executed_instructions_count_in_total_only() {
        let counted = count(&["@!PT LDS RZ,[RZ]", "@!UPT SHFL.IDX PT,RZ,RZ,RZ,RZ", "@!P0 LDS R0,[R1]"]);
        assert_eq!((counted.total, counted.shared_loads.total(), counted.shuffles), (3, 1, 0));
    }

    #[test]
    fn widths_are_keys_in_json() {
        let counted = count(&["LDG.E R0,desc[UR6][R2.64]", "LDG.E.128 R0,desc[UR6][R2.64]"]);
        let json = serde_json::to_value(&counted).unwrap();
        assert_eq!(json["global_loads"], serde_json::json!({ "32": 1, "128": 1 }));
        assert_eq!(json["global_stores"], serde_json::json!({}));
    }
}
