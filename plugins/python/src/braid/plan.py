"""Plans, weights and executions: what a Model consists of, for programs that share them or run several at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _abi
from ._arrays import (NAMES, Located, array_desc, describe, empty, is_torch, locate, shape_of, wrap_tensor)
from ._library import (Exclusive, Handle, Object, check, check_run, close_at_exit, encode, encode_name, encode_or_none,
                       lib, out, outside_ops, process, ready, take_text, text, time_limit)
from .errors import ClosedError, InvalidArgumentError, UnsupportedError
from .machine import Machine

if TYPE_CHECKING:
    from .buffer import Buffer
    from .graph import Graph


@dataclass(frozen=True)
class ValueInfo:
    """An input or output: None in the shape is a dynamic dimension; a shape of None is not known before a run."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class PlanLine:
    """A task of a run, in the order of execution. median_us and energy_uj: None if they are unknown."""

    node: str
    op: str
    device: str
    kernel: str
    why: str
    median_us: float | None
    modelled: bool
    energy_uj: float | None


@dataclass(frozen=True)
class Offer:
    """A candidate for a task: a kernel of a device, or why it cannot run it. `us` is None if it is unknown."""

    device: str
    kernel: str
    op: str
    nodes: str
    why: str
    us: float | None
    measured: bool
    able: bool
    chosen: bool


def plan_line(line: Any) -> PlanLine:
    return PlanLine(text(line.node), text(line.op), text(line.device), text(line.kernel), text(line.why),
                    line.median_us if line.median_us >= 0 else None, line.modelled,
                    line.energy_uj if line.energy_uj >= 0 else None)


def plan_offer(offer: Any) -> Offer:
    return Offer(text(offer.device), text(offer.kernel), text(offer.op), text(offer.nodes), text(offer.why),
                 offer.us if offer.us >= 0 else None, offer.measured, offer.able, offer.chosen)


class Plan(Object):
    """A graph scheduled on a machine: device, kernel, layouts, memory and order of every node. Immutable.

    The arguments are those of braid_plan_options: `training` reads parameters from the weights at each run; `place` is
    "pattern=device ..."; `device_io` has inputs and outputs in the memory of the devices that use them; `explain` keeps
    all candidates, for offers()."""

    def __init__(self, machine: Machine, graph: Graph, *, training: bool = False, fusion: bool = True,
                 reuse: bool = True, place: str | None = None, loose_place: bool = False, device_io: bool = False,
                 explain: bool = False, weights: Weights | None = None) -> None:
        below = machine._held()
        shared = weights._held() if weights is not None else None
        options = _abi.braid_plan_options(training, not fusion, not reuse, encode_or_none(place), loose_place,
                                          device_io, explain, shared.pointer if shared else None)
        pointer = out()
        with graph._use() as model:
            check(ready().braid_plan_create(below.pointer, model, ctypes.byref(options), ctypes.byref(pointer)))
            self._set(pointer, machine, below, graph)

    def _set(self, pointer: Any, machine: Machine, below: Handle, graph: Graph) -> None:
        self._handle = Handle(pointer.value, lib.braid_plan_release, below, graph._held().keeps)
        self.machine = machine
        inputs, outputs = graph._input_names(), graph._output_names()
        self.inputs = _values(pointer, lib.braid_plan_input_count, lib.braid_plan_input, inputs)
        self.outputs = _values(pointer, lib.braid_plan_output_count, lib.braid_plan_output, outputs)

    @classmethod
    def load(cls, machine: Machine, graph: Graph, path: str | os.PathLike[str]) -> Plan:
        """Loads a saved plan. UnsupportedError names the first difference if it was made for another machine or
        graph."""
        return cls._load(machine, graph, lambda below, model, pointer: lib.braid_plan_load(
            below, model, encode(path), ctypes.byref(pointer)))

    @classmethod
    def decode(cls, machine: Machine, graph: Graph, data: bytes) -> Plan:
        """The same from memory."""
        return cls._load(machine, graph, lambda below, model, pointer: lib.braid_plan_decode(
            below, model, data, len(data), ctypes.byref(pointer)))

    @classmethod
    def _load(cls, machine: Machine, graph: Graph, load: Callable[[Any, Any, Any], int]) -> Plan:
        plan = cls.__new__(cls)
        below, pointer = machine._held(), out()
        ready()
        with graph._use() as model:
            check(load(below.pointer, model, pointer))
            plan._set(pointer, machine, below, graph)
        return plan

    def save(self, graph: Graph, path: str | os.PathLike[str]) -> None:
        """`graph`: the one that the plan was made from."""
        handle = self._held()
        with graph._use() as model:
            check(lib.braid_plan_save(handle.pointer, model, encode(path)))

    def encode(self, graph: Graph) -> bytes:
        """The same to memory."""
        handle, data, size = self._held(), out(), ctypes.c_size_t()
        with graph._use() as model:
            check(lib.braid_plan_encode(handle.pointer, model, None, ctypes.byref(data), ctypes.byref(size)))
        encoded = ctypes.string_at(data.value or 0, size.value)
        lib.braid_free(None, data)
        return encoded

    def lines(self) -> list[PlanLine]:
        """The tasks of a run in the order of execution."""
        handle = self._held()
        return [plan_line(lib.braid_plan_get_line(handle.pointer, index))
                for index in range(lib.braid_plan_line_count(handle.pointer))]

    def offers(self, line: int) -> list[Offer]:
        """The candidates for a task, of a plan made with `explain`."""
        handle = self._held()
        return [plan_offer(lib.braid_plan_get_offer(handle.pointer, line, index))
                for index in range(lib.braid_plan_offer_count(handle.pointer, line))]

    def explain(self, json: bool = False) -> str:
        """All that the plan has, as text or as JSON."""
        handle, value = self._held(), out()
        check(lib.braid_plan_print(handle.pointer, json, None, ctypes.byref(value)))
        return take_text(value)

    def compare(self, other: Plan) -> str:
        """A line for each of the first 20 differences; "": there is none."""
        handle, below, value = self._held(), other._held(), out()
        check(lib.braid_plan_compare(handle.pointer, below.pointer, None, ctypes.byref(value)))
        return take_text(value)

    @property
    def arena_bytes(self) -> int:
        """Of activations and workspace."""
        handle = self._held()
        return int(lib.braid_plan_arena_bytes(handle.pointer))

    def input_device(self, index: int) -> str | None:
        """Where the plan expects an input; None: in host memory."""
        handle = self._held()
        return text(lib.braid_plan_input_device(handle.pointer, index)) or None

    def output_device(self, index: int) -> str | None:
        """Where the plan leaves an output; None: in host memory."""
        handle = self._held()
        return text(lib.braid_plan_output_device(handle.pointer, index)) or None

    def execution(self, weights: Weights | None = None) -> Execution:
        """An execution of this plan."""
        return Execution(self, weights)


def _values(pointer: Any, count: Any, get: Any, names: Sequence[str]) -> list[ValueInfo]:
    infos = []
    for index in range(count(pointer)):
        desc = get(pointer, index).contents
        infos.append(ValueInfo(names[index], NAMES[desc.dtype], shape_of(desc)))
    return infos


class Weights(Object):
    """Parameters, states and packed constants, stored once for all plans and executions that are given them."""

    def __init__(self, machine: Machine) -> None:
        below, pointer = machine._held(), out()
        check(ready().braid_weights_create(below.pointer, ctypes.byref(pointer)))
        self._handle = Handle(pointer.value, lib.braid_weights_release, below)
        self.machine = machine

    @property
    def nbytes(self) -> int:
        """On all devices."""
        handle = self._held()
        return int(lib.braid_weights_bytes(handle.pointer))

    def read(self, name: str, into: Any) -> Any:
        """Copies a parameter or state of training plans into an array of its type and shape, which is returned."""
        handle, place = self._held(), locate(into, what="the array", writable=True)
        tensor = wrap_tensor(place)
        check(lib.braid_weights_read(handle.pointer, encode_name(name), tensor.pointer))
        return into

    def write(self, name: str, value: Any) -> None:
        """Copies an array of its type and shape to a parameter or state."""
        handle, place = self._held(), locate(value)
        tensor = wrap_tensor(place)
        check(lib.braid_weights_write(handle.pointer, encode_name(name), tensor.pointer))


Outputs = Any  # an array, or a tuple of arrays


class Arrays:
    """The inputs and outputs of a run as addresses, and what keeps them valid."""

    __slots__ = ("inputs", "outputs", "owners", "results")

    def __init__(self, inputs: Any, outputs: Any, owners: list[Any], results: list[Any]) -> None:
        self.inputs, self.outputs, self.owners, self.results = inputs, outputs, owners, results

    def value(self) -> Outputs:
        return self.results[0] if len(self.results) == 1 else tuple(self.results)


def by_name(values: Mapping[str, Any], expected: Sequence[ValueInfo], what: str) -> list[Any]:
    """The values of a dict in the order of the graph."""
    names = [info.name for info in expected]
    for name in values:
        if name not in names:
            raise InvalidArgumentError(f"there is no {what} {name!r}; there are {', '.join(map(repr, names))}")
    missing = [name for name in names if name not in values]
    if missing:
        raise InvalidArgumentError(f"{what} {missing[0]!r} is not given; there are {', '.join(map(repr, names))}")
    return [values[name] for name in names]


def input_list(inputs: Sequence[Any], expected: Sequence[ValueInfo]) -> Sequence[Any]:
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return by_name(inputs[0], expected, "input")
    if len(inputs) != len(expected):
        raise InvalidArgumentError(f"{len(inputs)} inputs are given, expected {len(expected)}: "
                                   f"{', '.join(repr(info.name) for info in expected)}")
    return inputs


def check_place(place: Located, info: ValueInfo, what: str) -> None:
    """Type and shape of an array are those of the plan."""
    if place.dtype != info.dtype:
        raise InvalidArgumentError(f"{what} {info.name!r} is {describe(place.dtype, place.shape)}, expected "
                                   f"{info.dtype}: convert it first, as with astype")
    if place.shape != info.shape:
        raise InvalidArgumentError(f"{what} {info.name!r} is {describe(place.dtype, place.shape)}, expected "
                                   f"{describe(info.dtype, info.shape or ())}")


def byte_size(info: ValueInfo) -> int:
    desc = array_desc(info.dtype, tuple(size or 0 for size in info.shape or ()))
    return int(lib.braid_desc_bytes(ctypes.byref(desc)))


Ends = tuple[Any, Sequence[ValueInfo], Sequence[int]]  # addresses, what they are, and how many bytes


def refuse_overlap(inputs: Ends, outputs: Ends) -> None:
    """No output is in the memory of an input or of another output: kernels read while they write."""
    taken: list[tuple[int, int, str, str]] = []
    for what, ends in (("input", inputs), ("output", outputs)):
        for start, info, size in zip(*ends):
            if not start or not size:
                continue
            if what == "output":
                for first, end, other, name in taken:
                    if start < end and first < start + size:
                        raise InvalidArgumentError(f"output {info.name!r} overlaps {other} {name!r} in memory, "
                                                   "expected an array of its own")
            taken.append((start, start + size, what, info.name))


def output_list(given: Any, count: int) -> list[Any]:
    """What `out` says, one array or several, as a list."""
    if given is None:
        return [None] * count
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    if len(values) != count:
        raise InvalidArgumentError(f"out has {len(values)} arrays, expected {count}")
    return values


def gather(inputs: Sequence[Any], expected: Sequence[ValueInfo], results: Sequence[ValueInfo], given: Any,
           machine: Machine) -> Arrays:
    """Addresses of all inputs and outputs of a run; outputs that are not given are made."""
    inputs = input_list(inputs, expected)
    addresses = (ctypes.c_void_p * max(1, len(expected)))()
    owners: list[Any] = []
    for index, (value, info) in enumerate(zip(inputs, expected)):
        place = locate(value, info.dtype, f"input {info.name!r}")
        check_place(place, info, "input")
        addresses[index] = place.address
        owners.append(place.owner)
    targets, made = (ctypes.c_void_p * max(1, len(results)))(), []
    like_torch = bool(inputs) and is_torch(inputs[0])
    for index, (info, array) in enumerate(zip(results, output_list(given, len(results)))):
        if array is None:
            array = make_output(info, like_torch, machine)
        place = locate(array, None, f"output {info.name!r}", True, False)
        check_place(place, info, "output")
        targets[index] = place.address
        owners.append(place.owner)
        made.append(array)
    if given is not None:
        refuse_overlap((addresses, expected, [byte_size(info) for info in expected]),
                       (targets, results, [byte_size(info) for info in results]))
    return Arrays(addresses, targets, owners, made)


def make_output(info: ValueInfo, like_torch: bool, machine: Machine) -> Any:
    shape = [size or 0 for size in info.shape or ()]
    array = empty(info.dtype, shape, like_torch)
    if array is None:
        from .buffer import Buffer

        array = Buffer.empty(shape, info.dtype, machine=machine)
    return array


class Execution(Exclusive):
    """The activations and tasks of a run of a plan. Several may be in flight; each is used by one thread at a time."""

    def __init__(self, plan: Plan, weights: Weights | None = None) -> None:
        below = plan._held()
        shared = weights._held() if weights is not None else None
        pointer = out()
        check(ready().braid_execution_create(below.pointer, shared.pointer if shared else None, ctypes.byref(pointer)))
        # The arrays of the run in flight: the handle has them, which waits for its end before it lets them go.
        self._flying: list[Arrays] = []
        self._own(Handle(pointer.value, lib.braid_execution_destroy, below, shared, self._flying))
        self.plan = plan
        self._cancelling = threading.Lock()
        self._bound: dict[tuple[bool, int], Buffer] = {}
        self._held_bound: dict[tuple[bool, int], Handle | None] = {}
        close_at_exit(self)

    def run(self, *inputs: Any, out: Any = None) -> Outputs:
        """Runs the plan and returns its output, or a tuple of its outputs."""
        self.submit(*inputs, out=out)
        return self.wait()

    def submit(self, *inputs: Any, out: Any = None) -> None:
        """Starts a run and returns; the arrays must not change until wait has returned. Without inputs, and for all
        that buffers are bound to, the bound buffers are used."""
        outside_ops(self.plan.machine.shared)
        with self._alone() as handle:
            arrays = self._gather(inputs, out)
            check(lib.braid_execution_submit(handle.pointer, arrays.inputs, arrays.outputs, None, None))
            self._flying[:] = [arrays]

    def _gather(self, inputs: Sequence[Any], given: Any) -> Arrays:
        if not self._bound:
            return gather(inputs, self.plan.inputs, self.plan.outputs, given, self.plan.machine)
        asked = [info for index, info in enumerate(self.plan.inputs) if (True, index) not in self._bound]
        results = [info for index, info in enumerate(self.plan.outputs) if (False, index) not in self._bound]
        free = gather(inputs, asked, results, given, self.plan.machine)
        for is_input, infos, array in ((True, self.plan.inputs, "inputs"), (False, self.plan.outputs, "outputs")):
            addresses, source, taken = (ctypes.c_void_p * max(1, len(infos)))(), getattr(free, array), 0
            for index in range(len(infos)):
                if (is_input, index) not in self._bound:
                    addresses[index] = source[taken]
                    taken += 1
            setattr(free, array, addresses)
        refuse_overlap(self._ends(True, self.plan.inputs, free.inputs), self._ends(False, self.plan.outputs, free.outputs))
        made = iter(free.results)
        free.results = [self._bound.get((False, index)) or next(made) for index in range(len(self.plan.outputs))]
        return free

    def _ends(self, is_input: bool, infos: Sequence[ValueInfo], addresses: Any) -> Ends:
        """Where the inputs or outputs are in host memory, those in bound buffers included."""
        places = list(addresses[:len(infos)])
        for index in range(len(infos)):
            held = self._held_bound.get((is_input, index))
            if held is not None:
                places[index] = lib.braid_buffer_host(held.pointer)
        return places, infos, [byte_size(info) for info in infos]

    def wait(self, timeout: float | None = None) -> Outputs:
        """Waits for the end of the run and returns its outputs. TimedOutError after `timeout` seconds (0: at once): it
        is still in flight."""
        limit = time_limit(timeout, 10**9, True)
        with self._alone() as handle:
            arrays = self._flying[0] if self._flying else None
            status = lib.braid_execution_wait(handle.pointer, limit)
            check_run(status, arrays)
            assert arrays is not None
            self._flying.clear()
            return arrays.value()

    def cancel(self) -> None:
        """Cancels what has not started; the run then ends with CancelledError. Any thread."""
        with self._cancelling:
            lib.braid_execution_cancel(self._held().pointer)

    def close(self) -> None:
        """Cancels a run in flight, waits for its end, and frees the execution."""
        if not process.forked:
            with contextlib.suppress(ClosedError):  # by now, by another thread
                self.cancel()
        super().close()

    def _destroy(self, handle: Handle) -> None:
        with self._cancelling:
            handle.destroy()

    def bind_input(self, index: int, buffer: Buffer | None) -> None:
        """Binds a buffer to an input for the following runs; None unbinds."""
        self._bind(True, index, buffer, lib.braid_execution_bind_input)

    def bind_output(self, index: int, buffer: Buffer | None) -> None:
        """Binds a buffer to an output for the following runs; None unbinds."""
        if getattr(buffer, "read_only", False):
            raise InvalidArgumentError("the buffer is read-only")
        self._bind(False, index, buffer, lib.braid_execution_bind_output)

    def _bind(self, is_input: bool, index: int, buffer: Buffer | None, bind: Any) -> None:
        from .buffer import Buffer as Kind

        if buffer is not None and not isinstance(buffer, Kind):
            raise InvalidArgumentError(f"a {type(buffer).__name__} cannot be bound, expected a Buffer: Buffer.of(array) is "
                                       "one in the memory of an array")
        with self._alone() as handle:
            below = buffer._held() if buffer is not None else None
            check(bind(handle.pointer, index, below.pointer if below is not None else None))
            # The memory of an array stays, too, where the buffer over it is closed or the execution goes in a run.
            before, self._held_bound[is_input, index] = self._held_bound.get((is_input, index)), below
            if below is not None:
                handle.hold(below)
            if before is not None:
                handle.let_go(before)
            if buffer is None:
                self._bound.pop((is_input, index), None)
            else:
                self._bound[is_input, index] = buffer


def plan_file_text(path: str | os.PathLike[str], json: bool = False) -> str:
    """What a saved plan has, without the machine and graph that it was made for."""
    value = out()
    check(ready().braid_plan_file_print(encode(path), json, None, ctypes.byref(value)))
    return take_text(value)


def refuse_unknown(options: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    for name in options:
        if name not in allowed:
            raise UnsupportedError(f"{what} has no option {name!r}; it has {', '.join(allowed)}")
