"""Single ops on buffers, as a framework above the library calls them: y = softmax(relu(x W)). What one op leaves on a
device the next takes there; the result goes out by DLPack."""

import sys

import braid
import numpy as np

machine = braid.Machine("cpu")
x = braid.Buffer((2, 3), machine=machine)
x.write(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
w = braid.Buffer((3, 4), machine=machine)
w.write(np.array([[1, 0, 0, -1], [0, 1, 0, -1], [0, 0, 1, -1]], np.float32))
for candidate in machine.supports("MatMul", ("float32", x.shape), ("float32", w.shape)):
    print(f"MatMul: {candidate.device}, {candidate.kernel}{': ' + candidate.why if candidate.why else ''}")
y = machine.op("Softmax", machine.op("Relu", machine.op("MatMul", x, w)))
rows = np.from_dlpack(y)  # torch.from_dlpack takes it, too
print(rows)
if abs(rows.sum() - 2) > 1e-3:
    sys.exit(f"the rows sum to {rows.sum()}, expected 2")
