"""Writes generated pictures as PNG files, a folder per class, for docs/tutorial.md: make_pictures.py FOLDER [COUNT]"""

import struct
import sys
import zlib
from pathlib import Path

import braid
import numpy as np


def write_png(path: Path, rgb: np.ndarray) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = rgb.shape
    lines = b"".join(b"\0" + line.tobytes() for line in rgb)  # 0: not filtered
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
data = braid.Dataset(f"builtin:glyphs,limit={count}")
for index, (_, label) in enumerate(data):
    below = folder / data.info.class_names[label]
    below.mkdir(parents=True, exist_ok=True)
    write_png(below / f"{index:05}.png", data.picture(index))
