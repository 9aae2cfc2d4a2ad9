"""A program that doubles a number by CUDA's driver, `python doubling.py 21`, and functions for tests of a simulated GPU."""

import ctypes
import sys

#: `unsupported` uses an instruction that the simulator does not have.
PTX = b"""
.version 8.6
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [data];
    ld.global.u32 %r0, [%rd0];
    add.u32 %r1, %r0, %r0;
    st.global.u32 [%rd0], %r1;
    ret;
}
.visible .entry unsupported(.param .u64 data)
{
    tcgen05.shift.cta_group::1.down [0];
    ret;
}
"""


def call(name, *arguments):
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} returned {code}")


def run(kernel, number):
    """Runs a kernel of `PTX` with one thread on a number, and returns the result."""
    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    data, value = ctypes.c_uint64(), ctypes.c_uint32(number)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4))
    call("cuMemcpyHtoD_v2", data, ctypes.byref(value), ctypes.c_size_t(4))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
    call("cuMemcpyDtoH_v2", ctypes.byref(value), data, ctypes.c_size_t(4))
    return value.value


if __name__ == "__main__":
    print(run("twice", int(sys.argv[1])))
