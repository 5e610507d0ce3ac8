"""`quantized_nets.py FOLDER COUNT` writes COUNT random networks that ONNX Runtime's quantizer quantized, with an input
and what ONNX Runtime computes: N.onnx, N_x.npy, N_y.npy and N_unit.npy, the scale of the output."""
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization


class Net:
    def __init__(self, random):
        self.random, self.nodes, self.weights, self.channels = random, [], [], 3
        self.value, self.count = "x", 0

    def add(self, op, inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], name=f"n{self.count}", **attributes))
        return f"v{self.count}"

    def weight(self, *dims):
        self.weights.append(numpy_helper.from_array(
            (self.random.standard_normal(dims) / np.sqrt(max(np.prod(dims[1:]), 1))).astype(np.float32),
            f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, filters, kernel, stride=1, group=1):
        inputs = [self.value, self.weight(filters, self.channels // group, kernel, kernel), self.weight(filters)]
        self.value = self.add("Conv", inputs, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)
        self.channels = filters

    def step(self):
        kind = self.random.integers(8)
        before = self.value
        if kind == 0:
            self.conv(int(self.random.integers(4, 80)), int(self.random.choice([1, 3, 5])), int(self.random.integers(1, 3)))
            self.value = self.add("Relu", [self.value])
        elif kind == 1:
            self.conv(self.channels, 3, 1, self.channels)
        elif kind in (2, 3):
            self.conv(self.channels, 3)
            self.value = self.add("Add", [self.value, before])
            if kind == 3:
                self.value = self.add("Relu", [self.value])
        elif kind == 4:
            self.value = self.add(str(self.random.choice(["MaxPool", "AveragePool"])), [self.value], kernel_shape=[3, 3],
                                  pads=[1, 1, 1, 1])
        elif kind == 5:
            self.conv(self.channels, 1)
            self.value = self.add("Concat", [self.value, before], axis=1)
            self.channels *= 2
        elif kind == 6:
            self.value = self.add("Mul", [self.value, self.add("Sigmoid", [self.value])])
        else:
            self.conv(int(self.random.integers(4, 40)), 1)
            self.value = self.add("LeakyRelu", [self.value], alpha=0.1)

    def model(self):
        self.conv(16, 3)
        for _ in range(int(self.random.integers(1, 5))):
            self.step()
        self.value = self.add("Flatten", [self.add("GlobalAveragePool", [self.value])])
        self.value = self.add("Gemm", [self.value, self.weight(10, self.channels), self.weight(10)], transB=1)
        graph = helper.make_graph(self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 12, 13])],
                                  [helper.make_tensor_value_info(self.value, TensorProto.FLOAT, [2, 10])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Inputs(quantization.CalibrationDataReader):
    def __init__(self, random):
        self.rest = [{"x": random.standard_normal((2, 3, 12, 13), dtype=np.float32)} for _ in range(4)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def write(folder, number):
    random = np.random.default_rng(number)
    path = os.path.join(folder, str(number))
    onnx.save(Net(random).model(), path + "_float.onnx")
    byte = [quantization.QuantType.QUInt8, quantization.QuantType.QInt8]
    qdq, signed = number % 3 != 2, bool(random.integers(2)) and number % 3 != 2
    quantization.quantize_static(
        path + "_float.onnx", path + ".onnx", Inputs(random), per_channel=bool(random.integers(2)),
        quant_format=quantization.QuantFormat.QDQ if qdq else quantization.QuantFormat.QOperator,
        reduce_range=bool(random.integers(2)), activation_type=byte[signed],
        weight_type=byte[signed or bool(random.integers(2))],
        extra_options={"ActivationSymmetric": signed and bool(random.integers(2))})
    model = onnx.load(path + ".onnx")
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    last = [node for node in model.graph.node if node.op_type == "DequantizeLinear"][-1]
    x = random.standard_normal((2, 3, 12, 13), dtype=np.float32)
    session = onnxruntime.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
    np.save(path + "_x.npy", x)
    np.save(path + "_y.npy", session.run(None, {"x": x})[0])
    np.save(path + "_unit.npy", scales[last.input[1]].reshape(1).astype(np.float32))


for number in range(int(sys.argv[2])):
    write(sys.argv[1], number)
