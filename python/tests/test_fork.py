"""Forked children of a process: calls in a child are refused at once if the parent has used a device, else they work.
They never wait for threads that a child does not have, nor for locks that these hold. Each test runs a program in a
process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

from conftest import DEVICE

#: The first lines of each program. `in_child(work)` forks, calls `work` in the child, and returns its result or its
#: exception as text.
HEAD = """
import multiprocessing, os, signal, sys, threading
import numpy, warpfold

ones = numpy.ones(10_000)

def in_child(work):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            line = str(work())
        except BaseException as error:
            line = f"{type(error).__name__}: {error}"
        os.write(writing, line.encode() + b"\\n")
        os._exit(0)
    os.close(writing)
    with open(reading) as lines:
        line = lines.read().removesuffix("\\n")
    assert os.waitpid(child, 0)[1] == 0, line
    return line
"""
#: Time limit of a program in seconds, longer than any of them takes.
TIMEOUT = 300


def run(program):
    """Runs a program and returns the lines that it prints. Kills it and its children if it hangs."""
    code = HEAD + textwrap.dedent(program)
    started = subprocess.Popen(
        # Python warns about forks of a process that has threads, as these programs have.
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = started.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, 9)
        raise
    assert started.returncode == 0, out
    return out.splitlines()


#: End of the message of any call in a child of a process that has used a device.
ADVICE = (
    ' was used before this process was forked; start processes by multiprocessing\'s "spawn" or "forkserver", or use '
    "warpfold in the child alone"
)


def test_calls_in_a_forked_child_are_refused_and_its_parent_works():
    lines = run("""
        array, offsets = warpfold.asarray(ones), warpfold.asarray([0, 5000, 10_000])
        result = warpfold.sum(array, determinism="everywhere")
        warpfold.sum(ones), warpfold.mean(array)
        calls = [
            lambda: warpfold.sum(ones),
            lambda: warpfold.sum(ones[:3]),
            lambda: warpfold.asarray(ones),
            lambda: warpfold.sum(array),
            lambda: warpfold.var(array.numpy()),
            lambda: result.item(),
            lambda: array.synchronize(),
            lambda: array.__dlpack__(),
            lambda: warpfold.segment_max(array, offsets),
            lambda: warpfold.count_within(array, 0, 1),
            lambda: warpfold.sum(ones, device=warpfold.device(str(array.device))),
        ]
        for call in calls:
            print(in_child(call))
        print(warpfold.sum(ones), result.item(), warpfold.segment_max(array, offsets).numpy())
    """)
    assert lines.pop() == "10000.0 10000.0 [1. 1.]"
    assert len(lines) == 11
    for line in lines:
        assert line.startswith("Error: ") and line.endswith(ADVICE), line


def test_forked_child_works_if_its_parent_has_used_no_device():
    lines = run("""
        print(in_child(lambda: warpfold.sum(ones)))
        print(in_child(lambda: warpfold.max(numpy.ones((300, 300)), axis=0).sum()))
        print(warpfold.sum(ones))
    """)
    assert lines == ["10000.0", "300.0", "10000.0"]


def test_forked_child_drops_its_parents_arrays_and_exits():
    lines = run("""
        array = warpfold.asarray(ones)
        kept = [warpfold.sum(array) for _ in range(3)]
        child = os.fork()
        if child == 0:
            kept.clear()
            del array
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), kept[0].item())
    """)
    assert lines == ["7 10000.0"]


def test_fork_during_calls_of_other_threads():
    lines = run("""
        done = threading.Event()

        def work():
            while not done.is_set():
                warpfold.sum(ones)
                warpfold.argmax(ones.reshape(100, 100), axis=0)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        # The first forks happen while the device is opened and kernels are loaded.
        answers = {in_child(lambda: warpfold.sum(ones)) for _ in range(40)}
        done.set()
        for thread in threads:
            thread.join()
        print(*sorted(answers), sep="\\n")
    """)
    # The first children may have been forked before the device was opened, so that their calls work.
    for line in lines:
        assert line == "10000.0" or line.startswith("Error: ") and line.endswith(ADVICE), line


def test_pools_of_spawned_and_forked_processes():
    lines = run("""
        if __name__ == "__main__":
            warpfold.sum(ones)
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    try:
                        print(*pool.map(warpfold.sum, [ones, 2 * ones]))
                    except warpfold.Error as error:
                        print(error)
    """)
    assert lines[0] == "10000.0 20000.0"
    assert lines[1].endswith(ADVICE) and len(lines) == 2


@pytest.mark.skipif(not DEVICE.simulated, reason="there is a GPU")
def test_devices_are_listed_in_a_forked_child():
    assert run("print(warpfold.devices(), in_child(warpfold.devices))") == ["['sim:0'] ['sim:0']"]
