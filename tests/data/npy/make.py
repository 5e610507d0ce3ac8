"""Writes the .npy files beside it with NumPy (and ml_dtypes): every element type and byte order, both orders of storage, versions 1 to 3.

The elements are 0, 1, 2 ... in row-major order (bool: i % 2), whatever the type."""
import ml_dtypes
import numpy as np
from numpy.lib import format as npy

def save(name, array, version=(1, 0)):
    with open(name + ".npy", "wb") as file:
        npy.write_array(file, array, version=version)

for dtype in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
    numbers = np.arange(24).reshape(2, 3, 4)
    save("little_" + dtype, numbers.astype("<" + dtype))
    save("big_" + dtype, numbers.astype(">" + dtype))
save("bool", (np.arange(24) % 2).astype("?").reshape(2, 3, 4))
save("fortran", np.asfortranarray(np.arange(24, dtype="f4").reshape(2, 3, 4)))
save("fortran_big", np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)))
save("scalar", np.array(0, dtype="i8"))
save("vector", np.arange(5, dtype="f4"))
save("empty", np.zeros((0, 3), dtype="f4"))
save("version2", np.arange(24, dtype="f4").reshape(2, 3, 4), (2, 0))
save("version3", np.arange(24, dtype="f4").reshape(2, 3, 4), (3, 0))
save("int4", np.arange(-8, 8).astype(ml_dtypes.int4))  # bytes 8 to 15, 0 to 7
