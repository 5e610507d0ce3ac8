"""Sessions: a graph with its machine, plan, weights and execution in one, for graphs whose state changes from run to
run, and for traces, time limits and measured plans."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._arrays import NAMES, empty, locate, shape_of, wrap_tensor
from ._library import (Exclusive, Handle, Keep, check, check_run, encode_name, lib, out as room, outside_ops, process,
                       ready, text, time_limit)
from .errors import NotFoundError, UnsupportedError
from .graph import Graph
from .machine import Machine, default_registry, machine as shared_machine
from .plan import Offer, Outputs, Plan, PlanLine, ValueInfo, Weights, gather, plan_line, plan_offer


@dataclass(frozen=True)
class SessionStats:
    """Of a session's plan; prepare_ms was measured."""

    nodes: int
    conversions: int
    arena_bytes: int
    unshared_bytes: int
    parameter_bytes: int
    prepare_ms: float


class Session(Exclusive):
    """A graph prepared to run. It is used by one thread at a time: BusyError while another one is in a call.

    The options are those of braid_session_options: `training` keeps parameters and states from run to run; `timeout`
    (seconds, above 0) cancels a run that takes longer (TimedOutError); `trace` is the path of a Chrome/Perfetto trace;
    `load_plan` and `save_plan` are paths of saved plans."""

    def __init__(self, graph: Graph, device: str = "cpu", *, threads: int = 0, training: bool = False,
                 fusion: bool = True, reuse: bool = True, place: str | None = None, loose_place: bool = False,
                 explain: bool = False, trace: str | os.PathLike[str] | None = None, timeout: float | None = None,
                 machine: Machine | None = None, weights: Weights | None = None, plan: Plan | None = None,
                 load_plan: str | os.PathLike[str] | None = None,
                 save_plan: str | os.PathLike[str] | None = None) -> None:
        if machine is None:
            machine = plan.machine if plan is not None else weights.machine if weights is not None else \
                shared_machine(device, threads)
        keep, pointer = Keep(), room()
        handles = [thing._held() for thing in (machine, weights, plan) if thing is not None]
        options = _abi.braid_session_options()
        fill_session_options(options, keep, training=training, fusion=fusion, reuse=reuse, place=place,
                             loose_place=loose_place, explain=explain, trace=trace, timeout=timeout)
        options.machine = machine._held().pointer
        options.weights = weights._held().pointer if weights is not None else None
        options.plan = plan._held().pointer if plan is not None else None
        options.load_plan, options.save_plan = keep.text(load_plan), keep.text(save_plan)
        with graph._use() as model:
            check(ready().braid_session_create(model, ctypes.byref(options), ctypes.byref(pointer)))
            graph_handle = graph._held()
            self._stored = {value.name: ValueInfo(value.name, value.dtype or "", value.shape)
                            for value in graph.values() if value.kind in ("parameter", "state")}
        self._own(Handle(pointer.value, lib.braid_session_destroy, handles, graph_handle.keeps))
        self.machine = machine
        self.inputs = self._ends(lib.braid_session_input_count, lib.braid_session_input, lib.braid_session_input_name)
        self.outputs = self._ends(lib.braid_session_output_count, lib.braid_session_output,
                                  lib.braid_session_output_name)

    def _ends(self, count: Callable[[Any], int], get: Callable[[Any, int], Any],
              name: Callable[[Any, int], bytes | None]) -> list[ValueInfo]:
        handle, infos = self._held(), []
        for index in range(count(handle.pointer)):
            desc = get(handle.pointer, index).contents
            infos.append(ValueInfo(text(name(handle.pointer, index)), NAMES[desc.dtype], shape_of(desc)))
        return infos

    def run(self, *inputs: Any, out: Any = None) -> Outputs:
        """Runs the graph once: as Model.run, with the shapes that the session was made for."""
        outside_ops(self.machine.shared)
        with self._alone() as handle:
            arrays = gather(inputs, self.inputs, self.outputs, out, self.machine)
            check_run(lib.braid_session_run(handle.pointer, arrays.inputs, arrays.outputs), arrays)
            return arrays.value()

    def __call__(self, *inputs: Any, out: Any = None) -> Outputs:
        """As run."""
        return self.run(*inputs, out=out)

    def read(self, name: str, into: Any = None) -> Any:
        """A copy of a parameter or state; `into`: an array of its type and shape that takes it."""
        if into is None:
            if name not in self._stored:
                known = ", ".join(map(repr, self._stored)) or "none"
                raise NotFoundError(f"the session has no parameter or state {name!r}; the graph has {known}")
            info = self._stored[name]
            into = empty(info.dtype, [size or 0 for size in info.shape or ()])
            if into is None:
                raise UnsupportedError(f"{name!r} is {info.dtype}, which NumPy has with the package ml_dtypes only")
        tensor = wrap_tensor(locate(into, None, "the array", True, False))
        with self._alone() as handle:
            check(lib.braid_session_read(handle.pointer, encode_name(name), tensor.pointer))
        return into

    def write(self, name: str, value: Any) -> None:
        """Gives a parameter or state another value."""
        tensor = wrap_tensor(locate(value))
        with self._alone() as handle:
            check(lib.braid_session_write(handle.pointer, encode_name(name), tensor.pointer))

    def store(self, graph: Graph) -> None:
        """Gives the constants, parameters and states of a graph that have the name of one here its current contents;
        graph.save_onnx then saves what was trained."""
        with self._alone() as handle, graph._use() as pointer:
            check(lib.braid_session_store(handle.pointer, pointer))

    def lines(self) -> list[PlanLine]:
        """The tasks of a run, with the times measured so far."""
        with self._alone() as handle:
            return [plan_line(lib.braid_session_plan(handle.pointer, index))
                    for index in range(lib.braid_session_plan_count(handle.pointer))]

    def offers(self, line: int) -> list[Offer]:
        """The candidates for a task, of a session made with `explain`."""
        with self._alone() as handle:
            return [plan_offer(lib.braid_session_offer(handle.pointer, line, index))
                    for index in range(lib.braid_session_offer_count(handle.pointer, line))]

    def stats(self) -> SessionStats:
        """Sizes, and how long preparing took."""
        with self._alone() as handle:
            stats = lib.braid_session_get_stats(handle.pointer)
        return SessionStats(stats.nodes, stats.conversions, stats.arena_bytes, stats.unshared_bytes,
                            stats.parameter_bytes, stats.prepare_ms)

    def save_trace(self) -> None:
        """Completes the trace file; closing does it, too."""
        with self._alone() as handle:
            check(lib.braid_session_save_trace(handle.pointer))


def fill_session_options(options: Any, keep: Keep, *, training: bool = False, fusion: bool = True, reuse: bool = True,
                         place: str | None = None, loose_place: bool = False, explain: bool = False,
                         trace: str | os.PathLike[str] | None = None, timeout: float | None = None) -> None:
    """The options that need no objects."""
    options.training, options.no_fusion, options.no_reuse = training, not fusion, not reuse
    options.place, options.loose_place, options.explain = keep.text(place), loose_place, explain
    options.trace = keep.text(trace)
    options.timeout_ms = time_limit(timeout, 1000, False)


def session_options(keep: Keep, device: str, threads: int, machine: Machine | None) -> Any:
    """Options for calls that make sessions of their own. They are in `keep`, with what they point to."""
    options = _abi.braid_session_options()
    process.threads = True
    if machine is not None:
        options.machine = machine._held().pointer
        keep.append(machine._held())
    else:
        registry = default_registry()._held()
        options.devices, options.threads, options.registry = keep.text(device), threads, registry.pointer
        keep.append(registry)
    keep.append(options)
    return options
