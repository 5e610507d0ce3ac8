"""Profiles: what operations take on the devices of this machine, or are published to take, in a database that forecasts
read."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import (Exclusive, Guard, Handle, Keep, check, encode, enum_value, field_type, lib, out, process, ready,
                       text, text_or_none)
from .graph import Graph
from .machine import Registry, default_registry
from .train import _goes_on, interruptible


@dataclass(frozen=True)
class ProfileDevice:
    """A device that entries are of."""

    device: str
    kind: str
    description: str
    software: str
    version: str
    source: str
    date: str
    memory: str
    threads: int
    idle_watts: float | None


@dataclass(frozen=True)
class ProfileEntry:
    """What one operation takes on a device. `why`: the reason why its time is unknown; `stale`: why it counts no
    more."""

    device: str
    op: str
    key: str
    beside: str
    size: str | None
    shapes: str
    kernel: str
    source: str
    date: str
    seconds: float | None
    seconds_mad: float | None
    runs: int
    joules: float | None
    average_watts: float | None
    bytes: float | None
    macs: float | None
    why: str | None
    stale: str | None


@dataclass(frozen=True)
class ProfileReport:
    """What a measurement did."""

    operations: int
    measured: int
    unable: int
    kept: int
    stale: int
    checked: int
    drifting: int


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _device(one: Any) -> ProfileDevice:
    return ProfileDevice(text(one.device), text(one.kind), text(one.description), text(one.software),
                         text(one.version), text(one.source), text(one.date), text(one.memory), one.threads,
                         _number(one.idle_watts))


def _entry(one: Any) -> ProfileEntry:
    return ProfileEntry(text(one.device), text(one.op), text(one.key), text(one.beside), text_or_none(one.size),
                        text(one.shapes), text(one.kernel), text(one.source), text(one.date), _number(one.seconds),
                        _number(one.seconds_mad), one.runs, _number(one.joules), _number(one.average_watts),
                        _number(one.bytes), _number(one.macs), text_or_none(one.why), text_or_none(one.stale))


class Profile(Exclusive):
    """A database of times and energies. `access`: "read", or "write", which makes it if it is not there."""

    def __init__(self, path: str | os.PathLike[str], access: str = "read") -> None:
        pointer = out()
        mode = enum_value("braid_profile_access", "BRAID_PROFILE_", access, "access")
        check(ready().braid_profile_db_open(None, encode(path), mode, ctypes.byref(pointer)))
        self._own(Handle(pointer.value, lib.braid_profile_db_close))
        self.path = os.fspath(path)

    def _list(self, make: Callable[[Any], Any], check_days: float | None, registry: Registry | None) -> Any:
        found = _abi.braid_profile_list()
        with self._alone() as handle:
            check(lib.braid_profile_list_create(handle.pointer, None, ctypes.byref(found)))
        try:
            if check_days is not None:
                process.threads = True
                below = (registry or default_registry())._held()
                check(lib.braid_profile_list_check(ctypes.byref(found), below.pointer, 0, check_days))
            return make(found)
        finally:
            lib.braid_profile_list_deinit(ctypes.byref(found))

    def devices(self) -> list[ProfileDevice]:
        """The devices that it has entries of."""
        made: list[ProfileDevice] = self._list(
            lambda found: [_device(one) for one in found.devices[:found.device_count]], None, None)
        return made

    def entries(self, *, check_days: float | None = None, registry: Registry | None = None) -> list[ProfileEntry]:
        """All entries. `check_days`: says which count no more (`stale`), being of other devices or drivers than those
        here, or older than so many days."""
        made: list[ProfileEntry] = self._list(
            lambda found: [_entry(one) for one in found.entries[:found.entry_count]], check_days, registry)
        return made

    def add(self, path_or_name: str | os.PathLike[str]) -> int:
        """Adds the rows of a profile file, or of the library's profile of this name; how many."""
        count = ctypes.c_size_t()
        with self._alone() as handle:
            check(lib.braid_profile_import(handle.pointer, encode(path_or_name), ctypes.byref(count)))
        return count.value

    def measure(self, *, graph: Graph | None = None, ops: str | None = None, sizes: str | None = None,
                devices: str | None = None, threads: int = 0, beside: str | None = None,
                seconds: float | None = None, again: bool = False, registry: Registry | None = None,
                progress: Callable[[int, int, str], Any] | None = None) -> ProfileReport:
        """Measures what it does not have: the operations of a resolved graph, and `ops` ("MatMul,Conv", "all") at
        `sizes` ("small,medium,large"), on `devices` (None: all that can). `progress(done, total, what)` stops by
        returning False (CancelledError); what was measured is kept."""
        keep, guard, report = Keep(), Guard(), _abi.braid_profile_report()
        options = _abi.braid_profile_options()
        lib.braid_profile_options_init(ctypes.byref(options))
        options.devices, options.threads = keep.text(devices), threads
        held = graph._held() if graph is not None else None
        options.graph = held.pointer if held is not None else None
        options.ops, options.sizes, options.beside = keep.text(ops), keep.text(sizes), keep.text(beside)
        options.again = again
        if seconds is not None:
            options.seconds = seconds
        below = (registry or default_registry())._held()
        process.threads = True
        with self._alone() as handle, interruptible() as interrupt:
            options.progress = field_type(_abi.braid_profile_options, "progress")(
                lambda _context, done, total, what: guard.call(
                    lambda: (progress is None or _goes_on(progress(done, total, text(what)))) and not interrupt.pressed,
                    False))
            status = ready().braid_profile_measure(below.pointer, handle.pointer, ctypes.byref(options),
                                                   ctypes.byref(report))
            if status:
                interrupt.raise_if_pressed()
                guard.reraise()
                check(status)
        return ProfileReport(report.operations, report.measured, report.unable, report.kept, report.stale,
                             report.checked, report.drifting)

    def save_platform(self, path: str | os.PathLike[str]) -> None:
        """Writes a platform file of the measured devices, with this database as its profile, for ModelledMachine."""
        self._list(lambda found: check(lib.braid_profile_save_platform(ctypes.byref(found), encode(self.path),
                                                                       encode(path))), None, None)
