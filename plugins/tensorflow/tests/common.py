"""What the tests share. BRAID_TF_PLUGIN is the plug-in's file; without it, TensorFlow must have loaded it by itself."""
import os

from framework import np, tf

if os.environ.get("BRAID_TF_PLUGIN"):
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(os.environ["BRAID_TF_PLUGIN"])
import braid_tensorflow as braid

rng = np.random.default_rng(1)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def positive(*shape):
    return (rng.random(shape) + 0.1).astype(np.float32)


def put(value, device):
    with tf.device(device):
        return tf.identity(tf.constant(value))


def close(got, want, bound, what):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if not want.size:
        return
    if want.dtype.kind in "biu":
        assert (got == want).all(), f"{what}: {got} is not {want}"
        return
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want) & np.isfinite(got)
    difference = np.max(np.abs(np.subtract(got, want, out=np.zeros(want.shape), where=finite)))
    assert difference <= bound * max(1, np.max(np.abs(want), initial=0, where=finite)), f"{what} differs by {difference}"
    assert (finite | (got == want) | np.isnan(got)).all(), f"{what}: infinity elsewhere"
    assert (np.isnan(got) == np.isnan(want)).all(), f"{what}: NaN elsewhere"


def expect(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), f"expected {words!r} in: {error}"
        return
    raise AssertionError(f"expected {kind.__name__} with {words!r}")
