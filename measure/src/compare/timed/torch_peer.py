"""PyTorch as a peer of `cargo xtask compare`: commands on stdin, answers on stdout, in JSON lines.

The first answer has the version of PyTorch, or the reason why it cannot be used. The commands are
    {"command": "prepare", "op", "dtype", "n", "rows", "slots", "seed"}  makes inputs, checks one run
    {"command": "time", "runs"}                                          times this many runs
The process exits at the end of its input. The answer to a failed command has "error".

Each run is one call on the next of the inputs, between two device events. Every call takes out=, so
that no run allocates its results. If the number of rows is null, all elements have one result;
otherwise each row of n / rows elements has its own.
"""

import json
import sys


def say(**fields):
    print(json.dumps(fields), flush=True)


def reason(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


try:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    device = torch.device("cuda")
    torch.zeros(1, device=device)
except Exception as error:
    say(error=reason(error))
    sys.exit()

# PyTorch also has uint16, uint32 and uint64, but cannot reduce them.
DTYPES = {
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
# The result types of sums that differ from the element type. Half floats are widened inside the
# reduction. Integers of 8 and 16 bits are copied to 64 bits first, which takes memory even with out=.
WIDE = {
    torch.int8: torch.int64,
    torch.uint8: torch.int64,
    torch.int16: torch.int64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
# Sums are not listed, because they need the result's type. No single call sums squares.
CALLS = {"min": torch.amin, "max": torch.amax, "argmin": torch.argmin, "argmax": torch.argmax}
INDICES = ("argmin", "argmax")
CHUNK = 1 << 26
WARM_UP = 5


class Case:
    def __init__(self, op, dtype, n, rows, slots, seed):
        if (op != "sum" and op not in CALLS) or dtype not in DTYPES:
            raise ValueError(f"PyTorch has no {op} of {dtype} in one call")
        self.op, self.dtype, self.call = op, DTYPES[dtype], CALLS.get(op)
        torch.manual_seed(seed)
        first = self.random(n)
        if rows:
            first = first.view(rows, n // rows)
        self.dim = 1 if rows else 0
        self.inputs = [first] + [first.clone() for _ in range(slots - 1)]
        self.out = torch.empty((rows,) if rows else (), dtype=self.result_type(), device=device)
        self.turn = 0
        self.run()
        self.right = self.check_rows(first) if rows else self.check(first)
        for _ in range(WARM_UP):
            self.run()
        torch.cuda.synchronize()

    def result_type(self):
        if self.op in INDICES:
            return torch.int64
        return WIDE.get(self.dtype, self.dtype) if self.op == "sum" else self.dtype

    def random(self, n):
        if self.dtype.is_floating_point:
            return torch.rand(n, dtype=self.dtype, device=device).mul_(2).sub_(1)
        limits = torch.iinfo(self.dtype)
        return torch.randint(limits.min, limits.max, (n,), dtype=self.dtype, device=device)

    def run(self):
        values = self.inputs[self.turn % len(self.inputs)]
        self.turn += 1
        if self.op == "sum":
            torch.sum(values, self.dim, dtype=self.out.dtype, out=self.out)
        else:
            self.call(values, self.dim, out=self.out)

    def check(self, values):
        """Checks a result against the same computation in 64 bits, chunk by chunk."""
        result = self.out.item()
        wide = torch.float64 if self.dtype.is_floating_point else torch.int64
        total = magnitude = 0
        least = greatest = None
        for part in values.split(CHUNK):
            chunk = part.to(wide)
            total += chunk.sum().item()
            magnitude += chunk.abs().sum().item()
            low, high = chunk.min().item(), chunk.max().item()
            least = low if least is None else min(least, low)
            greatest = high if greatest is None else max(greatest, high)
        if self.op in INDICES:
            # Any of several equal elements is right: PyTorch need not return the first.
            if not 0 <= result < len(values):
                return False
            result = values[result].item()
        if self.op in ("min", "argmin"):
            return result == least
        if self.op in ("max", "argmax"):
            return result == greatest
        if wide == torch.int64:
            bits = torch.iinfo(self.out.dtype).bits
            return (result - total) % (1 << bits) == 0
        return abs(result - total) <= 1e-6 * magnitude

    def check_rows(self, values):
        """Checks every row at once, like check, for floats only."""
        if not self.dtype.is_floating_point:
            raise ValueError(f"rows of {self.dtype} cannot be checked")
        wide, out = values.to(torch.float64), self.out
        if self.op == "sum":
            off = (out.to(torch.float64) - wide.sum(1)).abs()
            return (off <= wide.abs().sum(1) * 1e-6).all().item()
        if self.op in INDICES:
            if not ((out >= 0) & (out < values.shape[1])).all().item():
                return False
            out = values.gather(1, out.unsqueeze(1)).squeeze(1)
        extreme = wide.amin(1) if self.op in ("min", "argmin") else wide.amax(1)
        return (out.to(torch.float64) == extreme).all().item()

    def time(self, runs):
        event = lambda: torch.cuda.Event(enable_timing=True)
        events = [(event(), event()) for _ in range(runs)]
        for start, end in events:
            start.record()
            self.run()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in events]


say(torch=torch.__version__, cuda=torch.version.cuda, device=torch.cuda.get_device_name())
case = None
for line in sys.stdin:
    request = json.loads(line)
    command = request.pop("command")
    try:
        if command == "prepare":
            case = None
            torch.cuda.empty_cache()
            case = Case(**request)
            say(right=case.right)
        elif command == "time":
            say(times_us=case.time(request["runs"]))
        else:
            say(error=f"unknown command {command}")
    except Exception as error:
        case = None
        say(error=reason(error))
