//! Prints the version of this machine's CUDA driver, the functions of `warpfold_driver::Api` that the
//! driver lacks, and the devices. Without the crate's features, the program contains no `cu*` symbol.

use std::error::Error;
use std::process::ExitCode;

use warpfold_driver::{Driver, sys};

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
    let driver = Driver::load()?;
    let (major, minor) = driver.version();
    println!("CUDA {major}.{minor} from {}", driver.name());
    println!("functions it lacks: {}", driver.missing().len());
    for name in driver.missing() {
        println!("  {name}");
    }

    driver.init()?;
    for ordinal in 0..driver.device_count()? {
        let device = driver.device_get(ordinal)?;
        let attribute = |number| driver.device_get_attribute(device, number);
        println!(
            "{}: {} SMs, L2 {} KiB, {} kHz x {} bits, {} bytes of shared memory per block",
            driver.device_get_name(device)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? / 1024,
            attribute(sys::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        );
    }
    Ok(())
}
