"""Prints the folder of the installed tensorflow package, or with --plugins the one that it loads plug-ins from. Does not
import TensorFlow, which takes seconds."""
import importlib.util
import os
import sys

spec = importlib.util.find_spec("tensorflow")
if not spec or not spec.submodule_search_locations:
    sys.exit(f"{sys.executable} has no tensorflow: install tensorflow-cpu, or name another with PYTHON=")
folder = list(spec.submodule_search_locations)[0]
if not os.path.exists(os.path.join(folder, "include/tensorflow/c/kernels.h")):
    sys.exit(f"{folder} has no include/tensorflow/c/kernels.h: expected a wheel of tensorflow-cpu 2.18 or later")
print(os.path.join(os.path.dirname(folder), "tensorflow-plugins") if "--plugins" in sys.argv else folder)
