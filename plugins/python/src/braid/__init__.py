"""Braid trains and runs neural networks on CPUs, GPUs and FPGAs.

    import braid
    model = braid.load("model.onnx")
    scores = model(image)

docs/python.md of the source tree has a page on every part."""

import os as _os

from ._arrays import SupportsDLPack
from ._library import VERSION as __version__
from .buffer import Buffer, op
from .custom import Attributes, CustomOps, Shaped
from .data import Batch, Dataset, DatasetInfo, Loader, load_image
from .errors import (BusyError, CancelledError, ClosedError, DeviceLostError, Error, FileError, ForkedError,
                     InternalError, InvalidArgumentError, InvalidFileError, InvalidGraphError, NotFiniteError,
                     NotFoundError, OutOfMemoryError, OutOfRangeError, TimedOutError, TornError, UnsupportedError)
from .graph import Graph, Node, Value, load_graph
from .ledger import AuditResult, Ledger, LedgerInfo
from .machine import CallStats, Candidate, DeviceInfo, Machine, Registry, devices, machine
from .model import Model, load
from .plan import Execution, Offer, Plan, PlanLine, ValueInfo, Weights, plan_file_text
from .planning import (Forecast, ForecastDevice, ForecastSummary, ForecastTask, ModelledMachine, Placement, Policy,
                       load_placement, policies, training_step)
from .profile import Profile, ProfileDevice, ProfileEntry, ProfileReport
from .quantize import QuantizeLayer, QuantizeResult, QuantizeScore, QuantizeTensor, quantize
from .session import Session, SessionStats
from .train import (ClassResult, NumberResult, ParameterGroup, Progress, RatePoint, RateSearch, TestResult, Trainer,
                    TrainOptions, evaluate, find_rate, replace_head, standardize_input, train, trainable_copy,
                    whiten_filters)


def get_include() -> str:
    """The folder of the C headers, for plug-ins: cc -shared -fPIC mine.c -I FOLDER."""
    return _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "include")


__all__ = [
    "Attributes", "AuditResult", "Batch", "Buffer", "BusyError", "CallStats", "CancelledError", "Candidate",
    "ClassResult", "ClosedError", "CustomOps", "Dataset", "DatasetInfo", "DeviceInfo", "DeviceLostError", "Error",
    "Execution", "FileError", "Forecast", "ForecastDevice", "ForecastSummary", "ForecastTask", "ForkedError", "Graph",
    "InternalError", "InvalidArgumentError", "InvalidFileError", "InvalidGraphError", "Ledger", "LedgerInfo", "Loader",
    "Machine", "Model", "ModelledMachine", "Node", "NotFiniteError", "NotFoundError", "NumberResult", "Offer",
    "OutOfMemoryError", "OutOfRangeError", "ParameterGroup", "Placement", "Plan", "PlanLine", "Policy", "Profile",
    "ProfileDevice", "ProfileEntry", "ProfileReport", "Progress", "QuantizeLayer", "QuantizeResult", "QuantizeScore",
    "QuantizeTensor", "RatePoint", "RateSearch", "Registry", "Session", "SessionStats", "Shaped", "SupportsDLPack",
    "TestResult", "TimedOutError", "TornError", "TrainOptions", "Trainer", "UnsupportedError", "Value", "ValueInfo",
    "Weights", "__version__", "devices", "evaluate", "find_rate", "get_include", "load", "load_graph", "load_image",
    "load_placement", "machine", "op", "plan_file_text", "policies", "quantize", "replace_head", "standardize_input",
    "train", "trainable_copy", "training_step", "whiten_filters",
]
