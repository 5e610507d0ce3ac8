"""The networks of the comparison as PyTorch modules. As a program, `nets.py NAME BATCH FILE` writes one as ONNX (random
weights: speed does not depend on them)."""
import os
import sys

import torch
import torch.nn as nn


def vgg_tile():
    """The VGG-like CIFAR network of seed 001, Table 2 (models/vgg-tile.cfg)."""
    def conv(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.ReLU()]
    layers = conv(3, 128) + conv(128, 128) + [nn.MaxPool2d(2)] + conv(128, 256) + conv(256, 256) + [nn.MaxPool2d(2)]
    layers += conv(256, 512) + conv(512, 512) + [nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8192, 1024), nn.ReLU(), nn.Linear(1024, 10))


def mobilenet_v1():
    def pair(i, o, s):
        return [nn.Conv2d(i, i, 3, s, 1, groups=i, bias=False), nn.BatchNorm2d(i), nn.ReLU(),
                nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    shape = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    for i, o, s in shape + [(512, 512, 1)] * 5 + [(512, 1024, 2), (1024, 1024, 1)]:
        layers += pair(i, o, s)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


def inference_nets():
    import torchvision
    return {
        "resnet50": lambda: torchvision.models.resnet50(weights=None),
        "mobilenet_v1": mobilenet_v1,
        "mobilenet_v2": lambda: torchvision.models.mobilenet_v2(weights=None),
        "vgg16": lambda: torchvision.models.vgg16(weights=None),
    }


def write_onnx(name, batch, path):
    torch.manual_seed(0)
    model = inference_nets()[name]().eval()
    torch.onnx.export(model, (torch.randn(batch, 3, 224, 224),), path + ".part", opset_version=17, dynamo=False,
                      input_names=["x"], output_names=["y"])
    os.rename(path + ".part", path)


if __name__ == "__main__":
    write_onnx(sys.argv[1], int(sys.argv[2]), sys.argv[3])
