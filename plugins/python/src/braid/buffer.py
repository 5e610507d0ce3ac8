"""Buffers, memory of devices or of the host that goes in and out by DLPack, and single ops on them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _abi
from ._arrays import (NAMES, Located, array_desc, check_outputs, desc_of, empty, fixed_shape, is_torch, locate,
                      numpy_address, numpy_dtype, plain_attribute, whole)
from ._library import (Guard, Handle, Keep, Memory, Object, array_type, check, check_run, encode_name, encode_or_none,
                       field_type, immortal, lib, out, outside_ops, ready, text, text_or_none)
from .errors import InvalidArgumentError, UnsupportedError
from .machine import Candidate, Machine, machine as shared_machine

_asarray = np.asarray
_python: Any = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python))
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
# A capsule keeps the address of its name.
_PLAIN, _USED_PLAIN = ctypes.c_char_p(b"dltensor"), ctypes.c_char_p(b"used_dltensor")
_VERSIONED, _USED_VERSIONED = ctypes.c_char_p(b"dltensor_versioned"), ctypes.c_char_p(b"used_dltensor_versioned")


class _ManagedTensor(ctypes.Structure):
    """DLPack's DLManagedTensor after the tensor (48 bytes): what it takes to free one that nobody has taken."""

    _fields_ = [("tensor", ctypes.c_uint8 * 48), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, as far as the deleter."""

    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64)]


_CapsuleDestructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_raw_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))


def _drop(capsule: int, name: ctypes.c_char_p, kind: Any, is_one: Any = _raw_is, pointer: Any = _raw_pointer) -> None:
    """Frees a tensor whose capsule goes without having been taken by another library, which would have renamed it."""
    if is_one(capsule, name):
        address = pointer(capsule, name)
        kind.from_address(address).deleter(address)


_drop_plain = immortal(_CapsuleDestructor(
    lambda capsule, drop=_drop, name=_PLAIN, kind=_ManagedTensor: drop(capsule, name, kind)))
_drop_versioned = immortal(_CapsuleDestructor(
    lambda capsule, drop=_drop, name=_VERSIONED, kind=_Versioned: drop(capsule, name, kind)))


class Buffer(Object):
    """Memory of a device or of the host, as input or output of executions and ops. NumPy and PyTorch take it without a
    copy (numpy.from_dlpack, torch.from_dlpack) where it is host memory, and `Buffer.of` takes theirs."""

    def __init__(self, shape: Sequence[int], dtype: Any = "float32", *, device: str | None = "0",
                 machine: Machine | None = None) -> None:
        """Contents undefined. `device`: its name or its index in the machine; None: host memory."""
        machine = shared_machine() if machine is None else machine
        below, desc, pointer = machine._held(), desc_of(dtype, shape), out()
        check(ready().braid_buffer_create(below.pointer, encode_or_none(device), ctypes.byref(desc),
                                          ctypes.byref(pointer)))
        self._adopt(pointer, machine, below)

    def _adopt(self, pointer: Any, machine: Machine, *keeps: Any) -> None:
        self._handle = Handle(pointer.value, lib.braid_buffer_release, *keeps)
        self.machine = machine
        self.read_only = False

    @classmethod
    def _from(cls, pointer: Any, machine: Machine, *keeps: Any) -> Buffer:
        buffer = cls.__new__(cls)
        buffer._adopt(pointer, machine, *keeps)
        return buffer

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: Any = "float32", *, machine: Machine | None = None) -> Buffer:
        """Host memory; contents undefined."""
        return cls(shape, dtype, device=None, machine=machine)

    @classmethod
    def of(cls, array: Any, *, machine: Machine | None = None) -> Buffer:
        """A buffer over the memory of an array: of NumPy, of PyTorch, or of any library with DLPack. Nothing is copied;
        an array that is not row-major is refused. The array lives as long as the buffer does."""
        machine = shared_machine() if machine is None else machine
        if isinstance(array, Buffer):
            return array
        if hasattr(array, "__dlpack__") and not hasattr(array, "__array_interface__") and not is_torch(array):
            return cls._import(array, machine)
        return cls._wrap(locate(array, None, "the array", False, False), machine, array)

    @classmethod
    def _wrap(cls, place: Located, machine: Machine, array: Any = None) -> Buffer:
        below, desc, pointer = machine._held(), array_desc(place.dtype, place.shape), out()
        check(ready().braid_buffer_wrap(below.pointer, ctypes.byref(desc), place.address, None, None,
                                        ctypes.byref(pointer)))
        buffer = cls._from(pointer, machine, below, place.owner)
        buffer.read_only = not getattr(getattr(array, "flags", None), "writeable", True)
        return buffer

    @classmethod
    def _import(cls, array: Any, machine: Machine) -> Buffer:
        """By the library's own import, which takes the tensor over."""
        device = array.__dlpack_device__()
        if int(device[0]) != 1:
            raise UnsupportedError(f"the array is in the memory of a device (DLPack's kind {int(device[0])}), expected "
                                   "host memory")
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = array.__dlpack__()
        below, pointer = machine._held(), out()
        if _capsule_is(capsule, _VERSIONED):
            tensor = _capsule_pointer(capsule, _VERSIONED)
            check(lib.braid_buffer_import_dlpack_versioned(below.pointer, tensor, ctypes.byref(pointer)))
            _capsule_rename(capsule, _USED_VERSIONED)
            read_only = bool(_Versioned.from_address(tensor).flags & 1)
        else:
            tensor = _capsule_pointer(capsule, _PLAIN)
            check(lib.braid_buffer_import_dlpack(below.pointer, tensor, ctypes.byref(pointer)))
            _capsule_rename(capsule, _USED_PLAIN)
            read_only = False
        buffer = cls._from(pointer, machine, below)
        buffer.read_only = read_only
        return buffer

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[Any, int] | None = None, copy: bool | None = None) -> Any:
        """The contents for another library, without a copy: they live as long as it uses them."""
        handle = self._held()
        if stream not in (None, -1):
            raise BufferError("a buffer in host memory has no stream")
        if dl_device is not None and (int(dl_device[0]), dl_device[1]) != (1, 0):
            raise BufferError(f"the buffer is in host memory, not on DLPack's device {dl_device}")
        if copy:
            raise BufferError("the buffer is exported as it is, without a copy; numpy() copies it")
        if self.host_address is None:
            raise BufferError(f"the buffer is in the memory of {self.device}, expected host memory: numpy() copies it")
        tensor = out()
        if max_version is not None and max_version[0] >= 1:
            check(lib.braid_buffer_export_dlpack_versioned(handle.pointer, ctypes.byref(tensor)))
            if self.read_only:
                _Versioned.from_address(tensor.value or 0).flags |= 1
            return self._capsule(handle, tensor, _VERSIONED, _drop_versioned)
        if self.read_only:
            raise BufferError("the buffer is read-only, which only DLPack 1 can tell")
        check(lib.braid_buffer_export_dlpack(handle.pointer, ctypes.byref(tensor)))
        return self._capsule(handle, tensor, _PLAIN, _drop_plain)

    def _capsule(self, handle: Handle, tensor: Any, name: Any, drop: Any) -> Any:
        _export(handle, tensor.value, name is _VERSIONED)
        return _capsule_new(tensor, name, ctypes.cast(drop, ctypes.c_void_p))

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.host_address is None:
            raise BufferError(f"the buffer is in the memory of {self.device}; numpy() copies it")
        return (1, 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For numpy.asarray: a view where it is host memory, else a copy."""
        array = self._view()
        if array is None:
            if copy is False:
                raise ValueError(f"the buffer is in the memory of {self.device} and cannot be taken without a copy")
            array = self.numpy()
        elif copy:
            array = array.copy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def _view(self) -> Any:
        """The memory as a NumPy array; None: it is not in host memory."""
        handle = self._held()
        address = lib.braid_buffer_host(handle.pointer)
        if address is None:
            return None
        desc = lib.braid_buffer_desc(handle.pointer)
        kind = numpy_dtype(NAMES[desc.contents.dtype])
        if kind is None:
            raise UnsupportedError(f"the buffer is {self.dtype}, which NumPy has with the package ml_dtypes only")
        memory = Memory(address, lib.braid_desc_bytes(desc), handle, self.read_only)
        return _asarray(memory).view(kind).reshape(fixed_shape(desc.contents))

    # --- what it is ---
    def _desc(self) -> Any:  # a braid_desc
        return lib.braid_buffer_desc(self._held().pointer).contents

    @property
    def dtype(self) -> str:
        """The type of its elements."""
        name: str = NAMES[self._desc().dtype]
        return name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        return fixed_shape(self._desc())

    @property
    def nbytes(self) -> int:
        """Its size."""
        desc = self._desc()
        return int(lib.braid_desc_bytes(ctypes.byref(desc)))

    @property
    def device(self) -> str:
        """The name of its device; "host": host memory."""
        handle = self._held()
        return text(lib.braid_buffer_device(handle.pointer))

    @property
    def host_address(self) -> int | None:
        """Where it is; None if it is not in host memory."""
        handle = self._held()
        address = lib.braid_buffer_host(handle.pointer)
        return None if address is None else int(address)

    def __repr__(self) -> str:
        if self.closed:
            return "<braid.Buffer, closed>"
        return f"<braid.Buffer {self.dtype}{list(self.shape)} on {self.device}>"

    # --- contents ---
    def numpy(self) -> Any:
        """A copy as a NumPy array."""
        handle = self._held()
        array = empty(self.dtype, self.shape)
        if array is None:
            raise UnsupportedError(f"the buffer is {self.dtype}, which NumPy has with the package ml_dtypes only")
        check_run(lib.braid_buffer_read(handle.pointer, numpy_address(array, True), array.nbytes, -1), array)
        return array

    def write(self, array: Any) -> None:
        """Copies an array of its type and shape into it."""
        handle, place = self._held(), locate(array, self.dtype)
        self._check(place)
        if self.read_only:
            raise InvalidArgumentError("the buffer is read-only")
        check_run(lib.braid_buffer_write(handle.pointer, place.address, self.nbytes, -1), place)

    def read(self, into: Any) -> Any:
        """Copies the contents into an array of its type and shape, which is returned."""
        handle, place = self._held(), locate(into, None, "the array", True, False)
        self._check(place)
        check_run(lib.braid_buffer_read(handle.pointer, place.address, self.nbytes, -1), place)
        return into

    def _check(self, place: Located) -> None:
        if (place.dtype, place.shape) != (self.dtype, self.shape):
            raise InvalidArgumentError(f"the array is {place.dtype}{list(place.shape)}, expected "
                                       f"{self.dtype}{list(self.shape)}")

    def view(self, shape: Sequence[int], dtype: Any = None, *, offset: int = 0) -> Buffer:
        """A view of a part, `offset` bytes from its start, with another shape or type."""
        handle, pointer = self._held(), out()
        desc = desc_of(self.dtype if dtype is None else dtype, shape)
        check(lib.braid_buffer_view(handle.pointer, offset, ctypes.byref(desc), ctypes.byref(pointer)))
        made = Buffer._from(pointer, self.machine, handle)
        made.read_only = self.read_only
        return made


# The handles of buffers that other libraries have tensors of, and so the arrays below them, until these call the
# tensor's deleter: the library's own reference does not hold Python's objects. One function is the deleter of all,
# since one that is freed while it runs would return to freed memory.
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_exported: dict[int, tuple[Handle, int]] = {}


def _delete_exported(address: int, exported: Any = _exported, deleter: Any = _Deleter) -> None:
    handle, original = exported.pop(address)
    deleter(original)(address)
    del handle


_delete = immortal(_Deleter(_delete_exported))


def _export(handle: Handle, address: int, versioned: bool) -> None:
    tensor = (_Versioned if versioned else _ManagedTensor).from_address(address)
    original = ctypes.cast(tensor.deleter, ctypes.c_void_p).value or 0
    _exported[address] = (handle, original)
    tensor.deleter = _delete


# --- single ops -------------------------------------------------------------------------------------------------------
def _attributes(values: Mapping[str, Any], keep: Keep) -> Any:
    from ._arrays import make_tensor

    attrs = array_type(_abi.braid_attr, len(values))()
    for attr, (name, value) in zip(attrs, values.items()):
        attr.name, value = keep.text(name), plain_attribute(value)
        if isinstance(value, (bool, int)):
            attr.kind, attr.i = _abi.BRAID_ATTR_INT, whole([value], f"attribute {name!r}")[0]
        elif isinstance(value, float):
            attr.kind, attr.f = _abi.BRAID_ATTR_FLOAT, value
        elif isinstance(value, str):
            attr.kind, attr.s = _abi.BRAID_ATTR_STRING, keep.text(value)
        elif isinstance(value, (list, tuple)):
            _attribute_list(attr, name, list(value), keep)
        else:
            tensor = make_tensor(value, None, f"attribute {name!r}")
            keep.append(tensor)
            attr.kind, attr.tensor = _abi.BRAID_ATTR_TENSOR, tensor.pointer
    keep.append(attrs)
    return attrs


def _attribute_list(attr: Any, name: str, values: list[Any], keep: Keep) -> None:
    attr.count = len(values)
    if values and all(isinstance(value, str) for value in values):
        attr.kind, attr.strings = _abi.BRAID_ATTR_STRINGS, keep.texts(values)
    elif any(isinstance(value, float) for value in values):
        numbers = (ctypes.c_float * max(1, len(values)))(*values)
        keep.append(numbers)
        attr.kind, attr.floats = _abi.BRAID_ATTR_FLOATS, numbers
    else:
        numbers = whole(values, f"attribute {name!r}") or array_type(ctypes.c_int64, 0)()
        keep.append(numbers)
        attr.kind, attr.ints = _abi.BRAID_ATTR_INTS, numbers


def _wrap_for_call(machine: Handle, place: Located, keep: Keep, wrapped: list[Any]) -> int | None:
    """A buffer over an array for one call."""
    pointer = out()
    desc = array_desc(place.dtype, place.shape)
    check(lib.braid_buffer_wrap(machine.pointer, ctypes.byref(desc), place.address, None, None, ctypes.byref(pointer)))
    keep.append(place.owner)
    wrapped.append(pointer)
    return pointer.value


_INPUTS, _OUTPUTS = (field_type(_abi.braid_op_call, name) for name in ("inputs", "outputs"))


def call(machine: Machine, op: str, inputs: Sequence[Any], device: str | None, outputs: int,
         constants: Sequence[int], attributes: Mapping[str, Any]) -> Any:
    """Machine.op."""
    check_outputs(outputs)
    outside_ops(machine.shared)
    below, keep, fixed, count = machine._held(), Keep(), 0, len(inputs)
    pointers = array_type(ctypes.c_void_p, count)()
    wrapped: list[Any] = []
    made, as_buffers = array_type(ctypes.c_void_p, outputs)(), False
    ready()
    try:
        for index, value in enumerate(inputs):
            if isinstance(value, Buffer):
                as_buffers = True
                handle = value._held()
                keep.append(handle)
                pointers[index] = handle.pointer
            elif value is not None:
                if isinstance(value, (int, float, list, tuple)):
                    fixed |= 1 << index
                    value = _given(value)
                pointers[index] = _wrap_for_call(below, locate(value, None, f"input {index}"), keep, wrapped)
        for index in constants:
            if not 0 <= index < count:
                raise InvalidArgumentError(f"input {index} is to be constant, of {count} inputs")
            fixed |= 1 << index
        request = _abi.braid_op_call(encode_name(op), _attributes(attributes, keep) if attributes else None,
                                     len(attributes), ctypes.cast(pointers, _INPUTS), count, fixed,
                                     ctypes.cast(made, _OUTPUTS), outputs, keep.text(device))
        check_run(lib.braid_machine_call(below.pointer, ctypes.byref(request)), keep)
    finally:
        for pointer in wrapped:
            lib.braid_buffer_release(pointer)
    buffers = [Buffer._from(ctypes.c_void_p(pointer), machine, below) for pointer in made[:outputs]]
    if as_buffers:
        return buffers[0] if outputs == 1 else tuple(buffers)
    like_torch = bool(inputs) and is_torch(inputs[0])
    arrays = [_as_array(buffer, like_torch) for buffer in buffers]
    return arrays[0] if outputs == 1 else tuple(arrays)


def _given(value: Any) -> Any:
    """Numbers in the call itself: int64 as axes and shapes are, float32 as networks compute."""
    array = np.asarray(value)
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float32)


def _as_array(buffer: Buffer, like_torch: bool) -> Any:
    if like_torch:
        from ._arrays import torch

        return torch().from_dlpack(buffer) if buffer.host_address is not None else torch().from_numpy(buffer.numpy())
    try:
        view = buffer._view()
    except UnsupportedError:
        return buffer
    return buffer.numpy() if view is None else view


def op(name: str, *inputs: Any, device: str | None = None, outputs: int = 1, constants: Sequence[int] = (),
       machine: Machine | None = None, **attributes: Any) -> Any:
    """Runs one op and returns its output, or a tuple of `outputs`: braid.op("Softmax", x, axis=-1).

    Inputs are arrays or Buffers; None is an omitted one. Numbers and lists, and the inputs whose indices are in
    `constants`, are constants: their contents may determine shapes (braid.op("Reshape", x, [2, -1])), and the call is
    prepared for them. If an input is a Buffer, outputs are Buffers on the device, else arrays. The machine keeps the
    256 most recently used calls prepared."""
    if machine is None:
        machine = _machine_of(device or "cpu", inputs)
        device = None
    return call(machine, name, inputs, device, outputs, constants, attributes)


# Opening a device takes far longer than an op: those that ops have used stay open.
_machines: dict[str, Machine] = {}


def _machine_of(device: str, inputs: Sequence[Any]) -> Machine:
    """The machine that the inputs are on, if there are Buffers, else that of the device."""
    for value in inputs:
        if isinstance(value, Buffer):
            return value.machine
    found = _machines.get(device)
    if found is None or found.closed:
        found = _machines[device] = shared_machine(device)
    return found


def supports(machine: Machine, op: str, inputs: Sequence[Any], device: str | None, outputs: int,
             constants: Sequence[int], attributes: Mapping[str, Any]) -> list[Candidate]:
    """Machine.supports."""
    below, keep = machine._held(), Keep()
    operands = (_abi.braid_operand * max(1, len(inputs)))()
    for index, (operand, value) in enumerate(zip(operands, inputs)):
        operand.present = value is not None
        if value is None:
            continue
        if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], (int, float)):
            operand.desc = desc_of(value[0], value[1])
            continue
        place = locate(_given(value) if isinstance(value, (int, float, list, tuple)) else value)
        keep.append(place)
        operand.desc = desc_of(place.dtype, place.shape)
        if index in constants or isinstance(value, (int, float, list)):
            operand.constant = place.address
    use = _abi.braid_op_use(encode_name(op), _attributes(attributes, keep), len(attributes), operands, len(inputs),
                            outputs, keep.text(device))
    found: list[Candidate] = []
    guard = Guard()

    def add(_context: int | None, address: int) -> None:
        one = _abi.braid_op_candidate.from_address(address)
        found.append(Candidate(text(one.device), text(one.kernel), text_or_none(one.why)))

    report = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        lambda context, address: guard.call(add, None, context, address))
    status = ready().braid_machine_supports(below.pointer, ctypes.byref(use), report, None, None)
    check(status)
    guard.reraise()
    return found



