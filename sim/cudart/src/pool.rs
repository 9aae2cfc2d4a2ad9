use std::{
    ffi::{c_int, c_void},
    ptr,
};

use warpfold_driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool, CUstream,
};

use crate::{
    errors::check,
    functions,
    runtime::{api, ready},
};

functions! {
    fn cudaDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, ordinal: c_int) {
        check((api()?.cuDeviceGetDefaultMemPool)(pool, ordinal))
    }

    fn cudaDeviceGetMemPool(pool: *mut CUmemoryPool, ordinal: c_int) {
        check((api()?.cuDeviceGetMemPool)(pool, ordinal))
    }

    fn cudaDeviceSetMemPool(ordinal: c_int, pool: CUmemoryPool) {
        check((api()?.cuDeviceSetMemPool)(ordinal, pool))
    }

    fn cudaMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        check((ready()?.cuMemPoolCreate)(pool, properties))
    }

    fn cudaMemPoolDestroy(pool: CUmemoryPool) {
        check((ready()?.cuMemPoolDestroy)(pool))
    }

    fn cudaMemPoolTrimTo(pool: CUmemoryPool, bytes: usize) {
        check((ready()?.cuMemPoolTrimTo)(pool, bytes))
    }

    fn cudaMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_int, value: *mut c_void) {
        check((ready()?.cuMemPoolGetAttribute)(pool, attribute, value))
    }

    fn cudaMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_int, value: *mut c_void) {
        check((ready()?.cuMemPoolSetAttribute)(pool, attribute, value))
    }

    fn cudaMemPoolSetAccess(pool: CUmemoryPool, accesses: *const CUmemAccessDesc, count: usize) {
        check((ready()?.cuMemPoolSetAccess)(pool, accesses, count))
    }

    fn cudaMemPoolGetAccess(
        flags: *mut CUmemAccess_flags,
        pool: CUmemoryPool,
        location: *mut CUmemLocation,
    ) {
        check((ready()?.cuMemPoolGetAccess)(flags, pool, location))
    }

    fn cudaMallocFromPoolAsync(
        address: *mut *mut c_void,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) {
        let mut found = 0;
        check((ready()?.cuMemAllocFromPoolAsync)(&mut found, bytes, pool, stream))?;
        address.write(ptr::with_exposed_provenance_mut(found as usize));
        Ok(())
    }
}
