"""Compares a training step of a small network, computed by Braid, with PyTorch's: its losses and all parameters after it.

usage: networks.py branches|sequence|adversarial|branches-bf16|branches-fp16 FOLDER      exit code 1 when they differ

In 16 bits both are compared with what double precision gives: Braid may be twice as far off as PyTorch's autocast, or as
far as one rounding of every number.

FOLDER has input.N.npy (the step's inputs in their order), loss.N.npy, and before.NAME.npy and after.NAME.npy of every
parameter. The descriptions of the networks stand in src/train/networks_torch_test.c.
"""
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F


def window(p, layer, x, **geometry):
    bias = None if f"{layer}.scale" in p else p[f"{layer}.bias"]
    function = F.conv_transpose2d if "deconvolutional" in layer else F.conv2d
    y = function(x, p[f"{layer}.weight"], bias, **geometry)
    if bias is None:
        y = F.batch_norm(y, None, None, p[f"{layer}.scale"], p[f"{layer}.bias"], training=True, eps=1e-5)
    return y


def linear(p, layer, x):
    return F.linear(x, p[f"{layer}.weight"], p[f"{layer}.bias"])


def branches(p, inputs):
    x = F.leaky_relu(window(p, "0_convolutional", inputs[0], padding=(0, 2)), 0.2)
    x = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
    x = F.relu(window(p, "2_convolutional", x, padding=(1, 0)))
    other = linear(p, "4_connected", F.avg_pool2d(x, 5, 2).flatten(1))
    scores = linear(p, "9_connected", x.mean((2, 3)))
    return [F.cross_entropy(scores, inputs[1]) + 0.4 * F.cross_entropy(other, inputs[1])]


def encoder(p, layer):
    """PyTorch's own transformer layer, with the parameters of a [transformer]."""
    width = p[f"{layer}.query.bias"].numel()
    module = torch.nn.TransformerEncoderLayer(
        width, 2, 12, dropout=0, activation="gelu", layer_norm_eps=1e-12, batch_first=True, dtype=torch.float64)
    joined = {"self_attn.in_proj_" + k: torch.cat([p[f"{layer}.{part}.{k}"] for part in ("query", "key", "value")])
              for k in ("weight", "bias")}
    for theirs, ours in (("self_attn.out_proj", "output"), ("linear1", "hidden"), ("linear2", "result")):
        for k in ("weight", "bias"):
            joined[f"{theirs}.{k}"] = p[f"{layer}.{ours}.{k}"]
    for theirs, ours in (("norm1", "attention"), ("norm2", "perceptron")):
        joined[f"{theirs}.weight"] = p[f"{layer}.{ours}.scale"]
        joined[f"{theirs}.bias"] = p[f"{layer}.{ours}.bias"]
    return lambda x, mask: torch.func.functional_call(module, joined, (x,), {"src_key_padding_mask": mask})


def sequence(p, inputs):
    words, segments = inputs[0].long().unbind(-1)
    x = F.embedding(words, p["0_embedding.weight"]) + F.embedding(segments, p["0_embedding.segments"])
    x = x + p["0_embedding.positions"][: words.shape[1]]
    x = F.layer_norm(x, x.shape[-1:], p["1_layernorm.scale"], p["1_layernorm.bias"], 1e-12)
    for layer in range(2):
        x = encoder(p, f"2_transformer.{layer}")(x, words == 0)
    begin, end = linear(p, "3_connected", x).unbind(-1)
    labels = inputs[1].view(-1, 2)
    return [(F.cross_entropy(begin, labels[:, 0]) + F.cross_entropy(end, labels[:, 1])) / 2]


def adversarial(p, inputs):
    def judge(x):
        x = window(p, "discriminator-0_convolutional", x, stride=2, padding=1)
        return window(p, "discriminator-1_convolutional", F.leaky_relu(x, 0.2)).flatten()

    def check(score, real):
        return F.binary_cross_entropy_with_logits(score, torch.full_like(score, real))

    made = F.relu(window(p, "0_deconvolutional", inputs[0].view(-1, 3, 1, 1)))
    made = torch.tanh(window(p, "1_deconvolutional", made, stride=2, padding=1))
    judging = check(judge(inputs[1]), 1) + check(judge(made.detach()), 0)
    return [judging, check(judge(made), 1)]


# Biases that move all scores of a softmax alike: of a query's keys, or of the places of a sequence.
UNMOVED = ("key.bias", "2_transformer.1.perceptron.bias", "3_connected.bias")


def gradients(kind, p, losses):
    """Each loss is that of its own network."""
    names = list(p)
    if kind != "adversarial":
        return dict(zip(names, torch.autograd.grad(losses[0], [p[n] for n in names]), strict=True))
    found = {}
    for loss, own in ((losses[0], True), (losses[1], False)):
        mine = [n for n in names if n.startswith("discriminator-") == own]
        found.update(zip(mine, torch.autograd.grad(loss, [p[n] for n in mine], retain_graph=True), strict=True))
    return found


def load(folder, kind):
    return {f.name[len(kind) + 1:-4]: torch.from_numpy(numpy.load(f)) for f in sorted(folder.glob(f"{kind}.*.npy"))}


ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def halves(kind, folder):
    network, half = kind.split("-")
    inputs = [x if x.is_floating_point() else x.long() for x in load(folder, "input").values()]
    before = load(folder, "before")
    exact = {n: x.double().requires_grad_() for n, x in before.items()}
    rough = {n: x.clone().requires_grad_() for n, x in before.items()}
    loss = branches(exact, [x.double() if x.is_floating_point() else x for x in inputs])
    with torch.autocast("cpu", TYPES[half]):
        other = branches(rough, inputs)
    wanted, theirs = gradients(network, exact, loss), gradients(network, rough, other)
    problems, rate = [], inputs[2].double()
    got = load(folder, "loss")["0"].double()
    if abs(got - loss[0]) > 2 * abs(other[0] - loss[0]) + ROUNDING[half] * abs(loss[0]):
        problems.append(f"{kind}: the loss is {got.item()}, not {loss[0].item()}; PyTorch has {other[0].item()}")
    for name, after in load(folder, "after").items():
        ours = (before[name].double() - after.double()) / rate
        off, allowed = (ours - wanted[name]).norm(), 2 * (theirs[name].double() - wanted[name]).norm()
        if not off <= allowed + ROUNDING[half] * wanted[name].norm():
            problems.append(f"{kind}: the gradient of {name} is off by {off} of {wanted[name].norm()}, {allowed} may be")
    return problems


def main(kind, folder):
    if "-" in kind:
        return halves(kind, folder)
    inputs = [x.double() if x.is_floating_point() else x.long() for x in load(folder, "input").values()]
    before = {n: x.double().requires_grad_() for n, x in load(folder, "before").items()}
    losses = {"branches": branches, "sequence": sequence, "adversarial": adversarial}[kind](before, inputs)
    slopes = gradients(kind, before, losses)
    problems = []
    for (name, got), loss in zip(load(folder, "loss").items(), losses, strict=True):
        if not torch.allclose(got.double(), loss.detach(), rtol=1e-5, atol=1e-6):
            problems.append(f"{kind}: loss {name} is {got.item()}, PyTorch has {loss.item()}")
    rate = inputs[2]
    for name, got in load(folder, "after").items():
        step = before[name].detach() - got.double()
        wanted = rate * slopes[name]
        if not torch.allclose(step, wanted, rtol=1e-3, atol=2e-6):
            problems.append(f"{kind}: {name} moves by up to {(step - wanted).abs().max()} more than in PyTorch")
        if wanted.abs().max() < 1e-9 and not name.endswith(UNMOVED):
            problems.append(f"{kind}: {name} has no gradient to compare")
    return problems


if __name__ == "__main__":
    found = main(sys.argv[1], pathlib.Path(sys.argv[2]))
    for problem in found:
        print(problem)
    sys.exit(bool(found))
