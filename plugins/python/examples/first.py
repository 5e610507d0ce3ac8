"""Runs a model on zeros and prints its first output (README's first.c): first.py [MODEL.onnx]"""

import sys

import braid
import numpy as np

model = braid.load(sys.argv[1] if len(sys.argv) > 1 else "model.onnx")
image = model.inputs[0]
output = model.run(np.zeros([size or 1 for size in image.shape or ()], image.dtype))
for number in output.ravel():
    print(f"{number:g}")
