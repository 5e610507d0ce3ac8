"""Networks of keras.applications on FPGA:0 beside TensorFlow's CPU, in turns: the same five best classes, milliseconds.

  inference.py [ResNet50V2 InceptionV3 MobileNetV2] [--batch 1] [--runs 15]"""
import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf

SIZES = {"InceptionV3": 299}


def runner(name, x, device):
    with tf.device(device):
        keras.utils.set_random_seed(1)
        model = getattr(keras.applications, name)(weights=None)
        graph = tf.function(lambda image: model(image, training=False))
        image = tf.identity(tf.constant(x))

    def run():
        with tf.device(device):
            return graph(image).numpy()

    return run


def measured(run):
    wall, used = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - used) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["ResNet50V2", "InceptionV3", "MobileNetV2"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    if os.environ.get("BRAID_TF_PLUGIN"):
        from tensorflow.python.framework import load_library
        load_library.load_pluggable_device_library(os.environ["BRAID_TF_PLUGIN"])
    for name in options.networks:
        size = SIZES.get(name, 224)
        x = np.random.default_rng(0).standard_normal((options.batch, size, size, 3)).astype(np.float32)
        cpu, fpga = runner(name, x, "/CPU:0"), runner(name, x, "/FPGA:0")
        want, got = cpu(), fpga()
        assert (np.argsort(-want)[:, :5] == np.argsort(-got)[:, :5]).all(), f"{name}: other classes"
        rows = [measured(cpu) + measured(fpga) for _ in range(options.runs)]
        middle = [statistics.median(row[i] for row in rows) for i in range(4)]
        print(f"{name:12} batch {options.batch}: same top 5; TensorFlow's CPU {middle[0]:.0f} ms ({middle[1]:.0f} ms of "
              f"cores), FPGA:0 {middle[2]:.0f} ms ({middle[3]:.0f} ms); median ratio "
              f"{statistics.median(row[2] / row[0] for row in rows):.2f} "
              f"(of cores' time {statistics.median(row[3] / row[1] for row in rows):.2f})")


if __name__ == "__main__":
    main()
