"""The experiments of Guo et al., "fGrain" (2021), under TensorFlow: inference of AlexNet and ResNet-18 at batches 1 to 3
with all Conv2D on FPGA devices and the rest on the CPU, and AlexNet's branches on two virtual devices.

  fgrain.py [--runs 15] [--devices "cpu:threads=1 cpu:threads=1"] [--json FILE]

The virtual devices stand for the paper's two kernels on one card; by default each is a core of this CPU. So only
ratios of runs on the same devices can be held beside the paper's, and latencies cannot: the paper prints none."""
import argparse
import json
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
CPU = "/CPU:0"
# Placements of section 5.3, by convolution: layer and group.
PLACEMENTS = {
    "one device (control)": {},
    "Pa": {"C11": 1, "C31": 1, "C41": 1},
    "Pb": {name: 1 for name in ("C10", "C11", "C30", "C31", "C40", "C41")},
}
PAPER = ("paper, Arria 10 beside GTX 1080 Ti: AlexNet 20.2 %, ResNet-18 11.1 % less latency than the GPU at batch 1; "
         "placement Pa beside one device: convolutions near 40 % less, end to end about 25 % less; fGrain beside bare "
         "OpenCL 1.28 % more (Guo et al. 2021, sections 5.2 to 5.4)")


class Network:
    """Weights by name, made once; a convolution runs on the device that its name is placed on."""

    def __init__(self, tf, np, place):
        self.tf, self.np, self.place = tf, np, place
        self.rng, self.weights = np.random.default_rng(0), {}

    def weight(self, name, shape):
        if name not in self.weights:
            scale = (2 / self.np.prod(shape[:-1])) ** 0.5
            value = (self.rng.standard_normal(shape) * scale).astype(self.np.float32)
            with self.tf.device(self.place(name)):
                self.weights[name] = self.tf.Variable(value)
        return self.weights[name]

    def conv(self, name, x, size, filters, stride=1, padding="SAME"):
        w = self.weight(name, (size, size, x.shape[-1], filters))
        with self.tf.device(self.place(name)):
            return self.tf.nn.conv2d(x, w, stride, padding)

    def dense(self, name, x, units):
        w = self.weight(name, (x.shape[-1], units))
        return self.tf.matmul(x, w)


def alexnet(net, x):
    tf = net.tf

    def two(layer, x, size, filters):
        halves = [net.conv(f"C{layer}{i}", half, size, filters) for i, half in enumerate(tf.split(x, 2, 3))]
        return tf.nn.relu(tf.concat(halves, 3))

    def shrink(x):
        return tf.nn.max_pool2d(x, 3, 2, "VALID")

    x = tf.nn.relu(net.conv("C0", x, 11, 96, 4, "VALID"))
    x = shrink(tf.nn.lrn(x, 2, 1.0, 2e-5, 0.75))
    x = shrink(tf.nn.lrn(two(1, x, 5, 128), 2, 1.0, 2e-5, 0.75))
    x = tf.nn.relu(net.conv("C2", x, 3, 384))
    x = shrink(two(4, two(3, x, 3, 192), 3, 128))
    x = tf.reshape(x, (x.shape[0], -1))
    for i, units in enumerate((4096, 4096)):
        x = tf.nn.relu(net.dense(f"F{i}", x, units))
    return tf.nn.softmax(net.dense("F2", x, 1000))


def resnet18(net, x):
    tf = net.tf

    def norm(x):  # as in inference, folded into a scale and a shift
        return x * 0.5 + 0.1

    x = tf.nn.max_pool2d(tf.nn.relu(norm(net.conv("C0", x, 7, 64, 2))), 3, 2, "SAME")
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride, name = 2 if stage and not block else 1, f"C{stage}{block}"
            y = tf.nn.relu(norm(net.conv(name + "a", x, 3, filters, stride)))
            y = norm(net.conv(name + "b", y, 3, filters))
            if stride == 2:
                x = norm(net.conv(name + "s", x, 1, filters, 2))
            x = tf.nn.relu(x + y)
    return tf.nn.softmax(net.dense("F", tf.reduce_mean(x, (1, 2)), 1000))


def runner(tf, np, network, batch, place):
    net = Network(tf, np, place)
    size = 227 if network is alexnet else 224
    image = tf.constant(np.random.default_rng(1).standard_normal((batch, size, size, 3)).astype(np.float32))

    def infer(x):
        with tf.device(CPU):
            return network(net, x)

    infer(image)  # makes the weights
    graph = tf.function(infer)
    return lambda: graph(image).numpy()


def measure(runners, runs):
    """Median milliseconds of each, in turns, and of the ratios to the first."""
    for run in runners:
        run()
    rows = []
    for _ in range(runs):
        row = []
        for run in runners:
            start = time.perf_counter()
            run()
            row.append((time.perf_counter() - start) * 1e3)
        rows.append(row)
    medians = [statistics.median(row[i] for row in rows) for i in range(len(runners))]
    return medians, [statistics.median(row[i] / row[0] for row in rows) for i in range(len(runners))]


def conv_ms(braid, run):
    before = braid.times()
    run()
    return sum(us - before.get(key, 0) for key, us in braid.times().items() if key[1] == "Conv2D") / 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--devices", default="cpu:threads=1 cpu:threads=1")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ["BRAID_TF_DEVICES"] = options.devices
    import numpy as np
    import tensorflow as tf
    if os.environ.get("BRAID_TF_PLUGIN"):
        from tensorflow.python.framework import load_library
        load_library.load_pluggable_device_library(os.environ["BRAID_TF_PLUGIN"])
    import braid_tensorflow as braid
    rows = []
    print("measured here, on this CPU:", options.devices)
    for name, network in (("AlexNet", alexnet), ("ResNet-18", resnet18)):
        for batch in (1, 2, 3):
            on = [runner(tf, np, network, batch, lambda name, place=place: place if name[0] == "C" else CPU) for place in (CPU, "/FPGA:0")]
            same = np.abs(on[0]() - on[1]()).max()
            assert same < 1e-4, f"{name} differs by {same}"
            (cpu, fpga), (_, ratio) = measure(on, options.runs)
            rows.append({"network": name, "batch": batch, "cpu_ms": cpu, "fpga_ms": fpga, "ratio": ratio})
            print(f"{name:10} batch {batch}: all on TensorFlow's CPU {cpu:7.1f} ms, Conv2D on FPGA:0 {fpga:7.1f} ms, "
                  f"ratio {ratio:.2f}")
    for batch in (1, 2, 3):
        on = [runner(tf, np, alexnet, batch, lambda name, where=where: f"/FPGA:{where.get(name, 0)}" if name[0] == "C" else CPU)
              for where in PLACEMENTS.values()]
        medians, ratios = measure(on, options.runs)
        for placement, run, ms, ratio in zip(PLACEMENTS, on, medians, ratios):
            rows.append({"network": "AlexNet", "batch": batch, "placement": placement, "ms": ms, "ratio": ratio,
                         "conv_ms": conv_ms(braid, run)})
            print(f"AlexNet    batch {batch}, {placement:20}: {ms:7.1f} ms, {100 * (ratio - 1):+5.1f} % beside one device")
    print("most kernels at once:", braid.most_at_once())
    print(PAPER)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"devices": options.devices, "rows": rows, "most_at_once": braid.most_at_once()}, file, indent=1)


if __name__ == "__main__":
    main()
