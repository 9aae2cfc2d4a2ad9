"""Reduces PyTorch's tensors in place with warpfold, and exports a warpfold buffer to PyTorch.

cargo build --release --package warpfold --example dlpack
python3 warpfold/examples/dlpack.py target/release/examples/libdlpack.so
"""

import ctypes
import gc
import sys

import torch

NAME = b"dltensor"
library = ctypes.CDLL(sys.argv[1])
library.warpfold_sum.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)]
library.warpfold_ones.argtypes = [ctypes.c_size_t]
library.warpfold_ones.restype = ctypes.c_void_p

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def warpfold_sum(tensor):
    """Returns the sum of a tensor, or None if warpfold does not accept it."""
    torch.cuda.synchronize()
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    total = ctypes.c_double()
    if library.warpfold_sum(api.PyCapsule_GetPointer(capsule, NAME), ctypes.byref(total)):
        return None
    # The library has consumed the tensor and called its deleter: the new name keeps the capsule from calling it again.
    api.PyCapsule_SetName(capsule, b"used_dltensor")
    return total.value


def main():
    for dtype in [torch.int32, torch.int64, torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64]:
        values = torch.randint(0, 4, (1000, 1003), device="cuda").to(dtype)
        expected = values.to(torch.float64).sum().item()
        assert warpfold_sum(values) == expected, dtype
        # A slice, which starts inside PyTorch's allocation.
        assert warpfold_sum(values[1:]) == values[1:].to(torch.float64).sum().item(), dtype
        assert warpfold_sum(values.t()) is None, "a transposed tensor is not contiguous"
        assert warpfold_sum(values.cpu()) is None, "a tensor in host memory"
        print(f"{dtype}: {expected:.0f}")

    free, _ = torch.cuda.mem_get_info()
    for _ in range(20):
        assert warpfold_sum(torch.ones(1 << 26, device="cuda")) == 1 << 26
    torch.cuda.empty_cache()
    gc.collect()
    assert abs(torch.cuda.mem_get_info()[0] - free) < 1 << 27, "tensors must be released"

    ones = torch.utils.dlpack.from_dlpack(api.PyCapsule_New(library.warpfold_ones(12345), NAME, None))
    assert ones.sum().item() == 12345 and ones.device.type == "cuda"
    print("and back: 12345")


main()
