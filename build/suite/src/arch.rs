//! Selection of target architectures.

use warpfold_suite::Arch;

/// Returns the architecture to compile for on this GPU: its own or, if the compiler is older than the
/// GPU, the newest that the compiler knows, whose PTX runs there too.
pub(crate) fn for_this_gpu(gpu: Arch, known: &[Arch]) -> Arch {
    let older = known.iter().copied().filter(|arch| gpu.has(*arch));
    older.filter(|arch| *arch >= Arch::OLDEST).max().unwrap_or(gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> Arch {
        name.parse().unwrap()
    }

    #[test]
    fn a_gpu_newer_than_the_compiler_gets_the_newest_that_is_known() {
        let known = ["sm_75", "sm_80", "sm_90", "sm_90a"].map(arch);
        assert_eq!(for_this_gpu(arch("sm_90"), &known), arch("sm_90"));
        assert_eq!(for_this_gpu(arch("sm_89"), &known), arch("sm_80"));
        assert_eq!(for_this_gpu(arch("sm_150"), &known), arch("sm_90"));
        assert_eq!(for_this_gpu(arch("sm_75"), &known), arch("sm_75"));
    }
}
