//! Selection of target architectures.

use anyhow::{Result, bail};
use warpfold_suite::Arch;

/// Returns the architecture to compile for on this GPU: its own or, if the compiler is older than the
/// GPU, the newest that the compiler knows, whose PTX runs there too.
pub(crate) fn for_this_gpu(gpu: Arch, known: &[String]) -> Arch {
    let older = known.iter().filter_map(|name| name.parse().ok()).filter(|arch| gpu.has(*arch));
    older.filter(|arch| *arch >= Arch::OLDEST).max().unwrap_or(gpu)
}

/// Accepts an architecture that the suite supports and the compiler knows.
///
/// # Errors
/// Names the given architecture, the allowed ones, and the nearest of these.
pub(crate) fn supported_by(arch: Arch, known: &[String]) -> Result<Arch> {
    let mut allowed: Vec<Arch> = known.iter().filter_map(|name| name.parse().ok()).collect();
    allowed.retain(|arch| *arch >= Arch::OLDEST);
    allowed.sort_unstable();
    if allowed.contains(&arch) {
        return Ok(arch);
    }
    let names: Vec<String> = allowed.iter().map(Arch::to_string).collect();
    let nearest = allowed.iter().min_by_key(|other| (other.number().abs_diff(arch.number()), *other));
    let hint = nearest.map(|arch| format!("; nearest is {arch}")).unwrap_or_default();
    let why = if arch < Arch::OLDEST {
        "is older than the kernels need"
    } else {
        "is unknown to this compiler"
    };
    bail!("arch {arch} {why}: there are {}{hint}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> Arch {
        name.parse().unwrap()
    }

    #[test]
    fn an_unsupported_one_is_answered_with_the_nearest() {
        let known: Vec<String> = ["sm_75", "sm_80", "sm_90", "sm_90a"].map(String::from).into();
        assert_eq!(supported_by(arch("sm_90a"), &known).unwrap(), arch("sm_90a"));
        assert_eq!(
            supported_by(arch("sm_75"), &known).unwrap_err().to_string(),
            "arch sm_75 is older than the kernels need: there are sm_80, sm_90, sm_90a; nearest is sm_80"
        );
        assert_eq!(
            supported_by(arch("sm_91"), &known).unwrap_err().to_string(),
            "arch sm_91 is unknown to this compiler: there are sm_80, sm_90, sm_90a; nearest is sm_90"
        );
    }

    #[test]
    fn a_gpu_newer_than_the_compiler_gets_the_newest_that_is_known() {
        let known: Vec<String> = ["sm_75", "sm_80", "sm_90", "sm_90a"].map(String::from).into();
        assert_eq!(for_this_gpu(arch("sm_90"), &known), arch("sm_90"));
        assert_eq!(for_this_gpu(arch("sm_89"), &known), arch("sm_80"));
        assert_eq!(for_this_gpu(arch("sm_150"), &known), arch("sm_90"));
        assert_eq!(for_this_gpu(arch("sm_75"), &known), arch("sm_75"));
    }
}
