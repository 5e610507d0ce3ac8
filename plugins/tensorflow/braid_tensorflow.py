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


def _counters():
    size = _library.braid_tf_calls(None, 0) + 4096
    text = ctypes.create_string_buffer(size)
    _library.braid_tf_calls(text, size)
    for line in text.value.decode().splitlines():
        device, op, count, ns = line.split()
        yield ("FPGA:" + device, op), int(count), int(ns)


def calls():
    """How often each op was run by us in this process: {("FPGA:0", "MatMul"): 12, ...}."""
    return {key: count for key, count, _ in _counters()}


def times():
    """The microseconds that this took: {("FPGA:0", "MatMul"): 345.6, ...}."""
    return {key: ns / 1e3 for key, _, ns in _counters()}


def most_at_once():
    """The most kernels of ours that were running at the same time, each on a device of its own."""
    return _library.braid_tf_most_at_once()


def _update_by_assignment():
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import gen_math_ops
    from tensorflow.python.ops import gen_resource_variable_ops as variable_ops
    from tensorflow.python.ops import resource_variable_ops

    def changed(original, combine):
        def update(self, delta, use_locking=None, name=None, read_value=True):
            device = getattr(self.handle, "device", "") or ""
            if "CPU" in device:
                return original(self, delta, use_locking, name, read_value)
            device_scope = context.device if context.executing_eagerly() else ops.device
            with resource_variable_ops._handle_graph(self.handle), self._assign_dependencies(), device_scope(device):
                value = ops.convert_to_tensor(delta, dtype=self.dtype.base_dtype)
                self._shape.assert_is_compatible_with(value.shape)
                value = combine(variable_ops.read_variable_op(self.handle, self.dtype.base_dtype), value, name=name)
                assigned = variable_ops.assign_variable_op(self.handle, value)
            return self._lazy_read(assigned) if read_value else assigned

        update.__doc__ = original.__doc__
        return update

    for kind in (resource_variable_ops.BaseResourceVariable, resource_variable_ops.ResourceVariable):
        for name, combine in (("assign_add", gen_math_ops.add_v2), ("assign_sub", gen_math_ops.sub)):
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
