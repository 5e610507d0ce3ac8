"""What the tests share."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import braid
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent.parent
# Shells start what runs behind them with Ctrl-C ignored, and so would the programs be that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tree() -> Path:
    return TREE


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real models and data; BRAID_DATA as for the tests in C."""
    folder = os.environ.get("BRAID_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("BRAID_DATA names no folder")
    return Path(folder)


@pytest.fixture(scope="session")
def compiler() -> list[str]:
    command = os.environ.get("CC", "cc").split()
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not there")
    return command


def relu_graph(shape: tuple[Any, ...] = (None, 16), dtype: str = "float32") -> braid.Graph:
    graph = braid.Graph("relu")
    graph.output(graph.add_node("Relu", graph.input("x", dtype, shape), name="relu"), "y")
    return graph


def perceptron(inputs: int = 8, hidden: int = 16, classes: int = 3, seed: int = 1) -> braid.Graph:
    random = np.random.default_rng(seed)
    graph = braid.Graph("perceptron")
    x = graph.input("x", "float32", (None, inputs))
    w1 = graph.parameter(random.normal(0, 0.5, (inputs, hidden)).astype(np.float32), "w1")
    b1 = graph.parameter(np.zeros(hidden, np.float32), "b1")
    w2 = graph.parameter(random.normal(0, 0.5, (hidden, classes)).astype(np.float32), "w2")
    b2 = graph.parameter(np.zeros(classes, np.float32), "b2")
    h = graph.add_node("Relu", graph.add_node("Gemm", [x, w1, b1], name="fc1"))
    graph.output(graph.add_node("Gemm", [h, w2, b2], name="fc2"), "scores")
    return graph


def clusters(samples: int = 300, inputs: int = 8, classes: int = 3, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Points around a centre for each class."""
    random = np.random.default_rng(seed)
    centres = random.normal(0, 2, (classes, inputs))
    labels = random.integers(0, classes, samples)
    return (centres[labels] + random.normal(0, 0.5, (samples, inputs))).astype(np.float32), labels


@pytest.fixture
def recording() -> tuple[braid.Graph, list[tuple[int, int]]]:
    """A graph of one custom op that notes where its input and output are: what the library was really given."""
    ops, seen = braid.CustomOps(), []

    @ops.add("test.Copy", inputs=1)
    def copy(attributes: braid.Attributes, inputs: Any, outputs: Any) -> None:
        seen.append((inputs[0].ctypes.data, outputs[0].ctypes.data))
        outputs[0][...] = inputs[0]

    def make(dtype: str = "float32") -> braid.Graph:
        graph = ops.use(braid.Graph("copy"))
        graph.output(graph.add_node("test.Copy", graph.input("x", dtype, (None, None))))
        return graph

    return make, seen  # type: ignore[return-value]


Maker = Callable[..., braid.Graph]


def build_plugin(compiler: list[str], source: Path, folder: Path) -> Path:
    """A plug-in as its users build it."""
    import subprocess

    made = folder / f"{source.stem}.so"
    subprocess.run([*compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(made), "-I", braid.get_include(),
                    "-I", str(TREE / "include")], check=True)
    return made


@pytest.fixture(scope="session")
def tutor(compiler: list[str], tmp_path_factory: pytest.TempPathFactory) -> braid.Machine:
    """A machine with a device that has memory of its own: the example's."""
    plugin = build_plugin(compiler, TREE / "examples/plugin.c", tmp_path_factory.mktemp("plugin"))
    return braid.Machine("tutor cpu", registry=braid.Registry(plugins=[plugin]))
