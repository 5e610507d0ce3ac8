"""Exceptions: one class per status of the library. The text of each is the library's sentence, which names the place
and what was expected."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Whatever the library refuses or fails at. `status` is the library's name for the kind of failure
    ("INVALID_FILE"), `detail` the sentence."""

    status: ClassVar[str] = "INTERNAL"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail


class OutOfMemoryError(Error, MemoryError):
    """There is no memory for it, of the host or of a device."""

    status = "NO_MEMORY"


class InvalidArgumentError(Error, ValueError):
    """An argument that is not allowed."""

    status = "INVALID_ARGUMENT"


class InvalidFileError(Error, ValueError):
    """A file that is malformed, or is not what it should be."""

    status = "INVALID_FILE"


class InvalidGraphError(Error, ValueError):
    """A graph whose nodes, types or shapes do not fit together."""

    status = "INVALID_GRAPH"


class UnsupportedError(Error, NotImplementedError):
    """Something that Braid, or the device, cannot do."""

    status = "UNSUPPORTED"


class NotFoundError(Error, LookupError):
    """A name that is not there."""

    status = "NOT_FOUND"


class FileError(Error, OSError):
    """A file could not be read or written."""

    status = "IO"


class OutOfRangeError(Error, ValueError):
    """A number beyond its bounds."""

    status = "OUT_OF_RANGE"


class NotFiniteError(Error, ArithmeticError):
    """NaN or infinity where a number is needed; of training, the step and the layer are named."""

    status = "NOT_FINITE"


class DeviceLostError(Error, RuntimeError):
    """A device does not respond any more. What used it can only be closed."""

    status = "DEVICE_LOST"


class TimedOutError(Error, TimeoutError):
    """A run took longer than its limit."""

    status = "TIMEOUT"


class CancelledError(Error):
    """The work was cancelled."""

    status = "CANCELLED"


class InternalError(Error, RuntimeError):
    """A fault of Braid, of a backend or of a custom op."""

    status = "INTERNAL"


class BusyError(Error, RuntimeError):
    """The object is in use by another thread or process."""

    status = "BUSY"


class TornError(Error, RuntimeError):
    """Weights of which a failed training step wrote a part: write them again, or load a checkpoint."""

    status = "TORN"


class ClosedError(Error, ValueError):
    """The object was closed."""

    status = "INVALID_ARGUMENT"


class ForkedError(Error, RuntimeError):
    """The process was forked after Braid had started threads, which the copy does not have."""

    status = "INTERNAL"


BY_STATUS: dict[str, type[Error]] = {
    kind.status: kind
    for kind in (OutOfMemoryError, InvalidArgumentError, InvalidFileError, InvalidGraphError, UnsupportedError,
                 NotFoundError, FileError, OutOfRangeError, NotFiniteError, DeviceLostError, TimedOutError,
                 CancelledError, InternalError, BusyError, TornError)
}
