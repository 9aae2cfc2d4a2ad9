"""Written by tests/stubs.py."""

from typing import Any, ClassVar, Iterator, Literal, NamedTuple, Optional, SupportsIndex, Tuple, Union

import numpy

_Axis = Optional[Union[int, Tuple[int, ...]]]
_Number = Optional[Union[int, float]]
_Determinism = Literal["run-to-run", "everywhere"]

__version__: str

class Error(RuntimeError): ...

class Device:
    @property
    def name(self) -> str: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def capability(self) -> Tuple[int, int]: ...
    @property
    def memory(self) -> int: ...

class Array:
    @property
    def shape(self) -> Tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> Device: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Union[SupportsIndex, Tuple[SupportsIndex, ...]]) -> Array: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __reversed__(self) -> Iterator[Array]: ...
    def __contains__(self, value: Any) -> bool: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __round__(self, ndigits: Optional[int] = None) -> Union[int, float]: ...
    def __format__(self, spec: str) -> str: ...
    def __eq__(self, other: Any) -> Any: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Any: ...  # type: ignore[override]
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...
    def item(self) -> Union[bool, int, float]: ...
    def tolist(self) -> Any: ...
    def numpy(self) -> numpy.ndarray: ...
    def synchronize(self) -> None: ...

class Expression:
    def __init__(self, text: str, where: Optional[str] = None) -> None: ...
    def sum(
        self,
        values: Any,
        axis: _Axis = None,
        keepdims: bool = False,
        *,
        determinism: _Determinism = "run-to-run",
        stream: Any = None,
        device: Optional[Union[str, Device]] = None,
        dim: _Axis = None,
        keepdim: Optional[bool] = None,
    ) -> Any: ...
    def min(
        self,
        values: Any,
        axis: _Axis = None,
        keepdims: bool = False,
        *,
        determinism: _Determinism = "run-to-run",
        stream: Any = None,
        device: Optional[Union[str, Device]] = None,
        dim: _Axis = None,
        keepdim: Optional[bool] = None,
    ) -> Any: ...
    def max(
        self,
        values: Any,
        axis: _Axis = None,
        keepdims: bool = False,
        *,
        determinism: _Determinism = "run-to-run",
        stream: Any = None,
        device: Optional[Union[str, Device]] = None,
        dim: _Axis = None,
        keepdim: Optional[bool] = None,
    ) -> Any: ...

class Description(NamedTuple):
    count: Any
    nan_count: Any
    mean: Any
    variance: Any
    min: Any
    max: Any

class TopK(NamedTuple):
    values: Any
    indices: Any

def asarray(values: Any, device: Optional[Union[str, Device]] = None) -> Array: ...
def device(name: str = "auto") -> Device: ...
def devices() -> list[str]: ...
def topk(
    values: Any,
    k: int,
    axis: Optional[int] = -1,
    *,
    largest: bool = True,
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: Optional[int] = None,
) -> TopK: ...
def describe(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Description: ...
def expr(text: str, where: Optional[str] = None) -> Expression: ...
def segment(op: str, values: Any, offsets: Any, **options: Any) -> Any: ...
def sum_error_bound(values: Any, *, device: Optional[Union[str, Device]] = None) -> float: ...
def sum_of_squares_error_bound(values: Any, *, device: Optional[Union[str, Device]] = None) -> float: ...
def sum(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: _Number = None,
    checked: bool = False,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def min(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def max(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def sum_of_squares(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def argmin(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def argmax(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def sum_of_magnitudes(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def prod(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def aminmax(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Tuple[Any, Any]: ...
def count_nonzero(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def bitwise_and(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def bitwise_or(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def bitwise_xor(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def logsumexp(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def count_nan(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def mean(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def l1_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def l2_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def hmean(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def third_central_moment(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nansum(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanmin(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanmax(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nansum_of_squares(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanargmin(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanargmax(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nansum_of_magnitudes(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanprod(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: _Number = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanaminmax(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Tuple[Any, Any]: ...
def nanl2_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanhmean(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanthird_central_moment(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def var(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def std(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def var_mean(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Tuple[Any, Any]: ...
def any(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def all(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def max_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanmean(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanvar(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanstd(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanl1_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def nanmax_norm(
    values: Any,
    axis: _Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = True,
    out: Any = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
    dim: _Axis = None,
    keepdim: Optional[bool] = None,
) -> Any: ...
def segment_sum(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_min(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_max(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_sum_of_squares(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_argmin(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_argmax(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_sum_of_magnitudes(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_prod(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_aminmax(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Tuple[Any, Any]: ...
def segment_count_nonzero(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_bitwise_and(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_bitwise_or(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_bitwise_xor(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_logsumexp(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_count_nan(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_mean(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_l1_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_l2_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_hmean(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_third_central_moment(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nansum(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanmin(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanmax(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nansum_of_squares(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanargmin(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanargmax(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nansum_of_magnitudes(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanprod(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanaminmax(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Tuple[Any, Any]: ...
def segment_nanl2_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanhmean(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanthird_central_moment(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_var(
    values: Any,
    offsets: Any,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_std(
    values: Any,
    offsets: Any,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_var_mean(
    values: Any,
    offsets: Any,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Tuple[Any, Any]: ...
def segment_any(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_all(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_max_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanmean(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanvar(
    values: Any,
    offsets: Any,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanstd(
    values: Any,
    offsets: Any,
    *,
    ddof: Union[int, float] = 0,
    correction: _Number = None,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanl1_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def segment_nanmax_norm(
    values: Any,
    offsets: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def count_within(
    values: Any,
    low: _Number = None,
    high: _Number = None,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def sum_within(
    values: Any,
    low: _Number = None,
    high: _Number = None,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def mean_within(
    values: Any,
    low: _Number = None,
    high: _Number = None,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def dot(
    a: Any,
    b: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
def vdot(
    a: Any,
    b: Any,
    *,
    determinism: _Determinism = "run-to-run",
    stream: Any = None,
    device: Optional[Union[str, Device]] = None,
) -> Any: ...
