"""The daemon's gRPC front end, and kserve's client as it is; what it has no call for by kserve's messages.

usage: grpc_kserve.py PORT, of a daemon with the models of src/serve/grpc/grpc_test.c
"""
import asyncio
import logging
import sys

import grpc
import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

ADDRESS = f"127.0.0.1:{sys.argv[1]}"
logging.disable(logging.CRITICAL)  # it logs each call that fails
CHIEF = (("authorization", "Bearer secret"),)
ROWS = np.random.default_rng(1).random((4, 1, 28, 28), dtype=np.float32)


def request(rows, binary):
    given = InferInput("input", list(rows.shape), "FP32")
    given.set_data_from_numpy(rows, binary_data=binary)
    return InferRequest("any", [given], request_id="a name")


async def main():
    async with InferenceGRPCClient(ADDRESS) as client:
        assert await client.is_server_live() and await client.is_server_ready()
        assert await client.is_model_ready("lenet") and not await client.is_model_ready("nothing")
        raw = await client.infer(request(ROWS, True))
        typed = await client.infer(request(ROWS, False))
        assert raw.id == "a name" and raw.model_name == "any" and raw.outputs[0].shape == [4, 10]
        assert np.array_equal(raw.outputs[0].as_numpy(), typed.outputs[0].as_numpy())
        try:
            await client.infer(request(ROWS[:, :, 1:], True))
            raise AssertionError("another shape")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "shape" in error.details()
    with grpc.insecure_channel(ADDRESS) as channel:
        for verb, done in ("Load", "isLoaded"), ("Unload", "isUnloaded"):
            call = channel.unary_unary(
                f"/inference.GRPCInferenceService/RepositoryModel{verb}",
                request_serializer=getattr(messages, f"RepositoryModel{verb}Request").SerializeToString,
                response_deserializer=getattr(messages, f"RepositoryModel{verb}Response").FromString)
            asked = getattr(messages, f"RepositoryModel{verb}Request")(model_name="later")
            answer = call(asked, metadata=CHIEF)
            assert answer.model_name == "later" and getattr(answer, done)
    print("kserve's client: good")


asyncio.run(main())
