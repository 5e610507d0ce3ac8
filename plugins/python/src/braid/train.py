"""Training: options, the trainer, evaluation, and the search for a learning rate."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _abi
from ._library import (Exclusive, Guard, Handle, Keep, check, close_at_exit, encode, enum_value, lib, main_thread, out,
                       process, ready)
from .data import Array, Dataset
from .errors import InvalidArgumentError
from .graph import Graph, load_graph
from .machine import Machine, Registry, default_registry
from .model import Model
from .session import session_options

Data = Union[Dataset, str, tuple[Any, Any]]
ModelSource = Union[Graph, str, "os.PathLike[str]"]


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters whose name matches `pattern` ('*', '?'): a factor of the learning rate (0: frozen), and a weight decay
    of their own (None: the options')."""

    pattern: str
    rate: float = 1
    weight_decay: float | None = None


@dataclass
class TrainOptions:
    """What braid_train_options has; None is the library's default. Names are those of the command: optimizer "sgd",
    "adam", "adamw", "wage"; schedule "constant", "step", "cosine", "one-cycle", "plateau", "linear"; loss "cross-entropy",
    "squared-error", "binary-cross-entropy", "absolute-error", "huber", "output-loss", "squared-hinge" (None: what is
    usual for the targets); precision "float32", "int8", "tf32", "bfloat16", "float16"; monitor "loss", "accuracy". docs/training.md explains each."""

    batch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seed: int | None = None
    optimizer: str | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    nesterov: bool | None = None
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    no_bias_decay: bool | None = None
    groups: Sequence[ParameterGroup] = ()
    schedule: str | None = None
    warmup_steps: int | None = None
    step_epochs: int | None = None
    step_gamma: float | None = None
    plateau_epochs: int | None = None
    loss: str | None = None
    loss_output: str | None = None
    label_smoothing: float | None = None
    class_weights: Sequence[float] | None = None
    positive_weights: Sequence[float] | None = None
    balance_classes: bool | None = None
    huber_delta: float | None = None
    mixup: float | None = None
    label_noise: float | None = None
    accumulate: int | None = None
    clip_value: float | None = None
    clip_norm: float | None = None
    average_decay: float | None = None
    lookahead_steps: int | None = None
    lookahead_share: float | None = None
    lookahead_end: float | None = None
    monitor: str | None = None
    patience: int | None = None
    keep_best: bool | None = None
    out_directory: str | os.PathLike[str] | None = None
    resume: bool | None = None
    checkpoint_steps: int | None = None
    keep_checkpoints: int | None = None
    log_steps: int | None = None
    trace: str | os.PathLike[str] | None = None
    precision: str | None = None
    weight_bits: int | None = None
    activation_bits: int | None = None
    error_bits: int | None = None
    gradient_bits: int | None = None
    draw_weights: bool | None = None
    ledger: str | os.PathLike[str] | None = None
    ledger_model: str | None = None
    device: str = "cpu"
    threads: int = 0
    place: str | None = None

    def _fill(self, keep: Keep, registry: Handle, target: str) -> Any:
        """The library's struct."""
        options = _abi.braid_train_options()
        lib.braid_train_options_init(ctypes.byref(options))
        options.loss = lib.braid_loss_of(enum_value("braid_target_kind", "BRAID_TARGET_", target, "target"))
        options.devices, options.place = keep.text(self.device), keep.text(self.place)
        options.threads = self.threads
        options.registry = registry.pointer
        for name, value in self._given().items():
            self._set(options, keep, name, value)
        keep.append(options)
        return options

    def _given(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items()
                if value is not None and name not in ("device", "place", "threads")}

    @staticmethod
    def _set(options: Any, keep: Keep, name: str, value: Any) -> None:
        enum = _ENUMS.get(name)
        if enum is not None:
            setattr(options, name, enum_value(enum[0], enum[1], str(value), name))
        elif name in ("out_directory", "trace", "ledger", "ledger_model", "loss_output"):
            setattr(options, name, keep.text(value))
        elif name in ("class_weights", "positive_weights"):
            setattr(options, name, keep.doubles(value))
            setattr(options, name[:-1] + "_count", len(value))
        elif name == "groups":
            groups = (_abi.braid_parameter_group * max(1, len(value)))()
            for group, given in zip(groups, value):
                group.pattern, group.rate = keep.text(given.pattern), given.rate
                group.weight_decay = math.nan if given.weight_decay is None else given.weight_decay
            keep.append(groups)
            options.groups, options.group_count = groups, len(value)
        else:
            setattr(options, name, value)


_ENUMS = {"optimizer": ("braid_optimizer", "BRAID_"), "schedule": ("braid_schedule", "BRAID_"),
          "loss": ("braid_loss", "BRAID_"), "precision": ("braid_precision", "BRAID_"),
          "monitor": ("braid_monitor", "BRAID_MONITOR_")}
_SHORT = {"lr": "learning_rate", "batch_size": "batch", "out": "out_directory"}


def make_options(options: TrainOptions | None, changes: Mapping[str, Any]) -> TrainOptions:
    """Options with some changed, which may have the names that others use: lr, batch_size, out."""
    named = {_SHORT.get(name, name): value for name, value in changes.items()}
    known = [field.name for field in dataclasses.fields(TrainOptions)]
    for name in named:
        if name not in known:
            raise InvalidArgumentError(f"training has no option {name!r}; it has {', '.join(known)}")
    return dataclasses.replace(options or TrainOptions(), **named)


def as_dataset(data: Data, split: str) -> Dataset:
    """A data set, its description, or a pair of arrays."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str):
        return Dataset(data, split)
    if isinstance(data, tuple) and len(data) == 2:
        return Dataset.from_arrays(*data)
    raise InvalidArgumentError(f"data are {type(data).__name__}, expected a Dataset, its description, or a pair of "
                               "arrays")


def as_graph(model: ModelSource) -> Graph:
    return model if isinstance(model, Graph) else load_graph(model)


# --- results ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Progress:
    """How far a training is. None: not known, or not measured yet. `epoch` counts from 1; `test` is there when an epoch
    is done and there is a test set."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    accuracy: float
    learning_rate: float
    images_per_second: float
    seconds_left: float
    epoch_done: bool
    test_loss: float | None
    test_accuracy: float | None
    best_epoch: int
    ends_early: bool
    tested: int
    to_test: int
    test: TestResult | None
    seconds: float


@dataclass(frozen=True)
class ClassResult:
    """Of one class against all others; None: there is no such number."""

    samples: int
    guessed: int
    right: int
    precision: float
    recall: float
    f1: float
    auc: float | None
    average_precision: float | None
    unscored: int


@dataclass(frozen=True)
class NumberResult:
    """Of one of the numbers that are predicted."""

    squared_error: float
    absolute_error: float
    r2: float


@dataclass(frozen=True)
class TestResult:
    """What an evaluation measured; None where the targets have no such number. `confusion`: row true, column predicted.
    `worst`: (index, predicted, true, loss) of samples that are not right, the highest loss first."""

    __test__ = False  # pytest: no test

    samples: int
    classes: int
    target: str
    loss: float
    accuracy: float | None
    top5: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    auc: float | None
    average_precision: float | None
    exact_match: float | None
    mse: float | None
    mae: float | None
    r2: float | None
    per_class: tuple[ClassResult, ...]
    per_number: tuple[NumberResult, ...]
    confusion: Array | None
    ranks: Array | None
    worst: tuple[tuple[int, int, int, float], ...]
    unscored: int

    def top(self, k: int) -> float | None:
        """The share of samples whose class is among those with the k highest scores."""
        if self.ranks is None or self.samples == 0:
            return None
        return float(self.ranks[:k].sum() / self.samples)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _test_result(result: Any) -> TestResult:
    target = {0: "class", 1: "labels", 2: "numbers"}[result.target]
    classes = result.classes
    per_class = tuple(
        ClassResult(one.samples, one.guessed, one.right, one.precision, one.recall, one.f1, _number(one.auc),
                    _number(one.average_precision), one.unscored)
        for one in (result.per_class[index] for index in range(classes))) if result.per_class else ()
    numbers = tuple(
        NumberResult(one.squared_error, one.absolute_error, one.r2)
        for one in (result.per_number[index] for index in range(classes))) if result.per_number else ()
    confusion = np.array(result.confusion[:classes * classes], np.int64).reshape(classes, classes) \
        if result.confusion else None
    ranks = np.array(result.ranks[:classes], np.int64) if result.ranks else None
    worst = tuple((result.worst_index[index], result.worst_guess[index], result.worst_label[index],
                   result.worst_loss[index]) for index in range(result.worst_count))
    return TestResult(result.samples, classes, target, result.loss, _number(result.accuracy), _number(result.top5),
                      _number(result.precision), _number(result.recall), _number(result.f1), _number(result.auc),
                      _number(result.average_precision), _number(result.exact_match), _number(result.mse),
                      _number(result.mae), _number(result.r2), per_class, numbers, confusion, ranks, worst,
                      result.unscored)


def _progress(now: Any) -> Progress:
    return Progress(now.epoch, now.epochs, now.step, now.steps, now.loss, now.accuracy, now.learning_rate,
                    now.images_per_second, now.seconds_left, now.epoch_done, _number(now.test_loss),
                    _number(now.test_accuracy), now.best_epoch, now.ends_early, now.tested, now.to_test,
                    _test_result(now.test.contents) if now.test else None, now.seconds)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------
class Interrupt:
    """Whether Ctrl-C was pressed since. Python would raise KeyboardInterrupt at any place of a callback, where it
    cannot pass through C; so it is noted, the work ends cleanly, and then it is raised. A second one takes the usual
    way."""

    def __init__(self) -> None:
        self.pressed = False

    def raise_if_pressed(self) -> None:
        if self.pressed:
            raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupt]:
    """In the main thread, unless the program handles the signal itself."""
    interrupt = Interrupt()
    if not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return

    def note(number: int, frame: Any) -> None:
        if interrupt.pressed:
            signal.default_int_handler(number, frame)
        interrupt.pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.raise_if_pressed()  # after the last step, too


def _goes_on(answer: Any) -> bool:
    """A callback stops by False; one without an answer goes on."""
    return answer is None or bool(answer)


# --- the trainer ------------------------------------------------------------------------------------------------------
Callback = Callable[[Progress], Any]


class Trainer(Exclusive):
    """Trains a model: a forward graph with the samples as its input and the scores as its first output.

    After `run`, `graph()` is the model with its parameters, and `history` has the Progress of each epoch. Options are
    those of TrainOptions, as an object or by name (also lr, batch_size, out)."""

    def __init__(self, model: ModelSource, train: Data, test: Data | None = None, options: TrainOptions | None = None,
                 *, registry: Registry | None = None, **changes: Any) -> None:
        self.options = make_options(options, changes)
        self._train = as_dataset(train, "train")
        self._test = None if test is None else as_dataset(test, "test")
        graph = as_graph(model)
        below = (default_registry() if registry is None else registry)._held()
        keep, pointer = Keep(), out()
        filled = self.options._fill(keep, below, self._train.info.target)
        handles = [self._train._held()] + ([self._test._held()] if self._test is not None else [])
        process.threads = True
        with graph._use() as forward:
            status = ready().braid_trainer_create(forward, handles[0].pointer,
                                                  handles[1].pointer if len(handles) > 1 else None,
                                                  ctypes.byref(filled), ctypes.byref(pointer))
            if status:
                self._reraise()
                check(status)
            graph_keeps = graph._held().keeps
        self._own(Handle(pointer.value, lib.braid_trainer_destroy, handles, below, graph_keeps))
        self._graph_keeps = graph_keeps  # the model needs these, and not the data
        self.resumed = bool(lib.braid_trainer_resumed(pointer))  # whether it goes on from a checkpoint
        self.history: list[Progress] = []
        self.stopped = False
        close_at_exit(self)

    def _reraise(self) -> None:
        self._train._reraise()
        if self._test is not None:
            self._test._reraise()

    def run(self, on_step: Callback | None = None, on_epoch: Callback | None = None) -> Trainer:
        """Trains to the end of the last epoch, or until a callback returns False (`stopped` is then set): on_step is
        called after every step and during evaluation, on_epoch after every epoch. Ctrl-C, and an exception of a
        callback, end it as cleanly: with an output directory a checkpoint is written, and then it is raised."""
        guard = Guard()
        with self._alone() as handle, interruptible() as interrupt:
            def step(address: int) -> bool:
                now = _abi.braid_train_progress.from_address(address)
                progress = _progress(now) if on_step is not None or now.epoch_done else None
                goes_on = True
                if progress is not None and now.epoch_done:
                    self.history.append(progress)
                    goes_on = on_epoch is None or _goes_on(on_epoch(progress))
                elif progress is not None and on_step is not None:
                    goes_on = _goes_on(on_step(progress))
                if not goes_on:
                    self.stopped = True
                if process.ending:  # the interpreter waits for a training of a thread that is a daemon
                    self.stopped, goes_on = True, False
                return goes_on and not interrupt.pressed

            callback = _abi.braid_train_callback(lambda _context, address: guard.call(step, False, address))
            self.stopped = False
            status = lib.braid_trainer_run(handle.pointer, callback, None)
        interrupt.raise_if_pressed()
        guard.reraise()
        if status and not (status == _abi.BRAID_CANCELLED and self.stopped):
            self._reraise()
            check(status)
        for data in (self._train, self._test):
            if data is not None:
                data._forget()
        return self

    def graph(self) -> Graph:
        """The model with its current parameters."""
        pointer = out()
        with self._alone() as handle:
            check(lib.braid_trainer_model(handle.pointer, ctypes.byref(pointer)))
            return Graph._from(pointer, self._graph_keeps)

    def model(self, device: str = "cpu", **options: Any) -> Model:
        """The same, ready to run (braid.load has the options)."""
        return Model(self.graph(), device, **options)

    def save_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes the model with its current parameters."""
        self.graph().save_onnx(path)

    def parameters(self) -> Graph:
        """A graph whose values are what this training changes (kind "parameter"), running statistics ("state"), and
        constants that stay, with the reason (`fixed`)."""
        pointer = out()
        with self._alone() as handle:
            check(lib.braid_trainer_parameters(handle.pointer, ctypes.byref(pointer)))
            return Graph._from(pointer, self._graph_keeps)


def train(model: ModelSource, data: Data, test: Data | None = None, *, options: TrainOptions | None = None,
          on_step: Callback | None = None, on_epoch: Callback | None = None, registry: Registry | None = None,
          **changes: Any) -> Trainer:
    """Trains a model and returns the trainer, which has what came of it:

        trainer = braid.train("models/glyphs.cfg", "builtin:glyphs", "builtin:glyphs", epochs=5, lr=0.1)
        trainer.save_onnx("glyphs.onnx")

    `data` and `test`: a Dataset, its description (its training and its test part), or a pair of arrays. Options are
    those of TrainOptions."""
    return Trainer(model, data, test, options, registry=registry, **changes).run(on_step, on_epoch)


# --- evaluation -------------------------------------------------------------------------------------------------------
def evaluate(model: ModelSource, data: Data, *, batch: int = 100, device: str = "cpu", threads: int = 0,
             machine: Machine | None = None, loss_output: str | None = None,
             progress: Callable[[int, int], Any] | None = None) -> TestResult:
    """Evaluates a forward graph on a data set (the test part of a description). `loss_output`: the name of an output
    that is the loss; the result then has nothing else. `progress(done, total)` stops by returning False
    (CancelledError)."""
    graph, dataset = as_graph(model), as_dataset(data, "test")
    keep, guard, result = Keep(), Guard(), _abi.braid_test_result()
    options, held = session_options(keep, device, threads, machine), dataset._held()
    with graph._use() as pointer, interruptible() as interrupt:
        callback = _abi.braid_test_callback(lambda _context, done, total: guard.call(
            lambda: (progress is None or _goes_on(progress(done, total))) and not interrupt.pressed, False))
        try:
            if loss_output is None:
                status = ready().braid_test(pointer, held.pointer, batch, ctypes.byref(options), callback, None,
                                            ctypes.byref(result))
            else:
                status = ready().braid_test_loss(pointer, encode(loss_output), held.pointer, batch,
                                                 ctypes.byref(options), callback, None, ctypes.byref(result))
            if status:
                interrupt.raise_if_pressed()
                guard.reraise()
                dataset._reraise()
                check(status)
            return _test_result(result)
        finally:
            lib.braid_test_result_deinit(ctypes.byref(result))


# --- what changes models before training ------------------------------------------------------------------------------
def replace_head(model: ModelSource, data: Dataset, seed: int = 0) -> Graph:
    """A copy that gives one score for each of the data set's classes: another last layer, for fine-tuning."""
    graph, held, pointer = as_graph(model), data._held(), out()
    with graph._use() as forward:
        check(ready().braid_replace_head(forward, held.pointer, seed, ctypes.byref(pointer)))
        return Graph._from(pointer, graph._held().keeps)


def standardize_input(model: ModelSource, data: Dataset) -> Graph:
    """A copy that takes each number of a sample less its mean over the data set, divided by its deviation."""
    graph, held, pointer = as_graph(model), data._held(), out()
    with graph._use() as forward:
        status = ready().braid_standardize_input(forward, held.pointer, ctypes.byref(pointer))
        data._check(status)
        return Graph._from(pointer, graph._held().keeps)


def whiten_filters(model: ModelSource, data: Dataset) -> Graph:
    """A copy whose first convolution has filters that whiten patches of the data set's samples."""
    graph, held, pointer = as_graph(model), data._held(), out()
    with graph._use() as forward:
        status = ready().braid_whiten_filters(forward, held.pointer, ctypes.byref(pointer))
        data._check(status)
        return Graph._from(pointer, graph._held().keeps)


def trainable_copy(model: ModelSource, options: TrainOptions | None = None) -> Graph:
    """A copy whose parameters are trainable, as the trainer makes it."""
    graph, pointer, keep = as_graph(model), out(), Keep()
    with graph._use() as forward:
        if options is None:
            check(ready().braid_trainable_copy(forward, ctypes.byref(pointer)))
        else:
            filled = options._fill(keep, default_registry()._held(), "class")
            check(ready().braid_trainable_copy_for(forward, ctypes.byref(filled), ctypes.byref(pointer)))
        return Graph._from(pointer, graph._held().keeps)


# --- which learning rate ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RatePoint:
    """A step of the search."""

    rate: float
    loss: float
    smoothed: float


@dataclass(frozen=True)
class RateSearch:
    """Which learning rate: `suggested` is where the loss falls most steeply, None if there is no such place."""

    points: tuple[RatePoint, ...]
    suggested: float | None
    lowest: float
    diverged: bool


def find_rate(model: ModelSource, data: Data, options: TrainOptions | None = None, *, least: float = 1e-7,
              most: float = 10, steps: int = 100, directory: str | os.PathLike[str] | None = None,
              progress: Callable[[int, int, RatePoint], Any] | None = None, **changes: Any) -> RateSearch:
    """Trains at growing learning rates until the loss diverges; the model does not change. `directory`: a folder for a
    table and a plot."""
    graph, dataset, keep, guard = as_graph(model), as_dataset(data, "train"), Keep(), Guard()
    filled = make_options(options, changes)._fill(keep, default_registry()._held(), dataset.info.target)
    rates, search, held = _abi.braid_rate_options(least, most, steps), _abi.braid_rate_search(), dataset._held()

    def tell(done: int, total: int, address: int) -> bool:
        one = _abi.braid_rate_point.from_address(address)
        return progress is None or _goes_on(progress(done, total, RatePoint(one.rate, one.loss, one.smoothed)))

    process.threads = True
    with graph._use() as pointer, interruptible() as interrupt:
        callback = _abi.braid_rate_callback(lambda _context, done, total, point: guard.call(
            lambda: tell(done, total, point) and not interrupt.pressed, False))
        status = ready().braid_find_rate(pointer, held.pointer, ctypes.byref(filled), ctypes.byref(rates),
                                         callback, None, ctypes.byref(search))
        if status:
            interrupt.raise_if_pressed()
            guard.reraise()
            dataset._reraise()
            check(status)
    try:
        if directory is not None:
            check(lib.braid_rate_search_save(ctypes.byref(search), encode(directory)))
        points = tuple(RatePoint(one.rate, one.loss, one.smoothed) for one in search.points[:search.count])
        return RateSearch(points, _number(search.suggested), search.lowest, search.diverged)
    finally:
        lib.braid_rate_search_deinit(ctypes.byref(search))


