"""Refused arguments: each raises an exception whose one line says what was given, what is allowed and what to do."""

import os
import subprocess
import sys

import numpy
import pytest

import warpfold
from conftest import DEVICE, ROWS, small


def test_invalid_arguments_are_refused(refused):
    values = small("float32", (3, 4))
    offsets = [0, 5, 12]
    flat = values.ravel()
    for kind, call, *words in [
        (ValueError, lambda: warpfold.sum(values, 2), "axis 2", "2 dimensions", "-2 to 1"),
        (ValueError, lambda: warpfold.sum(values, (0, 0)), "axis (0, 0)", "different", "once"),
        (ValueError, lambda: warpfold.sum(values, (1, -1)), "axis (1, -1)", "different", "once"),
        (ValueError, lambda: warpfold.sum(values, (1, 5)), "axis (1, 5)", "2 dimensions", "-2 to 1"),
        (ValueError, lambda: warpfold.sum(3, 0), "axis 0", "no dimensions", "None or ()"),
        (ValueError, lambda: warpfold.sum(3, (-1,)), "axis (-1,)", "no dimensions", "None or ()"),
        (TypeError, lambda: warpfold.sum(values, True), "axis True", "None, an integer or a tuple"),
        (TypeError, lambda: warpfold.sum(values, [0, 1]), "axis [0, 1]", "None, an integer or a tuple"),
        (TypeError, lambda: warpfold.sum(values, keepdims="no"), "keepdims 'no'", "True or False"),
        (TypeError, lambda: warpfold.var(values, ddof="x"), "ddof (or correction) 'x'", "a number"),
        (TypeError, lambda: warpfold.segment_std(flat, offsets, ddof=None), "ddof (or correction) None", "a number"),
        (TypeError, lambda: warpfold.var(values, ddof=0, correction=0), "ddof 0 and correction 0", "one of them"),
        (TypeError, lambda: warpfold.segment_var(flat, offsets, ddof=1, correction=1), "correction 1", "one of them"),
        (TypeError, lambda: warpfold.std(values, correction="x"), "(or correction) 'x'", "a number"),
        (TypeError, lambda: warpfold.sum(values, correction=1), "correction for sum", "no such parameter"),
        (TypeError, lambda: warpfold.segment_sum(flat, offsets, correction=1), "correction for sum", "no such parameter"),
        (TypeError, lambda: warpfold.sum(values, ddof=1), "ddof for sum", "no such parameter"),
        (TypeError, lambda: warpfold.segment_mean(flat, offsets, ddof=1), "ddof for mean", "no such parameter"),
        (TypeError, lambda: warpfold.mean(values, initial=1), "initial for mean", "no such parameter"),
        (TypeError, lambda: warpfold.sum(values, 0, dim=0), "axis 0 and dim 0", "one of them"),
        (TypeError, lambda: warpfold.sum(values, keepdims=True, keepdim=True), "keepdim True", "one of them"),
        (TypeError, lambda: warpfold.sum(values, 1.5), "axis 1.5", "None, an integer or a tuple"),
        (TypeError, lambda: warpfold.sum(values, "x"), "axis 'x'", "integer"),
        (TypeError, lambda: warpfold.sum(values.astype("timedelta64[s]")), "values of dtype timedelta64[s]", "bool, int8", "view('int64')"),
        (TypeError, lambda: warpfold.sum(values.astype("complex64")), "complex64", "float64", "`.real`"),
        (TypeError, lambda: warpfold.sum("text"), "dtype <U4", "convert", "astype('float64')"),
        (TypeError, lambda: warpfold.sum([{}, {}]), "dtype object", "numpy.asarray(values, 'float64')"),
        (TypeError, lambda: warpfold.sum(numpy.zeros(3, "V2")), "dtype |V2", "`view`"),
        (TypeError, lambda: warpfold.sum(numpy.zeros(3, [("x", "f4")])), "[('x', '<f4')]", "values['name']"),
        (TypeError, lambda: warpfold.segment_sum(flat, ["a"]), "offsets of dtype <U1", "convert"),
        (ValueError, lambda: warpfold.bitwise_or(values), "bitwise_or of float32", "only integers"),
        (ValueError, lambda: warpfold.logsumexp([1, 2]), "logsumexp of int64", "only floats"),
        (ValueError, lambda: warpfold.sum(values, determinism="always"), "'always'", "'run-to-run' and 'everywhere'"),
        (ValueError, lambda: warpfold.logsumexp(values, determinism="everywhere"), "logsumexp", "run to run only", "run-to-run"),
        (ValueError, lambda: warpfold.mean(values, determinism="everywhere"), "mean", "run to run only"),
        (ValueError, lambda: warpfold.prod(values, determinism="everywhere"), "prod of float32", "run-to-run"),
        (ValueError, lambda: warpfold.sum(values, stream=0), "on the host", "leave it out"),
        (TypeError, lambda: warpfold.sum(warpfold.asarray(values), stream="s"), "type str", "cuda_stream"),
        (ValueError, lambda: warpfold.sum(warpfold.asarray(values), stream=-1), "stream -1", "0 or more"),
        (ValueError, lambda: warpfold.sum(values, device="gpu"), "`gpu`", "cuda:<number>"),
        (TypeError, lambda: warpfold.sum(values, device=0), "type int", "'cuda:0'"),
        (warpfold.Error, lambda: warpfold.sum(values, device="sim:99"), "`sim:99`", "devices"),
        (ValueError, lambda: warpfold.segment("median", flat, offsets), "'median'", "sum, min, max"),
        (ValueError, lambda: warpfold.segment_sum(values, offsets), "values of the shape (3, 4)", "reshape(-1)"),
        (ValueError, lambda: warpfold.segment_sum(flat, [offsets]), "offsets of the shape (1, 3)", "one dimension"),
        (TypeError, lambda: warpfold.segment_sum(flat, [0.0, 5.0]), "offsets of float64", "int32, int64", "convert"),
        (ValueError, lambda: warpfold.segment_sum(flat, [0, 5, 3]), "segment 1 is from 5 to 3", "never descend"),
        (ValueError, lambda: warpfold.segment_sum(flat, [0, 13]), "from 0 to 13 of 12", "0 to 12"),
        (ValueError, lambda: warpfold.segment_sum(flat, [-1, 3]), "from -1 to 3", "never descend"),
        (ValueError, lambda: warpfold.segment_sum(flat, numpy.empty(0, int)), "0 offsets", "one more"),
        (ValueError, lambda: warpfold.segment_sum(flat, warpfold.asarray(offsets)), "on the host", "in one place"),
        (ValueError, lambda: warpfold.device("cuda:x"), "`cuda:x`", "there are auto"),
    ]:
        refused(kind, call, *words)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.of_none is None])
def test_empty_input_is_refused_if_it_has_no_result(name, refused):
    empty = numpy.empty((3, 0), "float32")
    refused(ValueError, lambda: getattr(warpfold, name)(empty), f"{name} of no elements", "(3, 0)", "longer array", *(["initial"] if ROWS[name].initial else []))
    refused(ValueError, lambda: getattr(warpfold, name)(empty, 1), f"{name} of no elements")
    result = getattr(warpfold, name)(empty, 0)
    for one in result if ROWS[name].pair else [result]:
        assert one.shape == (0,)


@pytest.mark.skipif(not DEVICE.simulated, reason="there is a GPU")
def test_cuda_device_is_refused_without_a_gpu(refused):
    advice = "install the NVIDIA driver", "or give device=\"sim\""
    refused(warpfold.Error, lambda: warpfold.device("cuda"), "no CUDA driver: ", *advice)
    with pytest.raises(warpfold.Error) as raised:
        warpfold.sum([1], device="cuda")
    assert str(raised.value).count("no CUDA driver") == 1
    assert warpfold.devices() == ["sim:0"]


def test_arrays_of_another_device_are_refused():
    # The number of simulated devices is read from the environment once, so the test runs in a process of its own.
    code = """
import warpfold
from test_arrays import Interface
near, far = warpfold.asarray([1, 2], "sim:0"), warpfold.asarray([0, 2], "sim:1")
print(near.device, far.device, warpfold.sum(far).numpy())
lent = Interface(far)
for call in (
    lambda: warpfold.sum(far, device="sim:0"),
    lambda: warpfold.segment_sum(near, far),
    lambda: warpfold.sum(lent, device="sim:0"),
    lambda: warpfold.sum(Interface(far, data=(64, False)), device="sim:0"),
):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    here = os.path.dirname(__file__)
    environment = {**os.environ, "WARPFOLD_SIM_DEVICES": "2", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    devices, first, second, third, fourth = ran.stdout.splitlines()
    assert devices == "sim:0 sim:1 2"
    assert first == "device sim:0 for an array on sim:1; leave the device out, or move the array there"
    assert second == "device sim:0 for an array on sim:1; leave the device out, or move the array there"
    assert third == (
        'an array by the CUDA array interface: it is on device 1, not 0; give its device, for example device="cuda:1"'
    )
    assert fourth.endswith("its address 0x40 is not on a device; give an array in device memory")
