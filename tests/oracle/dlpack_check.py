"""Buffers against NumPy and PyTorch: dlpack_check.py LIBBRAID.SO

Tensors of theirs become buffers of the library and buffers become tensors of theirs, by capsules as Python exchanges
them, in the old form and in the versioned one."""
import ctypes
import gc
import sys

import numpy
import torch

braid = ctypes.CDLL(sys.argv[1])
braid.braid_status_text.restype = ctypes.c_char_p
braid.braid_error_detail.restype = ctypes.c_char_p
for name in ("braid_buffer_host", "braid_buffer_desc"):
    getattr(braid, name).restype = ctypes.c_void_p
    getattr(braid, name).argtypes = [ctypes.c_void_p]
braid.braid_buffer_release.argtypes = [ctypes.c_void_p]
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


class Refused(Exception):
    pass


def call(name, *arguments):
    status = getattr(braid, name)(*arguments)
    if status:
        raise Refused(braid.braid_error_detail().decode())


machine = ctypes.c_void_p()
call("braid_machine_create", None, None, ctypes.byref(machine))


def take(owner, versioned):
    """A buffer over the memory of a tensor of theirs."""
    capsule = owner.__dlpack__(max_version=(1, 0)) if versioned else owner.__dlpack__()
    name = NAMES[versioned]
    pointer = api.PyCapsule_GetPointer(capsule, name)
    buffer = ctypes.c_void_p()
    suffix = "_versioned" if versioned else ""
    call("braid_buffer_import_dlpack" + suffix, machine, ctypes.c_void_p(pointer), ctypes.byref(buffer))
    api.PyCapsule_SetName(capsule, USED[versioned])
    return buffer


class Shown:
    """What from_dlpack of both libraries asks of an object."""

    def __init__(self, buffer, versioned):
        self.buffer, self.versioned = buffer, versioned

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        out = ctypes.c_void_p()
        suffix = "_versioned" if self.versioned else ""
        call("braid_buffer_export_dlpack" + suffix, self.buffer, ctypes.byref(out))
        return api.PyCapsule_New(out, NAMES[self.versioned], None)


def supports_versions(owner):
    try:
        owner.__dlpack__(max_version=(1, 0))
        return True
    except TypeError:
        return False


count = 0
for versioned in (False, True):
    for dtype in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"):
        for library in ("torch", "numpy"):
            values = numpy.arange(24).reshape(2, 3, 4) % (2 if dtype == "bool" else 100)
            array = values.astype(dtype)
            owner = torch.from_numpy(array.copy()) if library == "torch" else array.copy()
            if versioned and not supports_versions(owner):
                continue
            address = owner.data_ptr() if library == "torch" else owner.ctypes.data
            buffer = take(owner, versioned)
            del owner
            gc.collect()  # the buffer alone keeps the memory
            assert braid.braid_buffer_host(buffer) == address
            for into in (torch.from_dlpack, numpy.from_dlpack):
                try:
                    back = into(Shown(buffer, versioned))
                except (TypeError, BufferError, RuntimeError, ValueError):
                    if not versioned:
                        raise
                    continue  # a library that does not know the versioned form
                assert numpy.array_equal(numpy.asarray(back), array), (dtype, library, into)
                count += 1
            view = torch.from_dlpack(Shown(buffer, False))
            braid.braid_buffer_release(buffer)
            gc.collect()  # the tensor alone keeps the buffer
            assert numpy.array_equal(view.numpy(), array)

for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu):
    owner = torch.arange(1, 25).to(dtype)
    back = torch.from_dlpack(Shown(take(owner, True), True))
    assert back.dtype == dtype and back.data_ptr() == owner.data_ptr()
    count += 1

for versioned in (False, True):
    refused = torch.arange(12.0).reshape(3, 4).t()
    if versioned and not supports_versions(refused):
        continue
    try:
        take(refused, versioned)
        raise AssertionError("a transposed tensor was taken")
    except Refused as refusal:
        assert "row-major" in str(refusal), refusal
    assert refused[1, 2] == 9
frozen = numpy.arange(4.0)
frozen.flags.writeable = False
if supports_versions(frozen):
    buffer = take(frozen, True)
    zeros = numpy.zeros(4)
    status = braid.braid_buffer_write(buffer, ctypes.c_void_p(zeros.ctypes.data), ctypes.c_size_t(32),
                                      ctypes.c_int64(-1))
    assert status != 0 and b"read-only" in braid.braid_error_detail()
    braid.braid_buffer_release(buffer)
assert count >= 36, count
print(count, "tensors went there and back")
