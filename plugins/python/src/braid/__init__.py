"""Braid trains and runs neural networks on CPUs, GPUs and FPGAs.

    import braid
    model = braid.load("model.onnx")
    scores = model(image)

docs/python.md of the source tree has a page on every part."""

from ._library import VERSION as __version__
from .buffer import Buffer, op
from .errors import *  # noqa: F403
from .graph import Graph, Node, Value, load_graph
from .machine import Candidate, DeviceInfo, Machine, Registry, devices, machine
from .model import Model, load
from .plan import Execution, Offer, Plan, PlanLine, ValueInfo, Weights
