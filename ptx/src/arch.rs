//! GPU architectures, as compilers name them.

use std::{error::Error, fmt, str::FromStr};

/// A GPU architecture by its compute capability: `sm_90`, `sm_90a`, `sm_120f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    number: u32,
    suffix: Option<char>,
}

impl Arch {
    /// The oldest architecture for the reducer and most other kernels: they use `min.NaN` and `redux`.
    pub const OLDEST: Self = Self { number: 80, suffix: None };

    /// The first architecture with thread block clusters, bulk copies to shared memory and programmatic
    /// dependent launch.
    pub const HOPPER: Self = Self { number: 90, suffix: None };

    /// The simulator's architecture, and the default target on a machine without a GPU.
    pub const SIMULATED: Self = Self::HOPPER;

    /// Returns the architecture of a compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { number: major * 10 + minor, suffix: None }
    }

    /// Returns the compute capability, major and minor.
    pub const fn capability(self) -> (u32, u32) {
        (self.number / 10, self.number % 10)
    }

    /// Returns the number in the name, such as `90`: ten times the major plus the minor compute
    /// capability.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Returns the number and the suffix, such as `90a`.
    pub fn suffixed_number(self) -> String {
        format!("{}{}", self.number, self.suffix.map(String::from).unwrap_or_default())
    }

    /// Returns whether a GPU of this architecture runs PTX compiled for `ptx`. PTX also runs on newer
    /// architectures: with the suffix `f` on those of the same major number, with `a` on none.
    pub fn runs(self, ptx: Self) -> bool {
        match ptx.suffix {
            None => self.number >= ptx.number,
            Some('f') => self.number >= ptx.number && self.capability().0 == ptx.capability().0,
            Some(_) => self.number == ptx.number,
        }
    }

    /// Returns whether PTX compiled for this architecture may use the features of `older`.
    pub fn has(self, older: Self) -> bool {
        match older.suffix {
            None => self.number >= older.number,
            Some(_) => self == older,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sm_{}", self.suffixed_number()))
    }
}

impl FromStr for Arch {
    type Err = BadArch;

    fn from_str(given: &str) -> Result<Self, BadArch> {
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
        parse().ok_or_else(|| BadArch { given: given.to_owned() })
    }
}

/// The error for a malformed architecture name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadArch {
    /// The name as given.
    pub given: String,
}

impl fmt::Display for BadArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = "is not of the form sm_NN, sm_NNa or sm_NNf, for example sm_80 or sm_90a";
        write!(f, "arch `{}` {form}", self.given)
    }
}

impl Error for BadArch {}

#[cfg(feature = "serde")]
impl serde::Serialize for Arch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Arch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
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
        assert_eq!(Arch::new(12, 1), arch("sm_121"));
        assert_eq!((arch("sm_90a").number(), arch("sm_121").capability()), (90, (12, 1)));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn arch_is_serialized_as_its_name() {
        use serde::{Deserialize, Serialize, de::value};

        struct Written(Arch);
        impl fmt::Display for Written {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }
        let read = |text| Arch::deserialize(value::StrDeserializer::<value::Error>::new(text));
        assert_eq!(Written(arch("sm_90a")).to_string(), "sm_90a");
        assert_eq!(read("sm_90a"), Ok(arch("sm_90a")));
        assert!(read("sm_9x").unwrap_err().to_string().starts_with("arch `sm_9x` is not of the form"));
    }

    #[test]
    fn newer_architectures_have_older_features() {
        assert!(arch("sm_90").has(arch("sm_80")));
        assert!(arch("sm_90a").has(arch("sm_90")));
        assert!(!arch("sm_90").has(arch("sm_90a")));
        assert!(!arch("sm_100").has(arch("sm_90a")));
    }

    #[test]
    fn suffixed_ptx_runs_on_its_architecture_or_family_only() {
        assert!(arch("sm_103").runs(arch("sm_100f")) && !arch("sm_110").runs(arch("sm_100f")));
        assert!(!arch("sm_100").runs(arch("sm_103f")) && !arch("sm_103").runs(arch("sm_100a")));
        assert!(arch("sm_90").runs(arch("sm_80")) && arch("sm_90").runs(arch("sm_90a")));
        assert!(!arch("sm_100").runs(arch("sm_90a")) && !arch("sm_80").runs(arch("sm_90")));
    }
}
