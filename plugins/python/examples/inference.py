"""Runs a model on zeros and prints its output, as inference.c does, by a session: inference.py MODEL.onnx"""

import sys

import braid
import numpy as np

graph = braid.load_graph(sys.argv[1] if len(sys.argv) > 1 else "model.onnx")
with braid.Session(graph) as session:
    if len(session.inputs) != 1 or len(session.outputs) != 1:
        sys.exit("the model has not one input and one output")
    scores = session.run(np.zeros(session.inputs[0].shape or (), np.float32))
    for score in scores.ravel():
        print(f"{score:g}")
