"""What PyTorch's optimizers, clip_grad_norm_, clip_grad_value_ and AveragedModel, and Lookahead around them, make of a
linear layer: the figures of src/train/update_figures.h. Computed in double precision.

  python tests/oracle/update_figures.py > src/train/update_figures.h
"""
import torch
from torch.nn import BCEWithLogitsLoss, HuberLoss, L1Loss, MSELoss
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BATCH, INPUTS, CLASSES, UPDATES = 4, 2, 3, 6


def number(i):
    """The test's own sequence of numbers in [-1, 1)."""
    return ((i * 2654435761) % 4294967296) / 2147483648 - 1


def sample(batch):
    first = 1000 + batch * BATCH * INPUTS
    x = torch.tensor([number(first + i) for i in range(BATCH * INPUTS)], dtype=torch.float64).reshape(BATCH, INPUTS)
    return x, torch.tensor([(batch + i) % CLASSES for i in range(BATCH)])


def numbers(batch):
    """Targets that are numbers; those above 0 are the labels."""
    first = 5000 + batch * BATCH * CLASSES
    return torch.tensor([2 * number(first + i) for i in range(BATCH * CLASSES)], dtype=torch.float64).reshape(BATCH, CLASSES)


def targets_of(loss, batch, y):
    if loss is None:
        return y
    return (numbers(batch) > 0).double() if isinstance(loss, BCEWithLogitsLoss) else numbers(batch)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(
            torch.tensor([number(i + 1) for i in range(INPUTS * CLASSES)], dtype=torch.float64).reshape(INPUTS, CLASSES))
        self.b = torch.nn.Parameter(torch.tensor([number(i + 101) for i in range(CLASSES)], dtype=torch.float64))

    def forward(self, x):
        return x @ self.w + self.b


class Einsum(Net):
    def forward(self, x):
        return torch.einsum("bi,ic,c->bc", x, self.w, self.b)


def train(adamw=False, decay=0.0, rate_b=1.0, decay_b=None, norm=0.0, value=0.0, accumulate=1, average=0.0, mix=1.0, weights=None,
          nesterov=False, lookahead=0, share=lambda done: 0.5, smoothing=0.0, loss_of=None, net_of=Net):
    net = net_of()
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(average)) if average else None
    net.b.requires_grad = rate_b > 0
    groups = [{"params": [net.w]}]
    if rate_b > 0:
        groups.append({"params": [net.b], "lr": 0.1 * rate_b, "weight_decay": decay if decay_b is None else decay_b})
    if adamw:
        optimizer = torch.optim.AdamW(groups, lr=0.1, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=decay, nesterov=nesterov)
    slow = [p.detach().clone() for p in net.parameters()]
    for update in range(UPDATES):
        optimizer.zero_grad()
        for part in range(accumulate):
            x, y = sample(update * accumulate + part)
            weight = torch.tensor(weights, dtype=torch.float64) if weights else None
            y = targets_of(loss_of, update * accumulate + part, y)
            of = loss_of or (lambda scores, y: cross_entropy(scores, y, weight=weight, label_smoothing=smoothing))
            loss = mix * of(net(x), y) + (1 - mix) * of(net(x), y.flip(0))
            (loss / accumulate).backward()
        if value:
            torch.nn.utils.clip_grad_value_(net.parameters(), value)
        if norm:
            torch.nn.utils.clip_grad_norm_(net.parameters(), norm)
        optimizer.step()
        if ema:
            ema.update_parameters(net)
        if lookahead and (update + 1) % lookahead == 0:
            for kept, p in zip(slow, net.parameters()):
                kept += share((update + 1) / UPDATES) * (p.detach() - kept)
                p.data.copy_(kept)
    if lookahead:
        for kept, p in zip(slow, net.parameters()):
            p.data.copy_(kept)
    net = ema.module if ema else net
    return [f"{v:.9f}" for v in net.w.detach().flatten().tolist() + net.b.detach().tolist()]


WEIGHTS = torch.tensor([0.5, 2.0, 1.25], dtype=torch.float64)
CASES = [
    ("plain", dict(decay=0.1)),
    ("einsum", dict(net_of=Einsum)),
    ("clip norm", dict(norm=0.05)),
    ("clip value", dict(value=0.02)),
    ("clip value and norm", dict(value=0.05, norm=0.06)),
    ("accumulate", dict(accumulate=3)),
    ("accumulate, adamw, clip norm", dict(accumulate=3, adamw=True, norm=0.05, decay=0.1)),
    ("group", dict(decay=0.1, rate_b=0.25, decay_b=0.5)),
    ("no bias decay", dict(decay=0.5, decay_b=0.0)),
    ("frozen", dict(decay=0.1, rate_b=0.0)),
    ("class weights", dict(weights=[0.5, 2.0, 1.25])),
    ("class weights and smoothing", dict(weights=[0.5, 2.0, 1.25], smoothing=0.2)),
    ("mixup", dict(mix=0.3)),
    ("mixup, accumulate, class weights", dict(mix=0.3, accumulate=3, weights=[0.5, 2.0, 1.25])),
    ("average", dict(average=0.75)),
    ("average, accumulate", dict(average=0.75, accumulate=3)),
    ("nesterov", dict(nesterov=True, decay=0.1)),
    ("lookahead", dict(lookahead=2)),
    ("lookahead, adamw, accumulate, clip norm", dict(lookahead=4, adamw=True, accumulate=3, norm=0.05, decay=0.1)),
    ("lookahead to the end", dict(lookahead=2, share=lambda done: 1 - 0.75 * done ** 3)),
    ("labels", dict(loss_of=BCEWithLogitsLoss())),
    ("labels, class weights", dict(loss_of=BCEWithLogitsLoss(weight=WEIGHTS))),
    ("labels, positive weights", dict(loss_of=BCEWithLogitsLoss(pos_weight=WEIGHTS))),
    ("labels, mixup, accumulate, class weights, positive weights",
     dict(loss_of=BCEWithLogitsLoss(weight=WEIGHTS, pos_weight=WEIGHTS), mix=0.3, accumulate=3)),
    ("numbers", dict(loss_of=MSELoss())),
    ("numbers, mixup, accumulate", dict(loss_of=MSELoss(), mix=0.3, accumulate=3)),
    ("numbers, absolute", dict(loss_of=L1Loss())),
    ("numbers, huber", dict(loss_of=HuberLoss(delta=0.75))),
]

print("/* Written by tests/oracle/update_figures.py: w and b of a linear layer after six updates. */")
print("static const struct {\n  const char *name;\n  double expected[9];\n} kFigures[] = {")
for name, options in CASES:
    print(f'    {{"{name}", {{{", ".join(train(**options))}}}}},')
print("};")
