"""Post-training quantization: a float model becomes one of 8-bit integers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._arrays import locate, wrap_tensor
from ._library import Guard, Keep, check, enum_value, field_type, lib, out, ready, text, text_or_none
from .data import Dataset
from .errors import InvalidArgumentError
from .graph import Graph
from .machine import Machine
from .session import session_options
from .train import Data, ModelSource, _goes_on, as_dataset, as_graph, interruptible


@dataclass(frozen=True)
class QuantizeScore:
    """How near it is to the float model; None: there is no such number. sqnr is in dB, infinite without a
    difference."""

    accuracy: float | None
    agreement: float | None
    sqnr: float | None


@dataclass(frozen=True)
class QuantizeLayer:
    """A convolution or product. `why`: the reason why it stays in float. `without`: the model's score when this layer
    alone is left in float, where that was tried."""

    name: str
    op: str
    why: str | None
    sqnr: float | None
    without: QuantizeScore | None


@dataclass(frozen=True)
class QuantizeTensor:
    """A quantized activation: what was seen in calibration, and the range chosen."""

    name: str
    least: float
    greatest: float
    low: float
    high: float
    scale: float
    zero_point: int


@dataclass(frozen=True)
class QuantizeResult:
    """The quantized model as a graph, and what it costs."""

    graph: Graph
    samples: int
    test_samples: int
    before: QuantizeScore
    after: QuantizeScore
    layers: tuple[QuantizeLayer, ...]
    tensors: tuple[QuantizeTensor, ...]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _score(score: Any) -> QuantizeScore:
    return QuantizeScore(_number(score.accuracy), _number(score.agreement), _number(score.sqnr))


def quantize(model: ModelSource, data: Data | Sequence[Any], test: Data | None = None, *, calibration: str = "minmax",
             percentile: float = 0, per_tensor: bool = False, signed_activations: bool = False,
             reduce_range: bool = False, power_of_two: bool = False, keep: Sequence[str] = (), samples: int = 0,
             test_samples: int = 0, batch: int = 0, layers: int = 0, seed: int = 0, device: str = "cpu",
             threads: int = 0, machine: Machine | None = None,
             progress: Callable[[str, int, int], Any] | None = None) -> QuantizeResult:
    """Quantizes a model, which is not changed: quantize(...).graph.save_onnx(path).

    `data`: a data set or its description to calibrate on, or a list of arrays, one for each input of the model, whose
    first dimension counts the samples. `calibration`: "minmax", "percentile", "entropy". `keep`: patterns of names of
    nodes that stay in float. 0 stands for the library's defaults. docs/quantization.md explains the rest."""
    graph, kept, guard, pointer = as_graph(model), Keep(), Guard(), out()
    source, datasets = _source(data, test, kept)
    options = _abi.braid_quantize_options()
    options.calibration = enum_value("braid_calibration", "BRAID_CALIBRATE_", calibration, "calibration")
    options.percentile, options.per_tensor, options.signed_activations = percentile, per_tensor, signed_activations
    options.reduce_range, options.power_of_two = reduce_range, power_of_two
    options.keep, options.keep_count = kept.texts(keep), len(keep)
    options.samples, options.test_samples, options.batch = samples, test_samples, batch
    options.layers, options.seed = layers, seed
    session = session_options(kept, device, threads, machine)
    options.session = ctypes.pointer(session)
    result = _abi.braid_quantize_result()
    with graph._use() as forward, interruptible() as interrupt:
        options.callback = _abi.braid_quantize_callback(lambda _context, phase, done, total: guard.call(
            lambda: (progress is None or _goes_on(progress(text(phase), done, total))) and not interrupt.pressed,
            False))
        try:
            status = ready().braid_quantize(forward, ctypes.byref(source), ctypes.byref(options), ctypes.byref(result))
            if status:
                interrupt.raise_if_pressed()
                guard.reraise()
                for dataset in datasets:
                    dataset._reraise()
                check(status)
            check(lib.braid_graph_clone(result.graph, ctypes.byref(pointer)))
            return _result(result, Graph._from(pointer, graph._held().keeps))
        finally:
            lib.braid_quantize_result_deinit(ctypes.byref(result))


def _source(data: Any, test: Data | None, kept: Keep) -> tuple[Any, list[Dataset]]:
    source, datasets = _abi.braid_quantize_data(), []
    if isinstance(data, list):
        if test is not None:
            raise InvalidArgumentError("arrays have no labels to test with: give a data set to both, or no test")
        tensors = [wrap_tensor(locate(array)) for array in data]
        pointers = (ctypes.c_void_p * max(1, len(tensors)))(*[tensor.pointer for tensor in tensors])
        kept.append((tensors, pointers))
        source.inputs = ctypes.cast(pointers, field_type(_abi.braid_quantize_data, "inputs"))
        source.input_count = len(tensors)
        return source, []
    datasets = [as_dataset(data, "train")] + ([as_dataset(test, "test")] if test is not None else [])
    handles = [dataset._held() for dataset in datasets]
    source.calibration = handles[0].pointer
    source.test = handles[1].pointer if len(handles) > 1 else None
    kept.append(handles)
    return source, datasets


def _result(result: Any, graph: Graph) -> QuantizeResult:
    layers = tuple(QuantizeLayer(text(one.name), text(one.op), text_or_none(one.why), _number(one.sqnr),
                                 _score(one.without) if one.tried else None)
                   for one in result.layers[:result.layer_count])
    tensors = tuple(QuantizeTensor(text(one.name), one.least, one.greatest, one.low, one.high, one.scale,
                                   one.zero_point) for one in result.tensors[:result.tensor_count])
    return QuantizeResult(graph, result.samples, result.test_samples, _score(result.before), _score(result.after),
                          layers, tensors)
