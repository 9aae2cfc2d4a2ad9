//! What kernels are named by: operations, element types, architectures.

use std::fmt;

/// An enum whose values have names: the list of all and the way back from a name come from one table.
macro_rules! names {
    (
        $(#[$attr:meta])*
        $name:ident { $($(#[$variant_attr:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_attr])* $variant,)*
        }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name that PTX symbols and tuning files have for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The value of a name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

names! {
    /// What a reduction computes.
    Op {
        /// Sum; integers wrap around.
        Sum = "sum",
        /// Smallest element, or NaN if any element is NaN.
        Min = "min",
        /// Largest element, or NaN if any element is NaN.
        Max = "max",
        /// Sum of the elements' squares; integers wrap around.
        SumSq = "sumsq",
        /// Index of the first of the smallest elements, or of the first NaN if there is one.
        ArgMin = "argmin",
        /// Index of the first of the largest elements, or of the first NaN if there is one.
        ArgMax = "argmax",
    }
}

names! {
    /// Type of the elements.
    Dtype {
        /// 8-bit signed integer.
        I8 = "i8",
        /// 8-bit unsigned integer.
        U8 = "u8",
        /// 32-bit signed integer.
        I32 = "i32",
        /// 32-bit unsigned integer.
        U32 = "u32",
        /// 64-bit signed integer.
        I64 = "i64",
        /// 64-bit unsigned integer.
        U64 = "u64",
        /// IEEE half precision.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE double precision.
        F64 = "f64",
    }
}

impl Dtype {
    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// A GPU architecture by its compute capability, written `sm_90`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    major: u32,
    minor: u32,
}

impl Arch {
    /// The oldest that the kernels run on.
    pub const OLDEST: Self = Self::new(8, 0);

    /// The first whose blocks copy to shared memory in bulk, and whose kernels wait by themselves for
    /// the launch before.
    pub const HOPPER: Self = Self::new(9, 0);

    /// The architecture of a compute capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The compute capability, major and minor.
    pub const fn capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sm_{}{}", self.major, self.minor))
    }
}

/// Something for each operation and type.
#[derive(Debug, Clone)]
pub(crate) struct PerPair<T>([[T; Dtype::ALL.len()]; Op::ALL.len()]);

impl<T: Default> Default for PerPair<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| std::array::from_fn(|_| T::default())))
    }
}

impl<T> PerPair<T> {
    pub(crate) fn get(&self, op: Op, dtype: Dtype) -> &T {
        &self.0[op as usize][dtype as usize]
    }

    pub(crate) fn get_mut(&mut self, op: Op, dtype: Dtype) -> &mut T {
        &mut self.0[op as usize][dtype as usize]
    }
}

#[cfg(test)]
pub(crate) fn pairs() -> impl Iterator<Item = (Op, Dtype)> {
    Op::ALL.iter().flat_map(|&op| Dtype::ALL.iter().map(move |&dtype| (op, dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_place_of_its_own() {
        let mut numbers = PerPair::<usize>::default();
        for (number, (op, dtype)) in pairs().enumerate() {
            *numbers.get_mut(op, dtype) = number;
        }
        assert!(pairs().enumerate().all(|(number, (op, dtype))| *numbers.get(op, dtype) == number));
    }

    #[test]
    fn a_name_leads_back_to_its_value() {
        assert!(Op::ALL.iter().all(|op| Op::from_name(op.name()) == Some(*op)));
        assert!(Dtype::ALL.iter().all(|dtype| Dtype::from_name(dtype.name()) == Some(*dtype)));
        assert_eq!((Op::from_name("product"), Dtype::from_name("i16")), (None, None));
        assert_eq!(Arch::new(12, 1).to_string(), "sm_121");
    }
}
