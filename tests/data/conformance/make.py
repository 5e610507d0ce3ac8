"""Makes the cases in this folder: networks whose results are ONNX Runtime's.

padding_mask_T: attention over sequences of different lengths, masked by `arange(T) < lengths`. With T = 8 the int64
lengths [N, 1] take as many bytes as the mask, bool [N, T].

Nodes of ops that are functions of other ops, or whose references are Braid's only kernels, one a case (NODES).

narrow_TYPE: every code of a float8, float4 or small integer type, and casts to it of what lies at, and next to, the
middle between two of its numbers. The results are those of ml_dtypes.

weights_NAME: a product with weights that are stored in 4 or 8 bits, as exporters quantize them.

scales_NAME: quantization in a precision of its own, and scales that are powers of two; the results are those of ONNX's
reference.
"""
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

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

MORE = np.random.default_rng(10).integers(0, 256, 192).astype(np.uint8)
BOXES = np.array([[0.4, 0.2, 2.1, 3.3], [-3, -2, 9, 1], [1, 2, 1.4, 2.2], [2.5, 1, 2, 3]], np.float32)


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
    "dft_complex": (20, "DFT", {}, [[2, 15, 3, 2], None, np.array(1, np.int64)], 1),
    "dft_backward": (20, "DFT", {"inverse": 1}, [[2, 3, 12, 2], np.array(10, np.int64)], 1),
    "stft": (17, "STFT", {"onesided": 0}, [[2, 40, 2], np.array(7, np.int64), [15]], 1),
    "mel_weights": (
        17, "MelWeightMatrix", {},
        [np.array(12, np.int64), np.array(400, np.int64), np.array(16000, np.int64), np.array(20, np.float32),
         np.array(7600, np.float32)], 1),
    "col2im": (
        18, "Col2Im", {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
        [[2, 18, 20], np.array([6, 6], np.int64), np.array([3, 2], np.int64)], 1),
    "deform_conv": (
        19, "DeformConv", {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1], "dilations": [1, 2]},
        [[2, 4, 5, 6], [6, 2, 3, 2], [2, 24, 3, 5], [6], [2, 12, 3, 5]], 1),
    "roi_align": (
        16, "RoiAlign", {"output_height": 3, "output_width": 2, "spatial_scale": 2.0},
        [[2, 3, 7, 6], BOXES, np.array([1, 0, 1, 1], np.int64)], 1),
    "det": (11, "Det", {}, [[2, 3, 5, 5]], 1),
    "unique": (
        11, "Unique", {"axis": 1, "sorted": 0},
        [np.array([[4, 1, 4, 2, 1], [0, 3, 0, 3, 2], [5, 7, 5, 7, 7]], np.float32)], 4),
    # com.microsoft: what ONNX Runtime's optimizer and quantizer write
    "ms_fused_conv": (
        17, "com.microsoft:FusedConv", {"activation": "LeakyRelu", "activation_params": [0.2], "pads": [1, 1, 1, 1]},
        [[1, 2, 5, 5], [4, 2, 3, 3], [4], [1, 4, 5, 5]], 1),
    "ms_fused_gemm": (
        17, "com.microsoft:FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1},
        [[3, 4], [5, 4], [5]], 1),
    "ms_fused_matmul": (
        17, "com.microsoft:FusedMatMul", {"transA": 1, "transB": 1, "alpha": 0.5}, [[2, 4, 3], [2, 5, 4]], 1),
    "ms_fast_gelu": (17, "com.microsoft:FastGelu", {}, [[3, 5], [5]], 1),
    "ms_quick_gelu": (17, "com.microsoft:QuickGelu", {}, [[3, 5]], 1),
    "ms_skip_norm": (
        17, "com.microsoft:SkipLayerNormalization", {"epsilon": 1e-5}, [[2, 3, 8], [2, 3, 8], [8], [8], [8]], 1),
    "ms_skip_simple": (
        17, "com.microsoft:SkipSimplifiedLayerNormalization", {"epsilon": 1e-5}, [[2, 3, 8], [2, 3, 8], [8]], 1),
    "ms_embed": (
        17, "com.microsoft:EmbedLayerNormalization", {"epsilon": 1e-5},
        [np.array([[3, 1, 0], [2, 2, 4]], np.int32), np.array([[0, 0, 1], [1, 0, 1]], np.int32), [5, 8], [6, 8], [2, 8],
         [8], [8], np.array([[1, 1, 0], [1, 1, 1]], np.int32)], 2),
    "ms_attention": (
        17, "com.microsoft:Attention", {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
        [[2, 3, 8], [8, 20], [20], np.array([[1, 1, 0], [1, 1, 1]], np.int32)], 1),
    "ms_attention_lengths": (
        17, "com.microsoft:Attention", {"num_heads": 2, "unidirectional": 1, "scale": 0.4},
        [[2, 3, 8], [8, 24], [24], np.array([2, 3], np.int32)], 1),
    "ms_multi_head": (
        17, "com.microsoft:MultiHeadAttention", {"num_heads": 2},
        [[2, 3, 8], [2, 4, 8], [2, 4, 8], [24], None, [1, 2, 3, 4]], 1),
    "ms_multi_head_past": (
        17, "com.microsoft:MultiHeadAttention", {"num_heads": 2},
        [[2, 2, 8], [2, 2, 8], [2, 2, 8], None, None, None, [2, 2, 3, 4], [2, 2, 3, 4]], 3),
    "ms_rotary": (
        17, "com.microsoft:RotaryEmbedding", {"num_heads": 2, "rotary_embedding_dim": 4},
        [[2, 3, 16], np.array([[0, 1, 2], [3, 4, 5]], np.int64), [7, 2], [7, 2]], 1),
    "ms_quantized_attention": (
        17, "com.microsoft:QAttention", {"num_heads": 2},
        [BYTES[:48].reshape(2, 3, 8), MORE[:192].reshape(8, 24), [24], np.array(0.01, np.float32),
         np.array(0.02, np.float32), None, np.array(120, np.uint8), np.array(100, np.uint8)], 1),
    "ms_product_dynamic": (
        17, "com.microsoft:DynamicQuantizeMatMul", {},
        [[3, 8], MORE[:40].reshape(8, 5), np.full(5, 0.02, np.float32), np.full(5, 99, np.uint8), [5]], 1),
    "ms_product_integer": (
        17, "com.microsoft:MatMulIntegerToFloat", {},
        [BYTES[:24].reshape(3, 8), MORE[:40].reshape(8, 5), np.array([0.02], np.float32), np.full(5, 0.03, np.float32),
         np.array([100], np.uint8), np.array([3], np.uint8), [5]], 1),
    "ms_few_bits": (
        17, "com.microsoft:MatMulNBits", {"K": 40, "N": 6, "bits": 4, "block_size": 16},
        [[2, 3, 40], MORE[:144].reshape(6, 3, 8), np.linspace(0.01, 0.1, 18, dtype=np.float32), MORE[144:156], None,
         [6]], 1),
    "hamming_window": (17, "HammingWindow", {"periodic": 0}, [np.array(9, np.int64)], 1),
}
KNOWN = {"AffineGrid": {1}, "CenterCropPad": {1}, "HammingWindow": {0}, "NonMaxSuppression": range(5), "DFT": {1, 2},
         "STFT": {1}, "MelWeightMatrix": range(5), "Col2Im": {1, 2}, "Unique": {0}, "QAttention": {1, 3, 4, 6, 7},
         "DynamicQuantizeMatMul": {1, 2, 3}, "MatMulIntegerToFloat": {1, 3, 5}, "MatMulNBits": {1, 2, 3}}  # inputs that the shape of the output follows from

OUTPUT = {("EmbedLayerNormalization", 1): TensorProto.INT32, "NonMaxSuppression": TensorProto.INT64, "QLinearAveragePool": TensorProto.UINT8,
          **{("Unique", i): TensorProto.INT64 for i in range(1, 4)}, "QLinearSoftmax": TensorProto.UINT8, "QLinearWhere": TensorProto.UINT8}


def node_case(random, opset, op, attributes, operands, outputs):
    arrays = [x if x is None or isinstance(x, np.ndarray) else random.standard_normal(x).astype(np.float32) for x in operands]
    domain, _, op = op.rpartition(":")
    names = ["" if x is None else f"x{i}" for i, x in enumerate(arrays)]
    known = {i for i in KNOWN.get(op, set()) if i < len(arrays) and arrays[i] is not None}
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)],
        op,
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, (name, x) in enumerate(zip(names, arrays))
            if i not in known and x is not None
        ],
        [helper.make_tensor_value_info(f"y{i}", OUTPUT.get((op, i), OUTPUT.get(op, TensorProto.FLOAT)), None) for i in range(outputs)],
        [numpy_helper.from_array(arrays[i], names[i]) for i in known],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    return model, {names[i]: x for i, x in enumerate(arrays) if i not in known and x is not None}


NARROW = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1", "UINT4", "INT4",
          "UINT2", "INT2"]


def edges(values):
    """The numbers, the middles between neighbours, and the float32 before and after each of them."""
    finite = np.unique(values[np.isfinite(values)]).astype(np.float64)
    points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, [2 * finite[-1] - finite[-2]]]).astype(np.float32)
    return np.unique(np.concatenate([points, np.nextafter(points, np.float32(-np.inf)), np.nextafter(points, np.float32(np.inf))]))


def narrow(name):
    number = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    bits = 4 if name in ("UINT4", "INT4", "FLOAT4E2M1") else 2 if name in ("UINT2", "INT2") else 8
    codes = np.arange(1 << bits).astype(np.uint8).view(dtype)
    numbers = codes.astype(np.float32)
    powers, integers = name == "FLOAT8E8M0", "INT" in name
    if integers:
        x = np.arange(-40, 40, dtype=np.float32) / 2 + np.float32(0.125)
    elif powers:  # beyond these ONNX's text and its reference disagree
        x = edges(numbers[1:254])
        x = x[(x >= 2.0**-126) & (x <= 2.0**127)]
    else:
        x = np.concatenate([edges(numbers), np.array([np.nan, np.inf, -np.inf, -0.0, 1e30, -1e30, 1e-40], np.float32)])
    casts = [({}, numpy_helper.to_float8e8m0(x) if powers else x.astype(dtype))]
    if powers:
        casts += [({"round_mode": m}, numpy_helper.to_float8e8m0(x, round_mode=m)) for m in ("down", "nearest")]
    elif name.startswith("FLOAT8"):
        casts = [({}, numpy_helper.saturate_cast(x, dtype)), ({"saturate": 0}, x.astype(dtype))]
    nodes = [helper.make_node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Cast", ["x"], [f"y{i}"], to=number, **a) for i, (a, _) in enumerate(casts)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, name, [info("x", TensorProto.FLOAT, x.shape), info("codes", number, codes.shape)],
        [info("numbers", TensorProto.FLOAT, codes.shape)] + [info(f"y{i}", number, x.shape) for i in range(len(casts))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    onnx.checker.check_model(model, full_check=True)
    return model, {"x": x, "codes": codes}, [numbers] + [y for _, y in casts]


# name: (type of the weights, its range, shape of the scales, whether there are zero points, attributes, in int32_data?)
WEIGHTS = {
    "weights_int4_blocks": ("INT4", (-8, 8), (3, 5), False, {"axis": 0, "block_size": 11}, False),
    "weights_uint4_blocks": ("UINT4", (0, 16), (33, 2), True, {"axis": 1, "block_size": 3}, True),
    "weights_int4_columns": ("INT4", (-8, 8), (5,), True, {"axis": 1}, False),
    "weights_uint2": ("UINT2", (0, 4), (), True, {}, False),
    "weights_float8": ("FLOAT8E4M3FN", (-300, 300), (33,), False, {"axis": 0}, True),
}


def weights(random, name, limits, shape, zeros, attributes, listed):
    number = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    arrays = {
        "w": random.integers(*limits, (33, 5)).astype(np.float32).astype(dtype),
        "scale": random.uniform(0.01, 0.1, shape).astype(np.float32),
        "zero": random.integers(*limits, shape).astype(np.float32).astype(dtype),
    }
    if not zeros:
        del arrays["zero"]
    constants = [numpy_helper.from_array(np.asarray(value), key) for key, value in arrays.items()]
    if listed:
        w = constants[0]
        w.int32_data.extend(w.raw_data)
        w.ClearField("raw_data")
    nodes = [
        helper.make_node("DequantizeLinear", list(arrays), ["wide"], **attributes),
        helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, [4, 33])],
                              [info("y", TensorProto.FLOAT, [4, 5])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    onnx.checker.check_model(model, full_check=True)
    return model, {"x": random.standard_normal((4, 33)).astype(np.float32)}


def scales(random, name):
    """x quantized, and w dequantized, in blocks of 4 rows."""
    kind, precision = SCALES[name]
    number, mx = getattr(TensorProto, kind), name == "scales_powers"
    dtype = helper.tensor_dtype_to_np_dtype(number)
    x = random.uniform(-6, 6, (10, 7)).astype(np.float32)
    w = random.uniform(-6, 6, (10, 7)).astype(np.float32).astype(dtype)
    scale = np.exp2(random.integers(-3, 2, (3, 7))).astype(np.float32)
    if not mx:
        scale = random.uniform(0.3, 0.9, (3, 7)).astype(np.float32)
        quotient = (random.integers(-6, 6, (10, 7)) + 0.5 + 2.0**-13).astype(np.float32)  # in 16 bits a tie
        x = np.where(random.random((10, 7)) < 0.5, quotient * np.repeat(scale, 4, axis=0)[:10], x).astype(np.float32)
    attributes = {"axis": 0, "block_size": 4}
    kept = helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E8M0 if mx else TensorProto.FLOAT)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], output_dtype=number, precision=precision, **attributes),
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"], output_dtype=TensorProto.FLOAT, **attributes),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, name, [info("x", TensorProto.FLOAT, x.shape), info("w", number, w.shape)],
        [info("q", number, x.shape), info("d", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(scale.astype(kept), "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    onnx.checker.check_model(model, full_check=True)
    inputs = {"x": x, "w": w}
    return model, inputs, ReferenceEvaluator(model).run(None, inputs)


SCALES = {
    "scales_powers": ("FLOAT4E2M1", TensorProto.FLOAT),
    "scales_float16": ("INT4", TensorProto.FLOAT16),
    "scales_bfloat16": ("FLOAT8E5M2", TensorProto.BFLOAT16),
    "scales_double": ("INT8", TensorProto.DOUBLE),
}


def results(model, inputs):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def dynamic_lstm(random):
    """DynamicQuantizeLSTM, whose results are those of ONNX's LSTM with the same weights: what ONNX Runtime rounds in each
    step beside them, Braid does not."""
    hidden, inputs, scale = 4, 3, {"W": 0.01, "R": 0.02}
    weights = {"W": MORE[: inputs * 16].reshape(1, inputs, 16), "R": MORE[64 : 64 + 64].reshape(1, hidden, 16)}
    bias = random.standard_normal((1, 32)).astype(np.float32)
    constants = {"B": bias}
    for name, array in weights.items():
        constants[name] = array
        constants[name + "s"] = np.linspace(scale[name] / 2, scale[name], 16, dtype=np.float32).reshape(1, 16)
        constants[name + "z"] = np.full((1, 16), 120, np.uint8)
    real = {name: (weights[name] - np.float32(120)) * constants[name + "s"][:, None] for name in weights}
    real = {name: np.ascontiguousarray(array.transpose(0, 2, 1)) for name, array in real.items()}

    def model(op, names, domain, constants):
        graph = helper.make_graph(
            [helper.make_node(op, names, ["y", "h", "c"], domain=domain, hidden_size=hidden)], "lstm",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 2, inputs])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yhc"],
            [numpy_helper.from_array(value, name) for name, value in constants.items()])
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    names = ["x", "W", "R", "B", "", "", "", "", "Ws", "Wz", "Rs", "Rz"]
    given = {"x": random.standard_normal((5, 2, inputs)).astype(np.float32)}
    return (model("DynamicQuantizeLSTM", names, "com.microsoft", constants), given,
            results(model("LSTM", names[:4], "", {**real, "B": bias}), given))


def quantized_mean():
    """QLinearReduceMean, which ONNX Runtime's quantizer writes and its CPU does not run, from the ops that it stands for."""
    constants = {"s": np.float32(0.02), "z": np.uint8(100), "to": np.float32(0.013), "toz": np.uint8(90)}
    x = BYTES[:24].reshape(2, 3, 4)

    def model(nodes):
        graph = helper.make_graph(
            nodes, "mean", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
        domains = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=10)

    attributes = {"axes": [1, 2], "keepdims": 0}
    fused = helper.make_node("QLinearReduceMean", ["x", *constants], ["y"], domain="com.microsoft", **attributes)
    parts = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
             helper.make_node("ReduceMean", ["real"], ["mean"], **attributes),
             helper.make_node("QuantizeLinear", ["mean", "to", "toz"], ["y"])]
    return model([fused]), {"x": x}, results(model(parts), {"x": x})


# alpha, transA, transB, result in real numbers, bias
GEMMS = {"alpha": (2.5, 0, 1, False, True), "negative": (-0.75, 0, 0, False, True), "real": (0.5, 0, 1, True, True),
         "transposed": (1, 1, 1, False, False)}


def quantized_gemm(alpha, first, second, real, bias):
    random = np.random.default_rng(31)
    rows, inner, columns = 5, 24, 7
    a = random.integers(0, 256, (inner, rows) if first else (rows, inner)).astype(np.uint8)
    constants = {
        "as": np.float32(0.0371), "az": np.uint8(121),
        "b": random.integers(-127, 128, (columns, inner) if second else (inner, columns)).astype(np.int8),
        "bs": random.uniform(0.004, 0.02, columns).astype(np.float32), "bz": np.zeros(columns, np.int8),
        "c": random.integers(-4000, 4000, columns).astype(np.int32),
        "ys": np.float32(0.13 * abs(alpha)), "yz": np.uint8(128)}
    names = ["a", "as", "az", "b", "bs", "bz", "c" if bias else ""] + ([] if real else ["ys", "yz"])
    node = helper.make_node("QGemm", names, ["y"], domain="com.microsoft", alpha=float(alpha), transA=first,
                            transB=second)
    kind = TensorProto.FLOAT if real else TensorProto.UINT8
    graph = helper.make_graph(
        [node], "gemm", [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("y", kind, [rows, columns])],
        [numpy_helper.from_array(np.asarray(constants[name]), name) for name in names if name in constants])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8), {"a": a}


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
    for name in NARROW:
        cases["narrow_" + name.lower()] = narrow(name)
    for name, case in WEIGHTS.items():
        cases[name] = weights(random, *case)
    for name in SCALES:
        cases[name] = scales(random, name)
    cases["ms_dynamic_lstm"] = dynamic_lstm(random)
    cases["ms_quantized_mean"] = quantized_mean()
    for name, arguments in GEMMS.items():
        cases[f"ms_quantized_gemm_{name}"] = quantized_gemm(*arguments)
    for name, (model, inputs, *outputs) in cases.items():
        folder = os.path.join(here, name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        for number, array in enumerate(inputs.values()):
            save(data, "input", number, array)
        if not outputs:
            options = onnxruntime.SessionOptions()
            if name in WEIGHTS:  # else it rounds the other operand to 8 bits too
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            outputs = [onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)]
        for number, array in enumerate(outputs[0]):
            save(data, "output", number, array)


if __name__ == "__main__":
    main()
