"""The simulator of GPUs as an installed package.

`warpfold-sim` is the command. `pytest -p warpfold_sim` runs tests that use CUDA in the simulator. `load()` makes the
simulator the CUDA driver of this process.
"""

import ctypes
import os
import sys
from pathlib import Path

__all__ = ["load", "main"]

# pytest imports this package for `-p warpfold_sim`, and then these plugins.
pytest_plugins = ["warpfold_sim.pytest_plugin"]

_FOLDER = Path(__file__).resolve().parent
_DRIVER = _FOLDER / "lib" / "libcuda.so.1"
_RUNTIME = _FOLDER / "lib" / "libcudart.so.13"


def main():
    """Replaces this process by the command `warpfold-sim`."""
    os.execv(_FOLDER / "warpfold-sim", ["warpfold-sim", *sys.argv[1:]])


def load():
    """Loads the simulator as this process's `libcuda.so.1` and `libcudart.so.13`, and sets the environment so that
    child processes load it too.

    Libraries that open or link against these names later get the simulator, because the dynamic linker reuses a loaded
    library with the requested soname. Raises `RuntimeError` if another `libcuda.so.1` is loaded already.
    """
    # Prints the errors of kernels on stderr, because a program itself only gets their codes.
    os.environ.setdefault("WARPFOLD_SIM_TELL", "1")
    driver = ctypes.CDLL(str(_DRIVER))
    if ctypes.CDLL("libcuda.so.1")._handle != driver._handle:
        raise RuntimeError(
            "another libcuda.so.1 is loaded already; call warpfold_sim.load() before libraries that load CUDA's driver"
        )
    ctypes.CDLL(str(_RUNTIME))
    folder, search = str(_DRIVER.parent), os.environ.get("LD_LIBRARY_PATH")
    if folder not in (search or "").split(os.pathsep):
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [folder, search]))
    os.environ["WARPFOLD_LIBCUDA"] = str(_DRIVER)
