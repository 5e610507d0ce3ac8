"""`quantize.py BRAID FOLDER COUNT`: `braid quantize` beside NumPy and ONNX Runtime, on COUNT random networks.

Ranges are those that NumPy finds in ONNX Runtime's activations (least and greatest, percentiles, the divergence written
down literally), scales follow from them, weights are within half a unit, ONNX Runtime and Braid compute the same from
the file, and the result is as near to the float network as that of ONNX Runtime's own quantizer. Says what is wrong and
ends with 1."""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

SAMPLES, SHAPE, CLASSES = 40, (3, 14, 13), 10
KINDS = ("minmax", "percentile:99", "entropy")


def saturates():
    """Whether ONNX Runtime adds up products of bytes in 16 bits, as it does on x86 processors without VNNI."""
    with open("/proc/cpuinfo") as file:
        text = file.read()
    return "flags" in text and "vnni" not in text


SATURATES = saturates()


class Net:
    """Convolutions with normalization, groups, residuals, pools, joins and activations, a product at the end."""

    def __init__(self, random):
        self.random, self.nodes, self.weights, self.channels, self.count, self.value = random, [], [], SHAPE[0], 0, "x"

    def add(self, op, inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], name=f"n{self.count}", **attributes))
        return f"v{self.count}"

    def weight(self, *dims, scale=None, least=None):
        data = self.random.standard_normal(dims) * (scale or 1 / np.sqrt(max(np.prod(dims[1:]), 1)))
        if least is not None:
            data = np.abs(data) + least
        self.weights.append(numpy_helper.from_array(data.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def conv(self, filters, kernel, stride=1, group=1):
        inputs = [self.value, self.weight(filters, self.channels // group, kernel, kernel)]
        if self.random.integers(3):
            inputs.append(self.weight(filters, scale=0.3))
        self.value = self.add("Conv", inputs, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)
        self.channels = filters
        if self.random.integers(2):
            n = filters
            self.value = self.add("BatchNormalization", [self.value, self.weight(n, scale=1, least=0.1),
                                                         self.weight(n, scale=0.3), self.weight(n, scale=0.3),
                                                         self.weight(n, scale=1, least=0.2)])

    def activation(self):
        op = str(self.random.choice(["Relu", "Clip", "LeakyRelu", "HardSigmoid", "Sigmoid"], p=[0.5, 0.2, 0.1, 0.1, 0.1]))
        inputs = [self.value]
        if op == "Clip":
            for number in (0, 1.5):
                self.weights.append(numpy_helper.from_array(np.array(number, np.float32), f"w{len(self.weights)}"))
                inputs.append(self.weights[-1].name)
        self.value = self.add(op, inputs)

    def step(self):
        kind, before = int(self.random.integers(8)), self.value
        if kind < 2:
            self.conv(int(self.random.integers(4, 40)), int(self.random.choice([1, 3, 5])), int(self.random.integers(1, 3)))
            self.activation()
        elif kind == 2:
            self.conv(self.channels, 3, 1, self.channels)
            self.activation()
        elif kind == 3:
            self.conv(self.channels, 3)
            self.value = self.add("Relu", [self.add("Add", [self.value, before])])
        elif kind == 4:
            self.value = self.add(str(self.random.choice(["MaxPool", "AveragePool"])), [self.value], kernel_shape=[3, 3],
                                  pads=[1, 1, 1, 1])
        elif kind == 5:
            self.conv(self.channels, 1)
            self.value = self.add("Concat", [self.value, before], axis=1)
            self.channels *= 2
        elif kind == 6:
            self.conv(self.channels, 1)
            self.value = self.add("Mul", [self.value, self.add("Sigmoid", [self.value])])
        else:
            self.value = self.add("Exp", [self.add("Neg", [self.add("Abs", [self.value])])])  # never integers

    def model(self):
        self.conv(16, 3)
        self.activation()
        for _ in range(int(self.random.integers(1, 5))):
            self.step()
        self.conv(32, 1)
        self.activation()
        self.value = self.add("Flatten", [self.add("GlobalAveragePool", [self.value])])
        if self.random.integers(2):
            self.value = self.add("Gemm", [self.value, self.weight(CLASSES, self.channels), self.weight(CLASSES)],
                                  transB=1, alpha=2.0)
        else:
            self.value = self.add("MatMul", [self.value, self.weight(self.channels, CLASSES)])
            self.value = self.add("Add", [self.value, self.weight(CLASSES)])
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
                for name, dims in (("x", ["n", *SHAPE]), (self.value, ["n", CLASSES]))]
        graph = helper.make_graph(self.nodes, "net", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Inputs(quantization.CalibrationDataReader):
    def __init__(self, x):
        self.rest = [{"x": x}]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def infer(path, x, names=None):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(names, {"x": x})


def activations(path, x):
    """Every value of the float network, as ONNX Runtime computes it."""
    model = onnx.load(path)
    names = [name for node in model.graph.node for name in node.output]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {"x": x})), x=x)


def divergence(counts, low, high):
    p = counts[low:high].astype(np.float64)
    q = np.zeros_like(p)
    p[0] += counts[:low].sum()
    p[-1] += counts[high:].sum()
    inside = counts[low:high].sum()
    if not inside:
        return np.inf
    edges = np.arange(257) * (high - low) // 256
    for a, b in zip(edges[:-1], edges[1:]):
        filled, mass = (p[a:b] > 0), counts[low + a:low + b].sum()
        if filled.any():
            q[a:b][filled] = mass / filled.sum() if mass else 1e-4
    p, q = p[p > 0] / p.sum(), q[p > 0] / inside
    return float((p * np.log(p / q)).sum())


def entropy_range(numbers, threshold):
    """The least divergence, and that of the threshold given."""
    side, most = 2048, float(np.abs(numbers).max())
    counts = np.histogram(numbers[numbers != 0], 2 * side, (-most, most))[0]
    filled = np.flatnonzero(counts)

    def of(bins):
        low, high = max(side - bins, filled[0]), min(side + bins, filled[-1] + 1)
        return divergence(counts, min(low, side), max(high, side)) if high - low >= 256 else np.inf

    candidates = sorted(set(range(128, side + 1, 16)) | {side})
    return min(of(bins) for bins in candidates), of(int(round(threshold / most * side)))


def power_error(numbers, exponent):
    scale = 2.0 ** exponent
    return float(((numbers - np.clip(np.round(numbers / scale), -128, 127) * scale) ** 2).sum())


def check_power(tensor, numbers, low, high):
    """The exponent with the least squared error of three: what cuts nothing of the range, and the two below it."""
    top = int(np.ceil(np.log2(max(low / -128, high / 127)))) if low < high else 0
    ours = np.log2(tensor["scale"])
    assert ours == int(ours) and top - 2 <= ours <= top and tensor["zero_point"] == 0, (tensor, top)
    best = min(power_error(numbers, exponent) for exponent in range(top - 2, top + 1))
    assert power_error(numbers, ours) <= 1.001 * best + 1e-12, (tensor, best)


def check_range(kind, tensor, values, powers):
    name, numbers = tensor["name"], values[tensor["name"]].ravel()
    least, greatest, width = float(numbers.min()), float(numbers.max()), float(np.ptp(numbers))
    near = 1e-4 * max(abs(least), abs(greatest))
    assert abs(tensor["least"] - least) <= near and abs(tensor["greatest"] - greatest) <= near, (tensor, least, greatest)
    if powers:
        if kind == "minmax":
            check_power(tensor, numbers.astype(np.float64), min(least, 0), max(greatest, 0))
        else:
            assert tensor["zero_point"] == 0 and np.frexp(tensor["scale"])[0] == 0.5, tensor
        return name
    if kind == "entropy":
        threshold = max(-tensor["low"], tensor["high"])
        best, ours = entropy_range(numbers, threshold)
        whole = threshold >= 0.999 * float(np.abs(numbers).max())
        assert ours <= 1.05 * best + 1e-3 or (whole and np.isinf(best)), (tensor, best, ours)
    else:
        cut = 0.5 if kind.startswith("percentile") else 0
        low, high = np.percentile(numbers, [cut, 100 - cut])
        if cut:  # within two bins and the next neighbour
            ordered, rank = np.sort(numbers), int(cut / 100 * (len(numbers) - 1))
            gaps = np.diff(ordered[[rank - 1, rank + 2]]), np.diff(ordered[[-rank - 3, -rank]])
            near += width / 8192 + max(float(gap[0]) for gap in gaps)
        assert abs(tensor["low"] - min(low, 0)) <= near and abs(tensor["high"] - max(high, 0)) <= near, (tensor, low, high)
    step = (tensor["high"] - tensor["low"]) / 255
    assert abs(tensor["scale"] - step) <= 1e-6 * step, tensor
    return name


def check_weights(path, float_path, per_tensor, most, powers):
    """What was quantized is near to what it was; without a normalization, which changes it, to the bit of half a unit."""
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    real = {t.name: numpy_helper.to_array(t) for t in onnx.load(float_path).graph.initializer}
    checked = 0
    for name, was in real.items():
        if name + "_quantized" not in held or was.ndim < 2:
            continue
        bytes_, scale = held[name + "_quantized"].astype(np.float64), held[name + "_scale"].astype(np.float64)
        assert scale.ndim == (0 if per_tensor else 1) and np.abs(bytes_).max() <= most
        shape = [-1] + [1] * (was.ndim - 1) if scale.ndim and scale.size == was.shape[0] else [-1]
        unit = scale.reshape(shape) if scale.ndim else scale
        factor = 2 if was.ndim == 2 and was.shape[0] == CLASSES else 1  # alpha
        if powers:  # numbers may be cut
            top = int(np.ceil(np.log2(factor * np.abs(was).max() / most)))
            assert np.frexp(scale)[0] == 0.5 and np.log2(scale) >= top - 2, (name, scale, top)
            cut = np.clip(factor * was, -most * unit, most * unit)
            assert (np.abs(bytes_ * unit - cut) <= 0.5001 * unit).all(), name
        else:
            assert (np.abs(bytes_ * unit - factor * was) <= 0.5001 * unit).all(), name
        checked += 1
    return checked


def check_joins(path):
    """What only a Concat reads (its first part, in Net) has the scale of its result."""
    model = onnx.load(path)
    held = {t.name: float(numpy_helper.to_array(t)) for t in model.graph.initializer if not t.dims}
    makers = {name: node for node in model.graph.node for name in node.output}
    readers = {name: node for node in model.graph.node for name in node.input}
    for node in model.graph.node:
        part, after = makers.get(node.input[0]), readers.get(node.output[0])
        if node.op_type == "Concat" and part.op_type == "DequantizeLinear" and after.op_type == "QuantizeLinear":
            assert held[part.input[1]] == held[after.input[1]], (path, node.name)


def sqnr(real, other):
    return 10 * np.log10((real.astype(np.float64) ** 2).sum() / ((real.astype(np.float64) - other) ** 2).sum())


def theirs(float_path, folder, x, real, per_tensor, tensors):
    """ONNX Runtime's own quantizer, by least and greatest."""
    plain, path = os.path.join(folder, "plain.onnx"), os.path.join(folder, "theirs.onnx")
    quant_pre_process(float_path, plain)
    quantization.quantize_static(plain, path, Inputs(x), per_channel=not per_tensor,
                                 activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8)
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    same = 0
    for tensor in tensors:
        scale, zero = held.get(tensor["name"] + "_scale"), held.get(tensor["name"] + "_zero_point")
        if scale is None or scale.ndim or zero.dtype != np.uint8:
            continue
        if abs(scale - tensor["scale"]) <= 1e-4 * scale and abs(int(zero) - tensor["zero_point"]) <= 1:
            same += 1
    return sqnr(real, infer(path, x)[0]), same


def check(braid, folder, number):
    random = np.random.default_rng(number)
    path, quantized = os.path.join(folder, f"{number}.onnx"), os.path.join(folder, f"{number}_int8.onnx")
    arrays = [os.path.join(folder, f"{number}_{what}.npy") for what in "xy"]
    onnx.save(Net(random).model(), path)
    x = random.standard_normal((SAMPLES, *SHAPE), dtype=np.float32)
    np.save(arrays[0], x)
    kind, per_tensor, signed = KINDS[number % 3], bool(random.integers(2)), bool(random.integers(2)) and number % 3 != 0
    words = ["--calibration", kind, "--batch", "16", "--layers", "1"] + ["--per-tensor"] * per_tensor
    narrow = number % 5 == 1 or SATURATES
    words += ["--reduce-range"] * narrow
    words += ["--activations", "int8" if signed else "uint8"]
    powers = number % 4 == 1
    if powers:
        words[words.index("--activations"):] = ["--scales", "power-of-two"]
        per_tensor = True
    told = json.loads(subprocess.run([braid, "quantize", path, "--input", arrays[0], "--out", quantized, "--json", *words],
                                     check=True, stdout=subprocess.PIPE).stdout)
    onnx.checker.check_model(onnx.load(quantized), full_check=True)
    values = activations(path, x)
    named = [check_range(kind, tensor, values, powers) for tensor in told["tensors"] if tensor["name"] in values]
    assert len(named) >= 3, (named, told["tensors"])
    assert check_weights(quantized, path, per_tensor, 63 if narrow else 127, powers) >= 1
    real, runtime = infer(path, x)[0], infer(quantized, x)[0]
    subprocess.run([braid, "run", quantized, "--input", arrays[0], "--output", arrays[1]], check=True,
                   stdout=subprocess.DEVNULL)
    ours = np.load(arrays[1])
    held = {t.name: numpy_helper.to_array(t) for t in onnx.load(quantized).graph.initializer}
    last = [node for node in onnx.load(quantized).graph.node if node.op_type == "DequantizeLinear"][-1]
    units = np.abs(ours - runtime) / held[last.input[1]]
    same = (ours.argmax(1) == runtime.argmax(1)).mean()
    mine = sqnr(real, ours)
    report = f"{number} {kind}{', powers of two' * powers}: {(units > 0.5).mean():.3f} off, {units.max():.1f} units at most, {same:.3f} same, {mine:.1f} dB"
    assert abs(mine - told["quantized"]["sqnr_db"]) < 0.01, (report, told["quantized"])
    assert (real.argmax(1) == ours.argmax(1)).mean() == told["quantized"]["agreement"], report
    assert units.max() <= 2.5 and (units > 1.5).mean() <= 0.02 and same >= 0.9, report
    if powers:
        check_joins(quantized)
    assert not powers or (units > 0.5).mean() <= 0.001, report  # products with factors are exact
    if kind == "minmax" and not powers:
        peer, shared = theirs(path, folder, x, real, per_tensor, told["tensors"])
        report += f", ONNX Runtime's {peer:.1f} dB with {shared} scales the same"
        assert mine >= peer - (8 if narrow else 2) and shared >= 2, report  # a bit is 6 dB
    print(report, flush=True)


for number in range(int(sys.argv[3])):
    check(sys.argv[1], sys.argv[2], number)
