"""Writes the type stubs of the package from its table of functions: `python3 tests/stubs.py`."""

import inspect
import pathlib

import warpfold
from warpfold import _native

PLACE = pathlib.Path(__file__).parents[1] / "package" / "warpfold" / "__init__.pyi"

#: A method of `Expression`.
METHOD = '''    def {name}(
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
'''

HEAD = '''"""Written by tests/stubs.py."""

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
{methods}
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
'''

TYPES = {
    "values": "Any",
    "a": "Any",
    "b": "Any",
    "low": "_Number",
    "high": "_Number",
    "offsets": "Any",
    "axis": "_Axis",
    "keepdims": "bool",
    "ddof": "Union[int, float]",
    "correction": "_Number",
    "dtype": "Any",
    "initial": "_Number",
    "checked": "bool",
    "where": "Any",
    "out": "Any",
    "determinism": "_Determinism",
    "stream": "Any",
    "device": "Optional[Union[str, Device]]",
    "dim": "_Axis",
    "keepdim": "Optional[bool]",
}


def function(name, result):
    parameters, keywords = [], False
    for parameter in inspect.signature(getattr(warpfold, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            parameters.append("*")
            keywords = True
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parameters.append(f"{parameter.name}: {TYPES[parameter.name]}{default}")
    listed = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"def {name}(\n{listed}) -> {result}: ...\n".replace("'", '"')


def text():
    rows = [(row, "Tuple[Any, Any]" if row.pair else "Any") for row in _native.functions()]
    functions = [function(row.name, result) for row, result in rows]
    functions += [function(f"segment_{row.name}", result) for row, result in rows]
    functions += [function(name, "Any") for name in ("count_within", "sum_within", "mean_within", "dot", "vdot")]
    methods = "".join(METHOD.replace("{name}", name) for name in ("sum", "min", "max"))
    return HEAD.replace("{methods}", methods) + "".join(functions)


if __name__ == "__main__":
    PLACE.write_text(text())
