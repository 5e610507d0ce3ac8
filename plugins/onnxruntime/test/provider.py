"""What the tests of the provider share: registering the library, sessions that never fall back in silence, and which
nodes ran where. BRAID_ORT_PLUGIN is the path of libbraid_onnxruntime.so."""
import os

import numpy as np
import onnxruntime as ort

NAME = "BraidExecutionProvider"
PLUGIN = os.environ.get("BRAID_ORT_PLUGIN", "build/plugins/libbraid_onnxruntime.so")
VERSION = tuple(int(part) for part in ort.__version__.split(".")[:2])
ort.set_default_logger_severity(3)


def register():
    ort.register_execution_provider_library("braid", os.path.abspath(PLUGIN))
    return devices()


def devices():
    return [d for d in ort.get_ep_devices() if d.ep_name == NAME]


def session(model, options=None, entries=None, setup=None):
    """`model`: a path, bytes, or an onnx.ModelProto. `options`: of the provider. Errors are exceptions: ONNX Runtime's
    habit of running on its CPU provider instead is switched off."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in (entries or {}).items():
        settings.add_session_config_entry(key, value)
    if setup:
        setup(settings)
    settings.add_provider_for_devices(devices(), {k: str(v) for k, v in (options or {}).items()})
    return ort.InferenceSession(model, settings, enable_fallback=0)


def cpu_session(model, setup=None):
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    if setup:
        setup(settings)
    return ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def assignment(run):
    """Nodes and groups of each provider: {"BraidExecutionProvider": (54, 1)}."""
    counts = {}
    for group in run.get_provider_graph_assignment_info():
        nodes, groups = counts.get(group.ep_name, (0, 0))
        counts[group.ep_name] = (nodes + len(group.get_nodes()), groups + 1)
    return counts


def claimed(run):
    return assignment(run).get(NAME, (0, 0))


def difference(got, expected, relative=1e-3, absolute=1e-7):
    """None if both are the same within the tolerances of ONNX's runner, else a sentence."""
    if isinstance(got, (list, tuple)) or isinstance(expected, (list, tuple)):
        if len(got) != len(expected):
            return f"{len(got)} elements, expected {len(expected)}"
        return next((d for d in (difference(a, b, relative, absolute) for a, b in zip(got, expected)) if d), None)
    if got is None or expected is None:
        return None if got is expected else "one is missing"
    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if got.dtype.kind not in "fc":
        return None if np.array_equal(got, expected) else "other values"
    a, b = got.astype(np.float64), expected.astype(np.float64)
    if np.allclose(a, b, rtol=relative, atol=absolute, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"off by {np.nanmax(np.abs(a - b)):.3g}"
