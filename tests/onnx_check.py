"""Runs an ONNX model in ONNX Runtime and compares its outputs with arrays computed elsewhere.

usage: onnx_check.py [--reference] MODEL INPUT.npy... -- OUTPUT.npy...      exit code 1 when they differ

--reference: in the onnx package itself, for types that ONNX Runtime does not have.
"""
import sys

import numpy
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator


def main(model, inputs, outputs, reference):
    onnx.checker.check_model(model, full_check=True)
    if reference:
        session = ReferenceEvaluator(model)
        taken, given = session.input_names, session.output_names
    else:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        taken, given = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))
    feeds = {name: numpy.load(path) for name, path in zip(taken, inputs, strict=True)}
    for name, path, got in zip(given, outputs, session.run(None, feeds), strict=True):
        expected = numpy.load(path)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"{name}: {got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}"
        if not numpy.allclose(got, expected, rtol=1e-3, atol=1e-5, equal_nan=True):
            return f"{name}: differs by up to {numpy.abs(got - expected).max()}"
    return None


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--reference"]
    split = arguments.index("--")
    problem = main(arguments[0], arguments[1:split], arguments[split + 1 :], len(arguments) < len(sys.argv) - 1)
    if problem:
        sys.exit(problem)
