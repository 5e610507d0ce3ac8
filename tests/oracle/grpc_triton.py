"""The daemon's gRPC front end, and NVIDIA's tritonclient as it is.

usage: grpc_triton.py PORT, of a daemon with the models of src/serve/grpc/grpc_test.c
"""
import os
import queue
import sys
import threading
import time

import grpc
import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, shared_memory

ADDRESS = f"127.0.0.1:{sys.argv[1]}"
CHIEF = {"authorization": "Bearer secret"}
ROWS = np.random.default_rng(1).random((4, 1, 28, 28), dtype=np.float32)


def tensor(rows):
    made = triton.InferInput("input", rows.shape, "FP32")
    made.set_data_from_numpy(rows)
    return [made]


def refused(code, call, *arguments, **named):
    """The sentence of a call that must be refused with this code."""
    try:
        call(*arguments, **named)
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{code}", f"{error.status()}, not {code}: {error.message()}"
        assert error.message()
        return error.message()
    raise AssertionError(f"{call} was not refused with {code}")


def test_server(client):
    assert client.is_server_live() and client.is_server_ready()
    about = client.get_server_metadata()
    assert about.name == "braid" and about.version and "system_shared_memory" in about.extensions


def test_models(client):
    assert client.is_model_ready("lenet") and client.is_model_ready("lenet", "1")
    assert not client.is_model_ready("lenet", "2") and not client.is_model_ready("nothing")
    about = client.get_model_metadata("lenet")
    assert [(p.name, p.datatype, list(p.shape)) for p in about.inputs] == [("input", "FP32", [-1, 1, 28, 28])]
    assert list(about.versions) == ["1"] and [p.name for p in about.outputs] == ["output"]
    config = client.get_model_config("any").config
    assert config.max_batch_size == 6 and list(config.input[0].dims) == [1, 28, 28] and config.backend == "braid"
    assert config.input[0].data_type == 11 and config.instance_group[0].count == 1  # TYPE_FP32
    refused("NOT_FOUND", client.get_model_metadata, "nothing", headers=CHIEF)
    refused("PERMISSION_DENIED", client.get_model_metadata, "later")


def test_infer(client):
    whole = [client.infer("lenet", tensor(ROWS[i : i + 1])).as_numpy("output") for i in range(4)]
    together = client.infer("any", tensor(ROWS), request_id="a name")
    assert np.allclose(together.as_numpy("output"), np.concatenate(whole), atol=1e-5)
    assert together.get_response().id == "a name" and together.get_response().model_version == "1"
    for algorithm in "gzip", "deflate":
        packed = client.infer("lenet", tensor(ROWS[:1]), compression_algorithm=algorithm)
        assert np.array_equal(packed.as_numpy("output"), whole[0])
    asked = client.infer("lenet", tensor(ROWS[:1]), outputs=[triton.InferRequestedOutput("output")], priority=9,
                         timeout=30_000_000, client_timeout=30, parameters={"explain": True})
    assert np.array_equal(asked.as_numpy("output"), whole[0])
    assert asked.get_response().parameters["decision"].string_param


def test_refusals(client):
    one = tensor(ROWS[:1])
    refused("UNAUTHENTICATED", client.infer, "lenet", one, headers={"authorization": "Bearer wrong"})
    refused("UNAUTHENTICATED", client.infer, "lenet", one, headers={"authorization": "Basic c2VjcmV0"})
    refused("PERMISSION_DENIED", client.infer, "later", one)
    refused("NOT_FOUND", client.infer, "nothing", one, headers=CHIEF)
    refused("NOT_FOUND", client.infer, "lenet", one, model_version="7")
    refused("INVALID_ARGUMENT", client.infer, "lenet", tensor(ROWS[:1, :, :27]))
    refused("INVALID_ARGUMENT", client.infer, "lenet", [])
    refused("INVALID_ARGUMENT", client.infer, "lenet", one + one)
    refused("INVALID_ARGUMENT", client.infer, "lenet", one, outputs=[triton.InferRequestedOutput("nothing")])
    refused("INVALID_ARGUMENT", client.infer, "lenet", one, outputs=[triton.InferRequestedOutput("output", 3)])
    refused("INVALID_ARGUMENT", client.infer, "lenet", one, sequence_id=1)
    refused("INVALID_ARGUMENT", client.infer, "lenet", one, priority=10)
    refused("RESOURCE_EXHAUSTED", client.infer, "lenet", tensor(np.zeros((600, 1, 28, 28), np.float32)))
    said = refused("RESOURCE_EXHAUSTED", client.infer, "lenet", tensor(np.zeros((600, 1, 28, 28), np.float32)),
                   compression_algorithm="gzip")
    assert "compressed" in said, said
    for call in client.get_trace_settings, client.get_log_settings:
        refused("UNIMPLEMENTED", call)
    refused("UNIMPLEMENTED", client.register_cuda_shared_memory, "card", b"AAAA", 0, 64)
    assert not client.get_cuda_shared_memory_status().regions
    client.unregister_cuda_shared_memory()


def test_deadlines(client):
    one = tensor(ROWS[:1])
    try:
        client.infer("patient", one, timeout=1)
        raise AssertionError("a microsecond was enough")
    except InferenceServerException as error:
        assert error.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"), error
    began = time.time()
    try:  # run in time, or refused in time: it does not wait for others as long as it could without a deadline
        client.infer("patient", one, client_timeout=0.5)
    except InferenceServerException as error:
        assert error.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"), error
    assert time.time() - began < 1


def test_cancel(client):
    def ended():
        counts = client.get_inference_statistics("patient").model_stats[0].inference_stats
        return counts.success.count, counts.fail.count

    before, heard = ended(), queue.Queue()
    call = client.async_infer("patient", tensor(ROWS[:1]), lambda result, error: heard.put(error))
    time.sleep(0.3)
    call.cancel()
    assert "CANCELLED" in str(heard.get(timeout=10).status())
    for _ in range(100):
        if ended() != before:
            break
        time.sleep(0.1)
    assert ended()[0] == before[0], "a cancelled request was run"


def test_stream(client):
    heard = queue.Queue()
    client.start_stream(lambda result, error: heard.put((result, error)))
    alone = client.infer("lenet", tensor(ROWS[:1])).as_numpy("output")
    for i in range(300):  # more than the daemon takes at a time
        client.async_stream_infer("lenet" if i % 3 else "nothing", tensor(ROWS[:1]), request_id=str(i),
                                  enable_empty_final_response=True)
    seen = set()
    for _ in range(300):
        result, error = heard.get(timeout=60)
        if error:
            assert "nothing" in error.message(), error
            continue
        response = result.get_response()
        assert np.array_equal(result.as_numpy("output"), alone)
        assert response.parameters["triton_final_response"].bool_param
        seen.add(int(response.id))
    client.stop_stream()
    assert seen == {i for i in range(300) if i % 3} and heard.empty()


def test_memory(client):
    bytes_in, bytes_out, key = ROWS.nbytes, 4 * 10 * 4, f"/braid-test-{os.getpid()}"
    region = shared_memory.create_shared_memory_region("all", key, bytes_in + bytes_out)
    try:
        shared_memory.set_shared_memory_region(region, [ROWS])
        refused("PERMISSION_DENIED", client.register_system_shared_memory, "all", key, bytes_in + bytes_out)
        client.register_system_shared_memory("all", key, bytes_in + bytes_out, headers=CHIEF)
        regions = client.get_system_shared_memory_status(headers=CHIEF).regions
        assert regions["all"].key == key and regions["all"].byte_size == bytes_in + bytes_out
        assert not client.get_system_shared_memory_status().regions, "another tenant's"
        given = triton.InferInput("input", ROWS.shape, "FP32")
        given.set_shared_memory("all", bytes_in)
        wanted = triton.InferRequestedOutput("output")
        wanted.set_shared_memory("all", bytes_out, bytes_in)
        result = client.infer("any", [given], outputs=[wanted], headers=CHIEF)
        said = result.get_output("output").parameters
        assert said["shared_memory_region"].string_param == "all"
        assert said["shared_memory_byte_size"].int64_param == bytes_out
        got = shared_memory.get_contents_as_numpy(region, np.float32, [4, 10], offset=bytes_in)
        assert np.array_equal(got, client.infer("any", tensor(ROWS)).as_numpy("output"))
        wanted.set_shared_memory("all", bytes_out - 4, bytes_in)
        refused("INVALID_ARGUMENT", client.infer, "any", [given], outputs=[wanted], headers=CHIEF)
        wanted.set_shared_memory("all", bytes_out, bytes_in + 4)
        refused("INVALID_ARGUMENT", client.infer, "any", [given], outputs=[wanted], headers=CHIEF)
        refused("NOT_FOUND", client.infer, "any", [given])
        client.unregister_system_shared_memory("all", headers=CHIEF)
        refused("NOT_FOUND", client.get_system_shared_memory_status, "all", headers=CHIEF)
    finally:
        shared_memory.destroy_shared_memory_region(region)


def test_repository(client):
    index = {m.name: m.state for m in client.get_model_repository_index(headers=CHIEF).models}
    assert index["lenet"] == "READY" and index["later"] == "UNAVAILABLE", index
    assert "later" not in {m.name for m in client.get_model_repository_index().models}, "another tenant's"
    refused("PERMISSION_DENIED", client.load_model, "later")
    refused("NOT_FOUND", client.load_model, "nothing", headers=CHIEF)
    refused("INVALID_ARGUMENT", client.load_model, "later", config="{}", headers=CHIEF)
    client.load_model("later", headers=CHIEF)
    assert client.is_model_ready("later", headers=CHIEF)
    assert client.infer("later", tensor(ROWS[:1]), headers=CHIEF).as_numpy("output").shape == (1, 10)
    client.unload_model("later", headers=CHIEF)
    refused("UNAVAILABLE", client.infer, "later", tensor(ROWS[:1]), headers=CHIEF)
    counts = client.get_inference_statistics("later", headers=CHIEF).model_stats[0]
    assert counts.inference_count == 1 and counts.inference_stats.compute_infer.ns > 0
    assert len(client.get_inference_statistics().model_stats) > 1


def test_many(client):
    """Many threads at once, each with its own bits."""
    alone = [client.infer("lenet", tensor(ROWS[i : i + 1])).as_numpy("output") for i in range(4)]
    wrong = []

    def ask(i):
        own = triton.InferenceServerClient(ADDRESS)
        for _ in range(50):
            if not np.array_equal(own.infer("lenet", tensor(ROWS[i : i + 1])).as_numpy("output"), alone[i]):
                wrong.append(i)

    threads = [threading.Thread(target=ask, args=(i % 4,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_contents(_):
    """Values in InferTensorContents, and bytes that are no message."""
    with grpc.insecure_channel(ADDRESS) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        asked = service_pb2.ModelInferRequest(model_name="lenet")
        given = asked.inputs.add(name="input", datatype="FP32", shape=[1, 1, 28, 28])
        given.contents.fp32_contents.extend(ROWS[0].reshape(-1).tolist())
        raw = stub.ModelInfer(asked).raw_output_contents[0]
        client = triton.InferenceServerClient(ADDRESS)
        assert raw == client.infer("lenet", tensor(ROWS[:1])).as_numpy("output").tobytes()

        def code(request):
            try:
                stub.ModelInfer(request)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

        given.contents.fp32_contents.append(1)
        assert code(asked) == "INVALID_ARGUMENT"
        del given.contents.fp32_contents[700:]
        assert code(asked) == "INVALID_ARGUMENT"
        given.contents.ClearField("fp32_contents")
        given.contents.int_contents.append(1)
        assert code(asked) == "INVALID_ARGUMENT"
        given.ClearField("contents")
        asked.raw_input_contents.append(bytes(28 * 28 * 4 - 1))
        assert code(asked) == "INVALID_ARGUMENT"
        asked.raw_input_contents[0] = bytes(28 * 28 * 4)
        assert code(asked) == "OK"
        asked.raw_input_contents.append(b"")
        assert code(asked) == "INVALID_ARGUMENT"
        for method in "ModelInfer", "ModelMetadata", "RepositoryIndex", "SystemSharedMemoryRegister":
            broken = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            for message in b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 100, b"\x2a\x00" * 20000:
                try:
                    broken(message)
                    assert method == "RepositoryIndex" and message[0] == 0x2A  # an unknown field, skipped
                except grpc.RpcError as error:
                    assert error.code().name in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED"), error
        try:
            channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"")
            raise AssertionError("a method that is not there")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED


def test_health(_):
    """grpc.health.v1, its messages written by hand: field 1 of both."""
    with grpc.insecure_channel(ADDRESS) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"
        assert check(b"\x0a\x1e" + b"inference.GRPCInferenceService") == b"\x08\x01"
        try:
            check(b"\x0a\x01x")
            raise AssertionError("a service that is not there")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert next(watch) == b"\x08\x01"
        watch.cancel()
        assert next(channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x01x")) == b"\x08\x03"


def main():
    tests = [item for name, item in globals().items() if name.startswith("test_")]
    for test in tests:
        client = triton.InferenceServerClient(ADDRESS)
        began = time.time()
        test(client)
        client.close()
        print(f"{test.__name__}: good, {time.time() - began:.2f} s", flush=True)


if __name__ == "__main__":
    main()
