"""Models: loaded, and run at any batch size by any number of threads."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import (DATA_AT, DATA_IS_THERE, _read_address, describe, is_torch, locate, numpy_dtype,
                      torch as loaded_torch)
from ._library import (FORKED, Handle, Object, check, check_run, lib, out as room, outside_ops, process, ready,
                       running_ops)
from .custom import CustomOps
from .errors import DeviceLostError, Error, ForkedError, InvalidArgumentError, OutOfMemoryError
from .graph import Graph, load_graph
from .machine import Machine, machine as shared_machine
from .plan import (Plan, PlanLine, ValueInfo, Weights, by_name, byte_size, check_place, make_output, output_list,
                   refuse_overlap)

_ndarray = np.ndarray
_empty = np.empty
_run = lib.braid_execution_run


# Tried where a batch of one is refused; the last one is a multiple of all others.
_OTHER_BATCHES = (2, 3, 4, 5, 6, 7, 8, 840)


class _Slot:
    """An execution, and the addresses that it is run with. One thread at a time has it."""

    __slots__ = ("handle", "pointer", "inputs", "outputs")

    def __init__(self, plan: Handle, weights: Handle, inputs: int, outputs: int) -> None:
        pointer = room()
        check(ready().braid_execution_create(plan.pointer, weights.pointer, ctypes.byref(pointer)))
        self.handle = Handle(pointer.value, lib.braid_execution_destroy, plan, weights)
        self.pointer = ctypes.c_void_p(pointer.value)
        self.inputs = (ctypes.c_void_p * max(1, inputs))()
        self.outputs = (ctypes.c_void_p * max(1, outputs))()


class _Shaped:
    """The plan for given shapes of the inputs, its types, and the slots that no thread has."""

    __slots__ = ("plan", "weights", "inputs", "outputs", "input_types", "output_makers", "sizes", "near", "free",
                 "used", "quick", "_torch_types")

    def __init__(self, plan: Plan, weights: Weights) -> None:
        self.plan, self.weights = plan._held(), weights._held()
        self.inputs, self.outputs = plan.inputs, plan.outputs
        self.input_types = [numpy_dtype(info.dtype) for info in plan.inputs]
        self.output_makers: list[tuple[Any, Any]] = [(info.shape, numpy_dtype(info.dtype)) for info in plan.outputs]
        self.sizes = [byte_size(info) for info in plan.inputs], [byte_size(info) for info in plan.outputs]
        # How far an input and an output may be from each other and overlap; other numbers of both: any distance.
        one_each = len(plan.inputs) == len(plan.outputs) == 1
        self.near = (-self.sizes[0][0], self.sizes[1][0]) if one_each else (-math.inf, math.inf)
        self.free: list[_Slot] = []
        self.used = 0
        self._torch_types: Any = None
        self.quick = DATA_IS_THERE and all(dtype is not None for _, dtype in self.output_makers)
        self.free.append(self.slot())

    def takes(self, given: Sequence[Any]) -> bool:
        """Whether these are arrays of NumPy's that results can be written to as they are."""
        if len(given) != len(self.output_makers):
            return False
        for array, (shape, dtype) in zip(given, self.output_makers):
            if type(array) is not _ndarray or array.dtype is not dtype or array.shape != shape:
                return False
            flags = array.flags
            if not flags.c_contiguous or not flags.writeable:
                return False
        return True

    def refuse_overlap(self, slot: _Slot) -> None:
        """plan.refuse_overlap; the usual case, one input and one output, in the least time."""
        least, most = self.near
        if least < (slot.inputs[0] or 0) - (slot.outputs[0] or 0) < most:
            refuse_overlap((slot.inputs, self.inputs, self.sizes[0]), (slot.outputs, self.outputs, self.sizes[1]))

    def torch_types(self, torch: Any) -> Any:
        """PyTorch's types of inputs and outputs; None: it lacks one."""
        if self._torch_types is None:
            types = [[getattr(torch, info.dtype, None) for info in infos] for infos in (self.inputs, self.outputs)]
            self._torch_types = types if None not in types[0] + types[1] else []
        return self._torch_types or None

    def slot(self) -> _Slot:
        return _Slot(self.plan, self.weights, len(self.inputs), len(self.outputs))


class Model(Object):
    """A model that is ready to run: `model(x)`, `model.run(a, b)`, `model.run({"name": x})`.

    Inputs are NumPy arrays, PyTorch tensors or anything with DLPack, used where they are; one that is not row-major is
    copied. The output is an array, or a tuple if there are several: PyTorch tensors if the first input is one. For
    every combination of shapes a plan is made at its first run, over shared weights; `max_plans` are kept. Several
    threads may run a model at the same time."""

    def __init__(self, graph: Graph, device: str = "cpu", *, threads: int = 0, machine: Machine | None = None,
                 input_shapes: Mapping[str, Sequence[int | None]] | None = None, place: str | None = None,
                 fusion: bool = True, reuse: bool = True, max_plans: int = 16) -> None:
        if max_plans < 1:
            raise InvalidArgumentError(f"max_plans is {max_plans}, expected at least 1")
        self.machine = shared_machine(device, threads) if machine is None else machine
        self._graph = graph.clone()
        self._declared = self._graph.inputs
        for name, shape in (input_shapes or {}).items():
            self._open(name, shape)
        self._weights = Weights(self.machine)
        self._options: dict[str, Any] = {"place": place, "fusion": fusion, "reuse": reuse}
        self._lock = threading.Lock()
        self._plans: dict[Any, _Shaped] = {}
        self._clock = 0
        self._max_plans = max_plans
        self._outputs = self._graph.outputs
        self._handle = self._weights._held()
        self._first()

    def _open(self, name: str, shape: Sequence[int | None]) -> None:
        """Another declared shape of an input; a plan is made for real ones only."""
        names = [info.name for info in self._declared]
        if name not in names:
            raise InvalidArgumentError(f"there is no input {name!r}; there are {', '.join(map(repr, names))}")
        index = names.index(name)
        self._declared[index] = ValueInfo(name, self._declared[index].dtype, tuple(shape))

    def _first(self) -> None:
        """The plan of a batch of one where that is all that is open: so a model that cannot run says so at once."""
        if any(info.shape is None or None in info.shape[1:] for info in self._declared):
            return
        open_batch = any(info.shape is not None and None in info.shape for info in self._declared)
        try:
            shaped = self._make(self._batch(1))
        except Error as problem:
            if not open_batch or isinstance(problem, (OutOfMemoryError, DeviceLostError)) or not self._other_batch():
                raise
            return
        self._outputs = [ValueInfo(made.name, made.dtype, known.shape if open_batch else made.shape)
                         for made, known in zip(shaped.outputs, self._outputs)]

    def _batch(self, size: int) -> tuple[tuple[int, ...], ...]:
        """The shapes of the inputs where open dimensions have this size."""
        return tuple(tuple(size if known is None else known for known in info.shape or ()) for info in self._declared)

    def _other_batch(self) -> bool:
        """Whether the model runs at a batch that is not one: an even one, or what shapes in the model divide."""
        for size in _OTHER_BATCHES:
            try:
                self.plan(*self._batch(size))
            except Error:
                continue
            return True
        return False

    @property
    def inputs(self) -> list[ValueInfo]:
        """Names, types and shapes of the inputs; None in a shape: any size."""
        return list(self._declared)

    @property
    def outputs(self) -> list[ValueInfo]:
        """Names, types and shapes of the outputs; a shape of None, or None in it: it follows from the inputs."""
        return list(self._outputs)

    def __repr__(self) -> str:
        if self.closed:
            return "<braid.Model, closed>"
        ends = [", ".join(f"{info.name}: {describe(info.dtype, info.shape) if info.shape is not None else info.dtype}"
                          for info in infos) for infos in (self._declared, self._outputs)]
        return f"<braid.Model ({ends[0]}) -> ({ends[1]})>"

    def close(self) -> None:
        """Gives up the model. Runs of other threads end as they would."""
        with self._lock:
            self._handle = None
            self._plans = {}
            self._weights.close()
            self._graph.close()

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """As run."""
        return self.run(*inputs, out=out)

    def run(self, *inputs: Any, out: Any = None) -> Any:
        """Runs the model. `out`: an array, or one for each output, that results are written to."""
        try:
            shaped = self._plans[inputs[0].shape if len(inputs) == 1 else
                                 tuple([value.shape for value in inputs]) or None]  # (): a number is the only input
        except (KeyError, AttributeError, TypeError, IndexError):
            inputs, shaped = self._find(inputs)
        if process.forked:
            raise ForkedError(FORKED)
        if running_ops:
            outside_ops(self.machine.shared)
        self._clock = shaped.used = self._clock + 1
        try:
            slot = shaped.free.pop()
        except IndexError:
            slot = shaped.slot()
        if not shaped.quick:
            return self._run_any(shaped, slot, inputs, out)
        # NumPy's arrays, in the least time; what follows is done for other arrays by _run_any.
        addresses, types, index = slot.inputs, shaped.input_types, 0
        for value in inputs:
            if type(value) is not _ndarray or value.dtype is not types[index] or not value.flags.c_contiguous:
                return self._run_other(shaped, slot, inputs, out)
            addresses[index] = _read_address(id(value) + DATA_AT).value
            index += 1
        addresses, results, index = slot.outputs, [], 0
        if out is not None:
            given = out if type(out) is tuple else (out,)
            if not shaped.takes(given):
                return self._run_any(shaped, slot, inputs, out)
        for shape, dtype in shaped.output_makers:
            array = _empty(shape, dtype) if out is None else given[index]
            addresses[index] = _read_address(id(array) + DATA_AT).value
            results.append(array)
            index += 1
        if out is not None:
            shaped.refuse_overlap(slot)
        status = _run(slot.pointer, slot.inputs, addresses)
        if status:
            check_run(status, inputs, results)  # the slot goes: a device that is lost takes no other run
        shaped.free.append(slot)
        return results[0] if index == 1 else tuple(results)

    def _run_other(self, shaped: _Shaped, slot: _Slot, inputs: Sequence[Any], out: Any) -> Any:
        """PyTorch's tensors in the least time, if that is what the inputs are."""
        torch, addresses = loaded_torch(), slot.inputs
        types = shaped.torch_types(torch) if torch is not None and out is None else None
        if types is None:
            return self._run_any(shaped, slot, inputs, out)
        for index, value in enumerate(inputs):
            if (type(value) is not torch.Tensor or value.dtype is not types[0][index] or not value.is_cpu
                    or not value.is_contiguous() or value.is_neg()):
                return self._run_any(shaped, slot, inputs, out)
            addresses[index] = value.data_ptr()
        addresses, results = slot.outputs, []
        for index, (shape, _) in enumerate(shaped.output_makers):
            tensor = torch.empty(shape, dtype=types[1][index])
            addresses[index] = tensor.data_ptr()
            results.append(tensor)
        status = _run(slot.pointer, slot.inputs, addresses)
        if status:
            check_run(status, inputs, results)
        shaped.free.append(slot)
        return results[0] if len(results) == 1 else tuple(results)

    def _run_any(self, shaped: _Shaped, slot: _Slot, inputs: Sequence[Any], out: Any) -> Any:
        owners: list[Any] = []
        try:
            self._place(shaped, slot, inputs, owners)
            results = self._results(shaped, slot, inputs, out, owners)
            if out is not None:
                shaped.refuse_overlap(slot)
        except BaseException:
            shaped.free.append(slot)
            raise
        status = _run(slot.pointer, slot.inputs, slot.outputs)
        if status:
            check_run(status, inputs, results, owners)
        shaped.free.append(slot)
        return results[0] if len(results) == 1 else tuple(results)

    def _place(self, shaped: _Shaped, slot: _Slot, inputs: Sequence[Any], owners: list[Any]) -> None:
        for index, (value, info) in enumerate(zip(inputs, shaped.inputs)):
            place = locate(value, info.dtype, f"input {info.name!r}")
            check_place(place, info, "input")
            slot.inputs[index] = place.address
            owners.append(place.owner)

    def _results(self, shaped: _Shaped, slot: _Slot, inputs: Sequence[Any], out: Any, owners: list[Any]) -> list[Any]:
        results: list[Any] = []
        given = output_list(out, len(shaped.outputs))
        like_torch = bool(inputs) and is_torch(inputs[0])
        for index, (info, array) in enumerate(zip(shaped.outputs, given)):
            if array is None:
                array = make_output(info, like_torch, self.machine)
            place = locate(array, None, f"output {info.name!r}", True, False)
            check_place(place, info, "output")
            slot.outputs[index] = place.address
            owners.append(place.owner)
            results.append(array)
        return results

    # --- plans ---
    def _find(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], _Shaped]:
        """The way of what is not found at once: lists and numbers, arrays of other libraries, new shapes."""
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            inputs = by_name(inputs[0], self._declared, "input")
        if len(inputs) != len(self._declared):
            self._held()
            raise InvalidArgumentError(f"{len(inputs)} inputs are given, expected {len(self._declared)}: "
                                       f"{', '.join(repr(info.name) for info in self._declared)}")
        values, shapes = [], []
        for value, info in zip(inputs, self._declared):
            if not hasattr(value, "dtype") or not hasattr(value, "shape"):
                value = locate(value, info.dtype, f"input {info.name!r}").owner
            values.append(value)
            shapes.append(tuple(int(size) for size in value.shape))
        return tuple(values), self._make(tuple(shapes))

    def _make(self, shapes: tuple[tuple[int, ...], ...]) -> _Shaped:
        with self._lock:
            self._held()
            # None, of a model without inputs: () is the shape of a number, and no inputs are not one number.
            key = shapes[0] if len(shapes) == 1 else shapes or None
            found = self._plans.get(key)
            if found is not None:
                return found
            for info, shape in zip(self._declared, shapes):
                self._check_shape(info, shape)
            graph = self._graph
            if any(info.shape != shape for info, shape in zip(graph.inputs, shapes)):
                graph = graph.clone()
                for info, shape in zip(self._declared, shapes):
                    graph.set_input_shape(info.name, shape)
            plan = Plan(self.machine, graph, **self._options)
            shaped = _Shaped(plan, self._weights)
            while len(self._plans) >= self._max_plans:
                oldest = min(self._plans, key=lambda key: self._plans[key].used)
                del self._plans[oldest]
            self._clock = shaped.used = self._clock + 1
            self._plans[key] = shaped
            return shaped

    def _check_shape(self, info: ValueInfo, shape: tuple[int, ...]) -> None:
        known = info.shape
        if known is None:
            return
        if len(known) != len(shape) or any(size is not None and size != given for size, given in zip(known, shape)):
            raise InvalidArgumentError(
                f"input {info.name!r} is {describe(info.dtype, shape)}, expected {describe(info.dtype, known)}; "
                "load the model with input_shapes to run it with other shapes")

    def plan(self, *shapes: Sequence[int], explain: bool = False) -> Plan:
        """A plan as the model makes it for inputs of these shapes; without, for a batch of one."""
        if not shapes:
            shapes = self._batch(1)
        if len(shapes) != len(self._declared):
            raise InvalidArgumentError(f"{len(shapes)} shapes are given, expected {len(self._declared)}")
        graph = self._graph.clone()
        for info, shape in zip(self._declared, shapes):
            self._check_shape(info, tuple(shape))
            graph.set_input_shape(info.name, shape)
        return Plan(self.machine, graph, explain=explain, **self._options)

    def lines(self, *shapes: Sequence[int]) -> list[PlanLine]:
        """The tasks of a run: what runs where, by which kernel."""
        return self.plan(*shapes).lines()

    @property
    def nbytes(self) -> int:
        """Of its weights, packed ones included."""
        return self._weights.nbytes


def load(model: str | os.PathLike[str] | bytes | Graph, device: str = "cpu", *, threads: int = 0,
         weights: str | os.PathLike[str] | bytes | None = None, seed: int = 0, format: str | None = None,
         machine: Machine | None = None, input_shapes: Mapping[str, Sequence[int | None]] | None = None,
         place: str | None = None, fusion: bool = True, reuse: bool = True, max_plans: int = 16,
         custom_ops: CustomOps | None = None) -> Model:
    """Loads a model to run it: an ONNX file or a Darknet .cfg by its path, the contents of one, or a Graph.

    `device`: specs separated by spaces, the first is preferred: "cpu", "opencl0 cpu". `threads`: of the CPU; 0: as many
    as the process may use. `input_shapes`: {"x": (None, 3, 32, 32)}, in place of the declared ones. Models of a process
    with the same devices and threads share a machine, unless one is given."""
    if isinstance(model, Graph):
        given = {"weights": weights, "seed": seed or None, "format": format, "custom_ops": custom_ops}
        for name, value in given.items():
            if value is not None:
                raise InvalidArgumentError(f"{name} is of files, and the model is a Graph, which has its own")
        graph = model
    else:
        graph = load_graph(model, weights=weights, seed=seed, format=format, custom_ops=custom_ops)
    return Model(graph, device, threads=threads, machine=machine, input_shapes=input_shapes, place=place,
                 fusion=fusion, reuse=reuse, max_plans=max_plans)


