"""Runs an ONNX model in ONNX Runtime and compares its outputs with arrays computed elsewhere.

usage: onnx_check.py MODEL INPUT.npy... -- OUTPUT.npy...      exit code 1 when they differ
"""
import sys

import numpy
import onnx
import onnxruntime


def main(model, inputs, outputs):
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {value.name: numpy.load(path) for value, path in zip(session.get_inputs(), inputs, strict=True)}
    for value, path, got in zip(session.get_outputs(), outputs, session.run(None, feeds), strict=True):
        expected = numpy.load(path)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"{value.name}: {got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}"
        if not numpy.allclose(got, expected, rtol=1e-3, atol=1e-5, equal_nan=True):
            return f"{value.name}: differs by up to {numpy.abs(got - expected).max()}"
    return None


if __name__ == "__main__":
    split = sys.argv.index("--")
    problem = main(sys.argv[1], sys.argv[2:split], sys.argv[split + 1 :])
    if problem:
        sys.exit(problem)
