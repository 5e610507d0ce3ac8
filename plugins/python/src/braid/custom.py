"""Ops of a program's own: Python functions that run as nodes of a graph, on the CPU."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._arrays import NAMES, desc_of, fixed_shape, numpy_dtype
from ._library import (Handle, Keep, Memory, Object, check, encode_name, field_type, lib, out, ready,
                       returning_status, running_ops, text)
from .errors import InvalidArgumentError, UnsupportedError
from .graph import Graph

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shaped:
    """Type and shape of an input or output of a custom op."""

    dtype: str
    shape: tuple[int, ...]


class Attributes:
    """The attributes of a node, while a function of the op runs."""

    def __init__(self, pointer: int | None) -> None:
        self._pointer = pointer

    def __contains__(self, name: str) -> bool:
        return bool(lib.braid_attr_has(self._pointer, encode_name(name)))

    def int(self, name: str, otherwise: int = 0) -> int:
        """An integer."""
        return int(lib.braid_attr_int(self._pointer, encode_name(name), otherwise))

    def float(self, name: str, otherwise: float = 0) -> float:
        """A floating-point number."""
        return float(lib.braid_attr_float(self._pointer, encode_name(name), otherwise))

    def text(self, name: str, otherwise: str = "") -> str:
        """A text."""
        return text(lib.braid_attr_string(self._pointer, encode_name(name), otherwise.encode()))

    def ints(self, name: str) -> list[Any]:
        """A list of integers; empty if it is absent."""
        count = ctypes.c_size_t()
        values = lib.braid_attr_ints(self._pointer, encode_name(name), ctypes.byref(count))
        return list(values[:count.value]) if values else []

    def floats(self, name: str) -> list[Any]:
        """A list of floating-point numbers; empty if it is absent."""
        count = ctypes.c_size_t()
        values = lib.braid_attr_floats(self._pointer, encode_name(name), ctypes.byref(count))
        return list(values[:count.value]) if values else []


Infer = Callable[[Attributes, Sequence["Shaped | None"]], Sequence[Shaped]]
Compute = Callable[[Attributes, Sequence[Any], Sequence[Array]], None]


class CustomOps(Object):
    """A set of ops for graphs and imports that are given it (Graph.use_custom_ops).

        ops = braid.CustomOps()
        @ops.add("example.Cube", inputs=1)
        def cube(attributes, inputs, outputs):
            outputs[0][...] = inputs[0] ** 3
    """

    def __init__(self) -> None:
        pointer = out()
        check(ready().braid_custom_ops_create(None, ctypes.byref(pointer)))
        self._kept: list[Any] = []
        self._handle = Handle(pointer.value, lib.braid_custom_ops_release, self._kept)

    def add(self, name: str, *, inputs: int | tuple[int, int] = 1, outputs: int = 1,
            infer: Infer | None = None) -> Callable[[Compute], Compute]:
        """Makes an op of a function compute(attributes, inputs, outputs), which is given NumPy views of the memory that
        the inputs and outputs are in, valid while it runs, and fills the outputs. `inputs`: how many, or (least, most);
        an omitted one is None. `infer(attributes, inputs)` returns types and shapes of the outputs; without, they are
        those of the first input. Functions are called by several threads."""
        least, most = (inputs, inputs) if isinstance(inputs, int) else inputs

        def decorate(compute: Compute) -> Compute:
            self._add(name, least, most, outputs, infer or _as_first(outputs), compute)
            return compute

        return decorate

    def _add(self, name: str, least: int, most: int, outputs: int, infer: Infer, compute: Compute) -> None:
        handle, keep = self._held(), Keep()
        op = _abi.braid_custom_op()
        op.name = keep.text(name)
        op.min_inputs, op.max_inputs, op.outputs = least, most, outputs
        op.infer = field_type(_abi.braid_custom_op, "infer")(_inferring(name, infer))
        op.compute = field_type(_abi.braid_custom_op, "compute")(_computing(compute))
        check(lib.braid_custom_ops_add(handle.pointer, ctypes.byref(op)))
        self._kept.append((op, keep))

    def use(self, graph: Graph) -> Graph:
        """Nodes that are added to the graph from now on may be of these ops."""
        handle = self._held()
        with graph._use() as pointer:
            lib.braid_graph_use_custom_ops(pointer, handle.pointer)
            graph._held().hold(handle)
        return graph


def _as_first(outputs: int) -> Infer:
    def infer(attributes: Attributes, inputs: Sequence[Shaped | None]) -> list[Shaped]:
        if not inputs or inputs[0] is None:
            raise InvalidArgumentError("the first input is omitted")
        return [inputs[0]] * outputs

    return infer


def _inferring(name: str, infer: Infer) -> Callable[..., int]:
    def call(attrs: int, inputs: int, input_count: int, outputs: int, output_count: int) -> None:
        descs = (ctypes.POINTER(_abi.braid_desc) * max(1, input_count)).from_address(inputs)
        given = [Shaped(NAMES[desc.contents.dtype], fixed_shape(desc.contents)) if desc else None
                 for desc in descs[:input_count]]
        made = list(infer(Attributes(attrs), given))
        if len(made) != output_count:
            raise InvalidArgumentError(f"{name}: infer gives {len(made)} outputs, expected {output_count}")
        results = (_abi.braid_desc * output_count).from_address(outputs)
        for index, shaped in enumerate(made):
            results[index] = desc_of(shaped.dtype, shaped.shape)

    return returning_status(call)


def _computing(compute: Compute) -> Callable[..., int]:
    def call(attrs: int, inputs: int, input_count: int, outputs: int, output_count: int) -> None:
        attributes, thread = Attributes(attrs), threading.get_ident()
        depth = running_ops.get(thread, 0)
        try:
            running_ops[thread] = depth + 1
            # Tuples: an array that is put in the place of an output would be lost.
            compute(attributes, tuple(_array(inputs, index, False) for index in range(input_count)),
                    tuple(_needed(_array(outputs, index, True)) for index in range(output_count)))
        finally:
            if depth:
                running_ops[thread] = depth
            else:
                running_ops.pop(thread, None)

    return returning_status(call)


def _needed(array: Array | None) -> Array:
    if array is None:
        raise UnsupportedError("an output is omitted")
    return array


def _array(arrays: int, index: int, writable: bool) -> Array | None:
    one = _abi.braid_custom_array.from_address(arrays + index * ctypes.sizeof(_abi.braid_custom_array))
    if not one.desc:
        return None
    desc = one.desc.contents
    kind = numpy_dtype(NAMES[desc.dtype])
    if kind is None:
        raise UnsupportedError(f"an array is {NAMES[desc.dtype]}, which NumPy has with the package ml_dtypes only")
    size = lib.braid_desc_bytes(one.desc)
    memory = Memory(one.data or ctypes.addressof(desc), size, None, not writable)
    return np.asarray(memory).view(kind).reshape(fixed_shape(desc))
