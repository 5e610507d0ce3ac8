"""The networks of the comparison as PyTorch modules. As a program, `nets.py NAME BATCH FILE` writes one as ONNX (random
weights: speed does not depend on them; batch 0 is left open)."""
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


class Recurrent(nn.Module):
    """Two layers of `width`, or one in both directions, over 100 steps; scores of the last."""
    def __init__(self, kind, width, **options):
        super().__init__()
        self.rnn = kind(width, width, batch_first=True, **options)
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), 10)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Transformer(nn.Module):
    """Four layers of 256 over 128 places, as BERT's; `causal`: as GPT's."""
    def __init__(self, causal):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True, norm_first=causal)
        self.layers, self.causal = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), causal

    def forward(self, x):
        mask = torch.full((128, 128), float("-inf")).triu(1) if self.causal else None
        return self.layers(x, mask=mask).mean(1)


class Pixels(nn.Module):
    """Scores of every pixel."""
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def make(name):
    """The network, and the shape of a sample."""
    import torchvision.models as models
    made = {
        "mobilenet_v1": lambda: (mobilenet_v1(), (3, 224, 224)),
        "fcn_resnet50": lambda: (Pixels(models.segmentation.fcn_resnet50(weights=None, weights_backbone=None)),
                                 (3, 224, 224)),
        "lstm_512": lambda: (Recurrent(nn.LSTM, 512, num_layers=2), (100, 512)),
        "gru_512": lambda: (Recurrent(nn.GRU, 512, num_layers=2), (100, 512)),
        "lstm_256_both_ways": lambda: (Recurrent(nn.LSTM, 256, bidirectional=True), (100, 256)),
        "bert_like": lambda: (Transformer(False), (128, 256)),
        "gpt_like": lambda: (Transformer(True), (128, 256)),
    }
    return made[name]() if name in made else (getattr(models, name)(weights=None), (3, 224, 224))


def write_onnx(name, batch, path):
    """batch 0: left open."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # which has no form in ONNX
    model, shape = make(name)
    torch.onnx.export(model.eval(), (torch.randn(batch or 2, *shape),), path + ".part", opset_version=17, dynamo=False,
                      input_names=["x"], output_names=["y"],
                      dynamic_axes=None if batch else {"x": {0: "batch"}, "y": {0: "batch"}})
    os.rename(path + ".part", path)


if __name__ == "__main__":
    write_onnx(sys.argv[1], int(sys.argv[2]), sys.argv[3])
