"""LeNet on Fashion-MNIST by Keras, on a device; prints the accuracy, and every op that took part with its device.

  lenet.py FOLDER [--device /FPGA:0] [--epochs 2] [--json FILE]

FOLDER has the four files of Fashion-MNIST (or MNIST). Nothing below is of the plug-in's but the last lines: TensorFlow
loads it by itself where it is installed, or give its file in BRAID_TF_PLUGIN."""
import argparse
import glob
import gzip
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf


def read(folder, name):
    """An array in the format of MNIST's files, compressed or not."""
    path = glob.glob(os.path.join(folder, name + "*"))[0]
    data = open(path, "rb").read()
    data = gzip.decompress(data) if path.endswith(".gz") else data
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def images(folder, name):
    return read(folder, name)[..., None].astype(np.float32) / 255


def lenet():
    layers = keras.layers
    return keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(6, 5, padding="same", activation="relu"),
                             layers.MaxPooling2D(), layers.Conv2D(16, 5, activation="relu"), layers.MaxPooling2D(),
                             layers.Flatten(), layers.Dense(120, activation="relu"), layers.Dense(84, activation="relu"),
                             layers.Dense(10)])


class Placement:
    """Where TensorFlow ran each op of the graphs: from the partitions it made of them."""

    def __init__(self):
        from tensorflow.python.eager import context
        self.context = context.context()
        self.context.enable_run_metadata()

    def ops(self):
        counts = {}
        for part in self.context.export_run_metadata().partition_graphs:
            for node in list(part.node) + [node for f in part.library.function for node in f.node_def]:
                device = node.device.rsplit("/device:", 1)[-1] or "any"
                counts[device, node.op] = counts.get((device, node.op), 0) + 1
        return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--device", default="/FPGA:0")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    if os.environ.get("BRAID_TF_PLUGIN"):
        from tensorflow.python.framework import load_library
        load_library.load_pluggable_device_library(os.environ["BRAID_TF_PLUGIN"])
    x, y = images(options.folder, "train-images"), read(options.folder, "train-labels").astype(np.int64)
    test = images(options.folder, "t10k-images"), read(options.folder, "t10k-labels").astype(np.int64)
    keras.utils.set_random_seed(1)
    with tf.device(options.device):
        model = lenet()
        model.compile(keras.optimizers.Adam(1e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        start = time.perf_counter()
        model.fit(x, y, batch_size=64, epochs=options.epochs, verbose=2)
        seconds = time.perf_counter() - start
        loss, accuracy = model.evaluate(*test, batch_size=250, verbose=0)
        placement = Placement()
        model.train_on_batch(x[:64], y[:64])
    print(f"{options.device}: test accuracy {accuracy:.4f}, loss {loss:.4f}, {seconds:.1f} s of training (measured)")
    print("nodes of a training step's graphs, by device:")
    for (device, op), count in sorted(placement.ops().items()):
        print(f"  {device:8} {op:44} {count}")
    try:
        import braid_tensorflow as braid
        times = braid.times()
        print("run by the plug-in:")
        for (device, op), count in sorted(braid.calls().items()):
            print(f"  {device:8} {op:44} {count:8} calls {times[device, op] / 1e3:10.1f} ms")
    except ImportError:
        pass
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "accuracy": accuracy, "loss": loss, "seconds": seconds}, file)


if __name__ == "__main__":
    main()
