"""Runs a model on a device of a plug-in, and on the CPU what it lacks: plugin.py PLUGIN.so DEVICE MODEL.onnx

Backends are written in C (examples/plugin.c, examples/unified.c), built against the headers in the package:
    cc -shared -fPIC plugin.c -o plugin.so -I $(python -c "import braid; print(braid.get_include())")"""

import sys

import braid
import numpy as np

plugin, device, path = sys.argv[1:]
registry = braid.Registry(plugins=[plugin])
print(next(info for info in registry.devices() if info.name == device))
machine = braid.Machine(f"{device} cpu", registry=registry)
model = braid.load(path, machine=machine, fusion=False)
image = model.inputs[0]
scores = model(np.zeros([size or 1 for size in image.shape or ()], np.float32))
for line in model.lines():
    print(f"{line.node}: {line.device}, {line.kernel}")
print(scores.ravel())
