"""Microseconds of an eager op on FPGA:0 beside TensorFlow's CPU device, in turns.

  eager.py [--turns 15]"""
import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

DEVICES = ("/CPU:0", "/FPGA:0")


def microseconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def calls(device):
    ops = tf.raw_ops

    def put(*shape):
        with tf.device(device):
            return tf.identity(tf.constant(np.ones(shape, np.float32)))

    one, many, matrix, image, filters = put(1), put(1000), put(4, 4), put(1, 8, 8, 4), put(3, 3, 4, 4)
    return {"Relu [1]": lambda: ops.Relu(features=one), "AddV2 [1]": lambda: ops.AddV2(x=one, y=one),
            "AddV2 [1000]": lambda: ops.AddV2(x=many, y=many), "MatMul 4x4": lambda: ops.MatMul(a=matrix, b=matrix),
            "Conv2D 8x8x4": lambda: ops.Conv2D(input=image, filter=filters, strides=[1, 1, 1, 1], padding="SAME")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    if os.environ.get("BRAID_TF_PLUGIN"):
        from tensorflow.python.framework import load_library
        load_library.load_pluggable_device_library(os.environ["BRAID_TF_PLUGIN"])
    cpu, fpga = (calls(device) for device in DEVICES)
    for name in cpu:
        microseconds(cpu[name], 200), microseconds(fpga[name], 200)
        rows = [(microseconds(cpu[name], 1000), microseconds(fpga[name], 1000)) for _ in range(options.turns)]
        print(f"{name:13} TensorFlow's CPU {statistics.median(row[0] for row in rows):6.1f} us, FPGA:0 "
              f"{statistics.median(row[1] for row in rows):6.1f} us, median difference "
              f"{statistics.median(row[1] - row[0] for row in rows):+.1f} us; least {min(row[0] for row in rows):.1f} and "
              f"{min(row[1] for row in rows):.1f} us")


if __name__ == "__main__":
    main()
