"""The loaded library, and what all modules need of it: errors as exceptions, handles that own C objects, callbacks.

A handle owns one C object and refers to the handles that it was made from. The last reference to a handle destroys its
object, and objects are destroyed before what they stand on, in whatever order the garbage collector ends them. A call
holds the handle that it uses: closing an object while another thread is in a call takes effect when that call
returns."""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _abi
from .errors import BY_STATUS, BusyError, ClosedError, Error, ForkedError, InternalError

PACKAGE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(PACKAGE, "_lib", "libbraid.so")


@contextlib.contextmanager
def _short_spins() -> Iterator[None]:
    """Threads of GNU's OpenMP that wait for others spin for about 15 ms before they sleep, which makes small networks
    many times slower where other programs use the CPUs, too. It reads how long when it is loaded; the braid command
    sets half a millisecond for itself in the same way. What the user has set counts."""
    unset = "GOMP_SPINCOUNT" not in os.environ and "OMP_WAIT_POLICY" not in os.environ
    if unset:
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        yield
    finally:
        if unset:
            del os.environ["GOMP_SPINCOUNT"]


def _load() -> ctypes.CDLL:
    try:
        with _short_spins():
            return _abi.bind(LIBRARY)
    except OSError as error:
        raise ImportError(
            f"Braid's library cannot be loaded: {error}. If a library is missing, install the package of the system "
            "that has it (Debian: libprotobuf-c1, libjpeg62-turbo, libpng16-16, libcyaml1, libyaml-0-2, libsqlite3-0, "
            "libgomp1); if the file is missing, this is a source tree, and the package is built by "
            "`pip install plugins/python`.") from error


lib: Any = _load()
_STATUS_NAMES = {value: name.removeprefix("BRAID_") for name, value in _abi.ENUMS["braid_status"].items()}
STATUS_VALUES: dict[str, int] = {name: value for value, name in _STATUS_NAMES.items()}


def let_plugins_find_us() -> None:
    """Plug-ins are not linked with the library: they take its functions from what is visible to all. Python loads
    libraries for themselves; this one becomes visible, with those below it, when the first plug-in is loaded, and not
    before, since extension modules that come later could take functions of the same names from it."""
    ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)


# --- errors ---------------------------------------------------------------------------------------------------------
def error(status: int) -> BaseException:
    """The exception of a failure that the last call on this thread returned: an Error, or what is no Exception, as
    KeyboardInterrupt, where a callback was ended by it."""
    detail = lib.braid_error_detail().decode("utf-8", "replace")
    kind = BY_STATUS.get(_STATUS_NAMES.get(status, ""), InternalError)
    made = kind(detail or lib.braid_status_text(status).decode())
    for sentence, problem in _callback_problem[:1]:
        if sentence in detail:
            _callback_problem.clear()
            if not isinstance(problem, Exception):
                return problem
            made.__cause__ = problem
    return made


def check(status: int) -> None:
    if status:
        raise error(status)


_lost: list[Any] = []


def check_run(status: int, *arrays: Any) -> None:
    """check, of a run: tasks of a device that is lost may use the arrays for ever, so they are kept."""
    if status:
        if status == _abi.BRAID_DEVICE_LOST:
            _lost.append(arrays)
        raise error(status)


# --- fork -----------------------------------------------------------------------------------------------------------
class _Process:
    """What is known of this process: whether threads of the library run in it, and whether it is the copy of a process
    in which they ran. Their locks and queues are then in an unknown state, and nobody works on them."""

    threads = False
    forked = False
    ending = False


process = _Process
FORKED = ("this process was forked from one in which Braid had devices or a loader open; their threads are not in "
          "the copy, so that calls would wait for ever. Start workers with multiprocessing's 'spawn' or 'forkserver' "
          "method, or open devices and load models after the fork")


def _after_fork() -> None:
    if process.threads:
        process.forked = True


os.register_at_fork(after_in_child=_after_fork)


def ready() -> Any:
    """The library, for calls that make something."""
    if process.forked:
        raise ForkedError(FORKED)
    if _deferred:
        _release_deferred()
    return lib


# --- handles --------------------------------------------------------------------------------------------------------
_in_callback = threading.local()
_deferred: collections.deque[tuple[Any, int]] = collections.deque()


_count_lock = threading.RLock()


def _handles_in(keeps: Iterable[Any]) -> Iterator[Handle]:
    for keep in keeps:
        if isinstance(keep, Handle):
            yield keep
        elif isinstance(keep, (tuple, list)):
            yield from _handles_in(keep)


class Handle:
    """Owns a C object. `keeps`: handles, and memory and functions that the object uses."""

    __slots__ = ("pointer", "_release", "keeps", "_below", "_users", "_dropped", "__weakref__")

    def __init__(self, pointer: int | None, release: Callable[[int], None], *keeps: Any) -> None:
        self.pointer = pointer
        self._release = release
        self.keeps: tuple[Any, ...] = ()
        self._users = 0  # handles whose objects stand on this one
        self._dropped = False
        self._below: tuple[Handle, ...] = ()
        self.hold(*keeps)

    def hold(self, *keeps: Any) -> None:
        """The object uses these, too."""
        self.keeps += keeps
        below = tuple(_handles_in(keeps))
        self._below += below
        with _count_lock:
            for handle in below:
                handle._users += 1

    def let_go(self, handle: Handle) -> None:
        """The object does not use this one any more, which it held."""
        with _count_lock:
            kept, below = list(self.keeps), list(self._below)
            del kept[next(index for index, keep in enumerate(kept) if keep is handle)], below[below.index(handle)]
            self.keeps, self._below = tuple(kept), tuple(below)
            handle._users -= 1
            dropped = handle._dropped and not handle._users
        if dropped:
            handle.destroy()

    def __reduce__(self) -> Any:
        raise TypeError("what the library owns cannot be copied or pickled; Graph.clone and save_onnx make copies of "
                        "models")

    # Defaults hold what is needed when the interpreter ends and modules are emptied.
    def destroy(self, process: Any = process, local: Any = _in_callback, later: Any = _deferred,
                lock: Any = _count_lock) -> None:
        """Destroys the object now, or with the last one that stands on it: the collector ends the members of a cycle,
        and all that only they refer to, in any order."""
        if process.forked:
            return
        with lock:
            if self._users:
                self._dropped = True
                return
            pointer, self.pointer = self.pointer, None
        if not pointer:
            return
        # A collection may begin inside a callback, while the library holds locks.
        if getattr(local, "depth", 0):
            later.append((self, pointer))
        else:
            self._finish(pointer)

    __del__ = destroy

    def _finish(self, pointer: int, lock: Any = _count_lock) -> None:
        self._release(pointer)
        below, self._below, self.keeps = self._below, (), ()
        for handle in below:
            with lock:
                handle._users -= 1
                dropped = handle._dropped and not handle._users
            if dropped:
                handle.destroy()


def _release_deferred() -> None:
    while _deferred and not getattr(_in_callback, "depth", 0):
        try:
            handle, pointer = _deferred.popleft()
        except IndexError:
            return
        handle._finish(pointer)


def out() -> ctypes.c_void_p:
    """Room for the address of a new object."""
    return ctypes.c_void_p()


class Object:
    """What the public classes have in common: a handle, closing, and use as a context manager."""

    _handle: Handle | None = None

    @property
    def _pointer(self) -> int:
        return self._held().pointer or 0

    def _held(self) -> Handle:
        """The handle, which a caller keeps while it uses the pointer in it."""
        if process.forked:
            raise ForkedError(FORKED)
        handle = self._handle
        if handle is None:
            raise ClosedError(f"this {type(self).__name__} is closed")
        return handle

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._handle is None

    def close(self) -> None:
        """Gives up the object; its memory is freed when nothing else uses it. Calling it again has no effect."""
        self._handle = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Exclusive(Object):
    """An object that one thread uses at a time, and that has something to end when it is closed: a file, a lock,
    threads. So closing waits for the call of another thread and then takes effect at once, even where a traceback
    still holds the handle."""

    _user: int | None = None

    def _own(self, handle: Handle) -> None:
        self._handle = handle
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[Handle]:
        if not self._lock.acquire(blocking=False):
            raise BusyError(f"this {type(self).__name__} is in use: another thread, or a callback of its own, is in a "
                            "call of it")
        self._user = threading.get_ident()
        try:
            yield self._held()
        finally:
            self._user = None
            self._lock.release()

    def close(self) -> None:
        """Ends what it does, waiting for the call of another thread, and frees it. Calling it again has no effect."""
        handle = self._handle
        if handle is None:
            return
        if process.forked:
            self._handle = None
            return
        if self._user == threading.get_ident():
            raise BusyError(f"this {type(self).__name__} cannot be closed by a callback of its own")
        with self._lock:
            self._handle = None
            self._destroy(handle)

    def _destroy(self, handle: Handle) -> None:
        handle.destroy()


# What calls Python from threads of its own must have ended before the interpreter does.
_closed_at_exit: weakref.WeakSet[Any] = weakref.WeakSet()


def close_at_exit(thing: Object) -> None:
    _closed_at_exit.add(thing)


@atexit.register
def _close_all() -> None:
    process.ending = True
    if process.forked:
        return
    for thing in list(_closed_at_exit):
        thing.close()
    _release_deferred()


# --- callbacks ------------------------------------------------------------------------------------------------------
# How many custom ops a thread is in. That it is empty is seen in less time than what a thread has of its own.
running_ops: dict[int, int] = {}


def outside_ops(shared: bool) -> None:
    """A custom op that waits for other work of its machine waits for ever: the machine runs one at a time."""
    if shared and threading.get_ident() in running_ops:
        raise BusyError("a custom op cannot wait for other work of the machine that runs it, and models and ops of a "
                        "process share one unless they are told: give this one machine=braid.Machine(...) of its own")


class Guard:
    """Runs a Python function for the library. No exception can pass through C: the first is kept, the callback
    returns `failed`, and `reraise` raises it where the library's call was made."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    def call(self, function: Callable[..., Any], failed: Any, *arguments: Any) -> Any:
        _in_callback.depth = getattr(_in_callback, "depth", 0) + 1
        try:
            return function(*arguments)
        except BaseException as problem:  # KeyboardInterrupt, too
            if self.raised is None:
                self.raised = problem
            return failed
        finally:
            _in_callback.depth -= 1

    def reraise(self) -> None:
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised


def immortal(function: Any) -> Any:
    """A callback that C may call as long as the process lives, also when the interpreter has ended its modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return function


def fail(status: str, sentence: str) -> int:
    """In callbacks that return a status: records the sentence."""
    told = sentence.encode(errors="backslashreplace")
    return int(lib.braid_fail(STATUS_VALUES[status], b"%s", ctypes.c_char_p(told)))


# The last exception of a callback that returns a status, with its sentence: it becomes the cause of the library's.
_callback_problem: list[tuple[str, BaseException]] = []


def _sentence(problem: BaseException) -> tuple[str, str]:
    if isinstance(problem, Error):
        return problem.status, problem.detail
    if isinstance(problem, MemoryError):
        return "NO_MEMORY", "Python has no memory"
    try:
        said = str(problem)
    except Exception:
        said = "an exception that has no text"
    return "INTERNAL", f"{type(problem).__name__}: {said}"


def fail_by(problem: BaseException, cause: bool = True) -> int:
    """The same of an exception. `cause`: it becomes the cause of the error of the library's call; without, the caller
    raises it."""
    status, sentence = _sentence(problem)
    sentence = sentence.encode(errors="backslashreplace").decode()
    if cause:
        _callback_problem[:] = [(sentence[:200], problem)]
    return fail(status, sentence)


def returning_status(function: Callable[..., None]) -> Callable[..., int]:
    """A callback that returns a status: that of what the function raises."""
    def call(*arguments: Any) -> int:
        _in_callback.depth = getattr(_in_callback, "depth", 0) + 1
        try:
            function(*arguments)
            return 0
        except BaseException as problem:
            return fail_by(problem)
        finally:
            _in_callback.depth -= 1

    return call


# --- values -----------------------------------------------------------------------------------------------------------
def text(value: bytes | None) -> str:
    return value.decode("utf-8", "replace") if value else ""


def text_or_none(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def encode(value: str | os.PathLike[str]) -> bytes:
    """None is a TypeError: for C it would be an address of nothing."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:  # for C the text would end there
        raise BY_STATUS["INVALID_ARGUMENT"](f"{value!r} contains a zero, which no path and no text has")
    return encoded


def encode_or_none(value: str | os.PathLike[str] | None) -> bytes | None:
    return None if value is None else encode(value)


def encode_name(value: str) -> bytes:
    if "\0" in value:
        raise BY_STATUS["INVALID_ARGUMENT"](f"{value!r} contains a zero, which no name has")
    return value.encode()


def take_text(pointer: ctypes.c_void_p | ctypes.c_char_p) -> str:
    """A text that the library has made, which is freed."""
    value = ctypes.cast(pointer, ctypes.c_char_p).value
    lib.braid_free(None, pointer)
    return text(value)


class Keep(list[Any]):
    """What a struct's pointers point to."""

    def text(self, value: str | os.PathLike[str] | None) -> bytes | None:
        encoded = encode_or_none(value)
        self.append(encoded)
        return encoded

    def texts(self, values: Iterable[str]) -> Any:
        encoded = [encode_name(value) for value in values]
        array = (ctypes.c_char_p * max(1, len(encoded)))(*encoded)
        self.append((encoded, array))
        return array

    def doubles(self, values: Iterable[float]) -> Any:
        numbers = [float(value) for value in values]
        array = (ctypes.c_double * max(1, len(numbers)))(*numbers)
        self.append(array)
        return array


def field_type(struct: Any, name: str) -> Any:
    """The type of a field: of a callback, what makes one of a function."""
    return next(field[1] for field in struct._fields_ if field[0] == name)


@functools.lru_cache(maxsize=256)
def array_type(kind: Any, count: int) -> Any:
    """kind * count, which ctypes makes anew in tens of microseconds unless somebody keeps it. At least one element."""
    return kind * max(1, count)


class Memory:
    """Memory of the library as something that NumPy takes; `owner` keeps it valid."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, address: int, size: int, owner: Any, read_only: bool = False) -> None:
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, read_only), "version": 3}
        self._owner = owner


def enum_value(enum: str, prefix: str, name: str, what: str) -> int:
    """The value of an enumerator given as Python users write it: "cross-entropy" for BRAID_CROSS_ENTROPY."""
    values: dict[str, int] = _abi.ENUMS[enum]
    wanted = prefix + name.upper().replace("-", "_")
    if wanted not in values:
        allowed = ", ".join(enum_names(enum, prefix).values())
        raise BY_STATUS["INVALID_ARGUMENT"](f"{what} is {name!r}, expected one of {allowed}")
    return int(values[wanted])


def enum_names(enum: str, prefix: str) -> dict[int, str]:
    values: dict[str, int] = _abi.ENUMS[enum]
    return {value: name.removeprefix(prefix).lower().replace("_", "-") for name, value in values.items()}


def time_limit(timeout: float | None, units: int, zero: bool) -> int:
    """A limit in seconds as a number of units, of which a second has so many; -1: there is none, or it is longer than
    285 years. `zero`: 0, which does not wait at all, is a limit."""
    if timeout is None:
        return -1
    try:
        allowed = timeout >= 0 if zero else timeout > 0  # neither, of NaN
    except TypeError:
        allowed = False
    if not allowed:
        raise BY_STATUS["INVALID_ARGUMENT"](f"timeout is {timeout!r}, expected seconds{'' if zero else ' above 0'}, or "
                                            "None for no limit")
    return -1 if timeout > 9e9 else max(int(timeout * units), int(timeout > 0))


def main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


VERSION: str = _abi.VERSION
if sys.byteorder != "little":  # the library's types are those of little-endian machines
    raise ImportError("Braid needs a little-endian machine")
