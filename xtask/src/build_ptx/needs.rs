//! Which compute capability an instruction came with. An assembler for an older GPU refuses it, and a
//! driver the whole file with it.

use crate::ptx::Statement;
use warpfold_suite::Arch;

/// What is looked for in a statement.
enum Part {
    /// How the opcode begins, up to a dot.
    Opcode(&'static str),
    /// One of the opcode's modifiers.
    Modifier(&'static str),
    /// How a special register's name begins.
    Register(&'static str),
}

use Part::{Modifier, Opcode, Register};

/// The oldest architecture that has it, for what the oldest that the suite serves lacks.
const NEEDS: &[(Part, &str)] = &[
    (Opcode("griddepcontrol"), "sm_90"),
    (Opcode("cp.async.bulk"), "sm_90"),
    (Opcode("cp.reduce.async.bulk"), "sm_90"),
    (Opcode("mbarrier.try_wait"), "sm_90"),
    (Opcode("mbarrier.expect_tx"), "sm_90"),
    (Opcode("mbarrier.complete_tx"), "sm_90"),
    (Opcode("fence.proxy.async"), "sm_90"),
    (Opcode("fence.mbarrier_init"), "sm_90"),
    (Opcode("barrier.cluster"), "sm_90"),
    (Opcode("mapa"), "sm_90"),
    (Opcode("getctarank"), "sm_90"),
    (Opcode("elect"), "sm_90"),
    (Opcode("st.async"), "sm_90"),
    (Opcode("red.async"), "sm_90"),
    (Opcode("multimem"), "sm_90"),
    (Modifier("expect_tx"), "sm_90"),
    (Modifier("cluster"), "sm_90"),
    (Modifier("shared::cluster"), "sm_90"),
    (Register("%cluster"), "sm_90"),
    (Register("%nclusterid"), "sm_90"),
    (Register("%is_explicit_cluster"), "sm_90"),
];

/// Directives of an entry, likewise.
const DIRECTIVES: &[(&str, &str)] =
    &[(".explicitcluster", "sm_90"), (".reqnctapercluster", "sm_90"), (".maxclusterrank", "sm_90")];

/// The oldest architecture that has an instruction, if it is newer than the oldest that the suite
/// serves.
pub(super) fn of_instruction(statement: &Statement<'_, '_>) -> Option<Arch> {
    let opcode = statement.opcode();
    let has = |(part, arch): &(Part, &str)| {
        let found = match part {
            Opcode(start) => {
                opcode.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
            Modifier(name) => opcode.split('.').skip(1).any(|modifier| modifier == *name),
            Register(start) => statement.tokens[1..].iter().any(|token| token.text.starts_with(start)),
        };
        found.then(|| known(arch))
    };
    NEEDS.iter().filter_map(has).max()
}

/// The same of a directive in the head of an entry.
pub(super) fn of_directive(directive: &str) -> Option<Arch> {
    let found = DIRECTIVES.iter().find(|(name, _)| *name == directive);
    found.map(|(_, arch)| known(arch))
}

fn known(arch: &str) -> Arch {
    arch.parse().expect("the tables name architectures")
}
