//! GPU architectures as the compiler names them.

use std::{fmt, str::FromStr};

use anyhow::{Result, bail};

/// `sm_90`, `sm_90a`, `sm_120f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    number: u32,
    suffix: Option<char>,
}

impl Arch {
    /// The oldest that has what most kernels use (`min.NaN`, `redux`).
    pub const OLDEST: Self = Self { number: 80, suffix: None };

    /// What is compiled for where no GPU says otherwise: what the simulator is, which every kernel runs
    /// on.
    pub const SIMULATED: Self = Self { number: 90, suffix: None };

    /// The architecture of a compute capability.
    pub const fn of_compute_capability(major: u32, minor: u32) -> Self {
        Self { number: major * 10 + minor, suffix: None }
    }

    /// Ten times the major plus the minor compute capability.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// The number with its suffix, `90a`.
    pub fn suffixed_number(self) -> String {
        format!("{}{}", self.number, self.suffix.map(String::from).unwrap_or_default())
    }

    /// Whether PTX for `older` serves here: PTX without a suffix runs on everything newer.
    pub fn has(self, older: Self) -> bool {
        match older.suffix {
            None => self.number >= older.number,
            Some(_) => self == older,
        }
    }

    /// What to compile for where this is the GPU: itself, or if the compiler is older than the GPU the
    /// newest that it knows, whose PTX runs there too.
    #[must_use]
    pub fn for_this_gpu(self, known: &[String]) -> Self {
        let older = known.iter().filter_map(|name| name.parse().ok()).filter(|arch| self.has(*arch));
        older.filter(|arch| *arch >= Self::OLDEST).max().unwrap_or(self)
    }

    /// Accepts an architecture that the suite supports and the compiler knows.
    ///
    /// # Errors
    /// What was given, what is allowed, and the nearest that is.
    pub fn supported_by(self, known: &[String]) -> Result<Self> {
        let mut allowed: Vec<Self> = known.iter().filter_map(|name| name.parse().ok()).collect();
        allowed.retain(|arch| *arch >= Self::OLDEST);
        allowed.sort_unstable();
        if allowed.contains(&self) {
            return Ok(self);
        }
        let names: Vec<String> = allowed.iter().map(Self::to_string).collect();
        let nearest = allowed.iter().min_by_key(|arch| (arch.number.abs_diff(self.number), arch.suffix));
        let hint = nearest.map(|arch| format!("; nearest is {arch}")).unwrap_or_default();
        let why = if self < Self::OLDEST {
            "is older than the kernels need"
        } else {
            "is unknown to this compiler"
        };
        bail!("arch {self} {why}: there are {}{hint}", names.join(", "))
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sm_{}", self.suffixed_number()))
    }
}

impl FromStr for Arch {
    type Err = anyhow::Error;

    fn from_str(given: &str) -> Result<Self> {
        let parse = || {
            let rest = given.strip_prefix("sm_")?;
            let digits = rest.trim_end_matches(['a', 'f']);
            let suffix = match &rest[digits.len()..] {
                "" => None,
                one if one.len() == 1 => one.chars().next(),
                _ => return None,
            };
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
            let number = digits.parse().ok().filter(|number| plain && (10..1000).contains(number))?;
            Some(Self { number, suffix })
        };
        match parse() {
            Some(arch) => Ok(arch),
            None => bail!(
                "arch {given:?} is not of the form sm_NN, sm_NNa or sm_NNf, for example sm_80 or sm_90a"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> Arch {
        name.parse().unwrap()
    }

    #[test]
    fn names_are_read_and_written() {
        for name in ["sm_80", "sm_90a", "sm_120f"] {
            assert_eq!(arch(name).to_string(), name);
        }
        for wrong in [
            "",
            "90",
            "sm_",
            "sm_9x",
            "sm_90aa",
            "sm_90b",
            "sm_+90",
            "sm_090",
            "SM_90",
            "compute_90",
            "sm_9000",
            "sm_é",
        ] {
            assert!(wrong.parse::<Arch>().is_err(), "{wrong}");
        }
        assert_eq!(Arch::of_compute_capability(12, 1), arch("sm_121"));
    }

    #[test]
    fn an_unsupported_one_is_answered_with_the_nearest() {
        let known: Vec<String> = ["sm_75", "sm_80", "sm_90", "sm_90a"].map(String::from).into();
        assert_eq!(arch("sm_90a").supported_by(&known).unwrap(), arch("sm_90a"));
        assert_eq!(
            arch("sm_75").supported_by(&known).unwrap_err().to_string(),
            "arch sm_75 is older than the kernels need: there are sm_80, sm_90, sm_90a; nearest is sm_80"
        );
        assert_eq!(
            arch("sm_91").supported_by(&known).unwrap_err().to_string(),
            "arch sm_91 is unknown to this compiler: there are sm_80, sm_90, sm_90a; nearest is sm_90"
        );
    }

    #[test]
    fn a_gpu_newer_than_the_compiler_gets_the_newest_that_is_known() {
        let known: Vec<String> = ["sm_75", "sm_80", "sm_90", "sm_90a"].map(String::from).into();
        assert_eq!(arch("sm_90").for_this_gpu(&known), arch("sm_90"));
        assert_eq!(arch("sm_89").for_this_gpu(&known), arch("sm_80"));
        assert_eq!(arch("sm_150").for_this_gpu(&known), arch("sm_90"));
        assert_eq!(arch("sm_75").for_this_gpu(&known), arch("sm_75"));
    }

    #[test]
    fn newer_ones_have_what_older_ones_have() {
        assert!(arch("sm_90").has(arch("sm_80")));
        assert!(arch("sm_90a").has(arch("sm_90")));
        assert!(!arch("sm_90").has(arch("sm_90a")));
        assert!(!arch("sm_100").has(arch("sm_90a")));
    }
}
