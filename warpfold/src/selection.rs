//! Selection of a device.

use std::str::FromStr;

use crate::{Error, Result};

/// The device to open.
///
/// The string forms are `auto`, `cuda`, `cuda:1`, a PCI address such as `0000:3b:00.0`, `sim` and
/// `sim:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Selection {
    /// The first GPU, or the simulator if there is no driver or no GPU. The choice is logged by the
    /// crate `log`.
    #[default]
    Auto,
    /// The first GPU; an error if there is none.
    Cuda,
    /// The GPU with this ordinal, from 0, in the driver's order.
    CudaOrdinal(u32),
    /// The GPU at this PCI address.
    CudaPci {
        /// The PCI domain, often 0.
        domain: u32,
        /// The PCI bus.
        bus: u8,
        /// The PCI device.
        device: u8,
    },
    /// The simulator, which computes the results of a GPU but not its speed.
    Sim,
    /// The simulated device with this ordinal, from 0. There is one, unless the environment variable
    /// `WARPFOLD_SIM_DEVICES` sets another number.
    SimOrdinal(u32),
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let unknown = || {
            let offered = "there are auto, cuda, cuda:<number>, sim, sim:<number> and PCI addresses \
                           such as 0000:3b:00.0";
            Error::NoDevice { wanted: given.to_owned(), offered: offered.to_owned() }
        };
        match given.split_once(':') {
            None => match given {
                "auto" => Ok(Self::Auto),
                "cuda" => Ok(Self::Cuda),
                "sim" => Ok(Self::Sim),
                _ => Err(unknown()),
            },
            Some(("cuda", number)) => number.parse().map(Self::CudaOrdinal).map_err(|_| unknown()),
            Some(("sim", number)) => number.parse().map(Self::SimOrdinal).map_err(|_| unknown()),
            Some(_) => pci(given).ok_or_else(unknown),
        }
    }
}

/// Parses `0000:3b:00.0` or `3b:00.0`. GPUs have only function 0.
fn pci(address: &str) -> Option<Selection> {
    let mut parts = address.strip_suffix(".0")?.rsplitn(3, ':');
    let mut part = |most: u32| {
        let number = u32::from_str_radix(parts.next()?, 16).ok()?;
        (number <= most).then_some(number)
    };
    let device = u8::try_from(part(0x1f)?).ok()?;
    let bus = u8::try_from(part(0xff)?).ok()?;
    let domain = match address.matches(':').count() {
        1 => 0,
        _ => part(u32::MAX)?,
    };
    Some(Selection::CudaPci { domain, bus, device })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_parsed_from_text() {
        let read = |text: &str| text.parse::<Selection>();
        assert_eq!(read("auto").unwrap(), Selection::Auto);
        assert_eq!(read("cuda").unwrap(), Selection::Cuda);
        assert_eq!(read("cuda:3").unwrap(), Selection::CudaOrdinal(3));
        assert_eq!(read("sim").unwrap(), Selection::Sim);
        assert_eq!(read("sim:1").unwrap(), Selection::SimOrdinal(1));
        let pci = |domain, bus, device| Selection::CudaPci { domain, bus, device };
        assert_eq!(read("0000:3b:00.0").unwrap(), pci(0, 0x3b, 0));
        assert_eq!(read("3b:1f.0").unwrap(), pci(0, 0x3b, 0x1f));
        assert_eq!(read("ABCD:ff:00.0").unwrap(), pci(0xabcd, 0xff, 0));
        for wrong in
            ["", "gpu", "cuda:", "cuda:-1", "sim:x", "3b:00.1", "3b:20.0", "100:00.0", "1:2:3:4.0"]
        {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("cuda:<number>"), "{error}");
        }
    }
}
