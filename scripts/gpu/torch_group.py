#!/usr/bin/env python3
"""Measures f32 sums over several GPUs by PyTorch and NCCL, in the way of the library's bench warpfold/benches/group.rs:
a process for each GPU, torch.sum and an all-reduce of its result, several inputs in turns that together exceed the L2
cache, times by the host's clock, medians of the rounds with quartiles. Prints a line of JSON for each size: `us` of
calls that wait for the result, `into_us` of calls that are enqueued one after another, and `all_reduce_us` of
all-reduces of one float, enqueued one after another.

`torch_group.py GPUS LOG2 ...`"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ROTATED = 256 << 20
ROUNDS = 11
ROUND_BYTES = 4 << 30


def timed(runs, call, waits):
    """Returns the quartiles of the microseconds of a call over the rounds, which all processes start together."""
    times = []
    for round_ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for run in range(runs):
            call(run)
            if waits:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        # The first round loads the kernels.
        if round_ > 0:
            times.append((time.perf_counter() - start) * 1e6 / runs)
    q1, median, q3 = statistics.quantiles(times, n=4)
    return {"median": round(median, 3), "q1": round(q1, 3), "q3": round(q3, 3)}


def process(rank, gpus, sizes):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29517")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=gpus)
    one = torch.ones((), device="cuda")
    all_reduce = timed(200, lambda _: dist.all_reduce(one), False)
    for log2 in sizes:
        count = 1 << log2
        inputs = [torch.ones(count, device="cuda") for _ in range(min(max(ROTATED // (4 * count), 2), 64))]
        runs = min(max(ROUND_BYTES // (4 * count), 8), 1000)
        out = torch.empty((), device="cuda")

        def call(run):
            torch.sum(inputs[run % len(inputs)], dim=0, out=out)
            dist.all_reduce(out)

        line = {
            "device": torch.cuda.get_device_name(),
            "devices": gpus,
            "implementation": f"PyTorch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}",
            "n": count,
            "us": timed(runs, call, True),
            "into_us": timed(runs, call, False),
            "all_reduce_us": all_reduce,
        }
        if out.item() != float(count * gpus) and count <= 1 << 24:
            raise SystemExit(f"{out.item()} is not the sum of {count} ones of {gpus} GPUs")
        if rank == 0:
            print(json.dumps(line), flush=True)
        del inputs
    dist.destroy_process_group()


if __name__ == "__main__":
    gpus, sizes = int(sys.argv[1]), [int(log2) for log2 in sys.argv[2:]]
    mp.spawn(process, (gpus, sizes), nprocs=gpus)
