"""Arrays with masked elements, which are refused for every argument, so that no masked element is reduced."""

import numpy
import pytest

import warpfold
from conftest import DEVICE, ROWS, same, small
from test_arrays import Interface
from test_functions import takes

ADVICE = "not have masked elements", "compressed()", "filled(0)"


class Marked(numpy.ndarray):
    """Another library's masked array: a subclass of ndarray, as astropy's masked arrays are."""

    mask = numpy.array([False, True, False])


class Host:
    """An object with only NumPy's array interface, which has a mask."""

    def __init__(self, mask):
        self.array = numpy.arange(3.0)
        self.__array_interface__ = {**self.array.__array_interface__, "mask": mask}


class Made:
    """An object that NumPy converts to a masked array."""

    def __array__(self, dtype=None, copy=None):
        return numpy.ma.array([1.0, 2.0, 3.0], mask=[0, 0, 1])


@pytest.mark.parametrize("name", ROWS)
def test_masked_elements_are_refused_by_every_function(name, refused):
    dtype = "int32" if takes(name, "int32") else "float32"
    masked = numpy.ma.array(small(dtype, 6), mask=[0, 0, 1, 0, 0, 0])
    refused(ValueError, lambda: getattr(warpfold, name)(masked), "values must", *ADVICE)
    refused(ValueError, lambda: getattr(warpfold, name)(masked.reshape(2, 3), axis=0), "values must", *ADVICE)
    refused(ValueError, lambda: getattr(warpfold, f"segment_{name}")(masked, [0, 6]), "values must", *ADVICE)


def test_masked_elements_are_refused_in_every_argument(refused):
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
        refused(ValueError, call, "values must", *ADVICE)
    refused(ValueError, lambda: warpfold.segment_sum(values, masked), "offsets must", *ADVICE)
    refused(ValueError, lambda: warpfold.segment_sum(warpfold.asarray(values), masked), "offsets must", *ADVICE)
    refused(ValueError, lambda: warpfold.sum(values, initial=numpy.ma.masked), "initial must", *ADVICE)


def test_mask_of_the_cuda_array_interface_is_refused(refused):
    values = small("float32", 8)
    masked = Interface(values, mask=Interface(values > 0))
    for call in (
        lambda: warpfold.sum(masked, device=DEVICE),
        lambda: warpfold.asarray(masked, device=DEVICE),
        lambda: warpfold.segment_sum(masked, warpfold.asarray([0, 8]), device=DEVICE),
    ):
        refused(ValueError, call, "interface has a mask", "not supported", "without the mask")
    same(warpfold.sum(Interface(values, mask=None), device=DEVICE).numpy()[()], values.sum())


def test_arrays_with_an_empty_mask_are_reduced():
    values = small("int32", (4, 5))
    for mask in (numpy.ma.nomask, False, numpy.zeros((4, 5), bool)):
        same(warpfold.sum(numpy.ma.array(values, mask=mask), axis=0), values.sum(axis=0, dtype="int64"))
    same(warpfold.sum(Host(None)), numpy.float64(3))
    same(warpfold.sum(numpy.ma.array([1, 2, 3], mask=[0, 1, 0]).filled(0)), numpy.int64(4))
