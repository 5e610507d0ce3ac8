"""Data sets: files by a description of one line, arrays, and Python's own samples; loaders of batches; pictures."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._arrays import copy_out, locate, numpy_address, numpy_dtype
from ._library import (Exclusive, Guard, Handle, Keep, Memory, Object, check, close_at_exit, encode, encode_or_none,
                       enum_names, enum_value, fail_by, field_type, lib, out, process, ready, text)
from .errors import InvalidArgumentError, OutOfRangeError, UnsupportedError

Array = np.ndarray[Any, Any]
_TARGETS = enum_names("braid_target_kind", "BRAID_TARGET_")


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set has. `target`: "class", "labels" or "numbers"."""

    spec: str
    samples: int
    channels: int
    height: int
    width: int
    classes: int
    class_names: tuple[str, ...]
    augments: bool
    one_part: bool
    target: str
    table: bool
    views: bool


class Dataset(Object):
    """Labelled samples. `spec` is KIND:PATH[,key=value...]: "cifar10:DIR,augment=crop+flip", "idx:DIR" (MNIST's files),
    "images:DIR", "npy:X.npy+Y.npy", "csv:FILE,target=COLUMN", "coco:...", "builtin:glyphs"; docs/training.md has all
    kinds and keys. `split`: "train" or "test", where the description does not say it."""

    def __init__(self, spec: str, split: str = "train") -> None:
        pointer = out()
        check(ready().braid_dataset_open(None, encode(spec), encode(split), ctypes.byref(pointer)))
        self._adopt(pointer)

    def _adopt(self, pointer: Any, *keeps: Any) -> None:
        self._handle = Handle(pointer.value, lib.braid_dataset_close, *keeps)
        self._lock = threading.Lock()
        self._guard: Guard | None = None

    @classmethod
    def from_arrays(cls, samples: Any, targets: Any, *, classes: int | None = None,
                    class_names: Sequence[str] | None = None, target: str | None = None, keys: str | None = None,
                    name: str = "arrays") -> Dataset:
        """Of NumPy arrays or PyTorch tensors, which are read where they are and must not change. `samples`: of
        B,C,H,W, of B,H,W (one channel), or of B,N (rows of numbers). `targets`: integers of B (classes), bool of B,N
        (labels), float of B or B,N (numbers). `keys`: of a description, "augment=flip,scale=0.5"; uint8 pixels are
        divided by 255 unless `keys` have scale=."""
        place, given = locate(samples, "float32", "samples"), locate(targets, None, "targets")
        pixels, values = _as_numpy(place), _as_numpy(given)
        if pixels.ndim not in (2, 3, 4):
            raise InvalidArgumentError(f"samples have {pixels.ndim} dimensions, expected B,C,H,W or B,H,W or B,N")
        if len(pixels) != len(values):
            raise InvalidArgumentError(f"there are {len(pixels)} samples and {len(values)} targets")
        shape: tuple[int, int, int] = (1, 1, pixels.shape[1]) if pixels.ndim == 2 else \
            (1, *pixels.shape[1:]) if pixels.ndim == 3 else pixels.shape[1:]
        kind = target or _target_kind(values)
        if pixels.dtype == np.uint8 and not (keys and any(key.startswith("scale=") for key in keys.split(","))):
            keys = f"{keys},scale={1 / 255}" if keys else f"scale={1 / 255}"
        if kind == "class":
            count = classes or (len(class_names) if class_names else int(values.max(initial=-1)) + 1)
        else:
            values = values.reshape(len(values), -1)
            count = values.shape[1]
        return cls.from_function(lambda index: (pixels[index], values[index]), len(pixels), shape, classes=count,
                                 class_names=class_names, target=kind, keys=keys, name=name)

    @classmethod
    def from_samples(cls, samples: Iterable[tuple[Any, Any]], *, classes: int | None = None,
                     class_names: Sequence[str] | None = None, target: str | None = None, keys: str | None = None,
                     name: str = "samples") -> Dataset:
        """Of (sample, target) pairs. What has a length and indices (a list, a Dataset of PyTorch) is asked again and
        again, by several threads at once, and has to give the same for an index; anything else, as a generator, is read
        once and kept."""
        indexed: Any = samples if hasattr(samples, "__getitem__") and hasattr(samples, "__len__") else list(samples)
        if not len(indexed):
            raise InvalidArgumentError("there are no samples")
        first, wanted = indexed[0]
        pixels, value = _as_numpy(locate(first, "float32", "a sample")), np.asarray(wanted)
        shape: tuple[int, int, int] = (1, 1, 1, *pixels.shape)[-3:]
        kind = target or ("class" if value.ndim == 0 and value.dtype.kind in "iu" else _target_kind(value[None]))
        count = classes or (len(class_names) if class_names else 0)
        if kind != "class":
            count = max(1, value.size)
        elif not count:
            count = 1 + max(int(indexed[index][1]) for index in range(len(indexed)))
        return cls.from_function(lambda index: indexed[index], len(indexed), shape, classes=count,
                                 class_names=class_names, target=kind, keys=keys, name=name)

    @classmethod
    def from_function(cls, read: Callable[[int], tuple[Any, Any]], samples: int, shape: Sequence[int], *, classes: int,
                      class_names: Sequence[str] | None = None, target: str = "class", keys: str | None = None,
                      name: str = "function") -> Dataset:
        """read(index) gives a sample of shape C,H,W and its target; it is called by several threads, and gives the same
        whenever it is called. An exception in it ends the training, and is raised there."""
        if len(shape) != 3:
            raise InvalidArgumentError(f"the shape of a sample is {tuple(shape)}, expected C,H,W")
        if class_names is not None and len(class_names) != classes:
            raise InvalidArgumentError(f"there are {len(class_names)} names of {classes} classes")
        guard, keep, pointer = Guard(), Keep(), out()
        source = _abi.braid_dataset_source()
        source.name = keep.text(name)
        for field, number in zip(("samples", "channels", "height", "width", "classes"), (samples, *shape, classes)):
            setattr(source, field, number)
        source.class_names = keep.texts(class_names) if class_names is not None else None
        source.target = enum_value("braid_target_kind", "BRAID_TARGET_", target, "target")
        reader = _Reader(read, tuple(shape), classes, target, guard)
        entry = "read" if target == "class" else "read_targets"
        callback = field_type(_abi.braid_dataset_source, entry)(reader.call)
        setattr(source, entry, callback)
        check(ready().braid_dataset_create(None, ctypes.byref(source), keep.text(keys), ctypes.byref(pointer)))
        dataset = cls.__new__(cls)
        dataset._adopt(pointer, callback)
        dataset._guard = guard
        close_at_exit(dataset)
        return dataset

    def _reraise(self) -> None:
        """What a function of the program raised while the library read samples."""
        if self._guard is not None:
            self._guard.reraise()

    def _check(self, status: int) -> None:
        """check, of a call that reads samples. What was raised by one that is read ahead waits for the call that is
        to give it."""
        if status:
            self._reraise()
            check(status)

    def _forget(self) -> None:
        """Samples that were read ahead, and that nobody will ask for."""
        if self._guard is not None:
            self._guard.raised = None

    @property
    def info(self) -> DatasetInfo:
        """What it has."""
        handle = self._held()
        info = lib.braid_dataset_get_info(handle.pointer)
        return DatasetInfo(text(info.spec), info.samples, info.channels, info.height, info.width, info.classes,
                           tuple(text(info.class_names[index]) for index in range(info.classes)), info.augments,
                           info.one_part, _TARGETS[info.target], info.table, info.views)

    def __len__(self) -> int:
        return self.info.samples

    def __getitem__(self, index: int) -> tuple[Array, Any]:
        """A sample, normalized, without augmentation: C,H,W and its class, or an array of labels or numbers."""
        handle, info = self._held(), self.info
        index = self._index(index, info)
        pixels = np.empty((info.channels, info.height, info.width), np.float32)
        target = np.empty(1, np.int32) if info.target == "class" else np.empty(info.classes, np.float32)
        with self._lock:
            status = lib.braid_dataset_sample(handle.pointer, index, pixels.ctypes.data, target.ctypes.data)
        self._check(status)
        return pixels, int(target[0]) if info.target == "class" else target

    def __iter__(self) -> Iterator[tuple[Array, Any]]:
        for index in range(len(self)):
            yield self[index]

    def picture(self, index: int) -> Array:
        """A sample for display: H,W,3, uint8."""
        handle, info = self._held(), self.info
        index = self._index(index, info)
        rgb = np.empty((info.height, info.width, 3), np.uint8)
        with self._lock:
            status = lib.braid_dataset_picture(handle.pointer, index, rgb.ctypes.data)
        self._check(status)
        return rgb

    @staticmethod
    def _index(index: int, info: DatasetInfo) -> int:
        if not -info.samples <= index < info.samples:
            raise _IndexError(f"sample {index} of {info.samples}")
        return index % info.samples

    def loader(self, batch: int, *, seed: int = 0, shuffle: bool = False, augment: bool = False, mixup: float = 0,
               label_noise: float = 0, keep_last: bool = False, threads: int = 0, depth: int = 0, first_epoch: int = 0,
               first_step: int = 0) -> Loader:
        """Batches, prepared ahead by threads."""
        return Loader(self, batch, seed=seed, shuffle=shuffle, augment=augment, mixup=mixup, label_noise=label_noise,
                      keep_last=keep_last, threads=threads, depth=depth, first_epoch=first_epoch,
                      first_step=first_step)


class _IndexError(OutOfRangeError, IndexError):
    """For loops over indices, which end by IndexError."""


class _Reader:
    """Writes the samples of a program's function to where the library wants them."""

    def __init__(self, read: Callable[[int], tuple[Any, Any]], shape: tuple[int, ...], classes: int, target: str,
                 guard: Guard) -> None:
        self.read, self.shape, self.classes, self.target, self.guard = read, shape, classes, target, guard
        self.floats = int(np.prod(shape))

    def call(self, _context: int | None, index: int, pixels: int, target: int) -> int:
        return int(self.guard.call(self.write, self.failed, index, pixels, target))

    @property
    def failed(self) -> int:
        return _abi.BRAID_INTERNAL

    def write(self, index: int, pixels: int, target: int) -> int:
        try:
            sample, wanted = self.read(index)
            array = np.ascontiguousarray(sample, np.float32)
            if array.shape != self.shape and not self._fits(array):
                raise InvalidArgumentError(f"sample {index} has shape {array.shape}, expected {self.shape} or as many "
                                           "numbers in one dimension")
            ctypes.memmove(pixels, numpy_address(array), 4 * self.floats)
            if self.target == "class":
                number = int(wanted)
                if number != wanted or not 0 <= number < self.classes:
                    raise InvalidArgumentError(f"sample {index} has class {wanted} of {self.classes}")
                ctypes.c_int32.from_address(target).value = number
            else:
                values = np.ascontiguousarray(wanted, np.float32)
                if values.size != self.classes:
                    raise InvalidArgumentError(f"sample {index} has {values.size} targets, expected {self.classes}")
                ctypes.memmove(target, numpy_address(values), 4 * self.classes)
        except BaseException as problem:
            fail_by(problem, False)
            raise
        return 0

    def _fits(self, array: Array) -> bool:
        """As many numbers are not enough: H,W,C is not C,H,W."""
        return array.size == self.floats and \
            (array.ndim == 1 or _without_ones(array.shape) == _without_ones(self.shape))


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _as_numpy(place: Any) -> Array:
    owner = place.owner
    if isinstance(owner, Handle):  # of a Buffer
        kind = numpy_dtype(place.dtype)
        if kind is None:
            raise UnsupportedError(f"the buffer is {place.dtype}, which NumPy has with the package ml_dtypes only")
        memory = Memory(place.address, math.prod(place.shape) * kind.itemsize, owner)
        return np.asarray(memory).view(kind).reshape(place.shape)
    return owner if isinstance(owner, np.ndarray) else np.asarray(owner)


def _target_kind(values: Array) -> str:
    if values.ndim == 1 and values.dtype.kind in "iu":
        return "class"
    if values.dtype.kind == "b":
        return "labels"
    if values.dtype.kind == "f":
        return "numbers"
    raise InvalidArgumentError(f"targets are {values.dtype} of {values.ndim} dimensions, expected integers of one "
                               "(classes), bool (labels) or floats (numbers); `target` says which they are")


@dataclass(frozen=True)
class Batch:
    """A batch of a loader: arrays of the program's own. `targets`: int32 classes, or floats of labels or numbers."""

    images: Array
    targets: Array
    indices: Array
    mixed_targets: Array | None
    mix: float
    count: int
    epoch: int
    step: int


class Loader(Exclusive):
    """Batches without end: after the last of an epoch comes the first of the next. Iterating gives one epoch."""

    def __init__(self, dataset: Dataset, batch: int, *, seed: int = 0, shuffle: bool = False, augment: bool = False,
                 mixup: float = 0, label_noise: float = 0, keep_last: bool = False, threads: int = 0, depth: int = 0,
                 first_epoch: int = 0, first_step: int = 0) -> None:
        below, pointer = dataset._held(), out()
        process.threads = True
        options = _abi.braid_loader_options(batch, seed, shuffle, augment, mixup, label_noise, keep_last, threads,
                                            depth)
        check(ready().braid_loader_create(below.pointer, ctypes.byref(options), first_epoch, first_step,
                                          ctypes.byref(pointer)))
        self._own(Handle(pointer.value, lib.braid_loader_destroy, below))
        self._dataset, self._batch = dataset, batch
        self._info = dataset.info
        self._steps = int(lib.braid_loader_steps(pointer))
        close_at_exit(self)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._steps

    def next(self) -> Batch:
        """The next batch, copied."""
        batch = _abi.braid_batch()
        with self._alone() as handle:
            status = lib.braid_loader_next(handle.pointer, ctypes.byref(batch))
            self._dataset._check(status)
            return self._copy(batch)

    def _copy(self, batch: Any) -> Batch:
        info, count = self._info, self._batch
        images = np.empty((count, info.channels, info.height, info.width), np.float32)
        ctypes.memmove(images.ctypes.data, batch.images, images.nbytes)
        indices = np.empty(count, np.int64)
        ctypes.memmove(indices.ctypes.data, batch.indices, indices.nbytes)
        mixed = self._targets(batch.mixed_targets) if batch.mixed_targets else None
        return Batch(images, self._targets(batch.targets), indices, mixed, batch.mix, batch.count, batch.epoch,
                     batch.step)

    def _targets(self, address: int) -> Array:
        info = self._info
        targets = np.empty(self._batch, np.int32) if info.target == "class" else \
            np.empty((self._batch, info.classes), np.float32)
        ctypes.memmove(targets.ctypes.data, address, targets.nbytes)
        return targets

    def __iter__(self) -> Iterator[Batch]:
        """One epoch, or what is left of it."""
        while True:
            batch = self.next()
            yield batch
            if batch.step + 1 >= len(self):
                return


def load_image(path: str | os.PathLike[str], channels: int = 3, height: int = 0, width: int = 0,
               preprocess: str | None = None) -> Array:
    """A JPEG or PNG file as float32 of C,H,W, resized if sizes are given. `preprocess`: keys of a data set's
    description ("mean=...,std=..."); without, pixels are divided by 255."""
    pointer = out()
    check(ready().braid_image_load(None, encode(path), channels, height, width, encode_or_none(preprocess),
                                   ctypes.byref(pointer)))
    handle = Handle(pointer.value, lib.braid_tensor_release)
    return copy_out(lib.braid_tensor_const_data(handle.pointer), lib.braid_tensor_desc(handle.pointer).contents)
