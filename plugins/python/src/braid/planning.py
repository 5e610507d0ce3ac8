"""Forecasts: a network on a modelled machine, placed by a policy, in virtual time. Nothing runs; times, powers and
energies are modelled, from a profile of operations."""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import Handle, Keep, Object, check, encode, lib, out, ready, text, text_or_none
from .graph import Graph
from .train import ModelSource, as_graph


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


@dataclass(frozen=True)
class Policy:
    """A policy of placement, and what it does in one sentence."""

    name: str
    summary: str


def policies() -> list[Policy]:
    """All policies."""
    return [Policy(text(lib.braid_planning_policy_name(index)), text(lib.braid_planning_policy_summary(index)))
            for index in range(lib.braid_planning_policy_count())]


class ModelledMachine(Object):
    """A machine described by a platform file (its name ends in .yaml), or by one that the library has, by its name."""

    def __init__(self, path_or_name: str | os.PathLike[str]) -> None:
        pointer = out()
        check(ready().braid_modelled_machine_load(None, encode(path_or_name), ctypes.byref(pointer)))
        self._handle = Handle(pointer.value, lib.braid_modelled_machine_destroy)

    @property
    def name(self) -> str:
        """Its name."""
        handle = self._held()
        return text(lib.braid_modelled_machine_name(handle.pointer))

    @property
    def assumptions(self) -> list[str]:
        """What its file assumes since nobody published it."""
        handle = self._held()
        return [text(lib.braid_modelled_assumption(handle.pointer, index))
                for index in range(lib.braid_modelled_assumption_count(handle.pointer))]

    def forecast(self, graph: Graph, policy: str = "hybrid-energy", *, cap_watts: float = 0, bound: bool = False,
                 replicas: int = 0, place: str | None = None) -> Forecast:
        """Places a resolved graph (of inference, or training_step's) by a policy."""
        return Forecast(self, graph, policy, cap_watts=cap_watts, bound=bound, replicas=replicas, place=place)


def training_step(model: ModelSource, batch: int, discriminator: ModelSource | None = None) -> Graph:
    """A training step of a model, as the trainer runs it by default, for a forecast."""
    graph, pointer = as_graph(model), out()
    other = as_graph(discriminator) if discriminator is not None else None
    beside = other._held() if other is not None else None
    with graph._use() as forward:
        check(ready().braid_planning_step(forward, beside.pointer if beside is not None else None, batch,
                                          ctypes.byref(pointer)))
        return Graph._from(pointer, graph._held().keeps, beside.keeps if beside is not None else ())


@dataclass(frozen=True)
class ForecastSummary:
    """Of a step; None is unknown, or not asked for."""

    seconds: float
    joules: float | None
    average_watts: float | None
    peak_watts: float | None
    least_joules: float | None
    idle_joules: float | None
    cap_watts: float | None
    cap_violations: float | None
    moving_seconds: float | None
    exposed_seconds: float | None
    tasks: int
    nodes: int
    policy_seconds: float


@dataclass(frozen=True)
class ForecastDevice:
    """What one device does in a step."""

    name: str
    busy_seconds: float
    joules: float | None
    tasks: int
    peak_memory_bytes: float | None
    memory_bytes: float | None


@dataclass(frozen=True)
class ForecastTask:
    """An operation: where it runs, and when."""

    node: str
    op: str
    device: str
    start: float
    end: float
    joules: float | None
    peak_watts: float | None
    mhz: float | None
    reason: str
    after: str | None


class Forecast(Object):
    """A step on a modelled machine."""

    def __init__(self, machine: ModelledMachine, graph: Graph, policy: str, *, cap_watts: float = 0,
                 bound: bool = False, replicas: int = 0, place: str | None = None) -> None:
        keep, pointer, below = Keep(), out(), machine._held()
        options = _abi.braid_forecast_options(keep.text(policy), cap_watts, replicas, bound, keep.text(place), None)
        with graph._use() as model:
            check(ready().braid_forecast_create(model, below.pointer, ctypes.byref(options), None,
                                                ctypes.byref(pointer)))
        self._handle = Handle(pointer.value, lib.braid_forecast_destroy, below)

    @property
    def summary(self) -> ForecastSummary:
        """Time, energy and power."""
        handle = self._held()
        one = lib.braid_forecast_get_summary(handle.pointer)
        return ForecastSummary(one.seconds, _number(one.joules), _number(one.average_watts), _number(one.peak_watts),
                               _number(one.least_joules), _number(one.idle_joules), _number(one.cap_watts),
                               _number(one.cap_violations), _number(one.moving_seconds), _number(one.exposed_seconds),
                               one.tasks, one.nodes, one.policy_seconds)

    @property
    def note(self) -> str:
        """What the policy did instead where the platform lacks what it goes by."""
        handle = self._held()
        return text(lib.braid_forecast_note(handle.pointer))

    def devices(self) -> list[ForecastDevice]:
        """What each device does."""
        handle, found = self._held(), []
        for index in range(lib.braid_forecast_device_count(handle.pointer)):
            one = lib.braid_forecast_get_device(handle.pointer, index)
            found.append(ForecastDevice(text(one.name), one.busy_seconds, _number(one.joules), one.tasks,
                                        _number(one.peak_memory_bytes), _number(one.memory_bytes)))
        return found

    def tasks(self) -> list[ForecastTask]:
        """All operations in the order of their starts."""
        return [self._task(index) for index in range(self.summary.tasks)]

    def _task(self, index: int) -> ForecastTask:
        handle = self._held()
        one: Any = lib.braid_forecast_get_task(handle.pointer, index)
        return ForecastTask(text(one.node), text(one.op), text(one.device), one.start, one.end, _number(one.joules),
                            _number(one.peak_watts), _number(one.mhz), text(one.reason), text_or_none(one.after))

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """The timeline for Perfetto or chrome://tracing."""
        handle = self._held()
        check(lib.braid_forecast_save_trace(handle.pointer, encode(path)))

    def save_html(self, path: str | os.PathLike[str], title: str = "Forecast") -> None:
        """The timeline as a page of its own."""
        handle = self._held()
        check(lib.braid_forecast_save_html(handle.pointer, title.encode(), encode(path)))

    def save_placement(self, path: str | os.PathLike[str], what: str = "", batch: int = 0) -> None:
        """Where every node is, as a text that sessions can run by (load_placement)."""
        handle = self._held()
        check(lib.braid_forecast_save_placement(handle.pointer, what.encode(), batch, encode(path)))


@dataclass(frozen=True)
class Placement:
    """`device` and `place` of sessions, models and trainings."""

    device: str
    place: str
    batch: int


def load_placement(path: str | os.PathLike[str]) -> Placement:
    """Reads what Forecast.save_placement has written."""
    placement = _abi.braid_placement()
    check(ready().braid_placement_load(None, encode(path), ctypes.byref(placement)))
    try:
        return Placement(text(placement.devices), text(placement.place), placement.batch)
    finally:
        lib.braid_placement_deinit(ctypes.byref(placement))
