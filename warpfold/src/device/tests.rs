use super::*;

#[test]
fn compute_capability_below_8_0_is_rejected() {
    let of = |capability| DeviceInfo {
        name: "T4".to_owned(),
        simulated: false,
        ordinal: 0,
        capability,
        multiprocessors: 40,
        threads_per_multiprocessor: 1024,
        blocks_per_multiprocessor: 16,
        memory_bytes: 1 << 34,
        l2_bytes: 4 << 20,
        driver_version: (13, 0),
    };
    for new_enough in [(8, 0), (8, 6), (9, 0), (12, 1)] {
        assert!(of(new_enough).require_capability().is_ok(), "{new_enough:?}");
    }
    let refused = of((7, 5)).require_capability().unwrap_err();
    assert!(matches!(refused, Error::TooOld { capability: (7, 5), .. }), "{refused:?}");
    let said = "T4 has compute capability 7.5; it must be 8.0 or newer";
    assert_eq!(refused.to_string(), said);
}

#[cfg(feature = "simulator")]
#[test]
fn a_device_is_opened_by_its_address() {
    let driver = warpfold_sim_driver::driver();
    let first = Device::open(Selection::Sim).unwrap();
    let address = driver.device_get_pci_bus_id(driver.device_get(0).unwrap()).unwrap();
    let Ok(Selection::CudaPci { domain, bus, device }) = address.parse() else { panic!("{address}") };
    assert_eq!(Device::at(driver, domain, bus, device).unwrap(), first);
    let nowhere = || Device::at(driver, 0xbeef, 0x1a, 2).unwrap_err();
    let is_none = |error: Error| {
        assert!(matches!(error, Error::NoDevice { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.starts_with("no device `beef:1a:02.0`; the PTX simulator has "), "{said}");
    };
    is_none(nowhere());
    let refusing = |code| {
        let function = "cuDeviceGetByPCIBusId";
        let fault = warpfold_sim_driver::Fault { function, call: 1, code, sticky: false };
        let _fault = warpfold_sim_driver::inject(fault);
        nowhere()
    };
    is_none(refusing(sys::CUDA_ERROR_INVALID_DEVICE));
    is_none(refusing(sys::CUDA_ERROR_INVALID_VALUE));
    let error = refusing(sys::CUDA_ERROR_UNKNOWN);
    assert!(matches!(&error, Error::Driver { source, .. } if source.code == sys::CUDA_ERROR_UNKNOWN));
}
