"""Small models for the tests, built with onnx.helper: no other framework is needed."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, STRING, FLOAT16, BOOL, DOUBLE, UINT8 = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.DOUBLE,
    TensorProto.UINT8)


def weight(name, *shape, dtype=np.float32, scale=0.2):
    """The same numbers each time."""
    random = np.random.default_rng([ord(c) for c in name])
    return numpy_helper.from_array((random.standard_normal(shape) * scale).astype(dtype), name)


def constant(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, outputs, constants=(), opset=17):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def classifier(batch="batch", dtype=np.float32, side=8):
    """Convolution, normalization, pooling, a sum of two branches, a product: `batch` a number or a name."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]), node("Relu", "c1", "r1"),
             node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]), node("Add", "c2 r1", "s"), node("Relu", "s", "r2"),
             node("GlobalAveragePool", "r2", "p"), node("Flatten", "p", "f"), node("Gemm", "f w3 b3", "g", transB=1),
             node("Softmax", "g", "y")]
    constants = [weight("w1", 16, 3, 3, 3, dtype=dtype), weight("b1", 16, dtype=dtype),
                 weight("w2", 16, 16, 3, 3, dtype=dtype), weight("w3", 10, 16, dtype=dtype), weight("b3", 10, dtype=dtype)]
    return model(nodes, [value("x", kind, batch, 3, side, side)], [value("y", kind, batch, 10)], constants)


def perceptron():
    """In double precision."""
    return model([node("Gemm", "x w b", "g"), node("Relu", "g", "y")], [value("x", TensorProto.DOUBLE, "n", 8)],
                 [value("y", TensorProto.DOUBLE, "n", 5)],
                 [weight("w", 8, 5, dtype=np.float64), weight("b", 5, dtype=np.float64)])


def shapes():
    """Shape arithmetic as exporters write it: (batch, places, 8) to (batch * places, 8) and back."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "batch"), node("Gather", "shape one", "places"),
             node("Mul", "batch places", "rows"), node("Unsqueeze", "rows axis", "rows1"),
             node("Concat", "rows1 eight", "flat", axis=0), node("Reshape", "x flat", "a"), node("MatMul", "a w", "b"),
             node("Reshape", "b shape", "y")]
    constants = [constant("zero", 0), constant("one", 1), constant("axis", [0]), constant("eight", [8]), weight("w", 8, 8)]
    return model(nodes, [value("x", FLOAT, "batch", "places", 8)], [value("y", FLOAT, "batch", "places", 8)], constants)


def shuffle():
    """Channels shuffled as ShuffleNet does, by sizes computed from the input's: ONNX Runtime infers no channels for the
    convolution behind it."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s i0", "n"), node("Gather", "s i1", "c"), node("Gather", "s i2", "h"),
             node("Gather", "s i3", "w"), node("Div", "c two", "half"), node("Unsqueeze", "n axis", "n1"),
             node("Unsqueeze", "half axis", "half1"), node("Unsqueeze", "h axis", "h1"), node("Unsqueeze", "w axis", "w1"),
             node("Unsqueeze", "c axis", "c1"), node("Concat", "n1 pair half1 h1 w1", "parts", axis=0),
             node("Concat", "n1 c1 h1 w1", "whole", axis=0), node("Reshape", "x parts", "p"),
             node("Transpose", "p", "t", perm=[0, 2, 1, 3, 4]), node("Reshape", "t whole", "r"),
             node("Split", "r", "a b", axis=1), node("Conv", "b k", "y")]
    constants = [constant(f"i{i}", i) for i in range(4)] + [constant("two", 2), constant("axis", [0]), constant("pair", [2]),
                                                            weight("k", 6, 24, 1, 1)]
    return model(nodes, [value("x", FLOAT, "n", 48, 4, 4)], [value("y", FLOAT, None, None, None, None)], constants)


def lost_ranks(between):
    """Before opset 14 ONNX Runtime knows no number of dimensions behind a Reshape to sizes that are computed. `between`:
    a node of the framework makes two groups, the second of which gets what the first has reshaped."""
    nodes = [node("Relu", "x", "r"), node("Shape", "x", "s"), node("Reshape", "r rows", "f"), node("Reshape", "f s", "b"),
             node("Shape", "b", "bs"), node("Slice", "bs zero two", "front"), node("Concat", "front rest", "to", axis=0)]
    if between:
        nodes += [node("RandomUniformLike", "r", "n", low=0.0, high=1e-30), node("Add", "b n", "c")]
    nodes += [node("Reshape", "c to" if between else "b to", "v"), node("Transpose", "v", "y", perm=[2, 0, 1])]
    constants = [constant("rows", [-1, 4]), constant("zero", [0]), constant("two", [2]), constant("rest", [-1])]
    return model(nodes, [value("x", FLOAT, "n", 3, "h", "w")], [value("y", FLOAT, None, None, None)], constants, 13)


def squeezed(axes):
    """The same in front of a Squeeze, with axes or without: then another number of dimensions may be left."""
    nodes = [node("Shape", "x", "s"), node("Reshape", "x rows", "f"), node("Reshape", "f s", "b"),
             node("Squeeze", "b axes" if axes else "b", "q"), node("ReduceSum", "q first", "y", keepdims=0)]
    constants = [constant("rows", [-1, 4]), constant("axes", [1]), constant("first", [0])]
    return model(nodes, [value("x", FLOAT, "n", 1, "h", 4)], [helper.make_tensor_value_info("y", FLOAT, None)], constants, 13)


def late_shape():
    """The shape of the input, needed behind a node of the framework."""
    nodes = [node("Shape", "x", "shape"), node("Gather", "shape order", "turned"), node("Relu", "x", "r"),
             node("RandomUniformLike", "r", "n", low=0.0, high=1e-30), node("Add", "r n", "a"),
             node("Reshape", "a turned", "y")]
    return model(nodes, [value("x", FLOAT, "rows", "columns")], [value("y", FLOAT, None, None)], [constant("order", [1, 0])])


def branches():
    """If: the condition is data, the branches read values from around it, one holds an If of its own."""
    def branch(name, nodes, result):
        return helper.make_graph(nodes, name, [], [value(result, FLOAT, 2, 8)])
    inner = node("If", "c2", "e", then_branch=branch("t2", [node("Mul", "h h", "t2")], "t2"),
                 else_branch=branch("e2", [node("Neg", "h", "e2n"), node("Exp", "e2n", "e2")], "e2"))
    nodes = [node("MatMul", "x w", "h"), node("ReduceSum", "h", "total", keepdims=0), node("Greater", "total limit", "c"),
             node("Less", "total limit2", "c2"),
             node("If", "c", "i", then_branch=branch("t", [node("Relu", "h", "t1"), node("Add", "t1 x", "t")], "t"),
                  else_branch=branch("o", [inner], "e")), node("Tanh", "i", "y")]
    constants = [weight("w", 8, 8), constant("limit", 0, np.float32), constant("limit2", -1, np.float32)]
    return model(nodes, [value("x", FLOAT, 2, 8)], [value("y", FLOAT, 2, 8)], constants)


def loop():
    """Loop: n times y = tanh(y W)."""
    body = helper.make_graph([node("MatMul", "s w", "m"), node("Tanh", "m", "s2"), node("Identity", "go", "go2")], "body",
                             [value("i", INT64), value("go", BOOL), value("s", FLOAT, 1, 8)],
                             [value("go2", BOOL), value("s2", FLOAT, 1, 8)])
    nodes = [node("Add", "x x", "a"), node("Loop", "n yes a", "l", body=body), node("Relu", "l", "y")]
    return model(nodes, [value("x", FLOAT, 1, 8), value("n", INT64)], [value("y", FLOAT, 1, 8)],
                 [weight("w", 8, 8), numpy_helper.from_array(np.asarray(True), "yes")])


def strings():
    """A string beside numbers: the comparison of strings stays with the framework, the rest need not."""
    nodes = [node("Equal", "s word", "same"), node("Cast", "same", "f", to=FLOAT), node("MatMul", "x w", "m"),
             node("Mul", "m f", "y")]
    word = helper.make_tensor("word", STRING, [1], [b"yes"])
    return model(nodes, [value("x", FLOAT, 2, 8), value("s", STRING, 2, 1)], [value("y", FLOAT, 2, 4)],
                 [weight("w", 8, 4), word], opset=19)


def quantized():
    """Q/DQ as quantizers write it: a convolution, an activation alone and a product in 8 bits."""
    q8, scale = np.random.default_rng(3), lambda n, v: constant(n, v, np.float32)
    weights = [numpy_helper.from_array(q8.integers(-127, 128, (8, 3, 3, 3), np.int8), "w"),
               numpy_helper.from_array(q8.integers(-127, 128, (8, 5), np.int8), "v")]
    nodes = [node("QuantizeLinear", "x xs xz", "xq"), node("DequantizeLinear", "xq xs xz", "xd"),
             node("DequantizeLinear", "w ws wz", "wd", axis=0), node("Conv", "xd wd", "c", pads=[1, 1, 1, 1]),
             node("Relu", "c", "r"), node("QuantizeLinear", "r rs rz", "rq"), node("DequantizeLinear", "rq rs rz", "rd"),
             node("HardSwish", "rd", "h"), node("QuantizeLinear", "h rs rz", "hq"), node("DequantizeLinear", "hq rs rz", "hd"),
             node("GlobalAveragePool", "hd", "p"), node("Flatten", "p", "f"), node("DequantizeLinear", "v vs vz", "vd"),
             node("MatMul", "f vd", "y")]
    constants = weights + [scale("xs", 0.02), constant("xz", 128, np.uint8), scale("ws", [0.01] * 8),
                           constant("wz", [0] * 8, np.int8), scale("rs", 0.03), constant("rz", 0, np.uint8),
                           scale("vs", 0.01), constant("vz", 0, np.int8)]
    return model(nodes, [value("x", FLOAT, "batch", 3, 8, 8)], [value("y", FLOAT, "batch", 5)], constants)


def recurrent():
    """An LSTM over an open number of steps."""
    nodes = [node("LSTM", "x w r b", "all last state", hidden_size=6), node("Squeeze", "all axis", "y")]
    constants = [weight("w", 1, 24, 4), weight("r", 1, 24, 6), weight("b", 1, 48), constant("axis", [1])]
    return model(nodes, [value("x", FLOAT, "steps", 2, 4)], [value("y", FLOAT, "steps", 2, 6)], constants)


def reshape():
    """The shape is an input of the model."""
    return model([node("Relu", "x", "r"), node("Reshape", "r shape", "y")],
                 [value("x", FLOAT, 24), value("shape", INT64, 2)], [value("y", FLOAT, None, None)])


def data_shaped():
    """NonZero's result has as many columns as there are numbers that are not 0: it and what follows cannot be planned."""
    return model([node("Relu", "x", "r"), node("NonZero", "r", "places"), node("Transpose", "places", "y")],
                 [value("x", FLOAT, 4, 4)], [value("y", INT64, None, 2)])


def islands(count=10):
    """Small groups of ours between nodes of the framework."""
    nodes, last = [], "x"
    for i in range(count):
        nodes += [node("Relu", last, f"r{i}"), node("RandomUniformLike", f"r{i}", f"n{i}", low=0.0, high=1e-30),
                  node("Add", f"r{i} n{i}", f"a{i}")]
        last = f"a{i}"
    return model(nodes, [value("x", FLOAT, 1, 16)], [value(last, FLOAT, 1, 16)])


def unread():
    """Nodes that nothing reads, alone behind one of the framework."""
    nodes = [node("Relu", "x", "y"), node("RandomUniformLike", "y", "n"), node("Tanh", "n", "t"), node("Neg", "t", "u")]
    return model(nodes, [value("x", FLOAT, "rows", 8)], [value("y", FLOAT, "rows", 8)])


def noted_shapes():
    """An open batch, and shapes noted by an exporter that saw a batch of one, of values behind a node of the framework."""
    nodes = [node("Relu", "x", "r"), node("RandomUniformLike", "r", "n", low=0.0, high=1e-30), node("Add", "r n", "a"),
             node("MatMul", "a w", "y")]
    result = model(nodes, [value("x", FLOAT, "batch", 8)], [value("y", FLOAT, "batch", 4)], [weight("w", 8, 4)])
    result.graph.value_info.extend(value(name, FLOAT, 1, 8) for name in "rna")
    return result


def in_place(count=1):
    """States that are each added to the transposed one."""
    nodes = [part for i in range(count) for part in (node("Transpose", f"x{i}", f"t{i}", perm=[1, 0]),
                                                     node("Add", f"t{i} x{i}", f"y{i}"))]
    return model(nodes, [value(f"x{i}", FLOAT, 256, 256) for i in range(count)],
                 [value(f"y{i}", FLOAT, 256, 256) for i in range(count)])


def one(op, inputs, outputs, constants=(), opset=17, **attributes):
    """A node alone: `inputs` and `outputs` are values."""
    nodes = [node(op, " ".join([v.name for v in inputs] + [c.name for c in constants]),
                  " ".join(v.name for v in outputs), **attributes)]
    return model(nodes, inputs, outputs, constants, opset)


def late_limit():
    """A limit computed from shapes in double precision, which is also a result: it comes to the second group as input."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "rows"), node("Cast", "rows", "limit", to=TensorProto.DOUBLE),
             node("Relu", "x", "r"), node("RandomUniformLike", "r", "n", low=0.0, high=1e-30),
             node("Cast", "n", "d", to=TensorProto.DOUBLE), node("ReduceMax", "d", "m", keepdims=0),
             node("Range", "first limit step", "range"), node("Add", "range m", "y")]
    return model(nodes, [value("x", FLOAT, "rows", 8)], [value("y", TensorProto.DOUBLE, None), value("limit", TensorProto.DOUBLE)],
                 [constant("zero", 0), constant("first", 0, np.float64), constant("step", 1, np.float64)])


def late_sizes(count=100):
    """As above: the sizes of many parts."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "rows"), node("Expand", "rows count", "sizes"),
             node("Relu", "x", "r"), node("RandomUniformLike", "r", "n", low=0.0, high=1e-30), node("Add", "r n", "a"),
             node("Tile", "a count", "many"), node("Split", "many sizes", " ".join(f"p{i}" for i in range(count)), axis=0),
             node("Add", f"p0 p{count - 1}", "y")]
    return model(nodes, [value("x", FLOAT, "rows")], [value("y", FLOAT, None), value("sizes", INT64, count)],
                 [constant("zero", 0), constant("count", [count])])


def expansion():
    """Repeats a row as often as an input says: memory for any amount."""
    return model([node("Expand", "x shape", "e"), node("ReduceMax", "e", "y", keepdims=0)],
                 [value("x", FLOAT, 1, 1), value("shape", INT64, 2)], [value("y", FLOAT)])
