"""Types and arrays: where the memory of arrays of NumPy, PyTorch and everything with DLPack is, without copies.

A function that takes arrays asks `address` for the memory of each: it must be row-major and of the right type and
shape. Results are NumPy arrays, or PyTorch tensors where the first input is one; of types that NumPy lacks (bfloat16,
float8, integers of 2 and 4 bits) they are arrays of the package ml_dtypes, or Buffers where that is not installed."""

from __future__ import annotations

import ctypes
import functools
import importlib
import operator
import sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from . import _abi
from ._library import array_type, check, lib
from .errors import InvalidArgumentError, UnsupportedError

Shape = tuple[int, ...]


@runtime_checkable
class SupportsDLPack(Protocol):
    """An array of any library that has DLPack."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


# The library's names, in its order; None: unknown.
NAMES: list[str] = [lib.braid_dtype_name(value).decode() for value in range(_abi.BRAID_DTYPE_COUNT)]
VALUES: dict[str, int] = {name: value for value, name in enumerate(NAMES) if value}
_NUMPY_NAMES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                "uint64", "bool")
_NUMPY: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NUMPY_NAMES}
_BY_NUMPY: dict[np.dtype[Any], str] = {dtype: name for name, dtype in _NUMPY.items()}
# What ml_dtypes calls the others.
_ML = {"bfloat16": "bfloat16", "float8e4m3fn": "float8_e4m3fn", "float8e4m3fnuz": "float8_e4m3fnuz",
       "float8e5m2": "float8_e5m2", "float8e5m2fnuz": "float8_e5m2fnuz", "float8e8m0": "float8_e8m0fnu",
       "float4e2m1": "float4_e2m1fn", "uint4": "uint4", "int4": "int4", "uint2": "uint2", "int2": "int2"}


def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """NumPy's type of this name, or that of ml_dtypes if it is installed; None: there is none."""
    if name in _NUMPY:
        return _NUMPY[name]
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        return None
    kind = getattr(ml_dtypes, _ML.get(name, ""), None)
    if kind is None:
        return None
    _NUMPY[name] = np.dtype(kind)
    _BY_NUMPY[_NUMPY[name]] = name
    return _NUMPY[name]


def dtype_name(dtype: Any) -> str:
    """The library's name of a type given as "float32", numpy.float32, numpy.dtype or torch.float32."""
    if isinstance(dtype, str) and dtype in VALUES:
        return dtype
    if type(dtype).__module__ == "torch":
        name = str(dtype).removeprefix("torch.")
        if name in VALUES:
            return name
    else:
        try:
            return _numpy_name(np.dtype(dtype))
        except TypeError:
            pass
    raise UnsupportedError(f"Braid has no type {dtype}; it has {', '.join(VALUES)}")


def _numpy_name(dtype: np.dtype[Any]) -> str:
    name = _BY_NUMPY.get(dtype)
    if name:
        return name
    for known, other in _ML.items():
        if dtype.name == other and numpy_dtype(known) == dtype:
            return known
    order = " in this byte order" if dtype.byteorder == ">" else ""
    raise UnsupportedError(f"Braid has no type {dtype.name}{order}; it has {', '.join(VALUES)}")


def whole(values: Sequence[Any], what: str) -> Any:
    """Whole numbers as the library's int64; ctypes would cut off what is above."""
    try:
        numbers = [operator.index(value) for value in values]
    except TypeError as problem:
        raise InvalidArgumentError(f"{what} is {tuple(values)}, expected whole numbers") from problem
    made = array_type(ctypes.c_int64, len(numbers))(*numbers)
    if list(made[:len(numbers)]) != numbers:
        raise InvalidArgumentError(f"{what} is {tuple(numbers)}, expected numbers of 64 bits")
    return made if numbers else []


_MOST_OUTPUTS = 65536  # more than any model has; room is made for them before the library sees the op


def check_outputs(count: int) -> None:
    if not 0 <= count <= _MOST_OUTPUTS:
        raise InvalidArgumentError(f"{count} outputs are asked for, expected at most {_MOST_OUTPUTS}")


# --- descriptors ------------------------------------------------------------------------------------------------------
def desc_of(dtype: Any, shape: Sequence[int | None]) -> Any:
    """A descriptor; None and -1 are dynamic dimensions."""
    dims = list(whole([-1 if size is None else size for size in shape], "a shape"))
    desc = _abi.braid_desc()
    fixed = [max(size, 1) if size < 0 else size for size in dims]
    check(lib.braid_desc_init(ctypes.byref(desc), VALUES[dtype_name(dtype)], len(dims),
                              array_type(ctypes.c_int64, len(dims))(*fixed)))
    for index, size in enumerate(dims):
        if size < -1:
            raise InvalidArgumentError(f"dimension {index} is {size}, expected a size, or None or -1 for a dynamic one")
        desc.dims[index] = size
    return desc


@functools.lru_cache(maxsize=512)
def array_desc(dtype: str, shape: Shape) -> Any:
    """The descriptor of an array, which is only read."""
    return desc_of(dtype, shape)


def shape_of(desc: Any) -> tuple[int | None, ...] | None:
    if desc.rank < 0:
        return None
    return tuple(None if size < 0 else int(size) for size in desc.dims[:desc.rank])


def fixed_shape(desc: Any) -> Shape:
    return tuple(desc.dims[:desc.rank])


def describe(dtype: str, shape: Sequence[int | None]) -> str:
    return f"{dtype}[{','.join('?' if size is None or size < 0 else str(size) for size in shape)}]"


# --- where arrays are -------------------------------------------------------------------------------------------------
class _PyBuffer(ctypes.Structure):
    """Python's Py_buffer: the stable ABI has it since 3.11, and it is what it was before."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_python: Any = ctypes.pythonapi
_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)(
    ("PyObject_GetBuffer", _python))
_release_buffer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyBuffer_Release", _python))


def numpy_address(array: Any, writable: bool = False) -> int:
    """Where a row-major array is. NumPy's own ways to say it take two to four times as long as the buffer protocol.
    BufferError: it is not row-major, or read-only."""
    view = _PyBuffer()
    try:
        _get_buffer(array, ctypes.addressof(view), 1 if writable else 0)
    except ValueError as problem:  # types that the protocol has no letter for
        if not array.flags.c_contiguous:
            raise BufferError("the array is not row-major") from problem
        if writable and not array.flags.writeable:
            raise BufferError("the array is read-only") from problem
        return int(array.ctypes.data)
    address = view.buf
    _release_buffer(ctypes.addressof(view))
    return address or 0


# Every extension module of NumPy has it compiled in that an array's address stands right behind the head of the object
# (PyArray_DATA); reading it there takes a quarter of the time of the other ways.
DATA_AT = object.__basicsize__
_read_address: Any = ctypes.c_void_p.from_address


def _address_is_behind_head() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probes: list[np.ndarray[Any, Any]] = [np.empty(3, np.float32), np.zeros((2, 5), np.int64)[1:],
                                          np.ones((), np.uint8)]
    return all(_read_address(id(probe) + DATA_AT).value == probe.ctypes.data for probe in probes)


DATA_IS_THERE = _address_is_behind_head()


def torch() -> Any:
    """PyTorch, if the program has imported it."""
    return sys.modules.get("torch")


def is_torch(value: Any) -> bool:
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def from_dlpack(value: Any) -> Any:
    """A NumPy view of an array of another library."""
    device = value.__dlpack_device__()
    if int(device[0]) != 1:
        raise UnsupportedError(f"a {type(value).__name__} is in the memory of a device (DLPack's kind "
                               f"{int(device[0])}), expected host memory: copy it to the CPU first")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as problem:
        raise UnsupportedError(f"a {type(value).__name__} cannot be taken: {problem}") from problem


def as_type(value: Any, kind: np.dtype[Any] | None, what: str) -> np.ndarray[Any, Any]:
    """Numbers and lists as an array of a type. What would be another number in it is refused, and what has a type of
    its own keeps it."""
    if kind is None or not isinstance(value, (bool, int, float, complex, list, tuple)):
        return np.asarray(value)
    if kind.kind not in "biu":
        return np.asarray(value, dtype=kind)
    plain = np.asarray(value)
    try:
        with np.errstate(invalid="ignore"):
            made = plain.astype(kind)
        kept = np.array_equal(made, plain)
    except OverflowError:  # more bits than NumPy's numbers have
        kept = False
    if not kept:
        raise InvalidArgumentError(f"{what} has numbers that {kind.name} does not have: {value!r:.80}")
    return made


class Located:
    """An array's memory: its address, and what keeps it valid. `copied`: it is a row-major copy of the caller's."""

    __slots__ = ("address", "owner", "shape", "dtype", "copied")

    def __init__(self, address: int, owner: Any, shape: Shape, dtype: str, copied: bool) -> None:
        self.address, self.owner, self.shape, self.dtype, self.copied = address, owner, shape, dtype, copied


def locate(value: Any, dtype: str | None = None, what: str = "the array", writable: bool = False,
           copy: bool = True) -> Located:
    """Where the memory of a value is: of a NumPy array, a PyTorch tensor, anything with DLPack, or of a number or list,
    which becomes an array (of `dtype`). `copy`: one that is not row-major is copied, else refused."""
    if is_torch(value):
        return _locate_torch(value, what, writable, copy)
    if not isinstance(value, (np.ndarray, np.generic)):
        from .buffer import Buffer

        if isinstance(value, Buffer):
            if writable and value.read_only:
                raise InvalidArgumentError(f"{what} is read-only")
            host = value.host_address
            if host is None:
                raise UnsupportedError(f"{what} is a buffer in the memory of {value.device}: bind it to an execution, "
                                       "or copy it with numpy()")
            return Located(host, value._held(), value.shape, value.dtype, False)  # the buffer may be closed
        if hasattr(value, "__dlpack__"):
            value = from_dlpack(value)
        else:
            if writable:
                raise InvalidArgumentError(f"{what} is a {type(value).__name__}, expected an array to write to")
            value = as_type(value, numpy_dtype(dtype) if dtype else None, what)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    name = _numpy_name(value.dtype)
    try:
        return Located(numpy_address(value, writable), value, value.shape, name, False)
    except (BufferError, ValueError) as problem:
        if writable and not value.flags.writeable:
            raise InvalidArgumentError(f"{what} is read-only") from problem
        if writable or not copy:
            raise InvalidArgumentError(f"{what} is not row-major (its strides are {value.strides}), expected an array "
                                       "as numpy.ascontiguousarray gives it") from problem
    value = np.array(value, order="C", copy=True)
    return Located(numpy_address(value), value, value.shape, name, True)


def _locate_torch(value: Any, what: str, writable: bool, copy: bool) -> Located:
    if value.device.type != "cpu":
        raise UnsupportedError(f"{what} is a tensor on {value.device}, expected one in host memory: {what}.cpu()")
    if value.layout is not torch().strided:
        raise UnsupportedError(f"{what} is a sparse tensor, expected a dense one")
    if value.requires_grad:
        value = value.detach()
    copied = not value.is_contiguous() or value.is_conj() or value.is_neg()
    if copied:
        if writable or not copy:
            raise InvalidArgumentError(f"{what} is not row-major (its strides are {tuple(value.stride())}), expected a "
                                       "tensor as contiguous() gives it")
        value = value.resolve_conj().resolve_neg().contiguous()
    return Located(value.data_ptr(), value, tuple(value.shape), dtype_name(value.dtype), copied)


def empty(dtype: str, shape: Sequence[int], like_torch: bool = False) -> Any:
    """A new array: of NumPy, of PyTorch, or in a type that neither has, None."""
    if like_torch:
        kind = getattr(torch(), dtype, None)
        return None if kind is None else torch().empty(tuple(shape), dtype=kind)
    kind = numpy_dtype(dtype)
    return None if kind is None else np.empty(tuple(shape), kind)


# --- tensors of the library -------------------------------------------------------------------------------------------
def make_tensor(value: Any, dtype: str | None = None, what: str = "the array") -> Any:
    """A tensor of the library with a copy of the value: graphs keep it as long as they like. A Handle."""
    from ._library import Handle, out, ready

    if dtype and not hasattr(value, "dtype"):
        kind = numpy_dtype(dtype)
        if kind is None:
            raise UnsupportedError(f"{what} is to be {dtype}, which NumPy has with the package ml_dtypes only")
        value = as_type(value, kind, what)
    if dtype and dtype_name(value.dtype) != dtype:
        raise InvalidArgumentError(f"{what} is {dtype_name(value.dtype)}, expected {dtype}: convert it first, as with "
                                   "astype")
    place = locate(value, dtype, what)
    desc = array_desc(place.dtype, place.shape)
    pointer = out()
    check(ready().braid_tensor_create(None, ctypes.byref(desc), ctypes.byref(pointer)))
    handle = Handle(pointer.value, lib.braid_tensor_release)
    ctypes.memmove(lib.braid_tensor_data(pointer), place.address, lib.braid_desc_bytes(ctypes.byref(desc)))
    return handle


def wrap_tensor(place: Located) -> Any:
    """A tensor over an array's memory, for one call. A Handle."""
    from ._library import Handle, out, ready

    desc = array_desc(place.dtype, place.shape)
    pointer = out()
    check(ready().braid_tensor_wrap(None, ctypes.byref(desc), place.address, None, None, ctypes.byref(pointer)))
    return Handle(pointer.value, lib.braid_tensor_release, place.owner)


def plain_attribute(value: Any) -> Any:
    """NumPy's numbers, alone and in lists, as Python's: an attribute of an array is a tensor."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [one.item() if isinstance(one, np.generic) else one for one in value]
    return value


def copy_out(address: int, desc: Any, what: str = "the tensor") -> np.ndarray[Any, Any]:
    """A NumPy copy of memory of the library."""
    dtype = NAMES[desc.dtype]
    array = empty(dtype, fixed_shape(desc))
    if array is None:
        raise UnsupportedError(f"{what} is {dtype}, which NumPy has with the package ml_dtypes only")
    if array.nbytes:
        ctypes.memmove(numpy_address(array, True), address, array.nbytes)
    return array  # type: ignore[no-any-return]
