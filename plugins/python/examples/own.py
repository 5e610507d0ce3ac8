"""A network and a data set of one's own: two spirals, told apart by a perceptron that is built here. It is trained and
saved: own.py TRAINED.onnx"""

import math
import sys

import braid
import numpy as np

SAMPLES, HIDDEN = 2000, 32


def read_point(index: int) -> tuple[list[float], int]:
    """A point of one of the spirals. The same index always gives the same sample."""
    t, side = 0.5 + 3.5 * (index // 2) / (SAMPLES / 2), 1 if index % 2 else -1
    return [side * t * math.cos(2 * t) / 4, side * t * math.sin(2 * t) / 4], index % 2


def add_layer(graph: braid.Graph, name: str, x: braid.Value, start: int, end: int, relu: bool) -> braid.Value:
    """Relu(x w + b), or without Relu."""
    scale = math.sqrt(6 / start)
    weight = graph.parameter(random.uniform(-scale, scale, (start, end)).astype(np.float32), f"{name}.weight")
    bias = graph.parameter(np.zeros(end, np.float32), f"{name}.bias")
    y = graph.add_node("Gemm", [x, weight, bias], name=name)
    return graph.add_node("Relu", y) if relu else y


random = np.random.default_rng(1)
graph = braid.Graph("spirals")
x = graph.input("point", "float32", (None, 2))  # any batch
x = add_layer(graph, "first", x, 2, HIDDEN, True)
x = add_layer(graph, "second", x, HIDDEN, HIDDEN, True)
graph.output(add_layer(graph, "third", x, HIDDEN, 2, False), "scores")

data = braid.Dataset.from_function(read_point, SAMPLES, (1, 1, 2), classes=2, class_names=("left", "right"),
                                   name="spirals")
trainer = braid.train(graph, data, optimizer="adam", lr=0.01, batch=50, epochs=15)
trainer.save_onnx(sys.argv[1] if len(sys.argv) > 1 else "spirals.onnx")
model = trainer.model()
accuracy = trainer.history[-1].accuracy
print(f"accuracy {accuracy:.1%}; from {model.inputs[0].name} to {model.outputs[0].name}")
if accuracy < 0.95:
    sys.exit("the spirals were not told apart")
