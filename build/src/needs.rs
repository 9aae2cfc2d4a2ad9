//! The minimum compute capability of each instruction. An assembler for an older GPU rejects the
//! instruction, and a driver rejects the whole file.

use warpfold_ptx::{Arch, syntax::Statement};

enum Part {
    /// A prefix of the opcode that ends at a dot.
    Opcode(&'static str),
    Modifier(&'static str),
    Register(&'static str),
}

use Part::{Modifier, Opcode, Register};

/// Features that the suite's minimum architecture lacks, each with the oldest architecture that has it.
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

const DIRECTIVES: &[(&str, &str)] =
    &[(".explicitcluster", "sm_90"), (".reqnctapercluster", "sm_90"), (".maxclusterrank", "sm_90")];

/// Returns the oldest architecture that has an instruction, if it is newer than the suite's minimum.
pub(crate) fn of_instruction(statement: &Statement<'_, '_>) -> Option<Arch> {
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

/// Returns the oldest architecture that has a directive, if it is newer than the suite's minimum.
pub(crate) fn of_directive(directive: &str) -> Option<Arch> {
    let found = DIRECTIVES.iter().find(|(name, _)| *name == directive);
    found.map(|(_, arch)| known(arch))
}

fn known(arch: &str) -> Arch {
    arch.parse().expect("the tables name architectures")
}
