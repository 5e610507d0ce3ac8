"""Registries, which know the devices, and machines, which have some of them open."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import (Guard, Handle, Object, check, encode, field_type, immortal, let_plugins_find_us, lib, out,
                       process, ready, text)

_logger = logging.getLogger("braid")
_LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class DeviceInfo:
    """A device as the registry lists it. 0 and "" stand for unknown."""

    name: str
    kind: str
    description: str
    unified_memory: bool
    max_queues: int
    compute_units: int
    memory_bytes: int
    measures_time: bool
    modelled: bool
    software: str
    lacks: str


def _device_info(info: Any) -> DeviceInfo:
    return DeviceInfo(text(info.name), text(info.kind), text(info.description),
                      info.memory == _abi.BRAID_MEMORY_UNIFIED, info.max_queues, info.compute_units,
                      info.memory_bytes, info.measures_time, info.modelled, text(info.software), text(info.lacks))


def _write_log(_context: int | None, level: int, message: bytes | None) -> None:
    _logger.log(_LEVELS.get(level, logging.INFO), "%s", text(message))


def _guarded_log(context: int | None, level: int, message: bytes | None, process: Any = process) -> None:
    if not process.ending:
        Guard().call(_write_log, None, context, level, message)  # what a handler raises stops nothing


LOG = _abi.braid_log(immortal(field_type(_abi.braid_log, "write")(_guarded_log)), None)


def _cache_folder() -> str:
    """Where the command keeps built programs, too."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "braid")


class Registry(Object):
    """Where devices are looked up: the built-in ones, those of plug-ins and those of a platform file.

    Messages of the library go to the logger "braid" of Python's `logging`. What OpenCL devices compile is kept in
    `cache` (None: the folder of the command, "": nowhere). `progress(what, done, total)` is told how far the
    preparation of kernels is, which drivers may compile."""

    def __init__(self, *, plugins: Sequence[str | os.PathLike[str]] = (),
                 platform: str | os.PathLike[str] | None = None,
                 cache: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> None:
        pointer = out()
        check(ready().braid_registry_create(None, ctypes.byref(pointer)))
        self._handle = Handle(pointer.value, lib.braid_registry_destroy, LOG)
        lib.braid_registry_set_log(pointer, ctypes.byref(LOG))
        if progress is not None:
            self._tell(pointer, progress)
        folder = _cache_folder() if cache is None else os.fspath(cache)
        if folder:
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as problem:
                _logger.info("built programs are not kept: %s", problem)
            else:
                check(lib.braid_registry_set_cache(pointer, encode(folder)))
        if plugins:
            let_plugins_find_us()
        for path in plugins:
            check(lib.braid_registry_load(pointer, encode(path)))
        if platform is not None:
            check(lib.braid_registry_load_platform(pointer, encode(platform)))

    def _tell(self, pointer: Any, progress: Progress) -> None:
        guard = Guard()
        report = field_type(_abi.braid_progress, "report")(
            lambda _context, what, done, total: process.ending or guard.call(progress, None, text(what), done, total))
        told = _abi.braid_progress(report, None)
        lib.braid_registry_set_progress(pointer, ctypes.byref(told))
        assert self._handle is not None
        self._handle.hold(told, report)

    def devices(self) -> list[DeviceInfo]:
        """All devices, those of a platform file last."""
        handle = self._held()
        process.threads = True  # drivers that are asked start threads
        count = ctypes.c_size_t()
        check(lib.braid_registry_devices(handle.pointer, None, 0, ctypes.byref(count)))
        infos = (_abi.braid_device_info * max(1, count.value))()
        check(lib.braid_registry_devices(handle.pointer, infos, count.value, ctypes.byref(count)))
        return [_device_info(info) for info in infos[:count.value]]


_default_lock = threading.Lock()
_default: list[Registry] = []


def default_registry() -> Registry:
    """The registry of everything that is given none: of the built-in devices and the plug-ins of $BRAID_PLUGINS."""
    with _default_lock:
        if not _default:
            plugins = [path for path in os.environ.get("BRAID_PLUGINS", "").split(":") if path]
            _default.append(Registry(plugins=plugins))
        return _default[0]


def devices(*, plugins: Sequence[str | os.PathLike[str]] = (),
            platform: str | os.PathLike[str] | None = None) -> list[DeviceInfo]:
    """What can be used here."""
    registry = Registry(plugins=plugins, platform=platform) if plugins or platform else default_registry()
    return registry.devices()


class Machine(Object):
    """Opened devices and their queues, shared by all threads, plans and models that are given it.

    `devices`: specs separated by spaces ("opencl0 cpu"), the first is preferred. `threads`: of the CPU; 0: as many as
    the process may use."""

    def __init__(self, devices: str = "cpu", *, threads: int = 0, registry: Registry | None = None) -> None:
        registry = default_registry() if registry is None else registry
        below = registry._held()
        options = _abi.braid_machine_options(encode(devices), threads, below.pointer)
        pointer = out()
        process.threads = True
        check(ready().braid_machine_create(None, ctypes.byref(options), ctypes.byref(pointer)))
        self._handle = Handle(pointer.value, lib.braid_machine_release, below)
        self.devices = devices
        self.threads = threads
        self.shared = False  # is what machine() gives
        self.registry = registry

    def __repr__(self) -> str:
        return f"<braid.Machine {self.devices!r}{', closed' if self.closed else ''}>"

    def op(self, op: str, *inputs: Any, device: str | None = None, outputs: int = 1,
           constants: Sequence[int] = (), **attributes: Any) -> Any:
        """Runs one op (braid.op) on this machine."""
        from .buffer import call

        return call(self, op, inputs, device, outputs, constants, attributes)

    def supports(self, op: str, *inputs: Any, device: str | None = None, outputs: int = 1,
                 constants: Sequence[int] = (), **attributes: Any) -> list[Candidate]:
        """Which kernels could run an op, the best first; UnsupportedError has the reasons if none can. An input is an
        array, or (dtype, shape)."""
        from .buffer import supports

        return supports(self, op, inputs, device, outputs, constants, attributes)

    def call_stats(self) -> CallStats:
        """How many prepared calls of single ops are kept, and how often one was found."""
        handle = self._held()
        stats = lib.braid_machine_call_stats(handle.pointer)
        return CallStats(stats.kept, stats.hits, stats.misses)


@dataclass(frozen=True)
class Candidate:
    """A kernel for an op. `why`: the reason why it cannot run it; None: it can."""

    device: str
    kernel: str
    why: str | None


@dataclass(frozen=True)
class CallStats:
    """Of the cache of single ops."""

    kept: int
    hits: int
    misses: int


_machines: weakref.WeakValueDictionary[tuple[str, int], Machine] = weakref.WeakValueDictionary()


def machine(devices: str = "cpu", threads: int = 0) -> Machine:
    """The machine that models and ops of this process share if they name the same devices: one is made if there is
    none, and goes when nothing uses it."""
    with _machines_lock:
        found = _machines.get((devices, threads))
        if found is None or found.closed:
            found = Machine(devices, threads=threads)
            found.shared = True
            _machines[devices, threads] = found
        return found


_machines_lock = threading.Lock()
