"""`quantized_nets.py NAME FORMAT FILE` writes a network of torchvision with random weights, quantized by ONNX Runtime's
quantizer on random pictures: FORMAT is qdq (per channel) or qlinear (per tensor)."""
import os
import sys
import tempfile

import numpy as np
import onnxruntime.quantization as quantization
import torch
import torchvision
from onnxruntime.quantization.shape_inference import quant_pre_process


class Pictures(quantization.CalibrationDataReader):
    def __init__(self, count=3):
        self.rest, self.random = count, np.random.default_rng(0)

    def get_next(self):
        self.rest -= 1
        return {"x": self.random.standard_normal((1, 3, 224, 224), dtype=np.float32)} if self.rest >= 0 else None


def network(name):
    """Running statistics fit the random weights: else activations die out, or grow without end."""
    torch.manual_seed(0)
    net = getattr(torchvision.models, name)(weights=None).train()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        net(torch.randn(4, 3, 224, 224))
    return net.eval()


def main():
    name, kind, path = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        plain, prepared = os.path.join(folder, "plain.onnx"), os.path.join(folder, "prepared.onnx")
        torch.onnx.export(network(name), torch.randn(1, 3, 224, 224), plain, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, opset_version=17, dynamo=False)
        quant_pre_process(plain, prepared)
        formats = {"qdq": quantization.QuantFormat.QDQ, "qlinear": quantization.QuantFormat.QOperator}
        quantization.quantize_static(prepared, path, Pictures(), quant_format=formats[kind], per_channel=kind == "qdq",
                                     activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)


main()
