"""Graphs: models as they are loaded, built, differentiated and saved."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _abi
from ._arrays import NAMES, check_outputs, copy_out, desc_of, make_tensor, plain_attribute, shape_of, whole
from ._library import (Handle, Keep, Object, check, encode, encode_name, enum_names, enum_value, lib, out, ready, text,
                       text_or_none)
from .errors import InvalidArgumentError, InvalidGraphError
from .machine import LOG
from .plan import ValueInfo

if TYPE_CHECKING:
    from .custom import CustomOps

_KINDS = enum_names("braid_value_kind", "BRAID_VALUE_")


@dataclass(frozen=True)
class Value:
    """A value of a graph. It is known by its name, so it stays valid when the graph is resolved or differentiated, as
    long as something depends on it."""

    graph: Graph
    name: str

    @property
    def id(self) -> int:
        """Its index in the graph, as it is now."""
        return self.graph._find(self.name)

    def _info(self) -> Any:
        return self.graph._info(self.name)

    @property
    def kind(self) -> str:
        """"result", "input", "constant", "parameter" or "state"."""
        return _KINDS[self._info().kind]

    @property
    def dtype(self) -> str | None:
        """None: not known yet."""
        return NAMES[self._info().desc.dtype] if self._info().desc.dtype else None

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """None in it: a dynamic dimension. None: not known yet."""
        return shape_of(self._info().desc)

    @property
    def fixed(self) -> str | None:
        """Why a constant is not trained, after make_trainable."""
        return text_or_none(self._info().fixed)

    def numpy(self) -> Any:
        """A copy of the contents of a constant, parameter or state."""
        with self.graph._use() as pointer:
            info = lib.braid_graph_value(pointer, self.graph._find(self.name))
            if not info.tensor:
                raise InvalidArgumentError(f"value {self.name!r} is no constant, parameter or state and holds nothing")
            return copy_out(lib.braid_tensor_const_data(info.tensor), lib.braid_tensor_desc(info.tensor).contents,
                            f"value {self.name!r}")

    def __repr__(self) -> str:
        return f"<braid.Value {self.name!r}>"

    def __hash__(self) -> int:
        return hash((id(self.graph), self.name))


@dataclass(frozen=True)
class Node:
    """A node of a graph: what it was when it was asked for. An omitted input or output is None. `macs`:
    multiply-accumulate operations; 0 where a dimension is not known, as before the graph is resolved."""

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    macs: int


class Graph(Object):
    """A model as a directed acyclic graph of ops over values (docs/ops.md lists the ops). Several threads may use one,
    one after the other."""

    def __init__(self, name: str = "graph") -> None:
        pointer = out()
        check(ready().braid_graph_create(None, encode_name(name), ctypes.byref(pointer)))
        self._adopt(pointer)

    def _adopt(self, pointer: Any, *keeps: Any) -> None:
        self._handle = Handle(pointer.value, lib.braid_graph_destroy, *keeps)
        self._lock = threading.RLock()

    @classmethod
    def _from(cls, pointer: Any, *keeps: Any) -> Graph:
        graph = cls.__new__(cls)
        graph._adopt(pointer, *keeps)
        return graph

    @contextlib.contextmanager
    def _use(self) -> Iterator[int | None]:
        """The pointer, for this thread alone."""
        with self._lock:
            handle = self._held()
            yield handle.pointer

    def __repr__(self) -> str:
        return "<braid.Graph, closed>" if self.closed else f"<braid.Graph {self.name!r}, {len(self.nodes())} nodes>"

    # --- files ---
    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as an ONNX file."""
        with self._use() as pointer:
            check(lib.braid_model_save_onnx(pointer, encode(path)))

    def clone(self) -> Graph:
        """A copy of the structure; tensors are shared."""
        made = out()
        with self._use() as pointer:
            check(lib.braid_graph_clone(pointer, ctypes.byref(made)))
            return Graph._from(made, self._held().keeps)

    # --- what is in it ---
    @property
    def name(self) -> str:
        """Its name."""
        with self._use() as pointer:
            return text(lib.braid_graph_name(pointer))

    def value(self, name: str) -> Value:
        """The value of this name."""
        self._find(name)
        return Value(self, name)

    def values(self) -> list[Value]:
        """All values."""
        with self._use() as pointer:
            return [self._value(index) for index in range(lib.braid_graph_value_count(pointer))]

    def nodes(self) -> list[Node]:
        """All nodes, in topological order."""
        with self._use() as pointer:
            return [self._node(pointer, index) for index in range(lib.braid_graph_node_count(pointer))]

    def _node(self, pointer: Any, index: int) -> Node:
        info = lib.braid_graph_node(pointer, index)
        return Node(text(info.name), text(info.op),
                    tuple(self._name(info.inputs[place]) for place in range(info.input_count)),
                    tuple(self._name(info.outputs[place]) for place in range(info.output_count)),
                    lib.braid_graph_node_macs(pointer, index))

    def _name(self, index: int) -> str | None:
        return None if index < 0 else self._value(index).name

    def _value(self, index: int) -> Value:
        with self._use() as pointer:
            return Value(self, text(lib.braid_graph_value(pointer, index).name))

    def _find(self, name: str) -> int:
        with self._use() as pointer:
            index = lib.braid_graph_find_value(pointer, encode_name(name))
        if index < 0:
            raise InvalidArgumentError(f"the graph has no value {name!r}; what no output depends on is removed when a "
                                       "graph is resolved or differentiated")
        return int(index)

    def _info(self, name: str) -> Any:
        with self._use() as pointer:
            return lib.braid_graph_value(pointer, self._find(name))

    @property
    def inputs(self) -> list[ValueInfo]:
        """What runs are given."""
        return self._ends(lib.braid_graph_input_count, lib.braid_graph_input)

    @property
    def outputs(self) -> list[ValueInfo]:
        """What runs give."""
        return self._ends(lib.braid_graph_output_count, lib.braid_graph_output)

    def _ends(self, count: Any, get: Any) -> list[ValueInfo]:
        infos = []
        with self._use() as pointer:
            for index in range(count(pointer)):
                info = lib.braid_graph_value(pointer, get(pointer, index))
                infos.append(ValueInfo(text(info.name), NAMES[info.desc.dtype], shape_of(info.desc)))
        return infos

    def _input_names(self) -> list[str]:
        return [info.name for info in self.inputs]

    def _output_names(self) -> list[str]:
        return [info.name for info in self.outputs]

    # --- building ---
    def input(self, name: str, dtype: Any, shape: Sequence[int | None]) -> Value:
        """Adds an input; None is a dynamic dimension."""
        desc, made = desc_of(dtype, shape), ctypes.c_int32()
        with self._use() as pointer:
            check(lib.braid_graph_add_input(pointer, encode_name(name), ctypes.byref(desc), ctypes.byref(made)))
            return self._value(made.value)

    def constant(self, value: Any, name: str = "", dtype: str | None = None) -> Value:
        """Adds a constant: a copy of an array, a number or a list."""
        return self._tensor(value, name, dtype, _abi.BRAID_VALUE_CONSTANT)

    def parameter(self, value: Any, name: str = "", dtype: str | None = None) -> Value:
        """Adds a trainable parameter with its first value."""
        return self._tensor(value, name, dtype, _abi.BRAID_VALUE_PARAMETER)

    def state(self, value: Any, name: str = "", dtype: str | None = None) -> Value:
        """Adds a tensor that is kept from step to step and not trained."""
        return self._tensor(value, name, dtype, _abi.BRAID_VALUE_STATE)

    def _tensor(self, value: Any, name: str, dtype: str | None, kind: int) -> Value:
        if dtype is None and isinstance(value, (float, list, tuple)) and not _integers(value):
            dtype = "float32"  # what networks compute in, not Python's float64
        tensor, made = make_tensor(value, dtype, f"tensor {name!r}"), ctypes.c_int32()
        with self._use() as pointer:
            check(lib.braid_graph_add_tensor(pointer, encode_name(name), kind, tensor.pointer, ctypes.byref(made)))
            return self._value(made.value)

    @overload
    def add_node(self, op: str, inputs: Sequence[Value | None] | Value = ..., *, name: str = ...,
                 outputs: Literal[1] = ..., **attributes: Any) -> Value: ...

    @overload
    def add_node(self, op: str, inputs: Sequence[Value | None] | Value = ..., *, name: str = ..., outputs: int,
                 omit: Sequence[int] = ..., **attributes: Any) -> Any: ...

    def add_node(self, op: str, inputs: Sequence[Value | None] | Value = (), *, name: str = "", outputs: int = 1,
                 omit: Sequence[int] = (), **attributes: Any) -> Any:
        """Adds a node and returns its output, or a tuple of its outputs; those in `omit` are left out (None). An input
        of None is an omitted one. Attributes are ONNX's: numbers, texts, lists of them, arrays. One that the op does
        not take is an error, and the node is then there without it: give up the graph."""
        values = [inputs] if isinstance(inputs, Value) else list(inputs)
        check_outputs(outputs)
        for value in values:
            if value is not None and value.graph is not self:
                raise InvalidArgumentError(f"value {value.name!r} is of another graph")
        node = ctypes.c_int32()
        made = (ctypes.c_int32 * max(1, outputs))(*[-1 if index in omit else 0 for index in range(outputs)])
        with self._use() as pointer:
            ids = (ctypes.c_int32 * max(1, len(values)))(*[-1 if value is None else value.id for value in values])
            check(lib.braid_graph_add_node(pointer, encode_name(op), encode_name(name), ids, len(values), made,
                                           outputs, ctypes.byref(node)))
            for key, value in attributes.items():
                set_attribute(pointer, node.value, key, value)
            results = [None if made[index] < 0 else self._value(made[index]) for index in range(outputs)]
        return results[0] if outputs == 1 else tuple(results)

    def output(self, value: Value, name: str | None = None) -> Value:
        """Makes a value an output, which has the name that is given: the result of a node is renamed; anything else, and
        what is an output already, keeps its own name, and the output is an Identity of it."""
        with self._use() as pointer:
            if name is not None and name != value.name:
                if value.kind != "result" or value.name in self._output_names():
                    value = self.add_node("Identity", value)
                value = self.rename(value, name)
            check(lib.braid_graph_add_output(pointer, value.id))
        return value

    def rename(self, value: Value, name: str) -> Value:
        """Gives a value another name; the value that is returned has it."""
        with self._use() as pointer:
            check(lib.braid_graph_rename_value(pointer, value.id, encode_name(name)))
        return Value(self, name)

    def set_input_shape(self, name: str, shape: Sequence[int]) -> None:
        """The shape of an input, in place of the declared one."""
        dims = whole(shape, "the shape") or None
        with self._use() as pointer:
            check(lib.braid_graph_set_input_shape(pointer, self._find(name), len(shape), dims))

    def bind_input(self, name: str, value: Any) -> None:
        """Turns an input into a constant, where its contents determine shapes."""
        info = self.value(name)
        tensor = make_tensor(value, info.dtype, f"input {name!r}")
        with self._use() as pointer:
            check(lib.braid_graph_bind_input(pointer, self._find(name), tensor.pointer))

    @property
    def precision(self) -> str:
        """In which models, sessions and gradients made of the graph compute: "float32", "tf32", "bfloat16" or
        "float16" (docs/training.md)."""
        with self._use() as pointer:
            return enum_names("braid_precision", "BRAID_")[ready().braid_graph_precision(pointer)]

    @precision.setter
    def precision(self, name: str) -> None:
        with self._use() as pointer:
            value = enum_value("braid_precision", "BRAID_", name, "precision")
            check(ready().braid_graph_set_precision(pointer, value))

    # --- what is made of it ---
    def resolve(self) -> Graph:
        """Infers all shapes and folds what does not depend on inputs; a dynamic batch becomes 1."""
        with self._use() as pointer:
            check(ready().braid_resolve(pointer))
        return self

    def make_trainable(self) -> Graph:
        """Makes parameters of the constants that an exported model was trained to, before it is resolved."""
        with self._use() as pointer:
            check(lib.braid_graph_make_trainable(pointer))
        return self

    def gradients(self, loss: Value, of: Sequence[Value]) -> list[Value | None]:
        """Adds the nodes that compute the gradients of a value of one element; None where it does not depend."""
        made = (ctypes.c_int32 * max(1, len(of)))()
        with self._use() as pointer:
            ids = (ctypes.c_int32 * max(1, len(of)))(*[value.id for value in of])
            check(lib.braid_graph_gradients(pointer, loss.id, ids, len(of), made))
            return [None if index < 0 else self._value(index) for index in made[:len(of)]]

    def update_state(self, state: Value, new: Value) -> None:
        """`new` is the value of a parameter or state after each run."""
        with self._use() as pointer:
            check(lib.braid_graph_update_state(pointer, state.id, new.id))


def _integers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_integers(element) for element in value)
    return isinstance(value, int)


def set_attribute(pointer: int | None, node: int, name: str, value: Any) -> None:
    """Sets an attribute by the kind of its value."""
    key, value = encode_name(name), plain_attribute(value)
    if isinstance(value, (bool, int)):
        check(lib.braid_graph_set_int(pointer, node, key, whole([value], f"attribute {name!r}")[0]))
    elif isinstance(value, float):
        check(lib.braid_graph_set_float(pointer, node, key, value))
    elif isinstance(value, str):
        check(lib.braid_graph_set_string(pointer, node, key, encode_name(value)))
    elif isinstance(value, (list, tuple)):
        _set_list(pointer, node, key, list(value))
    else:
        tensor = make_tensor(value, None, f"attribute {name!r}")
        check(lib.braid_graph_set_tensor(pointer, node, key, tensor.pointer))


def _set_list(pointer: int | None, node: int, key: bytes, values: list[Any]) -> None:
    count = len(values)
    if values and all(isinstance(value, str) for value in values):
        check(lib.braid_graph_set_strings(pointer, node, key, Keep().texts(values), count))
    elif any(isinstance(value, float) for value in values):
        check(lib.braid_graph_set_floats(pointer, node, key, (ctypes.c_float * max(1, count))(*values), count))
    elif all(isinstance(value, int) for value in values):
        check(lib.braid_graph_set_ints(pointer, node, key, whole(values, f"attribute {key.decode()!r}") or None, count))
    else:
        raise InvalidGraphError(f"attribute {key.decode()!r} is a list of {type(values[0]).__name__}, expected "
                                "numbers or texts")


def load_graph(model: str | os.PathLike[str] | bytes, *, weights: str | os.PathLike[str] | bytes | None = None,
               seed: int = 0, format: str | None = None, custom_ops: CustomOps | None = None) -> Graph:
    """Imports a model as a graph: the path of an ONNX file or of a Darknet .cfg, or its contents. `weights`: of a .cfg;
    without, they are random, by `seed`. `format`: of contents, "onnx" or "darknet". `custom_ops`: ops that
    ONNX does not define."""
    pointer, keep = out(), Keep()
    ops = custom_ops._held() if custom_ops is not None else None
    if isinstance(model, (bytes, bytearray, memoryview)):
        memory = _memory(bytes(model), weights, seed, format, keep)
        memory.custom_ops, memory.log = ops.pointer if ops else None, ctypes.pointer(LOG)
        check(ready().braid_model_parse(None, ctypes.byref(memory), ctypes.byref(pointer)))
    else:
        if format is not None:
            raise InvalidArgumentError(f"format is {format!r} and the model is a path, whose ending tells: it is of "
                                       "contents")
        if isinstance(weights, (bytes, bytearray, memoryview)):
            raise InvalidArgumentError("weights are contents and the model is a path, expected both to be the same")
        options = _abi.braid_model_options(keep.text(weights), seed, ops.pointer if ops else None, ctypes.pointer(LOG))
        check(ready().braid_model_load(None, encode(model), ctypes.byref(options), ctypes.byref(pointer)))
    return Graph._from(pointer, ops)


def _memory(data: bytes, weights: Any, seed: int, format: str | None, keep: Keep) -> Any:
    if format not in (None, "onnx", "darknet"):
        raise InvalidArgumentError(f"format is {format!r}, expected 'onnx' or 'darknet'")
    memory = _abi.braid_model_memory()
    keep.append(data)
    memory.data = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    memory.bytes = len(data)
    memory.format = _abi.BRAID_MODEL_DARKNET if format == "darknet" else _abi.BRAID_MODEL_ONNX
    memory.seed = seed
    if weights is not None:
        contents = weights if isinstance(weights, bytes) else bytes(weights)
        keep.append(contents)
        memory.weights = ctypes.cast(ctypes.c_char_p(contents), ctypes.c_void_p)
        memory.weights_bytes = len(contents)
    return memory
