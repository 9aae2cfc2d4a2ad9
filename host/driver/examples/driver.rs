//! Prints which CUDA driver this machine has, which entry points it lacks, and its devices.

use std::error::Error;
use std::process::ExitCode;

use warpfold_driver::{MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, cust};

use cust::device::{Device, DeviceAttribute};

fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print() -> Result<(), Box<dyn Error>> {
    let driver = warpfold_driver::load()?;
    let (major, minor) = driver.version();
    println!("CUDA {major}.{minor} from {}", driver.name());
    println!("entry points it lacks: {}", driver.missing().len());
    for name in driver.missing() {
        println!("  {name}");
    }

    cust::init(cust::CudaFlags::empty())?;
    for device in Device::devices()? {
        let device = device?;
        let optin = driver.device_attribute(device, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        println!(
            "{}: {} SMs, L2 {} KiB, {} kHz x {} bits, {} bytes of shared memory per block",
            device.name()?,
            device.get_attribute(DeviceAttribute::MultiprocessorCount)?,
            device.get_attribute(DeviceAttribute::L2CacheSize)? / 1024,
            device.get_attribute(DeviceAttribute::MemoryClockRate)?,
            device.get_attribute(DeviceAttribute::GlobalMemoryBusWidth)?,
            optin,
        );
    }
    Ok(())
}
