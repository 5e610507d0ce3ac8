"""Installed into tensorflow-plugins, the plug-in is there after `import tensorflow`, and Keras needs no argument more."""
import keras
import numpy as np
import tensorflow as tf

assert [device.name for device in tf.config.list_physical_devices("FPGA")] == ["/physical_device:FPGA:0"]
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
model.fit(np.ones((8, 4), np.float32), np.ones((8, 1), np.float32), verbose=0)
import braid_tensorflow as braid

assert braid.calls()["FPGA:0", "MatMul"] > 0
print("installed: TensorFlow and Keras use FPGA:0 by themselves")
