"""Runs a model at two batch sizes at the same time, over one set of weights: several.py MODEL.onnx

A Model does this by itself for every shape that it is given; here are the parts that it consists of."""

import sys

import braid
import numpy as np

graph = braid.load_graph(sys.argv[1] if len(sys.argv) > 1 else "model.onnx")
machine = braid.Machine("cpu")
weights = braid.Weights(machine)
runs = []
for batch in (1, 4):
    sized = graph.clone()
    image = sized.inputs[0]
    sized.set_input_shape(image.name, [batch, *(size or 1 for size in (image.shape or ())[1:])])
    runs.append(braid.Plan(machine, sized).execution(weights))
for run in runs:
    run.submit(np.zeros(run.plan.inputs[0].shape or (), np.float32))
first, second = (run.wait() for run in runs)
print(f"{first.flat[0]:g} and {second.flat[0]:g} over {weights.nbytes} bytes of weights")
