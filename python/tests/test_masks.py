"""Masked elements, which are never reduced in silence: an array that has some is refused, wherever it is given."""

import numpy
import pytest

import warpfold
from conftest import DEVICE, ROWS, same, small
from test_arrays import Interface
from test_functions import takes

ADVICE = "masked elements", "not looked at", "compressed()", "filled(0)"


class Marked(numpy.ndarray):
    """Another library's masked array, as astropy's are."""

    mask = numpy.array([False, True, False])


class Host:
    """An array that has NumPy's interface alone, with a mask."""

    def __init__(self, mask):
        self.array = numpy.arange(3.0)
        self.__array_interface__ = {**self.array.__array_interface__, "mask": mask}


class Made:
    """What becomes a masked array."""

    def __array__(self, dtype=None, copy=None):
        return numpy.ma.array([1.0, 2.0, 3.0], mask=[0, 0, 1])


@pytest.mark.parametrize("name", ROWS)
def test_masked_elements_are_refused_by_every_function(name, refused):
    dtype = "int32" if takes(name, "int32") else "float32"
    masked = numpy.ma.array(small(dtype, 6), mask=[0, 0, 1, 0, 0, 0])
    refused(ValueError, lambda: getattr(warpfold, name)(masked), "values with", *ADVICE)
    refused(ValueError, lambda: getattr(warpfold, name)(masked.reshape(2, 3), axis=0), "values with", *ADVICE)
    refused(ValueError, lambda: getattr(warpfold, f"segment_{name}")(masked, [0, 6]), "values with", *ADVICE)


def test_masked_elements_are_refused_wherever_arrays_are_given(refused):
    masked, values = numpy.ma.array([0, 1, 3], mask=[0, 1, 0]), numpy.arange(3.0)
    for call in [
        lambda: warpfold.asarray(masked),
        lambda: warpfold.count_within(masked, 0, 9),
        lambda: warpfold.sum_within(masked, 0, 9),
        lambda: warpfold.mean_within(masked, 0, 9),
        lambda: warpfold.sum_error_bound(masked),
        lambda: warpfold.sum_of_squares_error_bound(masked),
        lambda: warpfold.sum(numpy.ma.masked),
        lambda: warpfold.sum([masked, masked]),
        lambda: warpfold.sum([[[1, 2, 3]], (masked,)]),
        lambda: warpfold.sum(values.view(Marked)),
        lambda: warpfold.sum(Host(values > 1)),
        lambda: warpfold.sum(Made()),
    ]:
        refused(ValueError, call, "values with", *ADVICE)
    refused(ValueError, lambda: warpfold.segment_sum(values, masked), "offsets with", *ADVICE)
    refused(ValueError, lambda: warpfold.segment_sum(warpfold.asarray(values), masked), "offsets with", *ADVICE)
    refused(ValueError, lambda: warpfold.sum(values, initial=numpy.ma.masked), "initial with", *ADVICE)


def test_a_mask_of_the_cuda_array_interface_is_refused(refused):
    values = small("float32", 8)
    masked = Interface(values, mask=Interface(values > 0))
    for call in (
        lambda: warpfold.sum(masked, device=DEVICE),
        lambda: warpfold.asarray(masked, device=DEVICE),
        lambda: warpfold.segment_sum(masked, warpfold.asarray([0, 8]), device=DEVICE),
    ):
        refused(ValueError, call, "interface with a mask", "not looked at", "without it")
    same(warpfold.sum(Interface(values, mask=None), device=DEVICE).numpy()[()], values.sum())


def test_what_masks_nothing_is_an_array_like_others():
    values = small("int32", (4, 5))
    for mask in (numpy.ma.nomask, False, numpy.zeros((4, 5), bool)):
        same(warpfold.sum(numpy.ma.array(values, mask=mask), axis=0), values.sum(axis=0, dtype="int64"))
    same(warpfold.sum(Host(None)), numpy.float64(3))
    same(warpfold.sum(numpy.ma.array([1, 2, 3], mask=[0, 1, 0]).filled(0)), numpy.int64(4))
