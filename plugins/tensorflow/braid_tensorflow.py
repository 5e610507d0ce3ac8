"""The Python part of Braid's TensorFlow plug-in. The plug-in runs it when it is loaded; afterwards it can be imported.

What it changes in TensorFlow:
* assign_add and assign_sub of a variable on an FPGA device become an assignment of the sum or difference, because
  TensorFlow's own ops compute on the host without waiting for the device.
* Keras does not ask for XLA by itself (jit_compile="auto") where there is an FPGA device, which XLA does not know.
"""
import ctypes
import importlib.abc
import importlib.util
import sys

_library = ctypes.CDLL(__file__)
_library.braid_tf_calls.restype = ctypes.c_size_t
_library.braid_tf_calls.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def calls():
    """How often a kernel of ours was launched in this process: {("FPGA:0", "MatMul"): 12, ...}."""
    size = _library.braid_tf_calls(None, 0) + 4096
    text = ctypes.create_string_buffer(size)
    _library.braid_tf_calls(text, size)
    result = {}
    for line in text.value.decode().splitlines():
        device, op, count = line.split()
        result["FPGA:" + device, op] = int(count)
    return result


def _update_by_assignment():
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import resource_variable_ops

    def on_fpga(variable):
        try:
            return "CPU" not in variable.handle.device.upper()
        except (AttributeError, NotImplementedError):
            return True

    def changed(original, combine):
        def update(self, delta, use_locking=None, name=None, read_value=True):
            if not on_fpga(self):
                return original(self, delta, use_locking, name, read_value)
            with ops.name_scope(name or "update"), ops.device(self.handle.device):
                value = combine(self.read_value(), ops.convert_to_tensor(delta, dtype=self.dtype.base_dtype))
            return self.assign(value, use_locking=use_locking, read_value=read_value)

        update.__doc__ = original.__doc__
        return update

    for kind in (resource_variable_ops.BaseResourceVariable, resource_variable_ops.ResourceVariable):
        for name, combine in (("assign_add", lambda a, b: a + b), ("assign_sub", lambda a, b: a - b)):
            if name in kind.__dict__:
                setattr(kind, name, changed(kind.__dict__[name], combine))


_TRAINER = "keras.src.trainers.trainer"


def _without_xla(trainer):
    original = trainer.model_supports_jit

    def model_supports_jit(model):
        import tensorflow as tf
        return not tf.config.list_physical_devices("FPGA") and original(model)

    trainer.model_supports_jit = model_supports_jit


class _AfterImport(importlib.abc.MetaPathFinder):
    """Changes Keras's trainer when it is imported."""

    def find_spec(self, name, path, target=None):
        if name != _TRAINER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _without_xla(module)

            spec.loader.exec_module = exec_module
        return spec


_update_by_assignment()
if _TRAINER in sys.modules:
    _without_xla(sys.modules[_TRAINER])
else:
    sys.meta_path.insert(0, _AfterImport())
_library.braid_tf_updates_are_assignments()
