"""Children of a process that has used a device: they are refused at once, or work, and never wait for threads and locks
that they do not have. Each test is a program of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

from conftest import DEVICE

#: What the programs begin with. `told` forks and returns what the child has printed by a function.
HEAD = """
import multiprocessing, os, signal, sys, threading
import numpy, warpfold

ones = numpy.ones(10_000)

def told(work):
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
#: Longer than any of them takes.
PATIENCE = 300


def run(program):
    """What a program prints; one that hangs is ended, and so are its children."""
    code = HEAD + textwrap.dedent(program)
    started = subprocess.Popen(
        # Python warns of forks beside threads, which these are.
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = started.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, 9)
        raise
    assert started.returncode == 0, out
    return out.splitlines()


#: What a child of a process that has used a device says, of whatever it calls.
ADVICE = (
    ' was used before this process was forked; start processes by multiprocessing\'s "spawn" or "forkserver", or use '
    "warpfold in the child alone"
)


def test_a_child_is_refused_whatever_it_calls_and_its_parent_goes_on():
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
            print(told(call))
        print(warpfold.sum(ones), result.item(), warpfold.segment_max(array, offsets).numpy())
    """)
    assert lines.pop() == "10000.0 10000.0 [1. 1.]"
    assert len(lines) == 11
    for line in lines:
        assert line.startswith("Error: ") and line.endswith(ADVICE), line


def test_a_child_of_a_process_that_has_used_no_device_works():
    lines = run("""
        print(told(lambda: warpfold.sum(ones)))
        print(told(lambda: warpfold.max(numpy.ones((300, 300)), axis=0).sum()))
        print(warpfold.sum(ones))
    """)
    assert lines == ["10000.0", "300.0", "10000.0"]


def test_a_child_ends_with_the_arrays_of_its_parent():
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


def test_a_fork_while_other_threads_are_in_a_call():
    lines = run("""
        done = threading.Event()

        def work():
            while not done.is_set():
                warpfold.sum(ones)
                warpfold.argmax(ones.reshape(100, 100), axis=0)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        # The first forks while a device is opened and kernels are loaded.
        said = {told(lambda: warpfold.sum(ones)) for _ in range(40)}
        done.set()
        for thread in threads:
            thread.join()
        print(*sorted(said), sep="\\n")
    """)
    # The first children may have been made before the device was.
    for line in lines:
        assert line == "10000.0" or line.startswith("Error: ") and line.endswith(ADVICE), line


def test_pools_of_processes():
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
def test_devices_are_named_in_a_child():
    assert run("print(warpfold.devices(), told(warpfold.devices))") == ["['sim:0'] ['sim:0']"]
