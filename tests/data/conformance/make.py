"""Makes the cases in this folder: networks whose results are ONNX Runtime's.

padding_mask_T: attention over sequences of different lengths, masked by `arange(T) < lengths`. With T = 8 the int64
lengths [N, 1] take as many bytes as the mask, bool [N, T].
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROWS = 5


def padding_mask(columns):
    nodes = [
        helper.make_node("Cast", ["lengths"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["wide", "last"], ["ends"]),
        helper.make_node("Range", ["zero", "columns", "one"], ["positions"]),
        helper.make_node("Unsqueeze", ["positions", "first"], ["row"]),
        helper.make_node("Less", ["row", "ends"], ["mask"]),
        helper.make_node("Where", ["mask", "scores", "low"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
    ]
    constants = {
        "last": np.array([1], np.int64),
        "first": np.array([0], np.int64),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "columns": np.array(columns, np.int64),
        "low": np.array(-1e9, np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "padding_mask",
        [
            helper.make_tensor_value_info("lengths", TensorProto.INT32, [ROWS]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [ROWS, columns]),
        ],
        [
            helper.make_tensor_value_info("weights", TensorProto.FLOAT, [ROWS, columns]),
            helper.make_tensor_value_info("mask", TensorProto.BOOL, [ROWS, columns]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(folder, kind, number, array):
    with open(os.path.join(folder, f"{kind}_{number}.pb"), "wb") as file:
        file.write(numpy_helper.from_array(array).SerializeToString())


def main():
    random = np.random.default_rng(8)
    here = os.path.dirname(os.path.abspath(__file__))
    for columns in (7, 8, 9):
        model = padding_mask(columns)
        folder = os.path.join(here, f"padding_mask_{columns}")
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        inputs = {
            "lengths": np.array([3, columns, 1, columns - 2, 4], np.int32),
            "scores": random.standard_normal((ROWS, columns)).astype(np.float32),
        }
        session = onnxruntime.InferenceSession(model.SerializeToString())
        for number, array in enumerate(inputs.values()):
            save(data, "input", number, array)
        for number, array in enumerate(session.run(None, inputs)):
            save(data, "output", number, array)


if __name__ == "__main__":
    main()
