"""Times calls of the package beside those of PyTorch and CuPy, as a program makes them: on one array in GPU memory, one
after another, by the host's clock."""

import argparse
import statistics
import sys
import time

import warpfold

#: The repetitions of a call in one round take about this long.
SECONDS = 0.05

#: PyTorch's counterpart of each function, for an array and an axis or None.
PYTORCH = {
    "sum": lambda torch, x, a: torch.sum(x) if a is None else torch.sum(x, a),
    "prod": lambda torch, x, a: torch.prod(x) if a is None else torch.prod(x, a),
    "max": lambda torch, x, a: torch.amax(x) if a is None else torch.amax(x, a),
    "min": lambda torch, x, a: torch.amin(x) if a is None else torch.amin(x, a),
    "argmax": lambda torch, x, a: torch.argmax(x) if a is None else torch.argmax(x, a),
    "count_nonzero": lambda torch, x, a: torch.count_nonzero(x) if a is None else torch.count_nonzero(x, a),
    "any": lambda torch, x, a: torch.any(x) if a is None else torch.any(x, a),
    "mean": lambda torch, x, a: torch.mean(x) if a is None else torch.mean(x, a),
    "var": lambda torch, x, a: torch.var(x, dim=a, correction=0),
    "std": lambda torch, x, a: torch.std(x, dim=a, correction=0),
    "var_mean": lambda torch, x, a: torch.var_mean(x, dim=a, correction=0),
    "l2_norm": lambda torch, x, a: torch.linalg.vector_norm(x, dim=a),
    "logsumexp": lambda torch, x, a: torch.logsumexp(x, tuple(range(x.dim())) if a is None else a),
}

#: CuPy's counterparts. It has no `var_mean`.
CUPY = {
    **{name: lambda cupy, x, a, name=name: getattr(cupy, name)(x, axis=a) for name in PYTORCH if name != "var_mean"},
    "l2_norm": lambda cupy, x, a: cupy.linalg.norm(x.ravel() if a is None else x, axis=a),
    "logsumexp": lambda cupy, x, a: sys.modules["cupyx.scipy.special"].logsumexp(x, axis=a),
}


class Library:
    """An installed library that can use the GPU, with the module and its counterparts of the functions."""

    def __init__(self, name, module, peers):
        self.name, self.module, self.peers = name, module, peers

    def has(self, function, dtype):
        return function in self.peers and (self.name != "CuPy" or dtype != "bfloat16")

    def random(self, shape, dtype):
        if self.name == "CuPy":
            return self.module.random.random(shape, dtype="float32").astype(dtype)
        return self.module.rand(shape, device="cuda").to(getattr(self.module, dtype))

    def synchronize(self):
        (self.module.cuda.Device() if self.name == "CuPy" else self.module.cuda).synchronize()


def libraries():
    """Returns the libraries, PyTorch first."""
    found = []
    try:
        import torch
    except ImportError:
        pass
    else:
        if torch.cuda.is_available():
            found.append(Library("PyTorch", torch, PYTORCH))
    try:
        import cupy
        import cupyx.scipy.special
    except ImportError:
        pass
    else:
        found.append(Library("CuPy", cupy, CUPY))
    return found


def _calls(present, name, shape, axis, dtype):
    """Returns the call of each library, on random arrays of its own, and the package's, on that of the first one."""
    calls = {}
    for library in present:
        values = library.random(shape, dtype)
        if not calls:
            calls["warpfold"] = lambda values=values: getattr(warpfold, name)(values, axis)
        calls[library.name] = lambda library=library, values=values: library.peers[name](library.module, values, axis)
    return calls


def _timed(call, runs, synchronize):
    """Returns the µs per call until the last one has returned, and until the device has finished."""
    synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        call()
    enqueued = time.perf_counter()
    synchronize()
    return [(end - start) * 1e6 / runs for end in (enqueued, time.perf_counter())]


def measure(present, name, shape, axis, dtype, rounds):
    """Times the calls of one function in turns. Returns the quartiles of each library's times. One of the libraries must
    have the function for elements of that type."""
    present = [library for library in present if library.has(name, dtype)]
    calls, synchronize = _calls(present, name, shape, axis, dtype), present[0].synchronize
    for call in calls.values():
        call()
    slowest = max(_timed(call, 20, synchronize)[1] for call in calls.values())
    runs = max(20, min(2000, int(SECONDS * 1e6 / slowest)))
    times = {library: [] for library in calls}
    for number in range(rounds):
        for library in sorted(calls, reverse=number % 2 == 0):
            times[library].append(_timed(calls[library], runs, synchronize))
    return {
        library: {what: statistics.quantiles(column, n=4) for what, column in zip(("enqueued", "done"), zip(*took))}
        for library, took in times.items()
    }


def _shape(text):
    try:
        shape = tuple(int(length) for length in text.split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; give lengths of 1 or more with x between them, such as 4096x1024")
    return shape


def _rounds(text):
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}; give a number of 2 or more")
    return int(text)


def add_arguments(parser):
    parser.add_argument("functions", nargs="*", default=["sum"], metavar="FUNCTION", help=f"{', '.join(PYTORCH)}; sum by default")
    parser.add_argument("--shape", type=_shape, action="append", help="such as 4096x1024; may be given several times")
    parser.add_argument("--axis", type=int, help="the axis to reduce; all elements by default")
    parser.add_argument("--dtype", default="float32", choices=["float16", "bfloat16", "float32", "float64", "int32", "int64"])
    parser.add_argument("--rounds", type=_rounds, default=15, help="2 or more; times are medians of them")


def _refusal(given, present):
    """Returns why the calls cannot be timed; `None` if they can."""
    if warpfold.device("auto").simulated:
        return "no GPU was found; the simulator's times say nothing about one; run it on a machine with a GPU"
    if not present:
        return "neither PyTorch nor CuPy is installed with support of the GPU; install one of them"
    for name in given.functions:
        if name not in PYTORCH:
            return f"function {name!r}; there are {', '.join(PYTORCH)}; give some of them"
        if not any(library.has(name, given.dtype) for library in present):
            return f"{name} of {given.dtype}, which CuPy does not have; install PyTorch, or give another"
    for shape in given.shape:
        if given.axis is not None and not -len(shape) <= given.axis < len(shape):
            return f"axis {given.axis} of an array of {len(shape)} dimensions; give {-len(shape)} to {len(shape) - 1}"
    return None


def run(parser, given):
    """Prints a table of the times that the arguments ask for."""
    given.shape = given.shape or [(1 << 10,), (1 << 20,), (1 << 24,)]
    present = libraries()
    refusal = _refusal(given, present)
    if refusal is not None:
        parser.error(refusal)
    versions = ", ".join(f"{library.name} {library.module.__version__}" for library in present)
    print(f"warpfold {warpfold.__version__}, {versions}, {warpfold.device('cuda').name}")
    print(f"µs per call: the median of {given.rounds} rounds and its quartiles, until the call returns (enqueued), and until")
    print("the device has finished (done); times: how many times as long as warpfold's call\n")
    print(f"{'call':<44} {'library':<9} {'enqueued':>21} {'times':>6} {'done':>21} {'times':>6}")
    for name in given.functions:
        for shape in given.shape:
            axis = "" if given.axis is None else f", axis={given.axis}"
            call = f"{name}({'x'.join(map(str, shape))} {given.dtype}{axis})"
            try:
                found = measure(present, name, shape, given.axis, given.dtype, given.rounds)
            except (MemoryError, RuntimeError, TypeError, ValueError) as error:
                # For example, PyTorch has no mean of integers, or the array does not fit into memory.
                parser.error(f"{call}: {str(error).splitlines()[0]}")
            for library, times in found.items():
                cells = []
                for what in ("enqueued", "done"):
                    least, median, most = times[what]
                    cells += [f"{median:.1f} ({least:.1f} to {most:.1f})", f"{median / found['warpfold'][what][1]:.2f}"]
                print(f"{call:<44} {library:<9} {cells[0]:>21} {cells[1]:>6} {cells[2]:>21} {cells[3]:>6}", flush=True)
                call = ""
