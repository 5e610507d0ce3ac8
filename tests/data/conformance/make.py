"""Makes the cases in this folder: networks whose results are ONNX Runtime's.

padding_mask_T: attention over sequences of different lengths, masked by `arange(T) < lengths`. With T = 8 the int64
lengths [N, 1] take as many bytes as the mask, bool [N, T].

Nodes of ops that are functions of other ops, or whose references are Braid's only kernels, one a case (NODES).
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


BYTES = np.random.default_rng(9).integers(0, 256, 56).astype(np.uint8)


def scaled(scale, zero):
    return np.array(scale, np.float32), np.array(zero, np.uint8)


# name: (opset, op, attributes, inputs by shape or contents, number of outputs)
NODES = {
    "attention_grouped": (
        23, "Attention", {"q_num_heads": 6, "kv_num_heads": 2, "is_causal": 1, "softcap": 1.5},
        [[2, 4, 30], [2, 4, 10], [2, 4, 6]], 1),
    "attention_past": (
        23, "Attention", {"scale": 0.4, "qk_matmul_output_mode": 0},
        [[2, 3, 2, 4], [2, 3, 5, 4], [2, 3, 5, 3], [1, 3, 2, 8], [2, 3, 3, 4], [2, 3, 3, 3]], 4),
    "rotary_interleaved": (
        23, "RotaryEmbedding", {"interleaved": 1, "num_heads": 2, "rotary_embedding_dim": 4},
        [[2, 3, 12], [7, 2], [7, 2], np.array([[0, 6, 3], [5, 1, 1]], np.int64)], 1),
    "einsum_attention": (12, "Einsum", {"equation": "bqhd,bkhd->bhqk"}, [[2, 3, 2, 4], [2, 5, 2, 4]], 1),
    "einsum_three": (12, "Einsum", {"equation": "a...b,bc,ac->...c"}, [[2, 3, 4], [4, 5], [2, 5]], 1),
    "affine_grid": (20, "AffineGrid", {}, [[2, 3, 4], np.array([2, 1, 2, 3, 4], np.int64)], 1),
    "center_crop_pad": (18, "CenterCropPad", {"axes": [-1, 0]}, [[5, 3, 4], np.array([7, 2], np.int64)], 1),
    "grid_cubic": (
        20, "GridSample", {"mode": "cubic", "padding_mode": "border"}, [[2, 3, 5, 4], [2, 3, 4, 2]], 1),
    "grid_nearest": (
        20, "GridSample", {"mode": "nearest", "align_corners": 1}, [[1, 2, 3, 4], [1, 5, 2, 2]], 1),
    "grid_volume": (
        20, "GridSample", {"padding_mode": "reflection"}, [[1, 2, 3, 4, 2], [1, 2, 3, 2, 3]], 1),
    "non_max_suppression": (
        11, "NonMaxSuppression", {},
        [[2, 12, 4], [2, 3, 12], np.array([4], np.int64), np.array([0.2], np.float32), np.array([-0.5], np.float32)], 1),
    "quantized_softmax": (
        13, "com.microsoft:QLinearSoftmax", {"axis": 1, "opset": 13}, [BYTES[:24].reshape(2, 4, 3), *scaled(0.06, 120),
        *scaled(1 / 256, 0)], 1),
    "quantized_average_pool": (
        13, "com.microsoft:QLinearAveragePool", {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 1, 0, 1]},
        [BYTES.reshape(1, 2, 4, 7), *scaled(0.02, 7), *scaled(0.015, 99)], 1),
    "quantized_where": (
        13, "com.microsoft:QLinearWhere", {},
        [BYTES[:8] > 99, BYTES[8:16], *scaled(0.02, 7), BYTES[16:24], *scaled(0.05, 200), *scaled(0.03, 100)], 1),
    "hamming_window": (17, "HammingWindow", {"periodic": 0}, [np.array(9, np.int64)], 1),
}
KNOWN = {"AffineGrid": {1}, "CenterCropPad": {1}, "HammingWindow": {0}, "NonMaxSuppression": range(5)}  # inputs that the shape of the output follows from

OUTPUT = {"NonMaxSuppression": TensorProto.INT64, "QLinearAveragePool": TensorProto.UINT8,
          "QLinearSoftmax": TensorProto.UINT8, "QLinearWhere": TensorProto.UINT8}


def node_case(random, opset, op, attributes, operands, outputs):
    arrays = [x if isinstance(x, np.ndarray) else random.standard_normal(x).astype(np.float32) for x in operands]
    domain, _, op = op.rpartition(":")
    names = [f"x{i}" for i in range(len(arrays))]
    known = KNOWN.get(op, set())
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)],
        op,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, (name, x) in enumerate(zip(names, arrays))
            if i not in known
        ],
        [helper.make_tensor_value_info(f"y{i}", OUTPUT.get(op, TensorProto.FLOAT), None) for i in range(outputs)],
        [numpy_helper.from_array(arrays[i], names[i]) for i in known],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    return model, {names[i]: x for i, x in enumerate(arrays) if i not in known}


def save(folder, kind, number, array):
    with open(os.path.join(folder, f"{kind}_{number}.pb"), "wb") as file:
        file.write(numpy_helper.from_array(array).SerializeToString())


def main():
    random = np.random.default_rng(8)
    here = os.path.dirname(os.path.abspath(__file__))
    cases = {}
    for columns in (7, 8, 9):
        cases[f"padding_mask_{columns}"] = padding_mask(columns), {
            "lengths": np.array([3, columns, 1, columns - 2, 4], np.int32),
            "scores": random.standard_normal((ROWS, columns)).astype(np.float32),
        }
    for name, case in NODES.items():
        cases[name] = node_case(random, *case)
    for name, (model, inputs) in cases.items():
        folder = os.path.join(here, name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        session = onnxruntime.InferenceSession(model.SerializeToString())
        for number, array in enumerate(inputs.values()):
            save(data, "input", number, array)
        for number, array in enumerate(session.run(None, inputs)):
            save(data, "output", number, array)


if __name__ == "__main__":
    main()
