"""TensorFlow as the tests have it, before the plug-in is loaded."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# What there is beside is TensorFlow's own kernels: the oneDNN in it, which newer processors get, ends the process at
# windows that are larger than the image, or gives results of a wrong shape.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
import numpy as np
import tensorflow as tf
