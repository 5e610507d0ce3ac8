"""`overlay.py FOLDER COUNT`: what the overlay's reference computed of COUNT random networks beside ONNX Runtime.

Without ONNX Runtime's optimizer, which computes the nodes as they are written: every number is the same, but for
networks with means of numbers that float32 has no reciprocal of, where few may differ. Says what is wrong and ends with
1."""
import glob
import sys

import numpy as np
import onnxruntime


def check(folder, number):
    path = (glob.glob(f"{folder}/{number}.onnx") + glob.glob(f"{folder}/{number}_means.onnx"))[0]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    results = session.run(None, {session.get_inputs()[0].name: np.load(f"{folder}/{number}_x0.npy")})
    different = numbers = 0
    for index, theirs in enumerate(results):
        ours = np.load(f"{folder}/{number}_y{index}.npy")
        assert ours.shape == theirs.shape and theirs.std() > 0 or theirs.size < 4, (path, index)
        different += int((ours != theirs).sum())
        numbers += theirs.size
    print(f"{number}: {different} of {numbers} differ{', with means' * path.endswith('_means.onnx')}", flush=True)
    assert different <= (0.02 * numbers if path.endswith("_means.onnx") else 0), path


for number in range(int(sys.argv[2])):
    check(sys.argv[1], number)
