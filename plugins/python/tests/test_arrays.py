"""Arrays go in and out by DLPack without copies, and live as long as somebody uses them."""

import gc
import weakref
from typing import Any

import braid
import numpy as np
import pytest
from conftest import relu_graph


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


class Foreign:
    """An array of a library that is not NumPy's: DLPack alone."""

    def __init__(self, array: np.ndarray, versioned: bool = True) -> None:
        self.array, self.versioned = array, versioned
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned:
            if options:
                raise TypeError("an older library")
            return self.array.__dlpack__()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_a_buffer_is_over_the_arrays_memory() -> None:
    array = np.arange(1024, dtype=np.float32).reshape(4, 256)
    buffer = braid.Buffer.of(array)
    assert buffer.host_address == address(array) and buffer.shape == (4, 256) and buffer.dtype == "float32"
    array[0, 0] = 7
    assert buffer.numpy()[0, 0] == 7
    buffer.write(np.zeros((4, 256), np.float32))
    assert (array == 0).all()
    with pytest.raises(braid.InvalidArgumentError, match="not row-major"):
        braid.Buffer.of(array.T)


@pytest.mark.parametrize("versioned", [True, False])
def test_foreign_arrays_are_imported(versioned: bool) -> None:
    array = np.arange(1000, dtype=np.float32)
    buffer = braid.Buffer.of(Foreign(array, versioned))
    assert buffer.host_address == address(array)
    model = braid.load(relu_graph((None,)))
    assert np.array_equal(model(Foreign(array, versioned)), array)
    held = weakref.ref(array)
    del array
    gc.collect()
    assert held() is not None, "the buffer holds it"
    assert buffer.numpy()[999] == 999
    del buffer
    gc.collect()


def test_numpy_takes_a_buffer_and_keeps_it() -> None:
    buffer = braid.Buffer((64, 64))
    buffer.write(np.full((64, 64), 3, np.float32))
    array = np.from_dlpack(buffer)
    assert address(array) == buffer.host_address
    view = np.asarray(buffer)
    assert address(view) == buffer.host_address
    del buffer
    gc.collect()
    assert (array == 3).all() and (view == 3).all()
    array[:] = 4
    assert (view == 4).all()


def test_what_numpy_has_lent_lives_as_long_as_what_it_lends() -> None:
    array = np.ones(4096, np.float32)
    held = weakref.ref(array)
    again = np.from_dlpack(braid.Buffer.of(array))
    assert address(again) == address(array)
    del array
    gc.collect()
    assert held() is not None and (again == 1).all()
    del again
    gc.collect()
    assert held() is None, "and no longer"


def test_capsules_that_nobody_takes_are_freed() -> None:
    array = np.ones(4096, np.float32)
    held = weakref.ref(array)
    for options in ({}, {"max_version": (1, 0)}):
        braid.Buffer.of(array).__dlpack__(**options)
    from braid.buffer import _exported

    del array
    gc.collect()
    assert held() is None and not _exported


def test_read_only_arrays_stay_so() -> None:
    array = np.ones(10, np.float32)
    array.flags.writeable = False
    buffer = braid.Buffer.of(array)
    assert buffer.read_only
    with pytest.raises(braid.InvalidArgumentError, match="read-only"):
        buffer.write(np.zeros(10, np.float32))
    with pytest.raises(BufferError, match="read-only"):
        buffer.__dlpack__()
    assert not np.asarray(buffer).flags.writeable
    plan = braid.Plan(braid.machine(), relu_graph((10,)))
    with pytest.raises(braid.InvalidArgumentError, match="read-only"):
        plan.execution().bind_output(0, buffer)
    with pytest.raises(braid.InvalidArgumentError, match="read-only"):
        plan.execution().run(np.zeros(10, np.float32), out=buffer)


def test_views_of_buffers() -> None:
    buffer = braid.Buffer((4, 16))
    buffer.write(np.arange(64, dtype=np.float32).reshape(4, 16))
    view = buffer.view((16,), offset=64)
    assert view.numpy().tolist() == list(range(16, 32))
    assert buffer.view((256,), "uint8").nbytes == 256
    with pytest.raises(braid.OutOfRangeError):
        buffer.view((65,))


def test_device_memory_is_no_array(tmp_path: Any, tutor: braid.Machine) -> None:
    buffer = braid.Buffer((8,), machine=tutor, device="tutor")
    buffer.write(np.arange(8, dtype=np.float32))
    assert buffer.device == "tutor" and buffer.host_address is None
    assert buffer.numpy().tolist() == list(range(8))
    with pytest.raises(BufferError, match="tutor"):
        np.from_dlpack(buffer)
    with pytest.raises(braid.UnsupportedError, match="memory of tutor"):
        braid.load(relu_graph((8,)))(buffer)
    assert np.array_equal(np.asarray(buffer), buffer.numpy())


def test_torch_tensors_are_used_where_they_are(recording: Any) -> None:
    torch = pytest.importorskip("torch")
    make, seen = recording
    model = braid.load(make(), input_shapes={"x": (None, 4096)})
    x = torch.ones((2, 4096))
    y = model(x)
    assert isinstance(y, torch.Tensor) and seen[-1] == (x.data_ptr(), y.data_ptr()) and bool((y == 1).all())
    out = torch.empty((2, 4096))
    assert model(x, out=out) is out and seen[-1] == (x.data_ptr(), out.data_ptr())
    parameter = torch.nn.Parameter(torch.full((2, 4096), 2.0))
    assert bool((model(parameter) == 2).all()) and seen[-1][0] == parameter.data_ptr()
    assert torch.equal(model(x.t().contiguous().t()), x)
    buffer = braid.Buffer.of(x)
    assert buffer.host_address == x.data_ptr()
    assert torch.from_dlpack(buffer).data_ptr() == x.data_ptr()
    with pytest.raises(braid.UnsupportedError, match="sparse"):
        model(x.to_sparse())
    with pytest.raises(braid.InvalidArgumentError, match="float64"):
        model(x.double())
    with pytest.raises(braid.UnsupportedError, match="meta"):
        model(torch.empty((2, 4096), device="meta"))


def test_torch_computes_the_same() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    graph = braid.Graph("linear")
    y = graph.input("x", "float32", (None, 8))
    for layer in (network[0], network[2]):
        y = graph.add_node("Gemm", [y, graph.constant(layer.weight), graph.constant(layer.bias)], transB=1)
        y = graph.add_node("Relu", y) if layer is network[0] else y
    graph.output(y)
    model = braid.load(graph)
    for batch in (1, 33):
        x = torch.randn(batch, 8)
        assert torch.allclose(model(x), network(x), atol=1e-5)


def test_bfloat16_and_float8() -> None:
    graph = braid.Graph("cast")
    x = graph.input("x", "float32", (None, 4))
    graph.output(graph.add_node("Cast", x, to=16), "half")
    model = braid.load(graph)
    array = np.array([[1, 2.5, -3, 0.1]], np.float32)
    result = model(array)
    try:
        import ml_dtypes
    except ImportError:
        assert isinstance(result, braid.Buffer) and result.dtype == "bfloat16"
        with pytest.raises(braid.UnsupportedError, match="ml_dtypes"):
            result.numpy()
        return
    assert result.dtype == ml_dtypes.bfloat16 and np.array_equal(result, array.astype(ml_dtypes.bfloat16))
    back = braid.Graph("back")
    back.output(back.add_node("Cast", back.input("x", "bfloat16", (None, 4)), to=1))
    assert np.array_equal(braid.load(back)(result), result.astype(np.float32))


def test_bfloat16_to_torch() -> None:
    torch = pytest.importorskip("torch")
    graph = braid.Graph("twice")
    x = graph.input("x", "bfloat16", (None, 4))
    graph.output(graph.add_node("Concat", [x, x], axis=0))
    x = torch.randn(2, 4).bfloat16()
    assert torch.equal(braid.load(graph)(x), torch.cat([x, x]))
    assert braid.Buffer.of(x).dtype == "bfloat16"
    assert torch.from_dlpack(braid.Buffer.of(x)).dtype == torch.bfloat16


def test_single_ops() -> None:
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    assert np.array_equal(braid.op("Relu", x), np.maximum(x, 0))
    assert np.allclose(braid.op("Softmax", x, axis=0).sum(0), 1, atol=1e-6)
    assert braid.op("Reshape", x, [8, -1]).shape == (8, 3)
    assert np.array_equal(braid.op("Transpose", x, perm=[1, 0]), x.T)
    values, indices = braid.op("TopK", x, [2], axis=1, outputs=2)
    assert np.array_equal(values, -np.sort(-x, 1)[:, :2]) and indices.dtype == np.int64
    assert np.allclose(braid.op("Clip", x, -0.5, 0.5), np.clip(x, -0.5, 0.5))
    assert np.array_equal(braid.op("Clip", x, None, 0.5), np.minimum(x, 0.5))
    machine = braid.Machine("cpu")
    before = machine.call_stats()
    for _ in range(5):
        machine.op("Relu", x)
    assert (machine.call_stats().hits, machine.call_stats().misses) == (before.hits + 4, before.misses + 1)
    y = machine.op("Relu", braid.Buffer.of(x, machine=machine))
    assert isinstance(y, braid.Buffer) and np.array_equal(y.numpy(), np.maximum(x, 0))
    with pytest.raises(braid.NotFoundError, match="Relux"):
        braid.op("Relux", x)
    with pytest.raises(braid.InvalidGraphError):
        braid.op("MatMul", x, x)
    with pytest.raises(braid.InvalidGraphError, match="aksis"):
        braid.op("Softmax", x, aksis=0)
    with pytest.raises(braid.InvalidGraphError, match="bool"):
        machine.supports("Relu", ("bool", (3,)))


def test_what_a_device_can_run(tutor: braid.Machine) -> None:
    assert [one.kernel for one in tutor.supports("Relu", ("float32", (3,)), device="tutor")] == ["tutor_relu"]
    with pytest.raises(braid.UnsupportedError, match="tutor"):
        tutor.supports("Softmax", ("float32", (3,)), device="tutor")
    x = braid.Buffer((8,), machine=tutor, device="tutor")
    x.write(np.arange(-4, 4, dtype=np.float32))
    y = tutor.op("Relu", x, device="tutor")
    assert y.device == "tutor" and y.numpy().tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    assert tutor.op("Relu", np.float32([-1, 1]), device="tutor").tolist() == [0, 1]


def test_torch_in_single_ops() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 5)
    assert torch.equal(braid.op("Relu", x), torch.relu(x))
