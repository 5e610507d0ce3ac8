"""An op that Braid does not have, used in a graph, and run. It computes x * x * x, element by element."""

from collections.abc import Sequence
from typing import Any

import braid
import numpy as np

ops = braid.CustomOps()


def as_input(attributes: braid.Attributes, inputs: Sequence[braid.Shaped | None]) -> list[braid.Shaped]:
    x = inputs[0]
    if x is None or x.dtype != "float32":
        raise braid.UnsupportedError("Cube takes float32 only")
    return [x]


@ops.add("example.Cube", inputs=1, infer=as_input)
def cube(attributes: braid.Attributes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    np.power(inputs[0], 3, out=outputs[0])


graph = ops.use(braid.Graph("cubes"))
x = graph.input("x", "float32", (4,))
graph.output(graph.add_node("example.Cube", x, name="cube"))
numbers = np.array([1, 2, 3, -4], np.float32)
for number, cubed in zip(numbers, braid.load(graph).run(numbers)):
    print(f"{number:g} cubed is {cubed:g}")
