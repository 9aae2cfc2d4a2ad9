"""Expected results of every function, computed by NumPy. This file shares no code with the package."""

import warnings

import numpy


def _sum_type(a):
    if a.dtype.kind in "bi":
        return numpy.int64
    if a.dtype.kind == "u":
        return numpy.uint64
    return numpy.float64 if a.dtype == numpy.float64 else numpy.float32


def _typed(result, kind):
    return numpy.asarray(result).astype(kind)[()]


def _sum(transform):
    return lambda a, **how: numpy.sum(transform(a.astype(_sum_type(a))), dtype=_sum_type(a), **how)


def _float(function):
    """Wraps a function: computes in float64, and rounds results of float16 and float32 elements to float32."""

    def rounded(a, **how):
        kind = numpy.float32 if a.dtype in (numpy.float16, numpy.float32) else numpy.float64
        return _typed(function(a.astype(numpy.float64), **how), kind)

    return rounded


def _without_warnings(function):
    """Wraps a function: suppresses NumPy's warning if all elements are NaN."""

    def quiet(a, **how):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(a, **how)

    return quiet


def _zero_if_all_nan(function):
    """Wraps nanargmin or nanargmax: if all elements are NaN, returns the index 0 where NumPy raises an error."""

    def index(a, axis=None, keepdims=False):
        if a.dtype.kind != "f":
            return function(a, axis=axis, keepdims=keepdims)
        nothing = numpy.isnan(a).all(axis=axis, keepdims=keepdims)
        # Slices of NaN alone become slices of 0, for which NumPy raises no error.
        filled = numpy.where(numpy.isnan(a).all(axis=axis, keepdims=True), 0, a)
        return numpy.where(nothing, 0, function(filled, axis=axis, keepdims=keepdims))[()]

    return index


def _logsumexp(a, **how):
    most = numpy.max(a, initial=0)
    with numpy.errstate(divide="ignore"):
        return numpy.log(numpy.sum(numpy.exp(a - most), **how)) + most


def _harmonic(a, **how):
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.count_nonzero(~numpy.isnan(a), **how) / numpy.nansum(1 / a, **how)


def _third_moment(mean):
    return lambda a, axis=None, **how: mean((a - mean(a, axis=axis, keepdims=True)) ** 3, axis=axis, **how)


def _skipping_nan(function, transform=lambda a: a):
    """Returns a sum or a product that skips NaN, computed in the type of sums."""
    return lambda a, **how: function(transform(a.astype(_sum_type(a))), dtype=_sum_type(a), **how)


#: NumPy's implementation of each function, by name. Each takes an array, `axis` and `keepdims`.
ORACLES = {
    "sum": _sum(lambda a: a),
    "prod": lambda a, **how: numpy.prod(a, dtype=_sum_type(a), **how),
    "min": numpy.min,
    "max": numpy.max,
    "aminmax": lambda a, **how: (numpy.min(a, **how), numpy.max(a, **how)),
    "argmin": numpy.argmin,
    "argmax": numpy.argmax,
    "mean": _float(numpy.mean),
    "var": _float(numpy.var),
    "std": _float(numpy.std),
    "var_mean": lambda a, ddof=0, **how: (_float(numpy.var)(a, ddof=ddof, **how), _float(numpy.mean)(a, **how)),
    "any": numpy.any,
    "all": numpy.all,
    "count_nonzero": lambda a, **how: _typed(numpy.count_nonzero(a, **how), numpy.int64),
    "sum_of_squares": _sum(numpy.square),
    "sum_of_magnitudes": _sum(numpy.abs),
    "l1_norm": _float(lambda a, **how: numpy.sum(numpy.abs(a), **how)),
    "l2_norm": _float(lambda a, **how: numpy.sqrt(numpy.sum(numpy.square(a), **how))),
    "hmean": _float(_harmonic),
    "third_central_moment": _float(_third_moment(numpy.mean)),
    "max_norm": _float(lambda a, **how: numpy.max(numpy.abs(a), initial=0, **how)),
    "logsumexp": _float(_logsumexp),
    "nansum": _skipping_nan(numpy.nansum),
    "nanprod": _skipping_nan(numpy.nanprod),
    "nanmin": _without_warnings(numpy.nanmin),
    "nanmax": _without_warnings(numpy.nanmax),
    "nanaminmax": lambda a, **how: tuple(_without_warnings(one)(a, **how) for one in (numpy.nanmin, numpy.nanmax)),
    "nanargmin": _zero_if_all_nan(numpy.nanargmin),
    "nanargmax": _zero_if_all_nan(numpy.nanargmax),
    "nanmean": _float(_without_warnings(numpy.nanmean)),
    "nanvar": _float(_without_warnings(numpy.nanvar)),
    "nanstd": _float(_without_warnings(numpy.nanstd)),
    "nansum_of_squares": _skipping_nan(numpy.nansum, numpy.square),
    "nansum_of_magnitudes": _skipping_nan(numpy.nansum, numpy.abs),
    "nanl1_norm": _float(lambda a, **how: numpy.nansum(numpy.abs(a), **how)),
    "nanl2_norm": _float(lambda a, **how: numpy.sqrt(numpy.nansum(numpy.square(a), **how))),
    "nanhmean": _float(_harmonic),
    "nanthird_central_moment": _float(_third_moment(_without_warnings(numpy.nanmean))),
    "nanmax_norm": _float(lambda a, **how: numpy.nanmax(numpy.abs(a), initial=0, **how)),
    "count_nan": lambda a, **how: _typed(numpy.count_nonzero(numpy.isnan(a), **how), numpy.int64),
    "bitwise_and": numpy.bitwise_and.reduce,
    "bitwise_or": numpy.bitwise_or.reduce,
    "bitwise_xor": numpy.bitwise_xor.reduce,
}
