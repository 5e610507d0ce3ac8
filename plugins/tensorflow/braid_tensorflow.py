"""The Python part of Braid's TensorFlow plug-in. The plug-in runs it when it is loaded; afterwards it can be imported.

What it changes in TensorFlow:
* assign_add and assign_sub of a variable on an FPGA device become an assignment of the sum or difference, because
  TensorFlow's own ops compute on the host without waiting for the device.
* Keras does not ask for XLA by itself (jit_compile="auto", convolutions in groups) where there is an FPGA device, which
  XLA does not know.
"""
import ctypes
import importlib.abc
import importlib.util
import json
import logging
import os
import sys

_library = ctypes.CDLL(__file__)
_library.braid_tf_calls.restype = ctypes.c_size_t
_library.braid_tf_calls.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_library.braid_tf_devices.restype = ctypes.c_size_t
_library.braid_tf_devices.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


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


def _reason(op, types):
    """Why none of the op's kernels for our devices takes a node with these types; None: one does, or it is a function."""
    from tensorflow.python.framework import dtypes, kernels
    registered = kernels.get_registered_kernels_for_op(op).kernel
    ours, reasons = [kernel for kernel in registered if kernel.device_type in ("FPGA", "DEFAULT")], []
    if not registered:
        return None
    for kernel in ours:
        wrong = [f"{limit.name} is {dtypes.as_dtype(types[limit.name]).name}" for limit in kernel.constraint
                 if types.get(limit.name) and types[limit.name] not in limit.allowed_values.list.type]
        if not wrong:
            return None
        reasons += wrong
    return "; ".join(sorted(set(reasons))) if ours else "no kernel for FPGA devices"


def _types(node):
    return {name: value.type for name, value in node.attr.items()}


def missing(function):
    """What of a tf.function's concrete function TensorFlow will run elsewhere, and why: {"Bitcast": "no kernel ..."}."""
    graph = function.graph.as_graph_def()
    result = {}
    for node in list(graph.node) + [node for part in graph.library.function for node in part.node_def]:
        reason = _reason(node.op, _types(node))
        if reason and node.op != "Placeholder":
            result.setdefault(node.op, set()).add(reason)
    return {op: ", or ".join(sorted(reasons)) for op, reasons in result.items()}


def log_missing():
    """From now on the log "braid_tensorflow" says once of every op that is called or traced outside of a CPU scope and
    has no kernel for FPGA devices that TensorFlow runs it elsewhere, and why. Eager ops take longer for it."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import op_callbacks
    log, told = logging.getLogger("braid_tensorflow"), set()

    def look(op, inputs, attrs, outputs, op_name=None, graph=None):
        if graph is None:
            device, types = context.context().device_name, dict(zip(attrs[::2], attrs[1::2]))
            types = {name: value for name, value in types.items() if isinstance(value, int)}
        elif outputs:
            device, types = outputs[0].op.device, _types(outputs[0].op.node_def)
        else:
            return
        reason = None if op == "Placeholder" or "CPU" in (device or "") else _reason(op, types)
        if reason and (op, reason) not in told:
            told.add((op, reason))
            log.warning("TensorFlow runs %s elsewhere than on FPGA devices: %s", op, reason)

    op_callbacks.add_op_callback(look)


def devices():
    """What FPGA:0 and on are, as BRAID_TF_DEVICES or the platform file name them: ["fpga0.0", "fpga0.1"]."""
    size = _library.braid_tf_devices(None, 0) + 1
    text = ctypes.create_string_buffer(size)
    _library.braid_tf_devices(text, size)
    return text.value.decode().splitlines()


def _placed(path):
    """Pairs of a node's name and its device's, from what `braid plan` wrote with --save or --trace."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.startswith("# braid placement "):
        lines = text.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith("nodes ")), len(lines))
        return [tuple(reversed(line.split(" ", 1))) for line in lines[start + 1:] if " " in line]
    try:
        events = json.loads(text)["traceEvents"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: expected what `braid plan` writes with --save or --trace") from None
    threads = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    return [(event["name"], threads[event["tid"]]) for event in events
            if event.get("ph") == "X" and "op" in event.get("args", {})]


def device_strings(path, names=None):
    """A plan of Braid's as devices for `tf.device`: {"6_convolutional/Conv": "/FPGA:1", ...}.

    `path`: what `braid plan` wrote with --save or --trace. `names` says what its devices are ({"gpu": "/CPU:0"}); without
    it, those that devices() has are these, "cpu" is "/CPU:0", and others whose names begin with "fpga" are the FPGA
    devices in the order of their names. ValueError names those that remain."""
    placed, ours = _placed(path), devices()
    known = {spec: f"/FPGA:{i}" for i, spec in enumerate(ours)}
    boards = sorted({device for _, device in placed if device.startswith("fpga") and device not in known})
    known.update({name: f"/FPGA:{i}" for i, name in enumerate(boards) if i < len(ours)})
    known["cpu"] = "/CPU:0"
    known.update(names or {})
    unknown = sorted({device for _, device in placed} - set(known))
    if unknown:
        raise ValueError(f"{path}: devices {', '.join(unknown)}: say in `names` what they are; there are {len(ours)} FPGA "
                         f"devices")
    return {node: known[device] for node, device in placed}


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


def _on_cpu():
    """Whether what is called here was told to run on TensorFlow's CPU."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op
    device = "" if context.executing_eagerly() else constant_op.constant(0).device
    return "CPU" in (device or context.context().device_name or "")  # a graph has the scopes within it only


class _TensorFlowWithoutXla:
    """TensorFlow for Keras's ops: a function to be compiled by XLA is one without it, unless it runs on the CPU."""

    def __init__(self, tensorflow):
        self._tensorflow = tensorflow

    def __getattr__(self, name):
        return getattr(self._tensorflow, name)

    def function(self, *args, **options):
        if not options.get("jit_compile") or args or not self._tensorflow.config.list_physical_devices("FPGA"):
            return self._tensorflow.function(*args, **options)

        def decorate(body):
            compiled = self._tensorflow.function(body, **options)
            return lambda *operands, **named: (compiled if _on_cpu() else body)(*operands, **named)

        return decorate


def _trainer_without_xla(trainer):
    original = trainer.model_supports_jit

    def model_supports_jit(model):
        import tensorflow as tf
        return not tf.config.list_physical_devices("FPGA") and original(model)

    trainer.model_supports_jit = model_supports_jit


def _ops_without_xla(nn):
    nn.tf = _TensorFlowWithoutXla(nn.tf)


_CHANGES = {"keras.src.trainers.trainer": _trainer_without_xla, "keras.src.backend.tensorflow.nn": _ops_without_xla}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Changes Keras's modules when they are imported."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path, target=None):
        change = self.changes.pop(name, None)
        if not change:
            return None
        if not self.changes:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                change(module)

            spec.loader.exec_module = exec_module
        return spec


_update_by_assignment()
if os.environ.get("BRAID_TF_LOG_MISSING", "0") not in ("", "0"):
    log_missing()
for _name in [name for name in _CHANGES if name in sys.modules]:
    _CHANGES.pop(_name)(sys.modules[_name])
if _CHANGES:
    sys.meta_path.insert(0, _AfterImport(_CHANGES))
_library.braid_tf_updates_are_assignments()
