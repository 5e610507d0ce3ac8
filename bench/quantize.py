"""`braid quantize` beside ONNX Runtime's quantize_static: seconds and accuracy, of the same model with as many samples of
the same training set for calibration, by every way of calibration. Accuracy is that of the written files in ONNX
Runtime, over the whole test set. Both quantizers take turns; seconds are the fewest of some."""
import argparse
import gzip
import os
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

METHODS = {"minmax": quantization.CalibrationMethod.MinMax, "percentile": quantization.CalibrationMethod.Percentile,
           "entropy": quantization.CalibrationMethod.Entropy}


def read_idx(folder, name):
    path = os.path.join(folder, name)
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")
    with opened as file:
        data = file.read()
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(np.frombuffer(data, ">i4", data[3], 4))


def read_cifar(folder, names):
    data = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8) for name in names]).reshape(-1, 3073)
    return data[:, 1:].reshape(-1, 3, 32, 32), data[:, 0]


def read_data(kind, folder):
    """Training images, test images, test labels."""
    if kind == "cifar10":
        train = read_cifar(folder, [f"data_batch_{i}.bin" for i in range(1, 6)])[0]
        return (train, *read_cifar(folder, ["test_batch.bin"]))
    images = [read_idx(folder, f"{part}-images-idx3-ubyte")[:, None] for part in ("train", "t10k")]
    return (*images, read_idx(folder, "t10k-labels-idx1-ubyte"))


def normalize(images, keys):
    keys = dict(key.split("=") for key in keys)
    numbers = {name: np.array([float(x) for x in keys.get(name, otherwise).split("/")], np.float32).reshape(-1, 1, 1)
               for name, otherwise in (("mean", "0"), ("std", "1"), ("scale", str(1 / 255)))}
    return ((images * numbers["scale"] - numbers["mean"]) / numbers["std"]).astype(np.float32)


class Samples(quantization.CalibrationDataReader):
    def __init__(self, name, images, batch):
        self.name, self.batches = name, [images[i:i + batch] for i in range(0, len(images), batch)]

    def get_next(self):
        return {self.name: self.batches.pop(0)} if self.batches else None


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def accuracy(path, images, labels, keys, threads):
    session = open_session(path, threads)
    fixed = session.get_inputs()[0].shape[0]
    batch, right = fixed if isinstance(fixed, int) else 100, 0
    for i in range(0, len(images), batch):
        scores = session.run(None, {session.get_inputs()[0].name: normalize(images[i:i + batch], keys)})[0]
        right += (scores.reshape(len(scores), -1).argmax(1) == labels[i:i + batch]).sum()
    return right / len(images)


def ours(args, path, method):
    started = time.perf_counter()
    subprocess.run([args.braid, "quantize", args.model, "--data", args.data, "--out", path, "--calibration", method,
                    "--samples", str(args.samples), "--layers", "0", "--test-samples", "1", "--threads",
                    str(args.threads)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def theirs(args, path, method, samples, folder):
    started = time.perf_counter()
    plain = os.path.join(folder, "plain.onnx")
    source = args.model
    if onnx.load(source).opset_import[0].version < 13:  # below it DequantizeLinear has no axis, and the file is invalid
        source = os.path.join(folder, "newer.onnx")
        onnx.save(onnx.version_converter.convert_version(onnx.load(args.model), 13), source)
    quant_pre_process(source, plain)
    entry = open_session(plain, args.threads).get_inputs()[0]
    batch = entry.shape[0] if isinstance(entry.shape[0], int) else 32
    quantization.quantize_static(plain, path, Samples(entry.name, samples, batch), per_channel=True,
                                 activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8, calibrate_method=METHODS[method])
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("data", help="idx:DIR or cifar10:DIR, with mean=, std= and scale=")
    parser.add_argument("--braid", default="build/braid")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    spec, *keys = args.data.split(",")
    kind, folder = spec.split(":")
    train, test, labels = read_data(kind, folder)
    drawn = np.random.default_rng(0).permutation(len(train))[:args.samples]
    samples = normalize(train[drawn], keys)
    whole = accuracy(args.model, test, labels, keys, args.threads)
    print(f"{args.model}: float {100 * whole:.2f}%, {len(test)} test images, {args.samples} for calibration")
    print(f"{'calibration':12} {'ours':>7} {'ONNX Runtime':>13} {'ours s':>8} {'ONNX Runtime s':>15} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as work:
        for method in METHODS:
            paths = [os.path.join(work, name) for name in ("ours.onnx", "theirs.onnx")]
            seconds = [min(times) for times in zip(*((ours(args, paths[0], method),
                                                      theirs(args, paths[1], method, samples, work))
                                                     for _ in range(args.turns)))]
            shares = [100 * accuracy(path, test, labels, keys, args.threads) for path in paths]
            print(f"{method:12} {shares[0]:6.2f}% {shares[1]:12.2f}% {seconds[0]:8.2f} {seconds[1]:15.2f} "
                  f"{seconds[1] / seconds[0]:6.1f}", flush=True)


main()
