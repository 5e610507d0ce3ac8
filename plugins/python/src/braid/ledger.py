"""Ledgers of trainings in integers, and audits, which compute their steps again."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import Exclusive, Guard, Handle, Keep, check, encode, lib, out, process, ready, text, text_or_none
from .data import Dataset
from .machine import default_registry
from .train import ModelSource, _goes_on, as_graph, interruptible


@dataclass(frozen=True)
class LedgerInfo:
    """What a ledger has. `chain` is the hash that stands for all of it; `torn`: the last line is not whole."""

    model: str | None
    steps: int
    values: int
    parameters: int
    chain: str
    torn: bool


@dataclass(frozen=True)
class AuditResult:
    """What an audit found: whether all `checked` steps agree, or the first that differs."""

    from_step: int
    checked: int
    agrees: bool
    steps_agree: bool
    other_data: str
    step: int
    line: int
    layer: str
    operation: str
    what: str


class Ledger(Exclusive):
    """A ledger, read as a whole; its chain of hashes is checked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        pointer = out()
        check(ready().braid_ledger_open(None, encode(path), ctypes.byref(pointer)))
        self._own(Handle(pointer.value, lib.braid_ledger_close))

    @property
    def info(self) -> LedgerInfo:
        """What it has."""
        with self._alone() as handle:
            info = lib.braid_ledger_get_info(handle.pointer)
        return LedgerInfo(text_or_none(info.model), info.steps, info.values, info.parameters, text(info.chain),
                          info.torn)

    def audit(self, model: ModelSource, data: Dataset, *, device: str = "cpu", threads: int = 0,
              place: str | None = None, trace: str | os.PathLike[str] | None = None,
              checkpoints: str | os.PathLike[str] | None = None, first: int = 0, last: int = 0,
              progress: Callable[[int, int], Any] | None = None) -> AuditResult:
        """Computes the steps from `first` to `last` (0: all) again, and compares every number of the ledger with its
        own. `model`: as it was before training; `data`: the training part, with the keys of the run. `progress(done,
        total)` stops by returning False (CancelledError)."""
        graph, keep, guard, result = as_graph(model), Keep(), Guard(), _abi.braid_audit_result()
        registry, held = default_registry()._held(), data._held()
        options = _abi.braid_audit_options(keep.text(device), keep.text(place), threads, registry.pointer,
                                           keep.text(trace), keep.text(checkpoints), first, last)
        process.threads = True
        with self._alone() as handle, graph._use() as forward, interruptible() as interrupt:
            callback = _abi.braid_audit_callback(lambda _context, done, total: guard.call(
                lambda: (progress is None or _goes_on(progress(done, total))) and not interrupt.pressed, False))
            status = ready().braid_audit(handle.pointer, forward, held.pointer, ctypes.byref(options),
                                         callback, None, ctypes.byref(result))
            if status:
                interrupt.raise_if_pressed()
                guard.reraise()
                data._reraise()
                check(status)
        return AuditResult(getattr(result, "from"), result.checked, result.agrees, result.steps_agree,
                           text(result.other_data), result.step, result.line, text(result.layer),
                           text(result.operation), text(result.what))
