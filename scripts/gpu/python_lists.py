#!/usr/bin/env python3
"""Times the L2 norm of lists of tensors, as gradients are clipped by it: `warpfold.l2_norm(tensors)`, PyTorch's
`torch.nn.utils.get_total_norm(tensors)`, and the fewest of PyTorch's operators (`_foreach_norm`, `stack` and
`vector_norm`). Prints a line of JSON for each list, type and way, with quartiles of µs:

- `enqueued`: the host's time of a call;
- `done`: until the result is there;
- `device`: the device's time alone, of calls that are enqueued while the device is busy. Calls take lists in turns that
  together exceed the L2."""

import json
import math
import statistics
import time

import torch
import warpfold

ROUNDS = 15
#: Calls between two events, and the clock cycles for which the device is busy per µs that it takes to enqueue them.
CALLS, CYCLES = 8, 3000
#: Bytes of the lists that calls take in turns: twice an H200's L2.
ROTATED = 120_000_000

LISTS = {
    "2 of 1000": [1000] * 2,
    "16 of 2^20": [1 << 20] * 16,
    "300 of 1000": [1000] * 300,
    "1000 of 64": [64] * 1000,
    "4 of 2^26": [1 << 26] * 4,
    # The lengths of the parameters of a GPT-2 with 12 layers of 768, and those of a network of convolutions.
    "148 of GPT-2": [50257 * 768, 1024 * 768]
    + 12 * [768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768]
    + [768, 768],
    "137 of convolutions": [64 * 3 * 49, *[64] * 4, *[64 * 64 * 9] * 8, *[128] * 24, *[128 * 128 * 9] * 20, *[256] * 36]
    + [*[256 * 256 * 9] * 24, *[512 * 512 * 9] * 18, 1000 * 2048, 1000],
}

WAYS = {
    "warpfold": warpfold.l2_norm,
    "get_total_norm": torch.nn.utils.get_total_norm,
    "operators": lambda tensors: torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors))),
}


def host_times(way, tensors):
    torch.cuda.synchronize()
    start = time.perf_counter()
    WAYS[way](tensors)
    enqueued = time.perf_counter()
    torch.cuda.synchronize()
    return (enqueued - start) * 1e6, (time.perf_counter() - start) * 1e6


def device_time(way, lists, enqueued):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(int(CYCLES * CALLS * enqueued))
    start.record()
    for at in range(CALLS):
        WAYS[way](lists[at % len(lists)])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


for name, lengths in LISTS.items():
    for dtype in ("float32", "bfloat16"):
        kind = getattr(torch, dtype)
        count = max(1, min(CALLS, math.ceil(ROTATED / (sum(lengths) * kind.itemsize))))
        lists = [[torch.randn(length, device="cuda").to(kind) for length in lengths] for _ in range(count)]
        exact = math.sqrt(sum(float(one.double().square().sum()) for one in lists[0]))
        times = {way: {"enqueued": [], "done": [], "device": []} for way in WAYS}
        for number in range(-2, ROUNDS):
            for way in sorted(WAYS, reverse=number % 2 == 0):
                enqueued, done = host_times(way, lists[0])
                if number >= 0:
                    times[way]["enqueued"].append(enqueued)
                    times[way]["done"].append(done)
                    times[way]["device"].append(device_time(way, lists, max(enqueued, 100)))
        for way in WAYS:
            line = {"way": way, "list": name, "elements": sum(lengths), "dtype": dtype}
            line["error"] = float(f"{abs(float(WAYS[way](lists[0])) / exact - 1):.1e}")
            for what, took in times[way].items():
                q1, median, q3 = statistics.quantiles(took, n=4)
                line[what] = {"median": round(median, 2), "q1": round(q1, 2), "q3": round(q3, 2)}
            print(json.dumps(line), flush=True)
